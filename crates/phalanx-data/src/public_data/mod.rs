//! Public data sets that examples train on: the published files of a folder, or synthetic rows of the same shape.

mod images;
mod people;

use crate::{Batch, Dataset, SourceExt, csv, mnist_test, mnist_train};
use phalanx_base::Result;
use std::path::Path;
use std::sync::{Arc, Once};

/// How many rows of synthetic data are made at a time.
const CHUNK: u64 = 1000;

/// Returns the training and the test images of MNIST or Fashion-MNIST: `image` is float32 of shape 28 × 28 between 0 and 1,
/// `label` int64.
///
/// They are read from the four published files in `folder`. Without a folder they are as many synthetic images of ten classes:
/// patterns that are shifted and noisy. One label in twenty is random, so no model gets far above an accuracy of 0.955. The
/// first pass logs that the images are synthetic.
///
/// ```
/// let [train, test] = phalanx_data::mnist(None);
/// let batch = train.batch(32).iter()?.next().unwrap()?;
/// assert_eq!(batch.column("image")?.row_shape(), [28, 28]);
/// assert!(batch.i64("label")?.iter().all(|label| (0..10).contains(label)));
/// assert_eq!(test.batch(1000).iter()?.count(), 10);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// A folder without the files is an error of the first pass, which names the command that downloads them.
#[must_use]
pub fn mnist(folder: Option<&Path>) -> [Dataset; 2] {
    let Some(folder) = folder else {
        let what = "60,000 and 10,000 synthetic images of MNIST's shape";
        return synthetic(what, "mnist", [60_000, 10_000], images::images);
    };
    [mnist_train(folder), mnist_test(folder)].map(|part| part.scaled("image").dataset())
}

/// Returns the training and the test rows of the census of 1994 (UCI's Adult): numbers as int64, words as bytes. The label
/// is `income`, `<=50K` or `>50K`; in the published test file a period follows it.
///
/// They are read from `adult.data` and `adult.test` in `folder`. Without a folder they are as many synthetic people, whose income
/// depends on their age, education, marriage, occupation, hours and capital; about a quarter earns more than 50K. The first
/// pass logs that they are synthetic.
///
/// ```
/// let [train, _] = phalanx_data::census(None);
/// let batch = train.batch(128).iter()?.next().unwrap()?;
/// assert!(batch.i64("age")?.iter().all(|age| (17..=90).contains(age)));
/// assert!(batch.bytes("income")?.iter().all(|income| income == b">50K" || income == b"<=50K"));
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// A folder without the files is an error of the first pass, which names the command that downloads them.
#[must_use]
pub fn census(folder: Option<&Path>) -> [Dataset; 2] {
    let Some(folder) = folder else {
        let what = "32,561 and 16,281 synthetic people of the census' columns";
        return synthetic(what, "census", [32_561, 16_281], people::people);
    };
    ["adult.data", "adult.test"].map(|file| {
        // The first line of the published test file begins with a bar.
        let rows = csv(folder.join(file)).names(people::NAMES).header(false).trim(true).comment(b'|');
        rows.label("income").dataset()
    })
}

/// Makes two data sets of a function from a seed, a first row and a number of rows, and logs once that they are synthetic.
fn synthetic(
    what: &'static str,
    fetch: &'static str,
    rows: [u64; 2],
    make: fn(u64, u64, u64) -> Result<Batch>,
) -> [Dataset; 2] {
    let logged = Arc::new(Once::new());
    [(1, rows[0]), (2, rows[1])].map(|(seed, rows)| {
        let logged = Arc::clone(&logged);
        Dataset::from_fn(move || {
            logged.call_once(|| {
                tracing::info!(
                    "no data directory was given: this trains on {what}; `phalanx data fetch {fetch} --dir DIR` \
                     downloads the real ones"
                );
            });
            (0..rows).step_by(CHUNK as usize).map(move |first| make(seed, first, CHUNK.min(rows - first)))
        })
    })
}

/// Returns the name of the public data set that has a file of this name, as `phalanx data fetch` calls it.
pub(crate) fn data_set_of(file: &str) -> Option<&'static str> {
    match file.trim_end_matches(".gz") {
        "adult.data" | "adult.test" => Some("census"),
        "train-images-idx3-ubyte" | "train-labels-idx1-ubyte" | "t10k-images-idx3-ubyte" | "t10k-labels-idx1-ubyte" => {
            Some("mnist")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Code;

    #[test]
    fn the_same_rows_on_every_pass_and_other_rows_in_the_test_set() {
        let rows = |data: &Dataset| data.clone().take(50).batch(50).iter().unwrap().next().unwrap().unwrap();
        for [train, test] in [mnist(None), census(None)] {
            assert_eq!(rows(&train), rows(&train));
            assert_ne!(rows(&train), rows(&test));
        }
    }

    #[test]
    fn a_folder_without_the_files_is_an_error_that_names_the_command() {
        let empty = tempfile::tempdir().unwrap();
        for ([train, test], command) in [
            (mnist(Some(empty.path())), "phalanx data fetch mnist"),
            (census(Some(empty.path())), "phalanx data fetch census"),
        ] {
            for data in [train, test] {
                let error = data.batch(10).iter().and_then(|mut rows| rows.next().transpose()).unwrap_err();
                assert_eq!(error.code(), Code::DataMissing, "{error}");
                assert!(error.next().is_some_and(|help| help.contains(command)), "{error}");
            }
        }
    }

    #[test]
    fn published_files_are_read_with_their_oddities() {
        let folder = tempfile::tempdir().unwrap();
        let row = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K";
        std::fs::write(folder.path().join("adult.data"), format!("{row}\n\n")).unwrap();
        std::fs::write(folder.path().join("adult.test"), format!("|1x3 Cross validator\n{row}.\n")).unwrap();
        for (data, income) in census(Some(folder.path())).into_iter().zip(["<=50K", "<=50K."]) {
            let batch = data.batch(10).iter().unwrap().next().unwrap().unwrap();
            assert_eq!((batch.rows(), batch.i64("hours_per_week").unwrap()), (1, &[40][..]));
            assert_eq!(batch.bytes("income").unwrap().iter().next(), Some(income.as_bytes()));
        }
    }
}
