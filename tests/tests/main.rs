//! The whole-system tests, one module for each subject.

mod harness;
mod postgres_store;
