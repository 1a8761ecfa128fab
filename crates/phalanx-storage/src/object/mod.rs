//! Files in S3, Google Cloud Storage, Azure Blob Storage, or what speaks like them.
//!
//! Objects are whole or absent, so publishing needs no rename: small files are put in one request, large ones by a
//! multipart upload that becomes visible when it is completed. There are no directories and no appending.

mod bridge;
mod connect;
mod fault;
mod objects;
mod source;
mod upload;

pub(crate) use objects::Objects;
