//! Times kernels at every level of this CPU.
//!
//! ```text
//! cargo run --release -p phalanx-matmul --example kernels -- [--threads N] [--rounds N] [--level NAME] [--once] [FILTER]
//! ```
//!
//! Each round runs every case once at every level, so that a busy machine slows down all of them alike; the table has the median and the least.
//! `--once` runs each case once and prints nothing, for counting instructions.

#![allow(clippy::print_stdout)]

use phalanx_matmul::{
    Activation, BatchNorm, Classes, Conv2d, Dropout, Epilogue, Fields, Image, LayerNorm, Level, Matrix, Pool2d,
    Precision, Scale, Window, column_sums, gather, matmul_into, matmul_scratch, relu_gradient_sums, row_sums,
    row_sums_scratch, sigmoid_cross_entropy, softmax, softmax_cross_entropy, squared_norm,
};
use std::hint::black_box;
use std::time::Instant;

/// A kernel on numbers of its own, and the floating-point operations of one call.
struct Case {
    name: String,
    operations: f64,
    run: Box<dyn FnMut(Level) + Send>,
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + i / 11) % 97) as f32 / 48.5 - 1.0).collect()
}

/// The three products of a dense layer: forward, the gradient of the inputs, the gradient of the kernel.
fn dense(batch: usize, inputs: usize, outputs: usize, precision: Precision) -> Vec<Case> {
    let shapes = [
        ("forward", [batch, inputs, outputs], (false, false)),
        ("inputs", [batch, outputs, inputs], (false, true)),
        ("kernel", [inputs, batch, outputs], (true, false)),
    ];
    let cases = shapes.into_iter().map(|(what, [m, k, n], transposed)| {
        let (a, b, bias, mut out) = (numbers(m * k), numbers(k * n), numbers(n), vec![0.0; m * n]);
        let most = Level::all().map(|level| matmul_scratch(level, precision, m, k, n)).max();
        let mut scratch = vec![0.0; most.unwrap_or_default()];
        let run = move |level: Level| {
            let left = if transposed.0 { Matrix::new(&a, k, m).transposed() } else { Matrix::new(&a, m, k) };
            let right = if transposed.1 { Matrix::new(&b, n, k).transposed() } else { Matrix::new(&b, k, n) };
            let bias = (what == "forward").then_some(&bias[..]);
            let activation = if bias.is_some() { Activation::Relu } else { Activation::Linear };
            let epilogue = Epilogue { bias, activation, ..Epilogue::default() };
            matmul_into(level, precision, left, right, epilogue, black_box(&mut out), &mut scratch);
        };
        let name = format!("dense {what} {batch}x{inputs}x{outputs} {precision:?}");
        Case { name, operations: 2.0 * (m * k * n) as f64, run: Box::new(run) }
    });
    cases.collect()
}

/// The three parts of a convolution, on a batch of 64 images.
fn conv([height, width, channels]: [usize; 3], window: Window, filters: usize) -> Vec<Case> {
    let image = Image { batch: 64, height, width, channels };
    let conv = Conv2d::new(image, window, filters, 1).expect("a convolution");
    let count = |image: Image| image.count().expect("a count");
    let pixels = conv.output().batch * conv.output().height * conv.output().width;
    let cases = ["forward", "inputs", "kernel"].map(|what| {
        let (mut x, mut kernel) = (numbers(count(image)), numbers(conv.kernel_len()));
        let (mut y, bias) = (numbers(count(conv.output())), numbers(filters));
        let mut scratch = vec![0.0; Level::all().map(|level| conv.scratch(level)).max().unwrap_or_default()];
        let run = move |level: Level| match what {
            "forward" => {
                conv.forward(level, &x, &kernel, Some(&bias), Activation::Relu, black_box(&mut y), &mut scratch);
            }
            "inputs" => conv.input_gradient(level, &y, &kernel, black_box(&mut x), &mut scratch),
            _ => conv.kernel_gradient(level, &x, &y, black_box(&mut kernel), &mut scratch),
        };
        let name =
            format!("conv {what} {height}x{width}x{channels} {:?}/{:?} to {filters}", window.size, window.stride);
        Case { name, operations: 2.0 * (conv.kernel_len() * pixels) as f64, run: Box::new(run) }
    });
    cases.into()
}

