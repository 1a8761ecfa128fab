//! Three real processes reduce; one is killed, or stopped. The others must name it within 3 s.
//!
//! Without arguments this is the test; with a rank, one of its members.

mod support;

use phalanx_base::{Result, Role, TaskId};
use phalanx_collective::{Group, Nearby, Options, Peer, Reduce};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::Places;

/// A machine that is busy with other tests gets some more than the 3 s of the promise.
const SOON: Duration = Duration::from_secs(5);

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a member writes lines");
        line.trim().to_owned()
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

/// A member: says its port, hears all ports, reduces until it fails, and says how.
fn member(rank: u32, nearby: Nearby) -> Result<()> {
    let place = Places::only(rank);
    say(&place.listening[0].port().to_string());
    let mut ports = String::new();
    std::io::stdin().read_line(&mut ports).expect("the ports come");
    let peer = |(index, port): (u32, &str)| -> Result<Peer> {
        Ok(Peer { task: TaskId::new(Role::Worker, index), address: format!("127.0.0.1:{port}").parse()? })
    };
    let peers = (0..).zip(ports.split_whitespace()).map(peer).collect::<Result<Vec<_>>>()?;
    let mut group = Group::connect(&place.doors[0], &Options { nearby, ..Options::new(rank as usize, peers) })?;
    let mut numbers = vec![1.0; 2_000_000];
    for round in 0_u64.. {
        numbers.fill(1.0);
        if let Err(error) = group.all_reduce(&mut numbers, Reduce::Mean) {
            say(&format!("{error}"));
            break;
        }
        assert!(numbers.iter().all(|&mean| mean == 1.0), "round {round}");
        if round == 3 {
            say("running");
        }
    }
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("somebody reads");
}

fn start(nearby: &str) -> Vec<Running> {
    let program = std::env::current_exe().expect("the test knows itself");
    let start = |rank: u32| {
        let mut command = Command::new(&program);
        command.args(["member", &rank.to_string(), nearby]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a member starts");
        let out = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Running { child, out }
    };
    let mut members: Vec<Running> = (0..3).map(start).collect();
    let ports = members.iter_mut().map(Running::line).collect::<Vec<_>>().join(" ");
    for member in &mut members {
        let mut input = member.child.stdin.take().expect("its input is a pipe");
        writeln!(input, "{ports}").expect("a member reads its input");
    }
    members
}

fn named_in_time(nearby: &str, signal: Signal, why: &str) {
    let mut members = start(nearby);
    for member in &mut members {
        assert_eq!(member.line(), "running");
    }
    let start = Instant::now();
    members[1].signal(signal);
    let errors = [0, 2].map(|rank: usize| members[rank].line());
    let took = start.elapsed();
    say(&format!("{nearby}, {signal:?}: after {took:?}: {}", errors[0]));
    assert!(took < SOON);
    assert!(errors.iter().all(|error| error.contains("worker/1") && error.contains(why)), "{errors:?}");
    for rank in [0, 2] {
        assert!(members[rank].child.wait().expect("a member ends").success());
        let mut rest = String::new();
        members[rank].out.read_to_string(&mut rest).expect("its output ends");
        assert_eq!(rest, "", "rank {rank} says no more");
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, rank, way] = &arguments[..]
        && word == "member"
    {
        let ways = [Nearby::SharedMemory, Nearby::Socket, Nearby::Network];
        let nearby = ways.into_iter().find(|nearby| format!("{nearby:?}") == *way).expect("a way");
        return member(rank.parse().expect("a rank"), nearby).expect("the group forms");
    }
    for nearby in ["SharedMemory", "Socket", "Network"] {
        named_in_time(nearby, Signal::KILL, "is lost");
    }
    named_in_time("SharedMemory", Signal::STOP, "no sign of life");
}
