//! Forming a group: each member dials those of lower rank and accepts the connections of those of higher rank.

use super::link::Link;
use super::listener::{DIAL_TIMEOUT, Expected, GroupListener, Key};
use super::memory::Ends;
use super::streams::Streams;
use super::{GroupOptions, Lane, SameHostTransport, shared};
use crate::Group;
use crate::exchange::Member;
use crate::group_failure::{GroupFailure, Name};
use crate::local::LocalPipes;
use phalanx_base::{Code, Error, Result, fnv1a};
use phalanx_wire::{Backoff, PeerStream, bulk};
use prost::Message;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A task serves its port a moment before it accepts streams. One that accepts none for this long never will.
const NO_STREAMS: Duration = Duration::from_secs(1);

/// A formation in progress.
struct Forming<'a> {
    listener: &'a Arc<GroupListener>,
    options: &'a GroupOptions,
    own: Expected,
    lanes: [Vec<Option<PeerStream>>; 2],
    /// Since when a member on this host has answered on the network without accepting streams.
    answering: Vec<Option<Instant>>,
    /// Why members are missing.
    missing: BTreeMap<usize, String>,
}

impl Group {
    /// Forms a group of processes. `listener` must be served at this member's address already.
    ///
    /// # Errors
    /// When members are missing at the deadline (the error names them), or one is of another job, build or formation.
    pub fn connect(listener: &Arc<GroupListener>, options: &GroupOptions) -> Result<Self> {
        let (rank, size) = (options.rank, options.peers.len());
        if rank >= size {
            return Err(Error::new(Code::BadSetting, format!("there is no member {rank} in a group of {size}"))
                .help("ranks count from 0 in the order of the list"));
        }
        let words = options.peers.iter().map(|peer| format!("{} {}\n", peer.task, peer.address));
        let members = fnv1a(words.flat_map(String::into_bytes));
        let own = Expected { rank: rank as u32, world: size as u32, members };
        listener.expect(options.epoch, own)?;
        let lanes = [(); 2].map(|()| (0..size).map(|_| None).collect());
        let mut forming =
            Forming { listener, options, own, lanes, answering: vec![None; size], missing: BTreeMap::new() };
        let links = forming.form()?;
        let [_, notices] = forming.lanes;
        let same_host_peers = notices.iter().flatten().filter(|lane| lane.is_same_host()).count();
        let name = |peer: &super::Peer| Name { task: peer.task.to_string(), address: Some(peer.address.to_string()) };
        let failure_state = Arc::new(GroupFailure::new(options.peers.iter().map(name).collect()));
        if size == 1 {
            let pipes = Box::new(LocalPipes::new(1, Arc::clone(&failure_state)).member(0));
            return Ok(Self::of(Member::new(0, 1, failure_state, pipes, options.patience), 0));
        }
        let pipes = Streams::start(rank, links, notices, Arc::clone(&failure_state), options.silence)?;
        let member = Member::new(rank, size, failure_state, Box::new(pipes), options.patience);
        Ok(Self::of(member, same_host_peers))
    }
}

