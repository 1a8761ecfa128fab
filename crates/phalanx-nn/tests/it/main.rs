//! Layers, models and metrics against Keras 2.15.

mod layers;
mod layers_fixture;
mod metrics;
mod metrics_fixture;
mod tables;
