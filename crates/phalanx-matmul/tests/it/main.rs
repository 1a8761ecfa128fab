//! Every kernel at every level of this CPU, compared with plain loops in double precision.

mod product;
mod support;
