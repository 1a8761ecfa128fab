//! What groups compute: the same bits everywhere, of threads and over sockets.

mod support;

use phalanx_base::{Role, TaskId};
use phalanx_collective::{Background, Group, Nearby, Options, Peer, Reduce, Rows};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{Places, bits, expected, numbers, on_all};

/// Lengths on both sides of every change of algorithm, and parts of unequal size.
const LENGTHS: [usize; 12] = [0, 1, 2, 3, 5, 7, 1000, 4096, 4097, 65_536, 65_537, 200_003];

fn reduce_all(groups: &mut [Group], seed: u64, length: usize, reduce: Reduce) {
    let inputs: Vec<_> = (0..groups.len()).map(|rank| numbers(seed + rank as u64, length)).collect();
    let wanted = bits(&expected(&inputs, reduce));
    let got = on_all(groups, |group| {
        let mut numbers = inputs[group.rank()].clone();
        group.all_reduce(&mut numbers, reduce).unwrap();
        bits(&numbers)
    });
    for (rank, got) in got.into_iter().enumerate() {
        assert!(got == wanted, "rank {rank} of {} with {length} numbers", inputs.len());
    }
}

/// Everything a group does, once each.
fn everything(groups: &mut [Group]) {
    for (seed, length) in LENGTHS.into_iter().enumerate() {
        reduce_all(groups, seed as u64, length, Reduce::Sum);
        reduce_all(groups, 77 + seed as u64, length, Reduce::Mean);
    }
    many(groups);
    broadcasts(groups);
    gathers(groups);
    on_all(groups, |group| group.barrier().unwrap());
}

fn many(groups: &mut [Group]) {
    let lengths = [3, 0, 300_000, 17, 90_000, 200_000, 1, 1];
    let input = |rank: usize| lengths.map(|length| numbers((rank * 100 + length) as u64, length));
    let n = groups.len();
    let inputs: Vec<_> = (0..n).map(input).collect();
    let run = |group: &mut Group| {
        let mut tensors = inputs[group.rank()].clone();
        let mut parts: Vec<&mut [f32]> = tensors.iter_mut().map(Vec::as_mut_slice).collect();
        group.all_reduce_many(&mut parts, Reduce::Mean).unwrap();
        tensors.map(|tensor| bits(&tensor))
    };
    let once = on_all(groups, run);
    assert!(once.iter().all(|tensors| *tensors == once[0]), "all ranks have the same bits");
    assert!(on_all(groups, run) == once, "and again");
    // Tensors of more than a bucket are reduced as if alone.
    let alone: Vec<_> = inputs.iter().map(|tensors| tensors[2].clone()).collect();
    assert!(once[0][2] == bits(&expected(&alone, Reduce::Mean)));
    for (t, length) in lengths.into_iter().enumerate() {
        for i in (0..length).step_by(997) {
            let (sum, size) = inputs.iter().fold((0.0, 0.0_f64), |(sum, size), tensors| {
                let number = f64::from(tensors[t][i]);
                (sum + number, size + number.abs())
            });
            let got = f64::from(f32::from_bits(once[0][t][i]));
            assert!((got - sum / n as f64).abs() <= 1e-6 * size, "tensor {t}, number {i}: {got}");
        }
    }
}

fn broadcasts(groups: &mut [Group]) {
    for root in 0..groups.len() {
        let wanted = numbers(root as u64, 50_001);
        let got = on_all(groups, |group| {
            let mut numbers = if group.rank() == root { wanted.clone() } else { vec![0.5; wanted.len()] };
            group.broadcast(root, &mut numbers).unwrap();
            let mut bytes = vec![group.rank() as u8; 3 + 1000 * group.rank()];
            group.broadcast_bytes(root, &mut bytes).unwrap();
            (numbers, bytes)
        });
        assert!(
            got.iter()
                .all(|(numbers, bytes)| bits(numbers) == bits(&wanted) && *bytes == vec![root as u8; 3 + 1000 * root])
        );
    }
}

fn gathers(groups: &mut [Group]) {
    let own = |rank: usize| vec![rank as u8; [0, 100_000, 1, 0, 7, 300][rank]];
    let wanted: Vec<_> = (0..groups.len()).map(own).collect();
    assert!(on_all(groups, |group| group.all_gather(&own(group.rank())).unwrap()).iter().all(|got| *got == wanted));
}

#[test]
fn threads_end_with_the_same_bits() {
    for n in 1..=6 {
        everything(&mut Group::in_process(n));
    }
}

#[test]
fn neighbours_end_with_the_same_bits() {
    for n in 1..=3 {
        for nearby in [Nearby::SharedMemory, Nearby::Socket] {
            let places = Places::new(n);
            everything(&mut places.groups(|options| options.nearby = nearby));
        }
    }
}

