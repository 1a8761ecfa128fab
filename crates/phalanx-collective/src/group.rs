//! A group, as one member sees it.

use crate::board::{Board, Name};
use crate::call::{Call, Op, digest};
use crate::exchange::Member;
use crate::local::Room;
use crate::{Reduce, Rows};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;
use std::time::Duration;

/// How long members wait for one another when nothing else is said: a slow one is named within 3 s.
pub const PATIENCE: Duration = Duration::from_millis(2_750);
/// Tensors are packed together up to so many bytes.
const BUCKET: usize = 1 << 20;

/// One member's place in a group whose members all call the same operations in the same order.
///
/// A failure is everybody's: all members get the same error, in the call they are in or, where they had already ended
/// it, in their next. Every later call fails at once with that error, and a new group must be formed.
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
    spare: Vec<f32>,
    pack: Vec<f32>,
    neighbours: usize,
}

impl Group {
    /// The members of a group of threads, by rank. No sockets; the same interface and the same bits as over a network.
    #[must_use]
    pub fn in_process(members: usize) -> Vec<Self> {
        let names = (0..members).map(|rank| Name { task: format!("replica {rank}"), address: None }).collect();
        let board = Arc::new(Board::new(names));
        let room = Room::new(members, Arc::clone(&board));
        let member = |rank| {
            let pipes = Box::new(room.member(rank));
            Self::of(Member::new(rank, members, Arc::clone(&board), pipes, PATIENCE))
        };
        (0..members).map(member).collect()
    }

    pub(crate) fn of(member: Member) -> Self {
        Self { member, calls: 0, spare: Vec::new(), pack: Vec::new(), neighbours: 0 }
    }

    /// This member's number, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.member.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.member.size
    }

    /// How many of the other members are on this machine and reached without the network.
    #[must_use]
    pub fn neighbours(&self) -> usize {
        self.neighbours
    }

    pub(crate) fn with_neighbours(mut self, neighbours: usize) -> Self {
        self.neighbours = neighbours;
        self
    }

    /// How long a call waits while nothing moves, before it names who is late and fails. Longer around work that only
    /// some members do, such as writing a checkpoint. A member whose process is gone is noticed at once all the same.
    pub fn set_patience(&mut self, patience: Duration) {
        self.member.patience = patience;
    }

    /// Why the group failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.member.board.failure()
    }

    /// Ends the group for everybody because this member cannot go on: all calls of all members fail with this error.
    pub fn abort(&mut self, error: Error) {
        let name = self.member.board.name(self.member.rank).to_owned();
        let error = Error::new(Code::JobFailed, format!("{name} failed"))
            .because(error)
            .help("see its log, then start the job again: it goes on from the newest checkpoint");
        self.member.fail(error);
    }

    fn call(&mut self, op: Op, detail: u32, count: usize, lengths: u64) -> Call {
        self.calls += 1;
        Call { number: self.calls, op, detail, count: count as u64, lengths }
    }

    /// Replaces the numbers by the sum or mean over all members, who must have equally many.
    ///
    /// # Errors
    /// When a member is lost, late, or does something else; then for all members.
    pub fn all_reduce(&mut self, numbers: &mut [f32], reduce: Reduce) -> Result<()> {
        let call = self.call(Op::AllReduce, reduce.code(), numbers.len(), 0);
        let Self { member, spare, .. } = self;
        member.run(call, |member| member.all_reduce(numbers, reduce, spare))
    }

    /// The same for many tensors at once; small neighbours go packed together.
    ///
    /// # Errors
    /// As [`Self::all_reduce`].
    pub fn all_reduce_many(&mut self, tensors: &mut [&mut [f32]], reduce: Reduce) -> Result<()> {
        let lengths = digest(tensors.iter().map(|tensor| tensor.len() as u64));
        let count = tensors.iter().map(|tensor| tensor.len()).sum();
        let call = self.call(Op::AllReduceMany, reduce.code(), count, lengths);
        let Self { member, spare, pack, .. } = self;
        member.run(call, |member| {
            let mut rest = tensors;
            while !rest.is_empty() {
                let (bucket, others) = rest.split_at_mut(bucket(rest));
                rest = others;
                if let [tensor] = bucket {
                    member.all_reduce(tensor, reduce, spare)?;
                    continue;
                }
                pack.clear();
                bucket.iter().for_each(|tensor| pack.extend_from_slice(tensor));
                member.all_reduce(pack, reduce, spare)?;
                let mut start = 0;
                for tensor in bucket {
                    tensor.copy_from_slice(&pack[start..start + tensor.len()]);
                    start += tensor.len();
                }
            }
            Ok(())
        })
    }

    /// Sums (or means) of rows over all members: each id once, in order; rows of an id are added in the order of the
    /// ranks. A mean divides by the number of members, whoever has the row.
    ///
    /// # Errors
    /// As [`Self::all_reduce`]; the width must be the same everywhere.
    pub fn reduce_rows(&mut self, rows: &Rows, reduce: Reduce) -> Result<Rows> {
        let call = self.call(Op::ReduceRows, reduce.code(), rows.width(), 0);
        let mut own = Vec::with_capacity(8 * rows.ids().len() + 4 * rows.values().len());
        rows.write(&mut own);
        self.member.run(call, |member| {
            let mut merged = Rows::merge(rows.width(), &member.all_gather(&own)?)?;
            merged.finish(reduce, member.size);
            Ok(merged)
        })
    }

    /// Gives every member the numbers of the member `root`; all must have equally many.
    ///
    /// # Errors
    /// As [`Self::all_reduce`], or when there is no such member.
    pub fn broadcast(&mut self, root: usize, numbers: &mut [f32]) -> Result<()> {
        self.check_root(root)?;
        let call = self.call(Op::Broadcast, root as u32, numbers.len(), 0);
        self.member.run(call, |member| member.broadcast(root, bytemuck::cast_slice_mut(numbers)))
    }

    /// Gives every member the bytes of the member `root`; what the others have is replaced.
    ///
    /// # Errors
    /// As [`Self::broadcast`].
    pub fn broadcast_bytes(&mut self, root: usize, bytes: &mut Vec<u8>) -> Result<()> {
        self.check_root(root)?;
        let call = self.call(Op::BroadcastBytes, root as u32, 0, 0);
        self.member.run(call, |member| member.broadcast_sized(root, bytes))
    }

    /// Everybody's bytes, by rank; they may differ in length.
    ///
    /// # Errors
    /// As [`Self::all_reduce`], or when it is too much for one call.
    pub fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let call = self.call(Op::AllGather, 0, 0, 0);
        self.member.run(call, |member| member.all_gather(bytes))
    }

    /// Returns when every member has come here.
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

/// How many of the first tensors go together.
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
