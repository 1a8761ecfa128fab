//! Losses that rank what a user chose above what was not chosen.

use burn::tensor::activation::{log_sigmoid, log_softmax, relu};
use burn::tensor::{Tensor, TensorData};
use phalanx_base::{Code, Error, Result};

/// Returns the mean sigmoid cross-entropy of logits and labels of the same shape, labels between 0 and 1. This is the mean of
/// TensorFlow's `sigmoid_cross_entropy_with_logits`.
#[must_use]
pub fn sigmoid_cross_entropy<const D: usize>(logits: Tensor<D>, labels: Tensor<D>) -> Tensor<1> {
    // ln(1 + e^x) - x z, in a form that neither overflows nor loses its gradient at 0.
    (log_sigmoid(logits.clone().neg()).neg() - logits * labels).mean()
}

/// Returns the Bayesian personalised ranking loss: the mean of `-ln σ(positive - negative)` over pairs of scores.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_nn::losses::bpr;
/// let device = phalanx_nn::default_device();
/// let loss = bpr(Tensor::<1>::from_data([2.0, 0.0], &device), Tensor::from_data([2.0, 100.0], &device));
/// assert!((phalanx_nn::scalar(loss)? - (2.0_f32.ln() + 100.0) / 2.0).abs() < 1e-4);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[must_use]
pub fn bpr<const D: usize>(positive: Tensor<D>, negative: Tensor<D>) -> Tensor<1> {
    log_sigmoid(positive - negative).mean().neg()
}

/// Returns the mean of `max(0, margin - positive + negative)` over pairs of scores.
#[must_use]
pub fn pairwise_hinge<const D: usize>(positive: Tensor<D>, negative: Tensor<D>, margin: f32) -> Tensor<1> {
    relu(negative - positive + margin).mean()
}

/// Losses of a retrieval model whose negatives are the other examples of the batch: row `i` of the queries belongs to row `i` of the
/// candidates, and every other candidate is one that it did not choose.
///
/// ```
/// use phalanx_nn::burn::tensor::Tensor;
/// use phalanx_nn::losses::InBatchNegatives;
/// let device = phalanx_nn::default_device();
/// let (users, items) = (Tensor::<2>::zeros([4, 8], &device), Tensor::<2>::zeros([4, 8], &device));
/// let loss = InBatchNegatives::new().candidate_ids(&[3, 5, 5, 9]).softmax(users, items, None)?;
/// // Four candidates for two of the queries, and three for the other two, whose candidates are the same.
/// assert!((phalanx_nn::scalar(loss)? - (4.0_f32.ln() + 3.0_f32.ln()) / 2.0).abs() < 1e-6);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct InBatchNegatives<'a> {
    temperature: f32,
    candidate_ids: Option<&'a [i64]>,
}

impl Default for InBatchNegatives<'_> {
    fn default() -> Self {
        Self { temperature: 1.0, candidate_ids: None }
    }
}

impl<'a> InBatchNegatives<'a> {
    /// Scores are inner products, and every other candidate counts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Divides the scores by this number.
    #[must_use]
    pub fn temperature(self, temperature: f32) -> Self {
        Self { temperature, ..self }
    }

    /// Sets the id of every candidate: one with the id of a query's own candidate does not count as a negative of that query.
    #[must_use]
    pub fn candidate_ids(self, ids: &'a [i64]) -> Self {
        Self { candidate_ids: Some(ids), ..self }
    }

    /// Returns the mean cross-entropy of choosing the own candidate among those of the batch.
    ///
    /// Frequent candidates are frequent negatives, too. `log_frequencies`, the logarithm of the probability that a candidate is in a
    /// batch, corrects that: it is subtracted from the scores, as in the sampled softmax.
    ///
    /// # Errors
    /// When the shapes differ, or there is another number of ids or frequencies than candidates.
    pub fn softmax(
        self,
        queries: Tensor<2>,
        candidates: Tensor<2>,
        log_frequencies: Option<&[f32]>,
    ) -> Result<Tensor<1>> {
        let scores = self.scores(queries, candidates)?;
        let ([rows, _], device) = (scores.dims(), scores.device());
        let scores = match log_frequencies {
            None => scores,
            Some(logs) if logs.len() == rows => {
                scores - Tensor::<2>::from_data(TensorData::new(logs.to_vec(), [1, rows]), &device)
            }
            Some(logs) => return Err(wrong("log frequencies", logs.len(), rows)),
        };
        let own = diagonal(rows);
        // Far below any score: a candidate that is no negative has no share in the softmax.
        let excluded =
            self.negatives(rows)?.iter().zip(&own).map(|(negative, own)| (negative + own - 1.0) * 1e30).collect();
        let scores = scores + Tensor::<2>::from_data(TensorData::new(excluded, [rows, rows]), &device);
        let own = Tensor::<2>::from_data(TensorData::new(own, [rows, rows]), &device);
        Ok((log_softmax(scores, 1) * own).sum() / (rows.max(1) as f32) * -1.0)
    }

