//! The load generator: against a server that keeps its word, and against ones that lie.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::{Context as _, Result};
use reprise_proto::v1::reprise_service_server::{RepriseService, RepriseServiceServer};
use reprise_proto::v1::*;
use reprise_tests::{ports, reprise_bin};
use serde_json::Value;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::{Done, Stage, finish, quiet};

/// A bench that is over soon, however fast the machine is.
const SMALL: &str = "bench --warm-up 0 --count 40 --concurrency 8 --keys 5 --json";

fn bench(server: SocketAddr, line: &str) -> Result<Done> {
    let mut command = quiet(reprise_bin::path()?.as_os_str());
    command.args(line.split_whitespace());
    command.args(["--server", &format!("http://{server}")]);
    finish(command, b"")
}

fn number(report: &Value, path: &str) -> u64 {
    let found = report.pointer(path).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("{path} in {report}"))
}

#[test]
fn every_mix_is_carried_out_and_adds_up() -> Result<()> {
    let stage = Stage::new()?;
    for (mix, calls) in [
        ("lifecycle", &["reserve", "complete"][..]),
        ("reserve", &["reserve"]),
        ("replay", &["reserve"]),
        ("busy", &["reserve"]),
        ("mismatch", &["reserve"]),
        ("lookup", &["lookup"]),
    ] {
        let done = stage.reprise(&format!("{SMALL} --mix {mix}"))?.exits(0);
        assert_eq!(done.stderr, "", "{mix}");
        let report = done.json()?;
        assert_eq!(report["mix"], serde_json::json!({ mix: 1 }));
        for path in ["/operations", "/operations_all"] {
            assert_eq!(number(&report, path), 40, "{mix} {path}");
        }
        let by = format!("/operations_by/{mix}");
        assert_eq!(number(&report, &format!("{by}/count")), 40);
        assert_eq!(number(&report, &format!("{by}/latency/count")), 40);
        let called = report["calls"].as_object().context("calls")?;
        assert_eq!(called.len(), calls.len(), "{mix}: {called:?}");
        for call in calls {
            assert_eq!(number(&report, &format!("/calls/{call}/count")), 40);
        }
        for empty in ["errors", "wrong"] {
            assert_eq!(report[empty], serde_json::json!({}), "{mix}");
        }
        assert_eq!(report["rate"], Value::Null);
    }
    Ok(())
}

#[test]
fn a_hot_key_has_one_winner_and_the_others_get_its_result() -> Result<()> {
    let stage = Stage::new()?;
    let report = stage.reprise(&format!("{SMALL} --mix hot-key"))?.exits(0);
    let report = report.json()?;
    assert_eq!(number(&report, "/operations"), 40);
    assert_eq!(number(&report, "/calls/reserve/count"), 40);
    // Each round of up to 8 callers has one Complete.
    let rounds = number(&report, "/calls/complete/count");
    assert!((5..=40).contains(&rounds), "{rounds}");
    Ok(())
}

#[test]
fn several_mixes_run_in_one_and_sizes_are_those_asked_for() -> Result<()> {
    let stage = Stage::new()?;
    let line = "--mix lifecycle=2,replay,mismatch,lookup,busy --payload-bytes 0 --result-bytes 0 \
                --operation sizes --tenant others --connections 3";
    let report = stage.reprise(&format!("{SMALL} {line}"))?.exits(0).json()?;
    let by = report["operations_by"].as_object().context("operations")?;
    let counts = by.values().map(|it| number(it, "/count"));
    assert_eq!(counts.sum::<u64>(), 40);
    assert_eq!(number(&report, "/connections"), 3);
    assert_eq!(number(&report, "/mix/lifecycle"), 2);
    let records = stage.reprise("records list --tenant others --operation sizes --json")?;
    // Made before: 5 completed and 5 held.
    assert!(records.exits(0).text().lines().count() >= 10);
    Ok(())
}

#[test]
fn an_open_loop_begins_each_operation_in_its_time() -> Result<()> {
    let stage = Stage::new()?;
    let line = format!("{SMALL} --rate 2000 --mix lifecycle");
    let report = stage.reprise(&line)?.exits(0).json()?;
    assert_eq!(report["rate"], 2000.0);
    assert_eq!(number(&report, "/operations"), 40);
    assert_eq!(number(&report, "/missed"), 0);
    // The last of 40 is due after 39 of 2000 parts of a second.
    assert!(report["measured_s"].as_f64() >= Some(0.0195), "{report}");
    Ok(())
}

