//! Input.
