//! The integration tests of `phalanx-data`, in one binary.

mod blocks;
mod census;
#[path = "../common/census.rs"]
mod census_data;
mod common;
mod csv_tensorflow;
#[cfg(feature = "parquet")]
mod dirty_rows;
mod orders;
mod pipelines;
mod position;
mod properties;
mod sharding;
