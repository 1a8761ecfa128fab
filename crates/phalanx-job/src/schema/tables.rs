//! The tables of a job, but for columns and models.

use super::Takes::{Choice, Count, CountOrAll, Integer, Kind, Named, Number, Renames, Table, Tables, Text};
use super::Takes::{TextOrTexts, Texts, Truth, Values, Words};
use super::{COLUMN_KINDS, Keys, MODEL_KINDS, REQUIRED, key, keys};

/// The types that an input can be read as.
pub(crate) const DTYPES: &[&str] = &["float32", "int64", "string"];

pub(crate) const ROOT: Keys = keys(
    "",
    "The whole file.",
    &[
        key(
            "model_dir",
            Text,
            "a new folder for temporary files",
            "The run directory: checkpoints, events, evaluations, exports and a copy of this file. A path without a / in front begins at this file's folder. `--model-dir` has the last word.",
        ),
        key(
            "resume",
            Text,
            "auto",
            "`auto` goes on from the newest checkpoint of model_dir, if there is one; `never` refuses a model_dir that has one; `must` refuses one that has none; a path (a run directory, or a checkpoint such as runs/a/model.ckpt-300) starts a new run from there, optimizer and step included.",
        ),
        key("seed", Integer, "0", "Where everything random begins. `--seed` has the last word."),
        key("threads", Count(1), "1", "Threads that compute, in every task."),
        key("data", Table(&DATA), REQUIRED, "What is read."),
        key("columns", Named(COLUMN_KINDS), "", "Feature columns, under names that `model` uses."),
        key("model", Kind("kind", MODEL_KINDS), REQUIRED, "Which model, of which columns."),
        key("train", Table(&TRAIN), REQUIRED, "How long, in what batches, and how often it is saved."),
        key("eval", Table(&EVAL), "", "How often, and on how much, is evaluated."),
        key(
            "export",
            Tables(&EXPORT),
            "",
            "SavedModels written beside evaluations, each into export/NAME/ of model_dir.",
        ),
        key("early_stopping", Table(&EARLY_STOPPING), "", "Ends a training that evaluations say is over."),
        key(
            "warm_start",
            Table(&WARM_START),
            "",
            "Starts from the values of another training where model_dir has no checkpoint yet.",
        ),
        key("origin", Table(&ORIGIN), "", "Written by phalanx into its copies of this file; not for people."),
    ],
    &[],
);

pub(crate) const DATA: Keys = keys(
    "data",
    "Files and how they are read.",
    &[
        key(
            "format",
            Choice(&["csv", "parquet", "tfrecord"]),
            "csv",
            "What the files are. TFRecords hold tf.train.Examples; how they are parsed comes from the columns.",
        ),
        key("dir", Text, "this file's folder", "Where `train` and `eval` begin. `--data-dir` has the last word."),
        key(
            "train",
            TextOrTexts,
            REQUIRED,
            "Files to train on: a path, a pattern such as \"train-*.csv\", or a list of them.",
        ),
        key("eval", TextOrTexts, REQUIRED, "Files to evaluate on."),
        key("label", Text, REQUIRED, "The column with the truth."),
        key(
            "types",
            Words(DTYPES),
            "",
            "What inputs are read as, where the columns that take them do not settle it: { zip = \"string\" }.",
        ),
        key("read_at_once", Count(1), "1", "How many files are read by turns, a row of each."),
        key(
            "skip_bad_rows",
            Count(0),
            "0",
            "So many rows that do not parse are left out before reading fails (csv, tfrecord).",
        ),
        key("required", Texts, "", "Columns whose missing values are errors (csv, parquet)."),
        key("header", Truth, "true", "csv: whether the first row of every file has the names."),
        key("names", Texts, "", "csv: the names of all columns, in their order."),
        key("delimiter", Text, ",", "csv: what separates fields, one character."),
        key("quotes", Truth, "true", "csv: whether \" quotes fields."),
        key("trim", Truth, "false", "csv: whether spaces around texts are taken off."),
        key("na_value", Text, "", "csv: a text that means missing, as an empty field does."),
        key("comment", Text, "", "csv: lines that begin with this character are left out."),
        key("defaults", Values, "0 or empty", "csv: what missing values become, by column."),
    ],
    &[],
);

