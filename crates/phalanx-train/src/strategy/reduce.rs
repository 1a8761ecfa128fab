//! Reductions over the replicas of all workers.

use super::{PerReplica, Reducible, Strategy};
use phalanx_base::{Code, Error, Result};
use phalanx_collective::Reduce;

/// One replica's value in transit.
struct Part {
    dims: Vec<usize>,
    numbers: Vec<f32>,
}

impl Strategy {
    /// Returns the sum or mean over all replicas, on every worker. TensorFlow's `reduce` with `axis=None`.
    ///
    /// ```
    /// use phalanx_train::{PerReplica, Reduce, Strategy};
    /// let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
    /// let losses = PerReplica::new([(0, 0.5_f32), (1, 0.25)]);
    /// assert_eq!(strategy.reduce(Reduce::Sum, &losses)?, 0.75);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if no replica has a value, shapes differ, or a worker is lost.
    pub fn reduce<T: Reducible>(&self, reduce: Reduce, values: &PerReplica<T>) -> Result<T> {
        let parts = self.collect(values)?;
        let Some(first) = parts.first() else { return Err(nothing("reduce")) };
        if let Some(odd) = parts.iter().find(|part| part.dims != first.dims) {
            return Err(different(&first.dims, &odd.dims).help("reduce_axis and gather take values that differ"));
        }
        let mut sums = first.numbers.clone();
        for part in &parts[1..] {
            sums.iter_mut().zip(&part.numbers).for_each(|(sum, number)| *sum += number);
        }
        if reduce == Reduce::Mean {
            sums.iter_mut().for_each(|sum| *sum /= parts.len() as f32);
        }
        T::make(sums, &first.dims)
    }

    /// Returns the sum or mean over the first axis of every replica's value and over all replicas. Every row has the same
    /// weight, however many rows each replica has. TensorFlow's `reduce` with `axis=0`.
    ///
    /// ```
    /// use phalanx_train::{PerReplica, Reduce, Strategy};
    /// let strategy = Strategy::mirrored(["cpu:0", "cpu:1"])?;
    /// let losses = PerReplica::new([(0, vec![1.0, 2.0]), (1, vec![3.0])]);
    /// assert_eq!(strategy.reduce_axis(Reduce::Mean, &losses)?, [2.0]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Strategy::reduce`]; the rows must have the same shape.
    pub fn reduce_axis<T: Reducible>(&self, reduce: Reduce, values: &PerReplica<T>) -> Result<Vec<f32>> {
        let parts = self.collect(values)?;
        let Some(first) = parts.first() else { return Err(nothing("reduce_axis")) };
        let row = first.dims.get(1..).unwrap_or_default().to_vec();
        let width: usize = row.iter().product();
        let (mut sums, mut rows) = (vec![0.0_f64; width], 0_usize);
        for part in &parts {
            if part.dims.is_empty() || part.dims[1..] != row[..] {
                return Err(different(&first.dims, &part.dims).help("values need a first axis and rows of one shape"));
            }
            rows += part.dims[0];
            for numbers in part.numbers.chunks_exact(width.max(1)) {
                sums.iter_mut().zip(numbers).for_each(|(sum, &number)| *sum += f64::from(number));
            }
        }
        let scale = if reduce == Reduce::Mean { rows.max(1) as f64 } else { 1.0 };
        Ok(sums.iter().map(|sum| (sum / scale) as f32).collect())
    }

    /// Concatenates the values of all replicas along `axis`, in the order of the replicas.
    ///
    /// # Errors
    /// Fails if no replica has a value, one is a scalar, another axis differs, or a worker is lost.
    pub fn gather<T: Reducible>(&self, values: &PerReplica<T>, axis: usize) -> Result<T> {
        let parts = self.collect(values)?;
        let Some(first) = parts.first() else { return Err(nothing("gather")) };
        let others = |dims: &[usize]| dims.iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, d)| *d).collect();
        let expected: Vec<usize> = others(&first.dims);
        for part in &parts {
            if axis >= part.dims.len() || others(&part.dims) != expected {
                return Err(
                    different(&first.dims, &part.dims).help(format!("all extents but axis {axis} must be equal"))
                );
            }
        }
        let mut dims = first.dims.clone();
        dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
        let inner: usize = dims[axis + 1..].iter().product();
        let outer: usize = dims[..axis].iter().product();
        let mut joined = Vec::with_capacity(dims.iter().product());
        for at in 0..outer {
            for part in &parts {
                let run = part.dims[axis] * inner;
                joined.extend_from_slice(&part.numbers[at * run..(at + 1) * run]);
            }
        }
        T::make(joined, &dims)
    }

    /// Returns the values of all replicas of all workers, in order.
    fn collect<T: Reducible>(&self, values: &PerReplica<T>) -> Result<Vec<Part>> {
        let own = values.local_results().map(|value| Ok(Part { dims: value.dims(), numbers: value.numbers()? }));
        let own: Vec<Part> = own.collect::<Result<_>>()?;
        let Some(workers) = self.workers() else { return Ok(own) };
        let mut bytes = Vec::new();
        own.iter().for_each(|part| part.write(&mut bytes));
        let mut all = Vec::new();
        for (rank, bytes) in workers.group().all_gather(&bytes)?.iter().enumerate() {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                all.push(Part::read(&mut rest).ok_or_else(|| malformed(rank))?);
            }
        }
        Ok(all)
    }
}

