//! What holds for every rule, whatever its arithmetic.

use phalanx_base::Code;
use phalanx_base::SplitMix;
use phalanx_optim::{Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, RmsProp, Sgd};

/// One of each shape of arithmetic.
fn every_kind() -> Vec<Optimizer> {
    vec![
        Sgd::new(0.5).into(),
        Sgd::new(0.5).momentum(0.9).into(),
        Sgd::new(0.5).momentum(0.9).nesterov(true).into(),
        Momentum::new(0.1, 0.9).into(),
        Momentum::new(0.1, 0.9).nesterov(true).into(),
        Adagrad::new(0.05).initial_accumulator_value(0.3).epsilon(1e-3).into(),
        RmsProp::new(0.01).rho(0.8).epsilon(1e-5).into(),
        RmsProp::new(0.01).centered(true).into(),
        RmsProp::new(0.01).momentum(0.4).into(),
        RmsProp::new(0.01).momentum(0.4).centered(true).into(),
        Adam::new(0.01).beta_1(0.8).beta_2(0.95).epsilon(1e-6).into(),
        Adam::new(0.01).amsgrad(true).into(),
        AdamW::new(0.01).weight_decay(0.1).beta_1(0.8).beta_2(0.95).epsilon(1e-6).into(),
        Ftrl::new(0.1).l1(0.1).l2(0.2).l2_shrinkage(0.3).beta(0.4).initial_accumulator_value(0.5).into(),
        Ftrl::new(0.1).learning_rate_power(-0.7).into(),
    ]
}

/// Random numbers in [-2, 2).
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| (random.word() >> 40) as f32 / (1 << 22) as f32 - 2.0).collect()
}

fn buffer(optimizer: &Optimizer, len: usize) -> Vec<f32> {
    let mut buffer = noise(len * (1 + optimizer.slot_count()), 7);
    optimizer.init_slots(&mut buffer);
    buffer
}

#[test]
fn pieces_in_any_order_make_the_whole() {
    for optimizer in every_kind() {
        for (len, piece) in [(1, 1), (64, 16), (100, 7), (1024, 1000), (33, 8)] {
            let (mut whole, mut pieces) = (buffer(&optimizer, len), buffer(&optimizer, len));
            for step in 1..=4 {
                let grad = noise(len, step);
                let rule = optimizer.at_step(step);
                rule.apply(&mut whole, &grad).unwrap();
                for (i, part) in grad.chunks(piece).enumerate().collect::<Vec<_>>().into_iter().rev() {
                    rule.apply_range(&mut pieces, i * piece, part).unwrap();
                }
            }
            assert_eq!(whole, pieces, "{optimizer}: {len} in pieces of {piece}");
            assert!(whole.iter().all(|x| x.is_finite()));
        }
    }
}

#[test]
fn a_range_touches_nothing_beside_it() {
    for optimizer in every_kind() {
        let before = buffer(&optimizer, 40);
        let mut after = before.clone();
        optimizer.at_step(1).apply_range(&mut after, 10, &[1.0; 20]).unwrap();
        for (i, (old, new)) in before.iter().zip(&after).enumerate() {
            assert!((10..30).contains(&(i % 40)) || old == new, "{optimizer}: element {i} changed");
        }
        assert_ne!(before[10..30], after[10..30]);
    }
}

#[test]
fn the_same_gradient_lowers_a_value_step_by_step() {
    for optimizer in every_kind() {
        let mut row = vec![0.0; 1 + optimizer.slot_count()];
        optimizer.init_slots(&mut row);
        for step in 1..=20 {
            let before = row[0];
            optimizer.at_step(step).apply(&mut row, &[0.5]).unwrap();
            assert!(row[0] < before, "{optimizer}: step {step} went from {before} to {}", row[0]);
        }
    }
}

#[test]
fn lengths_that_disagree_are_refused_and_change_nothing() {
    for optimizer in every_kind() {
        let rule = optimizer.at_step(1);
        assert_eq!(rule.slot_count(), optimizer.slot_count());
        let before = buffer(&optimizer, 8);
        let mut after = before.clone();
        for grad in [0, 7, 9, 100] {
            assert_eq!(rule.apply(&mut after, &vec![1.0; grad]).unwrap_err().code(), Code::ShapeMismatch);
        }
        for (at, grad) in [(0, 9), (1, 8), (8, 1), (9, 0), (usize::MAX, 1), (usize::MAX, 0)] {
            let error = rule.apply_range(&mut after, at, &vec![1.0; grad]).unwrap_err();
            assert_eq!(error.code(), Code::ShapeMismatch);
        }
        rule.apply_range(&mut after, 8, &[]).unwrap();
        rule.apply(&mut [], &[]).unwrap();
        assert_eq!(before, after, "{optimizer}");
    }
}

