//! Walks over the fields of one row.
//!
//! Hot: nothing here allocates but the scratch for quotes inside of quotes. The rules are TensorFlow's (RFC 4180, and a
//! bare carriage return ends a row too).

/// What the text looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    pub(super) quotes: bool,
}

/// The result of walking over a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// A row of `fields` fields and `lines` lines; `next` and `mark` are where the next row starts.
    Row { fields: usize, next: usize, mark: usize, lines: u64 },
    /// The row continues after the text in memory.
    More,
    /// It breaks the rules of quotes, in this field.
    Broken { field: usize, why: &'static str },
}

/// The text in memory and the position of a row in it.
#[derive(Clone, Copy)]
pub(super) struct RowCursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) marks: &'a [u32],
    pub(super) row: usize,
    pub(super) mark: usize,
    /// Whether the text's end is the file's end.
    pub(super) ended: bool,
}

/// Hands every field of the row to `each`, with its number.
#[inline]
pub(super) fn walk(
    place: RowCursor<'_>,
    dialect: Dialect,
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(usize, &[u8]),
) -> Walk {
    let RowCursor { text, marks, row: mut start, mut mark, ended } = place;
    let (mut fields, mut lines) = (0, 1);
    loop {
        let Some(&at) = marks.get(mark) else {
            if !ended {
                return Walk::More;
            }
            each(fields, &text[start..]);
            return Walk::Row { fields: fields + 1, next: text.len(), mark, lines };
        };
        let mut at = at as usize;
        let mut byte = text[at];
        if byte == dialect.delimiter {
            each(fields, &text[start..at]);
        } else if byte == b'"' {
            if at != start {
                return Walk::Broken { field: fields, why: "a field that is not in quotes has a quote inside" };
            }
            let quoted = match quoted(place, mark, scratch) {
                Ok(Some(quoted)) => quoted,
                Ok(None) => return Walk::More,
                Err(why) => return Walk::Broken { field: fields, why },
            };
            lines += quoted.lines;
            let body = if quoted.escaped { scratch.as_slice() } else { &text[start + 1..quoted.close] };
            each(fields, body);
            mark = quoted.mark;
            at = quoted.close + 1;
            let Some(&after) = text.get(at) else {
                return Walk::Row { fields: fields + 1, next: text.len(), mark, lines };
            };
            byte = after;
        } else {
            each(fields, &text[start..at]);
        }
        fields += 1;
        mark += 1;
        start = at + 1;
        if byte == dialect.delimiter {
            continue;
        }
        if byte == b'\r' {
            match text.get(start) {
                Some(b'\n') => (start, mark) = (start + 1, mark + 1),
                None if !ended => return Walk::More,
                _ => {}
            }
        }
        return Walk::Row { fields, next: start, mark, lines };
    }
}

struct Quoted {
    /// Where the closing quote is.
    close: usize,
    /// The mark after the closing quote.
    mark: usize,
    /// Whether the field's value is in the scratch, because it has doubled quotes.
    escaped: bool,
    lines: u64,
}

