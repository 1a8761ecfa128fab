//! Workers as threads, each with a strategy of its own, over loopback.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use phalanx_base::Result;
use phalanx_cluster::TaskConfig;
use phalanx_train::{ServerOptions, Strategy};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// The configuration of worker `index` where there are these addresses.
pub fn config(hosts: &[String], index: usize) -> TaskConfig {
    let list = hosts.iter().map(|host| format!("{host:?}")).collect::<Vec<_>>().join(", ");
    let text = format!(r#"{{"cluster": {{"worker": [{list}]}}, "task": {{"type": "worker", "index": {index}}}}}"#);
    TaskConfig::from_tf_config(Some(&text)).unwrap()
}

pub fn quiet() -> ServerOptions {
    ServerOptions {
        say: Arc::new(|_| {}),
        formation_deadline: Duration::from_secs(30),
        build: Some("test".into()),
        ..ServerOptions::default()
    }
}

/// Addresses on loopback that are free now.
pub fn free_hosts(count: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| format!("127.0.0.1:{}", listener.local_addr().unwrap().port())).collect()
}

/// Runs the same in `count` workers at once; what each returns, by rank.
pub fn workers<T: Send>(count: usize, run: impl Fn(Strategy) -> Result<T> + Sync) -> Vec<Result<T>> {
    let hosts = free_hosts(count);
    std::thread::scope(|scope| {
        let (run, hosts) = (&run, &hosts);
        let start = |index| scope.spawn(move || run(Strategy::multi_worker_mirrored(&config(hosts, index), &quiet())?));
        let threads: Vec<_> = (0..count).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    })
}
