//! Learning rates that follow the global step, with the formulas of `tf.keras.optimizers.schedules`.

use phalanx_base::{Code, Error, Result};

/// The most boundaries of a [`PiecewiseConstantDecay`]. Schedules are copied with their optimizer, so their size is fixed.
pub const MOST_BOUNDARIES: usize = 16;
/// Larger step numbers are not exact as `f64`, the form in which settings are sent.
const MOST_STEPS: u64 = 1 << 53;

/// A learning rate as a function of the global step: one of four decays or a constant, with an optional linear warm-up.
///
/// ```
/// use phalanx_optim::{Adam, CosineDecay, Optimizer, Schedule};
/// let schedule = Schedule::from(CosineDecay::new(0.01, 1000)).warmup(100);
/// assert_eq!(schedule.at(0), 0.0);
/// assert_eq!(schedule.at(50), 0.005);
/// assert_eq!(schedule.at(100), 0.01);
/// assert!((schedule.at(600) - 0.005).abs() < 1e-8);
/// let optimizer: Optimizer = Adam::default().schedule(schedule).into();
/// assert_eq!(optimizer.learning_rate(), 0.0); // that of the first step
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    curve: Curve,
    warmup_steps: u64,
    warmup_from: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Curve {
    Constant(f32),
    Exponential(ExponentialDecay),
    Cosine(CosineDecay),
    Polynomial(PolynomialDecay),
    Piecewise(PiecewiseConstantDecay),
}

/// `initial · decay_rate^(step / decay_steps)`.
///
/// ```
/// use phalanx_optim::{ExponentialDecay, Schedule};
/// let schedule: Schedule = ExponentialDecay::new(0.1, 1000, 0.5).staircase(true).into();
/// assert_eq!((schedule.at(999), schedule.at(1000), schedule.at(2000)), (0.1, 0.05, 0.025));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExponentialDecay {
    initial: f32,
    decay_steps: u64,
    decay_rate: f32,
    staircase: bool,
}

impl ExponentialDecay {
    /// A rate that starts at `initial` and is multiplied by `decay_rate` over every `decay_steps`.
    #[must_use]
    pub fn new(initial: f32, decay_steps: u64, decay_rate: f32) -> Self {
        Self { initial, decay_steps, decay_rate, staircase: false }
    }

    /// Sets whether the rate changes only every `decay_steps`.
    #[must_use]
    pub fn staircase(self, staircase: bool) -> Self {
        Self { staircase, ..self }
    }

    fn at(&self, step: f64) -> f64 {
        let periods = step / self.decay_steps as f64;
        let periods = if self.staircase { periods.floor() } else { periods };
        f64::from(self.initial) * f64::from(self.decay_rate).powf(periods)
    }
}

/// Half a cosine wave from `initial` down to `alpha · initial` at `decay_steps`, constant from there on.
///
/// ```
/// use phalanx_optim::{CosineDecay, Schedule};
/// let schedule: Schedule = CosineDecay::new(0.1, 1000).alpha(0.5).into();
/// assert_eq!((schedule.at(0), schedule.at(1000), schedule.at(5000)), (0.1, 0.05, 0.05));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CosineDecay {
    initial: f32,
    decay_steps: u64,
    alpha: f32,
}

impl CosineDecay {
    /// A rate that falls from `initial` to 0 over `decay_steps`.
    #[must_use]
    pub fn new(initial: f32, decay_steps: u64) -> Self {
        Self { initial, decay_steps, alpha: 0.0 }
    }

    /// Sets the last rate, as a fraction of the initial one.
    #[must_use]
    pub fn alpha(self, alpha: f32) -> Self {
        Self { alpha, ..self }
    }

    fn at(&self, step: f64) -> f64 {
        let done = step.min(self.decay_steps as f64) / self.decay_steps as f64;
        let (alpha, wave) = (f64::from(self.alpha), 0.5 * (1.0 + (std::f64::consts::PI * done).cos()));
        f64::from(self.initial) * ((1.0 - alpha) * wave + alpha)
    }
}

