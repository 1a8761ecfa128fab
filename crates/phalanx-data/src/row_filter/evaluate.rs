//! The evaluation of conditions, column by column.

use super::{Comparison, Condition, Literal};
use crate::{Batch, Column, ValuesView};
use phalanx_base::{Code, Error, Result};
use std::cmp::Ordering;

impl Condition {
    pub(super) fn keep(&self, rows: &Batch) -> Result<Vec<bool>> {
        match self {
            Self::And(all) => combine(all, rows, |a, b| a && b),
            Self::Or(all) => combine(all, rows, |a, b| a || b),
            Self::Not(inner) => Ok(inner.keep(rows)?.into_iter().map(|keep| !keep).collect()),
            Self::Compare { column, comparison, literal } => {
                let values = rows.column(column)?;
                match comparison {
                    Comparison::NotEqual => none_equal(column, values, std::slice::from_ref(literal)),
                    _ => any_of(column, values, std::slice::from_ref(literal), |order| comparison.holds(order)),
                }
            }
            Self::In { column, literals, negated: false } => {
                any_of(column, rows.column(column)?, literals, Ordering::is_eq)
            }
            Self::In { column, literals, negated: true } => none_equal(column, rows.column(column)?, literals),
            Self::Missing { column, negated } => {
                Ok(present(rows.column(column)?).into_iter().map(|present| present == *negated).collect())
            }
        }
    }
}

fn combine(all: &[Condition], rows: &Batch, with: fn(bool, bool) -> bool) -> Result<Vec<bool>> {
    let mut kept: Option<Vec<bool>> = None;
    for one in all {
        let own = one.keep(rows)?;
        kept = Some(match kept {
            None => own,
            Some(kept) => kept.into_iter().zip(own).map(|(a, b)| with(a, b)).collect(),
        });
    }
    Ok(kept.unwrap_or_default())
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Whether each row has a value.
fn present(column: &Column) -> Vec<bool> {
    by_row(column, |index| match column.values() {
        ValuesView::F32(values) => !values[index].is_nan(),
        ValuesView::Bytes(texts) => !texts.get(index).is_empty(),
        ValuesView::I64(_) | ValuesView::U8(_) => true,
    })
}

/// Whether one of the values of each row compares with one of the literals as wanted.
fn any_of(name: &str, column: &Column, literals: &[Literal], holds: impl Fn(Ordering) -> bool) -> Result<Vec<bool>> {
    let mut flags = vec![false; column.values_len()];
    for literal in literals {
        each_order(name, column, literal, |index, order| flags[index] |= order.is_some_and(&holds))?;
    }
    Ok(by_row(column, |index| flags[index]))
}

/// Whether each row has values and none of them is one of the literals.
fn none_equal(name: &str, column: &Column, literals: &[Literal]) -> Result<Vec<bool>> {
    let equal = any_of(name, column, literals, Ordering::is_eq)?;
    Ok(present(column).into_iter().zip(equal).map(|(present, equal)| present && !equal).collect())
}

/// Whether the flag of one of the values of each row is set.
fn by_row(column: &Column, flag: impl Fn(usize) -> bool) -> Vec<bool> {
    let width = column.width();
    match column.splits() {
        None if width == 1 => (0..column.rows()).map(flag).collect(),
        None => (0..column.rows()).map(|row| (row * width..(row + 1) * width).any(&flag)).collect(),
        Some(splits) => {
            let range = |ends: &[usize]| (ends[0] - splits[0]) * width..(ends[1] - splits[0]) * width;
            splits.windows(2).map(|ends| range(ends).any(&flag)).collect()
        }
    }
}

/// Calls `f` with the order of every value against a literal; `None` for a missing value.
fn each_order(
    name: &str,
    column: &Column,
    literal: &Literal,
    mut f: impl FnMut(usize, Option<Ordering>),
) -> Result<()> {
    match (column.values(), literal) {
        (ValuesView::Bytes(texts), Literal::Text(text)) => {
            let order = |value: &[u8]| (!value.is_empty()).then(|| value.cmp(text.as_bytes()));
            texts.iter().enumerate().for_each(|(index, value)| f(index, order(value)));
        }
        (ValuesView::Bytes(texts), literal) => {
            for (index, value) in texts.iter().enumerate() {
                f(index, if value.is_empty() { None } else { number_order(name, value, literal)? });
            }
        }
        (ValuesView::I64(values), Literal::Integer(number)) => {
            values.iter().enumerate().for_each(|(index, value)| f(index, Some(value.cmp(number))));
        }
        (ValuesView::I64(values), Literal::Number(number)) => {
            values.iter().enumerate().for_each(|(index, &value)| f(index, (value as f64).partial_cmp(number)));
        }
        (ValuesView::U8(values), Literal::Integer(number)) => {
            values.iter().enumerate().for_each(|(index, &value)| f(index, Some(i64::from(value).cmp(number))));
        }
        (ValuesView::U8(values), Literal::Number(number)) => {
            values.iter().enumerate().for_each(|(index, &value)| f(index, f64::from(value).partial_cmp(number)));
        }
        // A number is compared as what the column can hold: 0.1 is the nearest 32-bit number.
        (ValuesView::F32(values), Literal::Integer(number)) => {
            values.iter().enumerate().for_each(|(index, value)| f(index, value.partial_cmp(&(*number as f32))));
        }
        (ValuesView::F32(values), Literal::Number(number)) => {
            values.iter().enumerate().for_each(|(index, value)| f(index, value.partial_cmp(&(*number as f32))));
        }
        (_, Literal::Text(text)) => {
            let what = format!("the column {name:?} holds {}, it cannot be compared with {text:?}", column.dtype());
            return Err(Error::new(Code::DataColumn, what).help("write a number, without quotes"));
        }
    }
    Ok(())
}

fn number_order(name: &str, value: &[u8], literal: &Literal) -> Result<Option<Ordering>> {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    if let (Ok(value), Literal::Integer(number)) = (text.parse::<i64>(), literal) {
        return Ok(Some(value.cmp(number)));
    }
    let number = match literal {
        Literal::Integer(number) => *number as f64,
        Literal::Number(number) => *number,
        Literal::Text(_) => return Ok(None),
    };
    match text.parse::<f64>() {
        Ok(value) => Ok(value.partial_cmp(&number)),
        Err(_) => {
            let what = format!("{:?} is not a number, in the column {name:?}", String::from_utf8_lossy(value));
            Err(Error::new(Code::DataRow, what).help("compare the column with a text, in quotes"))
        }
    }
}
