//! The signatures of exported models, under Estimator's names.

use super::{Served, ServingInput};
use crate::Head;
use crate::head::HeadKind;
use phalanx_base::{Result, Shape};
use phalanx_formats::saved_model::{AnyOutput, DEFAULT_SIGNATURE, GraphBuilder, Output, SavedModel, Signature, Text};

/// Returns the model with its signatures, and their names.
pub(super) fn with_signatures(head: &Head, served: Served, input: ServingInput) -> Result<(SavedModel, Vec<String>)> {
    let Served { mut graph, logits, placeholders } = served;
    let mut signatures: Vec<(&str, Signature)> = Vec::new();
    let given = |mut signature: Signature, name: Option<&str>| {
        for (own, placeholder) in &placeholders {
            signature = signature.input(name.unwrap_or(own), *placeholder);
        }
        signature
    };
    let predict = given(Signature::predict(), None);
    let width = head.logits_dimension();
    match head.kind {
        HeadKind::Regression(_) => {
            let regress = given(Signature::regress(), Some("inputs"));
            let regress = regress.output_of("outputs", logits, &[None, Some(width)]);
            signatures.push((DEFAULT_SIGNATURE, regress.clone()));
            signatures.push(("regression", regress));
            signatures.push(("predict", predict.output_of("predictions", logits, &[None, Some(width)])));
        }
        HeadKind::Binary | HeadKind::MultiClass(_) => {
            let classes = Classes::of(&mut graph, head, logits);
            let count = classes.count;
            let classify = given(Signature::classify(), Some("inputs"))
                .output_of("classes", classes.all, &[None, Some(count)])
                .output_of("scores", classes.scores, &[None, Some(count)]);
            signatures.push((DEFAULT_SIGNATURE, classify.clone()));
            signatures.push(("classification", classify));
            let mut predict = predict
                .output_of("logits", logits, &[None, Some(width)])
                .output_of("probabilities", classes.scores, &[None, Some(count)])
                .output_of("class_ids", classes.ids, &[None, Some(1)])
                .output_of("classes", classes.words, &[None, Some(1)])
                .output_of("all_class_ids", classes.all_ids, &[None, Some(count)])
                .output_of("all_classes", classes.all, &[None, Some(count)]);
            if head.kind == HeadKind::Binary {
                let logistic = graph.sigmoid(logits);
                let regress = given(Signature::regress(), Some("inputs"));
                signatures.push(("regression", regress.output_of("outputs", logistic, &[None, Some(1)])));
                predict = predict.output_of("logistic", logistic, &[None, Some(1)]);
            }
            signatures.push(("predict", predict));
        }
    }
    // No signature uses it, but warm starts from the export read it.
    let _: AnyOutput = graph.untrained_variable::<i64>("global_step", &Shape::new([])?).into();
    if input == ServingInput::Raw {
        // Only `predict` takes raw tensors. Estimator drops the others, which leaves no default.
        signatures.retain(|(name, _)| *name == "predict");
        let default = signatures.iter().map(|(_, signature)| (DEFAULT_SIGNATURE, signature.clone())).next();
        signatures.extend(default);
    }
    let names = signatures.iter().map(|(name, _)| (*name).to_owned()).collect();
    let model = SavedModel::new(graph);
    Ok((signatures.into_iter().fold(model, |model, (name, signature)| model.signature(name, signature)), names))
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
