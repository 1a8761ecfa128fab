//! The optimizers and their learning-rate schedules.

use super::Takes::{Bool, Count, Counts, Number, NumberOrKind, Numbers, Text};
use super::{Key, Keys, REQUIRED, key, keys};

const INITIAL: Key = key("initial", Number, REQUIRED, "First learning rate, after the warm-up.");
const DECAY_STEPS: Key = key("decay_steps", Count(1), REQUIRED, "Number of steps that the decay takes.");
const WARMUP: &[Key] = &[
    key("schedule", Text, REQUIRED, "Which schedule."),
    key("warmup_steps", Count(0), "0", "Steps in which the rate first grows linearly to the schedule's first rate."),
    key("warmup_from", Number, "0", "Learning rate at which the warm-up begins."),
];

pub(crate) const SCHEDULES: &[Keys] = &[
    keys("constant", "The initial rate; useful with a warm-up.", &[INITIAL], &[WARMUP]),
    keys(
        "exponential",
        "`initial × decay_rate ^ (step / decay_steps)`.",
        &[
            INITIAL,
            DECAY_STEPS,
            key("decay_rate", Number, REQUIRED, "Factor of the rate over every decay_steps."),
            key("staircase", Bool, "false", "Whether the rate changes only every decay_steps."),
        ],
        &[WARMUP],
    ),
    keys(
        "cosine",
        "Half a cosine wave from `initial` to `alpha × initial`.",
        &[INITIAL, DECAY_STEPS, key("alpha", Number, "0", "Last rate, as a fraction of the initial one.")],
        &[WARMUP],
    ),
    keys(
        "polynomial",
        "`(initial - end) × (1 - step / decay_steps) ^ power + end`.",
        &[
            INITIAL,
            DECAY_STEPS,
            key("end", Number, "0.0001", "Last rate."),
            key("power", Number, "1", "Exponent; 1 is a straight line."),
            key("cycle", Bool, "false", "Whether to begin again, over more steps each time."),
        ],
        &[WARMUP],
    ),
    keys(
        "piecewise",
        "`values[i]` up to and including step `boundaries[i]`, and the last value beyond.",
        &[
            key("boundaries", Counts(0), REQUIRED, "Growing step numbers, at most 16."),
            key("values", Numbers, REQUIRED, "Learning rates, one more than boundaries."),
        ],
        &[WARMUP],
    ),
];

const NAME: &[Key] = &[
    key("name", Text, REQUIRED, "Which optimizer."),
    key(
        "learning_rate",
        NumberOrKind("schedule", SCHEDULES),
        "0.001 (sgd, momentum: 0.01)",
        "Learning rate: a number, or a schedule that follows the global step.",
    ),
    key("clip_norm", Number, "", "L2 norm that the gradient of each variable or table is scaled down to."),
    key("global_clip_norm", Number, "", "L2 norm that the gradients of this optimizer are scaled down to together."),
    key("clip_value", Number, "", "Limit of the absolute value of every number of a gradient."),
];
const NESTEROV: Key = key("nesterov", Bool, "false", "Whether to use Nesterov momentum.");
const EPSILON: Key = key("epsilon", Number, "1e-7", "Constant that keeps divisors away from 0.");
const BETAS: &[Key] = &[
    key("beta_1", Number, "0.9", "Decay rate of the average of gradients."),
    key("beta_2", Number, "0.999", "Decay rate of the average of squared gradients."),
    EPSILON,
];
const ACCUMULATOR: &[Key] =
    &[key("initial_accumulator_value", Number, "0.1", "Initial value of the sums of squared gradients.")];

const fn momentum(default: &'static str) -> Key {
    key("momentum", Number, default, "Fraction of the previous update to add to the next one.")
}

pub(crate) const OPTIMIZERS: &[Keys] = &[
    keys("sgd", "Gradient descent.", &[momentum("0"), NESTEROV], &[NAME]),
    keys("momentum", "Momentum as in TensorFlow 1.", &[momentum("0.9"), NESTEROV], &[NAME]),
    keys("adagrad", "Adagrad.", &[EPSILON], &[ACCUMULATOR, NAME]),
    keys(
        "rmsprop",
        "RMSprop.",
        &[
            key("rho", Number, "0.9", "Decay rate of the average of squared gradients."),
            momentum("0"),
            EPSILON,
            key("centered", Bool, "false", "Whether to normalize by the variance instead of the mean square."),
        ],
        &[NAME],
    ),
    keys(
        "adam",
        "Adam.",
        &[
            key("amsgrad", Bool, "false", "Whether to use the AMSGrad variant."),
            key(
                "lazy",
                Bool,
                "true",
                "Whether rows of embeddings and of categorical weights stay as they are in a step whose batch does not have them. TensorFlow's Adam moves them too: false does so, for small tables.",
            ),
        ],
        &[BETAS, NAME],
    ),
    keys(
        "adamw",
        "Adam with decoupled weight decay.",
        &[key("weight_decay", Number, "0.004", "Fraction of each weight to subtract per step.")],
        &[BETAS, NAME],
    ),
    keys(
        "ftrl",
        "Follow the regularized leader.",
        &[
            key("learning_rate_power", Number, "-0.5", "Exponent of the learning rate's decay; at most 0."),
            key("l1", Number, "0", "Strength of the L1 regularization."),
            key("l2", Number, "0", "Strength of the L2 regularization."),
            key("l2_shrinkage", Number, "0", "Strength of the L2 shrinkage, which is added to the gradient."),
            key("beta", Number, "0", "Term added to the square root of the accumulator."),
        ],
        &[ACCUMULATOR, NAME],
    ),
];
