//! Feature columns and preprocessing layers against TensorFlow.

mod census;
mod columns;
mod common;
mod derived;
mod layers;
mod lookups;
mod plans;