    /// Returns the mean of [`bpr`] over all pairs of a query's own candidate and a negative.
    ///
    /// # Errors
    /// When the shapes differ, or there is another number of ids than candidates.
    pub fn bpr(self, queries: Tensor<2>, candidates: Tensor<2>) -> Result<Tensor<1>> {
        self.pairs(queries, candidates, |difference| log_sigmoid(difference).neg())
    }

    /// Returns the mean of [`pairwise_hinge`] over all pairs of a query's own candidate and a negative.
    ///
    /// # Errors
    /// When the shapes differ, or there is another number of ids than candidates.
    pub fn hinge(self, queries: Tensor<2>, candidates: Tensor<2>, margin: f32) -> Result<Tensor<1>> {
        self.pairs(queries, candidates, |difference| relu(difference.neg() + margin))
    }

    /// Returns the mean of `loss` over the differences of positive and negative scores; 0 without negatives.
    fn pairs(
        self,
        queries: Tensor<2>,
        candidates: Tensor<2>,
        loss: impl FnOnce(Tensor<2>) -> Tensor<2>,
    ) -> Result<Tensor<1>> {
        let scores = self.scores(queries, candidates)?;
        let ([rows, _], device) = (scores.dims(), scores.device());
        let negatives = self.negatives(rows)?;
        let count = negatives.iter().sum::<f32>().max(1.0);
        let square = |numbers| Tensor::<2>::from_data(TensorData::new(numbers, [rows, rows]), &device);
        let positive = (scores.clone() * square(diagonal(rows))).sum_dim(1);
        Ok((loss(positive - scores) * square(negatives)).sum() / count)
    }

    /// Returns the score of every query with every candidate.
    fn scores(&self, queries: Tensor<2>, candidates: Tensor<2>) -> Result<Tensor<2>> {
        if queries.dims() != candidates.dims() {
            let what =
                format!("queries of shape {:?} do not fit candidates of shape {:?}", queries.dims(), candidates.dims());
            return Err(
                Error::new(Code::ShapeMismatch, what).help("give each query its own candidate, of the same width")
            );
        }
        Ok(queries.matmul(candidates.transpose()) / self.temperature)
    }

    /// Returns 1 where a candidate is a negative of a query, and 0 elsewhere.
    fn negatives(&self, rows: usize) -> Result<Vec<f32>> {
        if let Some(ids) = self.candidate_ids.filter(|ids| ids.len() != rows) {
            return Err(wrong("candidate ids", ids.len(), rows));
        }
        let is_negative = |row: usize, column: usize| match self.candidate_ids {
            Some(ids) => ids[row] != ids[column],
            None => row != column,
        };
        let all = (0..rows).flat_map(|row| (0..rows).map(move |column| (row, column)));
        Ok(all.map(|(row, column)| f32::from(u8::from(is_negative(row, column)))).collect())
    }
}

fn diagonal(rows: usize) -> Vec<f32> {
    (0..rows * rows).map(|at| f32::from(u8::from(at / rows == at % rows))).collect()
}

