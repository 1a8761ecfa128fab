//! The table `[model]`: kind, columns, head and optimizers.

use crate::columns::{Columns, Named};
use crate::head::Head;
use crate::optimizer::optimizer;
use crate::schema::MODEL_KINDS;
use crate::section::Section;
use crate::source::{Source, Span, Spanned};
use crate::tree::Node;
use phalanx_base::{Code, Error, Result};
use phalanx_estimator::{
    BaselineClassifier, BaselineRegressor, Canned, DeepFmClassifier, DlrmClassifier, DnnClassifier, DnnRegressor,
    FmClassifier, FmRegressor, Head as HeadOfModel, IntoModel, LinearClassifier, LinearRegressor, MfRegressor,
    WideDeepClassifier, WideDeepRegressor,
};
use phalanx_feature::{Combiner, FeatureColumn, FeatureStatistics};
use phalanx_nn::Precision;
use phalanx_nn::model::Function;
use phalanx_optim::Optimizer;

/// The part of a model that columns belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelPart {
    Linear,
    Deep,
}

/// The columns of one part of a model.
#[derive(Clone, Debug)]
pub(crate) struct PartColumns {
    pub(crate) part: ModelPart,
    /// The columns, each with the position of its name in the model.
    pub(crate) columns: Vec<(Named, Spanned<String>)>,
}

impl PartColumns {
    fn all(&self) -> Vec<FeatureColumn> {
        self.columns.iter().flat_map(|(named, _)| named.columns.iter().cloned()).collect()
    }
}

/// A model as described by the file.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    kind: &'static str,
    pub(crate) span: Span,
    pub(crate) head: Head,
    parts: Vec<PartColumns>,
    optimizers: Vec<(&'static str, Optimizer)>,
    hidden_units: Vec<usize>,
    /// DLRM's layers over the numeric inputs; `hidden_units` are those over the interactions.
    bottom_units: Vec<usize>,
    batch_norm: bool,
    precision: Precision,
    activation: Option<Function>,
    dropout: Option<f64>,
    /// Of weights and of looked-up rows.
    l2: [f32; 2],
    combiner: Combiner,
    factors: Factors,
}

/// The settings of a matrix factorization.
#[derive(Clone, Copy, Debug, Default)]
struct Factors {
    dimension: usize,
    global_mean: f32,
}

impl Factors {
    fn read(own: &Section<'_>) -> Result<Self> {
        let dimension = own.need_count("dimension", 1)?.value as usize;
        let mean = own.number("global_mean")?.map_or(0.0, |mean| mean.value as f32);
        Ok(Self { dimension, global_mean: mean })
    }
}

