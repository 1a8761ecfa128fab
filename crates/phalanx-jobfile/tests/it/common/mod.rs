//! A small job on synthetic data.

#![allow(dead_code)]

use phalanx_base::Result;
use phalanx_jobfile::{Done, Job, Overrides, PredictOptions, TrainedJob, rows_json};
use std::path::Path;

/// A table of people: `y` is yes if age plus pay exceeds 90.
pub(crate) fn write_data(folder: &Path) {
    for (name, from, rows) in [("train.csv", 0, 600_u64), ("test.csv", 7_000, 200)] {
        let mut text = String::from("age,pay,city,job,name,y\n");
        for i in from..from + rows {
            // Evenly spread pseudorandom numbers.
            let draw = |salt: u64, of: u64| (i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(salt) >> 33) % of;
            let (age, pay) = (18 + draw(1, 60), draw(2, 100));
            let (city, job) = (["berlin", "oslo", "rome"][draw(3, 3) as usize], ["cook", "clerk"][draw(4, 2) as usize]);
            let yes = age + pay > 90;
            text += &format!("{age},{pay}.5,{city},{job},n{i},{}\n", if yes { "yes" } else { "no" });
        }
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// A wide & deep job on the table.
pub(crate) const JOB: &str = r#"# A job for tests.
seed = 3

[data]
train = "train.csv"
eval = "test.csv"
label = "y"

[columns]
age = { kind = "numeric", normalizer = { divide = 50.0 } }
pay = { kind = "numeric", normalizer = { subtract = 50.0, divide = 50.0 } }
age_group = { kind = "bucketized", key = "age", boundaries = [30, 45, 60] }
city = { kind = "vocabulary_list", vocabulary_list = ["berlin", "oslo", "rome"] }
job = { kind = "hash_bucket", hash_bucket_size = 20 }
age_x_city = { kind = "crossed", keys = [{ column = "age_group" }, "city"], hash_bucket_size = 50 }
city_onehot = { kind = "indicator", column = "city" }
job_vector = { kind = "embedding", column = "job", dimension = 4 }

[model]
kind = "dnn_linear_combined_classifier"
linear_columns = ["age_group", "city", "job", "age_x_city"]
dnn_columns = ["age", "pay", "city_onehot", "job_vector"]
hidden_units = [16, 8]
label_vocabulary = ["no", "yes"]
linear_optimizer = { name = "ftrl", learning_rate = 0.1 }
dnn_optimizer = { name = "adagrad", learning_rate = 0.1 }

[train]
max_steps = 200
batch_size = 32
shuffle = 600
log_step_count_steps = 0

[eval]
batch_size = 100
steps = "all"
start_delay_secs = 0
throttle_secs = 0

[[export]]
name = "final"
"#;

pub(crate) fn job(folder: &Path, text: &str, model_dir: &str) -> Job {
    let path = folder.join("job.toml");
    std::fs::write(&path, text).unwrap();
    let model_dir = Some(folder.join(model_dir).to_string_lossy().into_owned());
    let read = Job::read(&path, Overrides { model_dir, ..Overrides::default() });
    read.unwrap_or_else(|error| panic!("{}", error.report()))
}

pub(crate) fn train(folder: &Path, text: &str, model_dir: &str) -> Done {
    well(job(folder, text, model_dir).train())
}

pub(crate) fn well<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}", error.report()))
}

pub(crate) fn predictions(path: &Path, input: &Path) -> Vec<String> {
    let trained = well(TrainedJob::find(path));
    let job = well(trained.job(Overrides::default()));
    let mut rows = Vec::new();
    well(job.predict(&trained, &input.to_string_lossy(), &PredictOptions::default(), |batch| {
        rows.extend(rows_json(batch).map(|row| row.to_string()));
        Ok(())
    }));
    rows
}

/// The only export under a folder.
pub(crate) fn export(base: &Path) -> std::path::PathBuf {
    let mut found: Vec<_> = std::fs::read_dir(base).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}