/// `(initial − end) · (1 − step / decay_steps)^power + end`, and `end` from `decay_steps` on.
///
/// ```
/// use phalanx_optim::{PolynomialDecay, Schedule};
/// let schedule: Schedule = PolynomialDecay::new(0.5, 1000).end_learning_rate(0.25).into();
/// assert_eq!((schedule.at(0), schedule.at(500), schedule.at(3000)), (0.5, 0.375, 0.25));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolynomialDecay {
    initial: f32,
    decay_steps: u64,
    end: f32,
    power: f32,
    cycle: bool,
}

impl PolynomialDecay {
    /// A rate that falls linearly from `initial` to 0.0001 over `decay_steps`.
    #[must_use]
    pub fn new(initial: f32, decay_steps: u64) -> Self {
        Self { initial, decay_steps, end: 0.0001, power: 1.0, cycle: false }
    }

    /// Sets the last rate.
    #[must_use]
    pub fn end_learning_rate(self, end: f32) -> Self {
        Self { end, ..self }
    }

    /// Sets the exponent: 1 is a straight line.
    #[must_use]
    pub fn power(self, power: f32) -> Self {
        Self { power, ..self }
    }

    /// Sets whether the decay begins again after `decay_steps`, over twice, three times, … as many steps.
    #[must_use]
    pub fn cycle(self, cycle: bool) -> Self {
        Self { cycle, ..self }
    }

    fn at(&self, step: f64) -> f64 {
        let mut steps = self.decay_steps as f64;
        let step = if self.cycle {
            steps *= (step / steps).ceil().max(1.0);
            step
        } else {
            step.min(steps)
        };
        let (first, end) = (f64::from(self.initial), f64::from(self.end));
        (first - end) * (1.0 - step / steps).powf(f64::from(self.power)) + end
    }
}

/// One rate up to and including each boundary, and a last one beyond.
///
/// ```
/// use phalanx_optim::{PiecewiseConstantDecay, Schedule};
/// let schedule: Schedule = PiecewiseConstantDecay::new(&[100, 200], &[1.0, 0.5, 0.1])?.into();
/// assert_eq!((schedule.at(100), schedule.at(101), schedule.at(201)), (1.0, 0.5, 0.1));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PiecewiseConstantDecay {
    count: usize,
    boundaries: [u64; MOST_BOUNDARIES],
    values: [f32; MOST_BOUNDARIES + 1],
}

impl PiecewiseConstantDecay {
    /// Creates the schedule from its boundaries and the values between them.
    ///
    /// # Errors
    /// If the boundaries do not grow, are none or more than [`MOST_BOUNDARIES`], or there is not one value more than
    /// boundaries.
    pub fn new(boundaries: &[u64], values: &[f32]) -> Result<Self> {
        let count = boundaries.len();
        if count == 0 || count > MOST_BOUNDARIES {
            return Err(wrong(format!("{count} boundaries"), format!("give 1 to {MOST_BOUNDARIES}")));
        }
        if values.len() != count + 1 {
            let help = format!("give one value more than boundaries: {}", count + 1);
            return Err(wrong(format!("{} values for {count} boundaries", values.len()), help));
        }
        if let Some(pair) = boundaries.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(wrong(format!("boundary {} follows {}", pair[1], pair[0]), "give growing boundaries".into()));
        }
        let mut made = Self { count, boundaries: [0; MOST_BOUNDARIES], values: [0.0; MOST_BOUNDARIES + 1] };
        made.boundaries[..count].copy_from_slice(boundaries);
        made.values[..=count].copy_from_slice(values);
        Ok(made)
    }

    fn at(&self, step: u64) -> f32 {
        self.values[self.boundaries[..self.count].partition_point(|&boundary| boundary < step)]
    }
}

impl Schedule {
    /// Precedes the schedule by `steps` steps in which the rate grows linearly from 0 to the schedule's first rate.
    #[must_use]
    pub fn warmup(self, steps: u64) -> Self {
        self.warmup_from(steps, 0.0)
    }

    /// As [`Self::warmup`], from the rate `from` instead of 0.
    #[must_use]
    pub fn warmup_from(self, steps: u64, from: f32) -> Self {
        Self { warmup_steps: steps, warmup_from: from, ..self }
    }

    /// Returns the rate of the update that follows `global_step` committed steps.
    #[must_use]
    pub fn at(&self, global_step: u64) -> f32 {
        match global_step.checked_sub(self.warmup_steps) {
            Some(step) => self.curve.at(step) as f32,
            None => {
                let (from, done) = (f64::from(self.warmup_from), global_step as f64 / self.warmup_steps as f64);
                (from + (self.curve.at(0) - from) * done) as f32
            }
        }
    }