/// Pooling by adjacent windows, on a batch of 64 images.
fn pool([height, width, channels]: [usize; 3]) -> Vec<Case> {
    let image = Image { batch: 64, height, width, channels };
    let pool = Pool2d::new(image, Window::new([2, 2], [2, 2])).expect("pooling");
    let [inputs, outputs] = [image, pool.output()].map(|image| image.count().expect("a count"));
    let cases = ["max", "max gradient", "mean", "mean gradient"].map(|what| {
        let (mut x, mut y, mut places) = (numbers(inputs), numbers(outputs), vec![0; outputs]);
        let run = move |level: Level| match what {
            "max" => pool.max(level, &x, black_box(&mut y), &mut places),
            "max gradient" => pool.max_gradient(level, &y, &places, black_box(&mut x)),
            "mean" => pool.mean(level, &x, black_box(&mut y)),
            _ => pool.mean_gradient(level, &y, black_box(&mut x)),
        };
        Case { name: format!("pool {what} {height}x{width}x{channels}"), operations: inputs as f64, run: Box::new(run) }
    });
    cases.into()
}

/// A case that goes over `count` numbers.
fn over(name: impl Into<String>, count: usize, run: impl FnMut(Level) + Send + 'static) -> Case {
    Case { name: name.into(), operations: count as f64, run: Box::new(run) }
}

/// Element-wise kernels and those on rows, on 128 rows of 1,024 numbers.
fn rows() -> Vec<Case> {
    const ROWS: usize = 128;
    const COLUMNS: usize = 1024;
    const COUNT: usize = ROWS * COLUMNS;
    let mut cases: Vec<Case> = Vec::new();
    for function in Activation::ALL {
        let (x, mut y, mut dx) = (numbers(COUNT), numbers(COUNT), numbers(COUNT));
        cases.push(over(format!("{function:?}"), COUNT, move |level| {
            y.copy_from_slice(&x);
            function.apply(level, black_box(&mut y));
        }));
        let (x, dy) = (numbers(COUNT), numbers(COUNT));
        let slope = move |level: Level| function.gradient(level, &x, &dy, black_box(&mut dx));
        cases.push(over(format!("{function:?} gradient"), COUNT, slope));
    }
    let (x, mut y) = (numbers(COUNT), numbers(COUNT));
    cases.push(over("softmax", COUNT, move |level| softmax(level, COLUMNS, &x, black_box(&mut y))));
    for classes in [10, COLUMNS] {
        let (x, mut losses, mut gradient) = (numbers(COUNT / 16 * classes / 10), numbers(0), numbers(0));
        let rows = x.len() / classes;
        let x = x[..rows * classes].to_vec();
        losses.resize(rows, 0.0);
        gradient.resize(x.len(), 0.0);
        let ids: Vec<i64> = (0..rows).map(|row| (row % classes) as i64).collect();
        cases.push(over(format!("cross-entropy of {classes} classes"), x.len(), move |level| {
            let outputs = (Some(&mut losses[..]), Some(&mut gradient[..]));
            softmax_cross_entropy(level, classes, &x, Classes::Ids(&ids), Scale { all: 0.5, each: None }, outputs);
        }));
    }
    let (x, labels, mut losses, mut gradient) = (numbers(COUNT), numbers(COUNT), numbers(COUNT), numbers(COUNT));
    cases.push(over("binary cross-entropy", COUNT, move |level| {
        let outputs = (Some(&mut losses[..]), Some(&mut gradient[..]));
        sigmoid_cross_entropy(level, 1, &x, &labels, Scale { all: 0.5, each: None }, outputs);
    }));
    cases.extend(norms(ROWS, COLUMNS));
    let (x, mut y) = (numbers(COUNT), numbers(COUNT));
    let dropout = Dropout { seed: 7, rate: 0.3 };
    cases.push(over("dropout", COUNT, move |level| dropout.apply(level, &x, black_box(&mut y))));
    let (x, mut sums) = (numbers(COUNT), numbers(COLUMNS));
    cases.push(over("column sums", COUNT, move |level| column_sums(level, &x, black_box(&mut sums))));
    let (x, mut sums) = (numbers(COUNT), numbers(32));
    cases.push(over("column sums of 32", COUNT, move |level| column_sums(level, &x, black_box(&mut sums))));
    let (outputs, mut dy, mut sums) = (numbers(COUNT), numbers(COUNT), numbers(COLUMNS));
    cases.push(over("ReLU gradient and sums", COUNT, move |level| {
        relu_gradient_sums(level, &outputs, black_box(&mut dy), &mut sums);
    }));
    let x = numbers(COUNT);
    cases.push(over("squared norm", COUNT, move |level| {
        black_box(squared_norm(level, &x));
    }));
    cases
}

