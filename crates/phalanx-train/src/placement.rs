//! Where the shards of a model lie, as readers of a run see it.

use phalanx_base::{Shape, TaskId};
use phalanx_nn::ParameterRegistry;
use phalanx_ps::Layout;
use phalanx_run::{PlacedShard, PlacedVariable, Placement};

/// The placement of a layout over parameter servers; `holder` names the task that is the server with this index.
pub(crate) fn of_layout(layout: &Layout, holder: impl Fn(usize) -> TaskId) -> Placement {
    let mut variables: Vec<PlacedVariable> =
        layout.variables().iter().map(|spec| variable(&spec.name, &spec.shape)).collect();
    for shard in layout.shards() {
        let rows = shard.rows.start as u64..shard.rows.end as u64;
        let width = layout.variables()[shard.variable].shape.row_elements() as u64;
        variables[shard.variable].shards.push(PlacedShard::of_variable(holder(shard.server), rows, width));
    }
    let table = |(at, spec): (usize, &phalanx_ps::TableSpec)| {
        let servers = layout.pinned_table(at).map_or(0..layout.servers(), |server| server..server + 1);
        PlacedVariable {
            name: spec.name.clone(),
            table: true,
            shape: vec![spec.dim as u64],
            dtype: DTYPE.to_owned(),
            shards: servers.map(|server| PlacedShard::of_table(holder(server))).collect(),
        }
    };
    variables.extend(layout.tables().iter().enumerate().map(table));
    Placement::new(variables)
}

/// The placement of a model of which `task` holds all.
pub(crate) fn of_whole(registry: &ParameterRegistry, task: TaskId) -> Placement {
    let all = registry.parameters().iter().chain(registry.states());
    let whole = |parameter: &phalanx_nn::Parameter| {
        let (rows, width) = (parameter.shape.rows() as u64, parameter.shape.row_elements() as u64);
        let shards = vec![PlacedShard::of_variable(task, 0..rows, width)];
        PlacedVariable { shards, ..variable(&parameter.name, &parameter.shape) }
    };
    Placement::new(all.map(whole).collect())
}

/// The type of all variables.
const DTYPE: &str = "float32";

fn variable(name: &str, shape: &Shape) -> PlacedVariable {
    PlacedVariable {
        name: name.to_owned(),
        table: false,
        shape: shape.dims().iter().map(|&extent| extent as u64).collect(),
        dtype: DTYPE.to_owned(),
        shards: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_base::Role;
    use phalanx_optim::Sgd;
    use phalanx_ps::{Partitioner, TableSpec, VariableSpec};

    #[test]
    fn every_shard_names_its_server_its_rows_and_its_bytes() {
        let spec = |name: &str, dims: &[usize], partitioner| VariableSpec {
            name: name.to_owned(),
            shape: Shape::new(dims).unwrap(),
            optimizer: Sgd::new(0.1).into(),
            partitioner,
        };
        let variables =
            vec![spec("scale", &[], Partitioner::Whole), spec("kernel", &[9, 20], Partitioner::FixedShards(2))];
        let (initializer, optimizer) = (phalanx_base::RowInitializer::uniform(0.0, 1.0, 7), Sgd::new(0.1).into());
        let table = |name: &str| TableSpec { name: name.to_owned(), dim: 16, initializer, optimizer };
        let placement = phalanx_ps::Placement::round_robin().pin("users", 1);
        let layout = Layout::new(variables, vec![table("words"), table("users")], 2, placement).unwrap();
        let seen = of_layout(&layout, |server| TaskId::new(Role::Ps, server as u32));
        let lines: Vec<String> = seen
            .variables
            .iter()
            .flat_map(|one| one.shards.iter().map(move |shard| (one, shard)))
            .map(|(one, shard)| {
                format!("{} {:?} {} {:?} {:?}", one.name, one.shape, shard.task, shard.rows, shard.bytes)
            })
            .collect();
        let wanted = [
            "scale [] ps/0 Some((0, 1)) Some(4)",
            "kernel [9, 20] ps/1 Some((0, 5)) Some(400)",
            "kernel [9, 20] ps/0 Some((5, 9)) Some(320)",
            "words [16] ps/0 None None",
            "words [16] ps/1 None None",
            "users [16] ps/1 None None",
        ];
        assert_eq!(lines, wanted);
    }
}
