//! The dashboard over HTTP.

mod client;
mod folder;
mod serving;