fn norms(rows: usize, columns: usize) -> Vec<Case> {
    let count = rows * columns;
    let (x, dy, [mut a, mut b, mut c, mut d]) = (numbers(count), numbers(count), [(); 4].map(|()| numbers(columns)));
    let (mut y, mut dx) = (numbers(count), numbers(count));
    let batch = over("batch normalization, both ways", count, move |level| {
        let norm = BatchNorm { channels: columns, epsilon: 1e-3, gamma: None, beta: None };
        norm.statistics(level, &x, &mut a, &mut b);
        norm.forward(level, &x, &a, &b, &mut y);
        norm.gradient(level, (&x, &a, &b), &dy, Some(black_box(&mut dx)), (&mut c, &mut d));
    });
    let (x, dy, [mut c, mut d]) = (numbers(count), numbers(count), [(); 2].map(|()| numbers(columns)));
    let (mut y, mut dx, mut kept) = (numbers(count), numbers(count), numbers(2 * rows));
    let layer = over("layer normalization, both ways", count, move |level| {
        let norm = LayerNorm { columns, epsilon: 1e-3, gamma: None, beta: None };
        norm.forward(level, &x, &mut y, &mut kept);
        norm.gradient(level, (&x, &kept), &dy, black_box(&mut dx), (&mut c, &mut d));
    });
    vec![batch, layer]
}

/// What a click model does beside its products: 26 fields of 16 numbers for 512 examples.
fn fields() -> Vec<Case> {
    let (examples, shape, count) = (512, Fields { fields: 26, dim: 16 }, 10_000);
    let width = shape.fields * shape.dim;
    let rows: Vec<u32> = (0..examples * shape.fields).map(|i| (i * i % count) as u32).collect();
    let (at, table, mut out) = (rows.clone(), numbers(count * shape.dim), numbers(examples * width));
    let looked_up = over("gather 26 x 16", examples * width, move |_| {
        gather(shape.dim, &table, &at, (shape.fields, width), black_box(&mut out));
    });
    let (gradient, mut sums) = (numbers(examples * width), numbers(count * shape.dim));
    let mut scratch = vec![0; row_sums_scratch(&rows, count)];
    let summed = over("row sums 26 x 16", examples * width, move |level| {
        row_sums(level, shape.dim, &rows, (shape.fields, width), &gradient, black_box(&mut sums), &mut scratch);
    });
    let (x, dy, mut y) = (numbers(examples * width), numbers(examples), numbers(examples));
    let mut dx = x.clone();
    let machine = over("factorization machine, both ways", examples * width, move |level| {
        shape.factorization(level, &x, black_box(&mut y));
        shape.factorization_gradient(level, &x, &dy, black_box(&mut dx));
    });
    let (x, dy, mut y) =
        (numbers(examples * width), numbers(examples * shape.pairs()), numbers(examples * shape.pairs()));
    let mut dx = x.clone();
    let dots = over("dot products of pairs", examples * shape.pairs() * shape.dim * 2, move |level| {
        shape.dots(level, &x, black_box(&mut y));
    });
    let x = numbers(examples * width);
    let slopes = over("dot products of pairs gradient", examples * shape.pairs() * shape.dim * 4, move |level| {
        shape.dots_gradient(level, &x, &dy, black_box(&mut dx));
    });
    vec![looked_up, summed, machine, dots, slopes]
}

