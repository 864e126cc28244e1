//! The program `reprise`: reads the command line, starts logging, carries it out.

use std::process::ExitCode;

/// Much of a call's time goes into small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<ExitCode> {
    let work = reprise::cli::parse(std::env::args_os());
    let (format, level) = work.log();
    let _logging = reprise::telemetry::start(format, level)?;
    Ok(reprise::cli::run(work))
}
