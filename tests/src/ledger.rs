//! A model whose every gradient is exactly one: with a learning rate of one, every number is minus the count of the
//! updates it got.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use phalanx::prelude::*;
use phalanx::{Result, Shape};
use phalanx_base::SplitMix;
use phalanx_ps::client::{RemoteModel, RowSet, UpdateMode};
use phalanx_ps::plan::server_of_row;
use phalanx_ps::{Client, Layout, VariableSpec};
use phalanx_train::Session;

const SHAPES: [(&str, &[usize]); 4] = [("wide", &[7, 3]), ("long", &[11]), ("one", &[1]), ("tall", &[5, 2])];
const DIM: usize = 2;
/// Rows of the first table: every step touches all of them.
const ALL: [i64; 8] = [0, 1, 2, -3, 40, 55, 1 << 40, i64::MIN];
/// Rows of the second table on each server, and how many of them a step touches.
const POOL: usize = 5;
/// Rows a step touches on each server.
const TOUCHED: usize = 2;

/// Several variables that start at zero.
#[derive(Module, Debug)]
pub struct Ledger {
    wide: Param<Tensor<2>>,
    long: Param<Tensor<1>>,
    one: Param<Tensor<1>>,
    tall: Param<Tensor<2>>,
}

impl Default for Ledger {
    fn default() -> Self {
        let device = default_device();
        Self {
            wide: Param::from_tensor(Tensor::zeros([7, 3], &device)),
            long: Param::from_tensor(Tensor::zeros([11], &device)),
            one: Param::from_tensor(Tensor::zeros([1], &device)),
            tall: Param::from_tensor(Tensor::zeros([5, 2], &device)),
        }
    }
}

impl Ledger {
    /// The sum of all parameters.
    #[must_use]
    pub fn sum(&self) -> Tensor<1> {
        self.wide.val().sum() + self.long.val().sum() + self.one.val().sum() + self.tall.val().sum()
    }
}

fn optimizer() -> Optimizer {
    Sgd::new(1.0).into()
}

/// The two tables.
#[must_use]
pub fn tables() -> Vec<TableSpec> {
    let table = |name: &str| {
        let (name, initializer, optimizer) = (name.to_owned(), RowInitializer::constant(0.0), optimizer());
        TableSpec { name, dim: DIM, initializer, optimizer }
    };
    vec![table("all"), table("some")]
}

/// A supervisor for the ledger.
#[must_use]
pub fn supervisor(server: &Server, partitioner: Partitioner) -> Supervisor {
    let mut supervisor = Supervisor::new(server, optimizer()).partitioner(partitioner);
    for table in tables() {
        supervisor.table(table).expect("the names differ");
    }
    supervisor
}

/// The second table's ids on each server.
#[must_use]
pub fn pools(servers: usize) -> Vec<Vec<i64>> {
    let of = |server| (0..).filter(move |&id| server_of_row(id, servers) == server).take(POOL).collect();
    (0..servers).map(of).collect()
}

/// Rows of the second table, as many on each server.
fn touched(servers: usize, random: &mut SplitMix) -> Vec<i64> {
    let mut some = Vec::new();
    for mut pool in pools(servers) {
        for _ in 0..TOUCHED {
            some.push(pool.swap_remove(random.below(pool.len())));
        }
    }
    some
}

/// One step that touches everything of the first table, and the same number of rows on each server of the second.
///
/// # Errors
/// As [`Session::step`].
pub fn step(session: &mut Session<Ledger>, servers: usize, random: &mut SplitMix) -> Result<Option<Step>> {
    let some = touched(servers, random);
    // What the next step touches, for those that overlap; now and then nothing is said, or something else.
    let mut ahead = random.clone();
    let next = touched(servers, &mut ahead);
    let (of_all, of_some) = (session.table("all")?, session.table("some")?);
    match ahead.below(4) {
        0 => {}
        1 => session.announce(&[(of_all, &ALL)])?,
        _ => session.announce(&[(of_all, &ALL), (of_some, &next)])?,
    }
    session.step_with_rows(&[(of_all, &ALL), (of_some, &some)], |model, rows| {
        rows.iter().fold(model.sum(), |sum, rows| sum + rows.lookup().sum())
    })
}

/// What the servers hold, read with connections of its own.
pub struct Held {
    /// The committed steps.
    pub global_step: u64,
    /// Each variable's name and numbers.
    pub variables: Vec<(String, Vec<f32>)>,
    /// The first table's rows.
    pub all: Vec<f32>,
    /// For each server, the sum of its rows of the second table.
    pub some: Vec<f32>,
}

/// Reads everything. `rounds` is true in synchronous mode.
///
/// # Errors
/// When a server does not answer.
pub fn read(client: &Client, partitioner: Partitioner, rounds: bool) -> Result<Held> {
    let servers = client.servers();
    let variable = |&(name, dims): &(&str, &[usize])| {
        let (name, shape, optimizer) = (name.to_owned(), Shape::new(dims)?, optimizer());
        Ok(VariableSpec { name, shape, optimizer, partitioner })
    };
    let variables = SHAPES.iter().map(variable).collect::<Result<Vec<_>>>()?;
    let layout = Layout::new(variables, tables(), servers, Placement::default())?;
    let mut remote = RemoteModel::find(client, layout)?;
    let closed = client.global_step()?;
    let mode = if rounds { UpdateMode::Synchronous { round: closed, closed } } else { UpdateMode::Asynchronous };
    let pools = pools(servers);
    let mut sets = vec![RowSet::new(0, &ALL, servers)];
    sets.extend(pools.iter().map(|pool| RowSet::new(1, pool, servers)));
    let pulled = client.exchange(&mut remote, None, &sets, mode)?;
    let names = SHAPES.iter().map(|(name, _)| (*name).to_owned());
    let variables =
        names.zip(pulled.dense.iter().map(|values| values.as_deref().unwrap_or_default().to_vec())).collect();
    let mut rows = pulled.rows.into_iter();
    let all = rows.next().unwrap_or_default();
    Ok(Held { global_step: pulled.global_step, variables, all, some: rows.map(|rows| rows.iter().sum()).collect() })
}

impl Held {
    /// Whether every number is minus the count of steps; else which is not.
    ///
    /// # Errors
    /// Names the first number that is wrong.
    pub fn check(&self, sums: bool) -> Result<(), String> {
        let wanted = -(self.global_step as f32);
        for (name, numbers) in &self.variables {
            let elements: usize = SHAPES.iter().filter(|(n, _)| n == name).flat_map(|(_, dims)| dims.iter()).product();
            if numbers.len() != elements || numbers.iter().any(|&x| x != wanted) {
                return Err(format!("{name} is {numbers:?} after {} steps", self.global_step));
            }
        }
        if self.all.len() != DIM * ALL.len() || self.all.iter().any(|&x| x != wanted) {
            return Err(format!("the rows are {:?} after {} steps", self.all, self.global_step));
        }
        let wanted = wanted * (DIM * TOUCHED) as f32;
        if sums && self.some.iter().any(|&sum| sum != wanted) {
            return Err(format!("the rows' sums are {:?}, not {wanted}", self.some));
        }
        Ok(())
    }
}
