//! The dashboard over HTTP.

mod serving;
