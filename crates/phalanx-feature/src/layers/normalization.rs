//! `Normalization`: numbers shifted and scaled to mean 0 and variance 1.

use super::setting;
use crate::adapt::each_batch;
use crate::layout::in_layout_of;
use crate::numbers::each_f32;
use crate::{GraphTensor, PreprocessingLayer};
use phalanx_base::{Code, Error, Result};
use phalanx_data::{Column, Dataset, Values};
use phalanx_formats::saved_model::GraphBuilder;

/// Keras' `Normalization`: `(x - mean) / √variance`, with one mean and variance per index of the kept axes.
///
/// ```
/// use phalanx_data::Column;
/// use phalanx_feature::{Normalization, PreprocessingLayer};
/// let ages = Column::f32(vec![1.0, 2.0, 3.0, 4.0, 5.0]);
/// let layer = Normalization::new().axis([]).adapt_columns([&ages])?;
/// assert_eq!((layer.mean(), layer.variance()), (&[3.0][..], &[2.0][..]));
/// assert_eq!(layer.call(&Column::f32(vec![3.0]))?.as_f32()?, [0.0]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Normalization {
    axis: Vec<i32>,
    mean: Vec<f32>,
    variance: Vec<f32>,
    invert: bool,
}

impl Default for Normalization {
    fn default() -> Self {
        Self { axis: vec![-1], mean: Vec::new(), variance: Vec::new(), invert: false }
    }
}

/// The smallest divisor: Keras' `epsilon()`.
const SMALLEST: f32 = 1e-7;

impl Normalization {
    const LAYER: &'static str = "Normalization";

    /// Returns a layer that keeps the last axis. Adapt it, or set mean and variance, before calling it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the axes that keep separate means, numbered as in Keras: 0 is the batch and cannot be kept, -1 is the last.
        /// Without any, there is one mean for everything. One number per row counts as rows of one number.
        axis: impl Into<Vec<i32>> => axis;
        /// Sets whether to invert the layer: `mean + x · √variance`.
        invert: bool => invert;
    }

    /// Sets mean and variance: one for everything, or one per kept index.
    ///
    /// # Errors
    /// If their numbers differ or a variance is below 0.
    pub fn mean_and_variance(self, mean: impl Into<Vec<f32>>, variance: impl Into<Vec<f32>>) -> Result<Self> {
        let (mean, variance) = (mean.into(), variance.into());
        if mean.len() != variance.len() || mean.is_empty() || variance.iter().any(|&variance| variance < 0.0) {
            let why = format!("{} means and {} variances were given", mean.len(), variance.len());
            return Err(setting(Self::LAYER, why).help("give as many means as variances, and no variance below 0"));
        }
        Ok(Self { mean, variance, ..self })
    }

    /// Computes mean and variance in one pass over a dataset.
    ///
    /// # Errors
    /// If reading fails, or there is no such dense numeric column.
    pub fn adapt(self, data: &Dataset, column: &str) -> Result<Self> {
        let mut moments = Moments::default();
        each_batch(data, |batch| moments.add(batch.column(column)?, &self.axis))?;
        self.learn(moments)
    }

    /// Like [`Normalization::adapt`], over columns in memory.
    ///
    /// # Errors
    /// If a column is not dense and numeric, or rows differ in shape.
    pub fn adapt_columns<'a>(self, columns: impl IntoIterator<Item = &'a Column>) -> Result<Self> {
        let mut moments = Moments::default();
        columns.into_iter().try_for_each(|column| moments.add(column, &self.axis))?;
        self.learn(moments)
    }

    fn learn(self, moments: Moments) -> Result<Self> {
        if moments.count == 0.0 {
            return Err(Error::new(Code::DataRow, "a Normalization layer was adapted to an empty input")
                .help("check that the input is not empty"));
        }
        let mean = moments.mean.iter().map(|&mean| mean as f32).collect();
        let variance = moments.squares.iter().map(|&squares| (squares / moments.count) as f32).collect();
        Ok(Self { mean, variance, ..self })
    }

    /// Returns the mean and the deviation of every value of a row.
    fn moments(&self, kept_axes: &KeptAxes) -> Result<(Vec<f32>, Vec<f32>)> {
        if self.mean.is_empty() {
            return Err(setting(Self::LAYER, "it has no mean yet").help("adapt it to data, or give mean and variance"));
        }
        if self.mean.len() != 1 && self.mean.len() != kept_axes.count {
            let what =
                format!("rows of {} kept values do not match a Normalization of {}", kept_axes.count, self.mean.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("adapt it to rows of the shape it is called with"));
        }
        let of = |list: &[f32]| -> Vec<f32> {
            kept_axes.of_element.iter().map(|&place| if list.len() == 1 { list[0] } else { list[place] }).collect()
        };
        let deviations = of(&self.variance).iter().map(|variance| variance.sqrt().max(SMALLEST)).collect();
        Ok((of(&self.mean), deviations))
    }

    /// Returns the means, one per kept index.
    #[must_use]
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Returns the variances, one per kept index.
    #[must_use]
    pub fn variance(&self) -> &[f32] {
        &self.variance
    }
}

