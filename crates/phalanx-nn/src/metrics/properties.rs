//! Properties of all metrics: states add up, weights are repetitions, nothing panics.

use proptest::prelude::*;

use super::*;

/// One example: label, prediction, weight in quarters.
type Example = (bool, f32, u8);

fn examples() -> impl Strategy<Value = Vec<Example>> {
    let prediction = prop_oneof![0.0_f32..=1.0, (0_u16..200).prop_map(|step| f32::from(step) / 199.0), Just(0.5)];
    prop::collection::vec((any::<bool>(), prediction, 0_u8..8), 0..60)
}

/// Metrics with every kind of state, for one prediction per example.
fn metrics() -> Vec<Box<dyn Metric>> {
    let names = ["AUC", "Precision", "Recall", "TruePositives", "FalseNegatives", "BinaryAccuracy", "Mean", "Sum"];
    let mut metrics: Vec<Box<dyn Metric>> = names.iter().map(|name| parse(name, None, 1).unwrap()).collect();
    metrics.push(Box::new(Auc::new().curve(Curve::Pr)));
    metrics.push(Box::new(Auc::new().thresholds(&[0.3, 0.35, 0.9]).unwrap()));
    metrics.push(Box::new(TrueNegatives::new().thresholds(&[0.9, 0.1, 0.5]).unwrap()));
    metrics.push(Box::new(SpecificityAtSensitivity::new(0.6).unwrap()));
    metrics.push(Box::new(AccuracyBaseline::new("accuracy_baseline")));
    metrics.push(Box::new(MeanSquaredError::new()));
    metrics.push(Box::new(BinaryCrossentropy::new()));
    metrics
}

fn feed(metric: &mut dyn Metric, examples: &[Example]) {
    let label: Vec<f32> = examples.iter().map(|example| f32::from(u8::from(example.0))).collect();
    let prediction: Vec<f32> = examples.iter().map(|example| example.1).collect();
    let weights: Vec<f32> = examples.iter().map(|example| f32::from(example.2) / 4.0).collect();
    metric.update(Values::column(&label), Values::column(&prediction), Some(&weights)).unwrap();
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * one.abs().max(1.0)
}

proptest! {
    #[test]
    fn any_split_merged_in_any_order_is_one_pass(
        examples in examples(),
        cuts in prop::collection::vec(0_usize..60, 0..5),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(examples.len())).collect();
        cuts.extend([0, examples.len()]);
        cuts.sort_unstable();
        for mut whole in metrics() {
            let mut merged = whole.fresh();
            feed(whole.as_mut(), &examples);
            for part in cuts.windows(2).rev() {
                let mut worker = whole.fresh();
                feed(worker.as_mut(), &examples[part[0]..part[1]]);
                merged.merge(&worker.to_words()).unwrap();
            }
            if whole.state().len() > 2 {
                prop_assert_eq!(whole.state(), merged.state(), "{}", whole.name());
            }
            prop_assert!(near(whole.result(), merged.result()), "{}", whole.name());
        }
    }

    #[test]
    fn a_weight_is_a_repetition(examples in examples()) {
        let repeated: Vec<Example> =
            examples.iter().flat_map(|&(label, p, weight)| vec![(label, p, 4); usize::from(weight)]).collect();
        let whole: Vec<Example> = examples.iter().map(|&(label, p, weight)| (label, p, weight * 4)).collect();
        for mut one in metrics() {
            let mut other = one.fresh();
            feed(one.as_mut(), &whole);
            feed(other.as_mut(), &repeated);
            prop_assert!(near(one.result(), other.result()), "{}: {} {}", one.name(), one.result(), other.result());
        }
    }

    #[test]
    fn the_area_with_many_thresholds_is_the_fraction_of_ordered_pairs(examples in examples()) {
        let mut auc = Auc::new().num_thresholds(200).unwrap();
        // On the grid itself no two predictions share a bucket unless they are equal.
        let grid: Vec<Example> = examples.iter().map(|&(t, p, w)| (t, (p * 199.0).round() / 199.0, w)).collect();
        feed(&mut auc, &grid);
        let (mut pairs, mut ordered) = (0.0, 0.0);
        for &(_, yes, w) in grid.iter().filter(|example| example.0) {
            for &(_, no, v) in grid.iter().filter(|example| !example.0) {
                let weight = f64::from(w) * f64::from(v);
                pairs += weight;
                // Keras puts a prediction of 0 into the first bucket, together with those up to the next threshold.
                let (yes, no) = ((yes * 199.0).ceil().max(1.0), (no * 199.0).ceil().max(1.0));
                ordered += weight * if yes > no { 1.0 } else if yes == no { 0.5 } else { 0.0 };
            }
        }
        prop_assert!(near(auc.result(), if pairs > 0.0 { ordered / pairs } else { 0.0 }), "{}", auc.result());
    }

    #[test]
    fn states_travel_and_wrong_ones_are_refused(examples in examples()) {
        for mut metric in metrics() {
            feed(metric.as_mut(), &examples);
            let (mut other, words) = (metric.fresh(), metric.to_words());
            other.load_words(&words).unwrap();
            prop_assert_eq!(other.state(), metric.state());
            prop_assert_eq!(other.name(), metric.name());
            let longer = [&words[..], &[0.0]].concat();
            prop_assert!(other.merge(&longer).is_err() && other.load_words(&words[1..]).is_err());
            prop_assert_eq!(other.state(), metric.state(), "a rejected state changes nothing");
            metric.reset();
            prop_assert!(metric.state().iter().all(|&sum| sum == 0.0));
        }
    }

    #[test]
    fn no_numbers_and_no_shapes_make_it_panic(
        label in prop::collection::vec(prop::num::f32::ANY, 0..24),
        prediction in prop::collection::vec(prop::num::f32::ANY, 0..24),
        ids in prop::collection::vec(any::<i64>(), 0..8),
        weights in prop::option::of(prop::collection::vec(prop::num::f32::ANY, 0..8)),
        widths in (0_usize..5, 0_usize..5),
    ) {
        let names = ["accuracy", "CategoricalAccuracy", "SparseCategoricalAccuracy", "TopKCategoricalAccuracy",
            "SparseTopKCategoricalAccuracy", "CosineSimilarity", "CategoricalCrossentropy", "Poisson", "KLDivergence",
            "SparseCategoricalCrossentropy", "CategoricalHinge", "Hinge", "mape", "msle", "logcosh"];
        let mut metrics = metrics();
        metrics.extend(names.iter().map(|name| parse(name, None, 2).unwrap()));
        metrics.push(Box::new(Precision::new().top_k(2).unwrap()));
        metrics.push(Box::new(Recall::new().class_id(1)));
        for mut metric in metrics {
            let (label, prediction) = (Values::rows(&label, widths.0), Values::rows(&prediction, widths.1));
            let ids = Values::ids(&ids);
            for (label, prediction) in [(label, prediction), (ids, prediction), (label, ids), (ids, ids)] {
                let before = metric.to_words();
                let counted = metric.update(label, prediction, weights.as_deref());
                if counted.is_err() {
                    let same = metric.state().iter().zip(&before).all(|(a, b)| a.to_bits() == b.to_bits());
                    prop_assert!(same, "{} counted a rejected batch", metric.name());
                }
                prop_assert!(!metric.results().is_empty());
            }
        }
    }
}
