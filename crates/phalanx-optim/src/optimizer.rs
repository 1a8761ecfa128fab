//! The choice of an optimizer, with its slots and its encoding.

use phalanx_base::{Code, Error, Result, nearest};

use crate::setting::{Extras, Settings};
use crate::{Adagrad, Adam, AdamW, Clip, Ftrl, Momentum, RmsProp, Rule, Schedule, Sgd};

/// One array of optimizer state beside a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The name TensorFlow's checkpoints use for it.
    pub name: &'static str,
}

impl Slot {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name }
    }
}

/// The optimizer of a variable or table: plain numbers, cheap to copy, the same on every task.
///
/// ```
/// use phalanx_optim::{Adam, Optimizer};
/// let optimizer: Optimizer = Adam::new(0.001).beta_1(0.8).into();
/// assert_eq!(optimizer.name(), "adam");
/// assert_eq!(optimizer.slots().iter().map(|slot| slot.name).collect::<Vec<_>>(), ["m", "v"]);
/// assert_eq!(Optimizer::from_words(&optimizer.to_words())?, optimizer);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Optimizer {
    /// Gradient descent, optionally with momentum, as in Keras.
    Sgd(Sgd),
    /// Momentum as in TensorFlow 1's `MomentumOptimizer`.
    Momentum(Momentum),
    /// Adagrad.
    Adagrad(Adagrad),
    /// RMSprop.
    RmsProp(RmsProp),
    /// Adam.
    Adam(Adam),
    /// Adam with decoupled weight decay.
    AdamW(AdamW),
    /// Follow the regularized leader.
    Ftrl(Ftrl),
}

/// Runs `$body` with `$inner` bound to the chosen optimizer, whichever it is.
macro_rules! each {
    ($optimizer:expr, $inner:ident => $body:expr) => {
        match $optimizer {
            Optimizer::Sgd($inner) => $body,
            Optimizer::Momentum($inner) => $body,
            Optimizer::Adagrad($inner) => $body,
            Optimizer::RmsProp($inner) => $body,
            Optimizer::Adam($inner) => $body,
            Optimizer::AdamW($inner) => $body,
            Optimizer::Ftrl($inner) => $body,
        }
    };
}

macro_rules! optimizers {
    ($($name:ident),*) => {
        $(impl From<$name> for Optimizer {
            fn from(inner: $name) -> Self {
                Self::$name(inner)
            }
        })*

        impl Optimizer {
            /// Every name that [`parse`](Self::parse) knows.
            pub const NAMES: &'static [&'static str] = &[$($name::NAME),*];

            fn decode(kind: f64, settings: &[f64]) -> Result<Self> {
                // Compared as it came: a kind that is not a whole number is none of these.
                $(if kind == $name::KIND {
                    return $name::decode(settings).map(Self::$name);
                })*
                Err(Error::new(Code::BadMessage, format!("there is no optimizer of kind {kind}")))
            }
        }
    };
}
optimizers!(Sgd, Momentum, Adagrad, RmsProp, Adam, AdamW, Ftrl);

/// Returns the name and kind of an optimizer, from its type.
fn type_of<S: Settings>(_: &S) -> (&'static str, f64) {
    (S::NAME, S::KIND)
}

impl Optimizer {
    /// Returns the optimizer of that name with TensorFlow's defaults for everything but the learning rate. Upper and lower
    /// case are the same: Estimator's `"SGD"` and `"RMSProp"` are understood.
    ///
    /// ```
    /// use phalanx_optim::{Adagrad, Optimizer};
    /// assert_eq!(Optimizer::parse("Adagrad", 0.05)?, Adagrad::new(0.05).into());
    /// let error = Optimizer::parse("adagard", 0.05).unwrap_err();
    /// assert_eq!(error.next(), Some("did you mean adagrad?"));
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such optimizer, or the learning rate is out of range.
    pub fn parse(name: &str, learning_rate: f32) -> Result<Self> {
        let optimizer: Self = match name.to_ascii_lowercase().as_str() {
            Sgd::NAME => Sgd::new(learning_rate).into(),
            Momentum::NAME => Momentum::new(learning_rate, 0.9).into(),
            Adagrad::NAME => Adagrad::new(learning_rate).into(),
            RmsProp::NAME => RmsProp::new(learning_rate).into(),
            Adam::NAME => Adam::new(learning_rate).into(),
            AdamW::NAME => AdamW::new(learning_rate).into(),
            Ftrl::NAME => Ftrl::new(learning_rate).into(),
            _ => {
                let help = match nearest(name, Self::NAMES.iter().copied()) {
                    Some(near) => format!("did you mean {near}?"),
                    None => format!("choose one of {}", Self::NAMES.join(", ")),
                };
                return Err(Error::new(Code::BadSetting, format!("there is no optimizer \"{name}\"")).help(help));
            }
        };
        optimizer.validate()?;
        Ok(optimizer)
    }

