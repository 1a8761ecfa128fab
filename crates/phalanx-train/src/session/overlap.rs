//! Exchanges that overlap with the computation of the step before.
//!
//! When a step begins, the gradients of the one before are sent and what the *next* one needs is requested; meanwhile the
//! step is computed on what was requested a step ago. No task waits for its servers then, but its values lack its own last
//! update. At most one exchange is in flight, so that a lost task leaves at most one update unfinished.

use super::Session;
use crate::TableId;
use phalanx_base::{Code, Error, Result};
use phalanx_nn::burn::module::Module;
use phalanx_ps::client::{BackgroundExchange, Pulled, Push, RowSet, UpdateMode};
use std::sync::Arc;

/// The ids of a batch, for each table that it uses.
type Ids = Vec<(TableId, Vec<i64>)>;

pub(super) struct Overlap {
    ahead: BackgroundExchange,
    in_flight: Option<InFlight>,
    /// The rows that the step after the next one needs.
    announced: Option<Wanted>,
    /// The gradients of an exchange that failed; they are sent before any others.
    failed: Option<Arc<Push>>,
}

/// The rows that a step needs.
#[derive(Default)]
struct Wanted {
    ids: Ids,
    sets: Arc<Vec<RowSet>>,
}

struct InFlight {
    push: Option<Arc<Push>>,
    wanted: Wanted,
}

impl Overlap {
    pub(super) fn new(ahead: BackgroundExchange) -> Self {
        Self { ahead, in_flight: None, announced: None, failed: None }
    }

    /// Returns how many of the task's own steps are in flight.
    pub(super) fn steps_in_flight(&self) -> u64 {
        self.in_flight.as_ref().map_or(0, |exchange| u64::from(exchange.push.is_some()))
    }

    fn begin(&mut self, push: Option<Push>, wanted: Wanted) -> Result<()> {
        let push = push.map(Arc::new);
        self.ahead.begin(push.clone(), Arc::clone(&wanted.sets))?;
        self.in_flight = Some(InFlight { push, wanted });
        Ok(())
    }

    /// Waits for the exchange in flight, and returns what it pushed, what it requested, and what it pulled.
    fn end(&mut self) -> Result<Option<(Option<Push>, Wanted, Pulled)>> {
        let Some(InFlight { push, wanted }) = self.in_flight.take() else { return Ok(None) };
        match self.ahead.end() {
            Ok(pulled) => Ok(Some((push.map(Arc::unwrap_or_clone), wanted, pulled))),
            Err(error) => {
                self.failed = push;
                Err(error)
            }
        }
    }
}

impl<M: Module> Session<M> {
    /// Announces the ids of the step *after* the next one, for each table that it uses. Where steps overlap
    /// ([`Supervisor::overlap`](crate::Supervisor::overlap)), their rows are fetched while the next step is computed;
    /// elsewhere this does nothing. A step with other ids than were announced fetches its rows itself.
    ///
    /// ```
    /// # use phalanx_nn::burn::nn::LinearConfig;
    /// # use phalanx_optim::Sgd;
    /// # use phalanx_ps::{TableSpec, plan::RowInitializer};
    /// # use phalanx_train::{Server, Supervisor};
    /// # let server = Server::local()?;
    /// let table = TableSpec { name: "table".into(), dim: 2, initializer: RowInitializer::constant(0.5), optimizer: Sgd::new(0.1).into() };
    /// let mut supervisor = Supervisor::new(&server, Sgd::new(0.1)).overlap(true);
    /// let table = supervisor.table(table)?;
    /// # let device = phalanx_nn::default_device();
    /// let mut session = supervisor.prepare_or_wait_for_session(LinearConfig::new(2, 1).init(&device))?;
    /// let batches = [[1_i64, 2], [2, 3], [1, 3]];
    /// for (at, ids) in batches.iter().enumerate() {
    ///     if let Some(next) = batches.get(at + 1) {
    ///         session.announce(&[(table, next)])?;
    ///     }
    ///     session.step_with_rows(&[(table, ids)], |model, rows| model.forward(rows[0].lookup()).sum())?;
    /// }
    /// supervisor.stop(session)?;
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such table.
    pub fn announce(&mut self, ids: &[(TableId, &[i64])]) -> Result<()> {
        if self.overlap.is_some() {
            let wanted = self.wanted(ids)?;
            self.overlap()?.announced = Some(wanted);
        }
        Ok(())
    }

