//! The kinds of feature columns, after `tf.feature_column`.

use super::Takes::{Choice, Count, Counts, CrossKeys, Integer, Kind, Number, NumberOrNumbers, Numbers, Table};
use super::Takes::{Text, Texts, Tokens, Truth};
use super::{Key, Keys, REQUIRED, key, keys};

const KIND: &[Key] = &[key("kind", Text, REQUIRED, "Which column.")];
const INPUT: &[Key] = &[key("key", Text, "the column's name", "The input that it reads.")];
const COLUMN: &[Key] = &[key("column", Text, REQUIRED, "A categorical column of [columns].")];
const BUCKETS: &[Key] = &[key("num_buckets", Count(1), REQUIRED, "How many ids there are; ids begin at 0.")];
const HASH: &[Key] = &[
    key("hash_bucket_size", Count(1), REQUIRED, "How many buckets values are sorted into by their fingerprint."),
    key("dtype", Choice(&["string", "int64"]), "string", "What the input holds."),
];
const DEFAULT_ID: &[Key] =
    &[key("default_value", Integer, "", "The id of values out of range or unknown; without it they are dropped.")];
const UNKNOWN: &[Key] =
    &[key("num_oov_buckets", Count(0), "0", "How many ids unknown values share, by their fingerprint.")];
const WORDS: &[Key] = &[key("vocabulary_list", Tokens, REQUIRED, "Texts or whole numbers; the first one is id 0.")];
const FILE: &[Key] = &[
    key("vocabulary_file", Text, REQUIRED, "A file of one token a line; a path begins at data.dir."),
    key("vocabulary_size", Count(1), "all lines", "How many lines of it count."),
    key("dtype", Choice(&["string", "int64"]), "string", "What the tokens are."),
];
const NUMBERS: &[Key] = &[
    key("shape", Counts(1), "[1]", "How many values a row has, by dimension."),
    key("dtype", Choice(&["float32", "int64"]), "float32", "What the input holds."),
    key("default_value", NumberOrNumbers, "", "What a missing feature of an Example is (and what pads a sequence)."),
    key("normalizer", Table(&NORMALIZER), "", "What is done to every value first: { subtract = 38.6, divide = 13.6 }."),
];
const EMBEDDING: &[Key] = &[
    key("dimension", Count(1), REQUIRED, "How long a vector is."),
    key("combiner", Choice(&["mean", "sum", "sqrtn"]), "mean", "How the vectors of several ids become one."),
    key("initializer", Kind("kind", INITIALIZERS), "truncated_normal of 1/√dimension", "How vectors begin."),
    key("max_norm", Number, "", "Longer vectors are shortened to this before they are combined."),
    key("trainable", Truth, "true", "Whether training changes them."),
];

pub(crate) const NORMALIZER: Keys = keys(
    "normalizer",
    "(x - subtract) / divide",
    &[key("subtract", Number, "0", "Taken off first."), key("divide", Number, "1", "Divided by then.")],
    &[],
);

pub(crate) const CROSS_COLUMN: Keys =
    keys("column", "A column in a cross.", &[key("column", Text, REQUIRED, "A categorical column of [columns].")], &[]);

pub(crate) const INITIALIZERS: &[Keys] = &[
    keys("truncated_normal", "Normal, without what lies beyond two deviations.", NORMAL, &[KIND]),
    keys("random_normal", "Normal.", NORMAL, &[KIND]),
    keys(
        "random_uniform",
        "Every value between two bounds as likely as any other.",
        &[key("min", Number, "-0.05", "The lower bound."), key("max", Number, "0.05", "The upper bound.")],
        &[KIND],
    ),
    keys("glorot_uniform", "Uniform within ±√(6 / (rows + dimension)).", &[], &[KIND]),
    keys("constant", "One value everywhere.", &[key("value", Number, "0", "The value.")], &[KIND]),
];
const NORMAL: &[Key] = &[key("mean", Number, "0", "The middle."), key("stddev", Number, "0.05", "The deviation.")];

pub(crate) const COLUMN_KINDS: &[Keys] = &[
    keys("numeric", "Numbers as they are.", NUMBERS, &[INPUT, KIND]),
    keys(
        "bucketized",
        "Numbers as the bucket they fall into; n boundaries make n + 1 buckets.",
        &[
            key("column", Text, "", "A numeric column of [columns], whose normalizer then counts; instead of `key`."),
            key("boundaries", Numbers, REQUIRED, "Rising numbers; a bucket has its lower bound, not its upper one."),
        ],
        &[INPUT, KIND],
    ),
    keys("identity", "Whole numbers that are ids already.", &[], &[INPUT, BUCKETS, DEFAULT_ID, KIND]),
    keys("hash_bucket", "Values as buckets by their fingerprint.", &[], &[INPUT, HASH, KIND]),
    keys("vocabulary_list", "Values as their place in a list.", &[], &[INPUT, WORDS, UNKNOWN, DEFAULT_ID, KIND]),
    keys(
        "vocabulary_file",
        "Values as the line they stand on in a file.",
        &[],
        &[INPUT, FILE, UNKNOWN, DEFAULT_ID, KIND],
    ),
    keys(
        "crossed",
        "Combinations of several inputs, as buckets by their fingerprint.",
        &[
            key(
                "keys",
                CrossKeys,
                REQUIRED,
                "Categorical columns of [columns], each as { column = \"…\" }, and then inputs.",
            ),
            key("hash_bucket_size", Count(1), REQUIRED, "How many buckets."),
            key("hash_key", Count(0), "TensorFlow's", "Where the fingerprint begins."),
        ],
        &[KIND],
    ),
    keys(
        "weighted",
        "Ids of a categorical column, each with a weight.",
        &[
            key("weight_key", Text, REQUIRED, "The input with the weights."),
            key("dtype", Choice(&["float32", "int64"]), "float32", "What the weights are."),
        ],
        &[COLUMN, KIND],
    ),
    keys("indicator", "Ids of a categorical column as counts, one number for each id.", &[], &[COLUMN, KIND]),
    keys("embedding", "Ids of a categorical column as vectors that are learned.", &[], &[COLUMN, EMBEDDING, KIND]),
    keys(
        "shared_embeddings",
        "Several categorical columns as vectors of one table; the name stands for all of them.",
        &[
            key("columns", Texts, REQUIRED, "Categorical columns of [columns]."),
            key("collection_name", Text, "after the columns", "The name of the table."),
        ],
        &[EMBEDDING, KIND],
    ),
    keys("sequence_numeric", "`numeric` with a time axis.", NUMBERS, &[INPUT, KIND]),
    keys("sequence_identity", "`identity` with a time axis.", &[], &[INPUT, BUCKETS, DEFAULT_ID, KIND]),
    keys("sequence_hash_bucket", "`hash_bucket` with a time axis.", &[], &[INPUT, HASH, KIND]),
    keys(
        "sequence_vocabulary_list",
        "`vocabulary_list` with a time axis.",
        &[],
        &[INPUT, WORDS, UNKNOWN, DEFAULT_ID, KIND],
    ),
    keys(
        "sequence_vocabulary_file",
        "`vocabulary_file` with a time axis.",
        &[],
        &[INPUT, FILE, UNKNOWN, DEFAULT_ID, KIND],
    ),
];
