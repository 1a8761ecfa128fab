//! What several test modules use.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx_base::Result;
use phalanx_cluster::TaskConfig;
use phalanx_nn::default_device;
use phalanx_train::{ServerOptions, Strategy};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Returns the options of a task in a test.
pub(crate) fn quiet() -> ServerOptions {
    let formation_deadline = Duration::from_secs(60);
    ServerOptions { formation_deadline, build: Some("test".into()), ..ServerOptions::default() }
}

/// Polls a condition that nothing signals.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the configuration of worker `index` of these addresses.
fn config(hosts: &[String], index: usize, model_dir: Option<&Path>) -> TaskConfig {
    let list = hosts.iter().map(|host| format!("{host:?}")).collect::<Vec<_>>().join(", ");
    let dir = model_dir.map_or_else(String::new, |dir| format!(r#""model_dir": {:?}, "#, dir.display().to_string()));
    let task = format!(r#""task": {{"type": "worker", "index": {index}}}"#);
    let text = format!(r#"{{{dir}"cluster": {{"worker": [{list}]}}, {task}}}"#);
    TaskConfig::from_tf_config(Some(&text)).unwrap()
}

/// Returns free addresses on loopback.
fn free_hosts(count: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| format!("127.0.0.1:{}", listener.local_addr().unwrap().port())).collect()
}

/// Runs the same in `count` mirrored workers, as threads over loopback. Returns their results by rank.
pub(crate) fn workers<T: Send>(count: usize, run: impl Fn(Strategy) -> Result<T> + Sync) -> Vec<Result<T>> {
    mirrored((count, None), &quiet(), run)
}

/// As [`workers`], with these options.
pub(crate) fn workers_with<T: Send>(
    count: usize,
    options: &ServerOptions,
    run: impl Fn(Strategy) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    mirrored((count, None), options, run)
}

/// As [`workers`], for a job with this run directory.
pub(crate) fn workers_in<T: Send>(
    model_dir: &Path,
    count: usize,
    run: impl Fn(Strategy) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    mirrored((count, Some(model_dir)), &quiet(), run)
}

fn mirrored<T: Send>(
    (count, model_dir): (usize, Option<&Path>),
    options: &ServerOptions,
    run: impl Fn(Strategy) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let hosts = free_hosts(count);
    std::thread::scope(|scope| {
        let (run, hosts) = (&run, &hosts);
        let strategy = move |index| Strategy::multi_worker_mirrored(&config(hosts, index, model_dir), options);
        let start = |index| scope.spawn(move || run(strategy(index)?));
        let threads: Vec<_> = (0..count).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    })
}

/// A model y = w·x + b.
#[derive(Module, Debug)]
pub(crate) struct Line {
    pub(crate) w: Param<Tensor<1>>,
    pub(crate) b: Param<Tensor<1>>,
}

impl Line {
    pub(crate) fn new(width: usize) -> Self {
        let zeros = |n: usize| Param::from_tensor(Tensor::zeros([n], &default_device()));
        Self { w: zeros(width), b: zeros(1) }
    }

    /// Returns the mean squared error to y = 2·x₀ + 1 on three points.
    pub(crate) fn loss(&self) -> Tensor<1> {
        let losses = [-1.0_f32, 0.0, 2.0].map(|x| {
            let y = self.w.val().slice(0..1) * x + self.b.val();
            (y - (2.0 * x + 1.0)).powf_scalar(2.0)
        });
        Tensor::cat(losses.to_vec(), 0).mean()
    }
}
