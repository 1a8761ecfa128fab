//! Three processes reduce; one is killed or stopped. The others must name it.

use crate::support::Places;
use phalanx_base::{Result, Role, TaskId};
use phalanx_collective::{Group, GroupOptions, Peer, Reduce, SameHostTransport};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Set for a member's process: its rank and its transport.
const MEMBER: &str = "PHALANX_COLLECTIVE_MEMBER";
/// The start of each line that a member prints for the test.
const MARK: &str = "member: ";
/// Bounds a wait that would otherwise hang.
const HANG: Duration = Duration::from_secs(120);

/// A member's process.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn line(&self) -> String {
        self.lines.recv_timeout(HANG).expect("a member prints a line")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a child can be signalled");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A member: prints its port, reads all ports, reduces until it fails, and prints the error. As a test it does nothing.
#[test]
fn member() -> Result<()> {
    let Ok(role) = std::env::var(MEMBER) else { return Ok(()) };
    let (rank, transport) = role.split_once(' ').expect("a rank and a transport");
    let rank: u32 = rank.parse().expect("a rank");
    let transports = [SameHostTransport::SharedMemory, SameHostTransport::Socket, SameHostTransport::Network];
    let same_host = transports.into_iter().find(|same_host| format!("{same_host:?}") == transport);
    let place = Places::only(rank);
    print(&place.listening[0].port().to_string());
    let mut ports = String::new();
    std::io::stdin().read_line(&mut ports).expect("the ports arrive");
    let peer = |(index, port): (u32, &str)| -> Result<Peer> {
        Ok(Peer { task: TaskId::new(Role::Worker, index), address: format!("127.0.0.1:{port}").parse()? })
    };
    let peers = (0..).zip(ports.split_whitespace()).map(peer).collect::<Result<Vec<_>>>()?;
    let same_host = same_host.expect("a transport");
    let options = GroupOptions { same_host, ..GroupOptions::new(rank as usize, peers) };
    let mut group = Group::connect(&place.listeners[0], &options)?;
    let mut numbers = vec![1.0; 2_000_000];
    for round in 0_u64.. {
        numbers.fill(1.0);
        if let Err(error) = group.all_reduce(&mut numbers, Reduce::Mean) {
            print(&error.to_string());
            break;
        }
        assert!(numbers.iter().all(|&mean| mean == 1.0), "round {round}");
        if round == 3 {
            print("running");
        }
    }
    Ok(())
}

fn print(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\n{MARK}{line}").and_then(|()| out.flush()).expect("the test reads");
}

fn start(transport: &str) -> Vec<Running> {
    let start = |rank: u32| {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "processes::member", "--nocapture"]).env(MEMBER, format!("{rank} {transport}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a member starts");
        let out = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(std::result::Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    let _ = send.send(line.to_owned());
                }
            }
        });
        Running { child, lines }
    };
    let mut members: Vec<Running> = (0..3).map(start).collect();
    let ports = members.iter().map(Running::line).collect::<Vec<_>>().join(" ");
    for member in &mut members {
        let mut input = member.child.stdin.take().expect("its input is a pipe");
        writeln!(input, "{ports}").expect("a member reads its input");
    }
    members
}

fn survivors_name_the_member(transport: &str, signal: Signal, why: &str) {
    let mut members = start(transport);
    assert!(members.iter().all(|member| member.line() == "running"));
    members[1].signal(signal);
    for rank in [0, 2] {
        let error = members[rank].line();
        assert!(error.contains("worker/1") && error.contains(why), "{transport}, rank {rank}: {error}");
        assert!(members[rank].child.wait().expect("a member ends").success());
        assert!(members[rank].lines.recv_timeout(HANG).is_err(), "rank {rank} prints no more");
    }
}

#[test]
fn a_killed_member_is_named_by_all() {
    for transport in ["SharedMemory", "Socket", "Network"] {
        survivors_name_the_member(transport, Signal::KILL, "is lost");
    }
}

#[test]
fn a_stopped_member_is_named_by_all() {
    survivors_name_the_member("SharedMemory", Signal::STOP, "no heartbeat");
}
