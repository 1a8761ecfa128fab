//! The vocabulary of a categorical column: a list, or a file that is read on first use.

use crate::lookup::{Keys, Numbers, Words, file};
use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Tokens of one type.
#[derive(Debug)]
pub(crate) enum Tokens {
    Words(Words),
    Numbers(Numbers),
}

impl Tokens {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Numbers(numbers) => numbers.len(),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::Words(_) => DType::Bytes,
            Self::Numbers(_) => DType::I64,
        }
    }
}

/// A text or an integer: an entry of a vocabulary list, or the mask of a hash.
#[derive(Clone, Debug)]
pub struct VocabularyToken(Token);

#[derive(Clone, Debug)]
enum Token {
    Text(Vec<u8>),
    Integer(i64),
}

impl VocabularyToken {
    pub(crate) fn text(&self) -> Option<&[u8]> {
        match &self.0 {
            Token::Text(text) => Some(text),
            Token::Integer(_) => None,
        }
    }

    pub(crate) fn integer(&self) -> Option<i64> {
        match self.0 {
            Token::Integer(integer) => Some(integer),
            Token::Text(_) => None,
        }
    }
}

macro_rules! token_from {
    ($($type:ty => $variant:ident;)*) => {$(
        impl From<$type> for VocabularyToken {
            fn from(token: $type) -> Self {
                Self(Token::$variant(token.into()))
            }
        }
    )*};
}

token_from! {
    &str => Text;
    String => Text;
    &[u8] => Text;
    i64 => Integer;
    i32 => Integer;
}

/// The source of the tokens.
#[derive(Clone)]
pub(crate) enum Vocabulary {
    List(Arc<Tokens>),
    File { path: PathBuf, size: Option<usize>, dtype: DType, loaded: Arc<OnceLock<Result<Arc<Tokens>>>> },
}

impl Vocabulary {
    pub(crate) fn list(tokens: impl IntoIterator<Item = VocabularyToken>) -> Result<Self> {
        let mut tokens = tokens.into_iter().peekable();
        let first = tokens.peek().ok_or_else(|| wrong("it is empty"))?;
        let tokens = match first.0 {
            Token::Text(_) => Tokens::Words(collect(tokens, |token| token.text().map(<[u8]>::to_vec))?),
            Token::Integer(_) => Tokens::Numbers(collect(tokens, |token| token.integer())?),
        };
        Ok(Self::List(Arc::new(tokens)))
    }

    pub(crate) fn file(path: PathBuf, size: Option<usize>, dtype: DType) -> Self {
        Self::File { path, size, dtype, loaded: Arc::default() }
    }

    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::List(_) => "categorical_column_with_vocabulary_list",
            Self::File { .. } => "categorical_column_with_vocabulary_file",
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        match self {
            Self::List(tokens) => tokens.dtype(),
            Self::File { dtype, .. } => *dtype,
        }
    }

    /// Returns the tokens; a file is read once for all clones of the column.
    pub(crate) fn tokens(&self) -> Result<Arc<Tokens>> {
        match self {
            Self::List(tokens) => Ok(tokens.clone()),
            Self::File { path, size, dtype, loaded } => {
                let load =
                    || load(path, *size, *dtype).map(Arc::new).map_err(|error| error.at(path.display().to_string()));
                loaded.get_or_init(load).clone()
            }
        }
    }
}

fn load(path: &std::path::Path, size: Option<usize>, dtype: DType) -> Result<Tokens> {
    let lines = file::read(path, size)?;
    if let Some(size) = size.filter(|&size| size > lines.len() || size == 0) {
        return Err(wrong(format!("vocabulary_size is {size}, the file has {} tokens", lines.len())));
    }
    if lines.is_empty() {
        return Err(wrong("the file is empty"));
    }
    let lines = lines.iter();
    match dtype {
        DType::Bytes => collect(lines, <Words as Keys>::parse).map(Tokens::Words),
        _ => collect(lines, <Numbers as Keys>::parse).map(Tokens::Numbers),
    }
}

fn collect<K: Keys, T>(items: impl Iterator<Item = T>, parse: impl Fn(T) -> Option<K::Token>) -> Result<K> {
    let mut keys = K::default();
    for (index, item) in items.enumerate() {
        let token = parse(item).ok_or_else(|| wrong(format!("entry {} is of another type", index + 1)))?;
        if !keys.add(&token) {
            return Err(wrong(format!("{} occurs twice", shown(&token))));
        }
    }
    Ok(keys)
}

/// A token as the user wrote it.
fn shown(token: &dyn std::any::Any) -> String {
    match (token.downcast_ref::<Vec<u8>>(), token.downcast_ref::<i64>()) {
        (Some(text), _) => format!("{:?}", String::from_utf8_lossy(text)),
        (_, Some(integer)) => integer.to_string(),
        _ => "a token".to_owned(),
    }
}

fn wrong(why: impl std::fmt::Display) -> Error {
    Error::new(Code::BadSetting, "a vocabulary does not fit its column")
        .because(why)
        .help("give at least one token, each once, all texts or all integers")
}
