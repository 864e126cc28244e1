//! How messages become bytes and back: as tonic does it, with smaller buffers. What is
//! decoded shares its bytes with the buffer that it was read from, so a call that waits
//! holds the whole buffer.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// What a buffer begins with, in bytes: most messages fit, and it grows for the others.
const BUFFER_BYTES: usize = 512;
/// A stream of messages is sent on when so many bytes wait.
const SEND_BYTES: usize = 32 * 1024;

/// A codec for every message.
#[derive(Debug)]
pub struct Messages<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Messages<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for Messages<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_BYTES, SEND_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER_BYTES, SEND_BYTES))
    }
}
