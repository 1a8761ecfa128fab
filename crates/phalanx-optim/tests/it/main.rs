//! Tests of the update rules through their public interface.

mod against_tensorflow;
mod properties;
mod schedules;