impl Model {
    pub(crate) fn read(source: &Source, columns: &Columns, node: &Node) -> Result<Self> {
        let (kind, own) = Section::of_kind(source, "[model]", "kind", MODEL_KINDS, node)?;
        own.node("kind");
        let mut model = Self {
            kind,
            span: own.span_of("kind"),
            head: Head::read(&own)?,
            parts: Vec::new(),
            optimizers: Vec::new(),
            hidden_units: Vec::new(),
            bottom_units: Vec::new(),
            batch_norm: false,
            precision: Precision::F32,
            activation: None,
            dropout: None,
            l2: [0.0; 2],
            combiner: Combiner::Sum,
            factors: Factors::default(),
        };
        let is_deep = own.may_have("hidden_units") || own.may_have("top_units") || kind.starts_with("fm_");
        let own_part = if is_deep { ModelPart::Deep } else { ModelPart::Linear };
        let parts = [("columns", own_part), ("linear_columns", ModelPart::Linear), ("dnn_columns", ModelPart::Deep)];
        for (key, part) in parts.into_iter().filter(|(key, _)| own.may_have(key)) {
            model.parts.push(PartColumns { part, columns: named_columns(&own, key, columns)? });
        }
        if own.may_have("user") {
            model.factors = Factors::read(&own)?;
            let columns = ["user", "item"].map(|key| categorical(&own, key, columns));
            let columns = columns.into_iter().collect::<Result<_>>()?;
            model.parts.push(PartColumns { part: ModelPart::Linear, columns });
        }
        if own.may_have("linear_columns") && model.parts.iter().all(|part| part.columns.is_empty()) {
            return Err(own.missing("linear_columns").because("the model has neither linear nor deep columns"));
        }
        for key in ["optimizer", "linear_optimizer", "dnn_optimizer"].into_iter().filter(|key| own.may_have(key)) {
            model.optimizers.extend(optimizer(&own, key)?.map(|optimizer| (key, optimizer)));
        }
        model.layers(&own)?;
        for (at, key) in ["l2", "embedding_l2"].into_iter().enumerate().filter(|(_, key)| own.may_have(key)) {
            model.l2[at] = own.number(key)?.map_or(Ok(0.0), |l2| check_l2(&own, key, l2.value))?;
        }
        let words = [("sum", Combiner::Sum), ("mean", Combiner::Mean), ("sqrtn", Combiner::Sqrtn)];
        for key in ["sparse_combiner", "linear_sparse_combiner"].into_iter().filter(|key| own.may_have(key)) {
            model.combiner = own.choice(key, &words)?.map_or(Combiner::Sum, |found| found.value);
        }
        let classes = model.head.classes.as_ref().map_or(2, |classes| classes.value);
        if matches!(kind, "deepfm_classifier" | "fm_classifier") && classes != 2 {
            let error = own.wrong(&own.span_of("n_classes"), format!("a {kind} of {classes} classes"), "not two");
            return Err(error.help("use dlrm_classifier, or two classes"));
        }
        own.close();
        Ok(model)
    }

    fn layers(&mut self, own: &Section<'_>) -> Result<()> {
        if own.may_have("dropout") {
            self.dropout = own.number("dropout")?.map(|rate| check_dropout(own, rate)).transpose()?;
        }
        if own.may_have("top_units") {
            let units = |key| own.counts(key, 1)?.map(|units| units.value).ok_or_else(|| own.missing(key));
            (self.bottom_units, self.hidden_units) = (units("bottom_units")?, units("top_units")?);
        }
        if !own.may_have("hidden_units") {
            return Ok(());
        }
        self.batch_norm = own.boolean("batch_norm")?.unwrap_or(false);
        let words = [("f32", Precision::F32), ("bf16", Precision::Bf16)];
        self.precision = own.choice("precision", &words)?.map_or(Precision::F32, |precision| precision.value);
        let is_deep = self.parts.iter().any(|part| part.part == ModelPart::Deep && !part.columns.is_empty());
        self.hidden_units = match own.counts("hidden_units", 1)? {
            Some(units) => units.value,
            None if is_deep => return Err(own.missing("hidden_units")),
            None => Vec::new(),
        };
        if let Some(name) = own.text("activation")? {
            let found = name.value.parse::<Function>().map_err(|error| {
                // Its help lists the known names.
                let known: Vec<&str> = error.next().unwrap_or_default().split(' ').skip(2).collect();
                own.no_such("activation", &name, known)
            })?;
            self.activation = Some(found);
        }
        Ok(())
    }

    /// All columns, in the order of the file's lists.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&Named, &Spanned<String>, ModelPart)> {
        self.parts.iter().flat_map(|part| part.columns.iter().map(move |(named, at)| (named, at, part.part)))
    }

    /// The model with the statistics that its columns need.
    pub(crate) fn adapted(&self, statistics: &FeatureStatistics) -> Result<Self> {
        let mut model = self.clone();
        for (named, _) in model.parts.iter_mut().flat_map(|part| &mut part.columns) {
            *named = named.adapted(statistics)?;
        }
        Ok(model)
    }

    /// The size of the first hidden layer, 1 without one.
    pub(crate) fn first_layer(&self) -> usize {
        self.hidden_units.first().copied().unwrap_or(1)
    }

    fn columns_of(&self, part: ModelPart) -> Vec<FeatureColumn> {
        self.parts.iter().filter(|columns| columns.part == part).flat_map(PartColumns::all).collect()
    }

    fn optimizer(&self, key: &str) -> Option<Optimizer> {
        self.optimizers.iter().find(|(known, _)| *known == key).map(|(_, optimizer)| *optimizer)
    }
}