/// A task binds its port a moment before it serves it, and may come long after those who wait for it.
#[test]
fn a_neighbour_that_comes_late_is_reached_as_a_neighbour() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut early = Places::only(1);
    let address: phalanx_wire::Address = format!("127.0.0.1:{port}").parse().unwrap();
    let first = Peer { task: TaskId::new(Role::Worker, 0), address: address.clone() };
    let peers = vec![first, early.peers.remove(0)];
    let options = |rank| Options { formation: Duration::from_secs(20), ..Options::new(rank, peers.clone()) };
    let (mine, theirs) = (options(0), options(1));
    let waiting = std::thread::spawn(move || Group::connect(&early.doors[0], &theirs).unwrap().neighbours());
    std::thread::sleep(Duration::from_millis(200));
    let mut listening = phalanx_wire::Listening::bind(&address, 1).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let door = support::serve(&mut listening, 0);
    let group = Group::connect(&door, &mine).unwrap();
    assert_eq!((group.neighbours(), waiting.join().unwrap()), (1, 1));
}

#[test]
fn members_reached_over_grpc_end_with_the_same_bits() {
    for n in 2..=3 {
        let places = Places::new(n);
        everything(&mut places.groups(|options| options.nearby = Nearby::Network));
    }
}

#[test]
fn rows_are_summed_by_id_in_the_order_of_the_ranks() {
    for n in 1..=5 {
        let mut groups = Group::in_process(n);
        // Ids overlap between members and repeat within one; rank 1 has none.
        let rows = |rank: usize| {
            let ids: Vec<i64> =
                if rank == 1 { Vec::new() } else { (0..40).map(|i| (i * (rank as i64 + 3)) % 23 - 5).collect() };
            let values = numbers(rank as u64, 3 * ids.len());
            Rows::new(3, ids, values).unwrap()
        };
        let mut wanted: BTreeMap<i64, Vec<f32>> = BTreeMap::new();
        for rank in 0..n {
            let rows = rows(rank);
            for (i, &id) in rows.ids().iter().enumerate() {
                let sum = wanted.get(&id).map_or_else(
                    || rows.row(i).to_vec(),
                    |sum| sum.iter().zip(rows.row(i)).map(|(a, b)| a + b).collect(),
                );
                wanted.insert(id, sum);
            }
        }
        let got = on_all(&mut groups, |group| group.reduce_rows(&rows(group.rank()), Reduce::Sum).unwrap());
        for got in got {
            assert_eq!(got.ids(), wanted.keys().copied().collect::<Vec<_>>());
            assert_eq!(bits(got.values()), bits(&wanted.values().flatten().copied().collect::<Vec<_>>()));
        }
        let means = on_all(&mut groups, |group| group.reduce_rows(&rows(group.rank()), Reduce::Mean).unwrap());
        let first = wanted.values().next().map(|row| row[0] / n as f32);
        assert!(means.iter().all(|mean| mean.values().first().copied() == first));
    }
}

#[test]
fn nobody_passes_a_barrier_alone() {
    let mut groups = Group::in_process(5);
    let come = AtomicUsize::new(0);
    on_all(&mut groups, |group| {
        for round in 1..=40 {
            if (group.rank() + round) % 5 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            come.fetch_add(1, Ordering::SeqCst);
            group.barrier().unwrap();
            assert!(come.load(Ordering::SeqCst) >= 5 * round, "round {round}");
        }
    });
}

#[test]
fn reductions_run_in_the_background_in_order() {
    let places = Places::new(2);
    let mut members: Vec<Background> =
        places.groups(|_| ()).into_iter().map(|group| Background::new(group).unwrap()).collect();
    let started: Vec<Vec<_>> = members
        .iter_mut()
        .map(|member| (0..8).map(|k| member.start(numbers(k + member.rank() as u64, 30_000), Reduce::Sum)).collect())
        .collect();
    for handles in started {
        for (k, handle) in (0..).zip(handles) {
            let wanted = expected(&[numbers(k, 30_000), numbers(k + 1, 30_000)], Reduce::Sum);
            assert_eq!(bits(&handle.wait().unwrap()), bits(&wanted));
        }
    }
    let mut groups: Vec<Group> = members.into_iter().map(|member| member.finish().unwrap()).collect();
    reduce_all(&mut groups, 5, 100, Reduce::Mean);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_length_any_size(n in 1_usize..=6, length in 0_usize..90_000, small in 0_usize..40, seed: u32, mean: bool) {
        let mut groups = Group::in_process(n);
        let reduce = if mean { Reduce::Mean } else { Reduce::Sum };
        reduce_all(&mut groups, seed.into(), length, reduce);
        reduce_all(&mut groups, seed.into(), small, reduce);
        reduce_all(&mut groups, seed.into(), length, reduce);
    }
}
