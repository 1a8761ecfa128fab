//! Optimizers by name, with their settings.

use crate::schema::{OPTIMIZERS, SCHEDULES};
use crate::section::Section;
use crate::source::meant;
use crate::tree::{Node, TomlValue};
use phalanx_base::Result;
use phalanx_optim::{Adagrad, Adam, AdamW, Clip, Ftrl, Momentum, Optimizer, RmsProp, Sgd};
use phalanx_optim::{CosineDecay, ExponentialDecay, PiecewiseConstantDecay, PolynomialDecay, Schedule};

/// Reads the optimizer of a key, which is a name or a table.
pub(crate) fn optimizer(section: &Section<'_>, key: &'static str) -> Result<Option<Optimizer>> {
    let Some(node) = section.node(key) else { return Ok(None) };
    let source = section.source;
    let made = match &node.value {
        TomlValue::Text(name) => Optimizer::parse(name, rate_of(&name.to_ascii_lowercase())).map_err(|_| {
            let what = format!("there is no optimizer \"{name}\"");
            section.wrong(&node.span, what, "no such optimizer").help(meant(name, Optimizer::NAMES.iter().copied()))
        })?,
        TomlValue::Table(_) => table(section, key, node)?,
        _ => return Err(section.not(key, node, "a name, or a table { name = … }")),
    };
    let checked = made.validate().map(|()| made);
    checked.map(Some).map_err(|error| source.point_with(error, Some(&node.span), "out of range", "see the range above"))
}

/// Keras' default learning rates.
fn rate_of(name: &str) -> f32 {
    if matches!(name, "sgd" | "momentum") { 0.01 } else { 0.001 }
}

fn table(section: &Section<'_>, key: &'static str, node: &Node) -> Result<Optimizer> {
    let (name, own) = Section::of_kind(section.source, &format!("`{key}`"), "name", OPTIMIZERS, node)?;
    own.node("name");
    let number = |key, default: f32| own.number(key).map(|found| found.map_or(default, |at| at.value as f32));
    let boolean = |key| own.boolean(key).map(|found| found.unwrap_or(false));
    let schedule = own.node("learning_rate").map(|node| rate_or_schedule(&own, node)).transpose()?;
    let rate = schedule.map_or(rate_of(name), |schedule| schedule.at(0));
    let made: Optimizer = match name {
        "sgd" => Sgd::new(rate).momentum(number("momentum", 0.0)?).nesterov(boolean("nesterov")?).into(),
        "momentum" => Momentum::new(rate, number("momentum", 0.9)?).nesterov(boolean("nesterov")?).into(),
        "adagrad" => Adagrad::new(rate)
            .initial_accumulator_value(number("initial_accumulator_value", 0.1)?)
            .epsilon(number("epsilon", 1e-7)?)
            .into(),
        "rmsprop" => RmsProp::new(rate)
            .rho(number("rho", 0.9)?)
            .momentum(number("momentum", 0.0)?)
            .epsilon(number("epsilon", 1e-7)?)
            .centered(boolean("centered")?)
            .into(),
        "adam" => Adam::new(rate)
            .beta_1(number("beta_1", 0.9)?)
            .beta_2(number("beta_2", 0.999)?)
            .epsilon(number("epsilon", 1e-7)?)
            .amsgrad(boolean("amsgrad")?)
            .lazy(own.boolean("lazy")?.unwrap_or(true))
            .into(),
        "adamw" => AdamW::new(rate)
            .weight_decay(number("weight_decay", 0.004)?)
            .beta_1(number("beta_1", 0.9)?)
            .beta_2(number("beta_2", 0.999)?)
            .epsilon(number("epsilon", 1e-7)?)
            .into(),
        _ => Ftrl::new(rate)
            .learning_rate_power(number("learning_rate_power", -0.5)?)
            .initial_accumulator_value(number("initial_accumulator_value", 0.1)?)
            .l1(number("l1", 0.0)?)
            .l2(number("l2", 0.0)?)
            .l2_shrinkage(number("l2_shrinkage", 0.0)?)
            .beta(number("beta", 0.0)?)
            .into(),
    };
    // A constant is a plain rate.
    let made = match schedule {
        Some(schedule) if schedule != Schedule::from(rate) => made.with_schedule(schedule),
        _ => made,
    };
    let made = clip(&own)?.map_or(made, |clip| made.with_clip(clip));
    own.close();
    Ok(made)
}

