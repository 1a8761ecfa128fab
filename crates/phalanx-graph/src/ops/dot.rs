//! The dot products of two values along an axis of each.

use super::{exactly, misfit};
use crate::op::{Operation, Out, Reads, Rows};
use crate::pass::Context;
use crate::shape::ValueShape;
use phalanx_base::Result;
use serde::{Deserialize, Serialize};

/// The dot products of every vector of one value with every vector of another, both along an axis: Keras' `Dot`. Values have one
/// or two axes, which are counted without the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dot {
    /// The axis of each value.
    pub axes: [usize; 2],
    /// Whether vectors are made 1 long first.
    pub normalize: bool,
}

/// The least square of a length by which a vector is divided.
const LEAST: f32 = 1e-12;

/// Where the vectors of an example lie.
#[derive(Clone, Copy)]
struct Vectors {
    count: usize,
    length: usize,
    /// The distance between two vectors, and between two numbers of one.
    apart: usize,
    step: usize,
}

impl Vectors {
    fn of(dims: &[usize], axis: usize) -> Option<Self> {
        match (dims, axis) {
            (&[length], 0) => Some(Self { count: 1, length, apart: length, step: 1 }),
            (&[length, count], 0) => Some(Self { count, length, apart: 1, step: count }),
            (&[count, length], 1) => Some(Self { count, length, apart: length, step: 1 }),
            _ => None,
        }
    }

    fn at(self, vector: usize, place: usize) -> usize {
        vector * self.apart + place * self.step
    }

    /// Returns 1 over the length of a vector.
    fn inverse(self, x: &[f32], vector: usize) -> f32 {
        let square: f32 = (0..self.length).map(|place| x[self.at(vector, place)].powi(2)).sum();
        square.max(LEAST).sqrt().recip()
    }
}

impl Dot {
    fn vectors(self, cx: &Context<'_>) -> Option<[Vectors; 2]> {
        Some([Vectors::of(&cx.shape(0).dims, self.axes[0])?, Vectors::of(&cx.shape(1).dims, self.axes[1])?])
    }

    fn scale(self, x: &[f32], vectors: Vectors, vector: usize) -> f32 {
        if self.normalize { vectors.inverse(x, vector) } else { 1.0 }
    }
}

impl Operation for Dot {
    fn shape(&self, inputs: &[&ValueShape]) -> Result<ValueShape> {
        let [a, b] = exactly(inputs)?;
        let vectors = (Vectors::of(&a.dims, self.axes[0]), Vectors::of(&b.dims, self.axes[1]));
        let (Some(left), Some(right)) = vectors else {
            return Err(misfit(format!("values of shapes {a} and {b} have no vectors along axes {:?}", self.axes)));
        };
        if left.length != right.length {
            return Err(misfit(format!("vectors of {} and of {} numbers", left.length, right.length)));
        }
        let counts = [(a, left), (b, right)].map(|(own, vectors)| (own.dims.len() > 1).then_some(vectors.count));
        let dims: Vec<usize> = counts.into_iter().flatten().collect();
        Ok(ValueShape::batch(if dims.is_empty() { vec![1] } else { dims }))
    }

    fn forward(&self, cx: &Context<'_>, out: Out<'_>, _: &mut [f32]) {
        let Some([left, right]) = self.vectors(cx) else { return };
        let sizes = [0, 1].map(|input| cx.shape(input).elements().max(1));
        let rows = cx.input(0).chunks_exact(sizes[0]).zip(cx.input(1).chunks_exact(sizes[1]));
        for ((a, b), out) in rows.zip(out.contiguous().chunks_exact_mut((left.count * right.count).max(1))) {
            for (i, out) in out.chunks_exact_mut(right.count.max(1)).enumerate() {
                for (j, out) in out.iter_mut().enumerate() {
                    let products = (0..left.length).map(|place| a[left.at(i, place)] * b[right.at(j, place)]);
                    *out = products.sum::<f32>() * self.scale(a, left, i) * self.scale(b, right, j);
                }
            }
        }
    }

    fn backward(&self, input: usize, cx: &Context<'_>, gradient: Rows<'_>, to: &mut [f32]) {
        let Some(vectors) = self.vectors(cx) else { return };
        let (own, other) = (vectors[input], vectors[1 - input]);
        let sizes = [input, 1 - input].map(|input| cx.shape(input).elements().max(1));
        let rows = cx.input(input).chunks_exact(sizes[0]).zip(cx.input(1 - input).chunks_exact(sizes[1]));
        let gradients = gradient.contiguous().chunks_exact((own.count * other.count).max(1));
        for (((x, y), gradient), to) in rows.zip(gradients).zip(to.chunks_exact_mut(sizes[0])) {
            to.fill(0.0);
            for i in 0..own.count {
                for j in 0..other.count {
                    let at = if input == 0 { i * other.count + j } else { j * own.count + i };
                    let share = gradient[at] * self.scale(y, other, j);
                    (0..own.length).for_each(|place| to[own.at(i, place)] += share * y[other.at(j, place)]);
                }
                if self.normalize {
                    // Only the part that is orthogonal to the vector changes its direction.
                    let inverse = own.inverse(x, i);
                    let along: f32 = (0..own.length).map(|place| to[own.at(i, place)] * x[own.at(i, place)]).sum();
                    for place in 0..own.length {
                        let at = own.at(i, place);
                        to[at] = inverse * (to[at] - along * inverse * inverse * x[at]);
                    }
                }
            }
        }
    }

    fn reads(&self) -> Reads {
        Reads { inputs: true, output: false }
    }
}
