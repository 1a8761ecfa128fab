//! The memory that the servers of a launched job keep their logs in.

use crate::Launch;
use phalanx_base::{Code, Result, Role};
use phalanx_run::new_token;
use phalanx_wal::job_dir::default_base;
use phalanx_wal::{DURABILITY_VAR, Durability, JobDir, WAL_DIR_VAR};
use std::path::PathBuf;

/// What the tasks of a job are told about durability.
pub(crate) struct Logs {
    chosen: Option<Durability>,
    /// The folder for the logs, which goes with the job.
    folder: Option<JobDir>,
}

impl Logs {
    /// Makes the folder for a job that has servers here, unless it wants no logs.
    ///
    /// # Errors
    /// When it requires them and there is no place for them.
    pub(crate) fn prepare(launch: &Launch) -> Result<Self> {
        let chosen = launch.durability.map_or_else(Durability::from_env, |chosen| Ok(Some(chosen)))?;
        let has_servers = launch.ssh.is_none() && launch.here.iter().any(|placed| placed.task.role == Role::Ps);
        if !has_servers || chosen == Some(Durability::Checkpoint) {
            return Ok(Self { chosen, folder: None });
        }
        let base = std::env::var_os(WAL_DIR_VAR).map_or_else(|| default_base().to_owned(), PathBuf::from);
        match JobDir::create(&base, &new_token()?) {
            Ok(folder) => Ok(Self { chosen, folder: Some(folder) }),
            Err(error) if chosen == Some(Durability::Log) => {
                Err(phalanx_base::Error::new(Code::LogNoRoom, "there is no place for write-ahead logs").because(error))
            }
            // The servers then have none, as on a machine without enough memory.
            Err(_) => Ok(Self { chosen, folder: None }),
        }
    }

    /// Returns the environment variables of a task.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let chosen = self.chosen.map(|chosen| (DURABILITY_VAR.to_owned(), chosen.to_string()));
        // Empty rather than inherited: the launcher's own is the place for all jobs.
        let folder = self.folder.as_ref().map_or_else(String::new, |folder| folder.path().display().to_string());
        chosen.into_iter().chain([(WAL_DIR_VAR.to_owned(), folder)]).collect()
    }
}