impl Forming<'_> {
    fn form(&mut self) -> Result<Vec<Option<Link>>> {
        let until = Instant::now() + self.options.formation;
        let mut backoff = Backoff::new(Instant::now(), self.options.formation, u64::from(self.own.rank));
        while !self.dial_missing()? {
            match backoff.next_wait(Instant::now()) {
                Some(wait) => std::thread::sleep(wait.min(Duration::from_millis(250))),
                None => break,
            }
        }
        for peer in self.options.rank + 1..self.options.peers.len() {
            self.admit(peer, until);
        }
        let links = if self.missing.is_empty() { self.link(until) } else { Vec::new() };
        if self.missing.is_empty() {
            return Ok(links);
        }
        let name = |(&rank, why): (&usize, &String)| {
            let peer = &self.options.peers[rank];
            format!("{} ({}): {why}", peer.task, peer.address)
        };
        let missing: Vec<String> = self.missing.iter().map(name).collect();
        Err(Error::new(Code::FormationDeadline, "the group did not form")
            .at(self.options.peers[self.options.rank].task.to_string())
            .because(format!(
                "after {} s there is no connection with {}",
                self.options.formation.as_secs_f32(),
                missing.join(", ")
            ))
            .help("start the missing tasks, or correct their addresses in the cluster"))
    }

    /// Agrees with every member on this host on shared memory. Every member offers before it waits, so there is no deadlock.
    fn link(&mut self, until: Instant) -> Vec<Option<Link>> {
        let rank = self.options.rank;
        let streams = std::mem::take(&mut self.lanes[Lane::Data.number() as usize]);
        let wanted = self.options.same_host == SameHostTransport::SharedMemory;
        let mut ends: Vec<Option<Ends>> = streams.iter().map(|_| None).collect();
        for (offering, peers) in [(true, 0..rank), (false, rank + 1..streams.len())] {
            for peer in peers {
                let Some(stream) = streams[peer].as_ref().filter(|stream| stream.is_same_host()) else { continue };
                let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                let ready = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(left)));
                let step = if offering { shared::offer } else { shared::accept };
                match ready.and_then(|()| step(stream, wanted)) {
                    Ok(made) => ends[peer] = made,
                    Err(error) => self.went_away(peer, &error),
                }
            }
        }
        for peer in 0..rank {
            match streams[peer].as_ref().filter(|stream| stream.is_same_host()).map(shared::agreed) {
                Some(Ok(false)) => ends[peer] = None,
                Some(Err(error)) => self.went_away(peer, &error),
                _ => {}
            }
        }
        let link = |(stream, ends): (Option<PeerStream>, _)| stream.map(|stream| Link::new(stream, ends));
        streams.into_iter().zip(ends).map(link).collect()
    }

    fn went_away(&mut self, peer: usize, error: &std::io::Error) {
        self.missing.insert(peer, format!("it connected and left: it ended, or forms another group ({error})"));
    }

    /// Dials every member of lower rank that is not connected yet, once; true when all are connected.
    fn dial_missing(&mut self) -> Result<bool> {
        for peer in 0..self.options.rank {
            for lane in Lane::ALL {
                if self.lanes[lane.number() as usize][peer].is_some() {
                    continue;
                }
                match self.dial(peer, lane) {
                    Ok(stream) => {
                        self.lanes[lane.number() as usize][peer] = Some(stream);
                        self.missing.remove(&peer);
                    }
                    Err(error) if is_final(error.code()) => {
                        let peer = &self.options.peers[peer];
                        return Err(error.at(format!("{} at {}", peer.task, peer.address)));
                    }
                    Err(error) => {
                        self.missing.insert(peer, error.why().unwrap_or(error.what()).to_owned());
                        break;
                    }
                }
            }
        }
        Ok(self.missing.is_empty())
    }

    fn dial(&mut self, peer: usize, lane: Lane) -> Result<PeerStream> {
        let (address, token) = (&self.options.peers[peer].address, self.options.token.as_ref());
        let hello = self.listener.hello(self.options.epoch, self.own, peer, lane).encode_to_vec();
        if self.options.same_host != SameHostTransport::Network {
            match bulk::stream(address, token, &hello, DIAL_TIMEOUT) {
                Err(error) if error.code() == Code::PeerUnreachable => {
                    // It may have only just started. Waiting pays: the network is many times slower.
                    if address.is_loopback() && !self.is_far(peer) {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
        bulk::stream_over_network(&self.options.peers[peer].address, token, &hello, DIAL_TIMEOUT)
    }

    /// Whether a peer at a loopback address has answered on the network for a while without accepting streams.
    fn is_far(&mut self, peer: usize) -> bool {
        let address = self.options.peers[peer].address.listen_on();
        if TcpStream::connect_timeout(&address, DIAL_TIMEOUT).is_err() {
            return false;
        }
        self.answering[peer].get_or_insert_with(Instant::now).elapsed() > NO_STREAMS
    }

    /// Waits for both connections of a member of higher rank.
    fn admit(&mut self, peer: usize, until: Instant) {
        for lane in Lane::ALL {
            let key = Key { epoch: self.options.epoch, from: peer, lane };
            let Some(stream) = self.listener.take(key, until) else {
                self.missing.insert(peer, "it has not connected".into());
                return;
            };
            self.lanes[lane.number() as usize][peer] = Some(stream);
        }
    }
}

/// Whether a retry cannot help.
fn is_final(code: Code) -> bool {
    matches!(code, Code::WrongJob | Code::WrongBuild | Code::WrongToken | Code::Fenced | Code::BadSetting)
}
