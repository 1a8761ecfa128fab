//! Metrics by their names in Keras.

use crate::losses::LossFunction;
use phalanx_base::{Code, Error, Result, nearest};

use super::{
    Auc, BinaryAccuracy, BinaryCrossentropy, CategoricalAccuracy, CategoricalCrossentropy, CategoricalHinge,
    CosineSimilarity, FalseNegatives, FalsePositives, Hinge, KlDivergence, LogCoshError, Mean, MeanAbsoluteError,
    MeanAbsolutePercentageError, MeanMetric, MeanSquaredError, MeanSquaredLogarithmicError, Measure, Metric, Poisson,
    Precision, Recall, RootMeanSquaredError, SparseCategoricalAccuracy, SparseCategoricalCrossentropy,
    SparseTopKCategoricalAccuracy, SquaredHinge, Sum, TopKCategoricalAccuracy, TrueNegatives, TruePositives,
};

/// Makes a metric with its default name or a given one.
type Make = fn(Option<&str>) -> Box<dyn Metric>;

/// A class of Keras, reported under its own name, and its functions, reported under the requested name.
struct Entry {
    class: &'static str,
    functions: &'static [&'static str],
    make: Make,
}

macro_rules! entries {
    ($($class:literal $functions:expr => $make:expr;)*) => {
        const ENTRIES: &[Entry] = &[$(Entry { class: $class, functions: &$functions, make: $make },)*];
    };
}

/// Makes a mean without naming its measure.
trait Named {
    fn make(name: Option<&str>) -> Box<dyn Metric>;
}

impl<M: Measure + Default> Named for MeanMetric<M> {
    fn make(name: Option<&str>) -> Box<dyn Metric> {
        Box::new(Self::new().named(name.unwrap_or(M::NAME)))
    }
}

entries! {
    "BinaryAccuracy" ["binary_accuracy"] => BinaryAccuracy::make;
    "CategoricalAccuracy" ["categorical_accuracy"] => CategoricalAccuracy::make;
    "SparseCategoricalAccuracy" ["sparse_categorical_accuracy"] => SparseCategoricalAccuracy::make;
    "TopKCategoricalAccuracy" ["top_k_categorical_accuracy"] => TopKCategoricalAccuracy::make;
    "SparseTopKCategoricalAccuracy" ["sparse_top_k_categorical_accuracy"] => SparseTopKCategoricalAccuracy::make;
    "MeanSquaredError" ["mean_squared_error", "mse", "MSE"] => MeanSquaredError::make;
    "RootMeanSquaredError" ["root_mean_squared_error", "rmse"] => RootMeanSquaredError::make;
    "MeanAbsoluteError" ["mean_absolute_error", "mae", "MAE"] => MeanAbsoluteError::make;
    "MeanAbsolutePercentageError" ["mean_absolute_percentage_error", "mape", "MAPE"]
        => MeanAbsolutePercentageError::make;
    "MeanSquaredLogarithmicError" ["mean_squared_logarithmic_error", "msle", "MSLE"]
        => MeanSquaredLogarithmicError::make;
    "LogCoshError" ["logcosh", "log_cosh"] => LogCoshError::make;
    "CosineSimilarity" ["cosine_similarity", "cosine_proximity"] => CosineSimilarity::make;
    "BinaryCrossentropy" ["binary_crossentropy", "bce", "BCE"] => BinaryCrossentropy::make;
    "CategoricalCrossentropy" ["categorical_crossentropy"] => CategoricalCrossentropy::make;
    "SparseCategoricalCrossentropy" ["sparse_categorical_crossentropy"] => SparseCategoricalCrossentropy::make;
    "KLDivergence" ["kullback_leibler_divergence", "kl_divergence", "kld", "KLD"] => KlDivergence::make;
    "Poisson" ["poisson"] => Poisson::make;
    "Hinge" ["hinge"] => Hinge::make;
    "SquaredHinge" ["squared_hinge"] => SquaredHinge::make;
    "CategoricalHinge" ["categorical_hinge"] => CategoricalHinge::make;
    "AUC" ["auc"] => |_| Box::new(Auc::new());
    "Precision" ["precision"] => |_| Box::new(Precision::new());
    "Recall" ["recall"] => |_| Box::new(Recall::new());
    "TruePositives" ["true_positives"] => |_| Box::new(TruePositives::new());
    "FalsePositives" ["false_positives"] => |_| Box::new(FalsePositives::new());
    "TrueNegatives" ["true_negatives"] => |_| Box::new(TrueNegatives::new());
    "FalseNegatives" ["false_negatives"] => |_| Box::new(FalseNegatives::new());
    "Mean" ["mean"] => |_| Box::new(Mean::new("mean"));
    "Sum" ["sum"] => |_| Box::new(Sum::new("sum"));
}

/// Metrics that need a bound, which a name cannot express.
const WITH_BOUND: &[&str] =
    &["PrecisionAtRecall", "RecallAtPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity"];

/// Names of metrics that depend on the model.
const BY_MODEL: &[&str] = &["accuracy", "acc", "crossentropy", "ce"];

