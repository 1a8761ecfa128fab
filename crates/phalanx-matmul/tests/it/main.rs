//! Every kernel at every level of this CPU, compared with plain loops in double precision.

mod activation;
mod allocation;
mod conv;
mod dropout;
mod embedding;
mod interaction;
mod norm;
mod pool;
mod product;
mod reduce;
mod softmax;
mod support;
