//! The whole-system tests, one module for each subject.

mod conformance;
mod faults;
mod harness;
