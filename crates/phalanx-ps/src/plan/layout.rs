//! The layout of a model over servers.

use super::{ItemKind, ItemSpec, Placement, TableSpec, VariableSpec, split};
use phalanx_base::{Code, Error, Result, mix};
use std::collections::HashSet;
use std::ops::Range;

/// A shard: the part of a variable that one server holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The index of its variable in the layout.
    pub variable: usize,
    /// Its rows of the variable.
    pub rows: Range<usize>,
    /// Its elements, counted through the whole variable.
    pub elements: Range<usize>,
    /// The server that holds it.
    pub server: usize,
}

/// The server of every shard. Tables are spread over all servers by id, unless they are pinned to one.
#[derive(Clone, Debug)]
pub struct Layout {
    servers: usize,
    variables: Vec<VariableSpec>,
    tables: Vec<TableSpec>,
    shards: Vec<Shard>,
    /// The server that holds all rows of each table; `None` where they are spread by id.
    pinned_tables: Vec<Option<usize>>,
    /// Indexes of the variables whose learning rate no update changes.
    keep_rate: HashSet<usize>,
    /// Indexes of the tables that are updated as variables are.
    as_variables: HashSet<usize>,
}

impl Layout {
    /// Lays `variables` and `tables` out over `servers`.
    ///
    /// # Errors
    /// When there is no server, two things have one name, a setting is out of range, or `placement` pins what does not exist,
    /// or to a server that does not exist.
    pub fn new(
        variables: Vec<VariableSpec>,
        tables: Vec<TableSpec>,
        servers: usize,
        placement: Placement,
    ) -> Result<Self> {
        if servers == 0 {
            return Err(Error::new(Code::BadSetting, "the cluster has no parameter server")
                .help("add a ps job to the cluster, or train in one process"));
        }
        let names = variables.iter().map(|spec| &spec.name).chain(tables.iter().map(|spec| &spec.name));
        let names: Vec<&str> = names.map(String::as_str).collect();
        let mut known = HashSet::new();
        for name in &names {
            if !known.insert(name) {
                return Err(Error::new(Code::VariableConflict, format!("two variables are called {name:?}"))
                    .help("give each its own name"));
            }
        }
        placement.check(&names, servers)?;
        for optimizer in variables.iter().map(|spec| &spec.optimizer).chain(tables.iter().map(|spec| &spec.optimizer)) {
            optimizer.validate()?;
        }
        let mut shards = Vec::new();
        for (variable, spec) in variables.iter().enumerate() {
            let width = spec.shape.row_elements();
            for rows in split(spec.shape.rows(), spec.partitioner.shards(&spec.shape)?) {
                let elements = rows.start * width..rows.end * width;
                shards.push(Shard { variable, rows, elements, server: 0 });
            }
        }
        let size = |shard: &Shard| (variables[shard.variable].name.as_str(), 4 * shard.elements.len());
        let sizes: Vec<(&str, usize)> = shards.iter().map(size).collect();
        for (shard, server) in shards.iter_mut().zip(placement.place(&sizes, servers)) {
            shard.server = server;
        }
        let pinned_tables = tables.iter().map(|table| placement.pinned(&table.name)).collect();
        let (keep_rate, as_variables) = (HashSet::new(), HashSet::new());
        Ok(Self { servers, variables, tables, shards, pinned_tables, keep_rate, as_variables })
    }

    /// Returns the number of servers.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// Makes the variable keep the learning rate of its optimizer where an update has another.
    pub fn keep_rate_of(&mut self, name: &str) {
        self.keep_rate.extend(self.variables.iter().position(|spec| spec.name == name));
    }

    /// Returns whether no update changes the learning rate of the variable with this index.
    #[must_use]
    pub fn keeps_rate(&self, variable: usize) -> bool {
        self.keep_rate.contains(&variable)
    }

    /// Updates a table as variables are: it takes the learning rate of an update, and in synchronous mode the mean over all
    /// updates of a round. Otherwise it keeps the rate of its optimizer, and averages each row over the updates that have it.
    pub fn update_as_variable(&mut self, table: &str) {
        self.as_variables.extend(self.tables.iter().position(|spec| spec.name == table));
    }

    /// Returns the indexes of the tables that are updated as variables are.
    pub fn as_variables(&self) -> impl Iterator<Item = usize> {
        self.as_variables.iter().copied()
    }

    /// Returns the variables, in the order in which they were given.
    #[must_use]
    pub fn variables(&self) -> &[VariableSpec] {
        &self.variables
    }

