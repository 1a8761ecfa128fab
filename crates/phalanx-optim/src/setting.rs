//! The settings of every optimizer, declared once: for checking them and for sending them over the wire.

use crate::{Clip, Schedule};
use phalanx_base::{Code, Error, Result};

/// What every optimizer can have beside its own settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extras {
    pub(crate) schedule: Option<Schedule>,
    pub(crate) clip: Option<Clip>,
}

impl Extras {
    fn check(&self) -> Result<()> {
        self.schedule.map_or(Ok(()), |schedule| schedule.validate())?;
        self.clip.map_or(Ok(()), Clip::check)
    }

    pub(crate) fn to_words(self) -> impl Iterator<Item = f64> {
        let schedule = self.schedule.map(Schedule::to_words).unwrap_or_default();
        schedule.into_iter().chain(self.clip.map(Clip::to_words).into_iter().flatten())
    }

    fn decode(mut words: &[f64]) -> Result<Self> {
        let read = Self { schedule: Schedule::from_words(&mut words)?, clip: Clip::from_words(&mut words)? };
        match words {
            [] => Ok(read),
            _ => Err(Error::new(Code::BadMessage, format!("an optimizer has {} words too many", words.len()))),
        }
    }
}

/// The value of one hyper-parameter.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: f32,
    pub(crate) range: Range,
}

/// A setting's type: a number, or a flag as 0 or 1.
pub(crate) trait SettingValue {
    fn from_number(number: f32) -> Self;
}

impl SettingValue for f32 {
    fn from_number(number: f32) -> Self {
        number
    }
}

impl SettingValue for bool {
    fn from_number(number: f32) -> Self {
        number != 0.0
    }
}

/// Implements [`Settings`] for an optimizer with these fields, in the order of the wire, and its setters.
macro_rules! settings {
    (
        $optimizer:ident, $name:literal, $kind:literal;
        $($field:ident: $range:ident),*;
        $($(#[$doc:meta])* $setter:ident: $type:ty),*
    ) => {
        impl $optimizer {
            $($(#[$doc])*
            #[must_use]
            pub fn $setter(self, $setter: $type) -> Self {
                Self { $setter, ..self }
            })*

            /// Lets the learning rate follow a schedule of the global step, in place of the constant rate.
            #[must_use]
            pub fn schedule(mut self, schedule: impl Into<$crate::Schedule>) -> Self {
                let schedule = schedule.into();
                self.learning_rate = schedule.at(0);
                self.extras.schedule = Some(schedule);
                self
            }

            /// Clips gradients before they are applied.
            #[must_use]
            pub fn clip(mut self, clip: $crate::Clip) -> Self {
                self.extras.clip = Some(clip);
                self
            }
        }

        impl $crate::setting::Settings for $optimizer {
            const NAME: &'static str = $name;
            const KIND: f64 = $kind;
            const COUNT: usize = [$(stringify!($field)),*].len();

            fn settings(&self) -> Vec<$crate::setting::Setting> {
                use $crate::setting::{Range, Setting};
                vec![$(Setting { name: stringify!($field), value: self.$field.into(), range: Range::$range }),*]
            }

            fn extras(&self) -> &$crate::setting::Extras {
                &self.extras
            }

            fn with_extras(self, extras: $crate::setting::Extras) -> Self {
                Self { extras, ..self }
            }

            fn from_values(values: &[f32]) -> Self {
                let mut values = values.iter();
                $(let $field = $crate::setting::SettingValue::from_number(values.next().copied().unwrap_or_default());)*
                Self { $($field,)* extras: $crate::setting::Extras::default() }
            }
        }
    };
}
pub(crate) use settings;

/// The values a setting may take. None admits NaN or infinity.
#[derive(Clone, Copy)]
pub(crate) enum Range {
    /// Above zero.
    Positive,
    /// Zero or above.
    NotNegative,
    /// Zero or below.
    NotPositive,
    /// From zero to one, both included.
    Fraction,
    /// From zero to one, one excluded: an average that never changes is a mistake.
    Decay,
    /// False or true, as 0 or 1.
    Flag,
}

impl Range {
    fn contains(self, value: f32) -> bool {
        value.is_finite()
            && match self {
                Self::Positive => value > 0.0,
                Self::NotNegative => value >= 0.0,
                Self::NotPositive => value <= 0.0,
                Self::Fraction => (0.0..=1.0).contains(&value),
                Self::Decay => (0.0..1.0).contains(&value),
                Self::Flag => value == 0.0 || value == 1.0,
            }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Positive => "a finite number above 0",
            Self::NotNegative => "a finite number, 0 or above",
            Self::NotPositive => "a finite number, 0 or below",
            Self::Fraction => "from 0 to 1",
            Self::Decay => "from 0 to below 1",
            Self::Flag => "0 or 1",
        }
    }
}

/// An optimizer's settings as a list.
pub(crate) trait Settings: Sized {
    /// The optimizer's name, as a user writes it.
    const NAME: &'static str;
    /// The number of the optimizer in [`Optimizer::to_words`](crate::Optimizer::to_words); never changes.
    const KIND: f64;
    /// How many settings [`settings`](Settings::settings) lists.
    const COUNT: usize;

    /// Returns every setting, in the order of the wire. That order never changes; a new setting goes to the end.
    fn settings(&self) -> Vec<Setting>;

    /// Returns its schedule and clipping.
    fn extras(&self) -> &Extras;

    /// Replaces its schedule and clipping.
    fn with_extras(self, extras: Extras) -> Self;

    /// Creates the optimizer with these settings; `values` holds [`COUNT`](Settings::COUNT) numbers.
    fn from_values(values: &[f32]) -> Self;

    /// Refuses a setting that is out of its range.
    fn check(&self) -> Result<()> {
        self.extras().check()?;
        // A scheduled rate changes: each rate that the schedule reaches must be in range.
        let lowest = self.extras().schedule.map(|schedule| schedule.lowest());
        let value = |s: &Setting| lowest.filter(|_| s.name == "learning_rate").unwrap_or(s.value);
        let found = self.settings().into_iter().map(|s| Setting { value: value(&s), ..s });
        match { found }.find(|s| !s.range.contains(s.value)) {
            None => Ok(()),
            Some(Setting { name, value, range }) => {
                Err(Error::new(Code::BadSetting, format!("optimizer {}: {name} is {value}", Self::NAME))
                    .help(format!("set {name} to a value that is {}", range.text())))
            }
        }
    }

    /// Reads and checks an optimizer whose settings came over the wire.
    fn decode(words: &[f64]) -> Result<Self> {
        let Some((words, extras)) = words.split_at_checked(Self::COUNT) else {
            let what =
                format!("optimizer {} has {} settings, the message has {}", Self::NAME, Self::COUNT, words.len());
            return Err(Error::new(Code::BadMessage, what));
        };
        // Settings are f32 on both sides, so this narrows exactly; a number that is too large becomes infinite and is refused.
        let values: Vec<f32> = words.iter().map(|&word| word as f32).collect();
        // `from_values` turns a flag into a bool, which hides a number out of range: the values must be unchanged.
        let decoded = Self::from_values(&values).with_extras(Extras::decode(extras)?);
        let kept = decoded.settings().iter().zip(&values).all(|(setting, value)| setting.value == *value);
        decoded.check()?;
        if !kept {
            let what = format!("optimizer {}: a flag is neither 0 nor 1 in {words:?}", Self::NAME);
            return Err(Error::new(Code::BadMessage, what));
        }
        Ok(decoded)
    }
}