fn wrong(what: &str, given: usize, rows: usize) -> Error {
    Error::new(Code::ShapeMismatch, format!("there are {given} {what} for {rows} candidates")).help("give one for each")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 4;
    const WIDTH: usize = 3;
    const IDS: [i64; ROWS] = [3, 5, 3, 8];
    const LOGS: [f32; ROWS] = [-0.5, -2.0, -1.0, -3.0];

    fn numbers(seed: f32) -> Vec<f32> {
        (0..ROWS * WIDTH).map(|at| (seed + at as f32 * 1.7).sin()).collect()
    }

    fn tensor(numbers: Vec<f32>) -> Tensor<2> {
        Tensor::from_data(TensorData::new(numbers, [ROWS, WIDTH]), &crate::default_device())
    }

    /// Computes the losses pair by pair: softmax with frequencies, BPR and hinge with a margin of 0.7.
    fn by_hand(queries: &[f32], candidates: &[f32], ids: &[i64], temperature: f32) -> [f32; 3] {
        let row = |of: &[f32], at: usize| of[at * WIDTH..][..WIDTH].to_vec();
        let score = |i: usize, j: usize| {
            row(queries, i).iter().zip(row(candidates, j)).map(|(a, b)| a * b).sum::<f32>() / temperature
        };
        let (mut softmax, mut bpr, mut hinge, mut pairs) = (0.0, 0.0, 0.0, 0.0);
        for i in 0..ROWS {
            let mut sum = (score(i, i) - LOGS[i]).exp();
            for j in (0..ROWS).filter(|&j| ids[j] != ids[i]) {
                sum += (score(i, j) - LOGS[j]).exp();
                let difference = score(i, i) - score(i, j);
                bpr += (1.0 + (-difference).exp()).ln();
                hinge += (0.7 - difference).max(0.0);
                pairs += 1.0;
            }
            softmax += sum.ln() - (score(i, i) - LOGS[i]);
        }
        [softmax / ROWS as f32, bpr / pairs, hinge / pairs]
    }

    fn found(loss: InBatchNegatives<'_>, queries: &Tensor<2>, candidates: &Tensor<2>) -> [Tensor<1>; 3] {
        let (q, c) = (|| queries.clone(), || candidates.clone());
        [loss.softmax(q(), c(), Some(&LOGS)), loss.bpr(q(), c()), loss.hinge(q(), c(), 0.7)].map(Result::unwrap)
    }

    #[test]
    fn losses_are_those_of_every_pair() {
        let (queries, candidates) = (numbers(0.3), numbers(2.0));
        let distinct = [0, 1, 2, 3];
        for (ids, temperature) in [(distinct, 1.0), (IDS, 1.0), (IDS, 0.25)] {
            let wanted = by_hand(&queries, &candidates, &ids, temperature);
            let loss = InBatchNegatives::new().temperature(temperature).candidate_ids(&ids);
            let found = found(loss, &tensor(queries.clone()), &tensor(candidates.clone()));
            for (wanted, found) in wanted.into_iter().zip(found) {
                let found = crate::scalar(found).unwrap();
                assert!((wanted - found).abs() < 1e-5, "{ids:?}: {wanted} and {found}");
            }
        }
        let plain = InBatchNegatives::new();
        let with_ids = plain.candidate_ids(&distinct);
        let [a, b] =
            [plain, with_ids].map(|loss| loss.softmax(tensor(queries.clone()), tensor(candidates.clone()), None));
        assert_eq!(crate::scalar(a.unwrap()).unwrap(), crate::scalar(b.unwrap()).unwrap());
    }

    #[test]
    fn gradients_are_the_slopes_of_the_losses() {
        let (queries, candidates) = (numbers(0.3), numbers(2.0));
        for which in 0..3 {
            let (q, c) = (tensor(queries.clone()).require_grad(), tensor(candidates.clone()).require_grad());
            let loss = found(InBatchNegatives::new().candidate_ids(&IDS), &q, &c)[which].clone();
            let gradients = loss.backward();
            let slopes = [q.grad(&gradients).unwrap(), c.grad(&gradients).unwrap()].map(|slopes| slopes.into_data());
            for (side, slopes) in slopes.iter().enumerate() {
                for (at, slope) in slopes.as_slice::<f32>().unwrap().iter().enumerate() {
                    let moved = |by: f32| {
                        let mut both = [queries.clone(), candidates.clone()];
                        both[side][at] += by;
                        by_hand(&both[0], &both[1], &IDS, 1.0)[which]
                    };
                    let measured = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                    assert!((measured - slope).abs() < 5e-3, "loss {which}, side {side}, {at}: {measured} and {slope}");
                }
            }
        }
    }

    #[test]
    fn pairs_and_single_examples_have_their_own_losses() {
        let device = crate::default_device();
        let of = |numbers: [f32; 3]| Tensor::<1>::from_data(numbers, &device);
        let hinge = pairwise_hinge(of([1.0, 2.0, 0.0]), of([0.0, 0.0, 0.5]), 1.0);
        assert!((crate::scalar(hinge).unwrap() - 0.5).abs() < 1e-6);
        let pointwise = sigmoid_cross_entropy(of([0.0, 50.0, -50.0]), of([1.0, 1.0, 1.0]));
        assert!((crate::scalar(pointwise).unwrap() - (2.0_f32.ln() + 50.0) / 3.0).abs() < 1e-5);
        // A batch of one has no negatives.
        let one = || Tensor::<2>::ones([1, 2], &device);
        for loss in [InBatchNegatives::new().bpr(one(), one()), InBatchNegatives::new().softmax(one(), one(), None)] {
            assert_eq!(crate::scalar(loss.unwrap()).unwrap(), 0.0);
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let (two, three) = (Tensor::<2>::ones([2, 3], &crate::default_device()), tensor(numbers(0.0)));
        let error = InBatchNegatives::new().bpr(two, three.clone()).unwrap_err();
        assert_eq!(error.what(), "queries of shape [2, 3] do not fit candidates of shape [4, 3]");
        let error = InBatchNegatives::new().candidate_ids(&[1]).hinge(three.clone(), three.clone(), 1.0).unwrap_err();
        assert_eq!(error.what(), "there are 1 candidate ids for 4 candidates");
        assert!(InBatchNegatives::new().softmax(three.clone(), three, Some(&[0.0])).is_err());
    }
}
