//! The kinds of feature columns, after `tf.feature_column`.

use super::Takes::{Bool, Choice, Count, Counts, CrossKeys, Integer, Kind, Number, NumberOrNumbers, Numbers, Table};
use super::Takes::{CountOrUnbounded, Text, Texts, Tokens, WordsOrTables};
use super::{Key, Keys, REQUIRED, key, keys};

const KIND: &[Key] = &[key("kind", Text, REQUIRED, "Kind of column.")];
const INPUT: &[Key] = &[key("key", Text, "the column's name", "Input that the column reads.")];
const COLUMN: &[Key] = &[key("column", Text, REQUIRED, "A categorical column of [columns].")];
const BUCKETS: &[Key] = &[key(
    "num_buckets",
    CountOrUnbounded,
    REQUIRED,
    "Number of ids, which start at 0. \"unbounded\" allows every id up to 2^63 - 2: the table grows with the ids that are seen.",
)];
const HASH: &[Key] = &[
    key("hash_bucket_size", Count(1), REQUIRED, "Number of hash buckets."),
    key("dtype", Choice(&["string", "int64"]), "string", "Type of the input."),
];
const DEFAULT_ID: &[Key] =
    &[key("default_value", Integer, "", "Id of values that are not in the vocabulary, which are dropped by default.")];
const DEFAULT_IDENTITY: &[Key] = &[key(
    "default_value",
    Integer,
    "",
    "Id of negative values and of values from num_buckets on. By default negative ones are dropped; larger ones are an error, except in an indicator, which drops them.",
)];
const SPLIT: &[Key] = &[key(
    "split",
    Text,
    "",
    "Delimiter of several values in one text: with \"|\", \"Action|Comedy\" are two. Empty values are dropped. A column of integers then reads texts.",
)];
const UNKNOWN: &[Key] = &[key("num_oov_buckets", Count(0), "0", "Number of hash buckets for unknown values.")];
const WORDS: &[Key] = &[key("vocabulary_list", Tokens, REQUIRED, "Texts or integers; the first one has id 0.")];
const FILE: &[Key] = &[
    key("vocabulary_file", Text, REQUIRED, "File with one token per line; a relative path starts at data.dir."),
    key("vocabulary_size", Count(1), "all lines", "Number of lines to use."),
    key("dtype", Choice(&["string", "int64"]), "string", "Type of the tokens."),
];
const NUMBERS: &[Key] = &[
    key("shape", Counts(1), "[1]", "Shape of the value of each row."),
    key("dtype", Choice(&["float32", "int64"]), "float32", "Type of the input."),
    key(
        "default_value",
        NumberOrNumbers,
        "",
        "Value of a missing input in every format, and padding of a sequence. Without it, a missing number is 0 in CSV and Parquet files and an error in an Example.",
    ),
    key(
        "functions",
        WordsOrTables(&["log1p", "sqrt", "standardize"], &FUNCTION),
        "",
        "Functions of every value, in order: [{ clip = [0, 1000] }, \"log1p\", \"standardize\"]. `standardize` subtracts the mean of the training data and divides by its standard deviation.",
    ),
    key(
        "normalizer",
        Table(&NORMALIZER),
        "",
        "Normalization of every value, after `functions`: { subtract = 38.6, divide = 13.6 }.",
    ),
];
const NUMERIC: &[Key] = &[
    key(
        "missing_indicator",
        Bool,
        "false",
        "Whether the model gets a second number for each value: 1 if the value is missing, else 0. NaN in a file then marks a missing value.",
    ),
    key(
        "part",
        Choice(TIME_PARTS),
        "",
        "Reads timestamps, and takes this part of them as the number: see `timestamp`. A missing one has the default, or 0.",
    ),
    UNIT,
];
const TIME_PARTS: &[&str] = &["minute", "hour", "weekday", "day", "day_of_year", "month", "quarter"];
const UNIT: Key = key(
    "unit",
    Choice(&["seconds", "millis", "micros", "iso"]),
    "seconds",
    "Integers since 1970-01-01T00:00:00Z in this unit, or texts such as 2024-05-31T18:30:59Z.",
);
const EMBEDDING: &[Key] = &[
    key("dimension", Count(1), REQUIRED, "Length of the vectors."),
    key("combiner", Choice(&["mean", "sum", "sqrtn"]), "mean", "How to combine the vectors of several ids."),
    key(
        "initializer",
        Kind("kind", INITIALIZERS),
        "truncated_normal of 1/√dimension",
        "Initial values of the vectors.",
    ),
    key("max_norm", Number, "", "Maximum L2 norm: longer vectors are scaled down before they are combined."),
    key("trainable", Bool, "true", "Whether to train the vectors."),
];

pub(crate) const NORMALIZER: Keys = keys(
    "normalizer",
    "(x - subtract) / divide",
    &[key("subtract", Number, "0", "Subtracted first."), key("divide", Number, "1", "Divisor of the difference.")],
    &[],
);

pub(crate) const FUNCTION: Keys = keys(
    "functions",
    "A function with numbers.",
    &[key("clip", Numbers, REQUIRED, "Smallest and largest value; values outside are moved there.")],
    &[],
);

