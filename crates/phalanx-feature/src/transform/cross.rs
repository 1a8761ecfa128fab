//! Crosses: the fingerprints of all combinations of a row's values.
//!
//! Hot path: rows of one value per part need no bookkeeping.

use super::id_rows::IdRows;
use super::raw::{Raw, TokensView};
use crate::columns::DEFAULT_HASH_KEY;
use phalanx_base::{Code, Error, Result};
use phalanx_data::Column;
use phalanx_formats::fingerprint::fingerprint_cat64;
use std::ops::Range;
use std::sync::Arc;

/// The source of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrossPart {
    Raw(usize),
    Step(usize),
}

/// The maximum number of combinations in one batch.
const MOST: usize = 1 << 28;

/// The values of a part, as input of the hash.
enum Values<'a> {
    Prints(&'a [u64]),
    Ids(&'a [i64]),
    Small(&'a [u8]),
}

impl Values<'_> {
    #[inline]
    fn get(&self, index: usize) -> u64 {
        match self {
            Self::Prints(prints) => prints[index],
            // Integers are joined without being hashed.
            Self::Ids(ids) => ids[index] as u64,
            Self::Small(bytes) => bytes[index].into(),
        }
    }
}

struct Part<'a> {
    values: Values<'a>,
    rows: Source<'a>,
    /// Whether the part is a dense input, which is hashed last.
    is_dense: bool,
}

enum Source<'a> {
    Raw(&'a Raw<'a>),
    Ids(&'a IdRows),
}

impl<'a> Part<'a> {
    fn new(part: CrossPart, raws: &'a [Raw<'a>], done: &'a [IdRows]) -> Result<Self> {
        match part {
            CrossPart::Step(step) => {
                let ids = &done[step];
                Ok(Self { values: Values::Ids(&ids.ids), rows: Source::Ids(ids), is_dense: false })
            }
            CrossPart::Raw(raw) => {
                let raw = &raws[raw];
                let values = match raw.tokens()? {
                    TokensView::Texts(_) => Values::Prints(raw.fingerprints()?),
                    TokensView::Integers(integers) => Values::Ids(integers),
                    TokensView::Small(bytes) => Values::Small(bytes),
                };
                Ok(Self { values, rows: Source::Raw(raw), is_dense: !raw.rows.is_ragged() })
            }
        }
    }

    fn is_single(&self) -> bool {
        match self.rows {
            Source::Raw(raw) => raw.rows.is_single(),
            Source::Ids(ids) => ids.splits.is_none(),
        }
    }

    #[inline]
    fn range(&self, row: usize) -> Range<usize> {
        match self.rows {
            Source::Raw(raw) => raw.rows.range(row),
            Source::Ids(ids) => ids.range(row),
        }
    }
}

pub(super) fn cross(
    parts: &[CrossPart],
    raws: &[Raw<'_>],
    done: &[IdRows],
    rows: usize,
    buckets: usize,
    hash_key: u64,
) -> Result<IdRows> {
    let mut parts: Vec<Part<'_>> = parts.iter().map(|&part| Part::new(part, raws, done)).collect::<Result<_>>()?;
    // TensorFlow's op hashes sparse inputs before dense ones.
    parts.sort_by_key(|part| part.is_dense);
    let buckets = buckets as u64;
    if parts.iter().all(Part::is_single) {
        let mut hashes = vec![hash_key; rows];
        for part in &parts {
            join(&mut hashes, &part.values);
        }
        let ids = hashes.into_iter().map(|hash| (hash % buckets) as i64).collect();
        return Ok(IdRows { ids, splits: None, weights: None });
    }
    let splits = splits(&parts, rows)?;
    let mut ids = Vec::with_capacity(splits[rows]);
    for row in 0..rows {
        combine(&parts, row, hash_key, &mut |hash| ids.push((hash % buckets) as i64));
    }
    Ok(IdRows { ids, splits: Some(splits), weights: None })
}

/// The crosses of dense columns of one value per row, with TensorFlow's default key.
pub(crate) fn cross_columns(columns: &[&Column], buckets: usize) -> Result<Vec<i64>> {
    let keys: Vec<Arc<str>> = (0..columns.len()).map(|place| format!("input {place}").into()).collect();
    let raws: Vec<Raw<'_>> = keys.iter().zip(columns).map(|(key, column)| Raw::new(key, column)).collect();
    let parts: Vec<CrossPart> = (0..raws.len()).map(CrossPart::Raw).collect();
    let rows = columns.first().map_or(0, |column| column.rows());
    Ok(cross(&parts, &raws, &[], rows, buckets, DEFAULT_HASH_KEY)?.ids)
}

fn join(hashes: &mut [u64], values: &Values<'_>) {
    match values {
        Values::Prints(prints) => {
            hashes.iter_mut().zip(*prints).for_each(|(hash, &value)| *hash = fingerprint_cat64(*hash, value));
        }
        Values::Ids(ids) => {
            hashes.iter_mut().zip(*ids).for_each(|(hash, &value)| *hash = fingerprint_cat64(*hash, value as u64));
        }
        Values::Small(bytes) => {
            hashes.iter_mut().zip(*bytes).for_each(|(hash, &value)| *hash = fingerprint_cat64(*hash, value.into()));
        }
    }
}

/// The start of each row's combinations.
fn splits(parts: &[Part<'_>], rows: usize) -> Result<Vec<usize>> {
    let mut splits = Vec::with_capacity(rows + 1);
    let mut total = 0_usize;
    splits.push(0);
    for row in 0..rows {
        let count = parts.iter().try_fold(1_usize, |count, part| count.checked_mul(part.range(row).len()));
        total = count.and_then(|count| total.checked_add(count)).filter(|&total| total <= MOST).ok_or_else(|| {
            Error::new(Code::DataRow, format!("a crossed column has more than {MOST} combinations in one batch"))
                .at(format!("row {row} of the batch"))
                .help("cross fewer columns, or columns with fewer values per row")
        })?;
        splits.push(total);
    }
    Ok(splits)
}

/// Calls `put` with all combinations of one row; the last part varies fastest.
fn combine(parts: &[Part<'_>], row: usize, hash: u64, put: &mut impl FnMut(u64)) {
    let Some((first, rest)) = parts.split_first() else { return put(hash) };
    for index in first.range(row) {
        combine(rest, row, fingerprint_cat64(hash, first.values.get(index)), put);
    }
}
