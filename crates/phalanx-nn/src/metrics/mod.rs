//! Metrics and loss values as defined by Keras 2.15, on plain slices.
//!
//! A [`Metric`] accumulates [`Values`] batch by batch; [`Metric::merge`] adds up the states of replicas and workers.
//! [`parse`] finds a metric by its name in Keras. [`Loss`] computes the losses of single examples. Where Keras
//! distinguishes ranks of tensors, everything here is rows of examples: `[examples, width]`.

mod accuracy;
mod auc;
mod best_at;
mod calibration;
mod confusion;
mod counts;
mod crossentropy;
mod divergence;
mod eval_metric;
mod group_auc;
mod heads;
mod loss_values;
mod mean;
mod measured;
mod metric;
mod names;
#[cfg(test)]
mod properties;
mod regression;
mod thresholds;
mod together;
mod values;
mod weights;

pub use accuracy::{
    Accuracy, BinaryAccuracy, BinaryMatch, CategoricalAccuracy, CategoricalMatch, Equal, SparseCategoricalAccuracy,
    SparseCategoricalMatch, SparseTopKCategoricalAccuracy, SparseTopKMatch, TopKCategoricalAccuracy, TopKMatch,
};
pub use auc::{Auc, Curve, Summation};
pub use best_at::{
    BestAt, PrecisionAtRecall, PrecisionByRecall, RecallAtPrecision, RecallByPrecision, SensitivityAtSpecificity,
    SensitivityBySpecificity, SpecificityAtSensitivity, SpecificityBySensitivity, Tradeoff,
};
pub use calibration::{Calibration, CalibrationError, NormalizedEntropy};
pub use confusion::Counts;
pub use counts::{
    CountMetric, FalseNegative, FalseNegatives, FalsePositive, FalsePositives, OfCounts, Precision, PrecisionOf,
    Recall, RecallOf, TrueNegative, TrueNegatives, TruePositive, TruePositives,
};
pub use crossentropy::{
    BinaryCrossentropy, BinaryEntropy, CategoricalCrossentropy, CategoricalEntropy, SparseCategoricalCrossentropy,
    SparseEntropy,
};
pub use divergence::{
    CategoricalHinge, CategoricalHingeLoss, Hinge, HingeLoss, KlDivergence, KullbackLeibler, Poisson, PoissonLoss,
    SquaredHinge, SquaredHingeLoss,
};
pub use eval_metric::EvalMetric;
pub use group_auc::GroupAuc;
pub use heads::HeadMetrics;
pub use loss_values::{Loss, Reduced, Reduction, compute_average_loss};
pub use mean::{AccuracyBaseline, Mean, Sum};
pub use measured::{MeanMetric, Measure, PerExample};
pub use metric::Metric;
pub use names::parse;
pub use regression::{
    AbsoluteError, AbsolutePercentageError, Cosine, CosineSimilarity, LogCosh, LogCoshError, MeanAbsoluteError,
    MeanAbsolutePercentageError, MeanSquaredError, MeanSquaredLogarithmicError, RootMeanSquaredError, RootSquaredError,
    SquaredError, SquaredLogarithmicError,
};
pub use together::{load_words, merge_words, words_of};
pub use values::{Pair, Sparse, Values};
