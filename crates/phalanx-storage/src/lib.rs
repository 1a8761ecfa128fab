//! Where a run directory is kept.