#[test]
fn people_get_a_table_with_units() -> Result<()> {
    let stage = Stage::new()?;
    let done = stage.reprise("bench --warm-up 0 --count 10 --concurrency 2")?;
    let table = done.exits(0).text();
    assert!(
        table.starts_with("lifecycle at http://127.0.0.1:"),
        "{table}"
    );
    for words in [
        "2 callers on 2 connections",
        "payloads of 100 bytes, results of 70 bytes",
        " operations/s: 10 in ",
        "OPERATION        COUNT  PER S",
        "P99.9 MS",
        "\n  call complete  10 ",
    ] {
        assert!(table.contains(words), "{words:?} is not in:\n{table}");
    }
    Ok(())
}

#[test]
fn flags_that_make_no_sense_are_refused_in_words() -> Result<()> {
    let stage = Stage::new()?;
    for (flags, words) in [
        ("--rate 0", "must be over 0 and at most 1000000"),
        ("--count 5 --duration 1s", "cannot be used with"),
        (
            "--mix everything",
            "there is no \"everything\"; must be of lifecycle",
        ),
        ("--mix replay=0", "the weight of replay must be 1 to 1000"),
        ("--mix busy --duration 14m", "a run with busy may take 14m"),
        ("--wait 1s", "only hot-key and busy wait"),
        ("--hold 1s", "only hot-key holds"),
        ("--duration 1ms", "must be 100ms to 1d"),
        ("--concurrency 0", "1..=100000"),
        ("--server https://127.0.0.1:1", "must be http://HOST:PORT"),
    ] {
        let done = stage.reprise(&format!("bench {flags}"))?;
        done.exits(2).says(words);
    }
    Ok(())
}

#[test]
fn nobody_there_is_said_at_once() -> Result<()> {
    let nobody: SocketAddr = ([127, 0, 0, 1], ports::free()?).into();
    let done = bench(nobody, SMALL)?.exits(4);
    done.says("error: not reached: 127.0.0.1:");
    assert_eq!(done.text(), "");
    Ok(())
}

/// What a lying server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// Grants whoever asks.
    GrantAll,
    /// Replays bytes that nobody stored.
    ReplayOther,
    /// Says of a new key that somebody tried before.
    NotTheFirst,
    /// Says of every report that it knew it.
    KnewIt,
    /// Grants without a token.
    NoToken,
    /// None, but it is overloaded.
    Overloaded,
}

/// Tells one lie over and over.
#[derive(Debug)]
struct Liar {
    lie: Lie,
    asked: Mutex<HashSet<String>>,
}

impl Liar {
    /// Starts it on a port of its own; it ends with the test program.
    fn start(lie: Lie) -> Result<SocketAddr> {
        let (told, addr) = mpsc::channel();
        let serve = async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            told.send(listener.local_addr()?)?;
            let asked = Mutex::default();
            let service = RepriseServiceServer::new(Liar { lie, asked });
            let server = tonic::transport::Server::builder().add_service(service);
            server
                .serve_with_incoming(TcpIncoming::from(listener))
                .await?;
            anyhow::Ok(())
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::spawn(move || runtime.block_on(serve));
        addr.recv().context("the liar does not listen")
    }
}

#[tonic::async_trait]
impl RepriseService for Liar {
    async fn reserve(
        &self,
        request: Request<ReserveRequest>,
    ) -> Result<Response<ReserveResponse>, Status> {
        if self.lie == Lie::Overloaded {
            return Err(overloaded());
        }
        let name = request.into_inner().record.unwrap_or_default();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = asked.insert(name.key);
        let outcome = match is_new || self.lie == Lie::GrantAll {
            true => reserve_response::Outcome::Acquired(Acquired {
                token: match self.lie {
                    Lie::NoToken => "".into(),
                    _ => "token".into(),
                },
                reason: GrantReason::First.into(),
                ..Acquired::default()
            }),
            false => reserve_response::Outcome::Completed(Completed {
                result: Some(Content {
                    code: "ok".to_owned(),
                    body: Some(content::Body::Data("other bytes".into())),
                    ..Content::default()
                }),
                ..Completed::default()
            }),
        };
        let record = RecordSummary {
            attempt: match self.lie {
                Lie::NotTheFirst => 2,
                _ => 1,
            },
            ..RecordSummary::default()
        };
        Ok(Response::new(ReserveResponse {
            record: Some(record),
            outcome: Some(outcome),
            ..ReserveResponse::default()
        }))
    }

