//! Thread pools for the computation of steps.

use phalanx_base::{Code, Context, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Loops over fewer numbers than this run on one thread: it is done before a second one would have started.
pub(crate) const PARALLEL_THRESHOLD: usize = 1 << 15;

/// Runs `work` with `threads` threads for its arithmetic. Tasks on the same host share its cores, so each is given its own
/// number of threads.
///
/// ```
/// assert_eq!(phalanx_nn::with_threads(2, || Ok(40 + 2))?, 42);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
///
/// # Errors
/// The error of `work`; and if the operating system cannot start the threads.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    pool(threads, "phalanx-compute")?.install(work)
}

fn pool(threads: usize, name: &str) -> Result<ThreadPool> {
    let name = name.to_owned();
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(move |i| format!("{name}-{i}"));
    builder.build().context(Code::Internal, "the compute threads cannot be started")
}

/// Compute slots in which replicas run in parallel, each with its own thread pool.
///
/// ```
/// let slots = phalanx_nn::Slots::new(2)?;
/// let squares = slots.run(vec![3, 4], |slot, number| number * number + slot);
/// assert_eq!(squares, [9, 17]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Slots(Vec<ThreadPool>);

impl Slots {
    /// Returns a single slot, which computes on the calling thread.
    #[must_use]
    pub fn one() -> Self {
        Self(Vec::new())
    }

    /// Returns `slots` slots that divide the threads of the caller among them. A single slot computes on the calling
    /// thread.
    ///
    /// # Errors
    /// If the operating system cannot start the threads.
    pub fn new(slots: usize) -> Result<Self> {
        let each = (rayon::current_num_threads() / slots.max(1)).max(1);
        let pools = (0..slots).map(|slot| pool(each, &format!("phalanx-replica-{slot}")));
        Ok(Self(if slots > 1 { pools.collect::<Result<_>>()? } else { Vec::new() }))
    }

    /// Runs `work` on all items in parallel, item `i` in slot `i`, and returns the results in the same order. Items beyond
    /// the number of slots wait for a free one.
    pub fn run<I: Send, T: Send>(&self, items: Vec<I>, work: impl Fn(usize, I) -> T + Sync) -> Vec<T> {
        if self.0.is_empty() || items.len() < 2 {
            return items.into_iter().enumerate().map(|(slot, item)| work(slot, item)).collect();
        }
        let mut done: Vec<(Option<I>, Option<T>)> = items.into_iter().map(|item| (Some(item), None)).collect();
        for (round, items) in done.chunks_mut(self.0.len()).enumerate() {
            run_parallel(&self.0, items, round * self.0.len(), &work);
        }
        done.into_iter().filter_map(|(_, result)| result).collect()
    }
}

/// Starts the first item in the first pool and, while it runs, the other items in the other pools.
fn run_parallel<I: Send, T: Send>(
    pools: &[ThreadPool],
    items: &mut [(Option<I>, Option<T>)],
    slot: usize,
    work: &(impl Fn(usize, I) -> T + Sync),
) {
    let (Some((pool, pools)), Some((item, items))) = (pools.split_first(), items.split_first_mut()) else { return };
    pool.in_place_scope(|scope| {
        scope.spawn(move |_| item.1 = item.0.take().map(|input| work(slot, input)));
        run_parallel(pools, items, slot + 1, work);
    });
}
