//! JSON values that are passed on as given, and written out.

/// A JSON value. Numbers keep their digits, so that nothing is lost.
///
/// ```
/// use phalanx_cluster::Json;
/// let json = Json::object([("task_id", Json::number(3)), ("task_type", Json::text("worker"))]);
/// assert_eq!(json.to_string(), r#"{"task_id": 3, "task_type": "worker"}"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`, which also stands for Python's `NaN` and `Infinity`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(String),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object, in the order of its keys' first appearance.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Creates a string.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates an integer.
    #[must_use]
    pub fn number(number: impl Into<i128>) -> Self {
        Self::Number(number.into().to_string())
    }

    /// Creates an object.
    #[must_use]
    pub fn object<K: Into<String>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// Returns the string, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl std::fmt::Display for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Number(number) => f.write_str(number),
            Self::Text(text) => write_text(f, text),
            Self::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Self::Object(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    write_text(f, key)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut std::fmt::Formatter<'_>, text: &str) -> std::fmt::Result {
    use std::fmt::Write;
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}
