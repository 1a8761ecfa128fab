//! The settings of a run: everything follows from the seed.

use crate::random::Random;
use phalanx_cluster::schedule::{Consistency, SchedulerOptions};
use std::time::Duration;

/// A bug put in on purpose, which the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// Servers do not check the names of updates.
    Names,
    /// A step that some servers have runs again under a new name.
    Requeue,
    /// A server that was silent for longer than its lease stays lost when it is heard again.
    Unforgiven,
    /// The chief takes the time during which it was stopped for the others' silence.
    BlameOthers,
    /// A restore names no incarnation of the server, so that its repeats reach the next one.
    AnyIncarnation,
    /// What is reported as lost is counted by the chief's own steps.
    LossByChief,
    /// A server answers before it has applied an update.
    AckBeforeApply,
    /// A restored server does not know which updates are in its values.
    ForgetNames,
    /// A server that holds nothing yet answers how far a lost worker came.
    FenceTheEmpty,
    /// A server answers before an update is in its log.
    AckBeforeAppend,
    /// A server cuts its log off before the snapshot that replaces it is published.
    TruncateBeforePublish,
    /// A server that comes back applies the records of its log twice.
    ReplayTwice,
    /// A record that is not complete is replayed.
    TornTail,
    /// Fences are not in the log.
    FenceNotLogged,
    /// The place in the log that a snapshot begins at is read when it is published.
    LateSnapshot,
    /// A snapshot does not have the names of the updates in it.
    ForgetLoggedNames,
    /// Updates that do not fit into a full log are applied all the same.
    IgnoreFullLog,
}

impl Plant {
    /// Whether only servers with a write-ahead log can have the bug.
    fn is_of_logs(self) -> bool {
        matches!(
            self,
            Self::AckBeforeAppend
                | Self::TruncateBeforePublish
                | Self::ReplayTwice
                | Self::TornTail
                | Self::FenceNotLogged
                | Self::LateSnapshot
                | Self::ForgetLoggedNames
                | Self::IgnoreFullLog
        )
    }
}

/// One run's world. Times are microseconds; chances are out of a thousand.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    pub(crate) steps: u64,
    /// Steps a worker wants in flight.
    pub(crate) depth: usize,
    pub(crate) options: SchedulerOptions,
    /// A message is lost.
    pub(crate) drop: u64,
    /// A message arrives twice.
    pub(crate) double: u64,
    /// A message takes far longer than others.
    pub(crate) late: u64,
    /// This worker reaches this server only now and then.
    pub(crate) bad_link: Option<(usize, usize)>,
    /// A worker dies when an answer arrives.
    pub(crate) crash: u64,
    /// How many deaths, false suspicions, departures and hangs of workers a run has at most.
    pub(crate) faults: u64,
    /// The chief takes a live worker for lost, at each of its looks.
    pub(crate) suspect: u64,
    /// A worker decides to leave, after a step.
    pub(crate) leave: u64,
    /// A worker stops computing for ever, at a step.
    pub(crate) hang: u64,
    /// A worker and the chief do not hear each other for a while, after a step; the servers still hear both.
    pub(crate) cut_off: u64,
    /// A step cannot be run for no fault of its own.
    pub(crate) trouble: u64,
    /// A step fails by the user's mistake.
    pub(crate) poison: u64,
    /// A step is an evaluation.
    pub(crate) evaluation: u64,
    /// How long a silent task counts as live.
    pub(crate) lease: u64,
    /// How long a lost server is waited for.
    pub(crate) grace: u64,
    /// Whether the chief notices at once that nobody listens at a task's address.
    pub(crate) probes: bool,
    /// How long after a save the next one begins.
    pub(crate) save_every: u64,
    /// How many accidents of the kinds below a run has at most, and how long there is none, at most.
    pub(crate) accidents: u64,
    pub(crate) quiet: u64,
    /// How often an accident stops a node, kills a server, or kills the chief. The rest: chief and server die together.
    pub(crate) stops: u64,
    pub(crate) server_deaths: u64,
    pub(crate) chief_deaths: u64,
    /// The job is ended here, whatever runs.
    pub(crate) end_at: Option<u64>,
    /// Servers have a write-ahead log.
    pub(crate) logs: bool,
    /// A server dies in the middle of an append.
    pub(crate) append_deaths: u64,
    pub(crate) plant: Option<Plant>,
}

impl Settings {
    pub(crate) fn new(random: &mut Random, plant: Option<Plant>) -> Self {
        let bound = random.between(0, 3);
        let consistency = if random.chance(400) { Consistency::Bounded(bound) } else { Consistency::Async };
        // Few attempts only where faults are what is looked at: else nearly every run ends in raised errors.
        let attempts = if random.chance(250) { random.between(1, 3) as usize } else { 40 };
        let options = SchedulerOptions {
            steps: random.between(2, 40) as usize,
            bytes: random.between(40, 400) as usize,
            attempts,
            watchdog: Some(Duration::from_millis(60)),
            consistency,
        };
        let calm = random.chance(100);
        let mut chance = |high| if calm { 0 } else { random.between(0, high) };
        let (drop, double, late) = (chance(150), chance(150), chance(60));
        let (crash, suspect, leave) = (chance(25), chance(15), chance(15));
        let (hang, trouble, poison, evaluation) = (chance(5), chance(30), chance(20), chance(300));
        let cut_off = chance(30);
        let accidents = chance(8);
        let faults = random.between(0, 30);
        let lease = random.between(5_000, 12_000);
        let (servers, workers) = (random.between(1, 4), random.between(1, 6));
        let link = (random.between(0, workers - 1) as usize, random.between(0, servers - 1) as usize);
        Self {
            servers: servers as usize,
            workers: workers as usize,
            bad_link: (!calm && random.chance(200)).then_some(link),
            steps: random.between(20, 120),
            depth: random.between(1, 4) as usize,
            options,
            drop,
            double,
            late,
            crash,
            faults,
            suspect,
            leave,
            hang,
            cut_off,
            trouble,
            poison,
            evaluation,
            lease,
            grace: 20 * lease,
            probes: random.chance(500),
            save_every: random.between(2_000, 30_000),
            accidents,
            quiet: random.between(1_000, 15_000),
            stops: random.between(0, 500),
            server_deaths: random.between(0, 400),
            chief_deaths: random.between(0, 100),
            end_at: random.chance(100).then(|| random.between(2_000, 40_000)),
            logs: plant.map_or(random.chance(500), Plant::is_of_logs),
            append_deaths: random.between(0, 20),
            plant,
        }
    }
}
