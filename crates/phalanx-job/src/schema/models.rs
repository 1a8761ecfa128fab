//! The kinds of models and optimizers. A new kind of model is an entry here and an arm in `model.rs`.

use super::Takes::{Choice, Count, Counts, NameOrKind, Number, Numbers, Text, Texts, Truth, Vocabulary};
use super::{Key, Keys, REQUIRED, key, keys};

const REDUCTIONS: &[&str] = &["sum_over_batch_size", "sum"];
const COMBINERS: &[&str] = &["sum", "mean", "sqrtn"];
const PRECISIONS: &[&str] = &["f32", "bf16"];

const CLASSIFIER: &[Key] = &[
    key("n_classes", Count(2), "2, or as many as the vocabulary has", "How many classes there are."),
    key(
        "label_vocabulary",
        Vocabulary,
        "",
        "The words that labels are, in the order of the classes; a list instead of a word has all its spellings, the first of which counts. Without it labels are class numbers from 0.",
    ),
    key(
        "thresholds",
        Numbers,
        "",
        "Two classes: accuracy, precision and recall are also reported at these probabilities.",
    ),
    key("weight_column", Text, "", "The input that says how much each row counts."),
    key("loss_reduction", Choice(REDUCTIONS), "sum_over_batch_size", "How the losses of a batch become one."),
    KIND_KEY,
];
const REGRESSOR: &[Key] = &[
    key("label_dimension", Count(1), "1", "How many numbers are predicted."),
    key("weight_column", Text, "", "The input that says how much each row counts."),
    key("loss_reduction", Choice(REDUCTIONS), "sum_over_batch_size", "How the losses of a batch become one."),
    KIND_KEY,
];
const KIND_KEY: Key = key("kind", Text, REQUIRED, "Which model.");

const BASELINE: &[Key] =
    &[key("optimizer", NameOrKind("name", OPTIMIZERS), "ftrl at a rate of 0.3", "How gradients change the bias.")];
const LINEAR: &[Key] = &[
    key("columns", Texts, REQUIRED, "Names of [columns]."),
    key("optimizer", NameOrKind("name", OPTIMIZERS), "ftrl at a rate of 0.2", "How gradients change the weights."),
    key("sparse_combiner", Choice(COMBINERS), "sum", "How the weights of several ids of one column are put together."),
];
const DNN: &[Key] = &[
    key("columns", Texts, REQUIRED, "Names of [columns]: dense ones, indicators and embeddings."),
    key("optimizer", NameOrKind("name", OPTIMIZERS), "adagrad at a rate of 0.001", "How gradients change the weights."),
];
const LAYERS: &[Key] = &[
    key("hidden_units", Counts(1), REQUIRED, "How wide the hidden layers are, from the input to the logits."),
    key("activation", Text, "relu", "What a hidden layer makes of its sums: relu, tanh, sigmoid, …"),
    key("dropout", Number, "", "The share of every hidden layer's numbers that is dropped while training."),
    key("batch_norm", Truth, "false", "Normalizes what leaves every hidden layer."),
    key("precision", Choice(PRECISIONS), "f32", "What hidden layers round factors to before they multiply them."),
];
const DEEPFM: &[Key] = &[
    key("columns", Texts, REQUIRED, "Names of [columns]: embeddings of one dimension, and numbers."),
    key(
        "linear_optimizer",
        NameOrKind("name", OPTIMIZERS),
        "ftrl at a rate of 0.15",
        "How gradients change the weights of single ids and numbers.",
    ),
    key(
        "dnn_optimizer",
        NameOrKind("name", OPTIMIZERS),
        "adagrad at a rate of 0.15",
        "How gradients change hidden layers and embeddings.",
    ),
];
const DLRM: &[Key] = &[
    key("columns", Texts, REQUIRED, "Names of [columns]: embeddings of one dimension, and numbers."),
    key(
        "bottom_units",
        Counts(1),
        REQUIRED,
        "How wide the layers over the numbers are; the last is as wide as the embeddings.",
    ),
    key("top_units", Counts(1), REQUIRED, "How wide the layers over the products are, before the logits."),
    key("dropout", Number, "", "The share of every hidden layer's numbers that is dropped while training."),
    key("optimizer", NameOrKind("name", OPTIMIZERS), "adagrad at a rate of 0.15", "How gradients change everything."),
];
const COMBINED: &[Key] = &[
    key("linear_columns", Texts, "", "Names of [columns] for the linear part."),
    key("dnn_columns", Texts, "", "Names of [columns] for the deep part: dense ones, indicators and embeddings."),
    key(
        "linear_optimizer",
        NameOrKind("name", OPTIMIZERS),
        "ftrl at min(0.005, 1/√columns)",
        "How gradients change the linear weights.",
    ),
    key(
        "dnn_optimizer",
        NameOrKind("name", OPTIMIZERS),
        "adagrad at a rate of 0.001",
        "How gradients change hidden layers and embeddings.",
    ),
    key(
        "linear_sparse_combiner",
        Choice(COMBINERS),
        "sum",
        "How the linear weights of several ids of one column are put together.",
    ),
];

