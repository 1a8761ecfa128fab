//! The scalars of event files, read while the files grow.

use phalanx_formats::event::{EventPayload, EventReader, SessionStatus, SummaryData};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A curve that grows longer loses every second point.
const MAX_POINTS: usize = 50_000;
/// Further curves are ignored: the dashboard could not show them.
const MAX_CURVES: usize = 500;
/// The depth to which directories are searched.
const DEPTH: usize = 3;

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The global step.
    pub step: i64,
    /// Seconds since 1970.
    pub wall_time: f64,
    /// The value, which may be infinite or NaN.
    pub value: f64,
}

/// A named curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The directory of its event file below the run directory; empty for training itself.
    pub run: String,
    /// Its tag.
    pub tag: String,
    /// Its points in the order in which they were written.
    pub points: Vec<Point>,
    /// Incremented whenever points are dropped.
    pub version: u64,
}

#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    run: String,
    offset: u64,
    /// The reader, which remembers the tags.
    reader: Option<EventReader<BufReader<File>>>,
    /// Whether the rest of the file is damaged.
    broken: bool,
}

/// The event files of a run directory.
#[derive(Debug, Default)]
pub(crate) struct Curves {
    files: BTreeMap<PathBuf, EventFile>,
}

impl Curves {
    /// Looks for new files below `root`.
    pub(crate) fn look(&mut self, root: &Path) {
        self.look_into(root, root, DEPTH);
    }

    fn look_into(&mut self, root: &Path, dir: &Path, depth: usize) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // Exported models and logs contain no curves and may contain many files.
                if depth > 1 && !matches!(&*name, "export" | "logs") {
                    self.look_into(root, &path, depth - 1);
                }
            } else if name.contains("tfevents") && !self.files.contains_key(&path) {
                let run = dir.strip_prefix(root).unwrap_or(dir).display().to_string();
                self.files.insert(path.clone(), EventFile { path, run, offset: 0, reader: None, broken: false });
            }
        }
    }

    /// Adds the new points to `all`.
    pub(crate) fn read(&mut self, all: &mut Vec<Curve>) {
        for file in self.files.values_mut().filter(|file| !file.broken) {
            file.read(all);
        }
    }
}

impl EventFile {
    fn read(&mut self, all: &mut Vec<Curve>) {
        let Ok(mut file) = File::open(&self.path) else { return };
        let grown = file.metadata().is_ok_and(|about| about.len() > self.offset);
        if !grown || file.seek(SeekFrom::Start(self.offset)).is_err() {
            return;
        }
        let file = BufReader::new(file);
        let mut reader = match self.reader.take() {
            Some(before) => before.resume(file),
            None => EventReader::new(file),
        };
        let mut good = 0;
        loop {
            match reader.next_event() {
                Ok(Some(event)) => {
                    good = reader.offset();
                    match event.what {
                        EventPayload::Summary(values) => {
                            for value in values {
                                if let SummaryData::Scalar(number) = value.value {
                                    let (step, wall_time) = (event.stamp.step, event.stamp.wall_time);
                                    add(all, &self.run, value.tag, Point { step, wall_time, value: number });
                                }
                            }
                        }
                        EventPayload::Session(SessionStatus::Start) => forget(all, &self.run, event.stamp.step),
                        _ => {}
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    // Either the record is still being written, or the file is damaged.
                    self.broken = good == 0 && self.offset > 0 && self.is_stuck();
                    break;
                }
            }
        }
        self.offset += good;
        self.reader = Some(reader);
    }

    /// Whether so much follows the bad record that it cannot be one that is still being written.
    fn is_stuck(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|about| about.len() > self.offset + (64 << 20))
    }
}

fn add(all: &mut Vec<Curve>, run: &str, tag: String, point: Point) {
    let at = all.iter().position(|curve| curve.tag == tag && curve.run == run);
    let at = match at {
        Some(at) => at,
        None if all.len() < MAX_CURVES => {
            all.push(Curve { run: run.to_owned(), tag, points: Vec::new(), version: 0 });
            all.len() - 1
        }
        None => return,
    };
    let curve = &mut all[at];
    curve.points.push(point);
    if curve.points.len() > MAX_POINTS {
        let mut keep = false;
        curve.points.retain(|_| {
            keep = !keep;
            keep
        });
        curve.version += 1;
    }
}

/// Drops what a killed session wrote beyond the step at which the next one starts.
fn forget(all: &mut [Curve], run: &str, step: i64) {
    for curve in all.iter_mut().filter(|curve| curve.run == run) {
        let before = curve.points.len();
        curve.points.retain(|point| point.step < step);
        curve.version += u64::from(curve.points.len() < before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_formats::event::{EventTime, EventWriter};

    fn stamp(step: i64) -> EventTime {
        EventTime { wall_time: 100.0 + step as f64, step }
    }

    #[test]
    fn points_come_as_the_file_grows_even_in_the_middle_of_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let eval = dir.path().join("eval");
        std::fs::create_dir(&eval).unwrap();
        let mut writer = EventWriter::new(Vec::new(), 1.0).unwrap();
        writer.scalar(stamp(1), "loss", 0.5).unwrap();
        writer.scalar(stamp(2), "loss", 0.25).unwrap();
        let bytes = writer.finish().unwrap();
        let path = eval.join("events.out.tfevents.1");
        let (mut curves, mut all) = (Curves::default(), Vec::new());
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        curves.look(dir.path());
        curves.read(&mut all);
        assert_eq!(all[0].points.len(), 1);
        std::fs::write(&path, &bytes).unwrap();
        curves.look(dir.path());
        curves.read(&mut all);
        curves.read(&mut all);
        let curve = &all[0];
        assert_eq!((curve.run.as_str(), curve.tag.as_str()), ("eval", "loss"));
        assert_eq!(curve.points.iter().map(|point| point.value).collect::<Vec<_>>(), [0.5, 0.25]);
    }

    #[test]
    fn a_new_session_replaces_what_a_killed_one_wrote_beyond_it() {
        let dir = tempfile::tempdir().unwrap();
        for (n, (from, to)) in [(0, 10), (5, 8)].into_iter().enumerate() {
            let mut writer = EventWriter::new(Vec::new(), 1.0).unwrap();
            writer.session_log(stamp(from), &SessionStatus::Start).unwrap();
            (from..to).for_each(|step| writer.scalar(stamp(step), "loss", n as f32).unwrap());
            std::fs::write(dir.path().join(format!("events.out.tfevents.{n}")), writer.finish().unwrap()).unwrap();
        }
        let (mut curves, mut all) = (Curves::default(), Vec::new());
        curves.look(dir.path());
        curves.read(&mut all);
        let points: Vec<(i64, f64)> = all[0].points.iter().map(|point| (point.step, point.value)).collect();
        let wanted = [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0), (5, 1.0), (6, 1.0), (7, 1.0)];
        assert_eq!(points, wanted);
    }
}
