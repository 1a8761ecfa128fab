//! What a recovery asks of servers. Every message names the server's incarnation: one that was restarted meanwhile refuses.

use super::calls::{Client, to_wire, unexpected};
use super::remote::Remote;
use crate::checkpoint::Applied;
use crate::recovery::{Life, Loss, Record, Survey};
use crate::server::identity;
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use phalanx_base::{Code, Error, Incarnation, Result};
use phalanx_wire::proto::params::{self, Assign, reply, request};
use std::time::{Duration, Instant};

/// How long one question whether a server is restored may wait before it is asked again.
const WAIT_MS: u32 = 1000;

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// Which incarnation of the server answered.
    pub incarnation: Incarnation,
    /// Whether it holds its part of the model.
    pub ready: bool,
    /// The updates in what it holds.
    pub survey: Survey,
    /// Steps that it has missed by being restored, as far as tasks have pushed again since.
    pub missed: u64,
}

impl Client {
    /// Asks a server which incarnation it is and what it holds.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn state_of(&self, server: usize) -> Result<ServerState> {
        let frame = self.frame(request::Op::Describe(params::Describe {}));
        read_state(server, self.block(self.call(server, frame))?.0)
    }

    /// The same, but for no longer than `patience`.
    ///
    /// # Errors
    /// When the server does not answer in time.
    pub fn state_within(&self, server: usize, patience: Duration) -> Result<ServerState> {
        let call = self.call(server, self.frame(request::Op::Describe(params::Describe {})));
        let late = |_| Error::new(Code::PeerUnreachable, format!("ps/{server} does not answer in time"));
        let answer = self.block(async { tokio::time::timeout(patience, call).await.map_err(late)? })?;
        read_state(server, answer.0)
    }

    /// Asks all servers but one at once. Those that hold no part, or do not answer within `patience`, are left out.
    #[must_use]
    pub fn survey(&self, except: usize, patience: Duration) -> Vec<Survey> {
        let ask = |server: usize| async move {
            let call = self.call(server, self.frame(request::Op::Describe(params::Describe {})));
            let answer = tokio::time::timeout(patience, call).await.ok()?.ok()?;
            read_state(server, answer.0).ok().filter(|state| state.ready).map(|state| state.survey)
        };
        let asked = self.block(async { Ok(join_all((0..self.servers()).filter(|&i| i != except).map(ask)).await) });
        asked.unwrap_or_default().into_iter().flatten().collect()
    }

    /// Has these incarnations of servers restore their parts of a checkpoint by themselves, all at once, and waits for
    /// them until `deadline`. Answers how many bytes each has read.
    ///
    /// # Errors
    /// When the checkpoint is damaged, or a server was restarted, cannot read the directory, or does not answer.
    pub fn restore(
        &self,
        servers: &[(usize, Incarnation)],
        attempt: u64,
        (location, checkpoint): (&str, &str),
        deadline: Instant,
    ) -> Result<Vec<u64>> {
        let restore = |&(server, incarnation): &(usize, Incarnation)| {
            let ask = params::Restore {
                id: attempt,
                location: location.to_owned(),
                checkpoint: checkpoint.to_owned(),
                server: server as u32,
                servers: self.servers() as u32,
                wait_ms: WAIT_MS,
            };
            async move {
                loop {
                    let frame = self.frame_for(incarnation.0, request::Op::Restore(ask.clone()));
                    match self.call(server, frame).await?.0.result {
                        Some(reply::Result::Restored(restored)) if restored.done => return Ok(restored.read),
                        Some(reply::Result::Restored(_)) => {}
                        other => return Err(unexpected(&other)),
                    }
                    if Instant::now() > deadline || (self.options().stop)() {
                        return Err(Error::new(Code::OutcomeUnknown, format!("ps/{server} was not restored in time")));
                    }
                }
            }
        };
        self.block(try_join_all(servers.iter().map(restore)))
    }

    /// Replaces something on this incarnation of a server that is not ready.
    pub(crate) fn assign_to(
        &self,
        server: usize,
        incarnation: Incarnation,
        assign: Assign,
        body: Vec<Bytes>,
    ) -> Result<()> {
        let mut frame = self.frame_for(incarnation.0, request::Op::Assign(assign));
        body.into_iter().for_each(|bytes| frame.push(bytes));
        self.block(self.call(server, frame)).map(drop)
    }

    /// Tells a restored server which updates its values have, and where it goes on to count.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn set_applied(&self, server: usize, incarnation: Incarnation, saved: &[Applied], loss: &Loss) -> Result<()> {
        let mut applied: Vec<params::Applied> = saved.iter().copied().map(Applied::to_wire).collect();
        for counted in &loss.counted {
            let life = to_wire(counted.record.life.0, counted.record.life.1);
            match applied.iter_mut().find(|known| known.life.as_ref() == Some(&life)) {
                Some(known) => known.counted = counted.up_to,
                None => {
                    let counted = counted.up_to;
                    applied.push(params::Applied { life: Some(life), counted, ..params::Applied::default() });
                }
            }
        }
        let global_step = (server == 0).then_some(loss.global_step);
        let assign = Assign { forgets: true, applied, global_step, ..Assign::default() };
        self.assign_to(server, incarnation, assign, Vec::new())
    }

    /// Sets the count of committed steps on this incarnation of server 0.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn set_global_step(&self, incarnation: Incarnation, step: u64) -> Result<()> {
        self.assign_to(0, incarnation, Assign { global_step: Some(step), ..Assign::default() }, Vec::new())
    }

    /// Tells every server that the model is initialised; the one that counts steps last, because others ask that one.
    ///
    /// # Errors
    /// When a server was restarted since its handles were given out, or does not answer.
    pub fn set_ready(&self, remote: &Remote) -> Result<()> {
        (0..self.servers()).rev().try_for_each(|server| self.set_server_ready(server, remote.incarnation(server)))
    }

    /// Tells this incarnation of a server that what it holds is whole.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn set_server_ready(&self, server: usize, incarnation: Incarnation) -> Result<()> {
        let frame = self.frame_for(incarnation.0, request::Op::SetReady(params::SetReady {}));
        self.block(self.call(server, frame)).map(drop)
    }

    /// Shuts a lost task out on this incarnation of a server.
    ///
    /// # Errors
    /// When the server was restarted or does not answer.
    pub fn fence_on(&self, server: usize, incarnation: Incarnation, (task, lost): Life) -> Result<()> {
        let lost = Some(to_wire(task, lost));
        let frame = self.frame_for(incarnation.0, request::Op::Fence(params::Fence { lost }));
        self.block(self.call(server, frame)).map(drop)
    }
}

fn read_state(server: usize, answer: params::Reply) -> Result<ServerState> {
    let (incarnation, global_step) = (Incarnation(answer.server_life), answer.global_step);
    let Some(reply::Result::Description(found)) = answer.result else { return Err(unexpected(&answer.result)) };
    let record = |applied: &params::Applied| {
        Ok(Record {
            life: identity(applied.life.as_ref())?,
            step: applied.step,
            complete: applied.parts_applied == applied.parts,
            behind: applied.behind,
            fenced: applied.fenced,
        })
    };
    let survey = Survey {
        records: found.applied.iter().map(record).collect::<Result<_>>()?,
        restored: found.restored,
        closed: found.closed,
        global_step: (server == 0).then_some(global_step),
    };
    Ok(ServerState { incarnation, ready: found.ready, survey, missed: found.missed })
}
