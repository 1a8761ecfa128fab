//! A job described by a file.

use crate::columns::Columns;
use crate::data::Data;
use crate::input::Inputs;
use crate::model::Model;
use crate::paths::{Paths, absolute, join};
use crate::schema::{ORIGIN, ROOT};
use crate::section::Section;
use crate::settings::{Eval, Export, Stopping, Train, Warm, renames};
use crate::source::{Source, Spanned};
use crate::{set, tree};
use phalanx_base::{Code, Context, Error, Result};
use phalanx_feature::{FeatureStatistics, make_parse_example_spec};
use std::path::Path;

/// The maximum size of a job file, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Command-line values that override the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The folder of the data.
    pub data_dir: Option<String>,
    /// The run directory.
    pub model_dir: Option<String>,
    /// The total number of steps.
    pub max_steps: Option<u64>,
    /// The random seed.
    pub seed: Option<u64>,
    /// Values of any keys, as in `train.batch_size=64`. Later ones win.
    pub set: Vec<String>,
}

/// How to treat existing checkpoints of a run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    Auto,
    Never,
    Must,
    From(String),
}

/// A job: its data, columns, model and settings, each with its position in the file.
///
/// ```
/// use phalanx_jobfile::{Job, Overrides};
/// let text = r#"
/// [data]
/// train = "points.csv"
/// eval = "points.csv"
/// label = "y"
/// [columns]
/// x = { kind = "numeric" }
/// [model]
/// kind = "linear_regressor"
/// columns = ["x"]
/// [train]
/// batch_size = 0
/// max_steps = 100
/// "#;
/// let error = Job::parse("job.toml", text, "jobs", Overrides::default()).unwrap_err();
/// assert_eq!(error.pointed_at().as_deref(), Some("job.toml:12:14"));
/// assert_eq!(error.next(), Some("give at least 1"));
/// ```
#[derive(Clone)]
pub struct Job {
    pub(crate) source: Source,
    pub(crate) paths: Paths,
    pub(crate) overrides: Overrides,
    pub(crate) model_dir: Option<Spanned<String>>,
    pub(crate) resume: Spanned<Resume>,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) columns: Columns,
    pub(crate) model: Model,
    pub(crate) inputs: Inputs,
    pub(crate) max_steps: Option<u64>,
    pub(crate) train: Train,
    /// The first evaluation, which exports and early stopping follow.
    pub(crate) eval: Eval,
    pub(crate) more_evals: Vec<Eval>,
    pub(crate) exports: Vec<Export>,
    pub(crate) stopping: Option<Stopping>,
    pub(crate) warm: Option<Warm>,
    /// What its columns took from the data; empty before training.
    pub(crate) statistics: FeatureStatistics,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Job({:?})", self.source.name)
    }
}

impl Job {
    /// Reads a job from a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a valid job. The error points at the mistake.
    pub fn read(path: impl AsRef<Path>, overrides: Overrides) -> Result<Self> {
        let path = path.as_ref();
        let text = read_text(path)?;
        let folder = path.parent().map_or_else(String::new, |folder| folder.to_string_lossy().into_owned());
        Self::parse(&path.display().to_string(), &text, if folder.is_empty() { "." } else { &folder }, overrides)
    }

    /// Parses a job from a text, whose paths are relative to `folder`.
    ///
    /// # Errors
    /// If the text is not a valid job. The error points at the mistake.
    pub fn parse(name: &str, text: &str, folder: &str, overrides: Overrides) -> Result<Self> {
        let mut source = Source::new(name, text);
        let mut root = tree::parse(&source)?;
        let origin = Origin::read(&source, root.get("origin"))?;
        let overrides = origin.under(overrides);
        set::apply(&mut source, &mut root, &overrides.set)?;
        let own = Section::open(&source, "the file", ROOT, &root)?;
        own.node("origin");
        let need = |key| own.node(key).ok_or_else(|| own.missing(key));
        let data = Data::read(&source, need("data")?)?;
        let folder = absolute(&origin.folder.clone().unwrap_or_else(|| folder.to_owned()));
        let copied = origin.files.iter().map(|(path, copy)| (path.clone(), join(&absolute(&origin.beside), copy)));
        let mut paths = Paths { folder: folder.into(), data: String::new(), copied: copied.collect() };
        paths.data = match (&overrides.data_dir, &data.dir) {
            (Some(given), _) => absolute(given),
            (None, Some(dir)) => paths.beside_file(&dir.value),
            (None, None) => paths.folder.to_string_lossy().into_owned(),
        };
        let columns = own.table("columns")?.unwrap_or_default();
        let columns = Columns::read(&source, &paths, columns)?;
        let mut model = Model::read(&source, &columns, need("model")?)?;
        let train = Train::read(&source, need("train")?, overrides.max_steps)?;
        let mut evals = Eval::read_all(&source, own.node("eval"), &train)?.into_iter();
        let eval = evals.next().ok_or_else(|| Error::new(Code::Internal, "a job has an evaluation"))?;
        model.head.eval_metrics.clone_from(&eval.metrics);
        model.head.group_by = eval.group_by.as_ref().map(|name| name.value.clone());
        let seed = overrides.seed.map_or_else(|| seed(&own), Ok)?;
        own.node("seed");
        check_inputs(&source, &model, &data)?;
        let inputs = Inputs::new(&data, &model, &train, &eval, &paths, seed).map_err(|error| {
            source.point_with(error, Some(&model.span), "of this model", "give the two columns the same settings")
        })?;
        let in_file = own.text("model_dir")?.map(|dir| dir.map(|path| paths.beside_file(&path)));
        let given = overrides.model_dir.as_deref().map(|dir| Spanned::without_span(absolute(dir)));
        let in_file = in_file.map(|dir| match &dir.span {
            // A trial of its own, which neither continues another one nor overwrites it.
            Some(span) if !overrides.set.is_empty() && !source.is_in_flag(span) => {
                dir.map(|path| format!("{path}-{}", set::name_of(&overrides.set)))
            }
            _ => dir,
        });
        let model_dir = given.or(in_file);
        let job = Self {
            model_dir,
            resume: resume(&own, &paths)?,
            seed,
            threads: own.plain_count("threads", 1)?.unwrap_or(1) as usize,
            max_steps: train.max_steps,
            exports: Export::read_all(&source, own.node("export"))?,
            stopping: own.node("early_stopping").map(|node| Stopping::read(&source, node)).transpose()?,
            warm: own.node("warm_start").map(|node| Warm::read(&source, node)).transpose()?,
            source: source.clone(),
            paths,
            overrides,
            columns,
            model,
            inputs,
            train,
            eval,
            more_evals: evals.collect(),
            statistics: FeatureStatistics::default(),
        };
        own.close();
        Ok(job)
    }
}