fn check_l2(own: &Section<'_>, key: &str, l2: f64) -> Result<f32> {
    if l2.is_finite() && l2 >= 0.0 {
        return Ok(l2 as f32);
    }
    Err(own.wrong(&own.span_of(key), format!("`{key}` is {l2}"), "out of range").help("give 0 or more"))
}

fn check_dropout(own: &Section<'_>, rate: Spanned<f64>) -> Result<f64> {
    if (0.0..1.0).contains(&rate.value) {
        return Ok(rate.value);
    }
    let what = format!("a dropout of {}", rate.value);
    Err(own.wrong(&own.span_of("dropout"), what, "out of range").help("give at least 0 and less than 1"))
}

/// Reads the name of one categorical column.
fn categorical(own: &Section<'_>, key: &'static str, columns: &Columns) -> Result<(Named, Spanned<String>)> {
    let name = own.need_text(key)?;
    let named = columns.get(own.source, &name)?.clone();
    match &named.columns[..] {
        // One that cannot be counted, such as a vocabulary without a file, is reported when the model is built.
        [column] if !matches!(column.num_buckets(), Ok(None)) => Ok((named, name)),
        _ => {
            let error = own.wrong(&own.span_of(key), format!("`{key}` is not a categorical column"), "not categorical");
            Err(error.help("name a column of kind identity, hash_bucket, vocabulary_list, …; vectors are added to it"))
        }
    }
}

fn named_columns(own: &Section<'_>, key: &'static str, columns: &Columns) -> Result<Vec<(Named, Spanned<String>)>> {
    let Some(names) = own.texts(key)? else {
        return if key == "columns" { Err(own.missing(key)) } else { Ok(Vec::new()) };
    };
    if key == "columns" && names.value.is_empty() {
        return Err(own
            .wrong(&own.span_of(key), "the model has no columns", "empty")
            .help("name columns of [columns]"));
    }
    let mut all: Vec<(Named, Spanned<String>)> = Vec::new();
    for name in names.value {
        let named = columns.get(own.source, &name)?.clone();
        let tf_names = |named: &Named| named.columns.iter().map(FeatureColumn::name).collect::<Vec<_>>();
        let twice =
            |(known, _): &&(Named, Spanned<String>)| tf_names(known).iter().any(|one| tf_names(&named).contains(one));
        if let Some((other, _)) = all.iter().find(twice) {
            let what = format!("`{key}` has the column {:?} twice", tf_names(&named)[0]);
            let help = format!("leave \"{}\" or \"{}\" out", other.name, named.name);
            return Err(own.wrong(&name.span_or(&own.span), what, "a second time").help(help));
        }
        all.push((named, name));
    }
    Ok(all)
}

/// Applies the head settings of the file to a model.
macro_rules! with_head {
    (classifier $model:expr, $head:expr) => {{
        with_head!(binary $model.n_classes($head.classes.as_ref().map_or(2, |classes| classes.value)), $head)
    }};
    (binary $model:expr, $head:expr) => {{
        let words = $head.vocabulary.as_ref().map(|words| words.value.iter().map(|spellings| spellings[0].clone()));
        with_head!(common set!($model.thresholds($head.thresholds.clone()), label_vocabulary: words), $head)
    }};
    (regressor $model:expr, $head:expr) => {{
        let (model, numbers) = ($model, $head.label_dimension);
        let made = if $head.poisson { HeadOfModel::poisson(numbers) } else { HeadOfModel::regression(numbers) };
        with_head!(common model.head(made), $head)
    }};
    (common $model:expr, $head:expr) => {{
        let weights = $head.weight_column.as_ref().map(|column| column.value.clone());
        let model = $model.eval_metrics($head.eval_metrics.clone());
        set!(model, weight_column: weights, loss_reduction: $head.reduction, group_by: $head.group_by.clone())
    }};
}

impl IntoModel for Model {
    type Model = Canned;

