//! Reprise's messages and services, compiled from `proto/reprise/v1/*.proto`. The
//! documentation of each message and call is in those files and is repeated here.

pub mod codec;

/// Version 1 of the API.
pub mod v1 {
    #![allow(missing_docs, clippy::all)]
    tonic::include_proto!("reprise.v1");

    /// The domain of every `google.rpc.ErrorInfo` that Reprise sends.
    pub const ERROR_DOMAIN: &str = "reprise";
}

/// The encoded `FileDescriptorSet` of [`v1`], for server reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
