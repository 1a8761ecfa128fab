//! A task's connections to the parameter servers.

use super::{MortalTransport, Server};
use crate::identity;
use crate::job::Job;
use phalanx_base::{Code, Error, Result, TaskId};
use phalanx_cluster::Phase;
use phalanx_ps::Client;
use phalanx_ps::client::ClientOptions;
use phalanx_wire::bulk::{self, Transport};
use phalanx_wire::{Address, Token};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

impl Server {
    /// Opens connections to the parameter servers.
    pub(crate) fn client(&self) -> Result<Client> {
        self.client_with(self.client_options())
    }

    /// Opens connections that wait until `stop` returns `true`, even where this process was asked to stop: for the last save.
    pub(crate) fn client_until(&self, stop: impl Fn(&Job) -> bool + Send + Sync + 'static) -> Result<Client> {
        let mut options = self.client_options();
        let job = Arc::clone(&self.inner.job);
        options.stop = Arc::new(move || stop(&job));
        self.client_with(options)
    }

    fn client_with(&self, options: ClientOptions) -> Result<Client> {
        match self.inner.companion.as_ref().and_then(Self::in_process_transport) {
            Some(server) => Client::inside(server, options),
            None => {
                let (servers, token) = (self.servers()?, options.token.clone());
                let reach = |(task, address): &(TaskId, Address)| {
                    self.reach(address, format!("{task} at {address}"), token.clone())
                };
                Client::over(|| servers.iter().map(reach).collect(), options)
            }
        }
    }

    /// Returns a connection to another task. Call inside of an event loop.
    pub(crate) fn reach(&self, address: &Address, peer: String, token: Option<Token>) -> Box<dyn Transport> {
        Box::new(MortalTransport::new(bulk::reach(address, peer, token), self.kill_switch()))
    }

    /// Returns the transport to this task from within its process.
    fn in_process_transport(&self) -> Option<Box<dyn Transport>> {
        let listening = self.inner.listening.lock().unwrap_or_else(PoisonError::into_inner);
        let (service, runtime) = (self.inner.service.clone()?, listening.as_ref()?.runtime().clone());
        Some(bulk::in_process(service, runtime, format!("{} at {}", self.inner.task, self.inner.address)))
    }

    /// Returns the identity and the deadlines of this task for calls to parameter servers.
    pub(crate) fn client_options(&self) -> ClientOptions {
        let inner = &self.inner;
        let job = identity::digest(&inner.config.job_id());
        // In the task's scope, where the connections then log, too.
        let mut options = self.in_scope(|| ClientOptions::new(job, inner.task, inner.incarnation));
        options.token = inner.options.token.clone();
        // Longer than the chief waits for a lost server, so that the chief is the one to give up.
        options.patience = inner.options.server_grace + inner.options.lease + Duration::from_secs(10);
        options.acknowledged = inner.progress.acknowledged();
        let job = Arc::clone(&inner.job);
        options.stop = Arc::new(move || job.phase() == Phase::Over || job.interrupted().is_some());
        options
    }

    /// Returns the parameter servers and their addresses.
    pub(crate) fn servers(&self) -> Result<Vec<(TaskId, Address)>> {
        let servers = self.inner.config.ps_addresses();
        if servers.is_empty() {
            return Err(Error::new(Code::BadSetting, "the cluster has no parameter server")
                .at("the cluster")
                .help("add a ps job to the cluster, or unset TF_CONFIG to train in one process"));
        }
        Ok(servers)
    }
}
