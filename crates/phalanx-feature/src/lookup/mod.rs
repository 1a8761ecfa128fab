//! `StringLookup` and `IntegerLookup`: values to vocabulary indices and back.

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

use crate::encode::{OutputMode, encode, encode_graph, encoded_shape};
use crate::layout::in_layout_of;
use crate::{GraphTensor, PreprocessingLayer, numbers::each_i64};
use keys::Rule;
use phalanx_base::Result;
use phalanx_data::{Column, DType};
use phalanx_formats::saved_model::GraphBuilder;
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

/// A lookup layer with the settings and semantics of Keras 2.15; see [`StringLookup`] and [`IntegerLookup`].
///
/// Index 0 is the mask token (if there is one and the output is integers), followed by the indices for unknown values and
/// the vocabulary. Of several indices for unknown values, a string's fingerprint or an integer's remainder selects one.
/// Clones share the vocabulary.
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
    /// Returns a layer with Keras' defaults and no vocabulary: change its settings, then set a vocabulary or adapt it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the maximum number of indices, including those for masks and unknown values.
        max_tokens: usize => max_tokens;
        /// Sets the number of indices for unknown values. The default is 1; with 0, an unknown value is an error.
        num_oov_indices: usize => num_oov_indices;
    }

    /// Sets the mask token: it gets index 0, or is dropped in the modes of ones and counts.
    #[must_use]
    pub fn mask_token(self, token: impl Into<K::Token>) -> Self {
        Self { mask_token: Some(token.into()), ..self }
    }

    /// Sets the token that an inverted layer returns for unknown values. The default is `[UNK]` or -1.
    #[must_use]
    pub fn oov_token(self, token: impl Into<K::Token>) -> Self {
        Self { oov_token: Some(token.into()), ..self }
    }

    setters! {
        /// Sets the output: indices, ones or counts.
        output_mode: OutputMode => output_mode;
        /// Sets whether rows of ones and counts are `max_tokens` wide, even for a smaller vocabulary.
        pad_to_max_tokens: bool => pad_to_max_tokens;
        /// Sets whether to invert the layer: indices to tokens.
        invert: bool => invert;
    }

    /// Sets the vocabulary, which may start with the layer's special tokens.
    ///
    /// # Errors
    /// If it is empty, has duplicates or special tokens among the others, or is larger than `max_tokens`.
    pub fn vocabulary<T: Into<K::Token>>(self, tokens: impl IntoIterator<Item = T>) -> Result<Self> {
        let tokens: Vec<K::Token> = tokens.into_iter().map(Into::into).collect();
        if tokens.is_empty() {
            return Err(vocabulary(K::LAYER, "it is empty").help("give it at least one token"));
        }
        let special = self.special_tokens();
        let tokens = tokens.strip_prefix(special.as_slice()).unwrap_or(&tokens);
        self.with_tokens(tokens.iter().map(|token| Ok(token.clone())))
    }

    /// Sets the vocabulary to the lines of a text file, or to the records of a file named `….tfrecord.gz`.
    ///
    /// # Errors
    /// If the file cannot be read, or as [`Lookup::vocabulary`].
    pub fn vocabulary_file(self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let lines = file::read(path, None)?;
        let parse = |line: &[u8]| {
            K::parse(line).ok_or_else(|| {
                let why = format!("{:?} is not a token of this type", String::from_utf8_lossy(line));
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
                return Err(vocabulary(K::LAYER, format!("{token:?} occurs twice")).help("give every token once"));
            }
        }
        let special =
            "leave special tokens out, or put them first: the mask, then as many unknown tokens as the layer has";
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

    /// Returns the vocabulary. If it includes the special tokens, the position of a token is its index.
    #[must_use]
    pub fn get_vocabulary(&self, include_special_tokens: bool) -> K::List {
        self.keys.export(if include_special_tokens { self.special_tokens() } else { Vec::new() }.as_slice())
    }

    /// Returns the number of indices, including the special ones.
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

    /// Checks the settings; cheap enough for every call.
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
            // Out of range, so that ones and counts drop it.
            mask_id: if self.output_mode == OutputMode::Int { 0 } else { i64::MAX },
            oov: self.oov_token.clone(),
            oov_start: self.oov_start() as i64,
            num_oov: self.num_oov_indices as i64,
        }
    }
}

impl<K: Keys> Lookup<K> {
    fn check_vocabulary(&self) -> Result<()> {
        self.check()?;
        if self.keys.size() == 0 {
            return Err(vocabulary(K::LAYER, "it has none yet").help("set a vocabulary, or adapt the layer to data"));
        }
        Ok(())
    }

    /// The width of rows of ones and counts.
    fn depth(&self) -> usize {
        self.max_tokens.filter(|_| self.pad_to_max_tokens).unwrap_or_else(|| self.vocabulary_size())
    }
}

impl<K: Keys> PreprocessingLayer for Lookup<K> {
    fn call(&self, column: &Column) -> Result<Column> {
        self.check_vocabulary()?;
        if self.invert {
            let mut ids = Vec::new();
            each_i64(column, |id| ids.push(id))?;
            return in_layout_of(column, self.keys.tokens(&ids, &self.rule()));
        }
        let ids = self.keys.ids(column, &self.rule())?;
        encode(ids, column, self.output_mode, self.depth())
    }

    fn kind(&self) -> &'static str {
        K::LAYER
    }

    fn input_type(&self) -> DType {
        if self.invert { DType::I64 } else { K::TYPE }
    }

    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.check_vocabulary()?;
        Ok(encoded_shape(input, self.output_mode, self.depth()))
    }

    fn graph(&self, graph: &mut GraphBuilder, input: GraphTensor, dims: &[usize]) -> Result<GraphTensor> {
        self.check_vocabulary()?;
        if self.invert {
            let ids = input.integers(graph)?;
            return Ok(self.keys.tokens_graph(graph, ids, &self.rule()));
        }
        if self.num_oov_indices == 0 {
            return Err(setting(K::LAYER, "without indices for unknown values, a graph cannot refuse them")
                .help("set num_oov_indices to 1 for the exported model"));
        }
        // Out of range, so that ones and counts drop it.
        let rule = self.rule();
        let rule = Rule { mask_id: if rule.mask_id == 0 { 0 } else { -1 }, ..rule };
        let ids = self.keys.ids_graph(graph, input, &rule)?;
        encode_graph(graph, ids, dims, self.output_mode, self.depth())
    }
}
