//! Whether a checkpoint has what a model needs. Pure.

use super::estimator_names::{is_dense_table, is_optimizers_own, locate};
use super::names::{GLOBAL_STEP, OWN, part_name, table_keys, table_values};
use crate::Layout;
use phalanx_base::{Code, Error, Result, Shape, nearest};
use phalanx_formats::bundle::{BundleIndex, Dtype};
use phalanx_optim::Optimizer;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The most names of a kind that a message lists.
const LISTED: usize = 8;

/// How a checkpoint and a model differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Tensors that only the model has, each with the nearest name that only the checkpoint has.
    pub missing: Vec<(String, Option<String>)>,
    /// Tensors with another shape or type: name, in the checkpoint, in the model.
    pub changed: Vec<(String, String, String)>,
    /// Tensors that only the checkpoint has.
    pub extra: Vec<String>,
}

/// Compares a checkpoint with a model, slots and tables included.
#[must_use]
pub fn compare(index: &BundleIndex, layout: &Layout) -> Difference {
    let mut difference = Difference::default();
    let wanted = wanted(index, layout);
    let known: BTreeSet<&str> = wanted.iter().map(|(name, ..)| name.as_str()).collect();
    let own = |name: &str| name == GLOBAL_STEP || name.starts_with(OWN) || is_optimizers_own(name);
    let extra = index.tensors().keys().filter(|name| !known.contains(name.as_str()) && !own(name));
    difference.extra = extra.cloned().collect();
    for (name, dtype, shape) in &wanted {
        match index.tensors().get(name) {
            None => {
                let near = nearest(name, difference.extra.iter().map(String::as_str)).map(str::to_owned);
                difference.missing.push((name.clone(), near));
            }
            Some(info) if info.dtype != *dtype || !shape.fits(&info.shape) => {
                let found = format!("{} {}", info.dtype, info.shape);
                difference.changed.push((name.clone(), found, format!("{dtype} {shape}")));
            }
            Some(_) => {}
        }
    }
    difference
}

impl Difference {
    /// Refuses a checkpoint with missing or different tensors; extra tensors are harmless.
    ///
    /// # Errors
    /// When it does.
    pub fn check(&self, checkpoint: &str) -> Result<()> {
        if self.missing.is_empty() && self.changed.is_empty() {
            return Ok(());
        }
        let mut why = String::new();
        list(&mut why, "missing", &self.missing, |(name, near)| match near {
            Some(near) => format!("{name:?} (it has {near:?})"),
            None => format!("{name:?}"),
        });
        list(&mut why, "other", &self.changed, |(name, found, wanted)| format!("{name:?} is {found}, not {wanted}"));
        list(&mut why, "extra", &self.extra, |name| format!("{name:?}"));
        Err(Error::new(Code::CheckpointMismatch, format!("checkpoint {checkpoint:?} is not of this model"))
            .because(why)
            .help("use another model_dir, or build the model and optimizer that the checkpoint was made with"))
    }
}

fn list<T>(out: &mut String, what: &str, items: &[T], show: impl Fn(&T) -> String) {
    if items.is_empty() {
        return;
    }
    let shown: Vec<String> = items.iter().take(LISTED).map(show).collect();
    let separator = if out.is_empty() { "" } else { "; " };
    let _ = write!(out, "{separator}{what}: {}", shown.join(", "));
    if items.len() > LISTED {
        let _ = write!(out, " and {} more", items.len() - LISTED);
    }
}

/// An exact shape, or that of a table with any number of rows.
enum Wanted {
    Exactly(Shape),
    Rows(Vec<usize>),
}

impl Wanted {
    fn fits(&self, found: &Shape) -> bool {
        match self {
            Self::Exactly(shape) => shape == found,
            Self::Rows(row) => found.dims().split_first().is_some_and(|(_, rest)| rest == row),
        }
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(shape) => write!(f, "{shape}"),
            Self::Rows(row) => write!(f, "rows of {row:?}"),
        }
    }
}

/// Returns what a model needs of a checkpoint, under the names that the checkpoint has for it.
fn wanted(index: &BundleIndex, layout: &Layout) -> Vec<(String, Dtype, Wanted)> {
    let mut wanted = Vec::new();
    let mut dense = |optimizer: &Optimizer, of: &str, shape: &dyn Fn() -> Wanted| {
        for part in 0..=optimizer.slot_count() {
            let names = locate(index, optimizer, of, part).map(|found| found.names);
            let names = names.unwrap_or_else(|| vec![part_name(optimizer, of, part)]);
            wanted.extend(names.into_iter().map(|name| (name, Dtype::F32, shape())));
        }
    };
    for spec in layout.variables() {
        dense(&spec.optimizer, &spec.name, &|| Wanted::Exactly(spec.shape.clone()));
    }
    let (variables, tables): (Vec<_>, Vec<_>) =
        layout.tables().iter().partition(|spec| is_dense_table(index, &spec.name));
    for spec in variables {
        dense(&spec.optimizer, &spec.name, &|| Wanted::Rows(vec![spec.dim]));
    }
    for spec in tables {
        wanted.push((table_keys(&spec.name), Dtype::I64, Wanted::Rows(Vec::new())));
        for part in 0..=spec.optimizer.slot_count() {
            let name = table_values(&part_name(&spec.optimizer, &spec.name, part));
            wanted.push((name, Dtype::F32, Wanted::Rows(vec![spec.dim])));
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Partitioner, Placement, VariableSpec};
    use phalanx_formats::bundle::BundleWriter;
    use phalanx_optim::Adagrad;

    #[test]
    fn what_is_missing_extra_or_of_another_shape_is_listed_with_the_nearest_name() {
        let variable = |name: &str, dims: &[usize]| VariableSpec {
            name: name.into(),
            shape: Shape::new(dims).unwrap(),
            optimizer: Adagrad::new(0.1).into(),
            partitioner: Partitioner::Whole,
        };
        let variables = vec![variable("dense/kernel", &[2, 3]), variable("dense/bias", &[3])];
        let layout = Layout::new(variables, vec![], 1, Placement::round_robin()).unwrap();
        let mut bundle = BundleWriter::new(Vec::new());
        let shape = Shape::new([3, 2]).unwrap();
        for name in ["dense/kernel", "dense/kernel/Adagrad", "dense/bais"] {
            bundle.add_f32s(name, &shape, &[0.0; 6]).unwrap();
        }
        bundle.add_i64s(GLOBAL_STEP, &Shape::new([]).unwrap(), &[3]).unwrap();
        let index = bundle.finish().unwrap().1;
        let error = compare(&index, &layout).check("model.ckpt-3").unwrap_err();
        assert_eq!(error.code(), Code::CheckpointMismatch);
        assert_eq!(
            error.why().unwrap(),
            "missing: \"dense/bias\" (it has \"dense/bais\"), \"dense/bias/Adagrad\"; other: \"dense/kernel\" is \
             float32 [3, 2], not float32 [2, 3], \"dense/kernel/Adagrad\" is float32 [3, 2], not float32 [2, 3]; \
             extra: \"dense/bais\""
        );
    }
}