fn cases() -> Vec<Case> {
    let layers = [(128, 784, 10), (128, 512, 1024), (128, 1024, 512), (128, 512, 256), (32, 400, 400), (512, 400, 1)];
    let mut cases: Vec<Case> = layers.into_iter().flat_map(|(m, k, n)| dense(m, k, n, Precision::F32)).collect();
    cases.extend(dense(128, 512, 1024, Precision::Bf16));
    let small = Window::new([3, 3], [1, 1]);
    cases.extend(conv([28, 28, 1], small, 32));
    cases.extend(conv([13, 13, 32], small, 64));
    cases.extend(conv([14, 14, 64], small.same([14, 14]).expect("padding"), 64));
    cases.extend(conv([28, 28, 32], Window::new([3, 3], [2, 2]).same([28, 28]).expect("padding"), 64));
    cases.extend(conv([14, 14, 64], Window::new([1, 1], [1, 1]), 128));
    cases.extend(pool([26, 26, 32]));
    cases.extend(pool([11, 11, 64]));
    cases.extend(rows());
    cases.extend(fields());
    cases
}

/// What the command line asks for.
struct Options {
    threads: usize,
    rounds: usize,
    level: Option<String>,
    once: bool,
    filter: String,
}

impl Options {
    fn parse() -> Self {
        let mut options = Self { threads: 1, rounds: 25, level: None, once: false, filter: String::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut number = || arguments.next().and_then(|number| number.parse().ok()).expect("a number");
            match argument.as_str() {
                "--threads" => options.threads = number(),
                "--rounds" => options.rounds = number(),
                "--level" => options.level = arguments.next(),
                "--once" => options.once = true,
                filter => options.filter = filter.to_owned(),
            }
        }
        options
    }
}

/// Returns the seconds of one call: the mean of several.
fn seconds(case: &mut Case, level: Level, calls: usize) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| (case.run)(level));
    start.elapsed().as_secs_f64() / calls as f64
}

fn measure(options: &Options) {
    let levels: Vec<Level> =
        Level::all().filter(|l| options.level.as_deref().is_none_or(|name| name == l.name())).collect();
    let mut cases: Vec<Case> = cases().into_iter().filter(|case| case.name.contains(&options.filter)).collect();
    if options.once {
        cases.iter_mut().for_each(|case| levels.iter().for_each(|&level| (case.run)(level)));
        return;
    }
    let calls: Vec<Vec<usize>> = cases
        .iter_mut()
        .map(|case| levels.iter().map(|&level| (3e-4 / seconds(case, level, 1)).clamp(1.0, 1e4) as usize).collect())
        .collect();
    let mut times = vec![vec![Vec::new(); levels.len()]; cases.len()];
    for _ in 0..options.rounds {
        for (case, (calls, times)) in cases.iter_mut().zip(calls.iter().zip(&mut times)) {
            for (&level, (&calls, times)) in levels.iter().zip(calls.iter().zip(times)) {
                times.push(seconds(case, level, calls));
            }
        }
    }
    for (case, times) in cases.iter().zip(&mut times) {
        print!("{:44}", case.name);
        for (level, times) in levels.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let (least, rate) = (times[0] * 1e6, case.operations / times[0] / 1e9);
            print!(" | {:8} {:8.1} us, {least:8.1} us {rate:6.1} G/s", level.name(), median * 1e6);
        }
        println!();
    }
}

fn main() {
    let options = Options::parse();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build().expect("threads start");
    pool.install(|| measure(&options));
}