    async fn complete(
        &self,
        _: Request<CompleteRequest>,
    ) -> Result<Response<CompleteResponse>, Status> {
        let disposition = match self.lie {
            Lie::KnewIt => ReportDisposition::Repeated,
            _ => ReportDisposition::Recorded,
        };
        Ok(Response::new(CompleteResponse {
            disposition: disposition.into(),
            ..CompleteResponse::default()
        }))
    }

    async fn lookup(&self, _: Request<LookupRequest>) -> Result<Response<LookupResponse>, Status> {
        Ok(Response::new(LookupResponse::default()))
    }

    async fn mark_sending(
        &self,
        _: Request<MarkSendingRequest>,
    ) -> Result<Response<MarkSendingResponse>, Status> {
        Err(Status::unimplemented("no bench asks for it"))
    }

    async fn fail(&self, _: Request<FailRequest>) -> Result<Response<FailResponse>, Status> {
        Err(Status::unimplemented("no bench asks for it"))
    }

    async fn mark_pending(
        &self,
        _: Request<MarkPendingRequest>,
    ) -> Result<Response<MarkPendingResponse>, Status> {
        Err(Status::unimplemented("no bench asks for it"))
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        Err(Status::unimplemented("no bench asks for it"))
    }
}

fn overloaded() -> Status {
    use tonic_types::StatusExt as _;
    let details =
        tonic_types::ErrorDetails::with_error_info("OVERLOADED", ERROR_DOMAIN, HashMap::new());
    Status::with_error_details(tonic::Code::ResourceExhausted, "too much", details)
}

#[test]
fn a_lie_is_named_and_ends_badly() -> Result<()> {
    for (lie, mix, words) in [
        (Lie::GrantAll, "hot-key", "a key that was granted twice"),
        (Lie::GrantAll, "replay", "a completed key that was granted"),
        (Lie::GrantAll, "busy", "a held key that was granted"),
        (
            Lie::GrantAll,
            "mismatch",
            "another payload that was granted",
        ),
        (
            Lie::ReplayOther,
            "replay",
            "a replay that differs from the first result",
        ),
        (
            Lie::ReplayOther,
            "busy",
            "a held key that was not answered as processing",
        ),
        (
            Lie::ReplayOther,
            "lookup",
            "a completed key that does not read as completed",
        ),
        (
            Lie::NotTheFirst,
            "lifecycle",
            "a fresh key whose grant is not the first",
        ),
        (Lie::NoToken, "reserve", "a grant without a token"),
        (
            Lie::KnewIt,
            "lifecycle",
            "a first report that was not recorded",
        ),
    ] {
        let liar = Liar::start(lie)?;
        let done = bench(liar, &format!("{SMALL} --mix {mix} --allow-errors"))?.exits(1);
        let told = format!("times {words}");
        assert!(
            done.stderr.contains(&told),
            "{lie:?} {mix}: {}",
            done.stderr
        );
        let report = done.json()?;
        assert!(report["wrong"][words].as_u64() > Some(0), "{report}");
    }
    Ok(())
}

#[test]
fn a_lie_before_the_load_is_named_too() -> Result<()> {
    let liar = Liar::start(Lie::NoToken)?;
    let done = bench(liar, &format!("{SMALL} --mix replay"))?.exits(1);
    done.says("error: making records: wrong answer: a grant without a token");
    Ok(())
}

#[test]
fn errors_are_counted_by_code_and_reason() -> Result<()> {
    let server = Liar::start(Lie::Overloaded)?;
    for (flags, code) in [("", 1), ("--allow-errors", 1)] {
        let done = bench(server, &format!("{SMALL} {flags}"))?.exits(code);
        done.says("error: no operation was carried out in the measured time");
        let report = done.json()?;
        assert_eq!(number(&report, "/errors/RESOURCE_EXHAUSTED OVERLOADED"), 40);
        assert_eq!(number(&report, "/operations"), 0);
        let failed = done.stderr.contains("error: 40 operations failed");
        assert_eq!(failed, flags.is_empty(), "{}", done.stderr);
    }
    Ok(())
}