impl Part {
    /// Writes the number of axes, the shape, the elements.
    fn write(&self, bytes: &mut Vec<u8>) {
        let mut word = |number: usize| bytes.extend_from_slice(&(number as u64).to_le_bytes());
        word(self.dims.len());
        self.dims.iter().for_each(|&extent| word(extent));
        self.numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    }

    fn read(rest: &mut &[u8]) -> Option<Self> {
        let mut word = || {
            let (eight, after) = rest.split_first_chunk::<8>()?;
            *rest = after;
            usize::try_from(u64::from_le_bytes(*eight)).ok()
        };
        let axes = word()?;
        let dims: Vec<usize> = (0..axes.min(16)).map(|_| word()).collect::<Option<_>>()?;
        let count = dims.iter().try_fold(1_usize, |count, &extent| count.checked_mul(extent))?;
        let numbers = rest.split_off(..count.checked_mul(4)?)?;
        let numbers = numbers.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        Some(Self { dims, numbers })
    }
}

fn malformed(rank: usize) -> Error {
    Error::new(Code::BadMessage, format!("the values of worker number {rank} are malformed"))
}

fn nothing(what: &str) -> Error {
    Error::new(Code::BadSetting, format!("there is nothing to {what}"))
        .because("no replica has a value: the data has ended everywhere")
}

fn different(first: &[usize], other: &[usize]) -> Error {
    Error::new(Code::ShapeMismatch, format!("replicas have values of shapes {first:?} and {other:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_nn::burn::tensor::Tensor;

    #[test]
    fn tensors_are_joined_along_any_axis() {
        let strategy = Strategy::mirrored(["cpu:0", "cpu:1"]).unwrap();
        let device = phalanx_nn::default_device();
        let a = Tensor::<2>::from_data([[1.0, 2.0], [3.0, 4.0]], &device);
        let b = Tensor::<2>::from_data([[5.0, 6.0]], &device);
        let values = PerReplica::new([(0, a.clone()), (1, b.clone())]);
        let rows = strategy.gather(&values, 0).unwrap();
        assert_eq!(rows.to_data().as_slice::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(strategy.gather(&values, 1).is_err());
        let columns = strategy.gather(&PerReplica::new([(0, a), (1, b.repeat_dim(0, 2))]), 1).unwrap();
        assert_eq!(columns.to_data().as_slice::<f32>().unwrap(), [1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(strategy.gather(&PerReplica::new([(0, 1.0_f32)]), 0).is_err(), "scalars have no axis");
        assert!(strategy.reduce(Reduce::Sum, &values).is_err(), "shapes differ");
        assert!(strategy.reduce(Reduce::Sum, &PerReplica::<f32>::new([])).is_err());
    }

    #[test]
    fn a_part_is_read_as_it_was_written_and_rubbish_is_refused() {
        let mut bytes = Vec::new();
        Part { dims: vec![2, 1], numbers: vec![1.5, -2.0] }.write(&mut bytes);
        let part = Part::read(&mut &bytes[..]).unwrap();
        assert_eq!((part.dims, part.numbers), (vec![2, 1], vec![1.5, -2.0]));
        for cut in 0..bytes.len() {
            assert!(Part::read(&mut &bytes[..cut]).is_none(), "{cut} bytes");
        }
        let huge = [1, u64::MAX].map(u64::to_le_bytes).concat();
        assert!(Part::read(&mut &huge[..]).is_none());
    }
}
