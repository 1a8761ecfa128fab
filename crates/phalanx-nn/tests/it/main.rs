//! Layers, models and metrics against Keras 2.15, and graphs against Burn.

mod graph;
mod layers;
mod layers_fixture;
mod metrics;
mod metrics_fixture;
mod tables;
