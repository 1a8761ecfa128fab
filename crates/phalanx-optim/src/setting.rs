//! The settings of every optimizer, declared once: for checking them and for sending them over the wire.

use phalanx_base::{Code, Error, Result};

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
        }

        impl $crate::setting::Settings for $optimizer {
            const NAME: &'static str = $name;
            const KIND: f64 = $kind;
            const COUNT: usize = [$(stringify!($field)),*].len();

            fn settings(&self) -> Vec<$crate::setting::Setting> {
                use $crate::setting::{Range, Setting};
                vec![$(Setting { name: stringify!($field), value: self.$field.into(), range: Range::$range }),*]
            }

            fn from_values(values: &[f32]) -> Self {
                let mut values = values.iter();
                $(let $field = $crate::setting::SettingValue::from_number(values.next().copied().unwrap_or_default());)*
                Self { $($field),* }
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

    /// Creates the optimizer with these settings; `values` holds [`COUNT`](Settings::COUNT) numbers.
    fn from_values(values: &[f32]) -> Self;

    /// Refuses a setting that is out of its range.
    fn check(&self) -> Result<()> {
        match self.settings().into_iter().find(|s| !s.range.contains(s.value)) {
            None => Ok(()),
            Some(Setting { name, value, range }) => {
                Err(Error::new(Code::BadSetting, format!("optimizer {}: {name} is {value}", Self::NAME))
                    .help(format!("set {name} to a value that is {}", range.text())))
            }
        }
    }

    /// Reads and checks an optimizer whose settings came over the wire.
    fn decode(words: &[f64]) -> Result<Self> {
        if words.len() != Self::COUNT {
            let what =
                format!("optimizer {} has {} settings, the message has {}", Self::NAME, Self::COUNT, words.len());
            return Err(Error::new(Code::BadMessage, what));
        }
        // Settings are f32 on both sides, so this narrows exactly; a number that is too large becomes infinite and is refused.
        let values: Vec<f32> = words.iter().map(|&word| word as f32).collect();
        // `from_values` turns a flag into a bool, which hides a number out of range: the values must be unchanged.
        let decoded = Self::from_values(&values);
        let kept = decoded.settings().iter().zip(&values).all(|(setting, value)| setting.value == *value);
        decoded.check()?;
        if !kept {
            let what = format!("optimizer {}: a flag is neither 0 nor 1 in {words:?}", Self::NAME);
            return Err(Error::new(Code::BadMessage, what));
        }
        Ok(decoded)
    }
}
