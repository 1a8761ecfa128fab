//! Forming a group: each member connects to those before it, and takes the connections of those behind it.

use super::bridge::{Bridge, Far};
use super::door::{Door, Expected, KNOCK, Key};
use super::link::Link;
use super::memory::Ends;
use super::streams::Streams;
use super::{Lane, Nearby, Options, shared};
use crate::Group;
use crate::board::{Board, Name};
use crate::call::digest;
use crate::exchange::Member;
use crate::local::Room;
use phalanx_base::{Code, Error, Result};
use phalanx_wire::{Backoff, bulk};
use prost::Message;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A task serves its port a moment before it takes streams; one that takes none for so long never will.
const NO_STREAMS: Duration = Duration::from_secs(1);

/// One forming under way.
struct Forming<'a> {
    door: &'a Arc<Door>,
    options: &'a Options,
    own: Expected,
    bridge: Bridge,
    lanes: [Vec<Option<UnixStream>>; 2],
    /// Members that are reached without a bridge.
    near: Vec<bool>,
    /// Since when a neighbour answers on the network that takes no streams.
    answering: Vec<Option<Instant>>,
    /// Why members are still missing.
    missing: BTreeMap<usize, String>,
}

impl Group {
    /// Forms a group of processes. `door` must be served at this member's address already.
    ///
    /// # Errors
    /// When members are missing at the deadline (they are named), or one is of another job, build or forming.
    pub fn connect(door: &Arc<Door>, options: &Options) -> Result<Self> {
        let (rank, size) = (options.rank, options.peers.len());
        if rank >= size {
            return Err(Error::new(Code::BadSetting, format!("there is no member {rank} in a group of {size}"))
                .help("ranks count from 0 in the order of the list"));
        }
        let words = options.peers.iter().map(|peer| format!("{} {}\n", peer.task, peer.address));
        let members = digest(words.flat_map(String::into_bytes).map(u64::from));
        let own = Expected { rank: rank as u32, world: size as u32, members };
        door.expect(options.epoch, own)?;
        let lanes = [(); 2].map(|()| (0..size).map(|_| None).collect());
        let mut forming = Forming {
            door,
            options,
            own,
            bridge: Bridge::default(),
            lanes,
            near: vec![false; size],
            answering: vec![None; size],
            missing: BTreeMap::new(),
        };
        let formed = forming.form();
        let Forming { mut bridge, lanes: [_, notices], near, .. } = forming;
        let links = match formed {
            Ok(links) => links,
            Err(error) => {
                drop(notices);
                bridge.finish();
                return Err(error);
            }
        };
        let name = |peer: &super::Peer| Name { task: peer.task.to_string(), address: Some(peer.address.to_string()) };
        let board = Arc::new(Board::new(options.peers.iter().map(name).collect()));
        if size == 1 {
            let pipes = Box::new(Room::new(1, Arc::clone(&board)).member(0));
            return Ok(Self::of(Member::new(0, 1, board, pipes, options.patience)));
        }
        let pipes = Streams::start(rank, links, notices, Arc::clone(&board), bridge, options.silence)?;
        let neighbours = near.iter().filter(|near| **near).count();
        Ok(Self::of(Member::new(rank, size, board, Box::new(pipes), options.patience)).with_neighbours(neighbours))
    }
}

