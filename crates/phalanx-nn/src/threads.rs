//! How many threads a step computes with.

use phalanx_base::{Code, Context, Result};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// So many numbers one thread copies or adds up before another would have begun.
pub(crate) const WORTH_SHARING: usize = 1 << 15;

/// Runs `work` with `threads` threads for its arithmetic. Several tasks on one machine share its cores, so each is told
/// how many are its own.
///
/// ```
/// assert_eq!(phalanx_nn::with_threads(2, || 40 + 2).unwrap(), 42);
/// ```
///
/// # Errors
/// When the operating system gives us no threads.
pub fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> Result<T> {
    Ok(pool(threads, "phalanx-compute")?.install(work))
}

fn pool(threads: usize, name: &str) -> Result<ThreadPool> {
    let name = name.to_owned();
    let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(move |i| format!("{name}-{i}"));
    builder.build().context(Code::Internal, "the compute threads cannot be started")
}

/// Places where replicas compute side by side, each with threads of its own.
///
/// ```
/// let slots = phalanx_nn::Slots::new(2)?;
/// let squares = slots.run(vec![3, 4], |place, number| number * number + place);
/// assert_eq!(squares, [9, 17]);
/// # Ok::<(), phalanx_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Slots(Vec<ThreadPool>);

impl Slots {
    /// One place: it computes where it is called.
    #[must_use]
    pub fn one() -> Self {
        Self(Vec::new())
    }

    /// So many places, over which the threads of the caller are divided. A single one computes where it is called.
    ///
    /// # Errors
    /// When the operating system gives us no threads.
    pub fn new(places: usize) -> Result<Self> {
        let each = (rayon::current_num_threads() / places.max(1)).max(1);
        let pools = (0..places).map(|place| pool(each, &format!("phalanx-replica-{place}")));
        Ok(Self(if places > 1 { pools.collect::<Result<_>>()? } else { Vec::new() }))
    }

    /// Runs `work` on every item at the same time, item `i` in place `i`; answers in the same order. Items beyond the
    /// places wait for their turn.
    pub fn run<I: Send, T: Send>(&self, items: Vec<I>, work: impl Fn(usize, I) -> T + Sync) -> Vec<T> {
        if self.0.is_empty() || items.len() < 2 {
            return items.into_iter().enumerate().map(|(place, item)| work(place, item)).collect();
        }
        let mut done: Vec<(Option<I>, Option<T>)> = items.into_iter().map(|item| (Some(item), None)).collect();
        for (round, places) in done.chunks_mut(self.0.len()).enumerate() {
            side_by_side(&self.0, places, round * self.0.len(), &work);
        }
        done.into_iter().filter_map(|(_, result)| result).collect()
    }
}

/// Starts the first item in the first pool and, while that runs, the others in the others.
fn side_by_side<I: Send, T: Send>(
    pools: &[ThreadPool],
    items: &mut [(Option<I>, Option<T>)],
    place: usize,
    work: &(impl Fn(usize, I) -> T + Sync),
) {
    let (Some((pool, pools)), Some((item, items))) = (pools.split_first(), items.split_first_mut()) else { return };
    pool.in_place_scope(|scope| {
        scope.spawn(move |_| item.1 = item.0.take().map(|input| work(place, input)));
        side_by_side(pools, items, place + 1, work);
    });
}
