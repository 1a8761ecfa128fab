//! A graph as a table.

use crate::Op;
use crate::graph::{Graph, Node};
use std::fmt;

impl Graph {
    /// Returns what a node is called in a table: an operation, or the name of what it reads.
    fn label(&self, node: &Node) -> String {
        match &node.op {
            Op::Input(at) => format!("Input {}", self.inputs[*at].name),
            Op::Parameter(at) => format!("Parameter {}", self.parameters[*at].name),
            Op::Rows(at) => format!("Rows {}", self.tables[*at].name),
            Op::Activation(own) => format!("Activation {}", own.function.name()),
            Op::Dense(own) if own.relu => "Dense relu".to_owned(),
            other => other.name().to_owned(),
        }
    }
}

/// A line for each node: its number, what it is, what it takes, and the shape of its value.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<[String; 4]> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(at, node)| {
                let inputs: Vec<String> = node.inputs.iter().map(|input| input.0.to_string()).collect();
                [at.to_string(), self.label(node), inputs.join(" "), node.shape.to_string()]
            })
            .collect();
        let wide = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let (number, label, inputs) = (wide(0), wide(1), wide(2));
        for [at, what, takes, shape] in &lines {
            writeln!(f, "{at:>number$}  {what:label$}  {takes:inputs$}  {shape}")?;
        }
        Ok(())
    }
}
