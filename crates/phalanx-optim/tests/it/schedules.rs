//! Schedules and clipping as TensorFlow 2.15.1 computed them (`tests/fixtures/make_schedules.py`).

use phalanx_base::Code;
use phalanx_optim::{
    Adam, Clip, CosineDecay, ExponentialDecay, Ftrl, Optimizer, PiecewiseConstantDecay, PolynomialDecay, Schedule, Sgd,
};
use serde_json::Value;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/schedules.json")).unwrap()
}

fn schedule(name: &str) -> Schedule {
    match name {
        "exponential" => ExponentialDecay::new(0.1, 100, 0.5).into(),
        "exponential staircase" => ExponentialDecay::new(0.1, 50, 0.96).staircase(true).into(),
        "cosine" => CosineDecay::new(0.01, 200).into(),
        "cosine alpha" => CosineDecay::new(0.3, 150).alpha(0.1).into(),
        // Keras' initial rate is that of the warm-up, its target the cosine's.
        "cosine warmup" => Schedule::from(CosineDecay::new(0.02, 200).alpha(0.05)).warmup_from(50, 0.001),
        "polynomial" => PolynomialDecay::new(0.1, 200).into(),
        "polynomial power" => PolynomialDecay::new(0.1, 150).end_learning_rate(0.01).power(2.0).into(),
        "polynomial cycle" => PolynomialDecay::new(0.1, 100).end_learning_rate(0.01).power(0.5).cycle(true).into(),
        "piecewise" => PiecewiseConstantDecay::new(&[10, 100, 200], &[1.0, 0.5, 0.25, 0.01]).unwrap().into(),
        other => panic!("no schedule {other}"),
    }
}

#[test]
fn every_schedule_is_that_of_tensorflow() {
    let fixture = fixture();
    let steps: Vec<u64> = fixture["steps"].as_array().unwrap().iter().map(|step| step.as_u64().unwrap()).collect();
    for (name, rates) in fixture["rates"].as_object().unwrap() {
        let schedule = schedule(name);
        schedule.validate().unwrap();
        for (&step, rate) in steps.iter().zip(rates.as_array().unwrap()) {
            let (ours, theirs) = (f64::from(schedule.at(step)), rate.as_f64().unwrap());
            // Keras computes in f32: a cosine close to -1 loses digits there.
            assert!((ours - theirs).abs() <= 2e-6 * theirs.abs() + 2e-9, "{name}, step {step}: {ours}, {theirs}");
        }
        let optimizer: Optimizer = Adam::new(0.5).schedule(schedule).clip(Clip::Norm(0.25)).into();
        assert_eq!(Optimizer::from_words(&optimizer.to_words()).unwrap(), optimizer, "{name}");
    }
}

#[test]
fn gradients_are_clipped_as_in_keras() {
    let fixture = fixture();
    let numbers = |list: &Value| -> Vec<Vec<f32>> {
        let one = |list: &Value| list.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
        list.as_array().unwrap().iter().map(one).collect()
    };
    for (name, case) in fixture["clips"].as_object().unwrap() {
        let setting = case["setting"].as_f64().unwrap() as f32;
        let clip = match name.as_str() {
            "value" => Clip::Value(setting),
            "norm" => Clip::Norm(setting),
            _ => Clip::GlobalNorm(setting),
        };
        let mut ours = numbers(&fixture["gradients"]);
        clip.apply(ours.iter_mut().map(Vec::as_mut_slice));
        for (ours, theirs) in ours.iter().flatten().zip(numbers(&case["result"]).iter().flatten()) {
            assert!((ours - theirs).abs() <= 1e-6 * theirs.abs(), "{name}: {ours}, {theirs}");
        }
    }
}

#[test]
fn the_rule_of_an_update_has_the_rate_of_its_step() {
    let optimizer: Optimizer = Sgd::default().schedule(PiecewiseConstantDecay::new(&[0], &[1.0, 0.5]).unwrap()).into();
    let mut value = [0.0];
    optimizer.at_step(1).apply(&mut value, &[1.0]).unwrap();
    assert_eq!(value, [-1.0]);
    optimizer.at_step(2).apply(&mut value, &[1.0]).unwrap();
    assert_eq!(value, [-1.5]);
    assert_eq!(optimizer.with_learning_rate(0.25).schedule(), None);
}

#[test]
fn settings_out_of_range_are_refused() {
    let bad: [Optimizer; 8] = [
        Adam::new(0.1).schedule(-1.0).into(),
        Adam::new(0.1).schedule(CosineDecay::new(f32::NAN, 10)).into(),
        Adam::new(0.1).schedule(CosineDecay::new(0.1, 0)).into(),
        Adam::new(0.1).schedule(ExponentialDecay::new(0.1, u64::MAX, 0.5)).into(),
        Adam::new(0.1).schedule(Schedule::from(0.1).warmup_from(10, f32::INFINITY)).into(),
        // FTRL divides by its rate.
        Ftrl::new(0.1).schedule(Schedule::from(0.1).warmup(10)).into(),
        Ftrl::new(0.1).schedule(CosineDecay::new(0.1, 100)).into(),
        Adam::new(0.1).clip(Clip::GlobalNorm(0.0)).into(),
    ];
    for optimizer in bad {
        assert_eq!(optimizer.validate().unwrap_err().code(), Code::BadSetting, "{optimizer}");
        assert!(Optimizer::from_words(&optimizer.to_words()).is_err(), "{optimizer}");
    }
    Optimizer::from(Ftrl::new(0.1).schedule(Schedule::from(0.1).warmup_from(10, 0.01))).validate().unwrap();
    for (boundaries, values) in [(&[][..], &[1.0][..]), (&[2, 2], &[1.0; 3]), (&[1], &[1.0]), (&[1; 17], &[1.0; 18])] {
        let error = PiecewiseConstantDecay::new(boundaries, values).unwrap_err();
        assert_eq!(error.code(), Code::BadSetting);
    }
}

#[test]
fn broken_words_of_schedules_are_errors() {
    let optimizer: Optimizer = Adam::new(0.5).schedule(schedule("piecewise")).clip(Clip::Value(1.0)).into();
    let words = optimizer.to_words();
    let plain = Optimizer::from(Adam::new(0.5)).to_words().len();
    for end in plain + 1..words.len() {
        // Without its last two words, which are the clipping, it is whole.
        assert_eq!(Optimizer::from_words(&words[..end]).is_ok(), end == words.len() - 2, "{end}");
    }
    for at in plain..words.len() {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300, 0.5e-1] {
            let mut words = words.clone();
            words[at] = bad;
            match Optimizer::from_words(&words) {
                Err(_) => {}
                Ok(read) => read.validate().unwrap(),
            }
        }
    }
}
