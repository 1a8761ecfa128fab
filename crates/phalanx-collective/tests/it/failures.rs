//! How groups fail: all members get the same error, which names the member at fault.

use crate::support::{JOB, Places, on_all};
use phalanx_base::{Code, Error};
use phalanx_collective::{Group, GroupOptions, Reduce, SameHostTransport};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

/// Bounds a wait that would otherwise hang.
const HANG: Duration = Duration::from_secs(120);

/// Runs `check` on every kind of group, with three members and the name of member 2.
fn each_kind(check: impl Fn(Vec<Group>, &str)) {
    check(Group::in_process(3), "replica 2");
    for same_host in [SameHostTransport::SharedMemory, SameHostTransport::Socket, SameHostTransport::Network] {
        let places = Places::new(3);
        check(places.groups(|options| options.same_host = same_host), "worker/2");
    }
}

/// Checks that the survivors fail with the same error, in this call and in every later one.
fn all_fail_alike(survivors: &mut [Group], call: impl Fn(&mut Group) -> Result<(), Error> + Sync) -> Error {
    let start = Instant::now();
    let errors = on_all(survivors, |group| {
        loop {
            // A first call may still succeed with what the lost member sent before.
            if let Err(error) = call(group) {
                return error;
            }
            assert!(start.elapsed() < HANG, "rank {} does not fail", group.rank());
        }
    });
    let texts: Vec<String> = errors.iter().map(Error::report).collect();
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:#?}");
    let again = on_all(survivors, |group| group.barrier().unwrap_err().report());
    assert!(again.iter().all(|text| *text == texts[0]), "{again:#?}");
    errors.into_iter().next().unwrap()
}

#[test]
fn a_member_that_goes_away_in_the_middle_is_named_by_all() {
    each_kind(|mut groups, name| {
        let lost = Mutex::new(groups.pop());
        let reduce = |group: &mut Group| group.all_reduce(&mut vec![1.0; 3_000_000], Reduce::Sum);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut lost = lost.lock().unwrap().take().unwrap();
                lost.all_reduce(&mut vec![1.0; 3_000_000], Reduce::Sum).unwrap();
                drop(lost);
            });
            all_fail_alike(&mut groups, reduce)
        });
        assert_eq!(error.code(), Code::PeerUnreachable);
        assert!(error.what().starts_with(name), "{error}");
    });
}

#[test]
fn a_member_that_panics_in_the_middle_is_lost() {
    let places = Places::new(3);
    let mut groups = places.groups(|_| ());
    let mut last = groups.pop().unwrap();
    let thread = std::thread::spawn(move || {
        last.barrier().unwrap();
        panic!("this panic belongs to the test");
    });
    let error = all_fail_alike(&mut groups, Group::barrier);
    assert!(thread.join().is_err());
    assert_eq!((error.code(), error.what()), (Code::PeerUnreachable, "worker/2 is lost"));
    assert_eq!(error.place(), Some(&*places.peers[2].address.to_string()));
}

#[test]
fn a_slow_member_is_named_by_all_and_gets_the_same_error() {
    let check = |mut groups: Vec<Group>, name: &str| {
        let others_failed = Barrier::new(3);
        let errors = on_all(&mut groups, |group| {
            let reduce = |group: &mut Group| group.all_reduce(&mut [1.0; 10], Reduce::Sum).unwrap_err();
            if group.rank() == 2 {
                others_failed.wait();
                return reduce(group);
            }
            let error = reduce(group);
            others_failed.wait();
            error
        });
        for error in &errors {
            assert_eq!(error.code(), Code::PeerUnreachable);
            assert_eq!(error.report(), errors[0].report());
            assert_eq!(error.what(), format!("{name} is too slow"));
        }
    };
    // All kinds at once: they do nothing but wait.
    std::thread::scope(|scope| {
        scope.spawn(|| check(Group::in_process(3), "replica 2"));
        for same_host in [SameHostTransport::SharedMemory, SameHostTransport::Socket, SameHostTransport::Network] {
            let change = move |options: &mut GroupOptions| (options.same_host, options.silence) = (same_host, HANG);
            scope.spawn(move || check(Places::new(3).groups(change), "worker/2"));
        }
    });
}

