//! Strings and their escapes.

use super::{Reader, SyntaxError};
use crate::node::Text;

impl Reader<'_> {
    pub(super) fn string(&mut self) -> Result<Text, SyntaxError> {
        let start = self.at;
        let mut out = Text { text: String::new(), broken: false };
        self.at += 1;
        loop {
            let plain = self.rest().find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(self.rest().len());
            out.text.push_str(&self.text[self.at..self.at + plain]);
            self.at += plain;
            match self.peek() {
                None => return Err(self.error(start..start + 1, "this string has no end")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(start, &mut out)?,
                Some(_) => {
                    let fault = self.error(self.at..self.at + 1, "a control character inside of a string");
                    return Err(fault.with("write line breaks in a string as \\n, tabs as \\t; or a `\"` is missing"));
                }
            }
        }
    }

    fn escape(&mut self, start: usize, out: &mut Text) -> Result<(), SyntaxError> {
        let plain = match self.text.as_bytes().get(self.at + 1) {
            None => return Err(self.error(start..start + 1, "this string has no end")),
            Some(b'u') => return self.unicode(out),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(&c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(_) => {
                let fault = self.error(self.at..self.at + 1, "no such escape");
                return Err(fault.with("write a backslash as \\\\"));
            }
        };
        self.at += 2;
        out.text.push(plain);
        Ok(())
    }

    fn unicode(&mut self, out: &mut Text) -> Result<(), SyntaxError> {
        let first = self.unit()?;
        let mut c = char::from_u32(first);
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with("\\u") {
            let back = self.at;
            let second = self.unit()?;
            if (0xdc00..0xe000).contains(&second) {
                c = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            } else {
                self.at = back;
            }
        }
        out.broken |= c.is_none();
        out.text.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    /// Reads `\uXXXX`.
    fn unit(&mut self) -> Result<u32, SyntaxError> {
        let hex = self.rest().get(2..6).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let unit = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let unit = unit.ok_or_else(|| self.error(self.at..self.at + 2, "expected four hexadecimal digits"))?;
        self.at += 6;
        Ok(unit)
    }
}