impl Forming<'_> {
    fn form(&mut self) -> Result<Vec<Option<Link>>> {
        let until = Instant::now() + self.options.formation;
        let mut backoff = Backoff::new(Instant::now(), self.options.formation, u64::from(self.own.rank));
        while !self.knock()? {
            match backoff.next_wait(Instant::now()) {
                Some(wait) => std::thread::sleep(wait.min(Duration::from_millis(250))),
                None => break,
            }
        }
        for peer in self.options.rank + 1..self.options.peers.len() {
            self.admit(peer, until)?;
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

    /// Agrees with every neighbour on memory to share. Nobody waits before it has offered, so nobody waits for ever.
    fn link(&mut self, until: Instant) -> Vec<Option<Link>> {
        let rank = self.options.rank;
        let streams = std::mem::take(&mut self.lanes[Lane::Data.number() as usize]);
        let wanted = |near: bool| near && self.options.nearby == Nearby::SharedMemory;
        let mut ends: Vec<Option<Ends>> = streams.iter().map(|_| None).collect();
        for (offering, peers) in [(true, 0..rank), (false, rank + 1..streams.len())] {
            for peer in peers {
                let Some(stream) = &streams[peer] else { continue };
                let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                let ready = stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(Some(left)));
                let step = if offering { shared::offer } else { shared::accept };
                match ready.and_then(|()| step(stream, wanted(self.near[peer]))) {
                    Ok(made) => ends[peer] = made,
                    Err(error) => self.went_away(peer, &error),
                }
            }
        }
        for peer in 0..rank {
            match streams[peer].as_ref().map(shared::agreed) {
                Some(Ok(false)) => ends[peer] = None,
                Some(Err(error)) => self.went_away(peer, &error),
                _ => {}
            }
        }
        let link = |(stream, ends): (Option<UnixStream>, _)| stream.map(|stream| Link::new(stream, ends));
        streams.into_iter().zip(ends).map(link).collect()
    }

    fn went_away(&mut self, peer: usize, error: &std::io::Error) {
        self.missing.insert(peer, format!("it came and went away: it ended, or forms another group ({error})"));
    }

    /// Tries once at every door before this one that has not opened yet; true when all have.
    fn knock(&mut self) -> Result<bool> {
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

    fn dial(&mut self, peer: usize, lane: Lane) -> Result<UnixStream> {
        let address = &self.options.peers[peer].address;
        if self.options.nearby != Nearby::Network {
            let hello = self.door.hello(self.options.epoch, self.own, peer, lane).encode_to_vec();
            match bulk::stream(address, self.options.token.as_ref(), &hello, KNOCK) {
                Err(error) if error.code() == Code::PeerUnreachable => {
                    // A neighbour that has only just started is worth waiting for: the network is many times slower.
                    if address.is_loopback() && !self.is_far(peer) {
                        return Err(error);
                    }
                }
                other => {
                    self.near[peer] = true;
                    return other;
                }
            }
        }
        let key = Key { epoch: self.options.epoch, from: peer, lane };
        self.bridge.open(self.door, far(self.door, self.options, self.own, key))
    }

    /// Whether a peer at a loopback address has answered on the network for a while, and takes no streams all the same.
    fn is_far(&mut self, peer: usize) -> bool {
        let address = self.options.peers[peer].address.listen_on();
        if TcpStream::connect_timeout(&address, KNOCK).is_err() {
            return false;
        }
        self.answering[peer].get_or_insert_with(Instant::now).elapsed() > NO_STREAMS
    }

    /// Waits for both connections of a member behind this one.
    fn admit(&mut self, peer: usize, until: Instant) -> Result<()> {
        for lane in Lane::ALL {
            let key = Key { epoch: self.options.epoch, from: peer, lane };
            let Some(guest) = self.door.take(key, until) else {
                self.missing.insert(peer, "it has not come".into());
                return Ok(());
            };
            let stream = if guest.outgoing.is_some() {
                self.bridge.complete(self.door, far(self.door, self.options, self.own, key), guest)?
            } else {
                self.near[peer] = true;
                guest.stream
            };
            self.lanes[lane.number() as usize][peer] = Some(stream);
        }
        Ok(())
    }
}

/// The other end of a lane on another machine.
fn far<'a>(door: &Door, options: &'a Options, own: Expected, key: Key) -> Far<'a> {
    let peer = &options.peers[key.from];
    Far {
        address: &peer.address,
        name: peer.task.to_string(),
        token: options.token.clone(),
        hello: door.hello(key.epoch, own, key.from, key.lane),
        key,
    }
}

/// Whether trying again cannot help.
fn is_final(code: Code) -> bool {
    matches!(code, Code::WrongJob | Code::WrongBuild | Code::WrongToken | Code::Fenced | Code::BadSetting)
}