pub(crate) const CROSS_COLUMN: Keys =
    keys("column", "A column in a cross.", &[key("column", Text, REQUIRED, "A categorical column of [columns].")], &[]);

pub(crate) const INITIALIZERS: &[Keys] = &[
    keys("truncated_normal", "Normal distribution, truncated at two standard deviations.", NORMAL, &[KIND]),
    keys("random_normal", "Normal distribution.", NORMAL, &[KIND]),
    keys(
        "random_uniform",
        "Uniform distribution between two bounds.",
        &[key("min", Number, "-0.05", "Lower bound."), key("max", Number, "0.05", "Upper bound.")],
        &[KIND],
    ),
    keys("glorot_uniform", "Uniform distribution within ±√(6 / (rows + dimension)).", &[], &[KIND]),
    keys("constant", "A constant.", &[key("value", Number, "0", "The constant.")], &[KIND]),
];
const NORMAL: &[Key] = &[key("mean", Number, "0", "Mean."), key("stddev", Number, "0.05", "Standard deviation.")];

pub(crate) const COLUMN_KINDS: &[Keys] = &[
    keys("numeric", "Numeric values, unchanged.", NUMERIC, &[INPUT, NUMBERS, KIND]),
    keys(
        "bucketized",
        "Numeric values by bucket; n boundaries make n + 1 buckets.",
        &[
            key("column", Text, "", "Numeric column of [columns], including its functions; replaces `key`."),
            key(
                "boundaries",
                Numbers,
                "",
                "Increasing numbers. A bucket includes its lower bound and excludes its upper bound.",
            ),
            key(
                "quantiles",
                Count(2),
                "",
                "Number of buckets with about the same number of rows; replaces `boundaries`. Their boundaries come from the training data, and equal ones become one.",
            ),
        ],
        &[INPUT, KIND],
    ),
    keys("identity", "Integers that are ids.", &[], &[INPUT, BUCKETS, DEFAULT_IDENTITY, SPLIT, KIND]),
    keys("hash_bucket", "Values by hash bucket.", &[], &[INPUT, HASH, SPLIT, KIND]),
    keys("vocabulary_list", "Values by their index in a list.", &[], &[INPUT, WORDS, UNKNOWN, DEFAULT_ID, SPLIT, KIND]),
    keys(
        "vocabulary_file",
        "Values by their line number in a file.",
        &[],
        &[INPUT, FILE, UNKNOWN, DEFAULT_ID, SPLIT, KIND],
    ),
    keys(
        "timestamp",
        "Part of a timestamp, in UTC, as ids from 0 on; -1 and the empty text are missing values.",
        &[
            key(
                "part",
                Choice(TIME_PARTS),
                REQUIRED,
                "Part that the column reads. A week begins on Monday; the first day, month and quarter have id 0.",
            ),
            UNIT,
        ],
        &[INPUT, KIND],
    ),
    keys(
        "crossed",
        "Combinations of several inputs, by hash bucket.",
        &[
            key(
                "keys",
                CrossKeys,
                REQUIRED,
                "Categorical columns of [columns], each as { column = \"…\" }, followed by inputs.",
            ),
            key("hash_bucket_size", Count(1), REQUIRED, "Number of hash buckets."),
            key("hash_key", Count(0), "TensorFlow's", "Key of the hash."),
        ],
        &[KIND],
    ),
    keys(
        "weighted",
        "Ids of a categorical column with weights.",
        &[
            key("weight_key", Text, REQUIRED, "Input that holds the weights."),
            key("dtype", Choice(&["float32", "int64"]), "float32", "Type of the weights."),
        ],
        &[COLUMN, KIND],
    ),
    keys("indicator", "Multi-hot counts of the ids of a categorical column.", &[], &[COLUMN, KIND]),
    keys("embedding", "Trained vectors for the ids of a categorical column.", &[], &[COLUMN, EMBEDDING, KIND]),
    keys(
        "shared_embeddings",
        "Embeddings of several categorical columns in one table; the name refers to all of them.",
        &[
            key("columns", Texts, REQUIRED, "Categorical columns of [columns]."),
            key("collection_name", Text, "derived from the columns", "Name of the table."),
        ],
        &[EMBEDDING, KIND],
    ),
    keys("sequence_numeric", "`numeric` with a time axis.", NUMBERS, &[INPUT, KIND]),
    keys("sequence_identity", "`identity` with a time axis.", &[], &[INPUT, BUCKETS, DEFAULT_IDENTITY, SPLIT, KIND]),
    keys("sequence_hash_bucket", "`hash_bucket` with a time axis.", &[], &[INPUT, HASH, SPLIT, KIND]),
    keys(
        "sequence_vocabulary_list",
        "`vocabulary_list` with a time axis.",
        &[],
        &[INPUT, WORDS, UNKNOWN, DEFAULT_ID, SPLIT, KIND],
    ),
    keys(
        "sequence_vocabulary_file",
        "`vocabulary_file` with a time axis.",
        &[],
        &[INPUT, FILE, UNKNOWN, DEFAULT_ID, SPLIT, KIND],
    ),
];
