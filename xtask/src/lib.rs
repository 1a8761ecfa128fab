//! The guide as data, for the tests that check it and run its blocks.

pub mod pages;
