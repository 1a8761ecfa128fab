//! What every optimizer says about its settings: once, for checking them and for carrying them over the wire.

use phalanx_base::{Code, Error, Result};

/// One hyper-parameter as it is set.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) value: f32,
    pub(crate) range: Range,
}

impl Setting {
    pub(crate) fn new(name: &'static str, value: f32, range: Range) -> Self {
        Self { name, value, range }
    }

    pub(crate) fn flag(name: &'static str, value: bool) -> Self {
        Self::new(name, f32::from(value), Range::Flag)
    }
}

/// Those of the two descents that keep a share of the last step.
pub(crate) fn with_momentum(learning_rate: f32, momentum: f32, nesterov: bool) -> Vec<Setting> {
    vec![
        Setting::new("learning_rate", learning_rate, Range::NotNegative),
        Setting::new("momentum", momentum, Range::Fraction),
        Setting::flag("nesterov", nesterov),
    ]
}

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
    /// From zero to one, one excluded: an average that never takes in anything new is a mistake.
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
    /// How many settings [`settings`](Settings::settings) lists.
    const COUNT: usize;

    /// Every setting, in the order of the wire. That order never changes; a new setting goes to the end.
    fn settings(&self) -> Vec<Setting>;

    /// The optimizer with these settings; `values` holds [`COUNT`](Settings::COUNT) numbers.
    fn from_values(values: &[f32]) -> Self;

    /// The first setting that is out of its range, as an error.
    fn check(&self) -> Result<()> {
        match self.settings().into_iter().find(|s| !s.range.contains(s.value)) {
            None => Ok(()),
            Some(Setting { name, value, range }) => {
                Err(Error::new(Code::BadSetting, format!("optimizer {}: {name} is {value}", Self::NAME))
                    .help(format!("set {name} to a value that is {}", range.text())))
            }
        }
    }

    /// The optimizer whose settings came over the wire, checked.
    fn decode(words: &[f64]) -> Result<Self> {
        if words.len() != Self::COUNT {
            let what =
                format!("optimizer {} has {} settings, the message has {}", Self::NAME, Self::COUNT, words.len());
            return Err(Error::new(Code::BadMessage, what));
        }
        // Settings are f32 on both sides, so this narrows exactly; what is too big becomes infinite and is refused.
        let values: Vec<f32> = words.iter().map(|&word| word as f32).collect();
        // A flag has to be checked before `from_values` makes a bool of it; its range is the only one that a round
        // trip through the optimizer would hide.
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
