//! The chief probes the addresses of tasks that are missing or silent.

use super::chief::Chief;
use super::{REMIND, check_peer};
use crate::services::Timer;
use futures_util::future::join_all;
use phalanx_base::{Code, Error, Incarnation, Result, TaskId};
use phalanx_cluster::{AwakeClock, Phase};
use phalanx_wire::control::Client;
use phalanx_wire::proto::control::Identity;
use phalanx_wire::{Address, Token};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a probe of a missing task may take.
const LOOK: Duration = Duration::from_secs(2);

/// How many silent tasks are probed at once.
const AT_ONCE: usize = 32;

impl Chief {
    /// Probes until the job is over.
    pub(crate) async fn look_around(&self) {
        let mut reminder = Timer::after(REMIND.0, REMIND.1);
        let mut clients: BTreeMap<TaskId, Client> = BTreeMap::new();
        let mut clock = AwakeClock::new(2 * LOOK);
        while self.job.phase() != Phase::Over {
            self.look_after_the_silent().await;
            let missing = self.lock().roster.missing();
            if self.job.phase() == Phase::Forming {
                if let Err(error) = self.look_for(&missing, &mut clients).await {
                    self.change(|roster, now| roster.fail(now, error));
                    continue;
                }
                let still = self.lock().roster.missing();
                if !still.is_empty() && reminder.is_due(Instant::now()) {
                    self.log.run(|| tracing::info!("{}", self.missing_line()));
                }
                if clock.read(self.started.elapsed()) > self.options.formation_deadline {
                    let error = Error::new(Code::FormationDeadline, "the job did not form before the deadline");
                    let error = error
                        .because(format!("{}: {}", self.identity.task, self.missing_line()))
                        .help("start the missing tasks, or raise the deadline");
                    self.change(|roster, now| roster.fail(now, error));
                }
            }
            tokio::time::sleep(self.options.beat).await;
        }
    }

    /// Probes silent tasks. One may only be slow, until its lease expires; where nobody listens at its address any more, or
    /// another incarnation does, it is lost at once.
    async fn look_after_the_silent(&self) {
        let silent_for = self.options.beat * 2;
        let suspected = self.lock().roster.suspected(self.started.elapsed(), silent_for);
        for some in suspected.chunks(AT_ONCE) {
            let looks = some.iter().filter_map(|&(task, incarnation)| {
                let (_, address) = self.others.iter().find(|(other, _)| *other == task)?;
                let token = self.options.token.clone();
                Some(async move { (task, incarnation, gone(address, incarnation, token).await) })
            });
            for (task, incarnation, why) in join_all(looks).await {
                if let Some(why) = why {
                    self.change(|roster, now| roster.died(now, task, incarnation, why));
                }
            }
        }
    }

    /// Probes the addresses of missing tasks. An address that another job uses ends this job; whatever else is wrong there is
    /// recorded, and can be corrected while the job forms.
    async fn look_for(&self, missing: &[TaskId], clients: &mut BTreeMap<TaskId, Client>) -> Result<()> {
        for (task, address) in self.others.iter().filter(|(task, _)| missing.contains(task)) {
            clients.entry(*task).or_insert_with(|| Client::new(address, self.options.token.clone()));
        }
        let looks = clients.iter_mut().filter(|(task, _)| missing.contains(task)).map(|(&task, client)| async move {
            let look = tokio::time::timeout(LOOK, client.identify()).await;
            (
                task,
                look.unwrap_or_else(|_| {
                    let why = format!("no answer within {} s", LOOK.as_secs());
                    Err(Error::new(Code::PeerUnreachable, "no answer").because(why))
                }),
            )
        });
        for (task, look) in join_all(looks).await {
            let reason = match look {
                Ok(peer) => self.judge(task, &peer)?,
                Err(error) if error.code() == Code::WrongToken => {
                    let error = error.at(task.to_string());
                    self.refuse(task, &error);
                    error.what().to_owned()
                }
                Err(error) => error.why().unwrap_or(error.what()).to_owned(),
            };
            self.lock().reasons.insert(task, reason);
        }
        Ok(())
    }

    fn judge(&self, task: TaskId, peer: &Identity) -> Result<String> {
        match check_peer(&self.identity, peer) {
            Err(error) if error.code() == Code::WrongJob => Err(error),
            Err(error) => {
                self.refuse(task, &error);
                Ok(error.what().to_owned())
            }
            Ok(()) if peer.task == task.to_string() => Ok("it is up and has not joined yet".to_owned()),
            Ok(()) => Ok(format!("{} listens there", peer.task)),
        }
    }
}

/// Returns how we know that this incarnation of a task is gone, `None` where we do not.
async fn gone(address: &Address, incarnation: Incarnation, token: Option<Token>) -> Option<&'static str> {
    const LONGEST: Duration = Duration::from_millis(500);
    let connect = tokio::net::TcpStream::connect((address.host(), address.port()));
    match tokio::time::timeout(LONGEST, connect).await {
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Some("nobody listens at its address")
        }
        Ok(Ok(_)) => {
            let mut client = Client::new(address, token);
            let who = tokio::time::timeout(LONGEST, client.identify()).await.ok()?.ok()?;
            (who.incarnation != incarnation.0).then_some("it was started again")
        }
        _ => None,
    }
}
