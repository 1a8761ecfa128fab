//! Writes checkpoints for the suite that has real TensorFlow read them: `phalanx_write_bundle DIR SHARDS STEP LAYERS`.
//!
//! Every number follows from its place, so that the suite knows what to expect. With several shards, `table` is cut
//! into rows, `grid` into rows and columns, and the other tensors go round the shards.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;

use phalanx_base::{Code, Context, Error, Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleWriter, CheckpointState, Dtype, data_file, index_file};

type Writer = BundleWriter<BufWriter<File>>;

const TABLE: [usize; 2] = [1003, 7];
const GRID: [usize; 3] = [4, 6, 2];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, shards, step, layers] = arguments.as_slice() else {
        return fail(&Error::new(Code::Flags, "usage: phalanx_write_bundle DIR SHARDS STEP LAYERS"));
    };
    let (Ok(shards @ 1..), Ok(step), Ok(layers)) = (shards.parse(), step.parse(), layers.parse()) else {
        return fail(&Error::new(Code::Flags, "SHARDS, STEP and LAYERS are numbers"));
    };
    match write(Path::new(dir), shards, step, layers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &Error) -> ExitCode {
    eprint!("{}", error.report());
    ExitCode::from(error.exit_code())
}

fn write(dir: &Path, shards: u32, step: i64, layers: u16) -> Result<()> {
    let prefix = format!("model.ckpt-{step}");
    let mut writers = Vec::new();
    for shard in 0..shards {
        let name = data_file(&prefix, shard, shards);
        let file = File::create(dir.join(&name)).context(Code::DataMissing, format!("cannot create {name}"))?;
        writers.push(BundleWriter::new(BufWriter::new(file)));
    }
    plain(&mut writers, step, layers)?;
    sliced(&mut writers)?;
    let mut parts = Vec::new();
    for writer in writers {
        parts.push(writer.finish()?.1);
    }
    save(&dir.join(index_file(&prefix)), &BundleIndex::merge(parts)?.to_bytes()?)?;
    let all = vec![prefix.clone()];
    let state = CheckpointState { latest: Some(prefix), all, timestamps: vec![1.7e9 + 0.25], last_preserved: None };
    save(&dir.join("checkpoint"), state.to_string().as_bytes())
}

fn plain(writers: &mut [Writer], step: i64, layers: u16) -> Result<()> {
    let count = writers.len();
    let mut turn = (0..count).cycle();
    let mut next = || turn.next().unwrap_or(0);
    let six = Shape::new([2, 3])?;
    writers[next()].add_i64s("global_step", &Shape::new([])?, &[step])?;
    writers[next()].add_i64s("int64", &six, &[0, -1, i64::MAX, i64::MIN, 1 << 40, 7])?;
    let floats = [0.1, -0.0, f32::MAX, f32::MIN_POSITIVE / 8.0, f32::INFINITY, f32::NAN];
    writers[next()].add_f32s("float32", &six, &floats)?;
    let doubles = [0.1, -0.0, f64::MAX, 5e-324, f64::NEG_INFINITY, 1.0 / 3.0];
    let doubles: Vec<u8> = doubles.iter().flat_map(|number: &f64| number.to_le_bytes()).collect();
    writers[next()].add_bytes("float64", Dtype::F64, &six, &doubles)?;
    let whole: Vec<u8> =
        [0, -1, i32::MAX, i32::MIN, 5, 6].iter().flat_map(|number: &i32| number.to_le_bytes()).collect();
    writers[next()].add_bytes("int32", Dtype::I32, &six, &whole)?;
    writers[next()].add_bytes("uint8", Dtype::U8, &six, &[0, 1, 2, 127, 128, 255])?;
    writers[next()].add_bytes("bool", Dtype::Bool, &six, &[0, 1, 1, 0, 0, 1])?;
    let long = "x".repeat(300);
    let strings: [&[u8]; 6] = [b"", b"plain", b"\xff\x00\n", "é漢".as_bytes(), long.as_bytes(), b"last"];
    writers[next()].add_strings("strings", &six, strings)?;
    writers[next()].add_strings("no_strings", &Shape::new([0])?, [""; 0])?;
    writers[next()].add_f32s("empty", &Shape::new([0, 5])?, &[])?;
    for layer in 0..layers {
        let numbers: Vec<f32> = (0..50_u8).map(|i| f32::from(i) + f32::from(layer) * 0.5).collect();
        writers[next()].add_f32s(&format!("dense_{layer}/kernel"), &Shape::new([5, 10])?, &numbers)?;
    }
    Ok(())
}

/// Element i of each is i / 4, which `float32` has exactly.
fn sliced(writers: &mut [Writer]) -> Result<()> {
    let shards = writers.len();
    let [rows, columns] = TABLE;
    for (shard, writer) in writers.iter_mut().enumerate() {
        let (start, end) = (rows * shard / shards, rows * (shard + 1) / shards);
        let slice = format!("{start},{}:0,{columns}", end - start).parse()?;
        let mut tensor = writer.begin_slice("table", Dtype::F32, &Shape::new(TABLE)?, &slice)?;
        for row in start..end {
            let numbers: Vec<f32> = (0..columns).map(|column| (row * columns + column) as f32 / 4.0).collect();
            tensor.write_f32s(&numbers)?;
        }
        tensor.finish()?;
    }
    let [_, columns, depth] = GRID;
    for (quarter, (row, column)) in [(0, 0), (0, 3), (2, 0), (2, 3)].into_iter().enumerate() {
        let slice = format!("{row},2:{column},3:-").parse()?;
        let mut tensor = writers[quarter % shards].begin_slice("grid", Dtype::F32, &Shape::new(GRID)?, &slice)?;
        for row in row..row + 2 {
            let first = (row * columns + column) * depth;
            let numbers: Vec<f32> = (first..first + 3 * depth).map(|i| i as f32 / 4.0).collect();
            tensor.write_f32s(&numbers)?;
        }
        tensor.finish()?;
    }
    Ok(())
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).context(Code::DataMissing, format!("cannot write {}", path.display()))
}
