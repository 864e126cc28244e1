//! The whole-system tests, one module for each subject.

mod cli;
mod conformance;
mod examples;
mod faults;
mod harness;
mod postgres_store;
