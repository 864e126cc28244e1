//! The whole-system tests, one module for each subject.

mod faults;
mod harness;
