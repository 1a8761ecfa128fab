//! The kinds of models. A new kind of model is an entry here and an arm in `model.rs`.

use super::Takes::{Bool, Choice, Count, Counts, NameOrKind, Number, Numbers, Text, Texts, Vocabulary};
use super::{Key, Keys, OPTIMIZERS, REQUIRED, key, keys};

const REDUCTIONS: &[&str] = &["sum_over_batch_size", "sum"];
const COMBINERS: &[&str] = &["sum", "mean", "sqrtn"];
const PRECISIONS: &[&str] = &["f32", "bf16"];

const COMMON: &[Key] = &[
    key("weight_column", Text, "", "Input that holds the weight of each row."),
    key("loss_reduction", Choice(REDUCTIONS), "sum_over_batch_size", "How to reduce the losses of a batch to one."),
    key("kind", Text, REQUIRED, "Kind of model."),
];
const CLASSIFIER: &[Key] = &[
    key("n_classes", Count(2), "2, or the size of the vocabulary", "Number of classes."),
    key(
        "label_vocabulary",
        Vocabulary,
        "",
        "Words that the labels consist of, in the order of the classes. A list in place of a word holds alternative spellings; the first one is the name of the class. Without a vocabulary, labels are class numbers from 0.",
    ),
    key("thresholds", Numbers, "", "Two classes only: additional thresholds for accuracy, precision and recall."),
];
const REGRESSOR: &[Key] = &[
    key("label_dimension", Count(1), "1", "Number of values to predict per row."),
    key(
        "head",
        Choice(&["regression", "poisson"]),
        "regression",
        "Head of the model. With `poisson`, labels are counts and the model predicts the logarithm of the expected count.",
    ),
];

const fn optimizer(name: &'static str, default: &'static str, description: &'static str) -> Key {
    key(name, NameOrKind("name", OPTIMIZERS), default, description)
}

const BASELINE: &[Key] = &[optimizer("optimizer", "ftrl with a rate of 0.3", "Optimizer of the bias.")];
const LINEAR: &[Key] = &[
    key("columns", Texts, REQUIRED, "Names of [columns]."),
    optimizer("optimizer", "ftrl with a rate of 0.2", "Optimizer of the weights."),
    key("sparse_combiner", Choice(COMBINERS), "sum", "How to combine the weights of several ids of one column."),
];
const DNN: &[Key] = &[
    key("columns", Texts, REQUIRED, "Names of [columns]: dense columns, indicators and embeddings."),
    optimizer("optimizer", "adagrad with a rate of 0.001", "Optimizer of the weights."),
];
const DROPOUT: Key = key("dropout", Number, "", "Fraction of each hidden layer's outputs to drop during training.");
const LAYERS: &[Key] = &[
    key("hidden_units", Counts(1), REQUIRED, "Sizes of the hidden layers, from the input to the logits."),
    key("activation", Text, "relu", "Activation function of the hidden layers: relu, tanh, sigmoid, …"),
    DROPOUT,
    key("batch_norm", Bool, "false", "Whether to apply batch normalization after each hidden layer."),
    key("precision", Choice(PRECISIONS), "f32", "Precision to which hidden layers round the factors of a product."),
];
const FIELDS: Key =
    key("columns", Texts, REQUIRED, "Names of [columns]: embeddings, all of the same dimension, and numeric columns.");
