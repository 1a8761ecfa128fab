//! Variables: tensors whose values are in the model's checkpoint.

use super::proto;
use super::{GraphBuilder, Number, Output, attr};
use crate::bundle::Dtype;
use phalanx_base::Shape;

/// A variable of a graph, for those who give its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSpec {
    /// Its name in the graph and in the checkpoint.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Shape,
}

/// A variable with its nodes.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) spec: VariableSpec,
    pub(super) handle: usize,
    pub(super) read: usize,
    initial: usize,
    assign: usize,
    pub(super) trainable: bool,
}

impl GraphBuilder {
    /// A variable that training changes; gives its value. The name is the one in the checkpoint too.
    pub fn variable<T: Number>(&mut self, name: &str, shape: &Shape) -> Output<T> {
        self.declare(name, shape, true)
    }

    /// A variable that training does not change by gradients, as a moving mean or the global step; gives its value.
    pub fn untrained_variable<T: Number>(&mut self, name: &str, shape: &Shape) -> Output<T> {
        self.declare(name, shape, false)
    }

    fn declare<T: Number>(&mut self, name: &str, shape: &Shape, trainable: bool) -> Output<T> {
        let spec = VariableSpec { name: name.to_owned(), dtype: T::DTYPE, shape: shape.clone() };
        let handle = self.make("VarHandleOp").dtype::<T>("dtype").attr("shape", attr::shape(attr::known(shape.dims())));
        // The shared name is what makes two nodes one variable.
        let handle = handle.attr("shared_name", attr::text(name)).add_named(name);
        let variable = Output::<T>::new(handle, 0);
        // TensorFlow wants an initial value from everything that says it is a variable. The checkpoint's comes before
        // anybody can see this one, which therefore takes no room in the file.
        let dims: Vec<i64> = shape.dims().iter().map(|&size| size as i64).collect();
        let dims = self.constant(&[dims.len()], &dims);
        let zero = self.scalar(T::ZERO);
        let zeros = self.make("Fill").input(dims).input(zero).dtype::<T>("T").dtype::<i64>("index_type");
        let initial = zeros.add_named(&format!("{name}/Initializer/zeros"));
        let assign = self.make("AssignVariableOp").input(variable).input(Output::<T>::new(initial, 0));
        let assign = assign.dtype::<T>("dtype").add_named(&format!("{name}/Assign"));
        let read = self.make("ReadVariableOp").input(variable).dtype::<T>("dtype");
        let read = read.add_named(&format!("{name}/Read/ReadVariableOp"));
        self.variables.push(Declared { spec, handle, read, initial, assign, trainable });
        Output::new(read, 0)
    }

    /// A variable as TensorFlow's collections have it.
    pub(super) fn variable_def(&self, variable: &Declared) -> proto::Variable {
        let name = |node: usize| self.nodes.get(node).map_or("", |node| &node.name);
        let tensor = |node| format!("{}:0", name(node));
        proto::Variable {
            variable_name: tensor(variable.handle),
            initializer_name: name(variable.assign).to_owned(),
            snapshot_name: tensor(variable.read),
            is_resource: true,
            initial_value_name: tensor(variable.initial),
            trainable: variable.trainable,
        }
    }
}
