//! A checkpoint of large float tensors: unsharded, and in the slices of four servers.

use crate::peer::Peer;
use crate::report::{Report, Row};
use crate::{Args, files};
use phalanx_base::{Code, Context, Result, Shape};
use phalanx_formats::bundle::{BundleIndex, BundleWriter, Dtype, TensorSlice, data_file, index_file};
use std::fs::File;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// The number of servers that hold the sliced variant.
const SERVERS: usize = 4;
/// Numbers per row of a tensor.
const COLUMNS: usize = 256;

/// What is saved.
struct Model {
    shape: Shape,
    tensors: Vec<(String, Vec<f32>)>,
}

pub(crate) fn measure(args: &Args, dir: &Path, report: &mut Report) -> Result<()> {
    let model = Model::new(args)?;
    let gib = (args.tensors * args.tensor_mib) as f64 / 1024.0;
    // The peer takes its numbers from here.
    model.write(dir, "given", 1, false)?;
    let mut peer = match &args.python {
        None => None,
        Some(python) => {
            let mut peer = Peer::start(python, "checkpoint")?;
            peer.time(&format!("take {}", dir.join("given").display()))?;
            Some(peer)
        }
    };
    let mut write = |name, servers, fsync: bool| -> Result<()> {
        let verb = if servers == 1 { "write" } else { "write_slices" };
        let mut row = Row::new(name, gib, "GiB/s");
        for round in 0..=args.rounds {
            files::clear(dir, "ours")?;
            let start = Instant::now();
            model.write(dir, "ours", servers, fsync)?;
            let ours = start.elapsed().as_secs_f64();
            files::clear(dir, "theirs")?;
            let request = format!("{verb} {} {} {}", dir.join("theirs").display(), servers, u8::from(fsync));
            let theirs = peer.as_mut().map(|peer| peer.time(&request)).transpose()?;
            // The first round is for warming up.
            if round > 0 {
                row.ours.push(ours);
                row.theirs.extend(theirs);
            }
        }
        report.rows.push(row);
        Ok(())
    };
    write("write a checkpoint", 1, false)?;
    write("write a checkpoint, fsync", 1, true)?;
    write("write a checkpoint in slices", SERVERS, false)?;
    model.write(dir, "whole", 1, false)?;
    model.write(dir, "slices", SERVERS, false)?;
    for (name, prefix) in [("read a checkpoint", "whole"), ("read a checkpoint in slices", "slices")] {
        let mut row = Row::new(name, gib, "GiB/s");
        files::settle()?;
        for round in 0..=args.rounds {
            let start = Instant::now();
            read(dir, prefix)?;
            let ours = start.elapsed().as_secs_f64();
            let request = format!("read {}", dir.join(prefix).display());
            let theirs = peer.as_mut().map(|peer| peer.time(&request)).transpose()?;
            if round > 0 {
                row.ours.push(ours);
                row.theirs.extend(theirs);
            }
        }
        report.rows.push(row);
    }
    Ok(())
}

impl Model {
    fn new(args: &Args) -> Result<Self> {
        let rows = (args.tensor_mib << 20) / 4 / COLUMNS;
        let numbers =
            |tensor: usize| (0..rows * COLUMNS).map(|i| ((i * 31 + tensor) % 65_537) as f32 / 997.0).collect();
        let tensors = (0..args.tensors).map(|tensor| (format!("variable_{tensor:03}"), numbers(tensor))).collect();
        Ok(Self { shape: Shape::new([rows, COLUMNS])?, tensors })
    }

    /// Writes the checkpoint as `servers` servers would, one after another.
    fn write(&self, dir: &Path, prefix: &str, servers: usize, fsync: bool) -> Result<()> {
        let mut parts = Vec::new();
        for server in 0..servers {
            let file = files::create(dir.join(data_file(prefix, server as u32, servers as u32)))?;
            let mut writer = BundleWriter::new(file);
            let (first, end) = (self.shape.rows() * server / servers, self.shape.rows() * (server + 1) / servers);
            let slice = TensorSlice::rows(first as u64, (end - first) as u64, 2);
            for (name, numbers) in &self.tensors {
                let mut tensor = writer.begin_slice(name, Dtype::F32, &self.shape, &slice)?;
                tensor.write_f32s(&numbers[first * COLUMNS..end * COLUMNS])?;
                tensor.finish()?;
            }
            let (file, index) = writer.finish()?;
            synced(&file, fsync)?;
            parts.push(index);
        }
        let index = files::create(dir.join(index_file(prefix)))?;
        std::io::Write::write_all(&mut &index, &BundleIndex::merge(parts)?.to_bytes()?)
            .context(Code::StorageWrite, "the index cannot be written")?;
        synced(&index, fsync)
    }
}

fn synced(file: &File, fsync: bool) -> Result<()> {
    let done = if fsync { file.sync_all() } else { Ok(()) };
    done.context(Code::StorageWrite, "a file of the checkpoint does not reach the disk")
}

/// Reads every tensor, and lets go of it.
fn read(dir: &Path, prefix: &str) -> Result<()> {
    let reader = files::open(dir, prefix)?;
    for name in reader.index().tensors().keys() {
        black_box(reader.read(name)?);
    }
    Ok(())
}
