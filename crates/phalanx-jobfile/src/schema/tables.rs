//! The tables of a job, except columns and models.

use super::Takes::{
    Bool, Choice, Count, CountOrAll, Integer, Kind, Named, NamedCounts, Number, Renames, Table, TableOrTables, Tables,
    Text,
};
use super::Takes::{Numbers, TextOrTexts, Texts, Values, Words};
use super::{COLUMN_KINDS, Keys, MODEL_KINDS, REQUIRED, key, keys};

/// The types that an input can be read as.
pub(crate) const DTYPES: &[&str] = &["float32", "int64", "string"];

const FORMATS: &[&str] = &["csv", "parquet", "tfrecord"];
const DIRECTIONS: &[&str] = &["lower", "higher"];

pub(crate) const ROOT: Keys = keys(
    "",
    "The whole file.",
    &[
        key(
            "model_dir",
            Text,
            "a new temporary folder",
            "Run directory: checkpoints, events, evaluations, exports and a copy of this file. A relative path starts at this file's folder. `--model-dir` overrides it.",
        ),
        key(
            "resume",
            Text,
            "auto",
            "`auto` resumes from the newest checkpoint of model_dir, if there is one. `never` refuses a model_dir that has a checkpoint; `must` refuses one that has none. A path (a run directory, or a checkpoint such as runs/a/model.ckpt-300) starts a new run from there, including optimizer state and step.",
        ),
        key("seed", Integer, "0", "Random seed. `--seed` overrides it."),
        key("threads", Count(1), "1", "Number of compute threads in each task."),
        key("data", Table(&DATA), REQUIRED, "The input files."),
        key("columns", Named(COLUMN_KINDS), "", "Feature columns, by the names that `model` uses."),
        key("model", Kind("kind", MODEL_KINDS), REQUIRED, "The model and its columns."),
        key("train", Table(&TRAIN), REQUIRED, "Duration, batches and checkpoints of the training."),
        key("eval", TableOrTables(&EVAL), "", "Frequency and size of evaluations. There may be several: [[eval]]."),
        key("export", Tables(&EXPORT), "", "SavedModels to write into export/NAME/ of model_dir."),
        key("early_stopping", Table(&EARLY_STOPPING), "", "Ends the training when evaluations stop improving."),
        key("warm_start", Table(&WARM_START), "", "Initial values from another training, for a new model_dir."),
        key("origin", Table(&ORIGIN), "", "Written by phalanx into its copies of this file; not for manual use."),
    ],
    &[],
);

pub(crate) const DATA: Keys = keys(
    "data",
    "The input files and their format.",
    &[
        key("format", Choice(FORMATS), "csv", "Format of the files. TFRecords hold tf.train.Examples."),
        key("dir", Text, "this file's folder", "Folder of the files in `train` and `eval`. `--data-dir` overrides it."),
        key("train", TextOrTexts, REQUIRED, "Training files: a path, a pattern (\"train-*.csv\"), or a list of them."),
        key("eval", TextOrTexts, "", "Evaluation files, in the same form. Required unless `split` is given."),
        key("label", Text, REQUIRED, "Name of the label column."),
        key(
            "split",
            Table(&SPLIT),
            "",
            "Evaluates on a part of the rows of `train` instead of on files: { by = \"user_id\", eval = 0.1 }.",
        ),
        key(
            "filter",
            Text,
            "",
            "Condition that rows must fulfil to be trained or evaluated on: 'age >= 18 and country != \"XX\"'. Predictions are made for all rows.",
        ),
        key(
            "by",
            Choice(&["auto", "rows", "blocks", "files", "all"]),
            "auto",
            "How trainers share the rows: each takes every n-th row, or the next block of rows whenever it is free, or every n-th file, or all rows in an order of its own. `auto` shares files if every trainer gets one, and rows otherwise. With `auto` and `rows` the shares rotate: in its next epoch a trainer takes the share of the one after it. With `files`, and with `cache`, it keeps its own.",
        ),
        key("types", Words(DTYPES), "", "Types of inputs that columns do not determine: { zip = \"string\" }."),
        key("read_at_once", Count(1), "1", "Number of files to interleave, one row from each in turn."),
        key(
            "skip_bad_rows",
            Count(0),
            "0",
            "Number of malformed rows to skip before reading fails: a wrong number of fields, a value of the wrong type, a missing label. The number skipped is logged at the end.",
        ),
        key(
            "required",
            Texts,
            "",
            "Columns in which a missing value is an error, as it always is in the label and the weight column (csv, parquet).",
        ),
        key(
            "defaults",
            Values,
            "0 or empty",
            "Values of missing inputs, by name; also of a missing label or weight. They precede a column's default_value.",
        ),
        key(
            "non_finite",
            Choice(&["error", "skip", "zero"]),
            "error",
            "What to do with NaN and infinite numbers in inputs, labels and weights: fail with the row's place, skip the row, or read 0. The number of rows is logged at the end.",
        ),
        key("header", Bool, "true", "csv: whether the first row of each file holds the column names."),
        key("names", Texts, "", "csv: names of all columns, in order."),
        key("delimiter", Text, ",", "csv: field separator, one character."),
        key("quotes", Bool, "true", "csv: whether \" quotes fields."),
        key("trim", Bool, "false", "csv: whether to strip spaces around text fields."),
        key(
            "na_value",
            TextOrTexts,
            "",
            "csv: text that marks a missing value, in addition to an empty field, or a list of such texts.",
        ),
        key("comment", Text, "", "csv: character that starts a comment line."),
    ],
    &[],
);

