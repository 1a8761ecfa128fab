//! The tables `[train]`, `[eval]`, `[[export]]`, `[early_stopping]` and `[warm_start]`.

use crate::schema::{EARLY_STOPPING, EVAL, EXPORT, TRAIN, WARM_START};
use crate::section::Section;
use crate::source::{Source, Span, Spanned};
use crate::tree::{Node, TomlValue};
use phalanx_base::Result;
use phalanx_cluster::StrategyName;
use phalanx_estimator::{EvalMetric, Exporter, Partitioner, Placement, RunConfig, ServingInput};
use phalanx_train::{Durability, NonFinite};

/// The most shards of a variable that is split by the least size of a shard.
const MOST_SHARDS: usize = 1024;
const DURABILITY: [(&str, Durability); 2] = [("checkpoint", Durability::Checkpoint), ("log", Durability::Log)];
const NON_FINITE: [(&str, NonFinite); 2] = [("error", NonFinite::Stop), ("skip", NonFinite::Skip)];

/// `[train]`.
#[derive(Clone, Debug)]
pub(crate) struct Train {
    pub(crate) max_steps: Option<u64>,
    pub(crate) epochs: Option<u64>,
    pub(crate) batch_size: usize,
    pub(crate) shuffle: usize,
    pub(crate) cache: bool,
    pub(crate) prefetch: usize,
    save_secs: Option<u64>,
    save_steps: Option<u64>,
    keep: Option<usize>,
    keep_hours: Option<f64>,
    summary_steps: Option<u64>,
    histograms: Option<bool>,
    log_steps: Option<u64>,
    session_secs: Option<u64>,
    overlap: bool,
    non_finite: Option<NonFinite>,
    durability: Option<Durability>,
    strategy: Option<String>,
    partitioner: Option<Partitioner>,
    placement: Option<Placement>,
}

impl Train {
    pub(crate) fn read(source: &Source, node: &Node, max_steps: Option<u64>) -> Result<Self> {
        let own = Section::open(source, "[train]", TRAIN, node)?;
        let count = |key, least| own.plain_count(key, least);
        let train = Self {
            max_steps: max_steps.or(count("max_steps", 1)?),
            epochs: count("epochs", 1)?,
            batch_size: own.need_count("batch_size", 1)?.value as usize,
            shuffle: count("shuffle", 0)?.unwrap_or(10_000) as usize,
            cache: own.boolean("cache")?.unwrap_or(false),
            prefetch: count("prefetch", 0)?.unwrap_or(2) as usize,
            save_secs: count("save_checkpoints_secs", 1)?,
            save_steps: count("save_checkpoints_steps", 1)?,
            keep: count("keep_checkpoint_max", 0)?.map(|count| count as usize),
            keep_hours: own.number("keep_checkpoint_every_n_hours")?.map(|hours| hours.value),
            summary_steps: count("save_summary_steps", 0)?,
            histograms: own.boolean("save_histograms")?,
            log_steps: count("log_step_count_steps", 0)?,
            session_secs: count("session_creation_timeout_secs", 1)?,
            overlap: own.boolean("overlap")?.unwrap_or(false),
            non_finite: own.choice("non_finite_steps", &NON_FINITE)?.map(|choice| choice.value),
            durability: own.choice("durability", &DURABILITY)?.map(|choice| choice.value),
            strategy: strategy(&own)?,
            partitioner: own.text("partitioner")?.map(|text| partitioner(&own, &text)).transpose()?,
            placement: placement(&own)?,
        };
        own.node("max_steps");
        if train.max_steps.is_none() && train.epochs.is_none() {
            return Err(own.missing("max_steps").because("nothing determines when the training ends"));
        }
        if train.save_secs.is_some() && train.save_steps.is_some() {
            let what = "checkpoints are saved by seconds or by steps, not by both";
            let error = own.wrong(&own.span_of("save_checkpoints_steps"), what, "together with save_checkpoints_secs");
            return Err(error.help("leave one of the two out"));
        }
        own.close();
        Ok(train)
    }