    /// Returns the lowest rate that the schedule reaches.
    pub(crate) fn lowest(&self) -> f32 {
        let curve = match &self.curve {
            Curve::Constant(rate) => *rate,
            Curve::Exponential(decay) => decay.initial * decay.decay_rate.min(1.0),
            Curve::Cosine(decay) => decay.initial * decay.alpha.min(1.0),
            Curve::Polynomial(decay) => decay.initial.min(decay.end),
            Curve::Piecewise(decay) => decay.values[..=decay.count].iter().copied().fold(f32::INFINITY, f32::min),
        };
        if self.warmup_steps > 0 { curve.min(self.warmup_from) } else { curve }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// [`Code::BadSetting`] for the first setting that is out of range.
    pub fn validate(&self) -> Result<()> {
        let rates: &[(&str, f32)] = match &self.curve {
            Curve::Constant(rate) => &[("learning_rate", *rate)],
            Curve::Exponential(decay) => &[("initial", decay.initial), ("decay_rate", decay.decay_rate)],
            Curve::Cosine(decay) => &[("initial", decay.initial), ("alpha", decay.alpha)],
            Curve::Polynomial(decay) => &[("initial", decay.initial), ("end", decay.end), ("power", decay.power)],
            Curve::Piecewise(decay) => &decay.values[..=decay.count].iter().map(|v| ("value", *v)).collect::<Vec<_>>(),
        };
        let bad = |(_, number): &&(&str, f32)| !(number.is_finite() && *number >= 0.0);
        if let Some((name, number)) = rates.iter().chain(&[("warmup_from", self.warmup_from)]).find(bad) {
            return Err(wrong(format!("{name} is {number}"), format!("set {name} to a finite number, 0 or above")));
        }
        let steps: &[(&str, u64, u64)] = match &self.curve {
            Curve::Constant(_) => &[],
            Curve::Exponential(decay) => &[("decay_steps", decay.decay_steps, 1)],
            Curve::Cosine(decay) => &[("decay_steps", decay.decay_steps, 1)],
            Curve::Polynomial(decay) => &[("decay_steps", decay.decay_steps, 1)],
            Curve::Piecewise(decay) => &[("boundary", decay.boundaries[decay.count - 1], 0)],
        };
        for &(name, number, least) in steps.iter().chain(&[("warmup_steps", self.warmup_steps, 0)]) {
            if !(least..=MOST_STEPS).contains(&number) {
                return Err(wrong(format!("{name} is {number}"), format!("give {least} to {MOST_STEPS}")));
            }
        }
        Ok(())
    }

    /// The first word of each curve, far from every number of an optimizer; never changes.
    const KINDS: [f64; 5] = [101.0, 102.0, 103.0, 104.0, 105.0];

    pub(crate) fn to_words(self) -> Vec<f64> {
        let (kind, own): (usize, Vec<f64>) = match self.curve {
            Curve::Constant(rate) => (0, vec![rate.into()]),
            Curve::Exponential(ExponentialDecay { initial, decay_steps, decay_rate, staircase }) => {
                (1, vec![initial.into(), decay_steps as f64, decay_rate.into(), f64::from(u8::from(staircase))])
            }
            Curve::Cosine(CosineDecay { initial, decay_steps, alpha }) => {
                (2, vec![initial.into(), decay_steps as f64, alpha.into()])
            }
            Curve::Polynomial(PolynomialDecay { initial, decay_steps, end, power, cycle }) => {
                let cycle = f64::from(u8::from(cycle));
                (3, vec![initial.into(), decay_steps as f64, end.into(), power.into(), cycle])
            }
            Curve::Piecewise(PiecewiseConstantDecay { count, boundaries, values }) => {
                let steps = boundaries[..count].iter().map(|&step| step as f64);
                (4, steps.chain(values[..=count].iter().map(|&value| value.into())).collect())
            }
        };
        [Self::KINDS[kind], self.warmup_steps as f64, self.warmup_from.into(), own.len() as f64]
            .into_iter()
            .chain(own)
            .collect()
    }

    /// Reads a schedule from the front of `words`; `None` if they begin with something else.
    pub(crate) fn from_words(words: &mut &[f64]) -> Result<Option<Self>> {
        let Some(kind) = words.first().and_then(|word| Self::KINDS.iter().position(|kind| kind == word)) else {
            return Ok(None);
        };
        let broken = || Error::new(Code::BadMessage, "a learning-rate schedule is not complete");
        let [_, warmup_steps, warmup_from, length, rest @ ..] = words else { return Err(broken()) };
        let count = |word: f64| {
            let whole = word.is_finite() && (0.0..=MOST_STEPS as f64).contains(&word) && word.fract() == 0.0;
            whole.then_some(word as u64).ok_or_else(|| wrong(format!("{word} steps"), "give a whole number".into()))
        };
        let (own, rest) = rest.split_at_checked(count(*length)? as usize).ok_or_else(broken)?;
        let flag = |word: f64| match word {
            0.0 => Ok(false),
            1.0 => Ok(true),
            _ => Err(Error::new(Code::BadMessage, format!("a flag of a learning-rate schedule is {word}"))),
        };
        let rate = |word: f64| word as f32;
        let curve = match (kind, own) {
            (0, &[constant]) => Curve::Constant(rate(constant)),
            (1, &[initial, steps, decay, stairs]) => {
                let decay = ExponentialDecay::new(rate(initial), count(steps)?, rate(decay));
                Curve::Exponential(decay.staircase(flag(stairs)?))
            }
            (2, &[initial, steps, alpha]) => {
                Curve::Cosine(CosineDecay::new(rate(initial), count(steps)?).alpha(rate(alpha)))
            }
            (3, &[initial, steps, end, power, cycle]) => {
                let decay = PolynomialDecay::new(rate(initial), count(steps)?).end_learning_rate(rate(end));
                Curve::Polynomial(decay.power(rate(power)).cycle(flag(cycle)?))
            }
            (4, own) if own.len() % 2 == 1 && own.len() <= 2 * MOST_BOUNDARIES + 1 => {
                let (steps, values) = own.split_at(own.len() / 2);
                let steps = steps.iter().map(|&step| count(step)).collect::<Result<Vec<_>>>()?;
                let values: Vec<f32> = values.iter().map(|&value| rate(value)).collect();
                Curve::Piecewise(PiecewiseConstantDecay::new(&steps, &values)?)
            }
            _ => return Err(broken()),
        };
        let made = Self { curve, warmup_steps: count(*warmup_steps)?, warmup_from: rate(*warmup_from) };
        made.validate()?;
        *words = rest;
        Ok(Some(made))
    }
}

impl Curve {
    fn at(&self, step: u64) -> f64 {
        match self {
            Self::Constant(rate) => f64::from(*rate),
            Self::Exponential(decay) => decay.at(step as f64),
            Self::Cosine(decay) => decay.at(step as f64),
            Self::Polynomial(decay) => decay.at(step as f64),
            Self::Piecewise(decay) => f64::from(decay.at(step)),
        }
    }
}

macro_rules! schedules {
    ($($type:ident => $curve:ident),*) => {
        $(impl From<$type> for Schedule {
            fn from(decay: $type) -> Self {
                Self { curve: Curve::$curve(decay), warmup_steps: 0, warmup_from: 0.0 }
            }
        })*
    };
}
schedules!(
    f32 => Constant,
    ExponentialDecay => Exponential,
    CosineDecay => Cosine,
    PolynomialDecay => Polynomial,
    PiecewiseConstantDecay => Piecewise
);

/// The curve's name and its first rate, for messages and logs.
impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.curve {
            Curve::Constant(_) => "constant",
            Curve::Exponential(_) => "exponential",
            Curve::Cosine(_) => "cosine",
            Curve::Polynomial(_) => "polynomial",
            Curve::Piecewise(_) => "piecewise",
        };
        write!(f, "{name} from {}", self.curve.at(0) as f32)?;
        if self.warmup_steps > 0 {
            write!(f, " after {} steps of warm-up", self.warmup_steps)?;
        }
        Ok(())
    }
}

fn wrong(what: String, help: String) -> Error {
    Error::new(Code::BadSetting, format!("learning-rate schedule: {what}")).help(help)
}