pub(crate) const TRAIN: Keys = keys(
    "train",
    "Training.",
    &[
        key(
            "max_steps",
            Count(1),
            "until the input ends",
            "Steps in all, those of former runs included. `--max-steps` has the last word.",
        ),
        key(
            "epochs",
            Count(1),
            "without end",
            "How often the input is gone through. One of max_steps and epochs must be there.",
        ),
        key("batch_size", Count(1), REQUIRED, "Rows in a step."),
        key("shuffle", Count(0), "10000", "Rows that the next one is drawn from; 0 keeps the order."),
        key("cache", Truth, "false", "Keeps the rows of this task in memory after the first epoch."),
        key("prefetch", Count(0), "2", "Batches that are made ready ahead."),
        key("save_checkpoints_secs", Count(1), "600", "Saves every so many seconds."),
        key("save_checkpoints_steps", Count(1), "", "Saves every so many steps, instead of every so many seconds."),
        key("keep_checkpoint_max", Count(0), "5", "So many of the newest checkpoints stay; 0 keeps all."),
        key("keep_checkpoint_every_n_hours", Number, "10000", "One checkpoint in so many hours stays for good."),
        key("save_summary_steps", Count(0), "100", "The loss goes to the event file every so many steps; 0 never."),
        key("log_step_count_steps", Count(0), "100", "Loss and rate are said every so many steps; 0 never."),
        key(
            "session_creation_timeout_secs",
            Count(1),
            "7200",
            "How long a worker waits for the chief to make the model; and for other tasks to come, where that is less than 600.",
        ),
        key(
            "overlap",
            Truth,
            "false",
            "Under parameter servers: the exchange with them goes on while the next step is computed, on values that lack the worker's own last update.",
        ),
    ],
    &[],
);

pub(crate) const EVAL: Keys = keys(
    "eval",
    "Evaluation.",
    &[
        key("batch_size", Count(1), "train.batch_size", "Rows in a batch."),
        key("steps", CountOrAll, "100", "Batches in an evaluation, or \"all\"."),
        key("start_delay_secs", Count(0), "120", "How long an evaluator waits before its first evaluation."),
        key("throttle_secs", Count(0), "600", "How long there is at least between the starts of two evaluations."),
        key("every_steps", Count(0), "0", "How many steps there are at least between two evaluations."),
        key("name", Text, "", "What is found goes to eval_NAME/ instead of eval/."),
    ],
    &[],
);

pub(crate) const EXPORT: Keys = keys(
    "export",
    "A SavedModel, as TensorFlow and its servers load it. There may be several: [[export]].",
    &[
        key("name", Text, REQUIRED, "The folder under export/."),
        key(
            "when",
            Choice(&["final", "latest", "best"]),
            "final",
            "When training has ended, after every evaluation, or after one that is better than all before.",
        ),
        key("metric", Text, "loss", "best: what is compared."),
        key("better", Choice(&["lower", "higher"]), "lower for losses", "best: which way the metric becomes better."),
        key(
            "input",
            Choice(&["examples", "raw"]),
            "examples",
            "What the model is given: serialized tf.train.Examples, or a tensor for each feature.",
        ),
        key("keep", Count(0), "5", "So many of the newest exports stay; 0 keeps all."),
    ],
    &[],
);

pub(crate) const EARLY_STOPPING: Keys = keys(
    "early_stopping",
    "Early stopping.",
    &[
        key("metric", Text, "loss", "A metric of the evaluations."),
        key("better", Choice(&["lower", "higher"]), "lower for losses", "Which way it becomes better."),
        key("patience_steps", Count(1), REQUIRED, "Training ends when it has not become better for so many steps."),
        key("every_secs", Count(0), "60", "How often evaluations are looked at."),
    ],
    &[],
);

pub(crate) const WARM_START: Keys = keys(
    "warm_start",
    "A start from another training, ours or TensorFlow's. Slots of optimizers start anew.",
    &[
        key(
            "from",
            Text,
            REQUIRED,
            "A run directory, a checkpoint such as runs/a/model.ckpt-300, or an exported model.",
        ),
        key("only", Texts, "all", "Only variables whose names begin with one of these."),
        key("rename", Renames, "", "What variables are called there: { ours = \"theirs\" }."),
    ],
    &[],
);

pub(crate) const ORIGIN: Keys = keys(
    "origin",
    "Where a copy came from.",
    &[
        key("folder", Text, REQUIRED, "The folder of the file that was copied: its paths begin there."),
        key("data_dir", Text, "", "What --data-dir said."),
        key("model_dir", Text, "", "What --model-dir said."),
        key("max_steps", Count(1), "", "What --max-steps said."),
        key("seed", Integer, "", "What --seed said."),
        key("files", Renames, "", "Files that were copied along, by their path in the file."),
    ],
    &[],
);