    /// The time that a task waits for what the chief creates.
    pub(crate) fn session_timeout(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.session_secs.unwrap_or(7200))
    }

    /// Applies the settings that a parameter server needs.
    pub(crate) fn configure_server(&self, config: RunConfig) -> RunConfig {
        self.durability.into_iter().fold(config, RunConfig::durability)
    }

    /// Applies the settings of the file to a configuration.
    pub(crate) fn configure(&self, config: RunConfig) -> RunConfig {
        set!(
            config.overlap(self.overlap),
            save_checkpoints_secs: self.save_secs,
            save_checkpoints_steps: self.save_steps,
            keep_checkpoint_max: self.keep,
            keep_checkpoint_every_n_hours: self.keep_hours,
            save_summary_steps: self.summary_steps,
            save_histograms: self.histograms,
            log_step_count_steps: self.log_steps,
            session_creation_timeout_secs: self.session_secs,
            non_finite: self.non_finite,
            durability: self.durability,
            train_distribute: self.strategy.clone(),
            partitioner: self.partitioner,
            placement: self.placement.clone(),
        )
    }
}

/// Reads `strategy` or `consistency`; `None` for what fits the cluster.
fn strategy(own: &Section<'_>) -> Result<Option<String>> {
    let (strategy, consistency) = (own.text("strategy")?, own.text("consistency")?);
    let Some(consistency) = consistency else {
        let known = strategy.filter(|name| name.value != "auto");
        return known.map(|name| check_strategy(own, "strategy", &name.value)).transpose();
    };
    match strategy.as_ref().map(|name| name.value.as_str()) {
        None | Some("auto" | "parameter_server") => {
            check_strategy(own, "consistency", &format!("parameter_server:{}", consistency.value)).map(Some)
        }
        Some(name) => {
            let what = format!("`consistency` is for parameter servers, and the strategy is {name}");
            let error = own.wrong(&own.span_of("consistency"), what, "has no effect");
            Err(error.help("leave one of the two out"))
        }
    }
}

/// Fails if there is no such strategy. Whether it fits the cluster is checked when the job starts.
fn check_strategy(own: &Section<'_>, key: &str, name: &str) -> Result<String> {
    match StrategyName::parse(name) {
        Ok(_) => Ok(name.to_owned()),
        Err(error) => {
            let help = error.next().unwrap_or("see docs/job-toml.md").to_owned();
            Err(own.wrong(&own.span_of(key), error.what().to_owned(), "not a strategy").help(help))
        }
    }
}

/// Reads `placement` and `pin`.
fn placement(own: &Section<'_>) -> Result<Option<Placement>> {
    let (greedy, pins) = (own.choice("placement", &[("round_robin", false), ("greedy", true)])?, own.table("pin")?);
    let of = |greedy| if greedy { Placement::greedy_by_bytes() } else { Placement::round_robin() };
    let mut placement = greedy.map(|greedy| of(greedy.value));
    for entry in pins.into_iter().flatten() {
        let server = own.as_count("pin", &entry.node, 0)?.value;
        placement = Some(placement.unwrap_or_default().pin(&entry.key, server as usize));
    }
    Ok(placement)
}

fn partitioner(own: &Section<'_>, text: &Spanned<String>) -> Result<Partitioner> {
    let (kind, number) = text.value.split_once(':').unwrap_or((&text.value, ""));
    let found = match (kind, number.parse::<usize>().ok().filter(|number| *number > 0)) {
        ("whole", None) if number.is_empty() => Some(Partitioner::Whole),
        ("fixed_shards", Some(shards)) => Some(Partitioner::FixedShards(shards)),
        ("min_size", Some(bytes)) => Some(Partitioner::MinSize { min_shard_bytes: bytes, max_shards: MOST_SHARDS }),
        ("max_size", Some(bytes)) => Some(Partitioner::MaxSize { max_shard_bytes: bytes, max_shards: None }),
        _ => None,
    };
    found.ok_or_else(|| {
        let error =
            own.wrong(&own.span_of("partitioner"), format!("no partitioner {:?}", text.value), "not one of them");
        error.help("write whole, fixed_shards:2, min_size:262144 or max_size:1048576")
    })
}

/// `[eval]`.
#[derive(Clone, Debug)]
pub(crate) struct Eval {
    pub(crate) batch_size: usize,
    /// `None` for all batches.
    pub(crate) steps: Option<u64>,
    pub(crate) start_delay_secs: Option<u64>,
    pub(crate) throttle_secs: Option<u64>,
    pub(crate) every_steps: u64,
    pub(crate) name: Option<String>,
    /// Whether the rows that are trained on are evaluated.
    pub(crate) on_train: bool,
    pub(crate) metrics: Vec<EvalMetric>,
    /// The position of the list of metrics.
    pub(crate) metrics_at: Span,
    pub(crate) group_by: Option<Spanned<String>>,
}

