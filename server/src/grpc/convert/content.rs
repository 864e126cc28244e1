//! Results and errors, both ways.

use bytes::Bytes;
use reprise_domain::content::{Body, Content, Sha};
use reprise_domain::text::{Adjustment, AdjustmentKind};
use reprise_domain::{Policy, Timestamp, record};
use reprise_proto::v1 as proto;
use reprise_proto::v1::content::Body as SentBody;
use sha2::{Digest, Sha256};

/// A content as it is kept, the digests of what was sent, and what became of the rest.
pub(super) struct Received {
    pub(super) kept: Content,
    pub(super) digest: Sha,
    pub(super) core: Sha,
    pub(super) adjusted: Vec<Adjustment>,
}

/// About how many bytes [`receive`] hashes.
pub(super) fn size(message: Option<&proto::Content>) -> usize {
    let Some(message) = message else {
        return 0;
    };
    let headers = message.headers.iter();
    let headers: usize = headers.map(|header| header.value.len()).sum();
    match &message.body {
        Some(SentBody::Data(data)) => headers + data.len(),
        Some(SentBody::Omitted(_)) | None => headers,
    }
}

/// Reads a content that stands at `field`. Nothing is refused; none is an empty one.
pub(super) fn receive(field: &str, message: Option<proto::Content>, policy: &Policy) -> Received {
    let message = message.unwrap_or_default();
    let mut unreadable = None;
    let body = message.body.map(|body| match body {
        SentBody::Data(data) => Body::Data(data),
        SentBody::Omitted(omitted) => Body::Omitted {
            size: omitted.size,
            sha256: <Sha>::try_from(omitted.sha256.as_ref()).unwrap_or_else(|_| {
                unreadable = Some(Adjustment {
                    field: format!("{field}.omitted.sha256"),
                    kind: AdjustmentKind::Dropped,
                    description: "exactly 32 bytes; zeros stand for it",
                });
                // Stands for what was sent where repeats are compared; it is not kept.
                Sha256::digest(&omitted.sha256).into()
            }),
        },
    });
    let headers = message.headers.into_iter();
    let mut content = Content {
        code: message.code,
        headers: headers.map(|header| (header.name, header.value)).collect(),
        body,
        resource_id: message.resource_id,
        provider_reference: message.provider_reference,
    };
    let (digest, core) = content.digests();
    if let (Some(_), Some(Body::Omitted { sha256, .. })) = (&unreadable, &mut content.body) {
        *sha256 = Sha::default();
    }
    let (kept, mut adjusted) = content.adjust(field, policy);
    adjusted.extend(unreadable);
    Received {
        kept,
        digest,
        core,
        adjusted,
    }
}

/// A content to replay.
pub(super) fn send(content: Content) -> proto::Content {
    let headers = content.headers.into_iter();
    proto::Content {
        code: content.code,
        headers: headers
            .map(|(name, value)| proto::Header { name, value })
            .collect(),
        body: content.body.map(|body| match body {
            Body::Data(data) => SentBody::Data(data),
            Body::Omitted { size, sha256 } => omitted(size, &sha256),
        }),
        resource_id: content.resource_id,
        provider_reference: content.provider_reference,
    }
}

/// A content without its headers, its body by size and digest alone.
pub(super) fn send_brief(content: Content) -> proto::Content {
    let body = content.body.map(|body| {
        let (size, sha256) = body.measure();
        Body::Omitted { size, sha256 }
    });
    send(Content {
        headers: Vec::new(),
        body,
        ..content
    })
}

/// The outcome's content; its bytes are not shown past the end of the replay.
pub(super) fn send_while_kept(outcome: record::Outcome, now: Timestamp) -> proto::Content {
    if now < outcome.result_until {
        send(outcome.content)
    } else {
        send(Content {
            headers: Vec::new(),
            body: None,
            ..outcome.content
        })
    }
}

fn omitted(size: u64, sha256: &Sha) -> SentBody {
    SentBody::Omitted(proto::OmittedBody {
        size,
        sha256: Bytes::copy_from_slice(sha256),
    })
}

/// What was not kept as sent.
pub(super) fn adjustments(adjusted: Vec<Adjustment>) -> Vec<proto::Adjustment> {
    let kind = |kind| match kind {
        AdjustmentKind::Cut => proto::AdjustmentKind::Cut,
        AdjustmentKind::Dropped => proto::AdjustmentKind::Dropped,
        AdjustmentKind::Replaced => proto::AdjustmentKind::Replaced,
    };
    let adjusted = adjusted.into_iter();
    adjusted
        .map(|adjustment| proto::Adjustment {
            field: adjustment.field,
            kind: kind(adjustment.kind).into(),
            description: adjustment.description.to_owned(),
        })
        .collect()
}