fn rate_or_schedule(optimizer: &Section<'_>, node: &Node) -> Result<Schedule> {
    match &node.value {
        TomlValue::Table(_) => schedule(optimizer, node),
        TomlValue::Number(_) | TomlValue::Integer(_) => {
            Ok((optimizer.as_number("learning_rate", node)?.value as f32).into())
        }
        _ => Err(optimizer.not("learning_rate", node, "a number, or a table { schedule = … }")),
    }
}

fn schedule(optimizer: &Section<'_>, node: &Node) -> Result<Schedule> {
    let source = optimizer.source;
    let (name, own) = Section::of_kind(source, "`learning_rate`", "schedule", SCHEDULES, node)?;
    own.node("schedule");
    let number = |key, default: f32| own.number(key).map(|found| found.map_or(default, |at| at.value as f32));
    let need = |key| own.number(key)?.map(|at| at.value as f32).ok_or_else(|| own.missing(key));
    let steps = || own.need_count("decay_steps", 1).map(|steps| steps.value);
    let flag = |key| own.boolean(key).map(|found| found.unwrap_or(false));
    let made: Schedule = match name {
        "constant" => need("initial")?.into(),
        "exponential" => {
            ExponentialDecay::new(need("initial")?, steps()?, need("decay_rate")?).staircase(flag("staircase")?).into()
        }
        "cosine" => CosineDecay::new(need("initial")?, steps()?).alpha(number("alpha", 0.0)?).into(),
        "polynomial" => PolynomialDecay::new(need("initial")?, steps()?)
            .end_learning_rate(number("end", 0.0001)?)
            .power(number("power", 1.0)?)
            .cycle(flag("cycle")?)
            .into(),
        _ => {
            let boundaries = own.counts("boundaries", 0)?.ok_or_else(|| own.missing("boundaries"))?.value;
            let boundaries: Vec<u64> = boundaries.into_iter().map(|step| step as u64).collect();
            let values = own.numbers("values")?.ok_or_else(|| own.missing("values"))?.value;
            let values: Vec<f32> = values.iter().map(|value| value.value as f32).collect();
            let made = PiecewiseConstantDecay::new(&boundaries, &values);
            let at = own.span_of("boundaries");
            made.map_err(|error| source.point_with(error, Some(&at), "do not fit", "see above"))?.into()
        }
    };
    let warmup = (own.plain_count("warmup_steps", 0)?.unwrap_or(0), number("warmup_from", 0.0)?);
    own.close();
    Ok(made.warmup_from(warmup.0, warmup.1))
}

/// Reads the clipping of gradients; there can be only one kind of it.
fn clip(own: &Section<'_>) -> Result<Option<Clip>> {
    let kinds = [
        ("clip_norm", Clip::Norm as fn(f32) -> Clip),
        ("global_clip_norm", Clip::GlobalNorm),
        ("clip_value", Clip::Value),
    ];
    let mut found: Option<(&'static str, Clip)> = None;
    for (key, kind) in kinds {
        let Some(number) = own.number(key)? else { continue };
        if let Some((other, _)) = found {
            let error =
                own.wrong(&own.span_of(key), format!("the optimizer has both `{other}` and `{key}`"), "a second");
            return Err(error.help("leave one of them out: gradients are clipped in one way"));
        }
        found = Some((key, kind(number.value as f32)));
    }
    Ok(found.map(|(_, clip)| clip))
}
