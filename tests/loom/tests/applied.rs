//! Deduplication of updates on a server: each is applied once, and nothing of a fenced task after the fence.

#![cfg(loom)]

use applied::{Applied, Update, Verdict};
use phalanx_base::{Code, Incarnation, Result, Role, TaskId};
use phalanx_loom::{explore, sync, thread};
use snapshot::{Snapshot, Snapshots};
use sync::atomic::{AtomicU64, Ordering};
use sync::{Arc, Mutex, MutexGuard};

#[path = "../../../crates/phalanx-ps/src/server/applied.rs"]
#[allow(dead_code, unreachable_pub)]
mod applied;
#[path = "../../../crates/phalanx-ps/src/server/snapshot.rs"]
#[allow(dead_code)]
mod snapshot;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

fn life() -> (TaskId, Incarnation) {
    (TaskId::new(Role::Worker, 0), Incarnation(7))
}

fn step(step: u64) -> Update {
    Update { step, part: 0, parts: 1, by_another: false }
}

/// A server with one number.
#[derive(Default)]
struct Server {
    applied: Applied,
    snapshots: Snapshots<Nothing>,
    number: AtomicU64,
}

/// No snapshot is taken here; only their gate is used.
struct Nothing;

impl Snapshot for Nothing {
    fn id(&self) -> u64 {
        0
    }

    fn give_up(&self) {}
}

/// How an update is applied once: as the product does it, or wrongly.
type Once = fn(&Server, Update) -> Result<Verdict>;

impl Server {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    fn change(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    fn once(&self, update: Update) -> Result<Verdict> {
        let _gate = self.snapshots.update();
        self.applied.once(life(), update, |_, _| {
            self.change();
            Ok(())
        })
    }

    /// Replaces values between two updates, as `Store::replace` does.
    fn replace(&self) -> Result<()> {
        let _gate = self.snapshots.exclude_updates();
        self.applied.admitted(life(), || self.change())
    }

    /// A planted bug: the sender is admitted, and may be fenced while this waits for updates to end.
    fn replace_admitted_first(&self) -> Result<()> {
        self.applied.admitted(life(), || ())?;
        let _gate = self.snapshots.exclude_updates();
        self.change();
        Ok(())
    }

    /// A planted bug: the update is recorded, and applied after the lock is released.
    fn once_recorded_first(&self, update: Update) -> Result<Verdict> {
        let progress = self.applied.of(life().0, life().1);
        let mut progress = lock(&progress);
        let verdict = progress.judge(update.step, update.part, update.parts, update.by_another)?;
        if verdict == Verdict::Fresh {
            progress.advance(update.step, update.part, update.parts);
            drop(progress);
            self.change();
        }
        Ok(verdict)
    }

    /// A planted bug: the update is applied after the decision, without the lock, and then recorded.
    fn once_unlocked(&self, update: Update) -> Result<Verdict> {
        let progress = self.applied.of(life().0, life().1);
        let verdict = lock(&progress).judge(update.step, update.part, update.parts, update.by_another)?;
        if verdict == Verdict::Fresh {
            self.change();
            lock(&progress).advance(update.step, update.part, update.parts);
        }
        Ok(verdict)
    }
}

/// A worker's connection breaks, and it repeats its update over a second one while the first message is still worked at.
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
        let fresh = [first, second].iter().filter(|&&verdict| verdict == Verdict::Fresh).count();
        assert_eq!((fresh, server.number()), (1, 1), "an update was applied twice");
    });
}

/// The same, and the worker goes on with its next step as soon as the repeat is answered.
fn a_late_message_beside_the_next_step(once: Once) {
    explore(move || {
        let server = Arc::<Server>::default();
        let late = thread::spawn({
            let server = Arc::clone(&server);
            move || once(&server, step(1)).unwrap()
        });
        once(&server, step(1)).unwrap();
        assert_eq!(once(&server, step(2)).unwrap(), Verdict::Fresh);
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
        let progress = server.applied.fence(life());
        let at_fence = server.number();
        assert_eq!(progress.step, at_fence, "the fence says how far the task came");
        let late = late.join().unwrap();
        assert_eq!(server.number(), at_fence, "a fenced task changed something");
        assert_eq!(late.is_ok(), at_fence == 1);
        assert!(late.is_ok() || late == Err(Code::Fenced));
        once(&server, Update { by_another: true, ..step(1) }).unwrap();
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
        server.applied.fence(life());
        let at_fence = server.number();
        let replaced = late.join().unwrap();
        assert_eq!(server.number(), at_fence, "a fenced task changed something");
        assert_eq!(replaced, at_fence == 1);
    });
}

/// The locks of an update and of a replacement are taken in one order: neither waits for ever.
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

/// A message to the barrier that comes late must not bring a fenced task back in.
#[test]
fn a_fenced_task_is_not_admitted_after_the_fence() {
    explore(|| {
        let server = Arc::<Server>::default();
        let late = thread::spawn({
            let server = Arc::clone(&server);
            move || server.applied.admitted(life(), || server.change()).is_ok()
        });
        server.applied.fence(life());
        let at_fence = server.number();
        assert_eq!((late.join().unwrap(), server.number()), (at_fence == 1, at_fence));
    });
}

/// Looking at everybody's progress, as a snapshot does, waits for no update for ever.
#[test]
fn looking_at_all_tasks_ends_beside_updates() {
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
#[should_panic(expected = "how far the task came")]
fn a_fence_that_does_not_wait_for_the_update_is_found() {
    a_fence_beside_a_late_update(Server::once_recorded_first);
}
