//! The columns of a batch as inputs of a plan's steps.
//!
//! Hot path: fingerprints are computed once per input and batch, however many columns and crosses use them.

use crate::layout::Rows;
use crate::text::decimal;
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, DType, ValuesView};
use phalanx_formats::fingerprint::fingerprint64;
use std::cell::OnceCell;
use std::sync::Arc;

/// An input column with its cached fingerprints.
pub(super) struct Raw<'a> {
    pub(super) key: &'a Arc<str>,
    pub(super) column: &'a Column,
    pub(super) rows: Rows<'a>,
    prints: OnceCell<Vec<u64>>,
}

impl<'a> Raw<'a> {
    pub(super) fn new(key: &'a Arc<str>, column: &'a Column) -> Self {
        Self { key, column, rows: Rows::of(column), prints: OnceCell::new() }
    }

    /// The fingerprints of the values; for integers, as in TensorFlow, those of their decimal digits.
    pub(super) fn fingerprints(&self) -> Result<&[u64]> {
        if self.prints.get().is_none() {
            let prints = match self.tokens()? {
                TokensView::Texts(texts) => texts.iter().map(fingerprint64).collect(),
                TokensView::Integers(integers) => integers.iter().map(|&value| fingerprint_of(value)).collect(),
                TokensView::Small(bytes) => bytes.iter().map(|&value| fingerprint_of(value.into())).collect(),
            };
            // The cell is not shared between threads, so it is still empty.
            let _ = self.prints.set(prints);
        }
        Ok(self.prints.get().map_or(&[], Vec::as_slice))
    }

    /// The values as tokens.
    pub(super) fn tokens(&self) -> Result<TokensView<'a>> {
        match self.column.values() {
            ValuesView::Bytes(texts) => Ok(TokensView::Texts(texts)),
            ValuesView::I64(integers) => Ok(TokensView::Integers(integers)),
            ValuesView::U8(bytes) => Ok(TokensView::Small(bytes)),
            ValuesView::F32(_) => Err(self.refusal("string or int64")),
        }
    }

    /// The values as tokens of one type.
    pub(super) fn tokens_of(&self, dtype: DType) -> Result<TokensView<'a>> {
        let tokens = self.tokens()?;
        let texts = matches!(tokens, TokensView::Texts(_));
        if texts == (dtype == DType::Bytes) { Ok(tokens) } else { Err(self.refusal(dtype.name())) }
    }

    fn refusal(&self, wanted: &str) -> Error {
        let what = format!("the input {:?} holds {}, its column wants {wanted}", self.key, self.column.dtype());
        Error::new(Code::DataColumn, what).help("give the input that type where it is read, or set the column's dtype")
    }
}

/// Values that are ids or can be looked up.
#[derive(Clone, Copy)]
pub(super) enum TokensView<'a> {
    Texts(phalanx_data::StringsView<'a>),
    Integers(&'a [i64]),
    Small(&'a [u8]),
}

impl TokensView<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Texts(texts) => texts.len(),
            Self::Integers(integers) => integers.len(),
            Self::Small(bytes) => bytes.len(),
        }
    }

    /// Whether a value of a dense column is missing: the empty text, or -1.
    #[inline]
    pub(super) fn is_missing(&self, index: usize) -> bool {
        match self {
            Self::Texts(texts) => texts.get(index).is_empty(),
            Self::Integers(integers) => integers[index] == -1,
            Self::Small(_) => false,
        }
    }

    /// The value as a number; 0 for texts.
    #[inline]
    pub(super) fn integer(&self, index: usize) -> i64 {
        match self {
            Self::Texts(_) => 0,
            Self::Integers(integers) => integers[index],
            Self::Small(bytes) => bytes[index].into(),
        }
    }
}

/// The fingerprint of a number's decimal digits.
pub(crate) fn fingerprint_of(number: i64) -> u64 {
    decimal(number, fingerprint64)
}
