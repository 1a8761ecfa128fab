//! The tutorial's data: three of seven words, and whether an avenger is among them.

use phalanx::data::{Batch, Column, Dataset};
use phalanx::feature_column::{PreprocessingLayer, StringLookup};
use phalanx_base::SplitMix;

const WORDS: [&str; 7] = ["avenger", "ironman", "batman", "hulk", "spiderman", "kingkong", "wonder_woman"];

/// One index per word, and one for unknown words.
pub(crate) const INDICES: usize = WORDS.len() + 1;

/// Returns `examples` rows, looked up: `features` are indices, `label` is 0 for yes and 1 for no.
pub(crate) fn dataset(examples: usize, seed: u64) -> phalanx::Result<Dataset> {
    let (mut random, mut features, mut labels) = (SplitMix::new(seed), Vec::new(), Vec::new());
    for _ in 0..examples {
        let mut left = WORDS.to_vec();
        let three = [(); 3].map(|()| left.swap_remove(random.below(left.len())));
        labels.push(if three.contains(&"avenger") { "yes" } else { "no" });
        features.extend(three);
    }
    let raw = Batch::new([("features", Column::text(features).with_row_shape([3])?), ("label", Column::text(labels))])?;
    let words = StringLookup::new().vocabulary(WORDS)?;
    let answers = StringLookup::new().num_oov_indices(0).vocabulary(["yes", "no"])?;
    Ok(Dataset::from_tensor_slices(raw).map(move |row| answers.apply(&words.apply(&row, "features")?, "label")))
}
