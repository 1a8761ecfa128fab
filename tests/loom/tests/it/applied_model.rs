//! Deduplication of updates on a server: each is applied once, and nothing of a fenced task after the fence.

use crate::applied::{AppliedUpdates, TaskIncarnation, UpdateOutcome, UpdatePart};
use crate::lock;
use crate::snapshot::{Snapshot, Snapshots};
use phalanx_base::{Code, Incarnation, Result, Role, TaskId};
use phalanx_loom::sync::Arc;
use phalanx_loom::sync::atomic::{AtomicU64, Ordering};
use phalanx_loom::{explore, thread};

fn worker() -> TaskIncarnation {
    (TaskId::new(Role::Worker, 0), Incarnation(7))
}

fn step(step: u64) -> UpdatePart {
    UpdatePart { step, part: 0, parts: 1, by_another: false }
}

/// A server with one number.
#[derive(Default)]
struct Server {
    applied: AppliedUpdates,
    snapshots: Snapshots<Nothing>,
    number: AtomicU64,
}

/// No snapshot is taken here; only their gate is used.
struct Nothing;

impl Snapshot for Nothing {
    fn id(&self) -> u64 {
        0
    }

    fn release(&self) {}
}

/// How an update is applied once: as the product does it, or wrongly.
type Once = fn(&Server, UpdatePart) -> Result<UpdateOutcome>;

