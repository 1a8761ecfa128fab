//! The head settings of a model.

use crate::section::Section;
use crate::source::Spanned;
use crate::tree::{Node, TomlValue};
use phalanx_base::{Code, Error, Result};
use phalanx_estimator::{EvalMetric, Reduction};

/// The head settings: classes or regression, labels, weights and loss reduction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// `None` for a regression.
    pub(crate) classes: Option<Spanned<usize>>,
    /// The spellings of each class; the first is its name.
    pub(crate) vocabulary: Option<Spanned<Vec<Vec<String>>>>,
    pub(crate) weight_column: Option<Spanned<String>>,
    pub(crate) label_dimension: usize,
    pub(crate) poisson: bool,
    pub(crate) thresholds: Vec<f32>,
    pub(crate) reduction: Option<Reduction>,
    /// Of `[eval]`.
    pub(crate) eval_metrics: Vec<EvalMetric>,
    pub(crate) group_by: Option<String>,
}

impl Head {
    pub(crate) fn read(own: &Section<'_>) -> Result<Self> {
        let weight_column = own.text("weight_column")?;
        let words = [("sum_over_batch_size", Reduction::SumOverBatchSize), ("sum", Reduction::Sum)];
        let reduction = own.choice("loss_reduction", &words)?.map(|found| found.value);
        let mut head = Self { weight_column, reduction, label_dimension: 1, ..Self::default() };
        if own.may_have("label_dimension") {
            head.label_dimension = own.count("label_dimension", 1)?.map_or(1, |count| count.value as usize);
            head.poisson =
                own.choice("head", &[("regression", false), ("poisson", true)])?.is_some_and(|head| head.value);
            return Ok(head);
        }
        if !own.may_have("n_classes") {
            // A regression of one number.
            return Ok(head);
        }
        head.vocabulary = vocabulary(own)?;
        let words = head.vocabulary.as_ref().map(|words| words.value.len());
        let given = own.count("n_classes", 2)?;
        if let (Some(words), Some(given)) = (words, &given)
            && given.value != words as u64
        {
            let what = format!("there are {} classes but {words} words in the vocabulary", given.value);
            let error = own.wrong(&own.span_of("label_vocabulary"), what, format!("{words} words"));
            return Err(error.help("give one word for each class, or leave n_classes out"));
        }
        head.classes = Some(match given {
            Some(given) => given.map(|classes| classes as usize),
            None => Spanned {
                value: words.unwrap_or(2),
                span: head.vocabulary.as_ref().and_then(|words| words.span.clone()),
            },
        });
        if let Some(list) = own.numbers("thresholds")? {
            if let Some(wrong) = list.value.iter().find(|number| !(number.value > 0.0 && number.value < 1.0)) {
                let what = format!("a threshold of {}", wrong.value);
                let error = own.wrong(&wrong.span_or(&own.span), what, "not a probability");
                return Err(error.help("give numbers between 0 and 1"));
            }
            head.thresholds = list.value.iter().map(|number| number.value as f32).collect();
        }
        Ok(head)
    }

    /// Whether an error is about the label of a batch.
    pub(crate) fn is_about(error: &Error) -> bool {
        let is_row = matches!(error.code(), Code::DataRow) && error.what().contains("label");
        is_row || error.place().is_some_and(|place| place.ends_with("the label of the input"))
    }
}

fn vocabulary(own: &Section<'_>) -> Result<Option<Spanned<Vec<Vec<String>>>>> {
    let Some(list) = own.list("label_vocabulary")? else { return Ok(None) };
    let word = |node: &Node| match &node.value {
        TomlValue::List(items) if !items.is_empty() => {
            items.iter().map(|item| Ok(own.as_text("label_vocabulary", item)?.value)).collect()
        }
        _ => Ok(vec![own.as_text("label_vocabulary", node)?.value]),
    };
    let words: Vec<Vec<String>> = list.value.iter().map(word).collect::<Result<_>>()?;
    if words.len() < 2 {
        let what = format!("a label vocabulary of {} words", words.len());
        return Err(own.wrong(&own.span_of("label_vocabulary"), what, "too few").help("give a word for each class"));
    }
    Ok(Some(Spanned { value: words, span: list.span }))
}
