//! What tells whether a repeat carries the same payload: a digest that the caller made,
//! or the payload, which is hashed here under each rule of the policy and not kept.

use std::sync::Arc;

use reprise_domain::Policy;
use reprise_domain::content::BODY_BYTES_MAX;
use reprise_domain::text::FieldError;
use reprise_fingerprint::{Context, Fingerprint, MediaType, RuleId, Scheme, json_under_each, raw};
use reprise_proto::v1 as proto;
use reprise_proto::v1::reserve_request::Fingerprint as Sent;

use super::hashing;
use crate::grpc::status::Error;

/// The fingerprints to compare with, the one for a new record first; at least one.
pub(super) async fn fingerprints(
    sent: Option<Sent>,
    policy: &Arc<Policy>,
) -> Result<Vec<Fingerprint>, Error> {
    match sent {
        Some(Sent::Digest(digest)) => Ok(vec![ready(digest)?]),
        Some(Sent::Payload(payload)) => of_payload(payload, Arc::clone(policy)).await,
        None => Err(FieldError::new("fingerprint", "required: digest or payload").into()),
    }
}

fn ready(message: proto::FingerprintDigest) -> Result<Fingerprint, FieldError> {
    let scheme = scheme("digest.scheme", message.scheme)?;
    let rule = RuleId::try_from(message.rule_id)
        .map_err(|error| FieldError::new("digest.rule_id", error.to_string()))?;
    if scheme == Scheme::Raw && rule != RuleId::none() {
        return Err(FieldError::new("digest.rule_id", "empty with RAW"));
    }
    let digest = message.sha256.as_ref().try_into();
    Ok(Fingerprint {
        scheme,
        rule,
        digest: digest.map_err(|_| FieldError::new("digest.sha256", "exactly 32 bytes"))?,
    })
}

async fn of_payload(
    message: proto::FingerprintPayload,
    policy: Arc<Policy>,
) -> Result<Vec<Fingerprint>, Error> {
    let scheme = scheme("payload.scheme", message.scheme)?;
    let media_type = MediaType::parse(&message.media_type)
        .map_err(|error| FieldError::new("payload.media_type", error.to_string()))?;
    let named = |entry: &proto::Header| entry.name.len() + entry.value.len();
    let bytes = message.content.len() + message.context.iter().map(named).sum::<usize>();
    if bytes as u64 > BODY_BYTES_MAX {
        return Err(Error::TooLarge(
            "payload: content and context have at most 4,128,768 bytes together; over that send a digest",
        ));
    }
    let hash = move || {
        let entries = message.context.into_iter();
        let context: Context = entries
            .map(|entry| (entry.name, entry.value.to_vec()))
            .collect::<Vec<_>>()
            .into();
        match scheme {
            Scheme::Raw => Ok(vec![raw(&media_type, &context, &message.content)]),
            Scheme::Json => json_under_each(&media_type, &context, &message.content, &policy.rules),
        }
    };
    Ok(hashing(bytes, hash).await??)
}

fn scheme(field: &str, value: i32) -> Result<Scheme, FieldError> {
    match proto::FingerprintScheme::try_from(value) {
        Ok(proto::FingerprintScheme::Raw) => Ok(Scheme::Raw),
        Ok(proto::FingerprintScheme::Json) => Ok(Scheme::Json),
        Ok(proto::FingerprintScheme::Unspecified) | Err(_) => {
            Err(FieldError::new(field, "RAW or JSON"))
        }
    }
}
