//! `StringLookup`, `IntegerLookup`: values become their places in a vocabulary, and come back.

mod adapt;
pub(crate) mod file;
mod integer_keys;
mod keys;
mod numbers;
mod refusal;
mod string_keys;
mod words;

pub(crate) use keys::Keys;
pub(crate) use numbers::Numbers;
pub(crate) use words::Words;

use crate::encode::{OutputMode, encode};
use crate::layout::in_layout_of;
use crate::{PreprocessingLayer, numbers::each_i64};
use keys::Rule;
use phalanx_base::Result;
use phalanx_data::Column;
use refusal::{setting, vocabulary};
use std::path::Path;
use std::sync::Arc;

/// Keras' `StringLookup`: byte strings to indices, or back.
///
/// ```
/// use phalanx_data::{Batch, Column, Dataset};
/// use phalanx_feature::{PreprocessingLayer, StringLookup};
/// let rows = Batch::new([("job", Column::text(["clerk", "cook", "clerk", "smith"]))])?;
/// let data = Dataset::from_tensor_slices(rows);
///
/// let jobs = StringLookup::new().max_tokens(3).adapt(&data, "job")?;
/// assert_eq!(jobs.get_vocabulary(true).iter().collect::<Vec<_>>(), [&b"[UNK]"[..], b"clerk", b"smith"]);
///
/// let ids = data.batch(4).map(move |batch| jobs.apply(&batch, "job"));
/// assert_eq!(ids.iter()?.next().unwrap()?.i64("job")?, [1, 0, 1, 2]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub type StringLookup = Lookup<Words>;

/// Keras' `IntegerLookup`: integers to indices, or back.
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_feature::{IntegerLookup, PreprocessingLayer};
/// let ages = IntegerLookup::new().num_oov_indices(2).vocabulary([30, 20])?;
/// assert_eq!(ages.call(&Column::i64(vec![20, 30, 41, 42]))?.as_i64()?, [3, 2, 1, 0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
pub type IntegerLookup = Lookup<Numbers>;

/// A lookup layer with the settings and meanings of Keras 2.15; see [`StringLookup`] and [`IntegerLookup`].
///
/// Indices are: 0 for the mask token (where there is one and the output is integers), then the indices for unknown
/// values, then the vocabulary. With several indices for unknown values a string is given one by its fingerprint, an
/// integer by its remainder. Cloning shares the vocabulary.
#[derive(Clone, Debug)]
pub struct Lookup<K: Keys> {
    keys: Arc<K>,
    max_tokens: Option<usize>,
    num_oov_indices: usize,
    mask_token: Option<K::Token>,
    oov_token: Option<K::Token>,
    output_mode: OutputMode,
    pad_to_max_tokens: bool,
    invert: bool,
}

impl<K: Keys> Default for Lookup<K> {
    fn default() -> Self {
        Self {
            keys: Arc::default(),
            max_tokens: None,
            num_oov_indices: 1,
            mask_token: None,
            oov_token: Some(K::default_oov()),
            output_mode: OutputMode::Int,
            pad_to_max_tokens: false,
            invert: false,
        }
    }
}

impl<K: Keys> Lookup<K> {
    /// A layer with Keras' defaults and no vocabulary yet: set what differs, then give it a vocabulary or adapt it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The most indices there may be, those for masks and unknown values included.
    #[must_use]
    pub fn max_tokens(self, tokens: usize) -> Self {
        Self { max_tokens: Some(tokens), ..self }
    }

    /// How many indices unknown values share: 1, unless said otherwise. With 0 an unknown value is an error.
    #[must_use]
    pub fn num_oov_indices(self, indices: usize) -> Self {
        Self { num_oov_indices: indices, ..self }
    }

    /// The token that stands for nothing: index 0, or no trace in the modes of ones and counts.
    #[must_use]
    pub fn mask_token(self, token: impl Into<K::Token>) -> Self {
        Self { mask_token: Some(token.into()), ..self }
    }

    /// What an inverted layer returns for indices of unknown values: `[UNK]` or -1, unless said otherwise.
    #[must_use]
    pub fn oov_token(self, token: impl Into<K::Token>) -> Self {
        Self { oov_token: Some(token.into()), ..self }
    }

    /// Indices, ones or counts.
    #[must_use]
    pub fn output_mode(self, mode: OutputMode) -> Self {
        Self { output_mode: mode, ..self }
    }

    /// Makes rows of ones and counts `max_tokens` wide, however small the vocabulary.
    #[must_use]
    pub fn pad_to_max_tokens(self, pad: bool) -> Self {
        Self { pad_to_max_tokens: pad, ..self }
    }

    /// Turns the layer around: indices to tokens.
    #[must_use]
    pub fn invert(self, invert: bool) -> Self {
        Self { invert, ..self }
    }

    /// Sets the vocabulary; it may begin with the layer's special tokens.
    ///
    /// # Errors
    /// When it is empty, has a token twice or a special token among the others, or is larger than `max_tokens`.
    pub fn vocabulary<T: Into<K::Token>>(self, tokens: impl IntoIterator<Item = T>) -> Result<Self> {
        let tokens: Vec<K::Token> = tokens.into_iter().map(Into::into).collect();
        if tokens.is_empty() {
            return Err(vocabulary(K::LAYER, "it is empty").help("give it at least one token"));
        }
        let special = self.special_tokens();
        let tokens = tokens.strip_prefix(special.as_slice()).unwrap_or(&tokens);
        self.with_tokens(tokens.iter().map(|token| Ok(token.clone())))
    }

