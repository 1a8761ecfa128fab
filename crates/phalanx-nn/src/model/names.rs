//! Keras' names of layers.

use super::graph::Node;
use phalanx_base::{Code, Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// `MaxPooling2D` becomes `max_pooling2d`.
pub(crate) fn snake_case(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let mut name = String::with_capacity(kind.len() + 4);
    for (i, &letter) in letters.iter().enumerate() {
        if i > 0 && letter.is_ascii_uppercase() {
            let begins = letters.get(i + 1).is_some_and(|next| next.is_ascii_lowercase() || next.is_ascii_digit());
            if begins || letters[i - 1].is_ascii_lowercase() {
                name.push('_');
            }
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Returns a name for each layer: the given one, or its kind with a number. Inputs are numbered from 1, other layers get
/// no number for the first: `dense`, `dense_1`. Keras numbers layers in the order of their creation in the program; here it
/// is the order of the graph, in which each input of a layer precedes the next.
pub(crate) fn names(layers: &[&Arc<Node>]) -> Result<Vec<String>> {
    let mut taken = HashSet::new();
    for name in layers.iter().filter_map(|node| node.own_name()) {
        if !taken.insert(name.to_owned()) {
            return Err(Error::new(Code::BadSetting, format!("two layers are called {name:?}"))
                .because("weights are found by the name of their layer")
                .help("give one of them another name, or call one layer twice to share its weights"));
        }
        if name.is_empty() || name.contains('/') {
            return Err(Error::new(Code::BadSetting, format!("a layer is called {name:?}"))
                .because("a name must not be empty or contain a slash"));
        }
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut made = |kind: &str, first: usize| loop {
        let base = snake_case(kind);
        let count = counts.entry(base.clone()).or_insert(first);
        let name = if *count == 0 { base } else { format!("{base}_{count}") };
        *count += 1;
        if !taken.contains(&name) {
            break name;
        }
    };
    Ok(layers
        .iter()
        .map(|node| match (node.own_name(), node.layer()) {
            (Some(name), _) => name.to_owned(),
            (None, Some(layer)) => made(layer.kind(), 0),
            (None, None) => made("Input", 1),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn kinds_become_names_as_in_keras() {
        for (kind, name) in [
            ("Dense", "dense"),
            ("Conv2D", "conv2d"),
            ("MaxPooling2D", "max_pooling2d"),
            ("GlobalAveragePooling2D", "global_average_pooling2d"),
            ("BatchNormalization", "batch_normalization"),
            ("LSTMCell", "lstm_cell"),
        ] {
            assert_eq!(super::snake_case(kind), name);
        }
    }
}
