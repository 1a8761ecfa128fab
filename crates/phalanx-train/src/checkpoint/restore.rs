//! From the run directory into the servers.

use super::Catalog;
use phalanx_base::{Code, Error, Result};
use phalanx_ps::checkpoint::{Checkpoint, compare, restore_server};
use phalanx_ps::client::Remote;
use phalanx_ps::{Client, Layout};

/// Restores all servers from the newest checkpoint that can be used; answers its name and step, or `None` where there
/// is no checkpoint. A damaged one is said, and the one before it is used.
pub(crate) fn restore_job(
    client: &Client,
    remote: &Remote,
    catalog: &Catalog,
    say: &dyn Fn(&str),
) -> Result<Option<(String, u64)>> {
    newest(catalog, remote.layout(), say, |checkpoint| {
        for server in 0..client.servers() {
            restore_server(client, remote, server, checkpoint, false)?;
        }
        let step = checkpoint.global_step()?;
        client.set_global_step(step)?;
        Ok(step)
    })
}

/// Restores one server that returned into a job that goes on.
pub(crate) fn restore_one(
    client: &Client,
    remote: &Remote,
    server: usize,
    catalog: &Catalog,
    say: &dyn Fn(&str),
) -> Result<Option<(String, u64)>> {
    newest(catalog, remote.layout(), say, |checkpoint| {
        restore_server(client, remote, server, checkpoint, true)?;
        checkpoint.global_step()
    })
}

fn newest(
    catalog: &Catalog,
    layout: &Layout,
    say: &dyn Fn(&str),
    restore: impl Fn(&Checkpoint) -> Result<u64>,
) -> Result<Option<(String, u64)>> {
    let mut last: Option<Error> = None;
    for name in catalog.newest_first() {
        let restored = Checkpoint::open(catalog.dir(), &name).and_then(|checkpoint| {
            let difference = compare(checkpoint.index(), layout);
            difference.check(&name)?;
            if !difference.extra.is_empty() {
                say(&format!("{name} has {} tensors that the model has not", difference.extra.len()));
            }
            restore(&checkpoint)
        });
        match restored {
            Ok(step) => return Ok(Some((name, step))),
            Err(error) if matches!(error.code(), Code::CheckpointDamaged | Code::CheckpointMissing) => {
                say(&format!("{name} is passed over: {error}"));
                last = Some(error);
            }
            Err(error) => return Err(error.at(format!("{}/{name}", catalog.dir().location()))),
        }
    }
    last.map_or(Ok(None), |error| Err(catalog.nothing_usable(error)))
}
