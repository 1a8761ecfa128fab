//! A group, as one member sees it.

use crate::Reduce;
use crate::call::{Call, Op};
use crate::exchange::Member;
use crate::group_failure::{GroupFailure, Name};
use crate::local::LocalPipes;
use phalanx_base::{Code, Error, Result, fnv1a};
use std::sync::Arc;
use std::time::Duration;

/// How long members wait for one another by default: a slow one is named within 3 s.
pub const PATIENCE: Duration = Duration::from_millis(2_750);
/// The most bytes of tensors that are packed together.
const BUCKET: usize = 1 << 20;

/// One member's handle of a group whose members all call the same operations in the same order.
///
/// A failure ends the group for all members: each gets the same error in its current call, or in its next one. Every later
/// call fails at once with that error, and a new group must be formed.
///
/// Results have the same bits on every member and in every run.
///
/// ```
/// use phalanx_collective::{Group, Reduce};
/// let threads: Vec<_> = Group::in_process(3)
///     .into_iter()
///     .map(|mut group| {
///         std::thread::spawn(move || {
///             let mut gradient = [1.0, group.rank() as f32];
///             group.all_reduce(&mut gradient, Reduce::Mean).unwrap();
///             gradient
///         })
///     })
///     .collect();
/// for thread in threads {
///     assert_eq!(thread.join().unwrap(), [1.0, 1.0]);
/// }
/// ```
pub struct Group {
    member: Member,
    calls: u64,
    scratch: Vec<f32>,
    pack: Vec<f32>,
    same_host_peers: usize,
}

impl Group {
    /// Creates a group of threads and returns its members by rank. It uses no sockets, and computes the same bits as a group
    /// over a network.
    #[must_use]
    pub fn in_process(members: usize) -> Vec<Self> {
        let names = (0..members).map(|rank| Name { task: format!("replica {rank}"), address: None }).collect();
        let failure_state = Arc::new(GroupFailure::new(names));
        let all_pipes = LocalPipes::new(members, Arc::clone(&failure_state));
        let member = |rank| {
            let pipes = Box::new(all_pipes.member(rank));
            Self::of(Member::new(rank, members, Arc::clone(&failure_state), pipes, PATIENCE), 0)
        };
        (0..members).map(member).collect()
    }

    pub(crate) fn of(member: Member, same_host_peers: usize) -> Self {
        Self { member, calls: 0, scratch: Vec::new(), pack: Vec::new(), same_host_peers }
    }

    /// Returns this member's rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.member.rank
    }

    /// Returns the number of members.
    #[must_use]
    pub fn size(&self) -> usize {
        self.member.size
    }

    /// Returns the number of other members on this host that are reached without the network.
    #[must_use]
    pub fn same_host_peers(&self) -> usize {
        self.same_host_peers
    }

    /// Sets how long a call waits without progress before it fails and names the late member. Raise it around work that only
    /// some members do, such as writing a checkpoint. A member whose process has ended is noticed at once in any case.
    pub fn set_patience(&mut self, patience: Duration) {
        self.member.patience = patience;
    }

    /// Returns why the group failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.member.failure_state.failure()
    }

    /// Ends the group for all members because this one cannot continue: all calls of all members fail with this error.
    pub fn abort(&mut self, error: Error) {
        let name = self.member.failure_state.name(self.member.rank).to_owned();
        let error = Error::new(Code::JobFailed, format!("{name} failed"))
            .because(error)
            .help("see its log, then start the job again: it resumes from the newest checkpoint");
        self.member.fail(error);
    }

    fn call(&mut self, op: Op, detail: u32, count: usize, lengths: u64) -> Call {
        self.calls += 1;
        Call { number: self.calls, op, detail, count: count as u64, lengths }
    }

    /// Replaces the numbers by the sum or mean over all members. All must have the same count.
    ///
    /// # Errors
    /// When a member is lost, late, or calls a different operation; all members then get the error.
    pub fn all_reduce(&mut self, numbers: &mut [f32], reduce: Reduce) -> Result<()> {
        let call = self.call(Op::AllReduce, reduce.code(), numbers.len(), 0);
        let Self { member, scratch, .. } = self;
        member.run(call, |member| member.all_reduce(numbers, reduce, scratch))
    }

    /// Reduces many tensors like [`Self::all_reduce`]. Adjacent small tensors are packed together.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    pub fn all_reduce_many(&mut self, tensors: &mut [&mut [f32]], reduce: Reduce) -> Result<()> {
        let lengths = fnv1a(tensors.iter().flat_map(|tensor| (tensor.len() as u64).to_le_bytes()));
        let count = tensors.iter().map(|tensor| tensor.len()).sum();
        let call = self.call(Op::AllReduceMany, reduce.code(), count, lengths);
        let Self { member, scratch, pack, .. } = self;
        member.run(call, |member| {
            let mut rest = tensors;
            while !rest.is_empty() {
                let (bucket, others) = rest.split_at_mut(bucket(rest));
                rest = others;
                if let [tensor] = bucket {
                    member.all_reduce(tensor, reduce, scratch)?;
                    continue;
                }
                pack.clear();
                bucket.iter().for_each(|tensor| pack.extend_from_slice(tensor));
                member.all_reduce(pack, reduce, scratch)?;
                let mut start = 0;
                for tensor in bucket {
                    tensor.copy_from_slice(&pack[start..start + tensor.len()]);
                    start += tensor.len();
                }
            }
            Ok(())
        })
    }

    /// Copies the numbers of the member `root` to all members. All must have the same count.
    ///
    /// # Errors
    /// As [`Self::all_reduce`], or when there is no member `root`.
    pub fn broadcast(&mut self, root: usize, numbers: &mut [f32]) -> Result<()> {
        self.check_root(root)?;
        let call = self.call(Op::Broadcast, root as u32, numbers.len(), 0);
        self.member.run(call, |member| member.broadcast(root, bytemuck::cast_slice_mut(numbers)))
    }

    /// Replaces every member's bytes by those of the member `root`.
    ///
    /// # Errors
    /// As [`Self::broadcast`].
    pub fn broadcast_bytes(&mut self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.check_root(root)?;
        let call = self.call(Op::BroadcastBytes, root as u32, 0, 0);
        self.member.run(call, |member| member.broadcast_sized(root, bytes))
    }

    /// Returns the bytes of all members by rank. They may differ in length.
    ///
    /// # Errors
    /// As [`Self::all_reduce`], or when there are more than 4 GiB in all.
    pub fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let call = self.call(Op::AllGather, 0, 0, 0);
        self.member.run(call, |member| member.all_gather(bytes))
    }

    /// Returns when every member has called it.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    pub fn barrier(&mut self) -> Result<()> {
        let call = self.call(Op::Barrier, 0, 0, 0);
        self.member.run(call, Member::barrier)
    }

    fn check_root(&self, root: usize) -> Result<()> {
        let size = self.size();
        if root < size {
            return Ok(());
        }
        Err(Error::new(Code::BadSetting, format!("there is no member {root} to broadcast from"))
            .because(format!("the group has {size} members, numbered from 0")))
    }
}

/// Returns how many of the first tensors are packed together.
fn bucket(tensors: &[&mut [f32]]) -> usize {
    let mut bytes = 0;
    let fits = |length: &usize| {
        bytes += length * size_of::<f32>();
        bytes <= BUCKET
    };
    tensors.iter().map(|tensor| tensor.len()).take_while(fits).count().max(1)
}

impl Drop for Group {
    fn drop(&mut self) {
        self.member.pipes.close();
    }
}
