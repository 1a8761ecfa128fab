//! A step of a plan: the ids of a categorical column, from inputs and earlier steps.

use super::cross::{CrossPart, cross};
use super::id_rows::IdRows;
use super::raw::{Raw, TokensView};
use crate::columns::kind::Numeric;
use crate::columns::tokens::Tokens;
use crate::numbers::each_f32;
use phalanx_base::{Code, Error, Result};
use phalanx_data::DType;
use std::sync::Arc;

/// A computation of ids. `raw` and `step` are indices of inputs and earlier steps.
#[derive(Clone)]
pub(super) enum IdStep {
    Identity { raw: usize, buckets: usize, default: Option<i64> },
    Hash { raw: usize, buckets: usize, dtype: DType },
    Lookup { raw: usize, tokens: Arc<Tokens>, default: i64, oov_buckets: usize },
    Bucket { raw: usize, source: Numeric, boundaries: Arc<[f32]> },
    Cross { parts: Vec<CrossPart>, buckets: usize, hash_key: u64 },
    Weighted { step: usize, raw: usize, dtype: DType },
}

impl IdStep {
    /// Runs the step. With `keep_missing`, as in sequences, missing values of dense rows become -1.
    pub(super) fn run(&self, raws: &[Raw<'_>], done: &[IdRows], rows: usize, keep_missing: bool) -> Result<IdRows> {
        match self {
            Self::Identity { raw, buckets, default } => {
                let raw = &raws[*raw];
                let (tokens, buckets) = (raw.tokens_of(DType::I64)?, *buckets as i64);
                Ok(match *default {
                    None => IdRows::collect(raw, tokens, keep_missing, |index| tokens.integer(index)),
                    Some(default) => IdRows::collect(raw, tokens, keep_missing, |index| {
                        let id = tokens.integer(index);
                        if (0..buckets).contains(&id) { id } else { default }
                    }),
                })
            }
            Self::Hash { raw, buckets, dtype } => {
                let raw = &raws[*raw];
                let tokens = raw.tokens_of(*dtype)?;
                let (prints, buckets) = (raw.fingerprints()?, *buckets as u64);
                Ok(IdRows::collect(raw, tokens, keep_missing, |index| (prints[index] % buckets) as i64))
            }
            Self::Lookup { raw, tokens, default, oov_buckets } => {
                let raw = &raws[*raw];
                look_up(raw, tokens, *default, *oov_buckets, keep_missing)
            }
            Self::Bucket { raw, source, boundaries } => bucketize(&raws[*raw], source, boundaries),
            Self::Cross { parts, buckets, hash_key } => cross(parts, raws, done, rows, *buckets, *hash_key),
            Self::Weighted { step, raw, dtype } => weigh(&done[*step], &raws[*raw], *dtype, rows, keep_missing),
        }
    }
}

fn look_up(raw: &Raw<'_>, known: &Tokens, default: i64, oov_buckets: usize, keep_missing: bool) -> Result<IdRows> {
    let tokens = raw.tokens_of(known.dtype())?;
    let (size, oov) = (known.len() as i64, oov_buckets as u64);
    let unknown = |print: u64| if oov == 0 { default } else { size + (print % oov) as i64 };
    Ok(match (known, tokens) {
        (Tokens::Words(words), TokensView::Texts(texts)) => {
            let prints = raw.fingerprints()?;
            IdRows::collect(raw, tokens, keep_missing, |index| {
                let print = prints[index];
                words.find(print, texts.get(index)).map_or_else(|| unknown(print), |place| place as i64)
            })
        }
        (Tokens::Numbers(numbers), _) => IdRows::collect(raw, tokens, keep_missing, |index| {
            let number = tokens.integer(index);
            let hash = || unknown(super::raw::fingerprint_of(number));
            numbers.find(number).map_or_else(hash, |place| place as i64)
        }),
        // `tokens_of` has rejected this combination.
        (Tokens::Words(_), _) => IdRows::default(),
    })
}

/// The bucket of a value: the number of boundaries up to and including it. NaN goes to the last bucket.
#[inline]
pub(crate) fn bucket(value: f32, boundaries: &[f32]) -> usize {
    const FEW: usize = 32;
    let below = |&boundary: &f32| boundary <= value || value.is_nan();
    if boundaries.len() <= FEW {
        // Without branches, this is faster than a binary search.
        boundaries.iter().map(|boundary| usize::from(below(boundary))).sum()
    } else {
        boundaries.partition_point(below)
    }
}

fn bucketize(raw: &Raw<'_>, source: &Numeric, boundaries: &[f32]) -> Result<IdRows> {
    check_numeric(raw, source)?;
    let (elements, buckets) = (source.elements(), boundaries.len() + 1);
    let mut ids = Vec::new();
    let mut element = 0;
    let mut fault = None;
    each_f32(raw.column, |value| {
        let value = source.functions.checked(raw.key, source.filled(element, value), &mut fault);
        ids.push((element * buckets + bucket(value, boundaries)) as i64);
        element += 1;
        if element == elements {
            element = 0;
        }
    })?;
    fault.map_or(Ok(()), Err)?;
    let splits = (elements != 1).then(|| raw.splits());
    Ok(IdRows { ids, splits, weights: None })
}

/// Checks that the input of a numeric column is dense and has the column's shape.
pub(super) fn check_numeric(raw: &Raw<'_>, numeric: &Numeric) -> Result<()> {
    if raw.rows.is_ragged() {
        let what = format!("the input {:?} of a numeric column has rows of differing length", raw.key);
        return Err(Error::new(Code::DataColumn, what).help("read it with a fixed length, or as a sequence column"));
    }
    if raw.column.width() != numeric.elements() {
        let (has, wants) = (raw.column.width(), numeric.elements());
        let what = format!("the input {:?} has {has} values per row, its column wants {wants}", raw.key);
        return Err(Error::new(Code::ShapeMismatch, what).help("set the column's shape to that of the input"));
    }
    Ok(())
}

/// Adds weights to ids. Zeros of a dense input are no weights, as its missing values are no ids.
fn weigh(ids: &IdRows, raw: &Raw<'_>, dtype: DType, rows: usize, keep_missing: bool) -> Result<IdRows> {
    if raw.column.dtype() != dtype {
        let what = format!("the weights {:?} are {}, their column wants {dtype}", raw.key, raw.column.dtype());
        return Err(Error::new(Code::DataColumn, what).help("set the column's dtype to that of the weights"));
    }
    let mut all = Vec::new();
    each_f32(raw.column, |weight| all.push(weight))?;
    let drop_zeros = !raw.rows.is_ragged() && !keep_missing;
    let mut weights = Vec::with_capacity(ids.ids.len());
    for row in 0..rows {
        let before = weights.len();
        weights.extend(all[raw.rows.range(row)].iter().copied().filter(|&weight| !(drop_zeros && weight == 0.0)));
        let (have, want) = (weights.len() - before, ids.range(row).len());
        if have != want {
            let what = format!("row {row} has {want} ids but {have} weights in {:?}", raw.key);
            return Err(Error::new(Code::DataRow, what)
                .because("every id has one weight; in dense inputs 0 is no weight, and \"\" and -1 are no ids"));
        }
    }
    Ok(IdRows { weights: Some(weights), ..ids.clone() })
}