    /// Returns the tables, in the order in which they were given.
    #[must_use]
    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Returns the server that holds all rows of the table with this index; `None` if they are spread by id.
    #[must_use]
    pub fn pinned_table(&self, table: usize) -> Option<usize> {
        self.pinned_tables[table]
    }

    /// Returns the shards of all variables, ordered by variable and row.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Returns the positions in [`Self::shards`] of the shards on `server`.
    pub fn shards_on(&self, server: usize) -> impl Iterator<Item = usize> {
        self.shards.iter().enumerate().filter(move |(_, shard)| shard.server == server).map(|(i, _)| i)
    }

    /// Returns what `server` creates: its shards in order, then every table.
    #[must_use]
    pub fn specs_for(&self, server: usize) -> Vec<ItemSpec> {
        let shards = self.shards_on(server).map(|i| {
            let shard = &self.shards[i];
            let VariableSpec { name, shape, optimizer, .. } = &self.variables[shard.variable];
            let kind = ItemKind::Dense { shape: shape.clone(), rows: shard.rows.clone() };
            ItemSpec { name: name.clone(), optimizer: *optimizer, kind }
        });
        let tables = self.tables.iter().zip(&self.pinned_tables);
        let tables = tables.map(|(&TableSpec { ref name, dim, initializer, optimizer }, &pinned)| ItemSpec {
            name: name.clone(),
            optimizer,
            kind: ItemKind::Table { dim, initializer, pinned },
        });
        shards.chain(tables).collect()
    }
}

/// Returns the server that holds a row of a table that is not pinned. The id is mixed first: ids often have a pattern, such
/// as all being even.
#[must_use]
pub fn server_of_row(id: i64, servers: usize) -> usize {
    (mix(id as u64) % servers as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Partitioner;
    use phalanx_base::Shape;
    use phalanx_optim::Sgd;

    fn variable(name: &str, dims: &[usize], partitioner: Partitioner) -> VariableSpec {
        let shape = Shape::new(dims).unwrap();
        VariableSpec { name: name.into(), shape, optimizer: Sgd::new(0.1).into(), partitioner }
    }

    #[test]
    fn nine_rows_in_two_shards_are_five_and_four_on_two_servers() {
        let variables = vec![
            variable("bias", &[20], Partitioner::Whole),
            variable("kernel", &[9, 20], Partitioner::FixedShards(2)),
        ];
        let layout = Layout::new(variables, vec![], 2, Placement::round_robin()).unwrap();
        let seen: Vec<_> = layout.shards().iter().map(|s| (s.variable, s.rows.clone(), s.server)).collect();
        assert_eq!(seen, [(0, 0..20, 0), (1, 0..5, 1), (1, 5..9, 0)]);
        assert_eq!(layout.shards()[2].elements, 100..180);
    }

    #[test]
    fn all_shards_of_a_pinned_variable_and_all_rows_of_a_pinned_table_are_on_its_server() {
        let variables =
            vec![variable("bias", &[20], Partitioner::Whole), variable("emb", &[9, 2], Partitioner::FixedShards(3))];
        let table = |name: &str| TableSpec {
            name: name.into(),
            dim: 2,
            initializer: crate::plan::RowInitializer::constant(0.0),
            optimizer: Sgd::new(0.1).into(),
        };
        let placement = Placement::round_robin().pin("emb", 2).pin("us*", 1);
        let layout = Layout::new(variables, vec![table("items"), table("users")], 3, placement).unwrap();
        assert_eq!(layout.shards().iter().map(|shard| shard.server).collect::<Vec<_>>(), [0, 2, 2, 2]);
        assert_eq!((layout.pinned_table(0), layout.pinned_table(1)), (None, Some(1)));
        let ItemKind::Table { pinned, .. } = layout.specs_for(0)[2].kind else { panic!("a table") };
        assert_eq!(pinned, Some(1), "every server knows where the rows are");
    }

    #[test]
    fn two_things_cannot_have_one_name() {
        let variables = vec![variable("w", &[1], Partitioner::Whole), variable("w", &[2], Partitioner::Whole)];
        let error = Layout::new(variables, vec![], 1, Placement::round_robin()).unwrap_err();
        assert_eq!(error.code(), Code::VariableConflict);
    }

    #[test]
    fn rows_spread_over_servers_even_when_ids_have_a_pattern() {
        let mut counts = [0; 4];
        for id in 0..4000 {
            counts[server_of_row(4 * id, 4)] += 1;
        }
        assert!(counts.iter().all(|&n| n > 850), "{counts:?}");
    }
}
