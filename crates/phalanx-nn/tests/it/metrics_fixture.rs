//! Reads `fixtures/metrics.txt` and creates its metrics and losses.

use std::collections::BTreeMap;

use phalanx_nn::metrics::{
    Accuracy, Auc, BinaryAccuracy, BinaryCrossentropy, CategoricalCrossentropy, CountMetric, FalseNegatives,
    FalsePositives, Loss, Mean, Metric, OfCounts, Precision, PrecisionAtRecall, Recall, RecallAtPrecision,
    SensitivityAtSpecificity, SparseCategoricalCrossentropy, SparseTopKCategoricalAccuracy, SpecificityAtSensitivity,
    Sum, TopKCategoricalAccuracy, TrueNegatives, TruePositives, Values, parse,
};

const FIXTURE: &str = include_str!("../fixtures/metrics.txt");

/// A batch; class numbers are in `ids`, other labels in `label`.
pub(crate) struct Batch {
    pub(crate) label: Vec<f32>,
    pub(crate) ids: Vec<i64>,
    pub(crate) prediction: Vec<f32>,
    pub(crate) weights: Vec<f32>,
}

pub(crate) struct Set {
    pub(crate) label_width: usize,
    pub(crate) width: usize,
    pub(crate) batches: Vec<Batch>,
}

impl Set {
    pub(crate) fn label<'a>(&self, batch: &'a Batch) -> Values<'a> {
        if self.label_width == 0 { Values::ids(&batch.ids) } else { Values::rows(&batch.label, self.label_width) }
    }

    pub(crate) fn prediction<'a>(&self, batch: &'a Batch) -> Values<'a> {
        Values::rows(&batch.prediction, self.width)
    }
}

pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('/').filter_map(|pair| pair.split_once(':'));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    pub(crate) fn number(&self, key: &str) -> Option<f32> {
        self.0.get(key).map(|text| text.parse().unwrap())
    }

    pub(crate) fn count(&self, key: &str) -> Option<usize> {
        self.0.get(key).map(|text| text.parse().unwrap())
    }

    pub(crate) fn list(&self, key: &str) -> Option<Vec<f32>> {
        self.0.get(key).map(|text| numbers(text))
    }

    pub(crate) fn yes(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|text| text == "True")
    }
}

pub(crate) fn numbers(text: &str) -> Vec<f32> {
    if text == "-" { Vec::new() } else { text.split(',').map(|number| number.parse().unwrap()).collect() }
}

/// Returns all sets, and the other lines split into fields.
pub(crate) fn fixture() -> (BTreeMap<&'static str, Set>, Vec<Vec<&'static str>>) {
    let (mut sets, mut facts, mut current) = (BTreeMap::new(), Vec::new(), "");
    for line in FIXTURE.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[0] {
            "set" => {
                current = fields[1];
                let (label_width, width) = (fields[2].parse().unwrap(), fields[3].parse().unwrap());
                sets.insert(current, Set { label_width, width, batches: Vec::new() });
            }
            "batch" => {
                let label = numbers(fields[1]);
                let ids = label.iter().map(|&class| class as i64).collect();
                let batch = Batch { label, ids, prediction: numbers(fields[2]), weights: numbers(fields[3]) };
                sets.get_mut(current).unwrap().batches.push(batch);
            }
            _ => facts.push(fields),
        }
    }
    (sets, facts)
}

/// Makes a metric of counts by its alias.
trait Counted {
    fn make(settings: &Settings) -> Box<dyn Metric>;
}

impl<K: OfCounts> Counted for CountMetric<K> {
    fn make(settings: &Settings) -> Box<dyn Metric> {
        let mut metric = Self::new();
        if let Some(thresholds) = settings.list("thresholds") {
            metric = metric.thresholds(&thresholds).unwrap();
        }
        if let Some(k) = settings.count("top_k") {
            metric = metric.top_k(k).unwrap();
        }
        if let Some(class) = settings.count("class_id") {
            metric = metric.class_id(class);
        }
        Box::new(metric)
    }
}

