//! Where in a pipeline the input is divided.
//!
//! By file, at the sources. By element, as near to the sources as the meaning allows: below `shuffle`, so that workers
//! need not agree on an order, and below `map`, so that each worker maps its own share only. `take`, `skip`, `zip`,
//! `enumerate`, `shard` and a cache file depend on all elements in order: the share is cut after them, and every
//! worker must then see the same order before.

use super::{AutoShardPolicy, InputContext, ShardedBy, Sharding};
use crate::Dataset;
use crate::dataset::{BlocksOp, Node, Op, ShardOp, Shardability};
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

impl Dataset {
    /// This worker's share of the dataset, and how the choice was made.
    ///
    /// Every element goes to exactly one worker in each epoch, whatever the number of files. Below a `repeat` the shares
    /// rotate: in its next round a worker takes the share of the worker after it, so that no share depends on one worker,
    /// and a worker that is faster than the others does not see the same elements over and over. Shares that a `cache`
    /// holds stay, and so do those of [`AutoShardPolicy::File`]. The policy is the one of [`Dataset::options`]. Call it after the whole pipeline is written, or right after its source: the meaning is the
    /// same. Shares may be uneven by a file or an element; each worker simply comes to its end. Sharing a worker's
    /// share for the same worker again changes nothing.
    ///
    /// ```
    /// use phalanx_data::{Dataset, InputContext};
    /// let data = Dataset::range(0, 5, 1).shuffle(5).batch(2);
    /// let mut seen = Vec::new();
    /// for id in 0..2 {
    ///     let cx = InputContext { num_input_pipelines: 2, input_pipeline_id: id, num_replicas_in_sync: 2 };
    ///     for batch in data.shard_for(&cx)?.0.iter()? {
    ///         seen.extend_from_slice(batch?.i64("value")?);
    ///     }
    /// }
    /// seen.sort();
    /// assert_eq!(seen, [0, 1, 2, 3, 4]);
    /// # Ok::<(), phalanx_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the files cannot be listed; when files were asked for and there are too few; when the share must be cut
    /// after a stage that needs every worker to see the same order, and a shuffle before it has no seed.
    pub fn shard_for(&self, cx: &InputContext) -> Result<(Self, Sharding)> {
        cx.replicas_per_pipeline()?;
        let (workers, worker) = (cx.num_input_pipelines, cx.input_pipeline_id);
        let done = |node: Node, by: ShardedBy| {
            let sharding = Sharding { worker, workers, by };
            Ok((self.shared(node, &sharding), sharding))
        };
        let whole = |why| done(self.node().clone(), ShardedBy::Nothing(why));
        if let Some(sharding) = self.sharding().filter(|sharding| !sharding.is_whole()) {
            // A share of a share would lose elements.
            return if (sharding.worker, sharding.workers) == (worker, workers) {
                Ok((self.clone(), sharding.clone()))
            } else {
                Err(Error::new(Code::BadSetting, "the input was shared among workers before, and differently")
                    .because(format!("{sharding}; now worker {worker} of {workers} asks for its share"))
                    .help("shard it once"))
            };
        }
        let policy = self.options().auto_shard_policy.unwrap_or_default();
        if workers == 1 {
            return whole("it is alone");
        }
        if policy == AutoShardPolicy::Off {
            return whole("sharding is off");
        }
        if policy == AutoShardPolicy::Blocks {
            let blocks: Arc<dyn Op> = Arc::new(BlocksOp::new(workers));
            return done(share_elements(self.node(), &blocks)?, ShardedBy::Blocks);
        }
        let sources = Sources::of(self.node())?;
        if sources.by_file(policy, workers)? {
            let node = share_files(self.node(), workers, worker, policy != AutoShardPolicy::File);
            let own = Sources::of(&node)?.files;
            return done(node, ShardedBy::Files { own, files: sources.files });
        }
        let every: Arc<dyn Op> = Arc::new(ShardOp { of: workers, index: worker, rotates: true });
        let node = share_elements(self.node(), &every)?;
        let files = sources.only_files.then_some(sources.files);
        done(node, ShardedBy::Elements { files, why: sources.why(policy, workers) })
    }
}

