//! What commands read: files and standard input, within limits. Standard input can be
//! read for one purpose only.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use reprise_client::proto::{OmittedBody, content::Body};
use sha2::{Digest, Sha256};

use super::exit::Error;

/// Longest text that is read: a token, evidence.
const TEXT_BYTES_MAX: u64 = 64 * 1024;

/// Where input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Stdin,
    File(PathBuf),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Source, Infallible> {
        Ok(match text {
            "-" => Source::Stdin,
            path => Source::File(path.into()),
        })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Stdin => f.write_str("standard input"),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

/// Reads sources for one command.
#[derive(Debug, Default)]
pub(crate) struct Stdin {
    taken: bool,
}

impl Stdin {
    fn open(&mut self, source: &Source) -> Result<Box<dyn Read>, Error> {
        match source {
            Source::Stdin if self.taken => Err(Error::Usage(
                "`-` (standard input) can be given once only".into(),
            )),
            Source::Stdin => {
                self.taken = true;
                Ok(Box::new(io::stdin().lock()))
            }
            Source::File(path) => {
                let file = File::open(path).map_err(Error::io(source.to_string()))?;
                Ok(Box::new(file))
            }
        }
    }

    /// Everything, if it has at most `most` bytes.
    pub(crate) fn bytes(&mut self, source: &Source, most: u64) -> Result<Bytes, Error> {
        let mut bytes = Vec::new();
        let mut reader = self.open(source)?.take(most + 1);
        reader
            .read_to_end(&mut bytes)
            .map_err(Error::io(source.to_string()))?;
        if bytes.len() as u64 > most {
            return Err(Error::Usage(format!(
                "{source}: must have at most {most} bytes"
            )));
        }
        Ok(bytes.into())
    }

    /// A short text, without white space around it.
    pub(crate) fn text(&mut self, source: &Source) -> Result<String, Error> {
        let bytes = self.bytes(source, TEXT_BYTES_MAX)?;
        let text = str::from_utf8(&bytes);
        let text = text.map_err(|_| Error::Usage(format!("{source}: must be UTF-8 text")))?;
        Ok(text.trim().to_owned())
    }

    /// A body. One over `most` bytes is measured and not kept.
    pub(crate) fn body(&mut self, source: &Source, most: u64) -> Result<Body, Error> {
        let mut reader = self.open(source)?;
        let mut kept = Vec::new();
        let failed = || Error::io(source.to_string());
        reader
            .by_ref()
            .take(most + 1)
            .read_to_end(&mut kept)
            .map_err(failed())?;
        if kept.len() as u64 <= most {
            return Ok(Body::Data(kept.into()));
        }
        let mut hash = Sha256::new_with_prefix(&kept);
        let mut size = kept.len() as u64;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = reader.read(&mut buffer).map_err(failed())?;
            if length == 0 {
                break;
            }
            hash.update(&buffer[..length]);
            size += length as u64;
        }
        Ok(Body::Omitted(OmittedBody {
            size,
            sha256: Bytes::copy_from_slice(&hash.finalize()),
        }))
    }
}

/// Reads base64 in the standard or the URL alphabet, padded or not.
pub(crate) fn base64(text: &str) -> Option<Bytes> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    let standard = text.trim().replace('-', "+").replace('_', "/");
    engine.decode(standard).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_every_spelling() {
        for text in ["+/8=", "+/8", "-_8=", "-_8", " -_8\n"] {
            assert_eq!(base64(text).as_deref(), Some(&[0xfb, 0xff][..]), "{text}");
        }
        assert_eq!(base64("no base64!"), None);
    }

    #[test]
    fn a_body_over_the_limit_is_measured_in_full() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("body");
        std::fs::write(&path, b"abcdef").unwrap();
        let read = |most| {
            Stdin::default()
                .body(&Source::File(path.clone()), most)
                .unwrap()
        };
        assert_eq!(read(6), Body::Data(Bytes::from_static(b"abcdef")));
        let Body::Omitted(omitted) = read(5) else {
            panic!("kept")
        };
        assert_eq!(omitted.size, 6);
        assert_eq!(omitted.sha256[..], Sha256::digest(b"abcdef")[..]);
    }

    #[test]
    fn too_much_is_refused_with_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("payload");
        std::fs::write(&path, b"abcdef").unwrap();
        let error = Stdin::default().bytes(&Source::File(path), 5).unwrap_err();
        assert!(
            error.to_string().ends_with("must have at most 5 bytes"),
            "{error}"
        );
    }
}
