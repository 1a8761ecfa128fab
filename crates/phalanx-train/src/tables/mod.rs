//! Tables of a model whose rows are on parameter servers: where a step gets rows from, and where their gradients go.

mod held;
mod prefetched;
mod reader;
mod recorded;
mod server_rows;

pub(crate) use held::ModelTables;
pub(crate) use prefetched::PrefetchedRows;
pub use reader::RowReader;
pub(crate) use recorded::{RecordedRows, RowGradient, add_rows};
pub(crate) use server_rows::ServerRows;