    fn to_model(&self, seed: u64) -> Result<Canned> {
        let (head, optimizer) = (&self.head, self.optimizer("optimizer"));
        let (wide, deep) = (self.columns_of(ModelPart::Linear), self.columns_of(ModelPart::Deep));
        macro_rules! regularized {
            ($model:expr) => {
                $model.l2(self.l2[0]).embedding_l2(self.l2[1])
            };
        }
        macro_rules! linear {
            ($settings:ident) => {
                set!(regularized!($settings::new(wide).sparse_combiner(self.combiner)), optimizer: optimizer)
            };
        }
        macro_rules! dnn {
            ($settings:ident) => {
                set!(regularized!($settings::new(deep)).hidden_units(self.hidden_units.clone())
                        .batch_norm(self.batch_norm).precision(self.precision),
                    optimizer: optimizer,
                    activation_fn: self.activation, dropout: self.dropout)
            };
        }
        macro_rules! combined {
            ($settings:ident) => {
                set!(regularized!($settings::new(wide, deep)).hidden_units(self.hidden_units.clone())
                        .linear_sparse_combiner(self.combiner).batch_norm(self.batch_norm).precision(self.precision),
                    linear_optimizer: self.optimizer("linear_optimizer"),
                    dnn_optimizer: self.optimizer("dnn_optimizer"),
                    activation_fn: self.activation, dropout: self.dropout)
            };
        }
        match self.kind {
            "linear_classifier" => with_head!(classifier linear!(LinearClassifier), head).to_model(seed),
            "linear_regressor" => with_head!(regressor linear!(LinearRegressor), head).to_model(seed),
            "dnn_classifier" => with_head!(classifier dnn!(DnnClassifier), head).to_model(seed),
            "dnn_regressor" => with_head!(regressor dnn!(DnnRegressor), head).to_model(seed),
            "dnn_linear_combined_classifier" => {
                with_head!(classifier combined!(WideDeepClassifier), head).to_model(seed)
            }
            "dnn_linear_combined_regressor" => with_head!(regressor combined!(WideDeepRegressor), head).to_model(seed),
            "deepfm_classifier" => {
                let model = regularized!(DeepFmClassifier::new(deep)).hidden_units(self.hidden_units.clone());
                let model = set!(model.batch_norm(self.batch_norm).precision(self.precision),
                    linear_optimizer: self.optimizer("linear_optimizer"),
                    dnn_optimizer: self.optimizer("dnn_optimizer"),
                    activation_fn: self.activation, dropout: self.dropout);
                with_head!(binary model, head).to_model(seed)
            }
            "fm_classifier" => {
                let model = set!(regularized!(FmClassifier::new(deep)), optimizer: optimizer);
                with_head!(binary model, head).to_model(seed)
            }
            "fm_regressor" => {
                let model = set!(regularized!(FmRegressor::new(deep)), optimizer: optimizer);
                with_head!(common model, head).to_model(seed)
            }
            "mf_regressor" => {
                let [user, item] = <[FeatureColumn; 2]>::try_from(wide)
                    .map_err(|_| Error::new(Code::Internal, "a matrix factorization has two columns"))?;
                let Factors { dimension, global_mean } = self.factors;
                let model = regularized!(MfRegressor::new(user, item, dimension)).global_mean(global_mean);
                with_head!(common set!(model, optimizer: optimizer), head).to_model(seed)
            }
            "dlrm_classifier" => {
                let model = regularized!(DlrmClassifier::new(deep)).bottom_units(self.bottom_units.clone());
                let model = model.top_units(self.hidden_units.clone());
                let model = set!(model, optimizer: optimizer, dropout: self.dropout);
                with_head!(classifier model, head).to_model(seed)
            }
            "baseline_classifier" => {
                with_head!(classifier set!(BaselineClassifier::new(), optimizer: optimizer), head).to_model(seed)
            }
            "baseline_regressor" => {
                with_head!(regressor set!(BaselineRegressor::new(), optimizer: optimizer), head).to_model(seed)
            }
            other => Err(Error::new(Code::Internal, format!("nothing makes a model of kind {other}"))),
        }
    }
}
