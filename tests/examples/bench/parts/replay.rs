//! Replays of completed keys, against SELECT by primary key: as many keys, and each side with
//! the callers that carry most of its lifecycles.

use anyhow::Result;

use crate::bench::Bench;
use crate::direct::Work;
use crate::generator::Load;
use crate::sql::Session;

pub(super) fn run(bench: &mut Bench) -> Result<()> {
    let keys: u64 = if bench.options.quick { 30_000 } else { 100_000 };
    let clients = bench.clients()?;
    let load = Load {
        mix: "replay",
        more: vec!["--keys".to_owned(), keys.to_string()],
        ..bench.load()?
    };
    let (service, direct) = (bench.service()?, bench.direct()?);
    let session = Session::open(direct.url())?;
    session.run(&bench.names.fill(keys))?;
    session.run("vacuum (freeze, analyze) direct")?;
    let (mut ours, mut theirs, mut server_side) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.options.alternations {
        let measured = bench.directly(&direct, Work::Select { keys }, clients)?;
        theirs.push(measured.per_second);
        let measured = service.measure(&bench.postgres, &load)?;
        ours.push(measured.generated.per_second()?);
        server_side.push(
            measured
                .generated
                .per_second_server_side(crate::machine::cores())?,
        );
        bench.progress.say(&format!(
            "SELECT {:.0}/s, replays {:.0}/s",
            theirs.last().copied().unwrap_or_default(),
            ours.last().copied().unwrap_or_default(),
        ));
    }
    let ratios = ours.iter().zip(&theirs).map(|(ours, it)| ours / it);
    bench.report.figure("replay_ratio", ratios.collect())?;
    bench.report.raw("replays_per_s", &ours)?;
    bench
        .report
        .raw("replays_per_s_server_side", &server_side)?;
    bench.report.raw("direct_selects_per_s", &theirs)?;
    bench.report.detail("replay_keys", keys.into());
    Ok(())
}
