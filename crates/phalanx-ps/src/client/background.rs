//! An exchange in the background, while its task computes.

use super::{Client, Pulled, Push, RemoteModel, RowSet, UpdateMode};
use crate::plan::Layout;
use phalanx_base::{Code, Context, Error, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// One exchange to make.
struct Order {
    push: Option<Arc<Push>>,
    pull: Arc<Vec<RowSet>>,
}

/// A thread that exchanges in the background, one exchange at a time. Each ends by the client's deadlines.
pub struct BackgroundExchange {
    orders: SyncSender<Order>,
    pulled: Receiver<Result<Pulled>>,
}

impl BackgroundExchange {
    /// Finds the model that the chief created, and starts the thread.
    ///
    /// # Errors
    /// When the model does not exist or differs, a server does not answer, or the thread cannot be started.
    pub fn start(client: Arc<Client>, layout: Layout) -> Result<Self> {
        let mut remote = RemoteModel::find(&client, layout)?;
        let (orders, ordered) = sync_channel::<Order>(1);
        let (answers, pulled) = sync_channel(1);
        let work = move || {
            for Order { push, pull } in ordered {
                let answer = client.exchange(&mut remote, push.as_deref(), &pull, UpdateMode::Asynchronous);
                // Dropped before the answer: the caller then holds the only references.
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

    /// Begins to push a step's gradients and to pull changed values, and rows.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn begin(&self, push: Option<Arc<Push>>, pull: Arc<Vec<RowSet>>) -> Result<()> {
        self.orders.send(Order { push, pull }).map_err(|_| gone())
    }

    /// Waits for the exchange that was begun.
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