    fn wanted(&self, ids: &[(TableId, &[i64])]) -> Result<Wanted> {
        let sets = Arc::new(self.row_sets(ids)?);
        Ok(Wanted { ids: ids.iter().map(|&(table, ids)| (table, ids.to_vec())).collect(), sets })
    }

    /// Returns what a step needs, fetched now unless it was fetched before, and begins the exchange for the next step.
    pub(super) fn fetch_overlapped(&mut self, ids: &[(TableId, &[i64])]) -> Result<(Vec<RowSet>, Pulled)> {
        // Where an exchange failed, none is in flight.
        self.send_failed()?;
        let fetched = self.end_exchange()?;
        if let Err(error) = self.finish_lost_updates() {
            self.take_values(fetched)?;
            return Err(error);
        }
        let is_meant = |wanted: &Wanted| {
            let mut pairs = wanted.ids.iter().zip(ids);
            wanted.ids.len() == ids.len() && pairs.all(|((table, own), (other, ids))| table == other && own == ids)
        };
        let (wanted, pulled) = match fetched {
            Some((wanted, pulled)) if is_meant(&wanted) => (wanted, pulled),
            fetched => {
                self.take_values(fetched)?;
                let (wanted, pending) = (self.wanted(ids)?, self.pending.take_sent());
                self.overlap()?.begin(pending, wanted)?;
                self.end_exchange()?.ok_or_else(not_begun)?
            }
        };
        let pending = self.pending.take_sent();
        let overlap = self.overlap()?;
        // Without rows, where no ids were announced.
        let next = overlap.announced.take().unwrap_or_default();
        overlap.begin(pending, next)?;
        Ok((Arc::unwrap_or_clone(wanted.sets), pulled))
    }

    /// Waits for the in-flight exchange, if any, to complete.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.overlap.is_some() {
            let fetched = self.end_exchange()?;
            self.take_values(fetched)?;
            self.send_failed()?;
        }
        Ok(())
    }

    fn end_exchange(&mut self) -> Result<Option<(Wanted, Pulled)>> {
        let Some((pushed, wanted, pulled)) = self.overlap()?.end()? else { return Ok(None) };
        if let Some(pushed) = pushed {
            self.keep_pushed(pushed);
        }
        Ok(Some((wanted, pulled)))
    }

    /// Rows that are no longer needed may be dropped; values may not, because servers send them again only once they change.
    fn take_values(&mut self, fetched: Option<(Wanted, Pulled)>) -> Result<()> {
        if let Some((_, pulled)) = fetched {
            self.global_step = self.global_step.max(pulled.global_step);
            self.module = Some(self.load(pulled.dense)?);
        }
        Ok(())
    }

    /// Sends the gradients of a failed exchange again, under the same id, so that they count once.
    fn send_failed(&mut self) -> Result<()> {
        if let Some(push) = self.overlap()?.failed.clone() {
            self.client.push(&mut self.remote, &push, UpdateMode::Asynchronous)?;
            self.overlap()?.failed = None;
            self.keep_pushed(Arc::unwrap_or_clone(push));
        }
        Ok(())
    }

    fn overlap(&mut self) -> Result<&mut Overlap> {
        self.overlap.as_mut().ok_or_else(not_begun)
    }
}

fn not_begun() -> Error {
    Error::new(Code::Internal, "no exchange is in flight")
}