impl Eval {
    /// Reads `[eval]`, or every `[[eval]]`. There is at least one evaluation; the first has the metrics of all.
    pub(crate) fn read_all(source: &Source, node: Option<&Node>, train: &Train) -> Result<Vec<Self>> {
        let nothing = Node { value: TomlValue::Table(Vec::new()), span: 0..0 };
        let nodes = match node {
            None => std::slice::from_ref(&nothing),
            Some(Node { value: TomlValue::List(nodes), .. }) if !nodes.is_empty() => nodes.as_slice(),
            Some(node) => std::slice::from_ref(node),
        };
        let mut all: Vec<Self> = Vec::new();
        for node in nodes {
            let eval = Self::read(source, node, train)?;
            if all.iter().any(|other| other.name == eval.name) {
                let what = match &eval.name {
                    Some(name) => format!("two evaluations are called {name:?}"),
                    None => "two evaluations have no name".to_owned(),
                };
                let error = source.wrong(phalanx_base::Code::JobValue, &node.span, what, "a second time");
                return Err(error.help("give each evaluation a different name; one may have none"));
            }
            if !all.is_empty() && (!eval.metrics.is_empty() || eval.group_by.is_some()) {
                let what = "metrics of a second evaluation";
                let error = source.wrong(phalanx_base::Code::JobValue, &eval.metrics_at, what, "not the first one");
                return Err(error.help("give them in the first [[eval]]: all evaluations report the same metrics"));
            }
            all.push(eval);
        }
        Ok(all)
    }

    fn read(source: &Source, node: &Node, train: &Train) -> Result<Self> {
        let own = Section::open(source, "[eval]", EVAL, node)?;
        let count = |key, least| own.plain_count(key, least);
        let steps = match own.node("steps") {
            None => Some(100),
            Some(Node { value: TomlValue::Text(word), .. }) if word == "all" => None,
            Some(node) => match node.value {
                TomlValue::Integer(_) => Some(own.as_count("steps", node, 1)?.value),
                _ => return Err(own.not("steps", node, "an integer, or \"all\"")),
            },
        };
        let eval = Self {
            batch_size: count("batch_size", 1)?.map_or(train.batch_size, |count| count as usize),
            steps,
            start_delay_secs: count("start_delay_secs", 0)?,
            throttle_secs: count("throttle_secs", 0)?,
            every_steps: count("every_steps", 0)?.unwrap_or(0),
            name: own.text("name")?.map(|name| folder_name(&own, name)).transpose()?,
            on_train: own.choice("on", &[("eval", false), ("train", true)])?.is_some_and(|on| on.value),
            metrics: metrics(&own)?,
            metrics_at: own.span_of("metrics"),
            group_by: own.text("group_by")?,
        };
        own.close();
        Ok(eval)
    }
}

fn metrics(own: &Section<'_>) -> Result<Vec<EvalMetric>> {
    let names = own.texts("metrics")?.map(|names| names.value).unwrap_or_default();
    let metric = |name: &Spanned<String>| {
        EvalMetric::parse(&name.value)
            .map_err(|_| own.no_such("metrics", name, EvalMetric::ALL.iter().map(|metric| metric.name()).collect()))
    };
    names.iter().map(metric).collect()
}

fn folder_name(own: &Section<'_>, name: Spanned<String>) -> Result<String> {
    let good = !name.value.is_empty() && !name.value.contains(['/', '\\']) && name.value != "..";
    if good {
        return Ok(name.value);
    }
    let what = format!("{:?} is not a valid folder name", name.value);
    Err(own.wrong(&own.span_of("name"), what, "not a folder name").help("give letters and digits"))
}

/// One `[[export]]`.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    when: When,
    pub(crate) input: ServingInput,
    keep: Option<usize>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
enum When {
    Final,
    Latest,
    Best { metric: Spanned<String>, higher: bool },
}

impl Export {
    /// The metric that selects the best evaluation, if any.
    pub(crate) fn metric(&self) -> Option<&Spanned<String>> {
        match &self.when {
            When::Best { metric, .. } => Some(metric),
            When::Final | When::Latest => None,
        }
    }