macro_rules! best {
    ($kind:ident, $bound:literal, $settings:expr) => {{
        let mut metric = $kind::new($settings.number($bound).unwrap()).unwrap();
        if let Some(count) = $settings.count("num_thresholds") {
            metric = metric.num_thresholds(count).unwrap();
        }
        if let Some(class) = $settings.count("class_id") {
            metric = metric.class_id(class);
        }
        Box::new(metric)
    }};
}

fn auc(settings: &Settings) -> Auc {
    let mut metric = Auc::new().from_logits(settings.yes("from_logits"));
    if let Some(curve) = settings.0.get("curve") {
        metric = metric.curve(curve.parse().unwrap());
    }
    if let Some(method) = settings.0.get("summation_method") {
        metric = metric.summation_method(method.parse().unwrap());
    }
    if let Some(count) = settings.count("num_thresholds") {
        metric = metric.num_thresholds(count).unwrap();
    }
    match settings.list("thresholds") {
        Some(thresholds) => metric.thresholds(&thresholds).unwrap(),
        None => metric,
    }
}

/// The metric of a line, made as a user would.
pub(crate) fn metric(class: &str, settings: &Settings) -> Box<dyn Metric> {
    let logits = settings.yes("from_logits");
    let smoothing = settings.number("label_smoothing").unwrap_or(0.0);
    match class {
        "Mean" => Box::new(Mean::new("mean")),
        "Sum" => Box::new(Sum::new("sum")),
        "Accuracy" => Box::new(Accuracy::new()),
        "BinaryAccuracy" => Box::new(BinaryAccuracy::new().threshold(settings.number("threshold").unwrap_or(0.5))),
        "TopKCategoricalAccuracy" => {
            Box::new(TopKCategoricalAccuracy::new().k(settings.count("k").unwrap_or(5)).unwrap())
        }
        "SparseTopKCategoricalAccuracy" => {
            Box::new(SparseTopKCategoricalAccuracy::new().k(settings.count("k").unwrap_or(5)).unwrap())
        }
        "AUC" => Box::new(auc(settings)),
        "TruePositives" => TruePositives::make(settings),
        "FalsePositives" => FalsePositives::make(settings),
        "TrueNegatives" => TrueNegatives::make(settings),
        "FalseNegatives" => FalseNegatives::make(settings),
        "Precision" => Precision::make(settings),
        "Recall" => Recall::make(settings),
        "PrecisionAtRecall" => best!(PrecisionAtRecall, "recall", settings),
        "RecallAtPrecision" => best!(RecallAtPrecision, "precision", settings),
        "SensitivityAtSpecificity" => best!(SensitivityAtSpecificity, "specificity", settings),
        "SpecificityAtSensitivity" => best!(SpecificityAtSensitivity, "sensitivity", settings),
        "BinaryCrossentropy" => Box::new(BinaryCrossentropy::new().from_logits(logits).label_smoothing(smoothing)),
        "CategoricalCrossentropy" => {
            Box::new(CategoricalCrossentropy::new().from_logits(logits).label_smoothing(smoothing))
        }
        "SparseCategoricalCrossentropy" => {
            let metric = SparseCategoricalCrossentropy::new().from_logits(logits);
            match settings.count("ignore_class") {
                Some(class) => Box::new(metric.ignore_class(class as i64)),
                None => Box::new(metric),
            }
        }
        other => parse(other, None, 1).unwrap(),
    }
}

/// The loss of a line.
pub(crate) fn loss(class: &str, settings: &Settings) -> Loss {
    let from_logits = settings.yes("from_logits");
    let label_smoothing = settings.number("label_smoothing").unwrap_or(0.0);
    match Loss::parse(class).unwrap() {
        Loss::Huber { delta } => Loss::Huber { delta: settings.number("delta").unwrap_or(delta) },
        Loss::BinaryCrossentropy { .. } => Loss::BinaryCrossentropy { from_logits, label_smoothing },
        Loss::CategoricalCrossentropy { .. } => Loss::CategoricalCrossentropy { from_logits, label_smoothing },
        Loss::SparseCategoricalCrossentropy { .. } => Loss::SparseCategoricalCrossentropy { from_logits },
        plain => plain,
    }
}
