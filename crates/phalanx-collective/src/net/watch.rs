//! The thread that receives notices and sends heartbeats while the member computes.

use super::notices::{Notices, first_notice};
use phalanx_wire::PeerStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The interval of heartbeats.
const BEAT: Duration = Duration::from_millis(250);

/// What is known of one other member.
struct Other {
    open: bool,
    heard: Instant,
    /// The beginning of an incomplete notice.
    bytes: Vec<u8>,
}

/// Watches until the group closes.
pub(super) fn watch(notices: &Arc<Notices>, silence: Duration) {
    let start = Instant::now();
    let mut others: Vec<Other> =
        notices.lanes.iter().map(|lane| Other { open: lane.is_some(), heard: start, bytes: Vec::new() }).collect();
    let mut next_beat = start;
    while !notices.closing.load(Ordering::Acquire) {
        let now = Instant::now();
        if now >= next_beat {
            notices.beat();
            next_beat = now + BEAT;
        }
        let ready = wait(notices, &others, next_beat.saturating_duration_since(now));
        // All notices are read before a closed lane counts as a loss: one of them may have the reason.
        let closed: Vec<usize> = ready.into_iter().filter(|&rank| !hear(notices, &mut others[rank], rank)).collect();
        if notices.closing.load(Ordering::Acquire) {
            return;
        }
        for rank in closed {
            others[rank].open = false;
            if let Some(lane) = &notices.lanes[rank] {
                // A member that leaves waits for this.
                let _ = lane.shutdown(Shutdown::Write);
            }
            if !notices.failure_state.left(rank) {
                notices.fail(notices.failure_state.gone(rank));
            }
        }
        let now = Instant::now();
        let silent = |other: &Other| other.open && now.duration_since(other.heard) > silence;
        if let Some(rank) = others.iter().position(silent) {
            let why = format!("no heartbeat for {} s", silence.as_secs_f32());
            notices.fail(notices.failure_state.lost(rank, &why));
        }
    }
}

/// Waits for notices, and returns the members whose lanes are ready.
fn wait(notices: &Notices, others: &[Other], timeout: Duration) -> Vec<usize> {
    let open = notices.lanes.iter().zip(others).enumerate().filter(|(_, (_, other))| other.open);
    let lanes: Vec<(usize, &PeerStream)> = open.filter_map(|(rank, (lane, _))| Some((rank, lane.as_ref()?))).collect();
    let mut polled: Vec<PollFd<'_>> = lanes.iter().map(|(_, lane)| PollFd::new(*lane, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(timeout).unwrap_or_default();
    match poll(&mut polled, Some(&timeout)) {
        Ok(_) => {
            let ready = polled.iter().zip(&lanes).filter(|(polled, _)| !polled.revents().is_empty());
            ready.map(|(_, (rank, _))| *rank).collect()
        }
        // A signal.
        Err(_) => Vec::new(),
    }
}

/// Reads the notices of a member; false if its lane is closed.
fn hear(notices: &Notices, other: &mut Other, rank: usize) -> bool {
    let Some(mut lane) = notices.lanes[rank].as_ref() else { return true };
    let mut buffer = [0; 4096];
    loop {
        match lane.read(&mut buffer) {
            Ok(0) => return false,
            Ok(bytes) => {
                other.heard = Instant::now();
                other.bytes.extend_from_slice(&buffer[..bytes]);
                loop {
                    match first_notice(&mut other.bytes) {
                        Ok(Some(notice)) => notices.handle(rank, notice),
                        Ok(None) => break,
                        Err(()) => return false,
                    }
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}
