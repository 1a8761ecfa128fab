//! Simulates a job on machines, step by step: when each task computes, sends, serves and waits. Pure.
//!
//! Workers loop: compute a step, push and pull at every server, go on. What is shared - cores of a machine, threads of a
//! server, a machine's way into the network - is taken in the order of asking, a piece of work at a time.

use super::cluster::{Cluster, Prediction};
use super::costs::Costs;
use super::resources::{Host, Threads, Wire, Work};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begins {
        worker: usize,
    },
    Computed {
        worker: usize,
    },
    /// A message begins to move: to the server, or back.
    Moves {
        worker: usize,
        server: usize,
        back: bool,
    },
    Arrives {
        worker: usize,
        server: usize,
    },
    Served {
        worker: usize,
        server: usize,
    },
    Answered {
        worker: usize,
    },
}

struct Worker {
    answers_missing: usize,
    computing: bool,
}

struct Simulation<'a> {
    cluster: Cluster,
    costs: &'a Costs,
    /// Each server's share of a step's bytes.
    shares: Vec<f64>,
    machines: Vec<Host>,
    threads: Vec<Threads>,
    /// Out of and into each machine.
    wires: Vec<[Wire; 2]>,
    workers: Vec<Worker>,
    /// By time, whose bits are in the order of positive numbers.
    events: BinaryHeap<Reverse<(u64, Event)>>,
    done: u64,
}

/// Predicts the rate of a job: the costs of one step, on these machines.
pub(crate) fn predict(cluster: Cluster, costs: &Costs) -> Prediction {
    let machines = if cluster.together { 1 } else { cluster.workers + cluster.servers };
    let machine = || Host { free: cluster.cores, waiting: VecDeque::new(), busy: 0.0 };
    let threads = || Threads { free: cluster.threads, waiting: VecDeque::new(), busy: 0.0 };
    let worker = || Worker { answers_missing: 0, computing: false };
    let mut simulation = Simulation {
        cluster,
        costs,
        shares: costs.shares(cluster.servers),
        machines: (0..machines).map(|_| machine()).collect(),
        threads: (0..cluster.servers).map(|_| threads()).collect(),
        wires: vec![Default::default(); machines],
        workers: (0..cluster.workers).map(|_| worker()).collect(),
        events: BinaryHeap::new(),
        done: 0,
    };
    simulation.run()
}

