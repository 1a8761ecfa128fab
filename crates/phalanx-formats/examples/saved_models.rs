//! Writes SavedModels of several kinds into folders under DIR; `tests/tf/test_saved_model.py` has TensorFlow serve them.
//!
//! ```text
//! saved_models DIR
//! ```
//!
//! Every value of a variable follows from its place and from the variable's name, so that no two are alike.

use phalanx_base::{Code, Context, Error, Result, Shape};
use phalanx_formats::bundle::Dtype;
use phalanx_formats::saved_model::{
    CROSS_HASH_KEY, Combiner, DEFAULT_SIGNATURE, Directory, ExampleFeatures, GraphBuilder, Normalization, Output,
    Padding, SavedModel, SavedModelWriter, Signature, Text, VariableSpec, VariableValues,
};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A folder on disk.
struct Folder(PathBuf);

impl Directory for Folder {
    type File<'a> = BufWriter<File>;

    fn create(&mut self, path: &str) -> Result<BufWriter<File>> {
        let path = self.0.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| File::create(&path));
        made.map(BufWriter::new).context(Code::StorageWrite, format!("cannot create {}", path.display()))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [dir] => write_all(Path::new(dir)),
        _ => Err(Error::new(Code::Flags, "usage: saved_models DIR")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("{}", error.report());
            ExitCode::from(error.exit_code())
        }
    }
}

fn write_all(dir: &Path) -> Result<()> {
    let models = [
        ("mlp", mlp()?),
        ("cnn", cnn()?),
        ("embedding", embedding()?),
        ("examples", examples()?),
        ("columns", columns()?),
        ("activations", activations()),
    ];
    for (name, model) in models {
        SavedModelWriter::new(Folder(dir.join(name))).write(model, |variable| Ok(values(variable)))?;
    }
    let mut writer = SavedModelWriter::new(Folder(dir.join("vocabulary")));
    writer.asset("words.txt", &b"red\ngreen\nblue\n"[..])?;
    writer.write(vocabulary(), |variable| Ok(values(variable)))?;
    Ok(())
}

/// Numbers between -1 and 1; positive for variances.
fn values(variable: &VariableSpec) -> VariableValues<'static> {
    if variable.dtype == Dtype::I64 {
        return vec![1200_i64; variable.shape.elements()].into();
    }
    let seed: usize = variable.name.bytes().map(usize::from).sum();
    let number = |i: usize| ((i * 37 + seed * 11) % 199) as f32 / 100.0 - 0.99;
    let numbers = (0..variable.shape.elements()).map(number);
    if variable.name.ends_with("variance") {
        return numbers.map(|number| number + 1.2).collect::<Vec<f32>>().into();
    }
    numbers.collect::<Vec<f32>>().into()
}

fn dense(graph: &mut GraphBuilder, name: &str, x: Output<f32>, sizes: [usize; 2]) -> Result<Output<f32>> {
    let kernel = graph.variable(&format!("{name}/kernel"), &Shape::new(sizes)?);
    let bias = graph.variable(&format!("{name}/bias"), &Shape::new([sizes[1]])?);
    Ok(graph.scope(name, |graph| graph.dense(x, kernel, Some(bias))))
}

fn mlp() -> Result<SavedModel> {
    let mut graph = GraphBuilder::new();
    let x = graph.placeholder::<f32>("x", &[None, Some(4)]);
    let hidden = dense(&mut graph, "hidden", x, [4, 8])?;
    let hidden = graph.relu(hidden);
    let logits = dense(&mut graph, "logits", hidden, [8, 3])?;
    let probabilities = graph.softmax(logits);
    let probabilities = graph.named("probabilities", probabilities);
    let class = graph.argmax(logits, 1);
    let signature = Signature::predict().input("x", x).output_of("probabilities", probabilities, &[None, Some(3)]);
    let more = Signature::predict().input("x", x).output("logits", logits).output("class", class);
    Ok(SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature).signature("more", more))
}

fn conv(graph: &mut GraphBuilder, name: &str, x: Output<f32>, dims: [usize; 4], stride: usize) -> Result<Output<f32>> {
    let kernel = graph.variable(&format!("{name}/kernel"), &Shape::new(dims)?);
    let bias = graph.variable(&format!("{name}/bias"), &Shape::new([dims[3]])?);
    let padding = if stride == 1 { Padding::Same } else { Padding::Valid };
    let y = graph.conv2d(x, kernel, [stride, stride], padding);
    Ok(graph.bias_add(y, bias))
}

