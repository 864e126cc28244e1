//! What was recorded comes back byte for byte, whatever the bytes are, and whatever was
//! accepted can be received by every client with default settings.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use reprise_client::Client;
use reprise_client::proto::content::Body;
use reprise_client::proto::reserve_response::Outcome;
use reprise_client::proto::*;
use sha2::{Digest, Sha256};

use super::calls::*;
use super::site::{Backend, Site, client};

/// The policy's default.
const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// What a policy may allow at most.
const HARD_BYTES_MAX: usize = 4 * 1024 * 1024 - 64 * 1024;
const INSTRUCTION_BYTES_MAX: usize = 16 * 1024;

on_both_stores! {
    every_body_comes_back_as_it_was_recorded
    headers_keep_their_order_their_bytes_and_their_repeats
    a_signature_over_json_still_holds
    a_body_at_the_limit_is_kept_and_one_over_is_recorded_as_omitted
    whatever_was_accepted_a_client_with_default_settings_receives
}

fn header(name: &str, value: impl Into<Bytes>) -> Header {
    Header {
        name: name.to_owned(),
        value: value.into(),
    }
}

fn all_bytes() -> Bytes {
    (0..=255).chain((0..=255).rev()).collect()
}

/// Completes or finally fails a fresh key with `content` and returns what was adjusted,
/// after both Reserve and Lookup answered `expected`.
async fn record(
    client: &Client,
    key: &str,
    content: Content,
    expected: &Content,
    kind: State,
) -> Result<Vec<Adjustment>> {
    let reserved = client.reserve(&reserve(key)).await?;
    let reprise_client::Outcome::Acquired(acquired) = reserved.outcome else {
        bail!("{key}: {:?}", reserved.outcome);
    };
    let reported = if kind == State::Completed {
        client
            .complete(complete(key, &acquired.token, content))
            .await?
    } else {
        let request = fail(key, &acquired.token, FailureKind::Final, content);
        client.fail(request).await?
    };
    let replayed = match client.reserve(&reserve(key)).await?.outcome {
        reprise_client::Outcome::Completed(it) if kind == State::Completed => it,
        reprise_client::Outcome::Failed(it) if kind == State::Failed => it,
        other => bail!("{key}: {other:?}"),
    };
    let read = match look(client, key).await?.context("no record")?.reading {
        reprise_client::Reading::Completed(it) | reprise_client::Reading::Failed(it) => it,
        other => bail!("{key}: {other:?}"),
    };
    ensure!(
        &replayed.content == expected,
        "{key} was replayed otherwise"
    );
    ensure!(&read.content == expected, "{key} was looked up otherwise");
    ensure!(replayed.time == read.time, "{key} was recorded once");
    Ok(reported.adjusted)
}

/// As [`record`], for content that is kept as it is, as a result and as an error.
async fn kept(client: &Client, key: &str, content: Content) -> Result<()> {
    for kind in [State::Completed, State::Failed] {
        let key = format!("{key}, {}", kind.as_str_name());
        let adjusted = record(client, &key, content.clone(), &content, kind).await?;
        ensure!(adjusted.is_empty(), "{key}: {adjusted:?}");
    }
    Ok(())
}

