//! Checks of the source tree and the guide. They link neither Burn nor gRPC, so they build in seconds.

mod api;
mod documents;
mod guide;
mod habits;
mod layers;
mod names;