    /// Returns the optimizer's name in lower case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        each!(self, inner => type_of(inner)).0
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`Code::BadSetting`] for the first setting that is out of range; the help gives the range.
    pub fn validate(&self) -> Result<()> {
        each!(self, inner => inner.check())
    }

    /// Returns the learning rate; that of the first step if it has a schedule.
    #[must_use]
    pub fn learning_rate(&self) -> f32 {
        each!(self, inner => inner.learning_rate)
    }

    /// Returns the optimizer with a constant learning rate.
    #[must_use]
    pub fn with_learning_rate(mut self, learning_rate: f32) -> Self {
        each!(&mut self, inner => {
            inner.learning_rate = learning_rate;
            inner.extras.schedule = None;
        });
        self
    }

    /// Returns the schedule of the learning rate, if it is not constant.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        each!(self, inner => inner.extras.schedule)
    }

    /// Returns the optimizer with a schedule of the learning rate.
    #[must_use]
    pub fn with_schedule(mut self, schedule: impl Into<Schedule>) -> Self {
        let schedule = schedule.into();
        each!(&mut self, inner => *inner = inner.schedule(schedule));
        self
    }

    /// Returns how gradients are clipped, if they are. Whoever computes gradients applies it: servers do not.
    #[must_use]
    pub fn clip(&self) -> Option<Clip> {
        each!(self, inner => inner.extras.clip)
    }

    /// Returns the optimizer with clipping.
    #[must_use]
    pub fn with_clip(mut self, clip: Clip) -> Self {
        each!(&mut self, inner => inner.extras.clip = Some(clip));
        self
    }

    /// Returns whether rows without a gradient stay as they are: a gradient of zero changes nothing, or Adam is
    /// [lazy](Adam::lazy). Only then can a step do without the rows that its batch does not have.
    ///
    /// ```
    /// use phalanx_optim::{Adam, Optimizer, Sgd};
    /// assert!(Optimizer::from(Sgd::new(0.1)).leaves_rows_alone());
    /// assert!(!Optimizer::from(Sgd::new(0.1).momentum(0.9)).leaves_rows_alone());
    /// assert!(!Optimizer::from(Adam::new(0.1).lazy(false)).leaves_rows_alone());
    /// ```
    #[must_use]
    pub fn leaves_rows_alone(&self) -> bool {
        match self {
            Self::Sgd(_) => self.slot_count() == 0,
            Self::Adagrad(_) => true,
            Self::Adam(adam) => adam.is_lazy(),
            Self::Momentum(_) | Self::RmsProp(_) | Self::AdamW(_) | Self::Ftrl(_) => false,
        }
    }

    /// Returns the slots of each value, in the order of their layout.
    #[must_use]
    pub fn slots(&self) -> &'static [Slot] {
        each!(self, inner => inner.slots())
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        self.slots().len()
    }

    /// Returns the name of a slot of the variable or table `of` in a checkpoint, as TensorFlow's `tf.train` optimizers have it.
    ///
    /// ```
    /// use phalanx_optim::{Adam, Optimizer};
    /// let optimizer: Optimizer = Adam::new(0.001).into();
    /// assert_eq!(optimizer.slot_in_checkpoint("dense/kernel", 1), "dense/kernel/Adam_1");
    /// ```
    #[must_use]
    pub fn slot_in_checkpoint(&self, of: &str, slot: usize) -> String {
        // Numbered in the order in which TensorFlow creates them, which for RMSprop differs from the layout.
        let number = match (self, self.slots().get(slot).map(|slot| slot.name)) {
            (Self::RmsProp(_), Some("mg")) => 1,
            (Self::RmsProp(_), Some("momentum")) if self.slots().iter().any(|slot| slot.name == "mg") => 2,
            _ => slot,
        };
        let name = match self {
            Self::Sgd(_) | Self::Momentum(_) => "Momentum",
            Self::Adagrad(_) => "Adagrad",
            Self::RmsProp(_) => "RMSProp",
            Self::Adam(_) => "Adam",
            Self::AdamW(_) => "AdamW",
            Self::Ftrl(_) => "Ftrl",
        };
        if number == 0 { format!("{of}/{name}") } else { format!("{of}/{name}_{number}") }
    }

    /// Returns the name of the optimizer in checkpoints of Keras models; its slots there have the names of [`Self::slots`].
    /// AdamW has none, since TensorFlow's Estimator cannot train with it.
    #[must_use]
    pub fn keras_name(&self) -> Option<&'static str> {
        match self {
            Self::Sgd(_) | Self::Momentum(_) => Some("SGD"),
            Self::Adagrad(_) => Some("Adagrad"),
            Self::RmsProp(_) => Some("RMSprop"),
            Self::Adam(_) => Some("Adam"),
            Self::AdamW(_) => None,
            Self::Ftrl(_) => Some("Ftrl"),
        }
    }

    /// Returns every setting by the name that Keras gives it, as its checkpoints have them.
    ///
    /// ```
    /// use phalanx_optim::{Adagrad, Optimizer};
    /// assert_eq!(Optimizer::from(Adagrad::new(0.5)).keras_settings(), [("learning_rate", 0.5), ("decay", 0.0)]);
    /// ```
    #[must_use]
    pub fn keras_settings(&self) -> Vec<(&'static str, f32)> {
        let all = each!(self, inner => inner.settings());
        let of = |name: &str| all.iter().find(|setting| setting.name == name).map_or(0.0, |setting| setting.value);
        let others: &[(&str, &str)] = match self {
            Self::Sgd(_) | Self::Momentum(_) => &[("momentum", "momentum")],
            Self::Adagrad(_) | Self::AdamW(_) => &[],
            Self::RmsProp(_) => &[("rho", "rho"), ("momentum", "momentum")],
            Self::Adam(_) => &[("beta_1", "beta_1"), ("beta_2", "beta_2")],
            Self::Ftrl(_) => &[
                ("learning_rate_power", "learning_rate_power"),
                ("l1_regularization_strength", "l1"),
                ("l2_regularization_strength", "l2"),
                ("beta", "beta"),
            ],
        };
        let others = others.iter().map(|&(name, own)| (name, of(own)));
        [("learning_rate", self.learning_rate()), ("decay", 0.0)].into_iter().chain(others).collect()
    }

    /// Returns the value of every element of that slot before the first update.
    #[must_use]
    pub fn slot_init(&self, slot: usize) -> f32 {
        match (self, slot) {
            (Self::Adagrad(inner), 0) => inner.initial_accumulator_value,
            (Self::Ftrl(inner), 0) => inner.initial_accumulator_value,
            _ => 0.0,
        }
    }

    /// Fills the slots of a buffer laid out as `[value][slot 0][slot 1]…`, as [`Rule::apply`] takes it; the values
    /// are kept.
    pub fn init_slots(&self, values_and_slots: &mut [f32]) {
        let part = values_and_slots.len() / (1 + self.slot_count());
        for slot in 0..self.slot_count() {
            values_and_slots[(slot + 1) * part..][..part].fill(self.slot_init(slot));
        }
    }

    /// Encodes the optimizer as numbers for the wire: its kind, its settings, then schedule and clipping if it has them. A
    /// published encoding never changes.
    #[must_use]
    pub fn to_words(&self) -> Vec<f64> {
        let settings = each!(self, inner => inner.settings());
        let kind = each!(self, inner => type_of(inner)).1;
        let extras = each!(self, inner => inner.extras);
        let settings = settings.iter().map(|setting| f64::from(setting.value));
        std::iter::once(kind).chain(settings).chain(extras.to_words()).collect()
    }

    /// Decodes what [`to_words`](Self::to_words) encoded.
    ///
    /// # Errors
    /// When the words name no optimizer this build knows, are too few or too many, or a setting is out of range.
    pub fn from_words(words: &[f64]) -> Result<Self> {
        let Some((&kind, settings)) = words.split_first() else {
            return Err(Error::new(Code::BadMessage, "an optimizer is missing: no words"));
        };
        Self::decode(kind, settings)
    }

    /// Returns the rule of the variable's `step`-th update, counted from 1. Adam and AdamW use the number to correct their
    /// averages for having started at zero, and a schedule's rate is that of `step - 1`. A step of 0 counts as 1.
    #[must_use]
    pub fn at_step(&self, step: u64) -> Rule {
        let optimizer = match self.schedule() {
            Some(schedule) => self.with_learning_rate(schedule.at(step.saturating_sub(1))),
            None => *self,
        };
        Rule::new(each!(&optimizer, inner => inner.at_step(step)))
    }
}

/// The name and every setting, for messages and logs.
impl std::fmt::Display for Optimizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}(", self.name())?;
        for (i, setting) in each!(self, inner => inner.settings()).iter().enumerate() {
            write!(f, "{}{} {}", if i == 0 { "" } else { ", " }, setting.name, setting.value)?;
        }
        let Extras { schedule, clip } = each!(self, inner => inner.extras);
        if let Some(schedule) = schedule {
            write!(f, ", schedule {schedule}")?;
        }
        if let Some((name, value)) = clip.map(Clip::parts) {
            write!(f, ", {name} {value}")?;
        }
        f.write_str(")")
    }
}
