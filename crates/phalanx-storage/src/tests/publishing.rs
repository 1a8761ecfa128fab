use super::{names, on_every_store};
use crate::Dir;
use phalanx_base::Code;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

#[test]
fn a_staged_file_is_seen_only_when_it_is_published() {
    on_every_store(|dir| {
        let mut file = dir.stage("sub/model.ckpt-1.index").expect("staged");
        let name = file.name().to_owned();
        assert!(name.starts_with("sub/."), "{name} is beside its final name");
        file.write_all(b"abc").expect("written");
        file.flush().expect("flushed");
        file.write_all(b"def").expect("written");
        let staged = file.finish().expect("finished");
        assert_eq!((staged.name.as_str(), staged.size), (name.as_str(), 6));

        let sub = dir.child("sub").expect("a good name");
        assert!(names(&sub, "").is_empty(), "{dir}");
        assert_eq!(dir.size(&name).expect("a size"), Some(6));
        dir.publish(&name, "sub/model.ckpt-1.index").expect("published");
        assert_eq!(names(&sub, ""), ["model.ckpt-1.index"]);
        assert_eq!(dir.read("sub/model.ckpt-1.index", 6).expect("read"), b"abcdef");
        assert_eq!(dir.size(&name).expect("a size"), None, "{dir}: the temporary name is gone");
    });
}

#[test]
fn publishing_replaces_what_was_there() {
    on_every_store(|dir| {
        dir.write("checkpoint", b"a longer first state").expect("written");
        dir.write("checkpoint", b"second").expect("written");
        assert_eq!(dir.read("checkpoint", 100).expect("read"), b"second");
        assert_eq!(names(dir, ""), ["checkpoint"]);
        dir.write("empty", b"").expect("written");
        assert_eq!(dir.size("empty").expect("a size"), Some(0));
        assert_eq!(dir.read("empty", 0).expect("read"), b"");
    });
}

#[test]
fn a_large_file_arrives_whole() {
    // Larger than every buffer on the way, in pieces that fit none of them.
    let bytes: Vec<u8> = (0..40_000_003_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    on_every_store(|dir| {
        let mut file = dir.stage("data").expect("staged");
        for piece in bytes.chunks(1_500_007) {
            file.write_all(&piece[..7]).expect("written");
            file.write_all(&piece[7..]).expect("written");
        }
        let staged = file.finish().expect("finished");
        assert_eq!(staged.size, bytes.len() as u64);
        dir.publish(&staged.name, "data").expect("published");
        assert!(dir.read("data", staged.size).expect("read") == bytes, "{dir}: other bytes came back");
    });
}

#[test]
fn what_is_dropped_leaves_nothing() {
    on_every_store(|dir| {
        let mut file = dir.stage("model").expect("staged");
        file.write_all(&vec![7; 20 << 20]).expect("written");
        let name = file.name().to_owned();
        drop(file);
        assert_eq!(dir.size(&name).expect("a size"), None, "{dir}");
        assert!(dir.contents().expect("a listing").files.is_empty(), "{dir}");
    });
}

#[test]
fn only_staged_files_can_be_published() {
    on_every_store(|dir| {
        dir.write("checkpoint", b"state").expect("written");
        let staged = dir.stage("a").expect("staged").finish().expect("finished").name;
        for (from, to) in [("checkpoint", "b"), (&staged, &staged), ("../checkpoint", "b"), (&staged, "../b")] {
            dir.publish(from, to).expect_err(from);
        }
        let error = dir.publish(".phalanx.0123456789abcdef.tmp", "b").expect_err("never staged");
        assert_eq!(error.code(), Code::StorageWrite, "{error}");
        assert_eq!(dir.read("checkpoint", 10).expect("read"), b"state");
        dir.publish(&staged, "a").expect("published");
    });
}

#[test]
fn leftovers_are_swept_and_nothing_else() {
    on_every_store(|dir| {
        dir.write("checkpoint", b"state").expect("written");
        dir.write("other.tmp", b"not ours").expect("written");
        dir.write(".hidden.0123456789abcdef.tmp", b"not ours").expect("written");
        let left = dir.stage("model").expect("staged").finish().expect("finished").name;
        assert!(dir.sweep_staged(Duration::from_secs(3600)).expect("swept").is_empty(), "{dir}: it may be in use");
        assert_eq!(dir.sweep_staged(Duration::ZERO).expect("swept"), [left]);
        assert_eq!(names(dir, ""), [".hidden.0123456789abcdef.tmp", "checkpoint", "other.tmp"]);
        assert!(dir.sweep_staged(Duration::ZERO).expect("swept").is_empty());
    });
}

#[test]
fn readers_never_see_half_a_file() {
    const ROUNDS: usize = 60;
    on_every_store(|dir| {
        // Each version is one letter many times, and has a length of its own.
        let version = |n: usize| vec![b'a' + (n % 26) as u8; 20_000 + 1_000 * (n % 26)];
        let whole = |bytes: &[u8]| bytes == version(usize::from(bytes[0] - b'a'));
        dir.write("state", &version(0)).expect("written");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let over = &over;
                    scope.spawn(move || {
                        let mut reads = 0;
                        while reads < 5 || !over.load(Ordering::Relaxed) {
                            let bytes = if reader == 0 { dir.read("state", 1 << 20) } else { read_slowly(dir) };
                            assert!(whole(&bytes.expect("always there")), "{dir}: half a file");
                            reads += 1;
                        }
                    })
                })
                .collect();
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    scope.spawn(move || {
                        for round in 0..ROUNDS {
                            dir.write("state", &version(round * 2 + writer)).expect("written");
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
            over.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
        });
        assert_eq!(dir.contents().expect("a listing").files.len(), 1, "{dir}: temporary files are left");
    });
}

/// Reads in pieces. An object store may say that the file was replaced meanwhile; then it is opened again.
fn read_slowly(dir: &Dir) -> phalanx_base::Result<Vec<u8>> {
    loop {
        let file = dir.open_read("state")?;
        let mut bytes = vec![0; usize::try_from(file.size()?).expect("a small file")];
        let result =
            bytes.chunks_mut(4_000).enumerate().try_for_each(|(n, piece)| file.read_exact_at(4_000 * n as u64, piece));
        match result {
            Ok(()) => return Ok(bytes),
            Err(error) if error.next().is_some_and(|help| help.contains("open it again")) => {}
            Err(error) => return Err(error),
        }
    }
}

#[test]
fn times_are_of_now() {
    on_every_store(|dir| {
        dir.write("a", b"1").expect("written");
        let entry = dir.list("").expect("a listing").remove(0);
        let age = SystemTime::now().duration_since(entry.modified).unwrap_or_default();
        assert!(age < Duration::from_secs(60), "{dir}: {age:?}");
        assert_eq!(entry.size, 1);
    });
}