impl Simulation<'_> {
    fn run(&mut self) -> Prediction {
        let Cluster { workers, servers, .. } = self.cluster;
        for worker in 0..workers {
            // Not all at the same moment, as no real ones start.
            let start = self.costs.worker(servers) * worker as f64 / workers as f64;
            self.at(start, Event::Begins { worker });
        }
        // Fewer steps of each where there are many: their sum says as much.
        let each = (1_000_000 / (workers * servers).max(1)).clamp(12, 60) as u64;
        let (warm_up, all) = (each / 3 * workers as u64, each * workers as u64);
        let (mut from, mut now, mut busy_from) = (0.0, 0.0, [0.0; 3]);
        while self.done < all {
            let Some(Reverse((bits, event))) = self.events.pop() else { break };
            let before = self.done;
            now = f64::from_bits(bits);
            self.happens(now, event);
            if self.done > before && self.done == warm_up {
                (from, busy_from) = (now, self.busy());
            }
        }
        let (time, busy) = ((now - from).max(1e-12), self.busy());
        let share = |at: usize| ((busy[at] - busy_from[at]) / time).min(1.0);
        let steps_per_s = self.done.saturating_sub(warm_up) as f64 / time;
        Prediction { steps_per_s, workers: share(0), server: share(1), network: share(2) }
    }

    /// Seconds that the workers' machines, the busiest server and the busiest wire have worked, each as if it were one.
    fn busy(&self) -> [f64; 3] {
        let Cluster { workers, threads, cores, together, .. } = self.cluster;
        let computing: f64 = self.machines.iter().take(if together { 1 } else { workers }).map(|one| one.busy).sum();
        // A worker computes on one core at a time.
        let able = if together { cores } else { workers } as f64;
        let server = self.threads.iter().map(|one| one.busy).fold(0.0, f64::max) / threads.min(cores) as f64;
        [computing / able, server, self.wires.iter().flatten().map(|wire| wire.busy).fold(0.0, f64::max)]
    }

    fn machine(&self, task: usize) -> usize {
        if self.cluster.together { 0 } else { task }
    }

    fn at(&mut self, time: f64, event: Event) {
        self.events.push(Reverse((time.to_bits(), event)));
    }

    fn happens(&mut self, now: f64, event: Event) {
        match event {
            Event::Begins { worker } => {
                self.workers[worker].computing = true;
                if self.costs.overlap {
                    self.ask(now, worker);
                }
                let machine = self.machine(worker);
                self.machines[machine].waiting.push_back(Work::Step(worker));
                self.start_work(now, machine);
            }
            Event::Computed { worker } => {
                self.workers[worker].computing = false;
                self.done += 1;
                self.free_core(now, self.machine(worker));
                if !self.costs.overlap {
                    self.ask(now, worker);
                }
                self.go_on(now, worker);
            }
            Event::Moves { worker, server, back } => {
                let to = if back { worker } else { self.cluster.workers + server };
                let time = self.wire_time(server);
                let machine = self.machine(to);
                let there = self.wires[machine][1].take(now, time) + time + 0.5 * self.cluster.round_trip;
                self.at(there, if back { Event::Answered { worker } } else { Event::Arrives { worker, server } });
            }
            Event::Arrives { worker, server } => {
                self.threads[server].waiting.push_back(worker);
                self.serve(now, server);
            }
            Event::Served { worker, server } => {
                self.threads[server].free += 1;
                self.free_core(now, self.machine(self.cluster.workers + server));
                self.serve(now, server);
                self.send(now, worker, server, true);
            }
            Event::Answered { worker } => {
                self.workers[worker].answers_missing -= 1;
                self.go_on(now, worker);
            }
        }
    }

    /// Sends a step's share to every server.
    fn ask(&mut self, now: f64, worker: usize) {
        self.workers[worker].answers_missing = self.cluster.servers;
        (0..self.cluster.servers).for_each(|server| self.send(now, worker, server, false));
    }

    fn go_on(&mut self, now: f64, worker: usize) {
        let Worker { answers_missing, computing, .. } = self.workers[worker];
        if answers_missing == 0 && !computing {
            // Nothing twice: whoever waits is not asked again.
            self.workers[worker].computing = true;
            // On machines of their own, servers wake up side by side.
            let servers = if self.cluster.together { self.cluster.servers } else { 1 };
            self.at(now + self.costs.waiting(servers), Event::Begins { worker });
        }
    }

    /// Half of a share's bytes go each way.
    fn wire_time(&self, server: usize) -> f64 {
        0.5 * self.costs.bytes * self.shares[server] / self.cluster.bytes_per_s
    }

    fn send(&mut self, now: f64, worker: usize, server: usize, back: bool) {
        if self.cluster.together {
            let event = if back { Event::Answered { worker } } else { Event::Arrives { worker, server } };
            return self.at(now, event);
        }
        let (time, from) = (self.wire_time(server), if back { self.cluster.workers + server } else { worker });
        let start = self.wires[from][0].take(now, time);
        self.at(start, Event::Moves { worker, server, back });
    }

    /// Lets free threads of a server take messages.
    fn serve(&mut self, now: f64, server: usize) {
        let machine = self.machine(self.cluster.workers + server);
        while self.threads[server].free > 0
            && let Some(worker) = self.threads[server].waiting.pop_front()
        {
            self.threads[server].free -= 1;
            // The kernel lets what waited for a message run before what computes all the time.
            self.machines[machine].waiting.push_front(Work::Serve { worker, server });
        }
        self.start_work(now, machine);
    }

    fn free_core(&mut self, now: f64, machine: usize) {
        self.machines[machine].free += 1;
        self.start_work(now, machine);
    }

    fn start_work(&mut self, now: f64, machine: usize) {
        while self.machines[machine].free > 0
            && let Some(work) = self.machines[machine].waiting.pop_front()
        {
            let others = self.cluster.cores - self.machines[machine].free;
            let crowd = (others as f64 / (self.cluster.cores.max(2) - 1) as f64).min(1.0);
            let slower = 1.0 + (self.costs.contention - 1.0) * crowd;
            let (time, event) = match work {
                Work::Step(worker) => (self.costs.worker(self.cluster.servers) * slower, Event::Computed { worker }),
                Work::Serve { worker, server } => {
                    let time = self.costs.server(self.shares[server]) + self.network_cpu(self.shares[server]);
                    self.threads[server].busy += time;
                    (time, Event::Served { worker, server })
                }
            };
            self.machines[machine].free -= 1;
            self.machines[machine].busy += time;
            self.at(now + time, event);
        }
    }

    /// What TCP costs a processor beyond the sockets of one machine.
    fn network_cpu(&self, share: f64) -> f64 {
        if self.cluster.together { 0.0 } else { self.costs.bytes * share * self.costs.tcp_s_per_byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        Costs { worker_s: 0.010, server_work_s: 0.002, bytes: 1e6, ..Costs::default() }
    }

    fn cluster(workers: usize, servers: usize) -> Cluster {
        Cluster { workers, servers, cores: 2, together: true, threads: 1, bytes_per_s: 1.25e9, round_trip: 1e-4 }
    }

    fn near(is: f64, should: f64) -> bool {
        (is / should - 1.0).abs() < 0.03
    }

    #[test]
    fn one_worker_and_one_server_take_turns() {
        assert!(near(predict(cluster(1, 1), &costs()).steps_per_s, 1.0 / 0.012));
        let overlapped = Costs { overlap: true, ..costs() };
        assert!(near(predict(cluster(1, 1), &overlapped).steps_per_s, 1.0 / 0.010));
    }

    #[test]
    fn one_machine_is_limited_by_all_its_cores() {
        let many = predict(cluster(6, 2), &costs());
        assert!(near(many.steps_per_s, 2.0 / 0.012), "{many:?}");
    }

    #[test]
    fn crowded_cores_compute_more_slowly() {
        let crowded = Costs { contention: 1.5, server_work_s: 0.0, ..costs() };
        assert!(near(predict(cluster(1, 1), &crowded).steps_per_s, 100.0));
        let two = predict(cluster(2, 1), &crowded).steps_per_s;
        assert!(near(two, 200.0 / 1.5), "{two}");
    }

    #[test]
    fn machines_of_their_own_scale_until_a_server_or_its_network_is_full() {
        let apart = |workers, servers| Cluster { together: false, round_trip: 0.0, ..cluster(workers, servers) };
        let few = predict(apart(2, 1), &costs());
        assert!(few.steps_per_s > 140.0 && few.limit() == "workers", "{few:?}");
        let many = predict(apart(50, 1), &costs());
        assert!(near(many.steps_per_s, 1.0 / 0.002) && many.limit() == "servers", "{many:?}");
        let slow = predict(Cluster { bytes_per_s: 0.5e8, ..apart(50, 1) }, &costs());
        assert!(near(slow.steps_per_s, 100.0) && slow.limit() == "network", "{slow:?}");
        // Enough bytes of rows that the unsharded variables do not count.
        let rows = Costs { bytes: 1e9, ..costs() };
        let spread = predict(Cluster { bytes_per_s: 1e14, ..apart(50, 8) }, &rows);
        assert!(spread.steps_per_s > 6.0 * many.steps_per_s, "{spread:?}");
    }
}
