//! An exchange that goes on while its task computes.

use super::{Client, Mode, Pulled, Push, Remote, RowSet};
use crate::plan::Layout;
use phalanx_base::{Code, Context, Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// What one exchange sends and asks for.
struct Order {
    push: Option<Arc<Push>>,
    pull: Arc<Vec<RowSet>>,
}

/// A thread that exchanges on its own, one exchange after the other. Every one of them ends by the client's deadlines.
pub struct Ahead {
    orders: SyncSender<Order>,
    pulled: Receiver<Result<Pulled>>,
}

impl Ahead {
    /// Finds the model that the chief has made, and waits for orders.
    ///
    /// # Errors
    /// When the model is not there or is another one, a server does not answer, or there can be no thread.
    pub fn start(client: Arc<Client>, layout: Layout) -> Result<Self> {
        let mut remote = Remote::find(&client, layout)?;
        let (orders, ordered) = sync_channel::<Order>(1);
        let (answers, pulled) = sync_channel(1);
        let work = move || {
            for Order { push, pull } in ordered {
                let answer = client.exchange(&mut remote, push.as_deref(), &pull, Mode::Asynchronous);
                // Whoever gave the order has them for itself again, by the time it hears of it.
                drop((push, pull));
                if answers.send(answer).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("phalanx-exchange".into()).spawn(work);
        thread.context(Code::Internal, "the thread that exchanges values cannot be started")?;
        Ok(Self { orders, pulled })
    }

    /// Begins to push a step's gradients and to pull what is newer than what was pulled last, and rows.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn begin(&self, push: Option<Arc<Push>>, pull: Arc<Vec<RowSet>>) -> Result<()> {
        self.orders.send(Order { push, pull }).map_err(|_| gone())
    }

    /// Waits for what was begun.
    ///
    /// # Errors
    /// As [`Client::exchange`].
    pub fn end(&self) -> Result<Pulled> {
        self.pulled.recv().map_err(|_| gone())?
    }
}

fn gone() -> Error {
    Error::new(Code::Internal, "the thread that exchanges values is gone").because("it has panicked")
}