pub(crate) const SPLIT: Keys = keys(
    "split",
    "A split of the rows into training and evaluation.",
    &[
        key(
            "by",
            Text,
            REQUIRED,
            "Column whose hash decides: all rows with the same value are in the same part, in every run and format.",
        ),
        key("eval", Number, REQUIRED, "Share of the values to evaluate on, between 0 and 1."),
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
            "Total number of steps, including those of earlier runs. `--max-steps` overrides it.",
        ),
        key("epochs", Count(1), "unlimited", "Passes over the input. One of max_steps and epochs is required."),
        key("batch_size", Count(1), REQUIRED, "Number of rows per step."),
        key("shuffle", Count(0), "10000", "Size of the shuffle buffer, in rows; 0 keeps the order."),
        key("cache", Bool, "false", "Whether to keep the rows of this task in memory after the first epoch."),
        key("prefetch", Count(0), "2", "Number of batches to prepare ahead."),
        key(
            "save_checkpoints_secs",
            Count(1),
            "5, growing to 600",
            "Seconds between checkpoints. By default, half of the time since the start: from 5 up to TensorFlow's 600, and longer where a save takes more than a tenth of it.",
        ),
        key("save_checkpoints_steps", Count(1), "", "Steps between checkpoints; replaces save_checkpoints_secs."),
        key("keep_checkpoint_max", Count(0), "5", "Number of recent checkpoints to keep; 0 keeps all."),
        key("keep_checkpoint_every_n_hours", Number, "10000", "Hours between checkpoints that are kept permanently."),
        key(
            "save_summary_steps",
            Count(0),
            "100",
            "Steps between summaries in the event file: loss, learning rate, norm of the gradients, staleness, rate. 0 disables them.",
        ),
        key("save_histograms", Bool, "false", "Whether the summaries have a histogram of every variable."),
        key("log_step_count_steps", Count(0), "100", "Steps between log lines with loss and rate; 0 disables them."),
        key(
            "session_creation_timeout_secs",
            Count(1),
            "7200",
            "Seconds that a worker waits for the chief to create the model. Below 600, it also limits the wait for other tasks.",
        ),
        key(
            "durability",
            Choice(phalanx_train::Durability::NAMES),
            "log if launched and there is memory for it",
            "What happens to acknowledged updates when a parameter server is killed: those since the newest checkpoint are lost, or none, because a log in memory has them.",
        ),
        key(
            "non_finite_steps",
            Choice(&["error", "skip"]),
            "error",
            "What to do with a step whose loss or gradients are NaN or infinite: end the training, or drop the step and log it.",
        ),
        key(
            "strategy",
            Text,
            "auto",
            "How the job trains: `default`, `mirrored:2` or `central_storage:2` (replicas of one process share each batch), `multi_worker_mirrored` (workers without parameter servers step together), `parameter_server:async`, `parameter_server:ssp:K`, `parameter_server:sync:BACKUPS`. `auto` takes what fits the cluster.",
        ),
        key(
            "consistency",
            Text,
            "async",
            "Parameter servers only: `async`; `ssp:K` (no trainer is more than K steps ahead of the slowest); `sync` or `sync:BACKUPS` (one update is the mean of the gradients of all trainers but the backups).",
        ),
        key(
            "partitioner",
            Text,
            "whole",
            "How dense variables are split over parameter servers: `whole`, `fixed_shards:N`, `min_size:BYTES`, `max_size:BYTES`.",
        ),
        key(
            "placement",
            Choice(&["round_robin", "greedy"]),
            "round_robin",
            "How variables are placed on parameter servers: in turn, or each on the server that has the fewest bytes.",
        ),
        key(
            "pin",
            NamedCounts(0),
            "",
            "Variables and tables that are placed on one parameter server: { \"dnn/*\" = 1 }. In a name, `*` stands for any characters. Where several match, the last one counts.",
        ),
        key(
            "overlap",
            Bool,
            "false",
            "Parameter servers only: whether to exchange gradients and values while the next step is computed. That step then misses the worker's own last update.",
        ),
    ],
    &[],
);