async fn every_body_comes_back_as_it_was_recorded(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?;
    let server = site.serve()?;
    let client = client(server.addr())?;
    for (key, data) in [
        ("all byte values", all_bytes()),
        ("empty", Bytes::new()),
        ("one zero byte", Bytes::from_static(&[0])),
        ("the JSON document null", Bytes::from_static(b"null")),
        ("CSV", Bytes::from_static(b"a,b\r\n1,\"2\r\n\"\r\n")),
        ("a byte order mark", Bytes::from_static(b"\xef\xbb\xbf{}")),
        ("not UTF-8", Bytes::from_static(b"\xff\xfe\xc3\x28")),
        ("an escaped NUL", Bytes::from_static(br#"{"x":"a\u0000b"}"#)),
    ] {
        kept(&client, key, body(data)).await?;
    }
    let absent = Content {
        code: "204".to_owned(),
        ..Content::default()
    };
    kept(&client, "absent", absent).await?;
    let omitted = Content {
        code: "200".to_owned(),
        body: Some(Body::Omitted(OmittedBody {
            size: 5_000_000_000,
            sha256: Bytes::copy_from_slice(&Sha256::digest(b"elsewhere")),
        })),
        resource_id: "r-1".to_owned(),
        provider_reference: "p-1".to_owned(),
        ..Content::default()
    };
    kept(&client, "omitted by the caller", omitted).await
}

async fn headers_keep_their_order_their_bytes_and_their_repeats(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?;
    let server = site.serve()?;
    let content = Content {
        code: "201".to_owned(),
        headers: vec![
            header("Location", "/orders/1"),
            header("ETag", "\"v1\""),
            header("link", "</a>; rel=next"),
            header("Content-Type", "application/vnd.x+json"),
            header("LINK", "</b>; rel=prev"),
            header("retry-after", ""),
            header("content-disposition", all_bytes()),
        ],
        body: Some(Body::Data(Bytes::from_static(b"{}"))),
        ..Content::default()
    };
    kept(&client(server.addr())?, "headers", content).await
}

async fn a_signature_over_json_still_holds(backend: Backend) -> Result<()> {
    let site = Site::new(backend)?;
    let server = site.serve()?;
    let client = client(server.addr())?;
    let headers = ["content-type", "webhook-signature"]
        .map(str::to_owned)
        .to_vec();
    put_policy(&client, |policy| {
        policy.headers = Some(HeaderAllowList { names: headers })
    })
    .await?;

    let sign = |body: &[u8]| {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(b"secret").expect("any length");
        mac.update(body);
        mac
    };
    // Member order, blanks, a repeated name, number spellings and the newline all count.
    let json: &[u8] = b"{\"b\": 1, \"a\":1.00, \"b\":2, \"e\":1e5}\n";
    let signature = sign(json).finalize().into_bytes();
    let content = Content {
        code: "200".to_owned(),
        headers: vec![
            header("Content-Type", "application/json"),
            header("Webhook-Signature", Bytes::copy_from_slice(&signature)),
        ],
        body: Some(Body::Data(Bytes::from_static(json))),
        ..Content::default()
    };
    kept(&client, "signed", content).await?;
    let replayed = look(&client, "signed, STATE_COMPLETED")
        .await?
        .context("no record")?;
    let reprise_client::Reading::Completed(recorded) = replayed.reading else {
        bail!("{replayed:?}");
    };
    let body = data(&recorded.content).context("no body")?;
    sign(body).verify_slice(&recorded.content.headers[1].value)?;
    Ok(())
}

async fn a_body_at_the_limit_is_kept_and_one_over_is_recorded_as_omitted(
    backend: Backend,
) -> Result<()> {
    let site = Site::new(backend)?;
    let server = site.serve()?;
    let client = client(server.addr())?;
    let at_limit: Bytes = all_bytes()
        .iter()
        .copied()
        .cycle()
        .take(RESULT_BYTES_MAX)
        .collect();
    kept(&client, "at the limit", body(at_limit.clone())).await?;

    let over: Bytes = at_limit.iter().copied().chain([7]).collect();
    let expected = Content {
        body: Some(Body::Omitted(OmittedBody {
            size: over.len() as u64,
            sha256: Bytes::copy_from_slice(&Sha256::digest(&over)),
        })),
        ..body("")
    };
    let adjusted = record(&client, "one over", body(over), &expected, State::Completed).await?;
    let [adjustment] = &adjusted[..] else {
        bail!("{adjusted:?}");
    };
    assert_eq!(adjustment.kind(), AdjustmentKind::Dropped);
    assert_eq!(adjustment.field, "result.data");
    Ok(())
}

/// Stores a policy that `edit` changed from the defaults.
async fn put_policy(client: &Client, edit: impl FnOnce(&mut Policy)) -> Result<()> {
    let mut policy = Policy {
        tenant: "t1".to_owned(),
        operation: "op".to_owned(),
        ..Policy::default()
    };
    edit(&mut policy);
    let request = PutPolicyRequest {
        policy: Some(policy),
        actor: "operator".to_owned(),
        reason: "for this test".to_owned(),
    };
    client.put_policy(request).await?;
    Ok(())
}

/// Ten records as large as any can be, through stubs that receive 4 MiB, which is what
/// plain gRPC clients receive.
async fn whatever_was_accepted_a_client_with_default_settings_receives(
    backend: Backend,
) -> Result<()> {
    let site = Site::new(backend)?;
    let server = site.serve()?;
    put_policy(&client(server.addr())?, |policy| {
        policy.result_bytes_max = Some(HARD_BYTES_MAX as u64);
        policy.headers = Some(HeaderAllowList {
            names: vec!["x".to_owned()],
        });
    })
    .await?;
    let mut stub = stub(server.addr())?;
    let largest = largest();
    for at in 0..10 {
        let key = format!("{at}{}", "k".repeat(254));
        let mut request = reserve_request(&key, "the payload")?;
        request.instruction = Bytes::from(vec![b'i'; INSTRUCTION_BYTES_MAX]);
        request.correlation_id = "c".repeat(255);
        request.owner = "o".repeat(255);
        let token = granted(&mut stub, request.clone()).await?.token;
        // The next grant carries what the failed one left.
        let failed = fail(&key, &token, FailureKind::Retryable, largest.clone());
        let failed = stub.fail(failed).await?.into_inner();
        ensure!(failed.adjusted.is_empty(), "{:?}", failed.adjusted);
        request.attempt_id = reserve_request(&key, "")?.attempt_id;
        let acquired = granted(&mut stub, request).await?;
        let earlier = acquired.earlier.context("nothing was left")?;
        ensure!(
            earlier.error.as_ref() == Some(&largest),
            "{key} left another error"
        );

        let report = complete(&key, &acquired.token, largest.clone());
        let completed = stub.complete(report).await?.into_inner();
        ensure!(completed.adjusted.is_empty(), "{:?}", completed.adjusted);
        let again = stub.reserve(reserve_request(&key, "the payload")?).await?;
        let Some(Outcome::Completed(replayed)) = again.into_inner().outcome else {
            bail!("{key} is not replayed");
        };
        ensure!(
            replayed.result.as_ref() == Some(&largest),
            "{key} was replayed otherwise"
        );
        let found = stub.lookup(lookup(&key)).await?.into_inner();
        let Some(lookup_response::Reading::Completed(read)) = found.reading else {
            bail!("{key} is not completed");
        };
        ensure!(
            read.result.as_ref() == Some(&largest),
            "{key} was looked up otherwise"
        );
    }
    Ok(())
}

async fn granted(stub: &mut Stub, request: ReserveRequest) -> Result<Acquired> {
    match stub.reserve(request).await?.into_inner().outcome {
        Some(Outcome::Acquired(acquired)) => Ok(acquired),
        other => bail!("{other:?}"),
    }
}

/// Content at every limit at once.
fn largest() -> Content {
    // 64 headers of 16 KiB together, names included.
    let headers = vec![header("x", vec![0xff; 16 * 1024 / 64 - 1]); 64];
    Content {
        code: "c".repeat(255),
        headers,
        body: Some(Body::Data(Bytes::from(vec![0; HARD_BYTES_MAX]))),
        resource_id: "r".repeat(255),
        provider_reference: "p".repeat(255),
    }
}
