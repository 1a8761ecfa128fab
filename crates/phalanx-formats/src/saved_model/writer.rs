//! Writes a model's files.

use super::{Directory, SavedModel, VariableSpec};
use crate::bundle::{BundleWriter, Dtype, data_file, index_file};
use phalanx_base::{Code, Context, Error, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{Read, Write};

/// Where a model's variables are.
const VARIABLES: &str = "variables/variables";

/// Writes a [`SavedModel`] into a folder: first the files that it needs, then the model.
///
/// The example is at the [module](super).
#[derive(Debug)]
pub struct SavedModelWriter<D> {
    directory: D,
    assets: BTreeSet<String>,
}

/// The values of a variable, row-major.
#[derive(Clone, Debug)]
pub enum VariableValues<'a> {
    /// Of a variable of `f32`.
    F32(Cow<'a, [f32]>),
    /// Of a variable of `i64`.
    I64(Cow<'a, [i64]>),
    /// Of a variable of any type, as little-endian bytes.
    Bytes(Cow<'a, [u8]>),
}

impl<D: Directory> SavedModelWriter<D> {
    /// A writer into an empty folder, which becomes the model when all is written.
    pub fn new(directory: D) -> Self {
        Self { directory, assets: BTreeSet::new() }
    }

    /// Writes a file that the graph needs: `GraphBuilder::asset(name)`.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn asset(&mut self, name: &str, mut content: impl Read) -> Result<()> {
        let path = format!("assets/{name}");
        let mut file = self.directory.create(&path)?;
        let copied = std::io::copy(&mut content, &mut file).and_then(|_| file.flush());
        copied.context(Code::StorageWrite, format!("cannot write {path}"))?;
        self.assets.insert(name.to_owned());
        Ok(())
    }

    /// Writes the variables, whose values `values` gives one after the other, and the graph, last of all: a folder
    /// without `saved_model.pb` is no model yet. Gives the folder back.
    ///
    /// # Errors
    /// The first fault of the graph, values that do not fit a variable, an asset that was not written, or when a file
    /// cannot be written.
    pub fn write<'v>(
        mut self,
        model: SavedModel,
        mut values: impl FnMut(&VariableSpec) -> Result<VariableValues<'v>>,
    ) -> Result<D> {
        let variables: Vec<VariableSpec> = model.variables().cloned().collect();
        let missing = model.assets().find(|name| !self.assets.contains(*name)).map(str::to_owned);
        // Before anything is written: it may have a fault.
        let message = model.encode()?;
        if let Some(missing) = missing {
            return Err(Error::new(Code::DataMissing, format!("the model's asset {missing:?} is missing"))
                .help("write it with SavedModelWriter::asset first"));
        }
        if !variables.is_empty() {
            let mut bundle = BundleWriter::new(self.directory.create(&data_file(VARIABLES, 0, 1))?);
            for variable in &variables {
                put(&mut bundle, variable, &values(variable)?)?;
            }
            let index = bundle.finish()?.1.to_bytes()?;
            self.put_file(&index_file(VARIABLES), &index)?;
        }
        self.put_file("saved_model.pb", &message)?;
        Ok(self.directory)
    }

    fn put_file(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let mut file = self.directory.create(path)?;
        file.write_all(content).and_then(|()| file.flush()).context(Code::StorageWrite, format!("cannot write {path}"))
    }
}

fn put<W: Write>(bundle: &mut BundleWriter<W>, variable: &VariableSpec, values: &VariableValues<'_>) -> Result<()> {
    let VariableSpec { name, dtype, shape } = variable;
    match (values, dtype) {
        (VariableValues::F32(numbers), Dtype::F32) => bundle.add_f32s(name, shape, numbers),
        (VariableValues::I64(numbers), Dtype::I64) => bundle.add_i64s(name, shape, numbers),
        (VariableValues::Bytes(bytes), dtype) => bundle.add_bytes(name, *dtype, shape, bytes),
        _ => Err(Error::new(Code::ShapeMismatch, format!("the values of variable {name:?} are not of type {dtype}"))),
    }
}

macro_rules! values {
    ($($type:ty => $kind:ident;)*) => {$(
        impl From<Vec<$type>> for VariableValues<'_> {
            fn from(values: Vec<$type>) -> Self {
                Self::$kind(values.into())
            }
        }

        impl<'a> From<&'a [$type]> for VariableValues<'a> {
            fn from(values: &'a [$type]) -> Self {
                Self::$kind(values.into())
            }
        }
    )*};
}

values! {
    f32 => F32;
    i64 => I64;
}
