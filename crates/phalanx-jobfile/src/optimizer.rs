//! Optimizers by name, with their settings.

use crate::schema::OPTIMIZERS;
use crate::section::Section;
use crate::source::meant;
use crate::tree::{Node, TomlValue};
use phalanx_base::Result;
use phalanx_optim::{Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, RmsProp, Sgd};

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
    let rate = number("learning_rate", rate_of(name))?;
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
    own.close();
    Ok(made)
}
