//! The parser of conditions.

use super::{Comparison, Condition, Literal};
use phalanx_base::{Code, Error, Result};

/// The maximum depth of parentheses and `not`.
const DEEPEST: usize = 64;

pub(super) fn parse(text: &str) -> Result<Condition> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let condition = parser.any_of()?;
    match parser.peek() {
        None => Ok(condition),
        Some(_) => Err(parser.expected("`and`, `or`, or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn expected(&self, what: &str) -> Error {
        let place = self.text[..self.at].chars().count() + 1;
        let found = match self.text[self.at..].split_whitespace().next() {
            Some(word) => format!("{word:?}"),
            None => "the end".to_owned(),
        };
        Error::new(Code::BadSetting, format!("the filter {:?} is not a condition", self.text))
            .because(format!("at character {place} there is {found}, not {what}"))
            .help("write comparisons such as age >= 18 and country != \"XX\"; see RowFilter for all forms")
    }

    /// The next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    /// Takes a symbol, if it comes next.
    fn takes(&mut self, symbol: &str) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    /// The word that comes next, without taking it.
    fn word(&mut self) -> &'a str {
        self.peek();
        let rest = &self.text[self.at..];
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let starts = rest.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if starts { &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())] } else { "" }
    }

    /// Takes a keyword, in any case, if it comes next.
    fn takes_word(&mut self, keyword: &str) -> bool {
        let found = self.word().eq_ignore_ascii_case(keyword);
        if found {
            self.at += keyword.len();
        }
        found
    }

    fn any_of(&mut self) -> Result<Condition> {
        let mut all = vec![self.all_of()?];
        while self.takes_word("or") {
            all.push(self.all_of()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::Or(all) })
    }

    fn all_of(&mut self) -> Result<Condition> {
        let mut all = vec![self.one()?];
        while self.takes_word("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::And(all) })
    }

    fn one(&mut self) -> Result<Condition> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.expected(&format!("at most {DEEPEST} levels of parentheses")));
        }
        let condition = if self.takes_word("not") {
            Condition::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.any_of()?;
            if !self.takes(")") {
                return Err(self.expected("`)`"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn column(&mut self) -> Result<String> {
        if self.peek() == Some('`') {
            let rest = &self.text[self.at + 1..];
            let Some(end) = rest.find('`').filter(|&end| end > 0) else { return Err(self.expected("a name in ` `")) };
            self.at += end + 2;
            return Ok(rest[..end].to_owned());
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.expected("the name of a column"));
        }
        self.at += word.len();
        Ok(word.to_owned())
    }

    fn comparison(&mut self) -> Result<Condition> {
        let column = self.column()?;
        if self.takes_word("is") {
            let negated = self.takes_word("not");
            return match self.takes_word("missing") {
                true => Ok(Condition::Missing { column, negated }),
                false => Err(self.expected("`missing` or `not missing`")),
            };
        }
        let negated = self.takes_word("not");
        if self.takes_word("in") {
            return Ok(Condition::In { column, literals: self.literals()?, negated });
        }
        // Longer symbols first.
        let symbols = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("=", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        match symbols.into_iter().find(|(symbol, _)| !negated && self.takes(symbol)) {
            Some((_, comparison)) => Ok(Condition::Compare { column, comparison, literal: self.literal()? }),
            None => Err(self.expected("a comparison such as ==, or `in`, or `is missing`")),
        }
    }

    fn literals(&mut self) -> Result<Vec<Literal>> {
        if !self.takes("[") {
            return Err(self.expected("a list in [ ]"));
        }
        let mut literals = vec![self.literal()?];
        while self.takes(",") {
            literals.push(self.literal()?);
        }
        if self.takes("]") { Ok(literals) } else { Err(self.expected("`,` or `]`")) }
    }

    fn literal(&mut self) -> Result<Literal> {
        const WANTED: &str = "a number, or a text in quotes";
        match self.peek() {
            Some(quote @ ('"' | '\'')) => {
                let rest = &self.text[self.at + 1..];
                let Some(end) = rest.find(quote) else { return Err(self.expected("a text that ends")) };
                self.at += end + 2;
                Ok(Literal::Text(rest[..end].to_owned()))
            }
            _ => {
                let rest = &self.text[self.at..];
                let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
                let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
                let whole = word.trim_start_matches(['+', '-']).bytes().all(|byte| byte.is_ascii_digit());
                let literal = match whole && !word.is_empty() {
                    true => word.parse().ok().map(Literal::Integer),
                    false => word.parse::<f64>().ok().filter(|number| number.is_finite()).map(Literal::Number),
                };
                let literal = literal.ok_or_else(|| self.expected(WANTED))?;
                self.at += word.len();
                Ok(literal)
            }
        }
    }
}
