//! Constants: tensors that are in the graph itself.

use super::proto::Tensor;
use super::{Element, GraphBuilder, Number, Output, Text, attr};
use crate::bundle::Dtype;
use phalanx_base::{Code, Error};

impl GraphBuilder {
    /// A constant of numbers, row-major.
    ///
    /// ```
    /// # let mut graph = phalanx_formats::saved_model::GraphBuilder::new();
    /// let identity = graph.constant(&[2, 2], &[1.0_f32, 0.0, 0.0, 1.0]);
    /// # let _ = identity;
    /// ```
    pub fn constant<T: Number>(&mut self, dims: &[usize], values: &[T]) -> Output<T> {
        self.check_count(dims, values.len());
        let mut content = Vec::with_capacity(size_of_val(values));
        values.iter().for_each(|value| value.put(&mut content));
        self.tensor(Tensor { tensor_content: content, ..empty(T::DTYPE, dims) })
    }

    /// One number.
    pub fn scalar<T: Number>(&mut self, value: T) -> Output<T> {
        self.constant(&[], &[value])
    }

    /// A constant of strings, row-major.
    pub fn texts<S: AsRef<[u8]>>(&mut self, dims: &[usize], values: &[S]) -> Output<Text> {
        self.check_count(dims, values.len());
        let values = values.iter().map(|value| value.as_ref().to_vec()).collect();
        self.tensor(Tensor { string_val: values, ..empty(Dtype::String, dims) })
    }

    /// One string.
    pub fn text(&mut self, value: &str) -> Output<Text> {
        self.texts(&[], &[value])
    }

    /// A vector of whole numbers, as ops want them for axes and extents.
    pub(super) fn i32s(&mut self, values: &[i32]) -> Output<i32> {
        self.constant(&[values.len()], values)
    }

    /// A vector without elements, of any type.
    pub(super) fn nothing(&mut self, dtype: Dtype) -> usize {
        let value = attr::tensor(empty(dtype, &[0]));
        self.make("Const").attr("dtype", attr::dtype(dtype)).attr("value", value).add_node()
    }

    fn tensor<T: Element>(&mut self, tensor: Tensor) -> Output<T> {
        self.make("Const").dtype::<T>("dtype").attr("value", attr::tensor(tensor)).add()
    }

    fn check_count(&mut self, dims: &[usize], count: usize) {
        let wanted = dims.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        if wanted != Some(count) {
            let error = Error::new(Code::ShapeMismatch, format!("{count} values for a constant of shape {dims:?}"));
            self.fault(error);
        }
    }
}

fn empty(dtype: Dtype, dims: &[usize]) -> Tensor {
    Tensor { dtype: dtype.number(), tensor_shape: Some(attr::known(dims)), ..Tensor::default() }
}
