//! What a step is computed from.

use crate::graph::{Graph, InputValues};
use phalanx_base::{Code, Error, Result};

/// The ids of a batch, as the positions of their rows among the unique ones.
#[derive(Clone, Copy, Debug)]
pub struct Ids<'a> {
    /// Example `i` has the ids from `splits[i]` to `splits[i + 1]`.
    pub splits: &'a [usize],
    /// For each id, the index of its unique row.
    pub positions: &'a [u32],
    /// The weight of each id; `None` if all weights are 1.
    pub weights: Option<&'a [f32]>,
}

/// The values of an [`Input`](crate::Input).
#[derive(Clone, Copy, Debug)]
pub enum Fed<'a> {
    /// Numbers, row-major.
    Numbers(&'a [f32]),
    /// Classes.
    Classes(&'a [i64]),
    /// Ids.
    Ids(Ids<'a>),
    /// None: nothing that is computed reads it.
    Absent,
}

/// What a step is computed from: a batch and the present values of a model, all borrowed.
#[derive(Clone, Debug)]
pub struct Feed<'a> {
    /// The number of examples.
    pub rows: usize,
    /// The values of [`Graph::inputs`].
    pub inputs: Vec<Fed<'a>>,
    /// The values of [`Graph::parameters`].
    pub parameters: Vec<&'a [f32]>,
    /// The unique rows of [`Graph::tables`], concatenated.
    pub tables: Vec<&'a [f32]>,
    /// Determines what dropout drops.
    pub seed: u64,
}

impl Feed<'_> {
    /// Refuses values that do not fit the graph. Everything is checked here, so that no operation reads past an end.
    pub(crate) fn check(&self, graph: &Graph) -> Result<()> {
        let counts = [self.inputs.len(), self.parameters.len(), self.tables.len()];
        let expected = [graph.inputs.len(), graph.parameters.len(), graph.tables.len()];
        if counts != expected {
            return Err(Error::new(Code::Internal, format!("a step of {counts:?} inputs, parameters and tables"))
                .because(format!("the graph has {expected:?}")));
        }
        let misfit = |name: &str, found: usize, expected: usize| {
            Error::new(Code::ShapeMismatch, format!("{name:?} has {found} numbers"))
                .because(format!("the model takes {expected}"))
        };
        for (parameter, values) in graph.parameters.iter().zip(&self.parameters) {
            let expected = parameter.dims.iter().product();
            if values.len() != expected {
                return Err(misfit(&parameter.name, values.len(), expected));
            }
        }
        for (table, values) in graph.tables.iter().zip(&self.tables) {
            if table.dim == 0 || !values.len().is_multiple_of(table.dim) {
                return Err(misfit(&table.name, values.len(), table.dim).because("rows are complete"));
            }
        }
        for (input, fed) in graph.inputs.iter().zip(&self.inputs) {
            match (&input.values, fed) {
                (_, Fed::Absent) => {}
                (InputValues::Numbers(dims), Fed::Numbers(values)) => {
                    let expected = self.rows * dims.iter().product::<usize>();
                    if values.len() != expected {
                        return Err(misfit(&input.name, values.len(), expected));
                    }
                }
                (InputValues::Classes(classes), Fed::Classes(values)) => self.check_classes(values, *classes)?,
                (InputValues::Ids, Fed::Ids(ids)) => self.check_ids(&input.name, *ids)?,
                _ => {
                    return Err(Error::new(
                        Code::ShapeMismatch,
                        format!("{:?} has values of another type", input.name),
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_classes(&self, values: &[i64], classes: usize) -> Result<()> {
        if values.len() != self.rows {
            return Err(Error::new(
                Code::ShapeMismatch,
                format!("{} classes for {} examples", values.len(), self.rows),
            ));
        }
        let wrong = |id: &i64| usize::try_from(*id).map_or(true, |id| id >= classes);
        match values.iter().position(wrong) {
            None => Ok(()),
            Some(row) => {
                let what = format!("class {} in row {row}, but the model has {classes}", values[row]);
                Err(Error::new(Code::DataRow, what)
                    .help("number the classes from 0, or give the model one output for each class"))
            }
        }
    }

    fn check_ids(&self, name: &str, ids: Ids<'_>) -> Result<()> {
        let fits = ids.splits.len() == self.rows + 1
            && ids.splits.is_sorted()
            && ids.splits.last().is_some_and(|end| *end <= ids.positions.len())
            && ids.weights.is_none_or(|weights| weights.len() >= ids.positions.len());
        if fits { Ok(()) } else { Err(Error::new(Code::ShapeMismatch, format!("the ids of {name:?} do not fit"))) }
    }
}
