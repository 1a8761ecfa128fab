//! The `checkpoint` file: which checkpoints there are, and which is the newest.

use super::text::{TextValue, fields};
use phalanx_base::{Code, Error, Result, Snippet};

/// What the file `checkpoint` beside the checkpoints says. Its paths are relative to its folder, or absolute.
///
/// ```
/// use phalanx_formats::bundle::CheckpointState;
/// let state = CheckpointState::parse(b"model_checkpoint_path: \"model.ckpt-7\"\n").unwrap();
/// assert_eq!(state.latest.as_deref(), Some("model.ckpt-7"));
/// assert_eq!(state.to_string(), "model_checkpoint_path: \"model.ckpt-7\"\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointState {
    /// The newest checkpoint (`model_checkpoint_path`).
    pub latest: Option<String>,
    /// All that are kept, oldest first (`all_model_checkpoint_paths`).
    pub all: Vec<String>,
    /// When each of `all` was saved, in seconds since 1970 (`all_model_checkpoint_timestamps`); may be left out.
    pub timestamps: Vec<f64>,
    /// When the last checkpoint that is kept for good was saved.
    pub last_preserved: Option<f64>,
}

impl CheckpointState {
    /// Reads the file. Fields that we do not know are passed over.
    ///
    /// # Errors
    /// When it is not protobuf's text format, or a field has the wrong type.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let (mut state, mut filled) = (Self::default(), Ok(()));
        let parsed = fields(text, &mut |name, value| {
            if filled.is_ok() {
                filled = state.fill(name, value);
            }
        });
        parsed.map_err(|(at, why)| {
            let shown = String::from_utf8_lossy(text);
            // Bytes that are no text become longer ones when shown; then the place would be another.
            let error = unreadable(why);
            if shown.len() == text.len() {
                error.snippet(Snippet::new("checkpoint", &shown, at..at, why))
            } else {
                error
            }
        })?;
        filled?;
        // An empty path is how a field without a value looks to protobuf.
        state.latest = state.latest.filter(|path| !path.is_empty());
        Ok(state)
    }

    /// Takes one field.
    fn fill(&mut self, name: &str, value: TextValue) -> Result<()> {
        match (name, value) {
            ("model_checkpoint_path", TextValue::Bytes(path)) => self.latest = Some(utf8(path)?),
            ("all_model_checkpoint_paths", TextValue::Bytes(path)) => self.all.push(utf8(path)?),
            ("all_model_checkpoint_timestamps", TextValue::Word(time)) => self.timestamps.push(number(&time)?),
            ("last_preserved_timestamp", TextValue::Word(time)) => self.last_preserved = Some(number(&time)?),
            (
                "model_checkpoint_path"
                | "all_model_checkpoint_paths"
                | "all_model_checkpoint_timestamps"
                | "last_preserved_timestamp",
                _,
            ) => return Err(unreadable(format!("{name} has a value of the wrong type"))),
            _ => {}
        }
        Ok(())
    }
}

impl std::fmt::Display for CheckpointState {
    /// The text of the file.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(path) = &self.latest {
            writeln!(f, "model_checkpoint_path: \"{}\"", Escaped(path))?;
        }
        for path in &self.all {
            writeln!(f, "all_model_checkpoint_paths: \"{}\"", Escaped(path))?;
        }
        for time in &self.timestamps {
            writeln!(f, "all_model_checkpoint_timestamps: {}", Time(*time))?;
        }
        match self.last_preserved {
            Some(time) => writeln!(f, "last_preserved_timestamp: {}", Time(time)),
            None => Ok(()),
        }
    }
}

fn unreadable(why: impl std::fmt::Display) -> Error {
    Error::new(Code::DataFormat, "the file `checkpoint` cannot be read").because(why)
}

struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                b'\t' => f.write_str("\\t")?,
                b'"' | b'\'' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                byte => write!(f, "\\{byte:03o}")?,
            }
        }
        Ok(())
    }
}

struct Time(f64);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_nan() { f.write_str("nan") } else { write!(f, "{:?}", self.0) }
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(Code::DataFormat, "a checkpoint's path is not UTF-8"))
}

/// Numbers may end in `f`.
fn number(text: &str) -> Result<f64> {
    let digits = text.strip_suffix(['f', 'F']).filter(|rest| rest.ends_with(|c: char| c.is_ascii_digit() || c == '.'));
    let number = digits.unwrap_or(text).parse();
    number.map_err(|_| Error::new(Code::DataFormat, format!("{text:?} in the file `checkpoint` is not a time")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn everything_that_the_text_format_allows() {
        let text = br#"
            # written by hand
            model_checkpoint_path: 'a\x2fb' "\143\n\"\u00e9";
            all_model_checkpoint_paths: ["x", 'y'], unknown { deep < a: 1 > b: [1, 2] }
            all_model_checkpoint_timestamps: 1.7e9 all_model_checkpoint_timestamps: 5f
            [some.extension]: 5 other: -3 last_preserved_timestamp: inf
        "#;
        let state = CheckpointState::parse(text).unwrap();
        assert_eq!(state.latest.as_deref(), Some("a/bc\n\"é"));
        assert_eq!(state.all, ["x", "y"]);
        assert_eq!(state.timestamps, [1.7e9, 5.0]);
        assert_eq!(state.last_preserved, Some(f64::INFINITY));
        assert_eq!(CheckpointState::parse(b"").unwrap(), CheckpointState::default());
    }

    #[test]
    fn what_is_not_the_text_format() {
        let deep = format!("a{}", "{a".repeat(5000));
        for text in [
            "model_checkpoint_path: \"x",
            "model_checkpoint_path \"x\"",
            "model_checkpoint_path: 5",
            "}",
            "a: [1",
            "a: \"\\q\"",
            "a {",
            "model_checkpoint_path: \"\\377\"",
            "last_preserved_timestamp: abc",
            "a: \"x\ny\"",
            &deep,
        ] {
            assert!(CheckpointState::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn states_come_back(latest in proptest::option::of(".{1,20}"), all in proptest::collection::vec(".{0,20}", 0..5),
            timestamps in proptest::collection::vec(-1e18..1e18_f64, 0..5), last_preserved: Option<u32>)
        {
            let state = CheckpointState { latest, all, timestamps, last_preserved: last_preserved.map(f64::from) };
            prop_assert_eq!(CheckpointState::parse(state.to_string().as_bytes()).unwrap(), state);
        }

        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = CheckpointState::parse(&bytes);
        }

        #[test]
        fn any_text_is_handled(text in "[a-c:\\[\\]{}<>\"'\\\\x0-9, \n#u]{0,60}") {
            let _ = CheckpointState::parse(text.as_bytes());
        }
    }
}
