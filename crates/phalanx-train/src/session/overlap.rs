//! Exchanges that overlap with the computation of the step before.
//!
//! When a step begins, the gradients of the one before are sent and what the *next* one needs is requested; meanwhile the
//! step is computed on what was requested a step ago. No task waits for its servers then, but its values lack its own last
//! update. At most one exchange is in flight, so that a lost task leaves at most one update unfinished.

use super::connection::Connection;
use super::pending::Pending;
use crate::TableId;
use phalanx_base::{Code, Error, Result};
use phalanx_ps::client::{BackgroundExchange, Pulled, Push, RowSet, UpdateMode};
use std::sync::Arc;

/// The exchange in flight, and what the next one is to fetch.
pub(super) struct Overlap {
    ahead: BackgroundExchange,
    in_flight: Option<InFlight>,
    /// The rows that the step after the next one needs.
    announced: Option<Wanted>,
    /// The gradients of an exchange that failed; they are sent before any others.
    failed: Option<Arc<Push>>,
    /// What has arrived and is not in the model yet. Rows may be dropped; values may not, because servers send them again
    /// only once they change.
    arrived: Option<Pulled>,
}

/// The rows that a step needs: the ids of its batch, for each table that it uses.
#[derive(Default)]
struct Wanted {
    ids: Vec<(TableId, Vec<i64>)>,
    sets: Arc<Vec<RowSet>>,
}

struct InFlight {
    push: Option<Arc<Push>>,
    wanted: Wanted,
}

impl Wanted {
    fn new(connection: &Connection, ids: &[(TableId, &[i64])]) -> Result<Self> {
        let sets = Arc::new(connection.row_sets(ids)?);
        Ok(Self { ids: ids.iter().map(|&(table, ids)| (table, ids.to_vec())).collect(), sets })
    }

    fn is(&self, ids: &[(TableId, &[i64])]) -> bool {
        let mut pairs = self.ids.iter().zip(ids);
        self.ids.len() == ids.len() && pairs.all(|((table, own), (other, ids))| table == other && own == ids)
    }
}

impl Overlap {
    pub(super) fn start(connection: &Connection) -> Result<Self> {
        let ahead = BackgroundExchange::start(Arc::clone(&connection.client), connection.layout().clone())?;
        Ok(Self { ahead, in_flight: None, announced: None, failed: None, arrived: None })
    }

    /// Returns how many of the task's own steps are in flight.
    pub(super) fn steps_in_flight(&self) -> u64 {
        self.in_flight.as_ref().map_or(0, |exchange| u64::from(exchange.push.is_some()))
    }

    /// Announces the ids of the step after the next one.
    pub(super) fn announce(&mut self, connection: &Connection, ids: &[(TableId, &[i64])]) -> Result<()> {
        self.announced = Some(Wanted::new(connection, ids)?);
        Ok(())
    }

    /// Returns what a step needs, fetched now unless it was fetched before, and begins the exchange for the next step.
    pub(super) fn fetch(
        &mut self,
        connection: &mut Connection,
        pending: &mut Pending,
        ids: &[(TableId, &[i64])],
    ) -> Result<(Vec<RowSet>, Pulled)> {
        // Where an exchange failed, none is in flight.
        self.send_failed(connection)?;
        let fetched = self.end(connection)?;
        connection.finish_lost_updates(false)?;
        let wanted = match fetched.filter(|wanted| wanted.is(ids)) {
            Some(wanted) => wanted,
            None => {
                self.begin(pending.take_sent(), Wanted::new(connection, ids)?)?;
                self.end(connection)?.ok_or_else(not_begun)?
            }
        };
        // Without rows, where no ids were announced.
        let next = self.announced.take().unwrap_or_default();
        self.begin(pending.take_sent(), next)?;
        let pulled = self.arrived.take().ok_or_else(not_begun)?;
        Ok((Arc::unwrap_or_clone(wanted.sets), pulled))
    }

    /// Waits for the in-flight exchange, if any, to complete, and returns what has arrived.
    pub(super) fn settle(&mut self, connection: &mut Connection) -> Result<Option<Pulled>> {
        self.end(connection)?;
        self.send_failed(connection)?;
        Ok(self.arrived.take())
    }

    fn begin(&mut self, push: Option<Push>, wanted: Wanted) -> Result<()> {
        let push = push.map(Arc::new);
        self.ahead.begin(push.clone(), Arc::clone(&wanted.sets))?;
        self.in_flight = Some(InFlight { push, wanted });
        Ok(())
    }

    /// Waits for the exchange in flight, and returns what it requested.
    fn end(&mut self, connection: &mut Connection) -> Result<Option<Wanted>> {
        let Some(InFlight { push, wanted }) = self.in_flight.take() else { return Ok(None) };
        let mut pulled = match self.ahead.end() {
            Ok(pulled) => pulled,
            Err(error) => {
                self.failed = push;
                return Err(error);
            }
        };
        if let Some(push) = push {
            connection.keep_pushed(Arc::unwrap_or_clone(push));
        }
        if let Some(before) = self.arrived.take() {
            pulled.global_step = pulled.global_step.max(before.global_step);
            for (newest, old) in pulled.dense.iter_mut().zip(before.dense) {
                *newest = newest.take().or(old);
            }
        }
        self.arrived = Some(pulled);
        Ok(Some(wanted))
    }

    /// Sends the gradients of a failed exchange again, under the same id, so that they count once.
    fn send_failed(&mut self, connection: &mut Connection) -> Result<()> {
        if let Some(push) = self.failed.clone() {
            connection.push(&push, UpdateMode::Asynchronous)?;
            self.failed = None;
            connection.keep_pushed(Arc::unwrap_or_clone(push));
        }
        Ok(())
    }
}

fn not_begun() -> Error {
    Error::new(Code::Internal, "no exchange is in flight")
}
