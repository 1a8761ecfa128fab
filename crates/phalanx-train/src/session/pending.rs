//! The newest update of a session: computed, with an id, and not yet acknowledged by every server.

use phalanx_base::{Incarnation, TaskId, UpdateId};
use phalanx_ps::client::Push;

/// The update that the next exchange carries, and the sequence numbers of this incarnation.
///
/// A task's own update holds the number after the newest one that a server may know. The number is used up when the update
/// is first sent. An update that is dropped before that leaves its number to the next one, because servers refuse a gap.
pub(super) struct Pending {
    task: TaskId,
    incarnation: Incarnation,
    /// The newest sequence number that a server may know.
    used: u64,
    update: Option<Push>,
}

impl Pending {
    pub(super) fn new(task: TaskId, incarnation: Incarnation) -> Self {
        Self { task, incarnation, used: 0, update: None }
    }

    /// Returns the id of this task's next own update.
    pub(super) fn own_name(&self) -> UpdateId {
        UpdateId { task: self.task, incarnation: self.incarnation, sequence: self.used + 1 }
    }

    /// Keeps an update for the next exchange.
    pub(super) fn keep(&mut self, update: Push) {
        self.update = Some(update);
    }

    /// Returns the id of the update that is kept.
    pub(super) fn name(&self) -> Option<UpdateId> {
        self.update.as_ref().map(|update| update.id)
    }

    /// Returns the update to be sent, and counts its number as used. The update stays until [`Self::take_sent`]: sent again
    /// after a failure, it goes under the same id and counts once.
    pub(super) fn mark_sent(&mut self) -> Option<&Push> {
        if self.name() == Some(self.own_name()) {
            self.used += 1;
        }
        self.update.as_ref()
    }

    /// Takes an update that was sent: every server has it, or the caller sees to that.
    pub(super) fn take_sent(&mut self) -> Option<Push> {
        self.mark_sent()?;
        self.update.take()
    }

    /// Drops an update that was never sent, and returns whether there was one. An update whose exchange failed stays, since
    /// a server may have applied it.
    pub(super) fn forget(&mut self) -> bool {
        let Some(name) = self.name() else { return false };
        let own = (name.task, name.incarnation) == (self.task, self.incarnation);
        if own && name.sequence <= self.used {
            return false;
        }
        self.update = None;
        true
    }

    /// Returns how many updates this incarnation has sent as its own.
    pub(super) fn used(&self) -> u64 {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Role;

    const INCARNATION: Incarnation = Incarnation(7);

    fn pending() -> Pending {
        Pending::new(TaskId::new(Role::Worker, 1), INCARNATION)
    }

    fn update(name: UpdateId) -> Push {
        let (dense, rows, input_position) = (Vec::new(), Vec::new(), bytes::Bytes::new());
        Push { id: name, dense, rows, input_position, base_version: None, clock: 0, learning_rate: None }
    }

    #[test]
    fn an_update_that_is_dropped_unsent_gives_its_number_back() {
        let mut pending = pending();
        pending.keep(update(pending.own_name()));
        assert!(pending.forget());
        assert_eq!((pending.own_name().sequence, pending.used()), (1, 0));
        pending.keep(update(pending.own_name()));
        assert_eq!(pending.take_sent().map(|update| update.id.sequence), Some(1));
        assert_eq!((pending.own_name().sequence, pending.used()), (2, 1));
        assert!(!pending.forget(), "there is nothing to drop");
    }

    #[test]
    fn an_update_that_a_server_may_know_keeps_its_id() {
        let mut pending = pending();
        pending.keep(update(pending.own_name()));
        let first = pending.mark_sent().map(|update| update.id);
        // The exchange failed.
        assert!(!pending.forget());
        assert_eq!(pending.mark_sent().map(|update| update.id), first);
        assert_eq!(pending.used(), 1);
    }

    #[test]
    fn an_update_for_another_task_uses_no_number() {
        let mut pending = pending();
        let lost = UpdateId { task: TaskId::new(Role::Worker, 0), incarnation: Incarnation(3), sequence: 40 };
        pending.keep(update(lost));
        assert_eq!(pending.mark_sent().map(|update| update.id), Some(lost));
        assert_eq!(pending.used(), 0);
        assert!(pending.forget());
    }
}
