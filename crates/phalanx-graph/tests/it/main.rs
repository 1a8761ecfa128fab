//! Tests of the graph from outside.

mod graphs;
mod passes;
mod slopes;