impl PreprocessingLayer for Normalization {
    fn call(&self, column: &Column) -> Result<Column> {
        let (means, deviations) = self.moments(&KeptAxes::of(column, &self.axis)?)?;
        let mut values = Vec::new();
        let mut element = 0;
        each_f32(column, |value| {
            let (mean, deviation) = (means[element], deviations[element]);
            values.push(if self.invert { mean + value * deviation } else { (value - mean) / deviation });
            element = if element + 1 == means.len() { 0 } else { element + 1 };
        })?;
        in_layout_of(column, Values::F32(values))
    }

    fn kind(&self) -> &'static str {
        Self::LAYER
    }

    fn output_shape(&self, input: &[usize]) -> Result<Vec<usize>> {
        self.moments(&KeptAxes::of_rows(input, &self.axis)?)?;
        Ok(input.to_vec())
    }

    fn graph(&self, graph: &mut GraphBuilder, input: GraphTensor, dims: &[usize]) -> Result<GraphTensor> {
        let (means, deviations) = self.moments(&KeptAxes::of_rows(dims, &self.axis)?)?;
        let numbers = input.floats(graph)?;
        let shape: Vec<usize> = std::iter::once(1).chain(dims.iter().copied()).collect();
        let (mean, deviation) = (graph.constant(&shape, &means), graph.constant(&shape, &deviations));
        Ok(GraphTensor::F32(if self.invert {
            let scaled = graph.mul(numbers, deviation);
            graph.add(mean, scaled)
        } else {
            let shifted = graph.sub(numbers, mean);
            graph.div(shifted, deviation)
        }))
    }
}

/// The index of the mean of each value of a row.
struct KeptAxes {
    of_element: Vec<usize>,
    count: usize,
}

impl KeptAxes {
    fn of(column: &Column, axis: &[i32]) -> Result<Self> {
        if column.is_ragged() {
            return Err(Error::new(Code::DataColumn, "a Normalization layer was given rows of differing length")
                .help("normalize dense columns; pad the rows, or normalize before they are made ragged"));
        }
        Self::of_rows(column.row_shape(), axis)
    }

    fn of_rows(shape: &[usize], axis: &[i32]) -> Result<Self> {
        let shape = if shape.is_empty() { &[1] } else { shape };
        let rank = shape.len() as i32 + 1;
        let mut kept = vec![false; shape.len()];
        for &axis in axis {
            let index = if axis < 0 { axis + rank } else { axis };
            if !(1..rank).contains(&index) {
                let why = format!("rows of shape {shape:?} have no axis {axis} (axis 0 is the batch)");
                return Err(setting(Normalization::LAYER, why));
            }
            kept[index as usize - 1] = true;
        }
        let elements: usize = shape.iter().product();
        let place = |element: usize| {
            let (mut rest, mut place, mut scale) = (element, 0, 1);
            for (&size, &kept) in shape.iter().zip(&kept).rev() {
                if kept {
                    place += rest % size * scale;
                    scale *= size;
                }
                rest /= size;
            }
            place
        };
        let count = shape.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(size, _)| size).product();
        Ok(Self { of_element: (0..elements).map(place).collect(), count })
    }
}

/// Running means and sums of squared deviations, in double precision for long datasets.
#[derive(Default)]
struct Moments {
    count: f64,
    mean: Vec<f64>,
    squares: Vec<f64>,
}

impl Moments {
    fn add(&mut self, column: &Column, axis: &[i32]) -> Result<()> {
        let kept_axes = KeptAxes::of(column, axis)?;
        if self.mean.is_empty() {
            self.mean = vec![0.0; kept_axes.count];
            self.squares = vec![0.0; kept_axes.count];
        }
        if self.mean.len() != kept_axes.count {
            let what = format!("rows of {} kept values follow rows of {}", kept_axes.count, self.mean.len());
            return Err(Error::new(Code::ShapeMismatch, what).help("give all rows one shape"));
        }
        let of_element = &kept_axes.of_element;
        // Every mean has the same number of values in a row.
        let count = (column.rows() * (of_element.len() / kept_axes.count.max(1))) as f64;
        if count == 0.0 {
            return Ok(());
        }
        let mut means = vec![0.0; kept_axes.count];
        let mut element = 0;
        let mut next = || {
            let place = of_element[element];
            element = if element + 1 == of_element.len() { 0 } else { element + 1 };
            place
        };
        each_f32(column, |value| means[next()] += f64::from(value))?;
        means.iter_mut().for_each(|mean| *mean /= count);
        let mut squares = vec![0.0; kept_axes.count];
        each_f32(column, |value| {
            let place = next();
            squares[place] += (f64::from(value) - means[place]).powi(2);
        })?;
        self.merge(count, &means, &squares);
        Ok(())
    }

    /// Merges the moments of two sets of values (Chan's formula).
    fn merge(&mut self, count: f64, means: &[f64], squares: &[f64]) {
        let total = self.count + count;
        for (place, (&mean, &square)) in means.iter().zip(squares).enumerate() {
            let distance = mean - self.mean[place];
            self.mean[place] += distance * count / total;
            self.squares[place] += square + distance * distance * self.count * count / total;
        }
        self.count = total;
    }
}
