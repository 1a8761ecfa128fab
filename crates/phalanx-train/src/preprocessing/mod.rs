//! Preprocessing layers as the first layers of a model.
//!
//! | file | contents |
//! | --- | --- |
//! | `layer` | [`Preprocess`], a layer of a model that is computed on the host |
//! | `stage` | [`Preprocessing`], all of them: from the columns of a batch to the inputs of the model |

mod layer;
mod stage;

pub use layer::Preprocess;
pub(crate) use layer::function;
pub use stage::Preprocessing;