    /// Sets the vocabulary to the lines of a text file, or the records of a file named `….tfrecord.gz`.
    ///
    /// # Errors
    /// When the file cannot be read, or its tokens do not fit as in [`Lookup::vocabulary`].
    pub fn vocabulary_file(self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let lines = file::read(path, None)?;
        let parse = |line: &[u8]| {
            K::parse(line).ok_or_else(|| {
                let why = format!("{:?} is no token of this kind", String::from_utf8_lossy(line));
                vocabulary(K::LAYER, why)
            })
        };
        self.with_tokens(lines.iter().map(parse)).map_err(|error| error.at(path.display().to_string()))
    }

    fn with_tokens(mut self, tokens: impl Iterator<Item = Result<K::Token>>) -> Result<Self> {
        self.check()?;
        let mut keys = K::default();
        for token in tokens {
            let token = token?;
            if !keys.add(&token) {
                return Err(vocabulary(K::LAYER, format!("{token:?} is in it twice")).help("give every token once"));
            }
        }
        let special = "leave special tokens out, or put them first: mask, then unknown, in the numbers of the layer";
        if self.mask_token.as_ref().is_some_and(|mask| keys.has(mask)) {
            return Err(vocabulary(K::LAYER, "the mask token is among its tokens").help(special));
        }
        if self.invert && self.oov_token.as_ref().is_some_and(|oov| keys.has(oov)) {
            return Err(vocabulary(K::LAYER, "the token for unknown values is among its tokens").help(special));
        }
        let size = keys.size() + self.token_start();
        if let Some(max) = self.max_tokens.filter(|&max| size > max) {
            let why = format!("it has {size} tokens with the special ones, max_tokens is {max}");
            return Err(vocabulary(K::LAYER, why).help("raise max_tokens, or leave rare tokens out"));
        }
        self.keys = Arc::new(keys);
        Ok(self)
    }

    /// The vocabulary: with the special tokens a token's place is its index.
    #[must_use]
    pub fn get_vocabulary(&self, include_special_tokens: bool) -> K::List {
        self.keys.export(if include_special_tokens { self.special_tokens() } else { Vec::new() }.as_slice())
    }

    /// How many indices there are, the special ones included.
    #[must_use]
    pub fn vocabulary_size(&self) -> usize {
        self.token_start() + self.keys.size()
    }

    fn special_tokens(&self) -> Vec<K::Token> {
        let mask = self.mask_token.iter().take(self.oov_start());
        let unknown = self.oov_token.iter().cycle().take(self.num_oov_indices);
        mask.chain(unknown).cloned().collect()
    }

    fn oov_start(&self) -> usize {
        usize::from(self.mask_token.is_some() && self.output_mode == OutputMode::Int)
    }

    fn token_start(&self) -> usize {
        self.oov_start() + self.num_oov_indices
    }

    /// Checks what the types cannot; cheap enough for every call.
    fn check(&self) -> Result<()> {
        if let Some(max) = self.max_tokens.filter(|&max| max <= 1) {
            return Err(setting(K::LAYER, format!("max_tokens is {max}, it must be more than 1")));
        }
        if self.pad_to_max_tokens && self.max_tokens.is_none() {
            return Err(setting(K::LAYER, "pad_to_max_tokens needs max_tokens"));
        }
        if self.invert && self.output_mode != OutputMode::Int {
            return Err(setting(K::LAYER, "an inverted lookup returns tokens, so its output mode is Int"));
        }
        if self.num_oov_indices > i64::MAX as usize / 2 {
            return Err(setting(K::LAYER, "num_oov_indices is out of range"));
        }
        Ok(())
    }

    fn rule(&self) -> Rule<K::Token> {
        Rule {
            mask: self.mask_token.clone(),
            // Out of every range, so that ones and counts drop it.
            mask_id: if self.output_mode == OutputMode::Int { 0 } else { i64::MAX },
            oov: self.oov_token.clone(),
            oov_start: self.oov_start() as i64,
            num_oov: self.num_oov_indices as i64,
        }
    }
}

impl<K: Keys> PreprocessingLayer for Lookup<K> {
    fn call(&self, column: &Column) -> Result<Column> {
        self.check()?;
        if self.keys.size() == 0 {
            return Err(vocabulary(K::LAYER, "it has none yet").help("give it a vocabulary, or adapt it to data"));
        }
        if self.invert {
            let mut ids = Vec::new();
            each_i64(column, |id| ids.push(id))?;
            return in_layout_of(column, self.keys.tokens(&ids, &self.rule()));
        }
        let ids = self.keys.ids(column, &self.rule())?;
        let depth = self.max_tokens.filter(|_| self.pad_to_max_tokens).unwrap_or_else(|| self.vocabulary_size());
        encode(ids, column, self.output_mode, depth)
    }
}