#[test]
fn words_come_back_as_they_went() {
    for optimizer in every_kind() {
        optimizer.validate().unwrap();
        assert_eq!(Optimizer::from_words(&optimizer.to_words()).unwrap(), optimizer);
    }
    // The encoding itself, written out: it must not change.
    assert_eq!(Optimizer::from(Sgd::new(0.5).momentum(0.25).nesterov(true)).to_words(), [1.0, 0.5, 0.25, 1.0]);
    assert_eq!(
        Optimizer::from(Ftrl::new(0.5).l1(2.0).l2(3.0).initial_accumulator_value(1.0)).to_words(),
        [7.0, 0.5, -0.5, 1.0, 2.0, 3.0, 0.0, 0.0]
    );
}

#[test]
fn broken_words_are_errors() {
    for bad in [&[][..], &[0.0, 1.0], &[1.5, 0.1, 0.0, 0.0], &[99.0], &[f64::NAN], &[f64::INFINITY]] {
        assert_eq!(Optimizer::from_words(bad).unwrap_err().code(), Code::BadMessage, "{bad:?}");
    }
    for optimizer in every_kind() {
        let words = optimizer.to_words();
        assert!(Optimizer::from_words(&words[..words.len() - 1]).is_err());
        assert!(Optimizer::from_words(&[&words[..], &[0.0]].concat()).is_err());
        for i in 1..words.len() {
            for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
                let mut words = words.clone();
                words[i] = bad;
                assert!(Optimizer::from_words(&words).is_err(), "{words:?}");
            }
        }
    }
    assert!(Optimizer::from_words(&[1.0, 0.5, 0.9, 2.0]).is_err(), "a flag is 0 or 1");
}

#[test]
fn settings_out_of_range_are_named() {
    let bad: [(&str, Optimizer); 12] = [
        ("learning_rate", Sgd::new(-1.0).into()),
        ("learning_rate", Adagrad::new(f32::NAN).into()),
        ("learning_rate", Ftrl::new(0.0).into()),
        ("momentum", Sgd::new(0.1).momentum(1.1).into()),
        ("momentum", Momentum::new(0.1, -0.1).into()),
        ("initial_accumulator_value", Adagrad::new(0.1).initial_accumulator_value(-0.1).into()),
        ("epsilon", Adagrad::new(0.1).epsilon(-1e-7).into()),
        ("rho", RmsProp::new(0.1).rho(1.0).into()),
        ("beta_1", Adam::new(0.1).beta_1(1.0).into()),
        ("beta_2", AdamW::new(0.1).beta_2(f32::INFINITY).into()),
        ("learning_rate_power", Ftrl::new(0.1).learning_rate_power(0.5).into()),
        ("l2_shrinkage", Ftrl::new(0.1).l2_shrinkage(-0.5).into()),
    ];
    for (setting, optimizer) in bad {
        let error = optimizer.validate().unwrap_err();
        assert_eq!(error.code(), Code::BadSetting);
        assert!(error.what().contains(&format!("{setting} is ")), "{}", error.report());
        assert!(error.next().unwrap().contains(setting), "{}", error.report());
    }
}

#[test]
fn names_are_found_in_any_case_and_typos_are_answered() {
    for &name in Optimizer::NAMES {
        assert_eq!(Optimizer::parse(&name.to_uppercase(), 0.1).unwrap().name(), name);
    }
    let help = |name| Optimizer::parse(name, 0.1).unwrap_err().next().unwrap().to_owned();
    assert_eq!(help("rmspop"), "did you mean rmsprop?");
    assert!(help("lion king").starts_with("choose one of sgd, "));
    assert_eq!(Optimizer::parse("adam", -0.1).unwrap_err().code(), Code::BadSetting);
}

#[test]
fn a_schedule_changes_the_rate_and_nothing_else() {
    for optimizer in every_kind() {
        let slower = optimizer.with_learning_rate(0.001);
        assert_eq!(slower.learning_rate(), 0.001);
        assert_eq!(slower.with_learning_rate(optimizer.learning_rate()), optimizer);
    }
    let text = Optimizer::from(Adagrad::new(0.05)).to_string();
    assert_eq!(text, "adagrad(learning_rate 0.05, initial_accumulator_value 0.1, epsilon 0.0000001)");
}