/// Returns the metric called `name`, with Keras' defaults, for a model with this loss and `width` outputs.
///
/// `accuracy` and `crossentropy` mean the binary metric if the model has one output, the sparse one if the loss takes class
/// numbers, and the categorical one otherwise. A class is reported under Keras' name for it, a function under the given
/// name.
///
/// ```
/// use phalanx_nn::metrics::{Loss, Metric, Values, parse};
/// let loss = Loss::parse("sparse_categorical_crossentropy")?;
/// let mut accuracy = parse("accuracy", Some(&loss), 3)?;
/// accuracy.update(Values::ids(&[2]), Values::rows(&[0.1, 0.2, 0.7], 3), None)?;
/// assert_eq!((accuracy.name(), accuracy.result()), ("accuracy", 1.0));
/// let error = parse("acuracy", Some(&loss), 3).err().unwrap();
/// assert_eq!(error.next(), Some("did you mean `accuracy`?"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// If there is none of that name.
pub fn parse(name: &str, loss: Option<&dyn LossFunction>, width: usize) -> Result<Box<dyn Metric>> {
    let sparse = loss.is_some_and(LossFunction::takes_class_ids);
    match name.to_lowercase().as_str() {
        // Keras ignores the case of these four, which also covers the class `Accuracy`.
        "accuracy" | "acc" if width == 1 => Ok(BinaryAccuracy::make(Some(name))),
        "accuracy" | "acc" if sparse => Ok(SparseCategoricalAccuracy::make(Some(name))),
        "accuracy" | "acc" => Ok(CategoricalAccuracy::make(Some(name))),
        "crossentropy" | "ce" if width == 1 => Ok(BinaryCrossentropy::make(Some(name))),
        "crossentropy" | "ce" if sparse => Ok(SparseCategoricalCrossentropy::make(Some(name))),
        "crossentropy" | "ce" => Ok(CategoricalCrossentropy::make(Some(name))),
        _ => by_table(name),
    }
}

fn by_table(name: &str) -> Result<Box<dyn Metric>> {
    for entry in ENTRIES {
        if entry.class == name {
            return Ok((entry.make)(None));
        }
        if entry.functions.contains(&name) {
            return Ok((entry.make)(Some(name)));
        }
    }
    if WITH_BOUND.contains(&name) {
        return Err(Error::new(Code::BadSetting, format!("metric `{name}` needs a bound"))
            .help(format!("give it as a value: `{name}::new(0.8)?`")));
    }
    let known = ENTRIES.iter().flat_map(|entry| std::iter::once(entry.class).chain(entry.functions.iter().copied()));
    let help = match nearest(name, BY_MODEL.iter().copied().chain(known).chain(WITH_BOUND.iter().copied())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "choose a metric from Keras, for example `accuracy`, `AUC`, `Precision`, `mse` or `mae`".into(),
    };
    Err(Error::new(Code::BadSetting, format!("no metric is called `{name}`")).help(help))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Loss, Values};

    #[test]
    fn every_name_makes_a_metric_under_the_name_keras_reports() {
        for entry in ENTRIES {
            let class = (entry.make)(None);
            assert!(!class.name().is_empty() && class.result() == 0.0);
            for name in entry.functions {
                assert_eq!(parse(name, None, 4).unwrap().name(), *name);
            }
        }
        let names = ["AUC", "MSE", "MeanSquaredError", "acc", "LogCoshError", "KLDivergence"];
        let reported = ["auc", "MSE", "mean_squared_error", "acc", "logcosh", "kullback_leibler_divergence"];
        assert_eq!(names.map(|name| parse(name, None, 1).unwrap().name().to_owned()), reported);
    }

    #[test]
    fn accuracy_follows_the_model() {
        let sparse = Loss::parse("sparse_categorical_crossentropy").unwrap();
        let one = [0.9, 0.1];
        let mut binary = parse("accuracy", Some(&sparse), 1).unwrap();
        binary.update(Values::ids(&[1, 0]), Values::column(&one), None).unwrap();
        assert_eq!(binary.result(), 1.0);
        let mut categorical = parse("accuracy", None, 2).unwrap();
        assert!(categorical.update(Values::ids(&[0]), Values::rows(&one, 2), None).is_err());
        categorical.update(Values::rows(&[0.0, 1.0], 2), Values::rows(&one, 2), None).unwrap();
        assert_eq!((categorical.result(), categorical.state()), (0.0, &[0.0, 1.0][..]));
    }

    #[test]
    fn a_wrong_name_is_corrected() {
        let next = |name| parse(name, None, 1).err().unwrap().next().unwrap().to_owned();
        assert_eq!(next("Precison"), "did you mean `Precision`?");
        assert_eq!(next("PrecisionAtRecall"), "give it as a value: `PrecisionAtRecall::new(0.8)?`");
        assert!(next("bananas").starts_with("choose a metric"));
        assert_eq!(parse("bananas", None, 1).err().unwrap().code(), Code::BadSetting);
    }
}
