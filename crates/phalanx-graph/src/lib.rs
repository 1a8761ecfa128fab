//! One graph of a model, and its step on the CPU.
//!
//! A [`Graph`] is plain data: operations with the shapes of their values, and the names of parameters and tables. What a model
//! is trained, evaluated, exported and shown with is read from it. An [`Executor`] computes it on slices: values in, gradients
//! out.
//!
//! | file | contents |
//! | --- | --- |
//! | `graph`, `shape` | [`Graph`]: nodes, inputs, parameters, tables |
//! | `ops` | the operations, one file each: shape rule, forward, backward |
//! | `op` | what an operation is |
//! | `plan`, `slots` | which nodes are computed when, and where their values lie |
//! | `executor`, `pass`, `feed` | a step |
//!
//! Invariants: the same feed gives the same bits with any number of threads; a [`Feed`] is checked completely before anything is
//! computed; nothing is allocated in a step except the gradients that leave it.

mod display;
mod executor;
mod feed;
mod foreign;
mod function;
mod graph;
mod image;
mod kernels;
mod op;
mod ops;
mod pass;
mod plan;
mod shape;
mod slots;

pub use executor::Executor;
pub use feed::{Fed, Feed, Ids};
pub use function::Function;
pub use graph::{Graph, Input, InputValues, Node, NodeId, Parameter, Table};
pub use image::Border;
pub use ops::{
    AbsoluteError, Activation, Add, Bag, BatchNorm, Concat, Conv2d, Cross, Dense, Dot, Dropout, Gather, GlobalMean,
    Huber, LayerNorm, LogCosh, LogPoisson, Merge, Op, PairProducts, PercentageError, Poisson, Pool2d, Reduce, Repeat,
    Reshape, Scale, SecondOrder, SigmoidCrossEntropy, Slice, SparseSoftmaxCrossEntropy, SquaredError, SquaredLogError,
    SquaredNorm, pairs,
};
pub use pass::{Gradients, Pass, Seed};
pub use phalanx_matmul::Precision;
pub use shape::{Leading, ValueShape};
