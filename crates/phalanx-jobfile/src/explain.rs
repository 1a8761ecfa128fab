//! Maps errors to their cause in the job file.

use crate::Job;
use crate::data::Format;
use crate::head::Head;
use crate::source::Span;
use phalanx_base::{Code, Error};

impl Job {
    /// Makes an error point at its cause in the file. Errors with other causes, such as a lost server, stay unchanged.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if error.pointed_at().is_some() {
            return error;
        }
        let data = &self.inputs.data;
        match error.code() {
            _ if Head::is_about(&error) => self.explain_label(error),
            Code::DataColumn | Code::DataRow | Code::DataFormat | Code::DataMissing | Code::ShapeMismatch => {
                let named = self.named_in(&error);
                let span = named.or_else(|| self.files_in(&error)).or_else(|| data.train.span.clone());
                self.source.point_with(error, span.as_ref(), "read because of this", "correct the data or this setting")
            }
            Code::BadSetting if error.what().starts_with("not enough files") => {
                let by = data.selection.by.as_ref().and_then(|by| by.span.clone());
                let error = error.help("set by = \"rows\", or write the data into more files");
                self.source.point(error, by.as_ref(), "every trainer reads files of its own")
            }
            Code::BadSetting if error.what().ends_with("by blocks") => {
                let by = data.selection.by.as_ref().and_then(|by| by.span.clone());
                let error = error.help("set by = \"rows\", or another strategy in [train]");
                self.source.point(error, by.as_ref(), "blocks are for trainers that step by themselves")
            }
            Code::BadSetting if error.what().contains("metric") => {
                let at = &self.eval.metrics_at;
                self.source.point_with(error, Some(at), "of evaluations", "correct the list of metrics")
            }
            Code::BadSetting => match self.named_in(&error) {
                Some(span) => self.source.point_with(error, Some(&span), "this one", "correct this setting"),
                None => self.source.point_with(error, Some(&self.model.span), "of this model", "correct its settings"),
            },
            Code::StorageLocation | Code::StorageRead | Code::StorageWrite | Code::ConfigModelDir => {
                let help = "give a model_dir that this user may write to, here or with --model-dir";
                match self.model_dir.as_ref().and_then(|dir| dir.span.clone()) {
                    Some(span) => self.source.point_with(error, Some(&span), "the run directory", help),
                    // No line of the file names it.
                    None if error.next().is_none() => error.help(help),
                    None => error,
                }
            }
            Code::CheckpointMissing | Code::CheckpointMismatch | Code::CheckpointDamaged => {
                let warm = self.warm.as_ref().and_then(|warm| warm.from.span.clone());
                let dir = self.model_dir.as_ref().and_then(|dir| dir.span.clone());
                let span = self.resume.span.clone().or(warm).or(dir);
                self.source.point_with(error, span.as_ref(), "resumes from here", "choose another model_dir")
            }
            _ => error,
        }
    }

    fn explain_label(&self, error: Error) -> Error {
        let (head, data) = (&self.model.head, &self.inputs.data);
        let is_outside = error.what().contains("outside");
        let is_unknown = error.what().contains("vocabulary");
        let classes = head.classes.as_ref().and_then(|classes| classes.span.clone());
        let words = head.vocabulary.as_ref().and_then(|words| words.span.clone());
        let span = match () {
            () if is_outside => classes.or_else(|| data.label.span.clone()),
            () if is_unknown => words.or_else(|| data.label.span.clone()),
            () => data.label.span.clone(),
        };
        // The help of the head names Rust's setters; a file has keys.
        let help = match () {
            () if is_outside => Some("raise n_classes of [model], or renumber the labels"),
            () if error.what().contains("has no label vocabulary") => {
                Some("add label_vocabulary = [\"…\", \"…\"] to [model], with one word for each class")
            }
            () if is_unknown => match error.next() {
                Some(help) if help.contains("set trim") && data.format == Format::Csv => {
                    Some("it has spaces around it: set trim = true in [data]")
                }
                Some(help) if help.contains("did the data mean") => {
                    Some("add this spelling to its class: label_vocabulary = [[\"word\", \"other spelling\"], …]")
                }
                _ => Some("add the word to label_vocabulary of [model], or leave such rows out of the data"),
            },
            () => None,
        };
        let label = if is_outside { "number of classes" } else { "the label" };
        let error = match help {
            Some(help) => error.help(help),
            None => error,
        };
        self.source.point_with(error, span.as_ref(), label, "name the label column in `label` of [data]")
    }

    /// The position of the first input or column whose name the error quotes.
    pub(crate) fn named_in(&self, error: &Error) -> Option<Span> {
        let text = format!("{error} {}", error.place().unwrap_or_default());
        let quoted = |name: &str| text.contains(&format!("{name:?}"));
        let data = &self.inputs.data;
        let listed = data.defaults.iter().map(|(name, _)| name).chain(data.types.iter().map(|(name, _)| name));
        if let Some(name) = listed.chain(&data.required).find(|name| quoted(&name.value)) {
            return name.span.clone();
        }
        let selectors = data.selectors(Some(phalanx_data::SplitPart::Train), &[]);
        let inputs = self.columns.iter().flat_map(|named| &named.inputs);
        if let Some(input) = inputs.chain(&selectors).find(|input| quoted(&input.value)) {
            return input.span.clone();
        }
        let of_name = |column: &phalanx_feature::FeatureColumn| quoted(&column.name());
        let column = self.columns.iter().find(|named| quoted(&named.name) || named.columns.iter().any(of_name));
        let weight = self.model.head.weight_column.as_ref().filter(|name| quoted(&name.value));
        let label = Some(&data.label).filter(|label| quoted(&label.value));
        column.map(|named| named.span.clone()).or_else(|| weight.or(label).and_then(|name| name.span.clone()))
    }

    /// The position of the file list that the error refers to.
    fn files_in(&self, error: &Error) -> Option<Span> {
        let text = format!("{error} {}", error.place().unwrap_or_default());
        let data = &self.inputs.data;
        let is_named = |file: &String| {
            let name = file.rsplit('/').next().unwrap_or(file);
            !name.contains('*') && text.contains(name)
        };
        match () {
            () if data.eval.value.iter().any(is_named) && !data.train.value.iter().any(is_named) => {
                data.eval.span.clone()
            }
            () => data.train.span.clone(),
        }
    }
}
