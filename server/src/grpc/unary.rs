//! gRPC over HTTP/2 for calls of one message each way, for the methods that nearly all calls
//! are for: a body that was read whole to a message, and an answer to a body.
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>
//!
//! It knows nothing of methods and messages.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use prost::Message;
use reprise_domain::text::FieldError;

use super::status::Error;
use crate::store::Delivery;

/// Largest message that is read. More than any content that is kept, so that reports
/// over a limit can be adjusted and need not be refused.
pub(super) const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A message begins with a flag, which tells whether it is compressed, and its length.
pub(super) const PREFIX_BYTES: usize = 5;

/// The message of a request. In a box: who takes it keeps its place while the call waits.
pub(super) fn message<M: Message + Default>(mut body: Bytes) -> Result<Box<M>, Error> {
    if body.len() < PREFIX_BYTES {
        return Err(unreadable());
    }
    let flag = body.get_u8();
    let length = usize::try_from(body.get_u32()).unwrap_or(usize::MAX);
    match flag {
        0 if length > MESSAGE_BYTES_MAX => Err(too_large()),
        0 if length == body.len() => {
            let mut message = Box::<M>::default();
            message.merge(body).map_err(|_| unreadable())?;
            Ok(message)
        }
        1 => Err(Error::Compressed),
        _ => Err(unreadable()),
    }
}

pub(super) fn too_large() -> Error {
    Error::TooLarge("a message has at most 8 MiB")
}

pub(super) fn unreadable() -> Error {
    FieldError::new("message", "one whole message as the proto defines it").into()
}

/// An answer on its way.
pub(crate) struct Reply {
    message: Option<Bytes>,
    delivery: Option<Delivery>,
    ended: bool,
}

impl Reply {
    pub(super) fn new(message: &impl Message) -> Self {
        let length = message.encoded_len();
        let mut out = BytesMut::with_capacity(PREFIX_BYTES + length);
        out.put_u8(0);
        // None comes near 4 GiB: what is stored has limits far below.
        out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        message.encode(&mut out).expect("memory grows");
        Self {
            message: Some(out.freeze()),
            delivery: None,
            ended: false,
        }
    }

    /// An answer whose grant is delivered when the transport takes its message.
    pub(super) fn with(message: &impl Message, delivery: Delivery) -> Self {
        Self {
            delivery: Some(delivery),
            ..Self::new(message)
        }
    }

    pub(super) fn into_response(self) -> Response<Self> {
        let mut response = Response::new(self);
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(header::CONTENT_TYPE, grpc);
        response
    }
}

impl http_body::Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(message) = self.message.take() {
            if let Some(delivery) = self.delivery.take() {
                // The answer was taken before, and stands in the message.
                let _answer = delivery.accept();
            }
            return Poll::Ready(Some(Ok(Frame::data(message))));
        }
        if std::mem::replace(&mut self.ended, true) {
            return Poll::Ready(None);
        }
        let mut trailers = HeaderMap::with_capacity(1);
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
