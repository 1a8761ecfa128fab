//! The signatures of exported models, under Estimator's names.

use super::{Served, ServingInput};
use crate::Head;
use crate::head::HeadKind;
use phalanx_base::{Result, Shape};
use phalanx_formats::saved_model::{AnyOutput, DEFAULT_SIGNATURE, GraphBuilder, Output, SavedModel, Signature, Text};

/// Returns the model with its signatures, and their names.
pub(super) fn with_signatures(head: &Head, served: Served, input: ServingInput) -> Result<(SavedModel, Vec<String>)> {
    let Served { mut graph, logits, placeholders, outputs } = served;
    let given = |mut signature: Signature, name: Option<&str>| {
        for (own, placeholder) in &placeholders {
            signature = signature.input(name.unwrap_or(own), *placeholder);
        }
        signature
    };
    let mut signatures = if head.kind == HeadKind::Several {
        let mut all = Vec::new();
        let mut merged = given(Signature::predict(), None);
        for (at, (part, range)) in head.ranges().enumerate() {
            let which: Vec<i32> = range.clone().map(|column| column as i32).collect();
            let which = graph.constant(&[which.len()], &which);
            let own = graph.gather_along(logits, which, 1);
            let of = HeadOutputs::of(&mut graph, &part.head, own);
            for (key, output, width) in &of.predict {
                merged = merged.output_of(&format!("{}/{key}", part.name), *output, &[None, Some(*width)]);
            }
            for (name, signature) in of.signatures(&given) {
                if name == DEFAULT_SIGNATURE && at == 0 {
                    // The first head is served by default.
                    all.push((DEFAULT_SIGNATURE.to_owned(), signature.clone()));
                }
                let name = if name == DEFAULT_SIGNATURE { part.name.clone() } else { format!("{}/{name}", part.name) };
                all.push((name, signature));
            }
        }
        all.push(("predict".to_owned(), merged));
        all
    } else {
        HeadOutputs::of(&mut graph, head, logits).with_own(outputs).signatures(&given)
    };
    // No signature uses it, but warm starts from the export read it.
    let _: AnyOutput = graph.untrained_variable::<i64>("global_step", &Shape::new([])?).into();
    if input == ServingInput::Raw {
        // Only `predict` takes raw tensors. Estimator drops the others, which leaves no default.
        signatures.retain(|(name, _)| name == "predict" || name.ends_with("/predict"));
        let default = signatures.iter().rfind(|(name, _)| name == "predict");
        let default = default.map(|(_, signature)| (DEFAULT_SIGNATURE.to_owned(), signature.clone()));
        signatures.extend(default);
    }
    let names = signatures.iter().map(|(name, _)| name.clone()).collect();
    let model = SavedModel::new(graph);
    Ok((signatures.into_iter().fold(model, |model, (name, signature)| model.signature(&name, signature)), names))
}

/// The outputs of a head: what each of its signatures returns.
struct HeadOutputs {
    /// Classes and scores, with their number.
    classification: Option<(AnyOutput, AnyOutput, usize)>,
    regression: Option<(AnyOutput, usize)>,
    /// The predictions, with the numbers of values of a row.
    predict: Vec<(String, AnyOutput, usize)>,
}

