//! A job of one server and one trainer, whose model is hardly more than its table.

use super::Ids;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx::prelude::*;
use phalanx::{Code, Error, Result, TableId, logging};
use phalanx_ps::Store;
use std::sync::Arc;

/// A model must have a variable; this one asks nothing of it but to be there.
#[derive(Module, Debug)]
struct Sum {
    number: Param<Tensor<1>>,
}

/// Both in this process, over a real connection; the trainer computes with one thread.
pub(super) struct Job {
    cluster: MiniCluster,
    session: Session<Sum>,
    table: TableId,
}

impl Job {
    pub(super) fn start(table: TableSpec) -> Result<Self> {
        let cluster = logging::silence(|| MiniCluster::start(1, 0))?;
        let mut supervisor = Supervisor::new(&cluster.trainers()[0], table.optimizer);
        let table = supervisor.table(table)?;
        let number = Param::from_tensor(Tensor::zeros([1], &default_device()));
        let session = supervisor.prepare_or_wait_for_session(Sum { number })?;
        Ok(Self { cluster, session, table })
    }

    /// What the server holds.
    pub(super) fn store(&self) -> Result<Arc<Store>> {
        let store = self.cluster.servers()[0].store();
        store.cloned().ok_or_else(|| Error::new(Code::Internal, "a parameter server holds nothing"))
    }

    /// One step: a batch's ids are sorted out and sent with the gradients of the step before, which the server applies; it
    /// looks the rows up; the loss is their sum.
    pub(super) fn step(&mut self, ids: &Ids) -> Result<()> {
        let loss = |model: &Sum, rows: &[Rows]| rows[0].lookup().sum() + model.number.val().sum();
        let step = self.session.step_with_rows(&[(self.table, ids)], loss)?;
        step.map(drop).ok_or_else(|| Error::new(Code::JobFailed, "the job ended while it was measured"))
    }
}
