//! A job on machines, step by step: who computes, sends, serves and waits when. Pure.
//!
//! Workers loop: compute a step, push and pull at every server, go on. What is shared - cores of a machine, threads of a
//! server, a machine's way into the network - is taken in the order of asking, a piece of work at a time.

use super::costs::Costs;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cluster {
    pub(crate) workers: usize,
    pub(crate) servers: usize,
    /// Cores of each machine.
    pub(crate) cores: usize,
    /// Everything on one machine, or each task on one of its own.
    pub(crate) together: bool,
    /// Threads of each server.
    pub(crate) threads: usize,
    /// Bytes per second of each machine's network, in and out.
    pub(crate) bytes_per_s: f64,
    /// Seconds for a word and its answer over the network.
    pub(crate) round_trip: f64,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    pub(crate) steps_per_s: f64,
    /// How busy the workers' processors are, that of the busiest server, and the busiest way into the network: 0 to 1.
    pub(crate) workers: f64,
    pub(crate) server: f64,
    pub(crate) network: f64,
}

impl Prediction {
    /// What would have to be faster.
    pub(crate) fn limit(&self) -> &'static str {
        let most = self.workers.max(self.server).max(self.network);
        match most {
            waiting if waiting < 0.7 => "waiting",
            most if most == self.workers => "workers",
            most if most == self.server => "servers",
            _ => "network",
        }
    }
}

/// Something that can do so many things at once.
struct Slots {
    free_at: Vec<f64>,
    busy: f64,
}

impl Slots {
    fn new(count: usize) -> Self {
        Self { free_at: vec![0.0; count.max(1)], busy: 0.0 }
    }

    fn earliest(&self) -> usize {
        let by_time = |&a: &usize, &b: &usize| self.free_at[a].total_cmp(&self.free_at[b]);
        (0..self.free_at.len()).min_by(by_time).unwrap_or(0)
    }

    fn busy_at(&self, at: f64) -> usize {
        self.free_at.iter().filter(|&&free| free > at).count()
    }

    fn take(&mut self, start: f64, time: f64) {
        let slot = self.earliest();
        self.free_at[slot] = start + time;
        self.busy += time;
    }

    fn ready(&self) -> f64 {
        self.free_at[self.earliest()]
    }
}

/// What happens next, and to which worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Computes(usize),
    Computed(usize),
    Arrives { worker: usize, server: usize },
    Answered(usize),
}

/// Time as a key: positive numbers are ordered as their bits are.
fn key(time: f64) -> u64 {
    time.to_bits()
}

struct Worker {
    answers_missing: usize,
    computing: bool,
    steps: u64,
}

struct Simulation<'a> {
    cluster: Cluster,
    costs: &'a Costs,
    /// Each server's share of a step's bytes.
    shares: Vec<f64>,
    cores: Vec<Slots>,
    threads: Vec<Slots>,
    network: Vec<Slots>,
    workers: Vec<Worker>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    done: u64,
}

/// Predicts the rate of a job: the costs of one step, on these machines.
pub(crate) fn predict(cluster: Cluster, costs: &Costs) -> Prediction {
    let machines = if cluster.together { 1 } else { cluster.workers + cluster.servers };
    let slots = |count: usize, each: usize| (0..count).map(|_| Slots::new(each)).collect::<Vec<_>>();
    let worker = || Worker { answers_missing: 0, computing: false, steps: 0 };
    let mut simulation = Simulation {
        cluster,
        costs,
        shares: costs.shares(cluster.servers),
        cores: slots(machines, cluster.cores),
        threads: slots(cluster.servers, cluster.threads),
        network: slots(2 * machines, 1),
        workers: (0..cluster.workers).map(|_| worker()).collect(),
        events: BinaryHeap::new(),
        done: 0,
    };
    simulation.run()
}