/// Rejects columns that read one input in two forms, and columns that read the label.
fn check_inputs(source: &Source, model: &Model, data: &Data) -> Result<()> {
    let mut all = Vec::new();
    for (named, _, _) in model.columns() {
        all.extend(named.columns.iter().cloned());
        make_parse_example_spec(&all).map_err(|error| {
            let quoted = |input: &&Spanned<String>| error.to_string().contains(&format!("{:?}", input.value));
            let input = named.inputs.iter().find(quoted).or(named.inputs.first());
            let span = input.map_or(named.span.clone(), |input| input.span_or(&named.span));
            source.point(error, Some(&span), "read in another form by another column")
        })?;
        if let Some(input) = named.inputs.iter().find(|input| input.value == data.label.value) {
            let what = format!("the column \"{}\" reads the label", named.name);
            let error = source.wrong(Code::JobValue, &input.span_or(&named.span), what, "this is the label");
            return Err(error.help("leave the column out of the model: it would reveal the label"));
        }
    }
    Ok(())
}

fn seed(own: &Section<'_>) -> Result<u64> {
    Ok(own.integer("seed")?.map_or(0, |seed| seed.value.cast_unsigned()))
}

fn resume(own: &Section<'_>, paths: &Paths) -> Result<Spanned<Resume>> {
    let Some(text) = own.text("resume")? else { return Ok(Spanned::without_span(Resume::Auto)) };
    let value = match text.value.as_str() {
        "auto" => Resume::Auto,
        "never" => Resume::Never,
        "must" => Resume::Must,
        path if path.contains(['/', '.']) => Resume::From(paths.beside_file(path)),
        _ => {
            let error = own.no_such("resume", &text, vec!["auto", "never", "must"]);
            return Err(error.because("a path contains a slash: \"./runs\""));
        }
    };
    Ok(Spanned { value, span: text.span })
}

fn read_text(path: &Path) -> Result<String> {
    let what = || format!("the job {} cannot be read", path.display());
    let size = std::fs::metadata(path)
        .context(Code::DataMissing, what())
        .map_err(|error| error.help("give the path of a JOB.toml; `phalanx train --init` prints an example"))?;
    if size.is_dir() {
        return Err(Error::new(Code::DataMissing, what())
            .because("it is a folder")
            .help("give the file in it; the copy in a run directory is called job.toml"));
    }
    if size.len() > MAX_BYTES {
        return Err(Error::new(Code::JobSyntax, what())
            .because(format!("it has {} bytes", size.len()))
            .help("put long vocabularies into files (kind = \"vocabulary_file\")"));
    }
    let bytes = std::fs::read(path).context(Code::DataMissing, what())?;
    String::from_utf8(bytes)
        .map_err(|_| Error::new(Code::JobSyntax, what()).because("it is not UTF-8").help("save it as UTF-8"))
}

/// The `[origin]` of a copy.
#[derive(Default)]
struct Origin {
    folder: Option<String>,
    /// The folder of the copy.
    beside: String,
    given: Overrides,
    files: Vec<(String, String)>,
}

impl Origin {
    fn read(source: &Source, node: Option<&tree::Node>) -> Result<Self> {
        let Some(node) = node else { return Ok(Self::default()) };
        let own = Section::open(source, "[origin]", ORIGIN, node)?;
        let text = |key| own.text(key).map(|found| found.map(|text| text.value));
        let beside = Path::new(&source.name).parent().map(|folder| folder.to_string_lossy().into_owned());
        let origin = Self {
            folder: Some(own.need_text("folder")?.value),
            beside: beside.filter(|folder| !folder.is_empty()).unwrap_or_else(|| ".".to_owned()),
            given: Overrides {
                data_dir: text("data_dir")?,
                model_dir: text("model_dir")?,
                max_steps: own.plain_count("max_steps", 1)?,
                seed: own.integer("seed")?.map(|seed| seed.value.cast_unsigned()),
                set: own.texts("set")?.into_iter().flat_map(|list| list.value).map(|flag| flag.value).collect(),
            },
            files: renames(&own, "files")?,
        };
        own.close();
        Ok(origin)
    }

    /// Falls back to the recorded overrides where `now` has none.
    fn under(&self, now: Overrides) -> Overrides {
        Overrides {
            data_dir: now.data_dir.or_else(|| self.given.data_dir.clone()),
            model_dir: now.model_dir.or_else(|| self.given.model_dir.clone()),
            max_steps: now.max_steps.or(self.given.max_steps),
            seed: now.seed.or(self.given.seed),
            set: self.given.set.iter().cloned().chain(now.set).collect(),
        }
    }
}
