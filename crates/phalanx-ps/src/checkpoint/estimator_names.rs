//! Where a checkpoint of TensorFlow's Estimator keeps what this crate keeps under its own names. Pure.
//!
//! Variables have the same names on both sides. Slots have three forms in TensorFlow:
//!
//! | written by | slot of `V` |
//! | --- | --- |
//! | `tf.compat.v1` optimizers | `V/Adagrad`, which are also our names |
//! | the same, where the variable is partitioned, also into one part | `V/t_0/Adagrad`, `V/part_0/Adagrad`, … |
//! | Keras optimizers | `training/Adagrad/V/accumulator`; `training/Adagrad_1/…` for a second optimizer of that name |

use super::names::{OWN, part_name, table_keys};
use phalanx_base::Result;
use phalanx_formats::bundle::{BundleIndex, BundleReader, DataSource};
use phalanx_optim::Optimizer;

/// How many optimizers of one name a Keras model is searched for.
const OPTIMIZERS: usize = 8;

/// Powers of Adam's betas below this have lost their digits.
const SMALLEST_POWER: f64 = 1e-30;

/// The tensors that hold the values or a slot of a variable.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Located {
    /// One name, or one for each part of a partitioned variable, in order.
    pub(crate) names: Vec<String>,
    /// The factor from the stored numbers to ours.
    pub(crate) scale: f32,
}

impl Located {
    fn one(name: String) -> Self {
        Self { names: vec![name], scale: 1.0 }
    }
}

/// Locates the values (`part` 0) or a slot (from 1) of a variable or of a table that is stored as a variable.
pub(crate) fn locate(index: &BundleIndex, optimizer: &Optimizer, of: &str, part: usize) -> Option<Located> {
    let known = |name: &String| index.tensors().contains_key(name);
    let own = part_name(optimizer, of, part);
    if part == 0 || (known(&own) && is_own(index)) {
        return known(&own).then(|| Located::one(own));
    }
    let suffix = own.strip_prefix(of).unwrap_or(&own);
    let parts = |kind: &str| -> Vec<String> {
        (0..).map(|number| format!("{of}/{kind}_{number}{suffix}")).take_while(known).collect()
    };
    let names = [vec![own.clone()].into_iter().filter(known).collect(), parts("t"), parts("part")];
    if let Some(names) = names.into_iter().find(|names| !names.is_empty()) {
        // `MomentumOptimizer` keeps a sum of gradients, Keras' SGD the last change.
        let scale = if matches!(optimizer, Optimizer::Sgd(_)) { -optimizer.learning_rate() } else { 1.0 };
        return Some(Located { names, scale });
    }
    let slot = optimizer.slots().get(part - 1)?.name;
    let prefix = keras_scope(index, optimizer, of)?;
    let name = Some(format!("{prefix}/{of}/{slot}")).filter(known)?;
    let scale = if matches!(optimizer, Optimizer::Momentum(_)) { -1.0 / optimizer.learning_rate() } else { 1.0 };
    Some(Located { names: vec![name], scale })
}

/// Returns whether Phalanx wrote the checkpoint.
pub(crate) fn is_own(index: &BundleIndex) -> bool {
    index.tensors().range(OWN.to_owned()..).next().is_some_and(|(name, _)| name.starts_with(OWN))
}

/// Returns the scope of the Keras optimizer that updates a variable, such as `training/Adam_1`.
fn keras_scope(index: &BundleIndex, optimizer: &Optimizer, of: &str) -> Option<String> {
    let slot = optimizer.slots().first()?.name;
    let scope = format!("training/{}", optimizer.keras_name()?);
    let scopes = (0..OPTIMIZERS).map(|n| if n == 0 { scope.clone() } else { format!("{scope}_{n}") });
    scopes.into_iter().find(|scope| index.tensors().contains_key(&format!("{scope}/{of}/{slot}")))
}

/// Returns whether a table is stored as a variable with one row for each id from 0.
pub(crate) fn is_dense_table(index: &BundleIndex, table: &str) -> bool {
    !index.tensors().contains_key(&table_keys(table)) && index.tensors().contains_key(table)
}

/// Returns whether a tensor belongs to TensorFlow's optimizers: settings, counters, and powers of Adam's betas.
pub(super) fn is_optimizers_own(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    name.starts_with("training/") || last.starts_with("beta1_power") || last.starts_with("beta2_power")
}

/// Returns how many updates a variable of an Estimator's checkpoint has had, which only Adam needs to know: from the counter
/// of its Keras optimizer, or from the powers of its betas, of which a second optimizer's end in `_1`. Without either it
/// is the global step.
///
/// # Errors
/// When a counter cannot be read.
pub(super) fn updates<S: DataSource>(
    reader: &BundleReader<S>,
    optimizer: &Optimizer,
    of: &str,
    steps: u64,
) -> Result<u64> {
    let Optimizer::Adam(adam) = optimizer else { return Ok(steps) };
    let tensors = reader.index().tensors();
    if let Some(scope) = keras_scope(reader.index(), optimizer, of) {
        let counter = format!("{scope}/iter");
        return if tensors.contains_key(&counter) { count_in(reader, &counter) } else { Ok(steps) };
    }
    for (power, beta) in [("beta1_power", adam.betas().0), ("beta2_power", adam.betas().1)] {
        let ends = |wanted: &str| tensors.keys().find(|name| name.rsplit('/').next() == Some(wanted));
        let second = ends(&format!("{power}_1")).filter(|_| of.starts_with("linear/"));
        let Some(name) = second.or_else(|| ends(power)) else { continue };
        let power = reader.read(name)?.f32s()?.first().copied().map_or(0.0, f64::from);
        if power > SMALLEST_POWER && power < 1.0 && beta > 0.0 {
            // The power is one step ahead of the updates.
            return Ok(((power.ln() / f64::from(beta).ln()).round() - 1.0).max(0.0) as u64);
        }
    }
    Ok(steps)
}