fn cnn() -> Result<SavedModel> {
    let mut graph = GraphBuilder::new();
    let images = graph.placeholder::<f32>("images", &[None, Some(9), Some(9), Some(2)]);
    let x = conv(&mut graph, "first", images, [3, 3, 2, 4], 1)?;
    let four = Shape::new([4])?;
    let norm = Normalization {
        gamma: Some(graph.variable("norm/gamma", &four)),
        beta: Some(graph.variable("norm/beta", &four)),
        mean: graph.untrained_variable("norm/moving_mean", &four),
        variance: graph.untrained_variable("norm/moving_variance", &four),
    };
    let x = graph.batch_norm(x, &norm, 1e-3);
    let x = graph.relu(x);
    let x = graph.max_pool(x, [2, 2], [2, 2], Padding::Same);
    let x = conv(&mut graph, "second", x, [2, 2, 4, 3], 2)?;
    let x = graph.avg_pool(x, [2, 2], [1, 1], Padding::Same);
    let apart = graph.variable("apart/kernel", &Shape::new([2, 2, 3, 3])?);
    let x = graph.dilated_conv2d(x, apart, [1, 1], [2, 2], Padding::Same);
    let flat = graph.reshape(x, &[-1, 12]);
    let mean = graph.mean(x, &[1, 2], false);
    let both = graph.concat(&[flat, mean], 1);
    let y = dense(&mut graph, "logits", both, [15, 5])?;
    let signature = Signature::predict().input("images", images).output_of("logits", y, &[None, Some(5)]);
    Ok(SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature))
}

fn embedding() -> Result<SavedModel> {
    let mut graph = GraphBuilder::new();
    let ids = graph.placeholder::<i64>("ids", &[None, Some(3)]);
    let numbers = graph.placeholder::<f32>("numbers", &[None, Some(2)]);
    let table = graph.variable("items/embeddings", &Shape::new([50, 4])?);
    let items = graph.gather(table, ids);
    let likeness = graph.batch_matmul(items, items, false, true);
    let (items, likeness) = (graph.reshape(items, &[-1, 12]), graph.reshape(likeness, &[-1, 9]));
    let x = graph.concat(&[items, numbers, likeness], -1);
    let size = Shape::new([23])?;
    let (gamma, beta) = (graph.variable("norm/gamma", &size), graph.variable("norm/beta", &size));
    let x = graph.layer_norm(x, Some(gamma), Some(beta), 1e-3);
    let y = dense(&mut graph, "score", x, [23, 1])?;
    let y = graph.squeeze(y, &[1]);
    let step = graph.untrained_variable::<i64>("global_step", &Shape::new([])?);
    let signature = Signature::predict().input("ids", ids).input("numbers", numbers);
    let signature = signature.output_of("score", y, &[None]).output_of("step", step, &[]);
    Ok(SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature))
}