pub(crate) const EVAL: Keys = keys(
    "eval",
    "Evaluation.",
    &[
        key("batch_size", Count(1), "train.batch_size", "Number of rows per batch."),
        key("steps", CountOrAll, "100", "Number of batches per evaluation, or \"all\"."),
        key(
            "start_delay_secs",
            Count(0),
            "120",
            "Seconds that an evaluator, or a single process with the default interval of checkpoints, waits before its first evaluation.",
        ),
        key("throttle_secs", Count(0), "600", "Minimum number of seconds between the starts of two evaluations."),
        key("every_steps", Count(0), "0", "Minimum number of steps between two evaluations."),
        key(
            "on",
            Choice(&["eval", "train"]),
            "eval",
            "Rows to evaluate on: those of data.eval (or of the split), or those that are trained on, which shows overfitting.",
        ),
        key(
            "metrics",
            Texts,
            "",
            "Metrics to add to all evaluations, given in the first one: \"gauc\", \"calibration\", \"expected_calibration_error\", \"normalized_entropy\" for two classes; \"calibration\", \"mean_absolute_error\", \"root_mean_squared_error\" for regressors.",
        ),
        key("group_by", Text, "", "Column whose values are the groups of \"gauc\", such as a user id."),
        key(
            "name",
            Text,
            "",
            "Name of the evaluation: results go to eval_NAME/ instead of eval/. Of several evaluations, one may have no name.",
        ),
    ],
    &[],
);

pub(crate) const EXPORT: Keys = keys(
    "export",
    "A SavedModel that TensorFlow and TensorFlow Serving load. There may be several: [[export]].",
    &[
        key("name", Text, REQUIRED, "Folder below export/."),
        key(
            "when",
            Choice(&["final", "latest", "best"]),
            "final",
            "When to export: at the end of the training, after every evaluation, or after each evaluation that is better than all before it.",
        ),
        key("metric", Text, "loss", "best: metric to compare."),
        key("better", Choice(DIRECTIONS), "lower for losses", "best: direction in which the metric improves."),
        key(
            "input",
            Choice(&["examples", "raw"]),
            "examples",
            "Input of the exported model: serialized tf.train.Examples, or one tensor per feature.",
        ),
        key("keep", Count(0), "5", "Number of recent exports to keep; 0 keeps all."),
    ],
    &[],
);

pub(crate) const EARLY_STOPPING: Keys = keys(
    "early_stopping",
    "Early stopping.",
    &[
        key("metric", Text, "loss", "Metric of the evaluations to watch."),
        key("better", Choice(DIRECTIONS), "lower for losses", "Direction in which the metric improves."),
        key("patience_steps", Count(1), REQUIRED, "Steps without improvement after which the training ends."),
        key("every_secs", Count(0), "60", "Seconds between checks of the evaluations."),
    ],
    &[],
);

pub(crate) const WARM_START: Keys = keys(
    "warm_start",
    "Initial values from another training, by Phalanx or TensorFlow. Optimizer slots are not taken over.",
    &[
        key("from", Text, REQUIRED, "A run directory, a checkpoint (runs/a/model.ckpt-300), or an exported model."),
        key("only", Texts, "all", "Prefixes of the variables to take over."),
        key("rename", Renames, "", "Names of variables in the other training: { ours = \"theirs\" }."),
    ],
    &[],
);

/// The file `column_statistics.toml`, which phalanx writes itself.
pub(crate) const STATISTICS: Keys = keys(
    "statistics",
    "What columns take from the data.",
    &[
        key("data", Text, REQUIRED, "Hash of the names and sizes of the training files."),
        key("statistics", Named(&[STATISTIC]), "", "Statistics by name."),
    ],
    &[],
);

pub(crate) const STATISTIC: Keys = keys(
    "statistic",
    "A statistic.",
    &[
        key("mean", Number, "", "Mean."),
        key("deviation", Number, "", "Standard deviation."),
        key("quantiles", Numbers, "", "Quantiles."),
    ],
    &[],
);

pub(crate) const ORIGIN: Keys = keys(
    "origin",
    "The origin of a copy.",
    &[
        key("folder", Text, REQUIRED, "Folder of the original file, which its paths are relative to."),
        key("data_dir", Text, "", "Value of --data-dir."),
        key("model_dir", Text, "", "Value of --model-dir."),
        key("max_steps", Count(1), "", "Value of --max-steps."),
        key("seed", Integer, "", "Value of --seed."),
        key("set", Texts, "", "Values of --set."),
        key("files", Renames, "", "Copied files, by their path in the original file."),
    ],
    &[],
);