impl Simulation<'_> {
    fn run(&mut self) -> Prediction {
        for worker in 0..self.cluster.workers {
            // Not all at the same moment, as no real ones start.
            let start = self.costs.worker(self.cluster.servers) * worker as f64 / self.cluster.workers as f64;
            self.events.push(Reverse((key(start), Event::Computes(worker))));
        }
        let each = 60_u64;
        let (warm_up, all) = (each / 3 * self.cluster.workers as u64, each * self.cluster.workers as u64);
        let (mut from, mut now) = (0.0, 0.0);
        let mut busy_from = [0.0; 3];
        while self.done < all {
            let Some(Reverse((bits, event))) = self.events.pop() else { break };
            now = f64::from_bits(bits);
            self.happens(now, event);
            if self.done <= warm_up {
                (from, busy_from) = (now, self.busy());
            }
        }
        let time = (now - from).max(1e-12);
        let busy = self.busy();
        let share = |at: usize| ((busy[at] - busy_from[at]) / time).min(1.0);
        let steps_per_s = (self.done - warm_up.min(self.done)) as f64 / time;
        Prediction { steps_per_s, workers: share(0), server: share(1), network: share(2) }
    }

    /// Seconds that workers' machines, the busiest server and the busiest network have worked, each as if it were one.
    fn busy(&self) -> [f64; 3] {
        let Cluster { workers, threads, cores, together, .. } = self.cluster;
        let machines = if together { 1 } else { workers };
        let compute: f64 = self.cores.iter().take(machines).map(|machine| machine.busy).sum();
        // A worker computes on one core at a time.
        let able = if together { cores } else { workers } as f64;
        let most = |of: &[Slots]| of.iter().map(|one| one.busy).fold(0.0, f64::max);
        [compute / able, most(&self.threads) / threads.min(cores) as f64, most(&self.network)]
    }

    fn machine(&self, task: usize) -> usize {
        if self.cluster.together { 0 } else { task }
    }

    fn at(&mut self, time: f64, event: Event) {
        self.events.push(Reverse((key(time), event)));
    }

    fn happens(&mut self, now: f64, event: Event) {
        match event {
            Event::Computes(worker) => {
                let (machine, time) = (self.machine(worker), self.costs.worker(self.cluster.servers));
                self.workers[worker].computing = true;
                if self.costs.overlap {
                    self.ask(now, worker);
                }
                let start = now.max(self.cores[machine].ready());
                let others = self.cores[machine].busy_at(start);
                let crowd = others as f64 / (self.cluster.cores.max(2) - 1) as f64;
                let time = time * (1.0 + (self.costs.contention - 1.0) * crowd.min(1.0));
                self.cores[machine].take(start, time);
                self.at(start + time, Event::Computed(worker));
            }
            Event::Computed(worker) => {
                self.workers[worker].computing = false;
                self.workers[worker].steps += 1;
                self.done += 1;
                if !self.costs.overlap {
                    self.ask(now, worker);
                }
                self.go_on(now, worker);
            }
            Event::Arrives { worker, server } => {
                let machine = self.machine(self.cluster.workers + server);
                let time = self.costs.server(self.shares[server]) + self.network_cpu(self.shares[server]);
                let start = now.max(self.threads[server].ready()).max(self.cores[machine].ready());
                self.threads[server].take(start, time);
                self.cores[machine].take(start, time);
                let back = self.travel(start + time, self.cluster.workers + server, worker, self.shares[server]);
                self.at(back, Event::Answered(worker));
            }
            Event::Answered(worker) => {
                self.workers[worker].answers_missing -= 1;
                self.go_on(now, worker);
            }
        }
    }

    /// Sends a step's share to every server.
    fn ask(&mut self, now: f64, worker: usize) {
        self.workers[worker].answers_missing = self.cluster.servers;
        for server in 0..self.cluster.servers {
            let there = self.travel(now, worker, self.cluster.workers + server, self.shares[server]);
            self.at(there, Event::Arrives { worker, server });
        }
    }

    fn go_on(&mut self, now: f64, worker: usize) {
        let Worker { answers_missing, computing, .. } = self.workers[worker];
        if answers_missing == 0 && !computing {
            self.at(now + self.costs.latency, Event::Computes(worker));
        }
    }

    /// What TCP costs a processor beyond the sockets of one machine.
    fn network_cpu(&self, share: f64) -> f64 {
        if self.cluster.together { 0.0 } else { self.costs.bytes * share * self.costs.tcp_s_per_byte }
    }

    /// When half of a share's bytes, which go one way, have come from one task to another.
    fn travel(&mut self, now: f64, from: usize, to: usize, share: f64) -> f64 {
        if self.cluster.together {
            return now;
        }
        let time = 0.5 * self.costs.bytes * share / self.cluster.bytes_per_s;
        let (out, into) = (2 * from, 2 * to + 1);
        let start = now.max(self.network[out].ready()).max(self.network[into].ready());
        self.network[out].take(start, time);
        self.network[into].take(start, time);
        start + time + 0.5 * self.cluster.round_trip
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
        let spread = predict(apart(50, 8), &costs());
        assert!(spread.steps_per_s > 6.0 * many.steps_per_s, "{spread:?}");
    }
}