/// Finds the end of the field whose opening quote is at `open` in the marks; `None` where it is not in memory.
fn quoted(place: RowCursor<'_>, open: usize, scratch: &mut Vec<u8>) -> Result<Option<Quoted>, &'static str> {
    let RowCursor { text, marks, ended, .. } = place;
    let more = |why| if ended { Err(why) } else { Ok(None) };
    let mut from = marks[open] as usize + 1;
    let (mut mark, mut lines, mut escaped) = (open + 1, 0, false);
    loop {
        let Some(&at) = marks.get(mark) else { return more("the file ends inside of quotes") };
        let at = at as usize;
        match text[at] {
            b'"' => match text.get(at + 1) {
                None if !ended => return Ok(None),
                Some(b'"') => {
                    if !escaped {
                        scratch.clear();
                        escaped = true;
                    }
                    scratch.extend_from_slice(&text[from..=at]);
                    (from, mark) = (at + 2, mark + 2);
                    continue;
                }
                next => {
                    // A delimiter or a line's end is a mark, so the next mark must be right here.
                    if next.is_some() && marks.get(mark + 1) != Some(&(at as u32 + 1)) {
                        return Err("something follows the closing quote (a quote inside is written twice)");
                    }
                    if escaped {
                        scratch.extend_from_slice(&text[from..at]);
                    }
                    return Ok(Some(Quoted { close: at, mark: mark + 1, escaped, lines }));
                }
            },
            b'\n' => lines += 1,
            _ => {}
        }
        mark += 1;
    }
}

/// Where the line ends that begins at `row`: what follows a row that breaks the rules.
pub(super) fn line_end(place: RowCursor<'_>) -> Option<(usize, usize)> {
    let newline = |&at: &u32| matches!(place.text[at as usize], b'\n' | b'\r');
    match place.marks[place.mark..].iter().position(newline) {
        Some(far) => {
            let (mut mark, mut next) = (place.mark + far + 1, place.marks[place.mark + far] as usize + 1);
            if place.text[next - 1] == b'\r' {
                match place.text.get(next) {
                    Some(b'\n') => (mark, next) = (mark + 1, next + 1),
                    None if !place.ended => return None,
                    _ => {}
                }
            }
            Some((next, mark))
        }
        None => place.ended.then_some((place.text.len(), place.marks.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::Marks;
    use super::*;

    const COMMA: Dialect = Dialect { delimiter: b',', quotes: true };

    fn rows(text: &str, ended: bool) -> (Vec<Vec<String>>, Walk) {
        let mut marks = Vec::new();
        Marks::new(COMMA.delimiter, COMMA.quotes).find(text.as_bytes(), 0, &mut marks);
        let (mut row, mut mark, mut rows) = (0, 0, Vec::new());
        loop {
            let mut fields = Vec::new();
            let place = RowCursor { text: text.as_bytes(), marks: &marks, row, mark, ended };
            let walked = walk(place, COMMA, &mut Vec::new(), |_, field| {
                fields.push(String::from_utf8(field.to_vec()).unwrap());
            });
            let Walk::Row { fields: count, next, mark: next_mark, .. } = walked else { return (rows, walked) };
            assert_eq!(count, fields.len());
            rows.push(fields);
            (row, mark) = (next, next_mark);
            if row == text.len() {
                return (rows, walked);
            }
        }
    }

    #[test]
    fn fields_and_rows() {
        let read = |text| rows(text, true).0;
        assert_eq!(read("a,b\nc,d"), [["a", "b"], ["c", "d"]]);
        assert_eq!(read("a,\"b,\nc\"\r\n,"), [["a", "b,\nc"], ["", ""]]);
        assert_eq!(read("\"a\"\"b\",\"\"\"\",\"\"\n"), [["a\"b", "\"", ""]]);
        assert_eq!(read("a\rb\r\nc\r"), [["a"], ["b"], ["c"]]);
        assert_eq!(read("\"x\""), [["x"]]);
        assert_eq!(read("a,b,"), [["a", "b", ""]]);
    }

    #[test]
    fn a_row_is_whole_only_when_its_end_is_known() {
        for text in ["a", "a,b", "\"a", "\"a\"", "\"a\"\"", "a\r", "\"a\nb"] {
            assert_eq!(rows(text, false).1, Walk::More, "{text:?}");
        }
        assert_eq!(rows("a\n", false).0, [["a"]]);
    }

    #[test]
    fn quotes_in_the_wrong_place() {
        for (text, field) in [("a,b\"c\n", 1), ("\"a\"b\n", 0), ("x,\"a\n", 1), ("a, \"b\"\n", 1)] {
            assert!(matches!(rows(text, true).1, Walk::Broken { field: at, .. } if at == field), "{text:?}");
        }
    }
}