impl Server {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    fn change(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    fn once(&self, update: UpdatePart) -> Result<UpdateOutcome> {
        let _gate = self.snapshots.update();
        self.applied.once(worker(), update, |_, _| {
            self.change();
            Ok(())
        })
    }

    /// Replaces values between two updates, as `Store::replace` does.
    fn replace(&self) -> Result<()> {
        let _gate = self.snapshots.exclude_updates();
        self.applied.admitted(worker(), || self.change())
    }

    /// A planted bug: the sender is admitted, and may be fenced while this waits for updates to end.
    fn replace_admitted_first(&self) -> Result<()> {
        self.applied.admitted(worker(), || ())?;
        let _gate = self.snapshots.exclude_updates();
        self.change();
        Ok(())
    }

    /// A planted bug: the update is recorded, and applied after the lock is released.
    fn once_recorded_first(&self, update: UpdatePart) -> Result<UpdateOutcome> {
        let progress = self.applied.of(worker());
        let mut progress = lock(&progress);
        let outcome = progress.deduplicate(update)?;
        if outcome == UpdateOutcome::Fresh {
            progress.advance(update);
            drop(progress);
            self.change();
        }
        Ok(outcome)
    }

    /// A planted bug: the update is applied after the decision, without the lock, and then recorded.
    fn once_unlocked(&self, update: UpdatePart) -> Result<UpdateOutcome> {
        let progress = self.applied.of(worker());
        let outcome = lock(&progress).deduplicate(update)?;
        if outcome == UpdateOutcome::Fresh {
            self.change();
            lock(&progress).advance(update);
        }
        Ok(outcome)
    }
}

/// A worker's connection breaks, and it repeats its update over a second one while the first message is being applied.
fn a_repeat_at_the_same_time(once: Once) {
    explore(move || {
        let server = Arc::<Server>::default();
        let first = thread::spawn({
            let server = Arc::clone(&server);
            move || once(&server, step(1)).unwrap()
        });
        let second = once(&server, step(1)).unwrap();
        assert!(server.number() > 0, "an update was answered before it was applied");
        let first = first.join().unwrap();
        let fresh = [first, second].iter().filter(|&&outcome| outcome == UpdateOutcome::Fresh).count();
        assert_eq!((fresh, server.number()), (1, 1), "an update was applied twice");
    });
}

/// The same, and the worker pushes its next step as soon as the repeat is answered.
fn a_late_message_beside_the_next_step(once: Once) {
    explore(move || {
        let server = Arc::<Server>::default();
        let late = thread::spawn({
            let server = Arc::clone(&server);
            move || once(&server, step(1)).unwrap()
        });
        once(&server, step(1)).unwrap();
        assert_eq!(once(&server, step(2)).unwrap(), UpdateOutcome::Fresh);
        late.join().unwrap();
        assert_eq!(server.number(), 2, "an update was lost or applied twice");
    });
}

/// A chief fences a lost worker while a late update of it arrives, and then finishes its step.
fn a_fence_beside_a_late_update(once: Once) {
    explore(move || {
        let server = Arc::<Server>::default();
        let late = thread::spawn({
            let server = Arc::clone(&server);
            move || once(&server, step(1)).map_err(|error| error.code())
        });
        let progress = server.applied.fence(worker());
        let at_fence = server.number();
        assert_eq!(progress.step, at_fence, "the fence reports the task's progress");
        let late = late.join().unwrap();
        assert_eq!(server.number(), at_fence, "a fenced task changed something");
        assert_eq!(late.is_ok(), at_fence == 1);
        assert!(late.is_ok() || late == Err(Code::Fenced));
        once(&server, UpdatePart { by_another: true, ..step(1) }).unwrap();
        assert_eq!(server.number(), 1, "the step is applied once, whoever sends it");
    });
}

/// A chief fences a lost task while a late message of it that replaces values arrives.
fn a_fence_beside_a_late_replacement(replace: fn(&Server) -> Result<()>) {
    explore(move || {
        let server = Arc::<Server>::default();
        let late = thread::spawn({
            let server = Arc::clone(&server);
            move || replace(&server).is_ok()
        });
        server.applied.fence(worker());
        let at_fence = server.number();
        let replaced = late.join().unwrap();
        assert_eq!(server.number(), at_fence, "a fenced task changed something");
        assert_eq!(replaced, at_fence == 1);
    });
}

/// An update and a replacement take their locks in one order: they do not deadlock.
#[test]
fn a_replacement_beside_an_update_ends() {
    explore(|| {
        let server = Arc::<Server>::default();
        let pushing = thread::spawn({
            let server = Arc::clone(&server);
            move || server.once(step(1)).unwrap()
        });
        server.replace().unwrap();
        pushing.join().unwrap();
        assert_eq!(server.number(), 2);
    });
}

#[test]
fn a_fenced_task_replaces_nothing_after_the_fence() {
    a_fence_beside_a_late_replacement(Server::replace);
}

#[test]
#[should_panic(expected = "a fenced task changed something")]
fn a_fence_between_admission_and_replacement_is_found() {
    a_fence_beside_a_late_replacement(Server::replace_admitted_first);
}

#[test]
fn a_repeat_at_the_same_time_is_applied_once() {
    a_repeat_at_the_same_time(Server::once);
}

#[test]
fn a_late_message_changes_nothing_beside_the_next_step() {
    a_late_message_beside_the_next_step(Server::once);
}

#[test]
fn a_fenced_task_changes_nothing_after_the_fence() {
    a_fence_beside_a_late_update(Server::once);
}

/// A late message to the barrier must not let a fenced task join again.
#[test]
fn a_fenced_task_is_not_admitted_after_the_fence() {
    explore(|| {
        let server = Arc::<Server>::default();
        let late = thread::spawn({
            let server = Arc::clone(&server);
            move || server.applied.admitted(worker(), || server.change()).is_ok()
        });
        server.applied.fence(worker());
        let at_fence = server.number();
        assert_eq!((late.join().unwrap(), server.number()), (at_fence == 1, at_fence));
    });
}

/// Reading the progress of all tasks, as a snapshot does, does not deadlock with updates.
#[test]
fn reading_all_progress_ends_beside_updates() {
    explore(|| {
        let server = Arc::<Server>::default();
        let pushing = thread::spawn({
            let server = Arc::clone(&server);
            move || server.once(step(1)).unwrap()
        });
        let seen: Vec<u64> = server.applied.all().into_iter().map(|(_, progress)| progress.step).collect();
        assert!([&[][..], &[0], &[1]].contains(&&seen[..]), "{seen:?}");
        pushing.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "answered before it was applied")]
fn recording_before_applying_is_found() {
    a_repeat_at_the_same_time(Server::once_recorded_first);
}

#[test]
#[should_panic(expected = "applied twice")]
fn applying_without_the_lock_is_found() {
    a_repeat_at_the_same_time(Server::once_unlocked);
}

#[test]
#[should_panic(expected = "applied twice")]
fn applying_without_the_lock_is_found_beside_the_next_step() {
    a_late_message_beside_the_next_step(Server::once_unlocked);
}

#[test]
#[should_panic(expected = "the task's progress")]
fn a_fence_that_does_not_wait_for_the_update_is_found() {
    a_fence_beside_a_late_update(Server::once_recorded_first);
}
