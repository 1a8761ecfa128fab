use super::{names, on_every_store};
use crate::{Dir, Roll, Watch};
use phalanx_base::Code;
use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn what_is_appended_is_seen_after_a_flush() {
    on_every_store(|dir| {
        if !dir.can_append() {
            let error = dir.append("log").map(drop).expect_err("cannot append");
            assert_eq!(error.code(), Code::StorageWrite);
            assert!(error.next().is_some_and(|help| help.contains("Roll")), "{error:?}");
            assert_eq!(dir.size("log").expect("a size"), None);
            return;
        }
        let mut file = dir.append("log").expect("opened");
        file.write_all(b"one").expect("written");
        file.flush().expect("flushed");
        assert_eq!(dir.read("log", 100).expect("read"), b"one");
        let reader = dir.open_read("log").expect("opened");
        drop(file);

        let mut file = dir.append("log").expect("opened again");
        assert_eq!(file.size(), 3);
        file.write_all(b"two").expect("written");
        file.sync().expect("synced");
        assert_eq!(file.size(), 6);
        assert_eq!(reader.read_range(0, 6).expect("an open file grows"), b"onetwo");
    });
}

const HEADER: &[u8] = b"HEAD";

fn roll(dir: &Dir) -> Roll {
    Roll::new(dir, HEADER.to_vec(), |n| format!("events.{n:03}")).expect("a roll")
}

/// The payload of all files, each without its header.
fn payload(dir: &Dir) -> Vec<u8> {
    let files = names(dir, "events.").into_iter().map(|name| dir.read(&name, 1 << 20).expect("read"));
    files.flat_map(|bytes| bytes.strip_prefix(HEADER).expect("each file begins with the header").to_vec()).collect()
}

#[test]
fn a_rolled_stream_comes_back_whole() {
    on_every_store(|dir| {
        let mut roll = roll(dir);
        let mut expected = Vec::new();
        for record in 0..10_u8 {
            roll.write_all(&[record; 100]).expect("written");
            expected.extend([record; 100]);
            if record % 3 == 2 {
                roll.flush().expect("flushed");
                roll.flush().expect("nothing new is no file");
                assert_eq!(payload(dir), expected, "{dir}: all that was flushed is seen");
            }
        }
        roll.finish().expect("finished");
        assert_eq!(payload(dir), expected);
        assert_eq!(names(dir, "").len(), if dir.can_append() { 1 } else { 4 }, "{dir}");
    });
}

#[test]
fn a_second_stream_of_the_same_names_destroys_nothing() {
    on_every_store(|dir| {
        for part in [b"first", b"other"] {
            let mut roll = roll(dir);
            roll.write_all(part).expect("written");
            // Dropped without `finish`: what was written is kept all the same.
        }
        assert_eq!(payload(dir), b"firstother", "{dir}");
    });
}

#[test]
fn a_stream_may_be_cut_by_size() {
    on_every_store(|dir| {
        let mut roll = roll(dir).cut_at(250);
        for record in 0..6_u8 {
            roll.write_all(&[record; 100]).expect("written");
        }
        roll.finish().expect("finished");
        assert_eq!(payload(dir).len(), 600);
        for entry in dir.list("").expect("a listing") {
            assert!(dir.can_append() || entry.size == 200 + HEADER.len() as u64, "{dir}: {entry:?}");
        }
    });
}

#[test]
fn an_empty_stream_is_no_file_of_its_own() {
    let dir = Dir::in_memory();
    roll(&dir).finish().expect("finished");
    assert!(names(&dir, "").is_empty());
}

#[test]
fn a_watch_gives_each_change_once() {
    on_every_store(|dir| {
        let mut watch = Watch::new(dir, "checkpoint").limit(10);
        assert_eq!(watch.changed(Duration::ZERO).expect("absent"), None);
        dir.write("checkpoint", b"one").expect("written");
        assert_eq!(watch.changed(Duration::ZERO).expect("there").as_deref(), Some(&b"one"[..]));
        dir.write("checkpoint", b"one").expect("written");
        assert_eq!(watch.changed(Duration::from_millis(60)).expect("the same"), None);
        dir.remove("checkpoint").expect("removed");
        assert_eq!(watch.changed(Duration::ZERO).expect("gone"), None);
        dir.write("checkpoint", b"more than ten").expect("written");
        assert_eq!(watch.changed(Duration::ZERO).expect_err("too long").code(), Code::StorageRead);
    });
}

#[test]
fn a_watch_wakes_up_when_another_thread_publishes() {
    on_every_store(|dir| {
        let (ready, wait) = mpsc::channel();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                wait.recv().expect("the watcher is there");
                dir.write("checkpoint", b"two").expect("written");
            });
            let mut watch = Watch::new(dir, "checkpoint");
            assert_eq!(watch.changed(Duration::ZERO).expect("absent"), None);
            ready.send(()).expect("the writer is there");
            let seen = watch.changed(Duration::from_secs(20)).expect("a change");
            assert_eq!(seen.as_deref(), Some(&b"two"[..]), "{dir}");
            writer.join().expect("a writer");
        });
    });
}