impl Dataset {
    /// The whole dataset in an order that is the same for all workers, where each is to take its part of every batch:
    /// when the input is shared by element and no shuffle lacks a seed. `None` where that is not so.
    ///
    /// # Errors
    /// When the input cannot be shared.
    pub fn in_one_order(&self, cx: &InputContext) -> Result<Option<(Self, Sharding)>> {
        let (workers, worker) = (cx.num_input_pipelines, cx.input_pipeline_id);
        let policy = self.options().auto_shard_policy.unwrap_or_default();
        let whole = matches!(policy, AutoShardPolicy::Off | AutoShardPolicy::Blocks);
        if workers == 1 || whole || self.sharding().is_some_and(|done| !done.is_whole()) {
            return Ok(None);
        }
        let sources = Sources::of(self.node())?;
        if sources.by_file(policy, workers)? {
            return Ok(None);
        }
        let Ok(node) = same_order(self.node()) else { return Ok(None) };
        let files = sources.only_files.then_some(sources.files);
        let by = ShardedBy::Batches { files, why: sources.why(policy, workers) };
        let sharding = Sharding { worker, workers, by };
        Ok(Some((self.shared(node, &sharding), sharding)))
    }
}

/// What the sources of a pipeline are.
struct Sources {
    files: usize,
    /// The files of the source that has fewest.
    fewest: usize,
    only_files: bool,
    /// Whether all stages work row by row.
    by_row: bool,
}

impl Sources {
    fn of(node: &Node) -> Result<Self> {
        let mut found = Self { files: 0, fewest: usize::MAX, only_files: true, by_row: true };
        found.visit(node)?;
        Ok(found)
    }

    fn visit(&mut self, node: &Node) -> Result<()> {
        match (node.op().shardability(), node.op().files()) {
            (_, Some(files)) => {
                let count = files.count()?;
                self.files += count;
                self.fewest = self.fewest.min(count);
            }
            (Shardability::Source, None) => self.only_files = false,
            (Shardability::ByOrder, None) => self.by_row = false,
            (Shardability::ByRow, None) => {}
        }
        node.inputs().iter().try_for_each(|input| self.visit(input))
    }

    fn by_file(&self, policy: AutoShardPolicy, workers: usize) -> Result<bool> {
        match policy {
            AutoShardPolicy::Auto => Ok(self.only_files && self.by_row && self.fewest >= workers),
            AutoShardPolicy::File if !self.only_files => {
                Err(Error::new(Code::BadSetting, "the input cannot be shared by file")
                    .because("a source of it is not made of files")
                    .help("set the auto shard policy to AUTO, DATA or OFF"))
            }
            AutoShardPolicy::File if self.fewest < workers => {
                let what = format!("not enough files for {workers} workers");
                Err(Error::new(Code::BadSetting, what)
                    .because(format!("the input has {} files and the auto shard policy is FILE", self.fewest))
                    .help("set the auto shard policy to AUTO, DATA or OFF, or write the data into more files"))
            }
            AutoShardPolicy::File => Ok(true),
            AutoShardPolicy::Data | AutoShardPolicy::Blocks | AutoShardPolicy::Off => Ok(false),
        }
    }

    fn why(&self, policy: AutoShardPolicy, workers: usize) -> &'static str {
        match (policy, self.only_files) {
            (AutoShardPolicy::Data, true) => " and the policy is DATA",
            (AutoShardPolicy::Data, false) => "the policy is DATA",
            (_, false) => "the input is not made of files",
            (..) if self.fewest < workers => "",
            (..) => " but a stage depends on the order of all elements",
        }
    }
}

fn share_files(node: &Node, workers: usize, worker: usize, rotates: bool) -> Node {
    let share = |input: &Node| share_files(input, workers, worker, rotates);
    match node.op().files() {
        Some(files) => Node::new(Arc::new(files.share(workers, worker, rotates)), []),
        None => node.with_inputs(node.inputs().iter().map(share).collect()),
    }
}

/// The pipeline with `share` as near to its sources as the meaning allows.
fn share_elements(node: &Node, share: &Arc<dyn Op>) -> Result<Node> {
    let cut = |node: Node| Node::new(Arc::clone(share), [node]);
    match node.op().shardability() {
        Shardability::Source => Ok(cut(node.clone())),
        Shardability::ByOrder => Ok(cut(same_order(node)?)),
        Shardability::ByRow => {
            let inputs = node.inputs().iter().map(|input| share_elements(input, share));
            Ok(node.with_inputs(inputs.collect::<Result<_>>()?))
        }
    }
}

/// The pipeline with one order for all workers.
fn same_order(node: &Node) -> Result<Node> {
    if node.op().is_unseeded() {
        return Err(Error::new(Code::BadSetting, "workers would not agree on the order of the elements")
            .at(node.op().describe())
            .because("a shuffle without a seed comes before a stage that depends on the order of all elements")
            .help("give the shuffle a seed, or move it after take, skip, zip and enumerate"));
    }
    let inputs = node.inputs().iter().map(same_order).collect::<Result<Vec<_>>>()?;
    Ok(match node.op().ordered() {
        Some(op) => Node::new(op, inputs),
        None => node.with_inputs(inputs),
    })
}
