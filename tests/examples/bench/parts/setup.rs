//! How many callers and clients carry most, on either side. Both sides of every comparison
//! then work with what suits them best.

use anyhow::Result;

use crate::bench::Bench;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    bench.load()?;
    bench.clients()?;
    Ok(())
}