/// A binary classifier of serialized Examples, with the signatures that Estimator gives it.
fn examples() -> Result<SavedModel> {
    let mut graph = GraphBuilder::new();
    let serialized = graph.placeholder::<Text>("input_example_tensor", &[None]);
    let mut features = ExampleFeatures::new();
    let average = graph.constant(&[1], &[40.0_f32]);
    let age = features.required::<f32>("age", &[1]);
    let hours = features.optional::<f32>("hours", &[1], average);
    let job = features.required::<Text>("job", &[1]);
    let country = features.required::<Text>("country", &[1]);
    let tags = features.sparse::<Text>("tags");
    let clicks = features.sparse::<i64>("clicks");
    let parsed = graph.parse_example(serialized, &features);
    let (age, hours) = (parsed.dense(age), parsed.dense(hours));
    let (tags, clicks) = (parsed.sparse(tags), parsed.sparse(clicks));

    let buckets = graph.bucketize(age, &[20.0, 40.0, 60.0]);
    let buckets = graph.one_hot(buckets, 4);
    let buckets = graph.reshape(buckets, &[-1, 4]);
    let jobs = graph.hash_bucket(parsed.dense(job), 10);
    let table = graph.variable("jobs/embedding_weights", &Shape::new([10, 2])?);
    let jobs = graph.gather(table, jobs);
    let jobs = graph.reshape(jobs, &[-1, 2]);
    let (keys, numbers) = (graph.texts(&[3], &["DE", "FR", "JP"]), graph.constant(&[3], &[0_i64, 1, 2]));
    let countries = graph.table(keys, numbers);
    let countries = graph.lookup_or_hash(countries, parsed.dense(country), 3, 2);
    let countries = graph.one_hot(countries, 5);
    let countries = graph.reshape(countries, &[-1, 5]);
    let hashed = graph.hash_bucket(tags.values, 20);
    let table = graph.variable("tags/embedding_weights", &Shape::new([20, 3])?);
    let tags: Vec<_> = [Combiner::Sum, Combiner::Mean, Combiner::SqrtN]
        .into_iter()
        .map(|combiner| graph.embedding_bag(table, tags.with_values(hashed), combiner))
        .collect();
    let none = graph.scalar(-1_i64);
    let clicks = graph.to_dense(clicks, none);
    let clicks = graph.one_hot(clicks, 4);
    let clicks = graph.sum(clicks, &[1], false);
    let x = graph.concat(&[age, hours, buckets, jobs, countries, tags[0], tags[1], tags[2], clicks], 1);
    let kernel = graph.variable("linear/kernel", &Shape::new([26, 1])?);
    let scale = graph.scalar(0.1_f32);
    let kernel = graph.mul(kernel, scale);
    let logits = graph.matmul(x, kernel);
    Ok(head(graph, serialized, logits))
}

fn head(mut graph: GraphBuilder, serialized: Output<Text>, logits: Output<f32>) -> SavedModel {
    let logistic = graph.sigmoid(logits);
    let zeros = graph.sub(logits, logits);
    let two = graph.concat(&[zeros, logits], -1);
    let scores = graph.softmax(two);
    let names = graph.constant(&[2], &[0_i64, 1]);
    let names = graph.as_string(names);
    let classes = graph.repeat_rows(names, scores);
    let ids = graph.argmax(two, -1);
    let class = graph.as_string(ids);
    let class = graph.expand_dims(class, -1);
    let classify = Signature::classify()
        .input("inputs", serialized)
        .output_of("classes", classes, &[None, Some(2)])
        .output_of("scores", scores, &[None, Some(2)]);
    let regress = Signature::regress().input("inputs", serialized).output_of("outputs", logistic, &[None, Some(1)]);
    let predict = Signature::predict()
        .input("examples", serialized)
        .output_of("logits", logits, &[None, Some(1)])
        .output_of("logistic", logistic, &[None, Some(1)])
        .output_of("probabilities", scores, &[None, Some(2)])
        .output_of("classes", class, &[None, Some(1)]);
    let model = SavedModel::new(graph).signature(DEFAULT_SIGNATURE, classify.clone());
    model.signature("classification", classify).signature("regression", regress).signature("predict", predict)
}

/// What feature columns make of Examples: every output is one column.
fn columns() -> Result<SavedModel> {
    let mut graph = GraphBuilder::new();
    let serialized = graph.placeholder::<Text>("examples", &[None]);
    let mut features = ExampleFeatures::new();
    let (zero, nothing) = (graph.constant(&[1], &[-1_i64]), graph.texts(&[1], &[""]));
    let age = features.required::<f32>("age", &[1]);
    let level = features.optional("level", &[1], zero);
    let city = features.optional("city", &[1], nothing);
    let job = features.sparse::<Text>("job");
    let tags = features.sparse::<Text>("tags");
    let weights = features.sparse::<f32>("weights");
    let parsed = graph.parse_example(serialized, &features);
    let (job, tags, weights) = (parsed.sparse(job), parsed.sparse(tags), parsed.sparse(weights));
    let (age, level, city) = (parsed.dense(age), parsed.dense(level), parsed.dense(city));
    let (none, nothing) = (graph.scalar(-1_i64), graph.text(""));

    let buckets = graph.bucketize(age, &[20.0, 40.0]);
    let buckets = graph.cast::<i32, i64>(buckets);
    let buckets = graph.to_sparse(buckets, none);
    let city = graph.to_sparse(city, nothing);
    let words = graph.cross(&[job.into(), tags.into(), city.into()], 17, CROSS_HASH_KEY);
    let mixed = graph.cross(&[buckets.into(), job.into()], 13, 77);
    let level = graph.to_sparse(level, none);
    let (low, high, fallback) = (graph.scalar(0_i64), graph.scalar(4_i64), graph.scalar(2_i64));
    let (below, above) = (graph.less(level.values, low), graph.greater_equal(level.values, high));
    let outside = graph.or(below, above);
    let level = level.with_values(graph.select(outside, fallback, level.values));
    let (keys, values) = (graph.texts(&[3], &["x", "y", "z"]), graph.constant(&[3], &[0_i64, 1, 2]));
    let known = graph.table(keys, values);
    let tags = tags.with_values(graph.lookup(known, tags.values, none));

    let mut signature = Signature::predict().input("examples", serialized);
    for (name, ids, buckets) in [("words", words, 17), ("mixed", mixed, 13), ("level", level, 4), ("tags", tags, 3)] {
        let dense = graph.to_dense(ids, none);
        let hot = graph.one_hot(dense, buckets);
        signature = signature.output(name, graph.sum(hot, &[1], false));
    }
    let table = graph.variable("tags/embedding_weights", &Shape::new([3, 2])?);
    let combiners = [("sum", Combiner::Sum), ("mean", Combiner::Mean), ("sqrtn", Combiner::SqrtN)];
    for (name, combiner) in combiners {
        signature = signature.output(name, graph.embedding_bag(table, tags, combiner));
        let weighted = graph.weighted_embedding_bag(table, tags, weights.values, combiner);
        signature = signature.output(&format!("weighted_{name}"), weighted);
    }
    Ok(SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature))
}