const DEEPFM: &[Key] = &[
    FIELDS,
    optimizer("linear_optimizer", "ftrl with a rate of 0.15", "Optimizer of the first-order weights."),
    optimizer("dnn_optimizer", "adagrad with a rate of 0.15", "Optimizer of the hidden layers and embeddings."),
];
const FM: &[Key] = &[FIELDS, optimizer("optimizer", "adagrad with a rate of 0.15", "Optimizer of all weights.")];
const MF: &[Key] = &[
    key("user", Text, REQUIRED, "Name of the categorical column of [columns] that holds the users."),
    key("item", Text, REQUIRED, "Name of the categorical column of [columns] that holds the items."),
    key("dimension", Count(1), REQUIRED, "Number of values in the vector of a user or an item."),
    key("global_mean", Number, "0", "Value at which the global mean starts, for example the mean of the labels."),
    optimizer("optimizer", "adagrad with a rate of 0.15", "Optimizer of biases and vectors."),
];
const DLRM: &[Key] = &[
    FIELDS,
    key("bottom_units", Counts(1), REQUIRED, "Sizes of the bottom layers; the last equals the embedding dimension."),
    key("top_units", Counts(1), REQUIRED, "Sizes of the top layers, without the logits."),
    DROPOUT,
    optimizer("optimizer", "adagrad with a rate of 0.15", "Optimizer of all weights."),
];
const COMBINED: &[Key] = &[
    key("linear_columns", Texts, "", "Names of [columns] for the linear part."),
    key("dnn_columns", Texts, "", "Names of [columns] for the deep part: dense columns, indicators and embeddings."),
    optimizer("linear_optimizer", "ftrl with a rate of min(0.005, 1/√columns)", "Optimizer of the linear weights."),
    optimizer("dnn_optimizer", "adagrad with a rate of 0.001", "Optimizer of the hidden layers and embeddings."),
    key("linear_sparse_combiner", Choice(COMBINERS), "sum", "How to combine the linear weights of several ids."),
];

const REGULARIZATION: &[Key] = &[
    key(
        "l2",
        Number,
        "0",
        "Adds `l2 × Σ w²` over the weights of layers and of numeric columns to the loss of a step. Biases are left out.",
    ),
    key(
        "embedding_l2",
        Number,
        "0",
        "Adds `embedding_l2 × Σ w²` over the rows of embeddings and the weights of ids that a batch looks up, each once, to the loss of a step. Rows that a batch does not touch keep their values.",
    ),
];

const fn also(kind: Keys, also: &'static [&'static str]) -> Keys {
    Keys { also, ..kind }
}

pub(crate) const MODEL_KINDS: &[Keys] = &[
    keys("linear_classifier", "tf.estimator.LinearClassifier.", LINEAR, &[REGULARIZATION, CLASSIFIER, COMMON]),
    keys("linear_regressor", "tf.estimator.LinearRegressor.", LINEAR, &[REGULARIZATION, REGRESSOR, COMMON]),
    keys("dnn_classifier", "tf.estimator.DNNClassifier.", DNN, &[LAYERS, REGULARIZATION, CLASSIFIER, COMMON]),
    keys("dnn_regressor", "tf.estimator.DNNRegressor.", DNN, &[LAYERS, REGULARIZATION, REGRESSOR, COMMON]),
    also(
        keys(
            "dnn_linear_combined_classifier",
            "tf.estimator.DNNLinearCombinedClassifier: wide & deep.",
            COMBINED,
            &[LAYERS, REGULARIZATION, CLASSIFIER, COMMON],
        ),
        &["wide_deep_classifier"],
    ),
    also(
        keys(
            "dnn_linear_combined_regressor",
            "tf.estimator.DNNLinearCombinedRegressor: wide & deep.",
            COMBINED,
            &[LAYERS, REGULARIZATION, REGRESSOR, COMMON],
        ),
        &["wide_deep_regressor"],
    ),
    keys(
        "deepfm_classifier",
        "DeepFM: a linear part, a factorization machine and hidden layers. Two classes only.",
        DEEPFM,
        &[LAYERS, REGULARIZATION, CLASSIFIER, COMMON],
    ),
    keys(
        "fm_classifier",
        "A factorization machine: a weight for every id and number, and dot products of embeddings. Two classes only.",
        FM,
        &[REGULARIZATION, CLASSIFIER, COMMON],
    ),
    keys("fm_regressor", "A factorization machine for the regression of one number.", FM, &[REGULARIZATION, COMMON]),
    keys(
        "mf_regressor",
        "Matrix factorization: global mean + bias of the user + bias of the item + dot product of their vectors.",
        MF,
        &[REGULARIZATION, COMMON],
    ),
    keys(
        "dlrm_classifier",
        "DLRM: dot products of embeddings between two stacks of layers.",
        DLRM,
        &[REGULARIZATION, CLASSIFIER, COMMON],
    ),
    keys(
        "baseline_classifier",
        "tf.estimator.BaselineClassifier: predicts the frequency of each class.",
        BASELINE,
        &[CLASSIFIER, COMMON],
    ),
    keys(
        "baseline_regressor",
        "tf.estimator.BaselineRegressor: predicts the mean of the labels.",
        BASELINE,
        &[REGRESSOR, COMMON],
    ),
];
