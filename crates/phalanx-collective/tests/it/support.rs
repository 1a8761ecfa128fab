//! Groups to test, and what they should compute.

use phalanx_base::{Code, Error, Result, Role, SplitMix, TaskId};
use phalanx_collective::{Group, GroupListener, GroupOptions, Peer, Reduce};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::{Endpoint, Listening, Token, control};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Runs the same on every member, each in a thread of its own. Returns the results by rank.
pub(crate) fn on_all<T: Send>(groups: &mut [Group], run: impl Fn(&mut Group) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = groups.iter_mut().map(|group| scope.spawn(move || run(group))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a member does not panic")).collect()
    })
}

struct Nobody;

impl control::Handler for Nobody {
    fn identify(&self) -> Identity {
        Identity::default()
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, "not the chief"))
    }
}

/// Members that listen on loopback, each on a port of its own.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) listeners: Vec<Arc<GroupListener>>,
    pub(crate) listening: Vec<Listening>,
    pub(crate) peers: Vec<Peer>,
}

pub(crate) const JOB: u64 = 0x1234_5678_9abc_def0;

impl Places {
    pub(crate) fn new(members: u32) -> Self {
        Self::with(members, |_| (JOB, "build"), None)
    }

    pub(crate) fn with(members: u32, identity: impl Fn(u32) -> (u64, &'static str), token: Option<&str>) -> Self {
        let mut places = Self::default();
        for index in 0..members {
            let (job, build) = identity(index);
            places.add(index, "127.0.0.1:0", job, build, token);
        }
        places
    }

    /// One member of a group.
    pub(crate) fn only(index: u32) -> Self {
        Self::only_at(index, "127.0.0.1:0")
    }

    pub(crate) fn only_at(index: u32, address: &str) -> Self {
        let mut places = Self::default();
        places.add(index, address, JOB, "build", None);
        places
    }

    fn add(&mut self, index: u32, address: &str, job: u64, build: &str, token: Option<&str>) {
        let task = TaskId::new(Role::Worker, index);
        let listener = GroupListener::new(task, job, build);
        let mut listening = Listening::bind(&address.parse().unwrap(), 1).unwrap();
        let bulk = Some(Arc::clone(&listener) as _);
        let token = token.map(|text| Token::new(text).unwrap());
        listening.serve(Endpoint { control: Arc::new(Nobody), bulk, token }).unwrap();
        let address = format!("127.0.0.1:{}", listening.port()).parse().unwrap();
        self.peers.push(Peer { task, address });
        self.listeners.push(listener);
        self.listening.push(listening);
    }

    pub(crate) fn options(&self, rank: usize) -> GroupOptions {
        GroupOptions { formation: Duration::from_secs(20), ..GroupOptions::new(rank, self.peers.clone()) }
    }

    /// Forms the group; `change` sees each member's options first.
    pub(crate) fn form(&self, change: impl Fn(&mut GroupOptions) + Sync) -> Vec<Result<Group>> {
        thread::scope(|scope| {
            let change = &change;
            let start = |(rank, listener): (usize, _)| {
                let mut options = self.options(rank);
                change(&mut options);
                scope.spawn(move || Group::connect(listener, &options))
            };
            let threads: Vec<_> = self.listeners.iter().enumerate().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("forming does not panic")).collect()
        })
    }

    pub(crate) fn groups(&self, change: impl Fn(&mut GroupOptions) + Sync) -> Vec<Group> {
        self.form(change).into_iter().map(|group| group.expect("the group forms")).collect()
    }
}

/// Numbers whose sums depend on the order: many magnitudes, both signs.
pub(crate) fn numbers(seed: u64, length: usize) -> Vec<f32> {
    let mut random = SplitMix::new(seed);
    let mut next = || {
        let word = random.word();
        let sign = if word & 1 == 0 { 1.0 } else { -1.0 };
        sign * ((word >> 40) as f32 / 1e4) * 10_f32.powi((word >> 8) as i32 % 6)
    };
    (0..length).map(|_| next()).collect()
}

pub(crate) fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Returns the exact result of a reduction, added in the documented order: up to 32 KiB (256 KiB from three members on)
/// in pairs half the group apart, members beyond the last power of two first; above, part `k` from rank `k` on.
pub(crate) fn expected(inputs: &[Vec<f32>], reduce: Reduce) -> Vec<f32> {
    let (n, length) = (inputs.len(), inputs[0].len());
    let mut sums = vec![0.0; length];
    let paired = 4 * length <= if n > 2 { 256 << 10 } else { 32 << 10 };
    for (i, sum) in sums.iter_mut().enumerate() {
        let mut column: Vec<f32> = inputs.iter().map(|input| input[i]).collect();
        *sum = if paired {
            let power = 1 << n.ilog2();
            for extra in power..n {
                column[extra - power] += column[extra];
            }
            let mut half = power;
            while half > 1 {
                half /= 2;
                for k in 0..half {
                    column[k] += column[k + half];
                }
            }
            column[0]
        } else {
            let (base, extra) = (length / n, length % n);
            let first = (base + 1) * extra;
            let part = if i < first { i / (base + 1) } else { extra + (i - first) / base };
            (1..n).fold(column[part], |sum, k| sum + column[(part + k) % n])
        };
        if reduce == Reduce::Mean {
            *sum /= n as f32;
        }
    }
    sums
}