#[test]
fn a_member_that_is_done_may_leave() {
    each_kind(|mut groups, name| {
        on_all(&mut groups, |group| group.barrier().unwrap());
        drop(groups.pop());
        let error = all_fail_alike(&mut groups, Group::barrier);
        assert_eq!(error.what(), format!("{name} has left the group while others still needed it"));
    });
    // A goodbye alone fails nothing: the failure that is seen is the one that comes after it.
    each_kind(|mut groups, name| {
        drop(groups.pop());
        groups[1].abort(Error::new(Code::DataRow, "line 7 has no label"));
        let start = Instant::now();
        let error = loop {
            if let Some(error) = groups[0].failure() {
                break error;
            }
            assert!(start.elapsed() < HANG, "no failure arrives");
            std::thread::yield_now();
        };
        assert_eq!(error.what(), format!("{} failed", name.replace('2', "1")));
    });
}

#[test]
fn patience_lets_a_slow_member_come() {
    let places = Places::new(2);
    let mut groups = places.groups(|options| options.patience = Duration::from_secs(30));
    let got = on_all(&mut groups, |group| {
        if group.rank() == 1 {
            std::thread::sleep(Duration::from_millis(3_000));
        }
        let mut numbers = [1.0; 10];
        group.all_reduce(&mut numbers, Reduce::Sum).map(|()| numbers)
    });
    assert!(got.into_iter().all(|numbers| numbers.unwrap() == [2.0; 10]));
}

#[test]
fn different_sizes_are_an_error_that_names_both() {
    each_kind(|mut groups, name| {
        let errors = on_all(&mut groups, |group| {
            let length = if group.rank() == 2 { 12 } else { 10 };
            group.all_reduce(&mut vec![1.0; length], Reduce::Sum).unwrap_err()
        });
        for error in errors {
            assert_eq!(error.code(), Code::ShapeMismatch, "{error}");
            let why = error.why().unwrap();
            assert!(why.contains(&format!("{name} calls all_reduce(sum) of 12 numbers as call 1")), "{why}");
            assert!(why.contains("calls all_reduce(sum) of 10 numbers as call 1"), "{why}");
        }
    });
}

#[test]
fn different_operations_are_an_error_that_names_both() {
    each_kind(|mut groups, name| {
        let errors = on_all(&mut groups, |group| {
            group.barrier().unwrap();
            // The two operations use different algorithms, so not every member receives a message of the other.
            match group.rank() {
                2 => group.broadcast(0, &mut [0.0; 5]).unwrap_err(),
                _ => group.all_reduce(&mut vec![1.0; 500_000], Reduce::Mean).unwrap_err(),
            }
        });
        for error in errors {
            assert_eq!(error.code(), Code::ShapeMismatch, "{error}");
            let why = error.why().unwrap();
            assert!(why.contains(&format!("{name} calls broadcast of 5 numbers from rank 0 as call 2")), "{why}");
            assert!(why.contains("all_reduce(mean) of 500000 numbers as call 2"), "{why}");
        }
    });
}

#[test]
fn tensors_in_another_order_are_an_error() {
    let errors = on_all(&mut Group::in_process(2), |group| {
        let (mut a, mut b) = (vec![1.0; 10], vec![1.0; 12]);
        let mut tensors: [&mut [f32]; 2] = [&mut a, &mut b];
        if group.rank() == 1 {
            tensors.reverse();
        }
        group.all_reduce_many(&mut tensors, Reduce::Sum).unwrap_err()
    });
    assert!(errors.iter().all(|error| error.code() == Code::ShapeMismatch));
}