    pub(crate) fn read_all(source: &Source, node: Option<&Node>) -> Result<Vec<Self>> {
        let Some(node) = node else { return Ok(Vec::new()) };
        let nodes = match &node.value {
            TomlValue::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut all: Vec<Self> = Vec::new();
        for node in nodes {
            let export = Self::read(source, node)?;
            if all.iter().any(|other| other.name == export.name) {
                let what = format!("two exports are called {:?}", export.name);
                let error = source.wrong(phalanx_base::Code::JobValue, &export.span, what, "a second time");
                return Err(error.help("give each export a different name"));
            }
            all.push(export);
        }
        Ok(all)
    }

    fn read(source: &Source, node: &Node) -> Result<Self> {
        let own = Section::open(source, "[[export]]", EXPORT, node)?;
        let when = own.choice("when", &[("final", 0), ("latest", 1), ("best", 2)])?.map_or(0, |when| when.value);
        let (metric, higher) = better(&own)?;
        if when != 2
            && let Some(key) = ["metric", "better"].into_iter().find(|key| own.node(key).is_some())
        {
            let what = format!("`{key}` is for when = \"best\"");
            return Err(own.wrong(&own.span_of(key), what, "has no effect").help("leave it out, or export the best"));
        }
        let input = own.choice("input", &[("examples", ServingInput::Examples), ("raw", ServingInput::Raw)])?;
        let export = Self {
            span: own.span_of("name"),
            name: folder_name(&own, own.need_text("name")?)?,
            when: match when {
                0 => When::Final,
                1 => When::Latest,
                _ => When::Best { metric, higher },
            },
            input: input.map_or(ServingInput::Examples, |input| input.value),
            keep: own.count("keep", 0)?.map(|keep| keep.value as usize),
        };
        own.close();
        Ok(export)
    }

    pub(crate) fn exporter(&self) -> Exporter {
        let exporter = match &self.when {
            When::Final => Exporter::at_end(&self.name),
            When::Latest => Exporter::latest(&self.name),
            When::Best { metric, higher: true } => Exporter::best(&self.name).by_highest(&metric.value),
            When::Best { metric, higher: false } => Exporter::best(&self.name).by_lowest(&metric.value),
        };
        set!(exporter.serving_input(self.input), exports_to_keep: self.keep)
    }
}

/// A metric, and whether a higher value is better, which is the default for all metrics but losses.
fn better(own: &Section<'_>) -> Result<(Spanned<String>, bool)> {
    let metric = own.text("metric")?.unwrap_or_else(|| Spanned::without_span("loss".to_owned()));
    let higher = own.choice("better", &[("lower", false), ("higher", true)])?;
    let higher = higher.map_or(!metric.value.contains("loss"), |higher| higher.value);
    Ok((metric, higher))
}

/// `[early_stopping]`.
#[derive(Clone, Debug)]
pub(crate) struct Stopping {
    pub(crate) metric: Spanned<String>,
    pub(crate) higher: bool,
    pub(crate) patience: u64,
    pub(crate) every_secs: u64,
}

impl Stopping {
    pub(crate) fn read(source: &Source, node: &Node) -> Result<Self> {
        let own = Section::open(source, "[early_stopping]", EARLY_STOPPING, node)?;
        let (metric, higher) = better(&own)?;
        let patience = own.need_count("patience_steps", 1)?.value;
        let every_secs = own.plain_count("every_secs", 0)?.unwrap_or(60);
        own.close();
        Ok(Self { metric, higher, patience, every_secs })
    }
}

/// `[warm_start]`.
#[derive(Clone, Debug)]
pub(crate) struct Warm {
    pub(crate) from: Spanned<String>,
    pub(crate) only: Vec<String>,
    pub(crate) rename: Vec<(String, String)>,
}

impl Warm {
    pub(crate) fn read(source: &Source, node: &Node) -> Result<Self> {
        let own = Section::open(source, "[warm_start]", WARM_START, node)?;
        let only = own.texts("only")?.map_or_else(Vec::new, |list| list.value);
        let warm = Self {
            from: own.need_text("from")?,
            only: only.into_iter().map(|name| name.value).collect(),
            rename: renames(&own, "rename")?,
        };
        own.close();
        Ok(warm)
    }
}

/// A table of texts.
pub(crate) fn renames(own: &Section<'_>, key: &'static str) -> Result<Vec<(String, String)>> {
    let entries = own.table(key)?.unwrap_or_default();
    entries.iter().map(|entry| Ok((entry.key.clone(), own.as_text(key, &entry.node)?.value))).collect()
}
