//! Trains, evaluates and asks an estimator as a case says, for the suite that holds it against TensorFlow's.
//!
//! The case comes as JSON on the standard input; what the estimator did goes as JSON to the standard output.

#![allow(clippy::print_stdout)]

use phalanx_base::{Code, Context, Error, Result};
use phalanx_data::{Batch, Column, Dataset, Values, ValuesView};
use phalanx_estimator::*;
use phalanx_feature::*;
use phalanx_optim::Optimizer;
use phalanx_train::Step;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

fn main() -> ExitCode {
    match run() {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> Result<Value> {
    let case: Value = serde_json::from_reader(std::io::stdin()).context(Code::DataFormat, "the case is not JSON")?;
    let columns = |part: &str| -> Vec<FeatureColumn> {
        case[part].as_array().map(|list| list.iter().flat_map(columns_of).collect()).unwrap_or_default()
    };
    let (linear, deep) = (columns("linear"), columns("deep"));
    let hidden: Vec<usize> = integers(&case["hidden_units"]).into_iter().map(|n| n as usize).collect();
    macro_rules! settled {
        (common $model:expr) => {{
            let mut model = $model;
            if let Some(name) = case["weight_column"].as_str() {
                model = model.weight_column(name);
            }
            if let Some(names) = case["eval_metrics"].as_array() {
                let metrics = names.iter().map(|name| EvalMetric::parse(&text(name)));
                model = model.eval_metrics(metrics.collect::<Result<Vec<_>>>()?);
            }
            if let Some(name) = case["group_by"].as_str() {
                model = model.group_by(name);
            }
            if case["reduction"] == "sum" {
                model = model.loss_reduction(Reduction::Sum);
            }
            model
        }};
        (classifier $model:expr) => {{
            let mut model = $model;
            if let Some(classes) = case["n_classes"].as_u64() {
                model = model.n_classes(classes as usize);
            }
            settled!(binary model)
        }};
        (binary $model:expr) => {{
            let mut model = settled!(common $model);
            if let Some(words) = case["label_vocabulary"].as_array() {
                model = model.label_vocabulary(words.iter().map(text));
            }
            if case["thresholds"].is_array() {
                model = model.thresholds(floats(&case["thresholds"]));
            }
            work(&case, &model)
        }};
        (regressor $model:expr) => {{
            let mut model = settled!(common $model);
            if let Some(dimension) = case["label_dimension"].as_u64() {
                model = model.label_dimension(dimension as usize);
            }
            work(&case, &model)
        }};
    }
    macro_rules! optimized {
        ($model:expr, $($setting:ident = $key:literal),*) => {{
            let mut model = $model;
            if let Some(l2) = case["l2"].as_f64() {
                model = model.l2(l2 as f32);
            }
            if let Some(l2) = case["embedding_l2"].as_f64() {
                model = model.embedding_l2(l2 as f32);
            }
            $(if let Some(optimizer) = optimizer(&case[$key])? {
                model = model.$setting(optimizer);
            })*
            model
        }};
    }
    macro_rules! layered {
        ($model:expr) => {{
            let mut model = $model.hidden_units(hidden).batch_norm(case["batch_norm"] == true);
            if let Some(rate) = case["dropout"].as_f64() {
                model = model.dropout(rate);
            }
            model
        }};
    }
    match text(&case["model"]).as_str() {
        "LinearClassifier" => settled!(classifier optimized!(LinearClassifier::new(linear), optimizer = "optimizer")),
        "LinearRegressor" => settled!(regressor optimized!(LinearRegressor::new(linear), optimizer = "optimizer")),
        "DNNClassifier" => {
            let model = layered!(DnnClassifier::new(deep));
            settled!(classifier optimized!(model, optimizer = "optimizer"))
        }
        "DNNRegressor" => {
            let model = layered!(DnnRegressor::new(deep));
            settled!(regressor optimized!(model, optimizer = "optimizer"))
        }
        "DNNLinearCombinedClassifier" => {
            let model = layered!(WideDeepClassifier::new(linear, deep));
            let model = optimized!(model, linear_optimizer = "linear_optimizer", dnn_optimizer = "dnn_optimizer");
            settled!(classifier model)
        }
        "DNNLinearCombinedRegressor" => {
            let model = layered!(WideDeepRegressor::new(linear, deep));
            let model = optimized!(model, linear_optimizer = "linear_optimizer", dnn_optimizer = "dnn_optimizer");
            settled!(regressor model)
        }
        "DeepFMClassifier" => {
            let model = layered!(DeepFmClassifier::new(deep));
            let model = optimized!(model, linear_optimizer = "linear_optimizer", dnn_optimizer = "dnn_optimizer");
            settled!(binary model)
        }
        "FMClassifier" => settled!(binary optimized!(FmClassifier::new(deep), optimizer = "optimizer")),
        "FMRegressor" => work(&case, &settled!(common optimized!(FmRegressor::new(deep), optimizer = "optimizer"))),
        "MFRegressor" => {
            let column = |at: usize| deep.get(at).and_then(FeatureColumn::categorical_column);
            let (Some(user), Some(item)) = (column(0), column(1)) else {
                return Err(Error::new(Code::DataFormat, "no embeddings of users and items"));
            };
            let mean = case["global_mean"].as_f64().unwrap_or(0.0) as f32;
            let model = MfRegressor::new(user, item, 4).global_mean(mean);
            work(&case, &settled!(common optimized!(model, optimizer = "optimizer")))
        }
        "DLRMClassifier" => {
            let bottom: Vec<usize> = integers(&case["bottom_units"]).into_iter().map(|n| n as usize).collect();
            let model = DlrmClassifier::new(deep).bottom_units(bottom).top_units(hidden);
            settled!(classifier optimized!(model, optimizer = "optimizer"))
        }
        // TensorFlow's estimators with a given head.
        "LinearEstimator" => {
            let model = LinearRegressor::new(linear).head(head(&case["head"])?);
            work(&case, &optimized!(model, optimizer = "optimizer"))
        }
        "DNNEstimator" => {
            let model = layered!(DnnRegressor::new(deep)).head(head(&case["head"])?);
            work(&case, &optimized!(model, optimizer = "optimizer"))
        }
        "BaselineClassifier" => settled!(classifier BaselineClassifier::new()),
        "BaselineRegressor" => settled!(regressor BaselineRegressor::new()),
        other => Err(Error::new(Code::DataFormat, format!("no model {other:?}"))),
    }
}

/// A head from its description: the class's name, then its arguments.
fn head(given: &Value) -> Result<Head> {
    let size = |name: &str| given[name].as_u64().unwrap_or(1) as usize;
    let mut made = match text(&given["class"]).as_str() {
        "MultiLabelHead" => Head::multi_label(size("n_classes")).thresholds(floats(&given["thresholds"])),
        "PoissonRegressionHead" => Head::poisson(size("label_dimension")),
        "RegressionHead" => Head::regression(size("label_dimension")),
        "BinaryClassHead" => Head::classes(2),
        "MultiClassHead" => Head::classes(size("n_classes")),
        "MultiHead" => {
            let heads = given["heads"].as_array().cloned().unwrap_or_default();
            let named = heads.iter().map(|one| Ok((text(&one["name"]), head(one)?)));
            let several = Head::several(named.collect::<Result<Vec<_>>>()?);
            if given["head_weights"].is_array() {
                several.head_weights(floats(&given["head_weights"]))
            } else {
                several
            }
        }
        other => return Err(Error::new(Code::DataFormat, format!("no head {other:?}"))),
    };
    if let Some(words) = given["label_vocabulary"].as_array() {
        made = made.label_vocabulary(words.iter().map(text));
    }
    if let Some(name) = given["weight_column"].as_str() {
        made = made.weight_column(name);
    }
    if given["reduction"] == "sum" {
        made = made.loss_reduction(Reduction::Sum);
    }
    Ok(made)
}

/// The losses of a training, step by step.
struct Losses(Arc<Mutex<Vec<f32>>>);

impl Hook for Losses {
    fn after_step(&mut self, step: &Step) -> Result<Control> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(step.loss);
        Ok(Control::Continue)
    }
}

fn work(case: &Value, model: &impl IntoModel) -> Result<Value> {
    let mut config = RunConfig::new().model_dir(text(&case["model_dir"])).log_step_count_steps(None);
    if let Some(path) = case["warm_start"].as_str() {
        config = config.warm_start_from(WarmStart::new(path));
    }
    let estimator = Estimator::new(model, config)?;
    let data = dataset(case)?;
    let batch = case["batch"].as_u64().unwrap_or(1) as usize;
    let input = || data.clone().batch(batch);
    let mut done = Map::new();
    if let Some(steps) = case["steps"].as_u64() {
        let losses = Arc::new(Mutex::new(Vec::new()));
        let mut hooks: [Box<dyn Hook>; 1] = [Box::new(Losses(Arc::clone(&losses)))];
        let steps = if steps == 0 { TrainSteps::UntilEnd } else { TrainSteps::Max(steps) };
        let trained = estimator.train_with(|_| input(), steps, &mut hooks)?;
        let losses = losses.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        done.insert("losses".into(), json!(losses));
        done.insert("global_step".into(), json!(trained.global_step));
    }
    if case["evaluate"] == true {
        let found = estimator.evaluate(|_| input(), None)?;
        let mut metrics = json!(found.metrics);
        metrics["global_step"] = json!(found.global_step);
        done.insert("evaluation".into(), metrics);
    }
    if case["predict"] == true {
        let mut all: Vec<Value> = Vec::new();
        for batch in estimator.predict(|_| input())? {
            let batch = batch?;
            let named = batch.iter().map(|(name, column)| (name.to_string(), plain(column)));
            all.push(Value::Object(named.collect()));
        }
        done.insert("predictions".into(), Value::Array(all));
    }
    if let Some(base) = case["export"].as_str() {
        let held = input().iter()?.next().transpose()?;
        let mut folders = Vec::new();
        for (name, kind) in [("examples", ServingInput::Examples), ("raw", ServingInput::Raw)] {
            let folder = estimator.export_saved_model(format!("{base}/{name}"), kind, held.as_ref())?;
            folders.push(folder.to_string_lossy().into_owned());
        }
        done.insert("exports".into(), json!(folders));
    }
    Ok(Value::Object(done))
}

fn plain(column: &Column) -> Value {
    match column.values() {
        ValuesView::F32(values) => json!(values),
        ValuesView::I64(values) => json!(values),
        ValuesView::U8(values) => json!(values),
        ValuesView::Bytes(values) => values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect(),
    }
}

fn dataset(case: &Value) -> Result<Dataset> {
    let features = case["features"].as_object().cloned().unwrap_or_default();
    let mut columns = Vec::new();
    for (name, given) in &features {
        columns.push((name.clone(), data_column(given)?));
    }
    if let Some(labels) = case["labels"].as_object() {
        // Several heads: a column of labels for each.
        for (name, given) in labels {
            columns.push((name.clone(), data_column(given)?));
        }
        return Ok(Dataset::from_tensor_slices(Batch::new(columns)?));
    }
    columns.push(("the_label".to_owned(), data_column(&case["label"])?));
    Ok(Dataset::from_tensor_slices(Batch::new(columns)?.with_label("the_label")?))
}

fn data_column(given: &Value) -> Result<Column> {
    let list = given["values"].as_array().cloned().unwrap_or_default();
    let values = match list.first() {
        Some(first) if first.is_string() => Values::Bytes(list.iter().map(text).collect()),
        Some(first) if first.is_i64() => Values::I64(integers(&given["values"])),
        _ => Values::F32(floats(&given["values"])),
    };
    let column = Column::new(values);
    match given["width"].as_u64() {
        Some(width) => column.with_row_shape([width as usize]),
        None => Ok(column),
    }
}

fn optimizer(given: &Value) -> Result<Option<Optimizer>> {
    let Some(name) = given["name"].as_str() else { return Ok(None) };
    phalanx_tests::optimizer(name, given).map(Some)
}

/// The columns of a description: several, where they share a table.
fn columns_of(given: &Value) -> Vec<FeatureColumn> {
    if given["fn"] != "shared" {
        return vec![column(given)];
    }
    let dimension = given["dimension"].as_u64().unwrap_or(1) as usize;
    let list = given["columns"].as_array().cloned().unwrap_or_default();
    let trainable = given["trainable"] != false;
    shared_embeddings(list.iter().map(column), dimension)
        .into_iter()
        .map(|column| column.trainable(trainable))
        .collect()
}

/// A column from its description: the function's name, then its arguments.
fn column(given: &Value) -> FeatureColumn {
    let key = || text(&given["key"]);
    let size = |name: &str| given[name].as_u64().unwrap_or(1) as usize;
    let inner = || column(&given["column"]);
    match text(&given["fn"]).as_str() {
        "numeric_column" => numeric_column(key()).shape(vec![size("shape")]),
        "bucketized_column" => bucketized_column(inner(), floats(&given["boundaries"]).into_iter().map(f64::from)),
        "identity" => categorical_column_with_identity(key(), size("size")),
        "vocabulary" => {
            let words = given["words"].as_array().cloned().unwrap_or_default();
            categorical_column_with_vocabulary_list(key(), words.iter().map(text))
        }
        "hash" => categorical_column_with_hash_bucket(key(), size("size")),
        "crossed" => {
            let keys = given["keys"].as_array().cloned().unwrap_or_default();
            let keys = keys.iter().map(|key| match key.as_str() {
                Some(key) => CrossKey::from(key),
                None => CrossKey::from(column(key)),
            });
            crossed_column(keys, size("size"))
        }
        "weighted" => weighted_categorical_column(inner(), text(&given["weights"])),
        "indicator" => indicator_column(inner()),
        _ => {
            let made = embedding_column(inner(), size("dimension"));
            let combiner = [Combiner::Mean, Combiner::Sum, Combiner::Sqrtn];
            let made = match combiner.into_iter().find(|combiner| given["combiner"] == combiner.name()) {
                Some(combiner) => made.combiner(combiner),
                None => made,
            };
            match given["max_norm"].as_f64() {
                Some(norm) => made.max_norm(norm as f32),
                None => made,
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn integers(value: &Value) -> Vec<i64> {
    value.as_array().map(|list| list.iter().filter_map(Value::as_i64).collect()).unwrap_or_default()
}

fn floats(value: &Value) -> Vec<f32> {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN) as f32;
    value.as_array().map(|list| list.iter().map(number).collect()).unwrap_or_default()
}
