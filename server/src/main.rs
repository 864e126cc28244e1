//! The program `reprise`: reads the command line, starts logging, carries the command
//! out.

use std::process::ExitCode;

fn main() -> anyhow::Result<ExitCode> {
    let cli = reprise::cli::parse(std::env::args_os());
    let (format, level) = cli.log();
    reprise::telemetry::start(format, &level)?;
    Ok(reprise::cli::run(cli))
}
