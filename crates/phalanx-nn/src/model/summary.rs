//! Keras' table of a model's layers.

use super::functional::Model;
use super::weights::Weight;

impl Model {
    /// Returns Keras' table of layers, output shapes and numbers of parameters, and of connections unless the model is a chain.
    /// Lines have `width` characters; the default is Keras' 65, or 98 with connections.
    ///
    /// ```
    /// use phalanx_nn::model::{Dense, Sequential};
    /// let model = Sequential::new().add(Dense::new(10)).build([784])?;
    /// assert!(model.summary(None).contains(" dense (Dense)               (None, 10)                7850      \n"));
    /// # Ok::<(), phalanx_nn::model::Error>(())
    /// ```
    #[must_use]
    pub fn summary(&self, width: Option<usize>) -> String {
        let chain = self.form.style.sequential || self.form.chain;
        let width = width.unwrap_or(if chain { 65 } else { 98 });
        let shares: &[f64] = if chain { &[0.45, 0.85, 1.0] } else { &[0.3, 0.6, 0.7, 1.0] };
        let ends: Vec<usize> = shares.iter().map(|share| (width as f64 * share) as usize).collect();
        let titles = ["Layer (type)", "Output Shape", "Param #", "Connected to"];
        let titles = titles[..ends.len()].iter().map(|&title| title.to_owned()).collect();
        let mut text = format!("Model: \"{}\"\n{}\n", self.form.style.name, "_".repeat(width));
        push_row(&mut text, titles, &ends);
        text += &format!("{}\n", "=".repeat(width));
        for layer in 0..self.form.layers.len() {
            let placed = &self.form.layers[layer];
            if self.form.style.sequential && placed.layer.is_none() {
                continue;
            }
            let kind = placed.layer.as_ref().map_or("InputLayer", |layer| layer.kind());
            let count: usize = self.weights[layer].iter().map(|weight| weight.shape.elements()).sum();
            let mut fields = vec![format!("{} ({kind})", placed.name), self.output_shape(layer), count.to_string()];
            if !chain {
                fields.push(self.connections(layer));
            }
            push_row(&mut text, fields, &ends);
            text += &format!("{}\n", " ".repeat(width));
        }
        text += &format!("{}\n", "=".repeat(width));
        let weights = || self.weights.iter().flatten();
        text += &total("Total", weights());
        text += &total("Trainable", weights().filter(|weight| weight.trainable));
        text += &total("Non-trainable", weights().filter(|weight| !weight.trainable));
        text + &format!("{}\n", "_".repeat(width))
    }

    /// A Python tuple; in a list for an input, and `multiple` if calls of a shared layer differ.
    fn output_shape(&self, layer: usize) -> String {
        let mut calls = self.form.steps.iter().filter(|step| step.layer == layer).map(|step| &step.dims);
        let Some(first) = calls.next() else { return "?".to_owned() };
        if calls.any(|dims| dims != first) {
            return "multiple".to_owned();
        }
        let dims: Vec<String> = first.iter().map(usize::to_string).collect();
        let tuple = if dims.is_empty() { "(None,)".to_owned() } else { format!("(None, {})", dims.join(", ")) };
        if self.form.layers[layer].layer.is_none() { format!("[{tuple}]") } else { tuple }
    }

    /// A Python list of the inputs of the layer's calls.
    fn connections(&self, layer: usize) -> String {
        let mut calls: Vec<_> = self.form.steps.iter().filter(|step| step.layer == layer).collect();
        calls.sort_by_key(|step| step.call);
        let taken: Vec<String> = calls
            .iter()
            .flat_map(|step| &step.inputs)
            .map(|&(from, _)| {
                let from = &self.form.steps[from];
                format!("'{}[{}][0]'", self.form.layers[from.layer].name, from.call)
            })
            .collect();
        format!("[{}]", taken.join(", "))
    }
}

/// Appends a row, over as many lines as its longest field needs.
fn push_row(text: &mut String, fields: Vec<String>, ends: &[usize]) {
    let mut left: Vec<Vec<char>> = fields.iter().map(|field| field.chars().collect()).collect();
    while left.iter().any(|field| !field.is_empty()) {
        let mut line: Vec<char> = Vec::new();
        for (column, field) in left.iter_mut().enumerate() {
            let begin = if column == 0 { 0 } else { ends[column - 1] };
            let last = column + 1 == ends.len();
            // Two spaces separate the columns, and the first column is indented by one. A line takes at least one character.
            let capacity = (ends[column] - begin).saturating_sub(if last { 0 } else { 3 }).max(1);
            let cut = break_after(&field[..capacity.min(field.len())]).unwrap_or(capacity).min(field.len());
            if column == 0 {
                line.push(' ');
            }
            line.extend(field.drain(..cut));
            line.extend(if last { "" } else { "  " }.chars());
            line.resize(line.len().max(ends[column]), ' ');
        }
        text.extend(line);
        text.push('\n');
    }
}

/// Keras breaks a line after the first end of a tuple, a list or a name.
fn break_after(field: &[char]) -> Option<usize> {
    field.windows(2).position(|pair| pair[1] == ',' && ")}]'".contains(pair[0])).map(|at| at + 2)
}

fn total<'a>(what: &str, weights: impl Iterator<Item = &'a Weight>) -> String {
    let count: usize = weights.map(|weight| weight.shape.elements()).sum();
    let mut size = count as f64 * 4.0;
    let units = ["Byte", "KB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{what} params: {count} ({size:.2} {})\n", units[unit])
}