/// A model without variables: one output for every op of one tensor.
fn activations() -> SavedModel {
    type Op = fn(&mut GraphBuilder, Output<f32>) -> Output<f32>;
    let ops: [(&str, Op); 26] = [
        ("relu", GraphBuilder::relu),
        ("elu", GraphBuilder::elu),
        ("selu", GraphBuilder::selu),
        ("softplus", GraphBuilder::softplus),
        ("softsign", GraphBuilder::softsign),
        ("sigmoid", GraphBuilder::sigmoid),
        ("tanh", GraphBuilder::tanh),
        ("softmax", GraphBuilder::softmax),
        ("log_softmax", GraphBuilder::log_softmax),
        ("leaky_relu", |graph, x| graph.leaky_relu(x, 0.3)),
        ("swish", GraphBuilder::swish),
        ("gelu", |graph, x| graph.gelu(x, false)),
        ("gelu_approximate", |graph, x| graph.gelu(x, true)),
        ("mish", GraphBuilder::mish),
        ("hard_sigmoid", GraphBuilder::hard_sigmoid),
        ("exp", GraphBuilder::exp),
        ("square", GraphBuilder::square),
        ("neg", GraphBuilder::neg),
        ("abs", GraphBuilder::abs),
        ("erf", GraphBuilder::erf),
        ("log_exp", |graph, x| {
            let exp = graph.exp(x);
            graph.log(exp)
        }),
        ("sqrt_abs", |graph, x| {
            let abs = graph.abs(x);
            graph.sqrt(abs)
        }),
        ("clipped", |graph, x| {
            let (low, high) = (graph.scalar(-0.5), graph.scalar(0.5));
            let x = graph.maximum(x, low);
            graph.minimum(x, high)
        }),
        ("half", |graph, x| {
            let two = graph.scalar(2.0);
            graph.div(x, two)
        }),
        ("largest", |graph, x| graph.max(x, &[-1], true)),
        ("turned", |graph, x| graph.transpose(x, &[1, 0])),
    ];
    let mut graph = GraphBuilder::new();
    let x = graph.placeholder::<f32>("x", &[None, Some(5)]);
    let mut signature = Signature::predict().input("x", x);
    for (name, op) in ops {
        signature = signature.output(name, op(&mut graph, x));
    }
    let whole = graph.cast::<f32, i32>(x);
    let signature = signature.output("whole", whole);
    SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature)
}

/// A table that a file beside the model fills.
fn vocabulary() -> SavedModel {
    let mut graph = GraphBuilder::new();
    let words = graph.placeholder::<Text>("words", &[None]);
    let file = graph.asset("words.txt");
    let table = graph.vocabulary_table(file);
    let missing = graph.scalar(-1_i64);
    let ids = graph.lookup(table, words, missing);
    let signature = Signature::predict().input("words", words).output_of("ids", ids, &[None]);
    SavedModel::new(graph).signature(DEFAULT_SIGNATURE, signature)
}
