//! Shapes: what changes the place of elements, not the elements.

use super::{Element, GraphBuilder, Index, Number, Output, attr};

impl GraphBuilder {
    /// The same elements in another shape; one extent may be -1 and follows from the others. To flatten rows:
    /// `&[-1, elements]`.
    pub fn reshape<T: Element>(&mut self, x: Output<T>, dims: &[i32]) -> Output<T> {
        let dims = self.i32s(dims);
        self.make("Reshape").input(x).input(dims).dtype::<T>("T").dtype::<i32>("Tshape").add()
    }

    /// Adds an axis of extent 1.
    pub fn expand_dims<T: Element>(&mut self, x: Output<T>, axis: i32) -> Output<T> {
        let axis = self.scalar(axis);
        self.make("ExpandDims").input(x).input(axis).dtype::<T>("T").dtype::<i32>("Tdim").add()
    }

    /// Takes axes of extent 1 away.
    pub fn squeeze<T: Element>(&mut self, x: Output<T>, axes: &[i64]) -> Output<T> {
        self.make("Squeeze").input(x).dtype::<T>("T").attr("squeeze_dims", attr::ints(axes.iter().copied())).add()
    }

    /// The axes in another order.
    pub fn transpose<T: Element>(&mut self, x: Output<T>, order: &[i32]) -> Output<T> {
        let order = self.i32s(order);
        self.make("Transpose").input(x).input(order).dtype::<T>("T").dtype::<i32>("Tperm").add()
    }

    /// Concatenates tensors along an axis.
    pub fn concat<T: Element>(&mut self, parts: &[Output<T>], axis: i32) -> Output<T> {
        // TensorFlow wants two or more.
        if let [only] = parts {
            return *only;
        }
        let axis = self.scalar(axis);
        let whole = self.make("ConcatV2").inputs(parts).input(axis).dtype::<T>("T").dtype::<i32>("Tidx");
        whole.attr("N", attr::int(parts.len() as i64)).add()
    }

    /// Rows of a tensor by their numbers, along axis 0: what an embedding does.
    pub fn gather<T: Element, I: Index>(&mut self, rows: Output<T>, which: Output<I>) -> Output<T> {
        self.gather_along(rows, which, 0)
    }

    /// Parts of a tensor by their numbers, along any axis.
    pub fn gather_along<T: Element, I: Index>(&mut self, x: Output<T>, which: Output<I>, axis: i32) -> Output<T> {
        let axis = self.scalar(axis);
        let gathered = self.make("GatherV2").input(x).input(which).input(axis);
        gathered.dtype::<T>("Tparams").dtype::<I>("Tindices").dtype::<i32>("Taxis").add()
    }

    /// Ones where a number says and zeros elsewhere, along a new last axis of this extent; only zeros for a number
    /// that is not below it.
    pub fn one_hot<I: Index>(&mut self, which: Output<I>, depth: i32) -> Output<f32> {
        let (depth, on, off) = (self.scalar(depth), self.scalar(1.0_f32), self.scalar(0.0_f32));
        let hot = self.make("OneHot").input(which).input(depth).input(on).input(off);
        hot.dtype::<f32>("T").dtype::<I>("TI").add()
    }

    /// A vector as every row of a matrix that has as many rows as `like`: how class names become an answer per row.
    pub fn repeat_rows<T: Element, U: Element>(&mut self, row: Output<T>, like: Output<U>) -> Output<T> {
        let shape = self.make("Shape").input(like).dtype::<U>("T").dtype::<i32>("out_type").add::<i32>();
        let first = self.i32s(&[0]);
        let rows = self.gather(shape, first);
        let once = self.i32s(&[1]);
        let times = self.concat(&[rows, once], 0);
        let row = self.expand_dims(row, 0);
        self.make("Tile").input(row).input(times).dtype::<T>("T").dtype::<i32>("Tmultiples").add()
    }

    /// Which bucket each number is in: 0 below the first boundary, 1 from there on, and so on.
    pub fn bucketize<T: Number>(&mut self, x: Output<T>, boundaries: &[f32]) -> Output<i32> {
        self.make("Bucketize").input(x).dtype::<T>("T").attr("boundaries", attr::floats(boundaries)).add()
    }
}
