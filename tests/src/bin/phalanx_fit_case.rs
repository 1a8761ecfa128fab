//! One `fit` for the suite that holds it against Keras: a case as JSON on standard input, what came out of it as JSON
//! on standard output. The fields of a case are those of Keras' functions; `tests/tf/test_fit.py` writes them.

use std::io::{Read, Write};
use std::process::ExitCode;

use phalanx::callbacks::{
    BackupAndRestore, CsvLogger, Direction, EarlyStopping, Lambda, LearningRateScheduler, ModelCheckpoint,
    ReduceLrOnPlateau, TensorBoard, TerminateOnNan,
};
use phalanx::data::{Batch, Column, Dataset};
use phalanx::fit::{Compile, Compiled, Data, Fit, History, Logs, LossChoices, Verbose, Weight};
use phalanx::losses::Loss;
use phalanx::model::{
    BatchNormalization, Concatenate, Conv2D, Dense, Flatten, Function, Input, Layer, MaxPooling2D, Model, Sequential,
    Symbol,
};
use phalanx_base::{Code, Context, Error, Result, Shape};
use phalanx_optim::{Optimizer, Sgd};
use phalanx_train::{MiniCluster, ParameterServerOptions, ServerOptions, Strategy};
use serde_json::{Map, Value, json};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

fn run() -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context(Code::DataMissing, "there is no case")?;
    let case: Value = serde_json::from_str(&text).context(Code::ConfigSyntax, "the case is no JSON")?;
    let answer = answer(&case)?.to_string();
    std::io::stdout().write_all(answer.as_bytes()).context(Code::Internal, "the answer cannot be written")
}

/// Runs a case in this process, or on two servers and `workers` workers, whose gradients are collected into rounds.
fn answer(case: &Value) -> Result<Value> {
    let Some(workers) = case["workers"].as_u64() else { return answer_under(case, &Strategy::default()) };
    let settings = ParameterServerOptions { consistency: "sync".to_owned(), ..ParameterServerOptions::default() };
    let workers = u32::try_from(workers).unwrap_or(1);
    MiniCluster::start_with(2, workers, ServerOptions::default())?
        .run(|server| answer_under(case, &Strategy::parameter_server_on(server, settings.clone())?))
}

fn answer_under(case: &Value, strategy: &Strategy) -> Result<Value> {
    let mut model = compiled(case, strategy)?;
    if let Some(prefix) = case["load"].as_str() {
        model.load_weights(prefix)?;
    }
    let data = data(&case["data"])?;
    let history = match &case["fit"] {
        Value::Null => History::default(),
        settings => model.fit(data.clone(), fit(settings, case)?)?,
    };
    if let Some(prefix) = case["save"].as_str() {
        model.save_weights(prefix)?;
    }
    let size = whole(&case["fit"]["batch_size"]);
    let settings = Fit::default().verbose(Verbose::Silent);
    let asked = case["data"]["batch"].is_null();
    let settings = if let Some(size) = size.filter(|_| asked) { settings.batch_size(size) } else { settings };
    let mut answer = json!({
        "history": history.logs().iter().map(pairs).collect::<Vec<_>>(),
        "epochs": history.epochs(),
        "weights": model.weights()?.into_iter().map(weight).collect::<Vec<_>>(),
        "iterations": model.iterations(),
        "learning_rate": model.optimizer().map(|optimizer| optimizer.learning_rate()),
    });
    // Data without an end is only learned from.
    if case["data"]["repeat"].is_null() {
        answer["evaluate"] = pairs(&model.evaluate(data.clone(), settings)?);
        let outputs = model
            .predict_all(data)?
            .into_iter()
            .map(|column| Ok(json!({ "shape": column.row_shape(), "values": column.as_f32()? })));
        answer["predict"] = outputs.collect::<Result<Vec<_>>>()?.into();
    }
    Ok(answer)
}