const fn also(kind: Keys, also: &'static [&'static str]) -> Keys {
    Keys { also, ..kind }
}

pub(crate) const MODEL_KINDS: &[Keys] = &[
    keys("linear_classifier", "tf.estimator.LinearClassifier.", LINEAR, &[CLASSIFIER]),
    keys("linear_regressor", "tf.estimator.LinearRegressor.", LINEAR, &[REGRESSOR]),
    keys("dnn_classifier", "tf.estimator.DNNClassifier.", DNN, &[LAYERS, CLASSIFIER]),
    keys("dnn_regressor", "tf.estimator.DNNRegressor.", DNN, &[LAYERS, REGRESSOR]),
    also(
        keys(
            "dnn_linear_combined_classifier",
            "tf.estimator.DNNLinearCombinedClassifier: wide & deep.",
            COMBINED,
            &[LAYERS, CLASSIFIER],
        ),
        &["wide_deep_classifier"],
    ),
    also(
        keys(
            "dnn_linear_combined_regressor",
            "tf.estimator.DNNLinearCombinedRegressor: wide & deep.",
            COMBINED,
            &[LAYERS, REGRESSOR],
        ),
        &["wide_deep_regressor"],
    ),
    keys(
        "deepfm_classifier",
        "DeepFM: weights, products of embeddings, and hidden layers.",
        DEEPFM,
        &[LAYERS, CLASSIFIER],
    ),
    keys("dlrm_classifier", "DLRM: products of embeddings between two stacks of layers.", DLRM, &[CLASSIFIER]),
    keys(
        "baseline_classifier",
        "tf.estimator.BaselineClassifier: how often each class is seen.",
        BASELINE,
        &[CLASSIFIER],
    ),
    keys("baseline_regressor", "tf.estimator.BaselineRegressor: the mean of what is seen.", BASELINE, &[REGRESSOR]),
];

const NAME: &[Key] = &[
    key("name", Text, REQUIRED, "Which optimizer."),
    key("learning_rate", Number, "0.001 (sgd, momentum: 0.01)", "How far a step goes."),
];
const BETAS: &[Key] = &[
    key("beta_1", Number, "0.9", "How long gradients are remembered."),
    key("beta_2", Number, "0.999", "How long their squares are."),
    key("epsilon", Number, "1e-7", "Keeps small squares from mattering too much."),
];
const ACCUMULATOR: &[Key] = &[key("initial_accumulator_value", Number, "0.1", "Where the sums of squares begin.")];

pub(crate) const OPTIMIZERS: &[Keys] = &[
    keys(
        "sgd",
        "Gradient descent.",
        &[
            key("momentum", Number, "0", "The share of the last step that is kept."),
            key("nesterov", Truth, "false", "Looks a step ahead."),
        ],
        &[NAME],
    ),
    keys(
        "momentum",
        "Momentum as TensorFlow 1 has it.",
        &[
            key("momentum", Number, "0.9", "The share of the last step that is kept."),
            key("nesterov", Truth, "false", "Looks a step ahead."),
        ],
        &[NAME],
    ),
    keys(
        "adagrad",
        "Adagrad.",
        &[key("epsilon", Number, "1e-7", "Keeps small squares from mattering too much.")],
        &[ACCUMULATOR, NAME],
    ),
    keys(
        "rmsprop",
        "RMSprop.",
        &[
            key("rho", Number, "0.9", "How long squares of gradients are remembered."),
            key("momentum", Number, "0", "The share of the last step that is kept."),
            key("epsilon", Number, "1e-7", "Keeps small squares from mattering too much."),
            key("centered", Truth, "false", "Divides by the variance, not by the square."),
        ],
        &[NAME],
    ),
    keys("adam", "Adam.", &[key("amsgrad", Truth, "false", "Remembers the largest square.")], &[BETAS, NAME]),
    keys(
        "adamw",
        "Adam with decoupled weight decay.",
        &[key("weight_decay", Number, "0.004", "The share of every weight that a step takes off.")],
        &[BETAS, NAME],
    ),
    keys(
        "ftrl",
        "Follow the regularized leader.",
        &[
            key("learning_rate_power", Number, "-0.5", "How the rate falls; at most 0."),
            key("l1", Number, "0", "Weights below it become 0."),
            key("l2", Number, "0", "Keeps weights small."),
            key("l2_shrinkage", Number, "0", "Keeps weights small, by the gradient."),
            key("beta", Number, "0", "Added to the rate's root."),
        ],
        &[ACCUMULATOR, NAME],
    ),
];
