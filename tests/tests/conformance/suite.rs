//! The suite itself: large enough, and the same on every backend.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result};

use super::backend::Backend;

/// What the contract's tables and sentences need at least.
const CASES_MIN: usize = 480;

/// The cases of each backend, as the test program itself lists its tests.
fn cases() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let program = std::env::current_exe()?;
    let listed = Command::new(program)
        .args(["conformance::", "--list", "--format", "terse"])
        .output()?;
    let listed = String::from_utf8(listed.stdout).context("test names")?;
    let mut cases: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for line in listed.lines() {
        let name = line.trim_end_matches(": test");
        if let ["conformance", module, backend, case] = name.split("::").collect::<Vec<_>>()[..] {
            let case = format!("{module}::{case}");
            cases.entry(backend.to_owned()).or_default().insert(case);
        }
    }
    Ok(cases)
}

#[test]
fn every_backend_runs_the_same_cases() -> Result<()> {
    let cases = cases()?;
    let backends: Vec<_> = cases.keys().map(String::as_str).collect();
    let mut expected = Backend::ALL.map(Backend::module);
    expected.sort_unstable();
    assert_eq!(backends, expected);
    let first = &cases[backends[0]];
    for backend in &backends {
        assert_eq!(&cases[*backend], first, "{backend}");
    }
    assert!(first.len() >= CASES_MIN, "{} cases", first.len());
    Ok(())
}
