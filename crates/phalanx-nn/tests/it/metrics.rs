//! Metrics, losses and heads against TensorFlow 2.15, on the batches of `fixtures/make_metrics.py`.

use crate::metrics_fixture::{Settings, fixture, loss, metric, numbers};
use phalanx_nn::metrics::{HeadMetrics, Loss, Reduced, Reduction, compute_average_loss};

/// Compares with a relative tolerance of 1e-6 and, near 0, an absolute one of half the spacing of f32 numbers around 1,
/// because terms of that size cancel in TensorFlow.
fn check(found: f64, expected: f32, of: &str) {
    let expected = f64::from(expected);
    let near = (found - expected).abs() <= 1e-6 * expected.abs() + 6e-8;
    assert!(near, "{of}: {found} is not TensorFlow's {expected}, off by {:e}", (found / expected - 1.0).abs());
}

#[test]
fn metrics_equal_tensorflow_after_every_batch() {
    let (sets, facts) = fixture();
    let mut compared = 0;
    for fact in facts.iter().filter(|fact| fact[0] == "metric") {
        let (set, weighted) = (&sets[fact[3]], fact[4] == "1");
        let mut metric = metric(fact[1], &Settings::parse(fact[2]));
        let expected: Vec<&str> = fact[5].split(';').collect();
        assert_eq!(set.batches.len(), expected.len());
        for (number, (batch, expected)) in set.batches.iter().zip(expected).enumerate() {
            let weights = weighted.then_some(&batch.weights[..]);
            metric.update(set.label(batch), set.prediction(batch), weights).unwrap();
            let (results, expected) = (metric.results(), numbers(expected));
            assert_eq!(results.len(), expected.len());
            for (&found, &expected) in results.iter().zip(&expected) {
                check(found, expected, &format!("{} batch {number}", fact[..5].join(" ")));
                compared += 1;
            }
        }
    }
    assert!(compared > 2000, "only {compared} values compared");
}

#[test]
fn states_of_single_batches_merge_in_any_order() {
    let (sets, facts) = fixture();
    for fact in facts.iter().filter(|fact| fact[0] == "metric") {
        let (set, weighted) = (&sets[fact[3]], fact[4] == "1");
        let mut whole = metric(fact[1], &Settings::parse(fact[2]));
        let mut merged = whole.fresh();
        for batch in &set.batches {
            let weights = weighted.then_some(&batch.weights[..]);
            whole.update(set.label(batch), set.prediction(batch), weights).unwrap();
        }
        for batch in set.batches.iter().rev() {
            let mut part = whole.fresh();
            assert!(part.state().iter().all(|&sum| sum == 0.0));
            let weights = weighted.then_some(&batch.weights[..]);
            part.update(set.label(batch), set.prediction(batch), weights).unwrap();
            merged.merge(&part.to_words()).unwrap();
        }
        if whole.state().len() > 2 {
            assert_eq!(whole.state(), merged.state(), "counts are exact: {}", fact[..5].join(" "));
        }
        for (one, other) in whole.state().iter().zip(merged.state()) {
            assert!((one - other).abs() <= 1e-14 * one.abs().max(1.0), "{}: {one} {other}", fact[..5].join(" "));
        }
    }
}

#[test]
fn losses_of_single_examples_equal_tensorflow() {
    let (sets, facts) = fixture();
    let mut compared = 0;
    for fact in facts.iter().filter(|fact| fact[0] == "loss") {
        let (set, loss) = (&sets[fact[3]], loss(fact[1], &Settings::parse(fact[2])));
        let found: Vec<f64> = set
            .batches
            .iter()
            .flat_map(|batch| loss.values(set.label(batch), set.prediction(batch)).unwrap())
            .collect();
        let expected = numbers(fact[4]);
        assert_eq!(found.len(), expected.len());
        for (row, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            // In TensorFlow, a loss near 0 is a difference of f32 numbers near 1, with an error of one spacing.
            let near = (found - f64::from(expected)).abs() <= 1e-6 * f64::from(expected.abs()) + 1.2e-7;
            assert!(near, "{} row {row}: {found} is not TensorFlow's {expected}", fact[..4].join(" "));
            compared += 1;
        }
    }
    assert!(compared > 900, "only {compared} values compared");
}

#[test]
fn reductions_and_the_average_over_replicas_equal_tensorflow() {
    let (sets, facts) = fixture();
    for fact in facts.iter().filter(|fact| ["reduce", "average"].contains(&fact[0])) {
        let (set, weighted) = (&sets[fact[3]], fact[2] == "1");
        for (batch, expected) in set.batches.iter().zip(numbers(fact[4])) {
            let each = Loss::MeanAbsoluteError.values(set.label(batch), set.prediction(batch)).unwrap();
            let weights = weighted.then_some(&batch.weights[..]);
            let reduction = match fact[1] {
                "auto" => Reduction::Auto,
                "sum" => Reduction::Sum,
                "sum_over_batch_size" => Reduction::SumOverBatchSize,
                size => {
                    let found = compute_average_loss(&each, weights, size.parse().unwrap()).unwrap();
                    check(found, expected, &fact[..4].join(" "));
                    continue;
                }
            };
            match reduction.apply(&each, weights).unwrap() {
                Reduced::One(found) => check(found, expected, &fact[..4].join(" ")),
                Reduced::Each(_) => panic!("{} leaves single losses", fact[1]),
            }
        }
    }
}

#[test]
fn heads_report_what_an_estimator_reports() {
    let (sets, facts) = fixture();
    for fact in facts.iter().filter(|fact| fact[0] == "head") {
        let (set, settings, weighted) = (&sets[fact[3]], Settings::parse(fact[2]), fact[4] == "1");
        let thresholds = settings.list("thresholds").unwrap_or_default();
        let sigmoid = Loss::BinaryCrossentropy { from_logits: true, label_smoothing: 0.0 };
        let make = || match fact[1] {
            "binary" => (HeadMetrics::binary(&thresholds).unwrap(), sigmoid),
            "multi_class" => (HeadMetrics::multi_class(), Loss::SparseCategoricalCrossentropy { from_logits: true }),
            "multi_label" => (HeadMetrics::multi_label(&thresholds).unwrap(), sigmoid),
            _ => (HeadMetrics::regression(), Loss::MeanSquaredError),
        };
        let (mut head, loss) = make();
        for batch in &set.batches {
            let (label, logits) = (set.label(batch), set.prediction(batch));
            let losses = loss.values(label, logits).unwrap();
            // Each batch comes from another worker.
            let mut part = make().0;
            part.update(label, logits, &losses, weighted.then_some(&batch.weights[..])).unwrap();
            head.merge(&part.to_words()).unwrap();
        }
        let found = head.results();
        assert_eq!(found.len(), fact.len() - 5);
        for ((key, value), expected) in found.iter().zip(&fact[5..]) {
            let (name, expected) = expected.split_once('=').unwrap();
            assert_eq!(key, name);
            check(*value, expected.parse().unwrap(), &format!("{} {key}", fact[..5].join(" ")));
        }
    }
}
