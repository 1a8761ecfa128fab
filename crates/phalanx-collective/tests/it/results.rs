//! What groups compute: the same bits everywhere, of threads and over sockets.

use crate::support::{Places, bits, expected, numbers, on_all};
use phalanx_base::{Role, TaskId};
use phalanx_collective::{Group, GroupOptions, Peer, Reduce, SameHostTransport};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

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
fn members_on_the_same_host_end_with_the_same_bits() {
    for n in 1..=3 {
        for same_host in [SameHostTransport::SharedMemory, SameHostTransport::Socket] {
            let places = Places::new(n);
            everything(&mut places.groups(|options| options.same_host = same_host));
        }
    }
}

/// A member that starts late is still reached without the network.
#[test]
fn a_late_member_on_the_same_host_is_reached_without_the_network() {
    use std::os::linux::net::SocketAddrExt;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut early = Places::only(1);
    let first = Peer { task: TaskId::new(Role::Worker, 0), address: address.parse().unwrap() };
    let peers = vec![first, early.peers.remove(0)];
    let options = |rank| GroupOptions::new(rank, peers.clone());
    let (mine, theirs) = (options(0), options(1));
    // Shows that the early member has dialled in vain.
    let name = std::os::unix::net::SocketAddr::from_abstract_name(format!("phalanx:{address}")).unwrap();
    let dialled = std::os::unix::net::UnixListener::bind_addr(&name).unwrap();
    let waiting = std::thread::spawn(move || Group::connect(&early.listeners[0], &theirs).unwrap().same_host_peers());
    drop(dialled.accept().unwrap());
    drop(dialled);
    let late = Places::only_at(0, &address);
    let group = Group::connect(&late.listeners[0], &mine).unwrap();
    assert_eq!((group.same_host_peers(), waiting.join().unwrap()), (1, 1));
}

#[test]
fn members_reached_over_the_network_end_with_the_same_bits() {
    for n in 2..=3 {
        let places = Places::new(n);
        everything(&mut places.groups(|options| options.same_host = SameHostTransport::Network));
    }
}

#[test]
fn nobody_passes_a_barrier_alone() {
    let mut groups = Group::in_process(5);
    let come = AtomicUsize::new(0);
    on_all(&mut groups, |group| {
        for round in 1..=40 {
            for _ in 0..(group.rank() + round) % 5 * 100 {
                std::thread::yield_now();
            }
            come.fetch_add(1, Ordering::SeqCst);
            group.barrier().unwrap();
            assert!(come.load(Ordering::SeqCst) >= 5 * round, "round {round}");
        }
    });
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
