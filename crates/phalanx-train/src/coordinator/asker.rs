//! The worker's thread that asks the coordinator, so that steps are there before they are needed.

use super::inbox::{Inbox, ToAsk};
use crate::{Server, identity};
use phalanx_base::{Code, Context, Error, Fault, Result};
use phalanx_wire::proto::coordinate::{Answer, Ask};
use phalanx_wire::proto::params;
use phalanx_wire::{Address, OutFrame, Outcome, bulk};
use std::time::Duration;

/// How long the coordinator keeps a worker waiting that has nothing to do.
const WAIT: Duration = Duration::from_millis(500);
const DEADLINE: Duration = Duration::from_secs(5);

/// Talks to the coordinator.
pub(super) struct Asker {
    server: Server,
    chief: String,
    address: Address,
    who: params::Client,
    job: u64,
}

/// What the worker and the coordinator it has joined know of each other.
#[derive(Default)]
struct Joined {
    coordinator: u64,
    sent: u64,
    /// The newest turn that has come here.
    heard: u64,
}

impl Asker {
    pub(super) fn new(server: &Server) -> Result<Self> {
        let (chief, address) =
            server.config().chief().ok_or_else(|| Error::new(Code::Internal, "there is no chief"))?;
        let options = server.client_options();
        Ok(Self {
            server: server.clone(),
            chief: format!("{chief} ({address})"),
            address: address.clone(),
            who: phalanx_ps::client_of(options.task, options.incarnation),
            job: identity::digest(&server.config().job_id()),
        })
    }

    pub(super) fn run(&self, inbox: &Inbox) {
        if let Err(error) = self.ask(inbox) {
            inbox.fail(error);
        }
        inbox.close();
    }

    fn ask(&self, inbox: &Inbox) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(Code::Internal, "the coordinator cannot be asked")?;
        let lane = {
            let _inside = runtime.enter();
            bulk::reach(&self.address, self.chief.clone(), self.server.client_options().token)
        };
        let mut joined = Joined::default();
        let mut refused = false;
        loop {
            let stopping = || self.server.should_stop();
            let ToAsk { reports, window, idle, leaving } = inbox.wait_to_ask(refused, &stopping);
            let wait = if idle && reports.is_empty() && !leaving { WAIT } else { Duration::ZERO };
            let ask = Ask {
                job: self.job,
                worker: Some(self.who),
                reports,
                heard: joined.heard,
                want: window.max(1) as u32,
                wait_millis: wait.as_millis() as u32,
                leaving,
                coordinator: joined.coordinator,
                sent: joined.sent,
            };
            match runtime.block_on(lane.call(OutFrame::new(&ask), DEADLINE + wait)) {
                Outcome::Done(frame) => {
                    let answer: Answer = frame.header()?;
                    if answer.over || (leaving && answer.coordinator == joined.coordinator) {
                        inbox.answered(ask.reports.len(), Vec::new(), false);
                        return Ok(());
                    }
                    if answer.coordinator != joined.coordinator {
                        let Some(sent) = inbox.renew(&|| self.server.should_stop()) else { return Ok(()) };
                        joined = Joined { coordinator: answer.coordinator, sent, heard: 0 };
                        continue;
                    }
                    let mut fresh = answer.steps;
                    // Only what comes next: a turn that was heard before would be run twice.
                    fresh.retain(|step| {
                        let next = step.turn == joined.heard + 1;
                        joined.heard += u64::from(next);
                        next
                    });
                    refused = fresh.is_empty();
                    inbox.answered(ask.reports.len(), fresh, answer.eager);
                }
                Outcome::Failed(_) | Outcome::Unknown(_) if leaving || self.server.should_stop() => return Ok(()),
                Outcome::Failed(error) | Outcome::Unknown(error) => {
                    if error.code().fault() != Fault::Infrastructure || error.code() == Code::Fenced {
                        return Err(error);
                    }
                    // The chief may come back; membership decides when to give up.
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}
