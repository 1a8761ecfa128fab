//! Records of Examples, parsed into batches on one thread.

use crate::peer::Peer;
use crate::report::{Report, Row};
use crate::{Args, files};
use phalanx_base::{Code, Context, Error, Result, SplitMix};
use phalanx_formats::example::{ExampleParser, ExampleWriter, FeatureKind, FeatureSpec};
use phalanx_formats::record::{RecordReader, RecordWriter};
use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const BATCH: usize = 1024;

pub(crate) fn measure(args: &Args, dir: &Path, report: &mut Report) -> Result<()> {
    let path = dir.join("examples.tfrecord");
    write(&path, args.records)?;
    let mut peer = args.python.as_deref().map(|python| Peer::start(python, "examples")).transpose()?;
    let mut row = Row::new("parse records of Examples", args.records as f64 / 1e3, "k/s");
    // The first round is for warming up.
    for round in 0..=args.rounds {
        let start = Instant::now();
        let rows = parse(&path)?;
        let ours = start.elapsed().as_secs_f64();
        if rows != args.records {
            return Err(Error::new(Code::Internal, format!("{rows} of {} records came back", args.records)));
        }
        let theirs = peer.as_mut().map(|peer| peer.time(&format!("parse {}", path.display()))).transpose()?;
        if round > 0 {
            row.ours.push(ours);
            row.theirs.extend(theirs);
        }
    }
    report.rows.push(row);
    Ok(())
}

/// Click-log records: 13 counts and 26 hashed categories, different in every record.
fn write(path: &Path, records: usize) -> Result<()> {
    let mut writer = RecordWriter::new(files::create(path.to_owned())?);
    let mut random = SplitMix::new(1);
    let mut next = || random.word() >> 33;
    for _ in 0..records {
        let mut example = ExampleWriter::new();
        for i in 1..=13 {
            example.f32s(format!("I{i}"), &[next() as f32 / 1e6]);
        }
        for i in 1..=26 {
            example.i64s(format!("C{i}"), &[next() as i64 & 0xf_ffff]);
        }
        writer.write_record(&example.encode())?;
    }
    writer.finish().map(drop)
}

fn parse(path: &Path) -> Result<usize> {
    let numbers = (1..=13).map(|i| FeatureSpec::fixed(format!("I{i}"), FeatureKind::F32, 1));
    let categories = (1..=26).map(|i| FeatureSpec::fixed(format!("C{i}"), FeatureKind::I64, 1));
    let mut parser = ExampleParser::new(numbers.chain(categories).collect())?;
    let file = File::open(path).context(Code::StorageRead, "the record file cannot be opened")?;
    let (mut reader, mut rows) = (RecordReader::new(file), 0);
    while let Some(record) = reader.next_record()? {
        parser.push(record)?;
        if parser.rows() == BATCH {
            rows += black_box(parser.finish()).rows;
        }
    }
    Ok(rows + black_box(parser.finish()).rows)
}