#[test]
fn what_a_member_fails_with_reaches_all() {
    each_kind(|mut groups, name| {
        let mut last = groups.pop().unwrap();
        last.abort(Error::new(Code::DataRow, "line 7 has no label"));
        let error = all_fail_alike(&mut groups, Group::barrier);
        assert_eq!((error.code(), error.what()), (Code::JobFailed, &*format!("{name} failed")));
        assert_eq!(error.why(), Some("line 7 has no label"));
        assert_eq!(last.barrier().unwrap_err().report(), error.report());
    });
}

/// Forms a group of two that cannot form. Rank 0 waits in vain; rank 1 must be told why, however late it is.
fn refusal(places: &Places, change: impl Fn(&mut GroupOptions) + Sync) -> Option<Code> {
    let change = |options: &mut GroupOptions| {
        options.formation = if options.rank == 0 { Duration::from_millis(700) } else { HANG };
        change(options);
    };
    let mut codes = places.form(change).into_iter().map(|group| group.err().map(|error| error.code()));
    assert_eq!(codes.next(), Some(Some(Code::FormationDeadline)));
    codes.next().flatten()
}

#[test]
fn a_member_that_does_not_belong_is_refused() {
    for transport in [SameHostTransport::Socket, SameHostTransport::Network] {
        let set = |options: &mut GroupOptions| options.same_host = transport;
        let other_job = Places::with(2, |index| (JOB + u64::from(index), "build"), None);
        assert_eq!(refusal(&other_job, set), Some(Code::WrongJob));
        let builds = ["one", "two"];
        let other_build = Places::with(2, |index| (JOB, builds[index as usize]), None);
        assert_eq!(refusal(&other_build, set), Some(Code::WrongBuild));
        let token = Places::with(2, |_| (JOB, "build"), Some("secret"));
        assert_eq!(refusal(&token, set), Some(Code::WrongToken));
        let changed = |options: &mut GroupOptions| {
            set(options);
            if options.rank == 1 {
                options.peers.push(options.peers[0].clone());
            }
        };
        assert_eq!(refusal(&Places::new(2), changed), Some(Code::BadSetting));
    }
}

/// A member is accepted only by one that has begun to form the group, and so knows whether their lists agree.
#[test]
fn a_member_that_has_not_begun_to_form_the_group_accepts_nobody() {
    for same_host in [SameHostTransport::Socket, SameHostTransport::Network] {
        let places = Places::new(2);
        let options = GroupOptions { formation: Duration::from_millis(700), same_host, ..places.options(1) };
        let error = Group::connect(&places.listeners[1], &options).err().unwrap();
        assert_eq!(error.code(), Code::FormationDeadline);
        assert!(error.why().unwrap().contains("worker/0 has not begun to form the group"), "{error}");
    }
}

#[test]
fn a_group_forms_again_with_a_higher_number_only() {
    let places = Places::new(2);
    let first = places.groups(|_| ());
    assert!(
        places.form(|_| ()).iter().all(|again| again.as_ref().is_err_and(|error| error.code() == Code::BadSetting))
    );
    drop(first);
    let mut second = places.groups(|options| options.epoch = 2);
    let got = on_all(&mut second, |group| group.all_gather(&[group.rank() as u8]).unwrap());
    assert_eq!(got, [[[0], [1]], [[0], [1]]]);
    // A member that missed a formation is told so.
    let alone = |rank: usize, epoch| {
        let options = GroupOptions { epoch, formation: Duration::from_millis(300), ..places.options(rank) };
        Group::connect(&places.listeners[rank], &options).err().map(|error| error.code())
    };
    assert_eq!(alone(0, 4), Some(Code::FormationDeadline));
    assert_eq!(alone(1, 3), Some(Code::Fenced));
}

#[test]
fn a_missing_member_is_named() {
    let places = Places::new(3);
    let options = GroupOptions { formation: Duration::from_millis(500), ..places.options(1) };
    let error = Group::connect(&places.listeners[1], &options).err().unwrap();
    assert_eq!(error.code(), Code::FormationDeadline);
    assert!(error.why().unwrap().contains("worker/2"), "{error}");
}
