//! The integration tests of `phalanx-formats`, in one binary.

mod bundle;
mod bundle_damage;
mod events;
mod records;
mod safetensors;
