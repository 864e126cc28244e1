//! The three scenes of the demo.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reprise_client::proto::{
    Content, LookupRequest, PendingReason, content::Body, lookup_request::Target,
};
use reprise_client::{Ending, Found, Reading};
use tokio::task::JoinSet;

use super::caller::{self, CHARGED};
use super::{Intent, Stage, claim, euros, heading, say, step, worker};
use crate::cli::exit::Error;
use crate::cli::{answer, duration, wire_duration};

const CALLERS: usize = 50;
/// How long a caller of the rush waits for the one that charges.
const WAIT: Duration = Duration::from_secs(5);
/// The lease of the caller that is killed.
const LEASE: Duration = Duration::from_secs(1);
/// Until then the record must have lapsed.
const LAPSE_LIMIT: Duration = Duration::from_secs(10);

/// Many callers, one key, one moment.
pub(super) async fn rush(stage: &Stage) -> Result<(), Error> {
    let intent = &stage.rushed;
    let amount = euros(intent.cents);
    heading(&format!(
        "1  {CALLERS} callers charge {amount} at the same moment, with one key"
    ))?;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, intent) = (stage.client.clone(), intent.clone());
        let provider = stage.provider.clone();
        callers.spawn(async move {
            loop {
                let ran = caller::charge(&client, &intent, &provider, WAIT).await?;
                if !matches!(ran.ending, Ending::Processing(_)) {
                    return Ok::<_, Error>(ran);
                }
            }
        });
    }
    let (mut charged, mut replayed) = (0, 0);
    let mut receipts = HashSet::new();
    while let Some(ran) = callers.join_next().await {
        let ran = ran.map_err(|error| Error::Other(format!("a caller of the demo: {error}")))??;
        let Ending::Completed(result) = &ran.ending else {
            return claim(false, format!("a caller was answered {:?}", ran.ending));
        };
        receipts.insert(body(result));
        match ran.replayed {
            None => charged += 1,
            Some(_) => replayed += 1,
        }
    }
    claim(charged == 1, format!("{charged} callers charged"))?;
    claim(receipts.len() == 1, "the callers got different receipts")?;
    step(
        &format!("{charged} caller"),
        "acquired the key and charged the card",
    )?;
    step(
        &format!("{replayed} callers"),
        "waited and got the same receipt, byte for byte:",
    )?;
    for receipt in &receipts {
        step("", &String::from_utf8_lossy(receipt))?;
    }
    say("\n")
}

/// The same key with something else.
pub(super) async fn changed_amount(stage: &Stage) -> Result<(), Error> {
    let intent = Intent {
        cents: stage.rushed.cents * 10,
        ..stage.rushed.clone()
    };
    let amount = euros(intent.cents);
    heading(&format!("2  The same key with another amount, {amount}"))?;
    let ran = caller::charge(&stage.client, &intent, &stage.provider, Duration::ZERO).await?;
    let Ending::Mismatch(mismatch) = &ran.ending else {
        return claim(false, format!("it was answered {:?}", ran.ending));
    };
    let reason = answer::word(mismatch.reason().as_str_name(), "MISMATCH_REASON_");
    step(
        "1 caller",
        &format!("was refused: {reason}. Nothing was charged"),
    )?;
    say("\n")
}

/// A caller dies between the effect and its report.
pub(super) async fn killed_caller(stage: &Stage) -> Result<(), Error> {
    let intent = &stage.killed;
    let amount = euros(intent.cents);
    heading(&format!(
        "3  A caller charges {amount} and is killed before it can report"
    ))?;
    let (pid, killed) = charge_and_kill(stage).await?;
    step(
        "a process",
        "acquired the key, said that it is sending, and charged",
    )?;
    step(
        "",
        &format!("is killed before it can report (kill -9 {pid})"),
    )?;
    let found = lapsed(stage).await?;
    let reason = pending_reason(&found)?;
    let after = duration::show(killed.elapsed());
    step(
        &format!("{after} later"),
        "its lease is over, and the record is PENDING:",
    )?;
    step("", &format!("{reason}, nobody may charge again"))?;

    let ran = caller::charge(&stage.client, intent, &stage.provider, Duration::ZERO).await?;
    let refused = matches!(ran.ending, Ending::Pending(_));
    claim(refused, format!("a retry was answered {:?}", ran.ending))?;
    step(
        "a retry",
        "is not let through: the money may be gone already",
    )?;

    let receipt = worker::find_out(stage).await?;
    let ran = caller::charge(&stage.client, intent, &stage.provider, Duration::ZERO).await?;
    let Ending::Completed(result) = &ran.ending else {
        return claim(false, format!("a retry was answered {:?}", ran.ending));
    };
    claim(ran.replayed.is_some(), "a retry charged again")?;
    claim(
        *result == receipt,
        "the replay differs from what was resolved",
    )?;
    step("a retry", "gets the receipt, byte for byte:")?;
    step("", &String::from_utf8_lossy(&body(result)))?;
    say("\n")
}

/// Starts a caller as a process, waits until it has charged, and kills it.
async fn charge_and_kill(stage: &Stage) -> Result<(u32, Instant), Error> {
    let failed = || Error::io("the demo's second process");
    let program = std::env::current_exe().map_err(failed())?;
    let intent = &stage.killed;
    let mut child = Command::new(program)
        .args(["demo-caller", "--server", &stage.server])
        .args(["--tenant", &intent.tenant, "--order", &intent.order])
        .args(["--cents", &intent.cents.to_string()])
        .args(["--lease", &format!("{}ms", LEASE.as_millis())])
        .arg("--ledger")
        .arg(stage.provider.ledger())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed())?;
    let pid = child.id();
    let killed = tokio::task::spawn_blocking(move || {
        let line = first_line(&mut child);
        let killed = Instant::now();
        // SIGKILL: the process gets no chance to report.
        child.kill()?;
        child.wait()?;
        Ok((line?, killed))
    });
    let killed = killed
        .await
        .map_err(|error| failed()(std::io::Error::other(error)))?;
    let (line, killed) = killed.map_err(failed())?;
    claim(line == CHARGED, "the second process did not charge")?;
    Ok((pid, killed))
}

fn first_line(child: &mut Child) -> std::io::Result<String> {
    let stdout = child.stdout.take();
    let stdout = stdout.ok_or_else(|| std::io::Error::other("it has no standard output"))?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Waits until nobody holds the record.
async fn lapsed(stage: &Stage) -> Result<Found, Error> {
    let end = Instant::now() + LAPSE_LIMIT;
    loop {
        let request = LookupRequest {
            target: Some(Target::Record(stage.killed.reserve().record)),
            wait: Some(wire_duration(WAIT)),
            ..LookupRequest::default()
        };
        let found = stage.client.lookup(request).await?;
        if !matches!(found.reading, Reading::Processing(_)) {
            return Ok(found);
        }
        let limit = duration::show(LAPSE_LIMIT);
        claim(
            Instant::now() < end,
            format!("the lease did not end within {limit}"),
        )?;
    }
}

fn pending_reason(found: &Found) -> Result<&'static str, Error> {
    match &found.reading {
        Reading::Pending(pending) if pending.reason() != PendingReason::Unspecified => {
            let name = pending.reason().as_str_name();
            Ok(answer::word(name, "PENDING_REASON_"))
        }
        other => Err(Error::Other(format!(
            "the demo's promise does not hold: a lapsed record reads {other:?}. \
             It needs the default policy"
        ))),
    }
}

fn body(content: &Content) -> Bytes {
    match &content.body {
        Some(Body::Data(data)) => data.clone(),
        _ => Bytes::new(),
    }
}
