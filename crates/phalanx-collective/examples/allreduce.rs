//! Measures all-reduce between two members: `cargo run --release -p phalanx-collective --example allreduce -- [BYTES ...]`.
//!
//! Two processes on this machine, over shared memory, a Unix socket and TCP, and two threads; for comparison, a copy in memory.
//! Prints microseconds per call and gigabytes of the tensor per second.

use phalanx_base::{Code, Context, Error, Result, Role, TaskId};
use phalanx_collective::{Group, GroupListener, GroupOptions, Peer, Reduce, SameHostTransport};
use phalanx_wire::proto::control::{BeatReply, BeatRequest, Identity};
use phalanx_wire::{Endpoint, Listening, control};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZES: [usize; 9] = [4, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 5 << 20, 32 << 20];

struct Nobody;

impl control::Handler for Nobody {
    fn identify(&self) -> Identity {
        Identity::default()
    }

    fn beat(&self, _: BeatRequest) -> Result<BeatReply> {
        Err(Error::new(Code::WrongJob, "there is no chief"))
    }
}

fn listen(rank: u32) -> Result<(Listening, Arc<GroupListener>)> {
    let mut listening = Listening::bind(&"127.0.0.1:0".parse()?, 1)?;
    let listener = GroupListener::new(TaskId::new(Role::Worker, rank), 1, env!("CARGO_PKG_VERSION"));
    let bulk = Some(Arc::clone(&listener) as _);
    listening.serve(Endpoint { control: Arc::new(Nobody), bulk, token: None })?;
    Ok((listening, listener))
}

fn connect(listener: &Arc<GroupListener>, rank: usize, ports: [u16; 2], same_host: SameHostTransport) -> Result<Group> {
    let peer = |(index, port)| -> Result<Peer> {
        Ok(Peer { task: TaskId::new(Role::Worker, index), address: format!("127.0.0.1:{port}").parse()? })
    };
    let peers = (0..).zip(ports).map(peer).collect::<Result<Vec<_>>>()?;
    Group::connect(listener, &GroupOptions { same_host, ..GroupOptions::new(rank, peers) })
}

fn times(bytes: usize) -> usize {
    ((256 << 20) / bytes.max(64 << 10)).clamp(10, 2_000)
}

/// The median time of a call, for each size.
fn measure(group: &mut Group, sizes: &[usize]) -> Result<Vec<Duration>> {
    let mut medians = Vec::new();
    for &bytes in sizes {
        let mut numbers = vec![1.0; bytes / 4];
        let mut laps = Vec::new();
        for _ in 0..times(bytes) {
            let start = Instant::now();
            group.all_reduce(&mut numbers, Reduce::Mean)?;
            laps.push(start.elapsed());
        }
        laps.sort_unstable();
        medians.push(laps[laps.len() / 2]);
    }
    Ok(medians)
}

fn copies(sizes: &[usize]) -> Vec<Duration> {
    let copy = |&bytes: &usize| {
        let (from, mut to) = (vec![1_u8; bytes], vec![0; bytes]);
        let mut laps: Vec<Duration> = (0..times(bytes))
            .map(|_| {
                let start = Instant::now();
                to.copy_from_slice(std::hint::black_box(&from));
                std::hint::black_box(&mut to);
                start.elapsed()
            })
            .collect();
        laps.sort_unstable();
        laps[laps.len() / 2]
    };
    sizes.iter().map(copy).collect()
}

/// The other process: prints its port, joins, does the same.
fn member(port: u16, same_host: SameHostTransport, sizes: &[usize]) -> Result<()> {
    let (listening, listener) = listen(1)?;
    writeln!(std::io::stdout(), "{}", listening.port()).context(Code::Internal, "nobody reads the port")?;
    measure(&mut connect(&listener, 1, [port, listening.port()], same_host)?, sizes).map(drop)
}

fn start_member(port: u16, same_host: SameHostTransport, sizes: &[usize]) -> Result<(Child, u16)> {
    let program = std::env::current_exe().context(Code::Internal, "this program cannot be found")?;
    let mut command = Command::new(program);
    command.arg("--member").arg(port.to_string()).arg(format!("{same_host:?}"));
    let child = command.args(sizes.iter().map(usize::to_string)).stdout(Stdio::piped()).spawn();
    let mut child = child.context(Code::Internal, "the other member cannot be started")?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).context(Code::Internal, "the other member says nothing")?;
    }
    let port = line.trim().parse().context(Code::Internal, "the other member has no port")?;
    Ok((child, port))
}

fn processes(same_host: SameHostTransport, sizes: &[usize]) -> Result<Vec<Duration>> {
    let (listening, listener) = listen(0)?;
    let (mut child, port) = start_member(listening.port(), same_host, sizes)?;
    let medians = measure(&mut connect(&listener, 0, [listening.port(), port], same_host)?, sizes);
    child.wait().context(Code::Internal, "the other member cannot be waited for")?;
    medians
}

fn threads(sizes: &[usize]) -> Result<Vec<Duration>> {
    let mut groups = Group::in_process(2);
    std::thread::scope(|scope| {
        let threads: Vec<_> = groups.iter_mut().map(|group| scope.spawn(|| measure(group, sizes))).collect();
        let ended = threads.into_iter().next().and_then(|thread| thread.join().ok());
        ended.unwrap_or_else(|| Err(Error::new(Code::Internal, "a thread panicked")))
    })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<usize>().context(Code::Flags, format!("{text:?} is not a size in bytes"));
    if let [flag, port, way, sizes @ ..] = &arguments[..]
        && flag == "--member"
    {
        let sizes = sizes.iter().map(number).collect::<Result<Vec<_>>>()?;
        let ways = [SameHostTransport::SharedMemory, SameHostTransport::Socket, SameHostTransport::Network];
        let same_host =
            ways.into_iter().find(|same_host| format!("{same_host:?}") == *way).unwrap_or(SameHostTransport::Network);
        return member(number(port)? as u16, same_host, &sizes);
    }
    let given = arguments.iter().map(number).collect::<Result<Vec<_>>>()?;
    let sizes = if given.is_empty() { SIZES.to_vec() } else { given };
    let ways = [
        processes(SameHostTransport::SharedMemory, &sizes)?,
        processes(SameHostTransport::Socket, &sizes)?,
        processes(SameHostTransport::Network, &sizes)?,
        threads(&sizes)?,
        copies(&sizes),
    ];
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| writeln!(out, "{line}").context(Code::Internal, "nobody reads the figures");
    let names = ["shared µs, GB/s", "Unix socket", "TCP", "threads", "memory copy"];
    say(format!("{:>10}  {}", "bytes", names.map(|name| format!("{name:>18}")).join("  ")))?;
    for (i, &bytes) in sizes.iter().enumerate() {
        let cell = |way: &Vec<Duration>| {
            let seconds = way[i].as_secs_f64().max(1e-9);
            format!("{:>9.1} {:>8.2}", seconds * 1e6, bytes as f64 / seconds / 1e9)
        };
        say(format!("{bytes:>10}  {}", ways.iter().map(cell).collect::<Vec<_>>().join("  ")))?;
    }
    Ok(())
}
