//! How fast bytes go through this machine's sockets, and how long a word and its answer take.

use phalanx::{Code, Result};
use phalanx_base::Context;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const UNUSABLE: &str = "a socket of this machine cannot be used";
const BLOCK: usize = 256 << 10;
/// A word and its answer.
const WORD: usize = 64;

/// What one kind of socket can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    /// GB/s in one direction, one thread at each end.
    pub(crate) gigabytes: f64,
    /// Microseconds for a word and its answer.
    pub(crate) round_trip: f64,
}

/// TCP over loopback.
pub(crate) fn tcp(time: Duration) -> Result<Socket> {
    let pair = || {
        let listener = TcpListener::bind("127.0.0.1:0").context(Code::PortInUse, UNUSABLE)?;
        let address = listener.local_addr().context(Code::Internal, UNUSABLE)?;
        let near = TcpStream::connect(address).context(Code::Internal, UNUSABLE)?;
        let (far, _) = listener.accept().context(Code::Internal, UNUSABLE)?;
        near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).context(Code::Internal, UNUSABLE)?;
        Ok((near, far))
    };
    measure(pair, time)
}

/// Unix sockets.
pub(crate) fn unix(time: Duration) -> Result<Socket> {
    measure(|| UnixStream::pair().context(Code::Internal, UNUSABLE), time)
}

fn measure<S: Read + Write + Send>(pair: impl Fn() -> Result<(S, S)>, time: Duration) -> Result<Socket> {
    let (near, far) = pair()?;
    let gigabytes = stream(near, far, time).context(Code::Internal, UNUSABLE)?;
    let (near, far) = pair()?;
    let round_trip = ping(near, far, time).context(Code::Internal, UNUSABLE)?;
    Ok(Socket { gigabytes, round_trip })
}

fn stream(mut near: impl Write + Send, mut far: impl Read, time: Duration) -> std::io::Result<f64> {
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let (block, since) = (vec![1_u8; BLOCK], Instant::now());
            while since.elapsed() < time {
                near.write_all(&block)?;
            }
            // The other end sees the end of the stream when `near` goes.
            std::io::Result::Ok(())
        });
        let (mut block, mut bytes, since) = (vec![0_u8; BLOCK], 0, Instant::now());
        loop {
            match far.read(&mut block)? {
                0 => break,
                read => bytes += read,
            }
        }
        let rate = bytes as f64 / since.elapsed().as_secs_f64() / 1e9;
        writing.join().unwrap_or(Ok(()))?;
        Ok(rate)
    })
}

fn ping(mut near: impl Read + Write, mut far: impl Read + Write + Send, time: Duration) -> std::io::Result<f64> {
    std::thread::scope(|scope| {
        let answering = scope.spawn(move || {
            let mut word = [0; WORD];
            while far.read_exact(&mut word).is_ok() {
                if far.write_all(&word).is_err() {
                    break;
                }
            }
        });
        let (mut word, mut count, since) = ([1; WORD], 0_u32, Instant::now());
        while since.elapsed() < time {
            near.write_all(&word)?;
            near.read_exact(&mut word)?;
            count += 1;
        }
        let micros = 1e6 * since.elapsed().as_secs_f64() / f64::from(count.max(1));
        drop(near);
        let _ = answering.join();
        Ok(micros)
    })
}
