use super::{names, on_every_store};
use phalanx_base::Code;
use std::io::{Read, Seek, SeekFrom};

#[test]
fn listings_are_sorted_and_flat() {
    on_every_store(|dir| {
        assert!(dir.list("").expect("a listing").is_empty(), "{dir}: absent is empty");
        assert!(dir.list_dirs().expect("a listing").is_empty());
        for name in ["b", "a2", "a1", "eval/a3", "export/best/1/saved_model.pb", "a#1 %20?"] {
            dir.write(name, name.as_bytes()).expect("written");
        }
        assert_eq!(names(dir, ""), ["a#1 %20?", "a1", "a2", "b"]);
        assert_eq!(names(dir, "a"), ["a#1 %20?", "a1", "a2"]);
        assert!(names(dir, "eval").is_empty());
        assert_eq!(dir.list_dirs().expect("a listing"), ["eval", "export"]);
        let best = dir.child("export/best").expect("a good name");
        assert_eq!(best.list_dirs().expect("a listing"), ["1"]);
        assert_eq!(dir.list("eval/").expect_err("a slash").code(), Code::StorageLocation);
        assert_eq!(dir.read("a#1 %20?", 100).expect("read"), b"a#1 %20?");
        assert_eq!(dir.open_read("a#1 %20?").expect("opened").size().expect("a size"), 8);
    });
}

#[test]
fn files_are_read_in_order_and_by_position() {
    on_every_store(|dir| {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        dir.write("data", &bytes).expect("written");
        let mut file = dir.open_read("data").expect("opened");
        assert_eq!(file.size().expect("a size"), 100_000);

        let mut all = Vec::new();
        file.read_to_end(&mut all).expect("read");
        assert!(all == bytes);
        assert_eq!(file.seek(SeekFrom::End(-3)).expect("a seek"), 99_997);
        let mut rest = Vec::new();
        file.read_to_end(&mut rest).expect("read");
        assert_eq!(rest, bytes[99_997..]);
        assert_eq!(file.seek(SeekFrom::Start(10)).expect("a seek"), 10);
        assert_eq!(file.seek(SeekFrom::Current(-4)).expect("a seek"), 6);
        file.seek(SeekFrom::Current(-7)).expect_err("before the start");

        let mut piece = [0; 5];
        file.read_exact_at(70_000, &mut piece).expect("read");
        assert_eq!(piece, bytes[70_000..70_005]);
        assert_eq!(file.read_at(100_000, &mut piece).expect("the end"), 0);
        assert_eq!(file.read_at(u64::MAX / 4, &mut piece).expect("far behind the end"), 0);
        let mut one = [0];
        file.read_exact(&mut one).expect("read");
        assert_eq!(one[0], bytes[6], "{dir}: reading by position moves nothing");

        assert_eq!(file.read_range(1_000, 3).expect("a range"), bytes[1_000..1_003]);
        for (offset, len) in [(99_999, 2), (0, u64::MAX), (u64::MAX, 1)] {
            assert_eq!(file.read_range(offset, len).expect_err("too far").code(), Code::StorageRead);
        }
        let error = file.read_exact_at(99_998, &mut piece).expect_err("too far");
        assert!(error.place().is_some_and(|place| place.ends_with("runs/one/data")), "{error}");
    });
}

#[test]
fn many_threads_read_one_file() {
    on_every_store(|dir| {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n / 7) as u8).collect();
        dir.write("data", &bytes).expect("written");
        let file = dir.open_read("data").expect("opened");
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (file, bytes) = (&file, &bytes);
                scope.spawn(move || {
                    for round in 0..50 {
                        let start = (thread * 50_021 + round * 7_919) % 199_000;
                        let read = file.read_range(start as u64, 1_000).expect("read");
                        assert!(read == bytes[start..start + 1_000]);
                    }
                });
            }
        });
    });
}

#[test]
fn limits_are_kept() {
    on_every_store(|dir| {
        dir.write("a", b"12345").expect("written");
        assert_eq!(dir.read("a", 5).expect("read"), b"12345");
        let error = dir.read("a", 4).expect_err("too long");
        assert_eq!(error.code(), Code::StorageRead);
        assert!(error.to_string().contains("5 bytes, and at most 4"), "{error}");
    });
}

#[test]
fn what_is_absent_is_said_to_be() {
    on_every_store(|dir| {
        assert_eq!(dir.size("none").expect("a size"), None);
        assert_eq!(dir.try_read("none", 10).expect("nothing"), None);
        for error in [dir.read("none", 10).expect_err("absent"), dir.open_read("none").expect_err("absent")] {
            assert_eq!(error.code(), Code::StorageRead);
            assert!(error.to_string().contains("no such file"), "{error}");
            assert_eq!(error.place(), Some(format!("{dir}/none").as_str()));
        }
        dir.remove("none").expect("absent is fine");
        dir.write("some", b"1").expect("written");
        dir.remove("some").expect("removed");
        assert_eq!(dir.size("some").expect("a size"), None);
    });
}

#[test]
fn names_that_lead_elsewhere_are_refused_everywhere() {
    on_every_store(|dir| {
        for name in ["", "/a", "../a", "a/../../b", "a//b", "a\0"] {
            let errors = [
                dir.child(name).map(drop).expect_err(name),
                dir.stage(name).map(drop).expect_err(name),
                dir.write(name, b"").expect_err(name),
                dir.read(name, 1).map(drop).expect_err(name),
                dir.size(name).map(drop).expect_err(name),
                dir.open_read(name).map(drop).expect_err(name),
                dir.remove(name).expect_err(name),
                dir.append(name).map(drop).expect_err(name),
            ];
            assert!(errors.iter().all(|error| error.code() == Code::StorageLocation), "{name:?}: {errors:?}");
            assert_eq!(dir.local_path(name), None);
        }
        assert!(dir.contents().expect("a listing").files.is_empty());
    });
}

#[test]
fn clones_are_the_same_directory() {
    on_every_store(|dir| {
        dir.clone().create_all().expect("made");
        dir.clone().write("a", b"1").expect("written");
        assert_eq!(dir.read("a", 1).expect("read"), b"1");
        assert!(format!("{dir:?}").contains("runs/one") && dir.location().ends_with("runs/one"));
    });
}
