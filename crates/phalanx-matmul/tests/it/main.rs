//! Every kernel at every level of this CPU, compared with plain loops in double precision.

mod conv;
mod product;
mod support;
