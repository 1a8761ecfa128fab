//! Protobuf's text format, as far as a list of fields needs it.

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextValue {
    /// A string, its escapes resolved.
    Bytes(Vec<u8>),
    /// A number or a word, as it is written.
    Word(String),
    /// Anything with fields of its own; skipped.
    Message,
}

/// Deeper messages are not skipped but refused.
const MAX_DEPTH: usize = 64;

/// Hands the fields of a text and their values to `each`, in order; lists become one field per item. Nothing is kept
/// here: a few bytes of text would take many of memory. On error, what is wrong and the byte where.
pub(super) fn fields(text: &[u8], each: &mut dyn FnMut(&str, TextValue)) -> Result<(), (usize, &'static str)> {
    let mut parser = Parser { text, at: 0 };
    let done = parser.message(None, 0, each);
    done.map_err(|what| (parser.at.min(text.len()), what))
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

type Parsed<T> = Result<T, &'static str>;

impl Parser<'_> {
    fn message(&mut self, end: Option<u8>, depth: usize, each: &mut dyn FnMut(&str, TextValue)) -> Parsed<()> {
        if depth > MAX_DEPTH {
            return Err("messages are nested too deeply");
        }
        loop {
            match self.peek() {
                byte if byte == end => {
                    self.at += usize::from(end.is_some());
                    return Ok(());
                }
                None => return Err("a message is not closed"),
                Some(b';' | b',') => self.at += 1,
                Some(b'[') => {
                    // The name of an extension; nothing of ours has one.
                    self.until(b']')?;
                    self.value_after_name("", depth, &mut |_, _| {})?;
                }
                Some(_) => {
                    let name = self.word().ok_or("a field's name is expected")?;
                    self.value_after_name(&name, depth, each)?;
                }
            }
        }
    }

    fn value_after_name(&mut self, name: &str, depth: usize, each: &mut dyn FnMut(&str, TextValue)) -> Parsed<()> {
        let colon = self.peek() == Some(b':');
        self.at += usize::from(colon);
        match self.peek() {
            Some(b'[') => {
                self.at += 1;
                while self.peek() != Some(b']') {
                    let value = self.value(depth)?;
                    each(name, value);
                    match self.peek() {
                        Some(b',') => self.at += 1,
                        Some(b']') => {}
                        _ => return Err("a list is not closed"),
                    }
                }
                self.at += 1;
            }
            Some(b'{' | b'<') => each(name, self.value(depth)?),
            _ if !colon => return Err("a colon is expected after the field's name"),
            _ => each(name, self.value(depth)?),
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Parsed<TextValue> {
        match self.peek() {
            Some(open @ (b'{' | b'<')) => {
                self.at += 1;
                let close = if open == b'{' { b'}' } else { b'>' };
                self.message(Some(close), depth + 1, &mut |_, _| {})?;
                Ok(TextValue::Message)
            }
            Some(b'"' | b'\'') => {
                // Strings side by side are one string.
                let mut bytes = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.string(quote, &mut bytes)?;
                }
                Ok(TextValue::Bytes(bytes))
            }
            _ => self.word().map(TextValue::Word).ok_or("a value is expected"),
        }
    }

    fn string(&mut self, quote: u8, bytes: &mut Vec<u8>) -> Parsed<()> {
        self.at += 1;
        loop {
            match self.next().ok_or("a string is not closed")? {
                b'\n' => {
                    self.at -= 1;
                    return Err("a string is not closed on its line");
                }
                b'\\' => self.escape(bytes)?,
                byte if byte == quote => return Ok(()),
                byte => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Parsed<()> {
        const WRONG: &str = "an escape is not one";
        let byte = match self.next().ok_or("a string is not closed")? {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            byte @ (b'\\' | b'?' | b'\'' | b'"') => byte,
            b'0'..=b'7' => {
                self.at -= 1;
                u8::try_from(self.digits(8, 1, 3).ok_or(WRONG)?).map_err(|_| WRONG)?
            }
            b'x' | b'X' => self.digits(16, 1, 2).ok_or(WRONG)? as u8,
            kind @ (b'u' | b'U') => {
                let count = if kind == b'u' { 4 } else { 8 };
                let point = self.digits(16, count, count).and_then(char::from_u32).ok_or(WRONG)?;
                bytes.extend(point.encode_utf8(&mut [0; 4]).bytes());
                return Ok(());
            }
            _ => return Err(WRONG),
        };
        bytes.push(byte);
        Ok(())
    }

    /// A number of `least` to `most` digits.
    fn digits(&mut self, radix: u32, least: usize, most: usize) -> Option<u32> {
        let rest = self.text.get(self.at..)?;
        let count = rest.iter().take(most).take_while(|&&byte| char::from(byte).is_digit(radix)).count();
        let digits = std::str::from_utf8(&rest[..count]).ok().filter(|_| count >= least)?;
        self.at += count;
        u32::from_str_radix(digits, radix).ok()
    }

    /// A name, a number, or anything else without spaces.
    fn word(&mut self) -> Option<String> {
        self.peek()?;
        let rest = &self.text[self.at..];
        let inside = |&&byte: &&u8| byte.is_ascii_alphanumeric() || b"_.+-/".contains(&byte);
        let count = rest.iter().take_while(inside).count();
        self.at += count;
        (count > 0).then(|| String::from_utf8_lossy(&rest[..count]).into_owned())
    }

    fn until(&mut self, end: u8) -> Parsed<()> {
        while self.next().ok_or("a bracket is not closed")? != end {}
        Ok(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next byte that is neither space nor comment.
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.text.get(self.at)? {
                b'#' => self.at += self.text[self.at..].iter().take_while(|&&byte| byte != b'\n').count(),
                byte if byte.is_ascii_whitespace() || byte == 11 => self.at += 1,
                byte => return Some(byte),
            }
        }
    }
}