fn compiled(case: &Value, strategy: &Strategy) -> Result<Compiled<Model>> {
    let mut model = model(&case["model"])?;
    for (name, values) in entries(&case["weights"]) {
        model.set(name, floats(values))?;
    }
    let names = |field: &str| items(&case[field]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let compiled = strategy.scope(|| Ok(model))?.compile(
        optimizer(&case["optimizer"])?,
        losses(&case["loss"])?,
        names("metrics"),
    )?;
    compiled.weighted_metrics(names("weighted_metrics"))
}

/// `{"input", "layers"}` is a sequential model, `{"inputs", "layers", "outputs"}` a functional one.
fn model(case: &Value) -> Result<Model> {
    let layers = items(&case["layers"]);
    if case["inputs"].is_null() {
        let mut model = Sequential::new();
        for layer in layers {
            model = match text(&layer["kind"]) {
                "Dense" => model.add(dense(layer)?),
                "Conv2D" => model.add(conv(layer)?),
                "MaxPooling2D" => model.add(MaxPooling2D::new([2, 2])),
                "BatchNormalization" => model.add(BatchNormalization::new().momentum(0.9)),
                "Flatten" => model.add(Flatten::new()),
                other => return Err(unknown("layer", other)),
            };
        }
        return model.build(sizes(&case["input"]));
    }
    let mut named: Vec<(String, Symbol)> = Vec::new();
    let mut inputs = Vec::new();
    for input in items(&case["inputs"]) {
        let symbol = Input::named(text(&input["name"]), sizes(&input["shape"]));
        inputs.push(symbol.clone());
        named.push((text(&input["name"]).to_owned(), symbol));
    }
    for layer in layers {
        let on = items(&layer["on"]).iter().map(|name| find(&named, text(name))).collect::<Result<Vec<_>>>()?;
        let symbol = match text(&layer["kind"]) {
            "Dense" => dense(layer)?.call(&on),
            "Concatenate" => Concatenate::new().name(text(&layer["name"])).call(&on),
            other => return Err(unknown("layer", other)),
        };
        named.push((text(&layer["name"]).to_owned(), symbol));
    }
    let outputs = items(&case["outputs"]).iter().map(|name| find(&named, text(name))).collect::<Result<Vec<_>>>()?;
    Model::new(&inputs, &outputs)
}

fn find(named: &[(String, Symbol)], name: &str) -> Result<Symbol> {
    named.iter().find(|(known, _)| known == name).map(|(_, s)| s.clone()).ok_or_else(|| unknown("symbol", name))
}

fn dense(layer: &Value) -> Result<Dense> {
    let dense = Dense::new(whole(&layer["units"]).unwrap_or(1)).activation(activation(layer)?);
    Ok(if let Some(name) = layer["name"].as_str() { dense.name(name) } else { dense })
}

fn conv(layer: &Value) -> Result<Conv2D> {
    Ok(Conv2D::new(whole(&layer["filters"]).unwrap_or(1), [3, 3]).activation(activation(layer)?))
}

fn activation(layer: &Value) -> Result<Function> {
    layer["activation"].as_str().unwrap_or("linear").parse()
}

fn optimizer(case: &Value) -> Result<Optimizer> {
    match number(&case["momentum"]) {
        Some(momentum) => {
            let rate = number(&case["learning_rate"]).unwrap_or(0.01) as f32;
            Ok(Sgd::new(rate).momentum(momentum as f32).into())
        }
        None => phalanx_tests::optimizer(text(&case["kind"]), case),
    }
}

fn losses(case: &Value) -> Result<LossChoices> {
    let one = |case: &Value| match case["from_logits"].as_bool() {
        Some(from_logits) => Ok(Loss::SparseCategoricalCrossentropy { from_logits }),
        None => Loss::parse(case["name"].as_str().unwrap_or_else(|| text(case))),
    };
    match case {
        Value::Array(several) => {
            let several = several.iter().map(|case| Ok((one(case)?, number(&case["weight"]).unwrap_or(1.0) as f32)));
            Ok(several.collect::<Result<Vec<_>>>()?.into())
        }
        case => Ok(one(case)?.into()),
    }
}

/// Columns, a label, and for a dataset the size of its batches and whether it repeats.
fn data(case: &Value) -> Result<Data> {
    let mut columns = Vec::new();
    for column in items(&case["columns"]) {
        let values = &column["values"];
        let made = if column["integers"].is_null() {
            Column::f32(floats(values))
        } else {
            Column::i64(items(values).iter().filter_map(Value::as_i64).collect())
        };
        columns.push((text(&column["name"]), made.with_row_shape(sizes(&column["shape"]))?));
    }
    let mut rows = Batch::new(columns)?;
    if let Some(label) = case["label"].as_str() {
        rows = rows.with_label(label)?;
    }
    let Some(size) = whole(&case["batch"]) else { return Ok(rows.into()) };
    let dataset = Dataset::from_tensor_slices(rows).batch(size);
    Ok(if case["repeat"].is_null() { dataset.into() } else { dataset.repeat().into() })
}

fn fit(settings: &Value, case: &Value) -> Result<Fit> {
    let mut fit = Fit::epochs(whole(&settings["epochs"]).unwrap_or(1)).verbose(Verbose::Silent);
    fit = fit.shuffle(settings["shuffle"].as_bool().unwrap_or(false));
    fit = fit.initial_epoch(whole(&settings["initial_epoch"]).unwrap_or(0));
    if let Some(size) = whole(&settings["batch_size"]) {
        fit = fit.batch_size(size);
    }
    if let Some(steps) = settings["steps_per_epoch"].as_u64() {
        fit = fit.steps_per_epoch(steps);
    }
    if let Some(fraction) = number(&settings["validation_split"]) {
        fit = fit.validation_split(fraction);
    }
    if let Some(steps) = settings["validation_steps"].as_u64() {
        fit = fit.validation_steps(steps);
    }
    if let Some(every) = whole(&settings["validation_freq"]) {
        fit = fit.validation_freq(every);
    }
    if !case["validation"].is_null() {
        fit = fit.validation(data(&case["validation"])?);
    }
    let classes = entries(&settings["class_weight"]);
    fit = fit.class_weight(classes.filter_map(|(id, weight)| Some((id.parse().ok()?, number(weight)? as f32))));
    for callback in items(&settings["callbacks"]) {
        fit = with_callback(fit, callback)?;
    }
    Ok(fit)
}

fn with_callback(fit: Fit, case: &Value) -> Result<Fit> {
    let (monitor, place) = (case["monitor"].as_str().unwrap_or("val_loss"), text(&case["path"]));
    let direction = match case["mode"].as_str() {
        Some("min") => Direction::Min,
        Some("max") => Direction::Max,
        _ => Direction::Auto,
    };
    Ok(match text(&case["kind"]) {
        "EarlyStopping" => fit.callback(early_stopping(case, monitor, direction)),
        "ReduceLROnPlateau" => {
            let delta = number(&case["min_delta"]).unwrap_or(1e-4);
            fit.callback(
                ReduceLrOnPlateau::new(monitor)
                    .direction(direction, delta)
                    .factor(number(&case["factor"]).unwrap_or(0.1) as f32)
                    .patience(whole(&case["patience"]).unwrap_or(10))
                    .cooldown(whole(&case["cooldown"]).unwrap_or(0))
                    .min_lr(number(&case["min_lr"]).unwrap_or(0.0) as f32),
            )
        }
        "LearningRateScheduler" => {
            let rates = floats(&case["rates"]);
            fit.callback(LearningRateScheduler::new(move |epoch, rate| rates.get(epoch).copied().unwrap_or(rate)))
        }
        "CSVLogger" => {
            let logger = CsvLogger::new(place);
            fit.callback(if case["append"] == true { logger.append() } else { logger })
        }
        "TerminateOnNaN" => fit.callback(TerminateOnNan),
        "ModelCheckpoint" => {
            let mut checkpoint = ModelCheckpoint::new(place).monitor(monitor).direction(direction);
            if case["save_best_only"] == true {
                checkpoint = checkpoint.save_best_only();
            }
            if let Some(threshold) = number(&case["initial_value_threshold"]) {
                checkpoint = checkpoint.initial_value_threshold(threshold);
            }
            if let Some(steps) = case["save_freq"].as_u64() {
                checkpoint = checkpoint.save_freq(steps);
            }
            fit.callback(checkpoint)
        }
        "TensorBoard" => {
            let board = TensorBoard::new(place).histogram_freq(whole(&case["histogram_freq"]).unwrap_or(0));
            fit.callback(if let Some(steps) = case["update_freq"].as_u64() { board.update_freq(steps) } else { board })
        }
        "BackupAndRestore" => {
            let backup = BackupAndRestore::new(place);
            fit.callback(if let Some(steps) = case["save_freq"].as_u64() { backup.save_freq(steps) } else { backup })
        }
        "FailInEpoch" => {
            let at = whole(&case["epoch"]).unwrap_or(0);
            fit.callback(Lambda::new().on_epoch_begin(move |_, epoch| {
                if epoch == at { Err(Error::new(Code::BadSetting, "the case fails here")) } else { Ok(()) }
            }))
        }
        other => return Err(unknown("callback", other)),
    })
}

fn early_stopping(case: &Value, monitor: &str, direction: Direction) -> EarlyStopping {
    let mut stopping = EarlyStopping::new(monitor)
        .direction(direction)
        .patience(whole(&case["patience"]).unwrap_or(0))
        .min_delta(number(&case["min_delta"]).unwrap_or(0.0))
        .start_from_epoch(whole(&case["start_from_epoch"]).unwrap_or(0));
    if let Some(baseline) = number(&case["baseline"]) {
        stopping = stopping.baseline(baseline);
    }
    if case["restore_best_weights"] == true { stopping.restore_best_weights() } else { stopping }
}

/// A number that JSON has no word for becomes its name.
fn pairs(logs: &Logs) -> Value {
    let pair = |(name, number): (&str, f64)| {
        if number.is_finite() { json!([name, number]) } else { json!([name, number.to_string().to_lowercase()]) }
    };
    logs.iter().map(pair).collect::<Vec<_>>().into()
}

fn weight(weight: Weight) -> Value {
    let Weight { name, shape, values } = weight;
    json!({ "name": name, "shape": Shape::dims(&shape), "values": values })
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn whole(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok())
}

fn sizes(value: &Value) -> Vec<usize> {
    items(value).iter().filter_map(whole).collect()
}

fn floats(value: &Value) -> Vec<f32> {
    items(value).iter().map(|number| number.as_f64().map_or(f32::NAN, |number| number as f32)).collect()
}

fn unknown(what: &str, name: &str) -> Error {
    Error::new(Code::BadSetting, format!("the case has an unknown {what} {name:?}"))
}