impl HeadOutputs {
    fn of(graph: &mut GraphBuilder, head: &Head, logits: Output<f32>) -> Self {
        let width = head.logits_dimension();
        let named = |name: &str, output: AnyOutput, width: usize| (name.to_owned(), output, width);
        match head.kind {
            HeadKind::Regression(_) => Self {
                classification: None,
                regression: Some((logits.into(), width)),
                predict: vec![named("predictions", logits.into(), width)],
            },
            HeadKind::Poisson(_) => {
                let counts = graph.exp(logits);
                Self {
                    classification: None,
                    regression: Some((counts.into(), width)),
                    predict: vec![named("predictions", counts.into(), width), named("logits", logits.into(), width)],
                }
            }
            HeadKind::MultiLabel(count) => {
                let scores = graph.sigmoid(logits);
                let names: Vec<String> = (0..count as i64).map(|class| head.word(class)).collect();
                let names = graph.texts(&[count], &names);
                let classes = graph.repeat_rows(names, scores);
                let predict = vec![
                    named("logits", logits.into(), width),
                    named("probabilities", scores.into(), count),
                    named("classes", classes.into(), count),
                ];
                Self { classification: Some((classes.into(), scores.into(), count)), regression: None, predict }
            }
            HeadKind::Own(_) | HeadKind::Several => {
                Self { classification: None, regression: None, predict: vec![named("logits", logits.into(), width)] }
            }
            HeadKind::Binary | HeadKind::MultiClass(_) => {
                let classes = Classes::of(graph, head, logits);
                let count = classes.count;
                let mut predict = vec![
                    named("logits", logits.into(), width),
                    named("probabilities", classes.scores.into(), count),
                    named("class_ids", classes.ids.into(), 1),
                    named("classes", classes.words.into(), 1),
                    named("all_class_ids", classes.all_ids.into(), count),
                    named("all_classes", classes.all.into(), count),
                ];
                let mut regression = None;
                if head.kind == HeadKind::Binary {
                    let logistic: AnyOutput = graph.sigmoid(logits).into();
                    predict.push(named("logistic", logistic, 1));
                    regression = Some((logistic, 1));
                }
                Self { classification: Some((classes.all.into(), classes.scores.into(), count)), regression, predict }
            }
        }
    }

    /// Replaces what is predicted by the model's own outputs, if it has any.
    fn with_own(mut self, outputs: Vec<(String, AnyOutput, usize)>) -> Self {
        if !outputs.is_empty() {
            self.predict = outputs;
        }
        self
    }

    /// Returns the signatures under Estimator's names, the default among them.
    fn signatures(&self, given: &impl Fn(Signature, Option<&str>) -> Signature) -> Vec<(String, Signature)> {
        let mut all = Vec::new();
        let classification =
            self.classification.map(|(classes, scores, count)| {
                given(Signature::classify(), Some("inputs"))
                    .output_of("classes", classes, &[None, Some(count)])
                    .output_of("scores", scores, &[None, Some(count)])
            });
        let regression = self.regression.map(|(output, width)| {
            given(Signature::regress(), Some("inputs")).output_of("outputs", output, &[None, Some(width)])
        });
        let predict =
            self.predict.iter().fold(given(Signature::predict(), None), |signature, (name, output, width)| {
                signature.output_of(name, *output, &[None, Some(*width)])
            });
        let default = classification.as_ref().or(regression.as_ref()).unwrap_or(&predict).clone();
        all.push((DEFAULT_SIGNATURE.to_owned(), default));
        all.extend(classification.map(|signature| ("classification".to_owned(), signature)));
        all.extend(regression.map(|signature| ("regression".to_owned(), signature)));
        all.push(("predict".to_owned(), predict));
        all
    }
}

/// The outputs of a classifier.
struct Classes {
    count: usize,
    scores: Output<f32>,
    ids: Output<i64>,
    words: Output<Text>,
    all_ids: Output<i32>,
    all: Output<Text>,
}

impl Classes {
    fn of(graph: &mut GraphBuilder, head: &Head, logits: Output<f32>) -> Self {
        let (each, count) = match head.kind {
            HeadKind::MultiClass(count) => (logits, count),
            _ => {
                let zeros = graph.sub(logits, logits);
                (graph.concat(&[zeros, logits], -1), 2)
            }
        };
        let scores = graph.softmax(each);
        let best = graph.argmax(each, -1);
        let ids = graph.expand_dims(best, -1);
        let names: Vec<String> = (0..count as i64).map(|class| head.word(class)).collect();
        let names = graph.texts(&[count], &names);
        let words = graph.gather(names, ids);
        let all = graph.repeat_rows(names, scores);
        let numbers: Vec<i32> = (0..count as i32).collect();
        let numbers = graph.constant(&[count], &numbers);
        let all_ids = graph.repeat_rows(numbers, scores);
        Self { count, scores, ids, words, all_ids, all }
    }
}