fn count_in<S: DataSource>(reader: &BundleReader<S>, name: &str) -> Result<u64> {
    Ok(reader.read(name)?.i64s()?.first().map_or(0, |&count| count.max(0).cast_unsigned()))
}

/// Returns the learning rate that an Estimator's checkpoint recorded for a variable's optimizer, where it did.
///
/// # Errors
/// When it cannot be read.
pub(super) fn recorded_rate<S: DataSource>(
    reader: &BundleReader<S>,
    optimizer: &Optimizer,
    of: &str,
) -> Result<Option<f32>> {
    let Some(scope) = keras_scope(reader.index(), optimizer, of) else { return Ok(None) };
    let name = format!("{scope}/learning_rate");
    if !reader.index().tensors().contains_key(&name) {
        return Ok(None);
    }
    Ok(reader.read(&name)?.f32s()?.first().copied())
}

#[cfg(test)]
mod tests {
    use super::super::names::GLOBAL_STEP;
    use super::*;
    use phalanx_base::Shape;
    use phalanx_formats::bundle::BundleWriter;
    use phalanx_optim::{Adagrad, Adam, Momentum, Sgd};

    fn reader(floats: &[(&str, f32)], step: i64) -> BundleReader<Vec<Vec<u8>>> {
        let scalar = Shape::new([]).unwrap();
        let mut bundle = BundleWriter::new(Vec::new());
        for (name, number) in floats {
            bundle.add_f32s(name, &scalar, &[*number]).unwrap();
        }
        bundle.add_i64s(GLOBAL_STEP, &scalar, &[step]).unwrap();
        let (file, index) = bundle.finish().unwrap();
        BundleReader::new(index, vec![file]).unwrap()
    }

    #[test]
    fn slots_are_found_under_every_name_that_tensorflow_gives_them() {
        let found = |tensors: &[(&str, f32)], optimizer: Optimizer, part| {
            locate(reader(tensors, 3).index(), &optimizer, "a/w", part).map(|found| (found.names, found.scale))
        };
        let one = |name: &str, scale| Some((vec![name.to_owned()], scale));
        let adagrad: Optimizer = Adagrad::new(0.1).into();
        assert_eq!(found(&[("a/w/Adagrad", 1.0)], adagrad, 1), one("a/w/Adagrad", 1.0));
        let parts = [("a/w/t_0/Adagrad", 1.0), ("a/w/t_1/Adagrad", 1.0)];
        let names = vec!["a/w/t_0/Adagrad".to_owned(), "a/w/t_1/Adagrad".to_owned()];
        assert_eq!(found(&parts, adagrad, 1), Some((names, 1.0)));
        let keras = "training/Adagrad_1/a/w/accumulator";
        assert_eq!(found(&[(keras, 1.0)], adagrad, 1), one(keras, 1.0));
        assert_eq!(found(&[("a/w/part_0/Adam_1", 1.0)], Adam::new(0.1).into(), 2), one("a/w/part_0/Adam_1", 1.0));
        assert_eq!(found(&[("a/w", 1.0)], adagrad, 1), None);
        // The two forms of momentum are converted into each other, except in a checkpoint of ours.
        let (sgd, momentum) = (Sgd::new(0.5).momentum(0.9), Momentum::new(0.5, 0.9));
        assert_eq!(found(&[("a/w/Momentum", 1.0)], sgd.into(), 1), one("a/w/Momentum", -0.5));
        let keras = "training/SGD/a/w/momentum";
        assert_eq!(found(&[(keras, 1.0)], sgd.into(), 1), one(keras, 1.0));
        assert_eq!(found(&[(keras, 1.0)], momentum.into(), 1), one(keras, -2.0));
        let own = [("_phalanx/x", 1.0), ("a/w/Momentum", 1.0)];
        assert_eq!(found(&own, sgd.into(), 1), one("a/w/Momentum", 1.0));
    }

    #[test]
    fn adams_updates_come_from_its_powers_or_from_keras_counter() {
        let adam: Optimizer = Adam::new(0.1).into();
        let count = |tensors: &[(&str, f32)], of: &str| updates(&reader(tensors, 77), &adam, of, 77).unwrap();
        let power = |beta: f64, updates: i32| beta.powi(updates + 1) as f32;
        let powers = [("head/beta1_power", power(0.9, 40)), ("head/beta2_power", power(0.999, 40))];
        assert_eq!(count(&powers, "dnn/w"), 40);
        // The first power is 0 by then.
        let late = [("head/beta1_power", 0.0), ("head/beta2_power", power(0.999, 3000))];
        assert_eq!(count(&late, "dnn/w"), 3000);
        let two = [("head/beta1_power", power(0.9, 40)), ("head/beta1_power_1", power(0.9, 30))];
        assert_eq!((count(&two, "dnn/w"), count(&two, "linear/w")), (40, 30));
        assert_eq!(count(&[("training/Adam/dnn/w/m", 0.0)], "dnn/w"), 77);
        assert_eq!(count(&[], "dnn/w"), 77);
    }
}
