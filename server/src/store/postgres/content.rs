//! How what is replayed lies in its columns. It knows no statement; what it cannot read it
//! reports.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use reprise_domain::content::{Body, Content, Sha};

use super::column::Blob;
use super::row::text;

/// A content's columns; its resource id is the record's.
pub(super) struct ContentColumns {
    pub(super) code: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) headers: Option<Blob>,
    pub(super) body: Option<Blob>,
    pub(super) body_size: Option<i64>,
    pub(super) body_sha256: Option<Blob>,
    /// None where the digest of the newest report guards the content.
    pub(super) checksum: Option<Blob>,
}

impl ContentColumns {
    /// `digest` is of the newest report. Usually it is that of the content as it is kept,
    /// and a checksum would say the same again.
    pub(super) fn of(content: &Content, digest: Option<Sha>) -> Self {
        let guarded = digest.is_some_and(|digest| digest == content.digest());
        let (mut body, mut body_size, mut body_sha256) = (None, None, None);
        match &content.body {
            Some(Body::Data(data)) => body = Some(Blob(data.clone())),
            Some(Body::Omitted { size, sha256 }) => {
                body_size = Some(size.cast_signed());
                body_sha256 = Some(Blob::copy(sha256));
            }
            None => {}
        }
        Self {
            code: text(&content.code),
            reference: text(&content.provider_reference),
            headers: write_headers(&content.headers),
            body,
            body_size,
            body_sha256,
            checksum: (!guarded).then(|| Blob::copy(&content.checksum())),
        }
    }
}

/// Is the content the one that was written? `digest` is of the newest report.
pub(super) fn is_sound(content: &Content, checksum: Option<&Blob>, digest: Option<&Blob>) -> bool {
    match (checksum, digest) {
        (Some(checksum), _) => checksum.0[..] == content.checksum()[..],
        (None, Some(digest)) => digest.0[..] == content.digest()[..],
        (None, None) => false,
    }
}

/// What stays of a content's columns when headers and body go; none of a content that is not
/// sound, so that damage is not written down as if it had been there from the beginning.
/// Resource id and `digest`, of the newest report, are the record's.
pub(super) fn stripped(
    columns: ContentColumns,
    resource_id: Option<String>,
    digest: Option<&Blob>,
) -> Option<ContentColumns> {
    let omitted = match (columns.body_size, columns.body_sha256) {
        (Some(size), Some(sha256)) => Some(Body::Omitted {
            size: size.cast_unsigned(),
            sha256: Sha::try_from(&sha256.0[..]).ok()?,
        }),
        _ => None,
    };
    let content = Content {
        code: columns.code.unwrap_or_default(),
        headers: read_headers(columns.headers.as_ref())?,
        body: columns.body.map(|body| Body::Data(body.0)).or(omitted),
        resource_id: resource_id.unwrap_or_default(),
        provider_reference: columns.reference.unwrap_or_default(),
    };
    let digest_bytes = digest.and_then(|digest| Sha::try_from(&digest.0[..]).ok());
    is_sound(&content, columns.checksum.as_ref(), digest)
        .then(|| ContentColumns::of(&content.stripped(), digest_bytes))
}

fn write_headers(headers: &[(String, Bytes)]) -> Option<Blob> {
    if headers.is_empty() {
        return None;
    }
    let mut bytes = BytesMut::new();
    for (name, value) in headers {
        for part in [name.as_bytes(), value] {
            let length = u32::try_from(part.len()).expect("headers are at most 16 KiB together");
            bytes.put_u32(length);
            bytes.put_slice(part);
        }
    }
    Some(Blob(bytes.freeze()))
}

/// None when the bytes are not what [`write_headers`] made.
pub(super) fn read_headers(blob: Option<&Blob>) -> Option<Vec<(String, Bytes)>> {
    let mut rest = blob.cloned().unwrap_or_default().0;
    let mut part = || {
        let length = usize::try_from(rest.try_get_u32().ok()?).ok()?;
        (length <= rest.len()).then(|| rest.split_to(length))
    };
    let mut headers = Vec::new();
    while let Some(name) = part() {
        headers.push((String::from_utf8(name.into()).ok()?, part()?));
    }
    Some(headers)
}
