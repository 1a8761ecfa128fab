//! Arithmetic, element by element, and products of matrices.

use super::{Element, GraphBuilder, Number, Output, attr};

/// Ops of one tensor that give one like it.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident = $op:literal;)*) => {
        impl GraphBuilder {$(
            $(#[$doc])*
            pub fn $name(&mut self, x: Output<f32>) -> Output<f32> {
                self.make($op).input(x).dtype::<f32>("T").add()
            }
        )*}
    };
}

pub(super) use unary;

/// Ops of two tensors that give one; a missing or single extent of one is repeated to the other's.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:literal;)*) => {
        impl GraphBuilder {$(
            $(#[$doc])*
            pub fn $name<T: Number>(&mut self, a: Output<T>, b: Output<T>) -> Output<T> {
                self.make($op).input(a).input(b).dtype::<T>("T").add()
            }
        )*}
    };
}

unary! {
    /// `e` to the power of `x`.
    exp = "Exp";
    /// The natural logarithm.
    log = "Log";
    /// The natural logarithm of `1 + x`.
    log1p = "Log1p";
    /// The square root.
    sqrt = "Sqrt";
    /// One over the square root.
    rsqrt = "Rsqrt";
    /// `x` times itself.
    square = "Square";
    /// `-x`.
    neg = "Neg";
    /// The absolute value.
    abs = "Abs";
    /// The error function.
    erf = "Erf";
}

binary! {
    /// `a + b`.
    add = "AddV2";
    /// `a - b`.
    sub = "Sub";
    /// `a * b`.
    mul = "Mul";
    /// `a / b`; whole numbers are cut off to whole numbers.
    div = "RealDiv";
    /// `a / b`, rounded down.
    floor_div = "FloorDiv";
    /// What `floor_div` leaves over: at least 0 for a positive `b`.
    floor_mod = "FloorMod";
    /// The larger.
    maximum = "Maximum";
    /// The smaller.
    minimum = "Minimum";
}

impl GraphBuilder {
    /// The product of two matrices.
    pub fn matmul(&mut self, a: Output<f32>, b: Output<f32>) -> Output<f32> {
        self.make("MatMul").input(a).input(b).dtype::<f32>("T").add()
    }

    /// The products of two stacks of matrices, each transposed first if so wanted.
    pub fn batch_matmul(
        &mut self,
        a: Output<f32>,
        b: Output<f32>,
        transpose_a: bool,
        transpose_b: bool,
    ) -> Output<f32> {
        let product = self.make("BatchMatMulV2").input(a).input(b).dtype::<f32>("T");
        product.attr("adj_x", attr::flag(transpose_a)).attr("adj_y", attr::flag(transpose_b)).add()
    }

    /// The mean over some axes; negative ones count from the end.
    pub fn mean(&mut self, x: Output<f32>, axes: &[i32], keep_dims: bool) -> Output<f32> {
        self.reduce("Mean", x, axes, keep_dims)
    }

    /// The sum over some axes.
    pub fn sum(&mut self, x: Output<f32>, axes: &[i32], keep_dims: bool) -> Output<f32> {
        self.reduce("Sum", x, axes, keep_dims)
    }

    /// The largest over some axes.
    pub fn max(&mut self, x: Output<f32>, axes: &[i32], keep_dims: bool) -> Output<f32> {
        self.reduce("Max", x, axes, keep_dims)
    }

    fn reduce(&mut self, op: &str, x: Output<f32>, axes: &[i32], keep_dims: bool) -> Output<f32> {
        let axes = self.i32s(axes);
        let reduced = self.make(op).input(x).input(axes).dtype::<f32>("T").dtype::<i32>("Tidx");
        reduced.attr("keep_dims", attr::flag(keep_dims)).add()
    }

    /// The index of the largest element along an axis; the first of several.
    pub fn argmax<T: Number>(&mut self, x: Output<T>, axis: i32) -> Output<i64> {
        let axis = self.scalar(axis);
        let which = self.make("ArgMax").input(x).input(axis).dtype::<T>("T").dtype::<i32>("Tidx");
        which.dtype::<i64>("output_type").add()
    }

    /// Numbers as another type.
    pub fn cast<T: Element, U: Element>(&mut self, x: Output<T>) -> Output<U> {
        self.make("Cast").input(x).dtype::<T>("SrcT").dtype::<U>("DstT").add()
    }
}
