//! The messages between the two ends.
//!
//! Each is its length in four bytes and the rest: a block of data begins with a byte of zero and
//! its number, all others are JSON.

use std::io;

use bytes::BytesMut;
use fullpipe_cc::Duration;
use serde::{Deserialize, Serialize};
use tokio_util::codec::{Decoder, LengthDelimitedCodec};

use super::LEAST_INTERVAL;
use super::report::Report;
use crate::transport::Connection;

/// Bytes of a block, with its length.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

/// Bytes of its length.
const LENGTH_BYTES: usize = 4;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// The version of these messages.
const VERSION: u32 = 1;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// The client's first: what it wants.
    Hello(Hello),
    /// The server's answer to it.
    Ready,
    /// Asks for an answer at once, before the data.
    Ping,
    Pong,
    /// This block was read, and all before it.
    Answer(u64),
    /// There are no more blocks.
    End,
    /// All blocks before the end were read.
    Done,
    /// No more blocks are wanted.
    Stop,
    /// The sender's result, its last message.
    Report(Box<Report>),
    #[serde(skip)]
    Block(u64),
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    fullpipe_perf: u32,
    /// True if the server is to send.
    pub(super) reverse: bool,
    pub(super) amount: Amount,
    interval_ns: u64,
}

/// The amount of data.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Amount {
    Bytes(u64),
    Nanoseconds(u64),
}

impl Hello {
    pub(super) fn new(reverse: bool, amount: Amount, interval: Duration) -> Self {
        Self { fullpipe_perf: VERSION, reverse, amount, interval_ns: interval.as_nanos() }
    }

    /// The time between two lines of progress, which is never too short for a row of the result.
    pub(super) fn interval(self) -> Duration {
        Duration::from_nanos(self.interval_ns).max(LEAST_INTERVAL)
    }

    /// True if both ends speak the same messages.
    pub(super) fn is_known(self) -> bool {
        self.fullpipe_perf == VERSION
    }
}

impl Message {
    /// The message with its length.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; LENGTH_BYTES];
        serde_json::to_writer(&mut bytes, self).map_err(io::Error::from)?;
        put_length(&mut bytes);
        Ok(bytes)
    }

    fn decode(frame: &[u8]) -> io::Result<Self> {
        match frame.split_first_chunk::<9>() {
            Some(([0, number @ ..], _)) => Ok(Self::Block(u64::from_be_bytes(*number))),
            _ => serde_json::from_slice(frame).map_err(io::Error::from),
        }
    }
}

/// A block with its length; [`number`] gives it its number.
pub(super) fn block() -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    put_length(&mut bytes);
    bytes
}

/// Gives a block another number.
pub(super) fn number(block: &mut [u8], number: u64) {
    if let Some(place) = block.get_mut(LENGTH_BYTES + 1..LENGTH_BYTES + 9) {
        place.copy_from_slice(&number.to_be_bytes());
    }
}

fn put_length(message: &mut [u8]) {
    if let Some((length, rest)) = message.split_first_chunk_mut::<LENGTH_BYTES>() {
        *length = u32::try_from(rest.len()).unwrap_or(u32::MAX).to_be_bytes();
    }
}

/// The messages that arrive.
pub(super) struct Messages<'a> {
    connection: &'a Connection,
    codec: LengthDelimitedCodec,
    buffer: BytesMut,
    chunk: Vec<u8>,
}

impl<'a> Messages<'a> {
    pub(super) fn of(connection: &'a Connection) -> Self {
        let codec = LengthDelimitedCodec::builder().max_frame_length(2 * BLOCK_BYTES).new_codec();
        Self { connection, codec, buffer: BytesMut::new(), chunk: vec![0; READ_BYTES] }
    }

    /// The next one. It may be dropped at any time without a loss.
    ///
    /// # Errors
    /// The bytes that arrived are no message, or the connection has ended.
    pub(super) async fn next(&mut self) -> io::Result<Message> {
        loop {
            if let Some(frame) = self.codec.decode(&mut self.buffer)? {
                return Message::decode(&frame);
            }
            self.connection.readable().await?;
            match self.connection.try_read(&mut self.chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.buffer.extend_from_slice(&self.chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut codec = LengthDelimitedCodec::new();
        let hello = Message::Hello(Hello::new(true, Amount::Bytes(3_000_000_000), LEAST_INTERVAL));
        let mut all = BytesMut::new();
        for message in [&hello, &Message::Answer(7), &Message::Stop] {
            all.extend_from_slice(&message.encode().expect("JSON"));
        }
        let mut data = block();
        number(&mut data, 1 << 40);
        all.extend_from_slice(&data);
        let mut next = || Message::decode(&codec.decode(&mut all).expect("frames").expect("one"));
        assert_eq!(next().expect("a message"), hello);
        assert_eq!(next().expect("a message"), Message::Answer(7));
        assert_eq!(next().expect("a message"), Message::Stop);
        assert_eq!(next().expect("a message"), Message::Block(1 << 40));
        assert!(Message::decode(b"GET / HTTP/1.1").is_err());
        assert!(Message::decode(b"").is_err());
    }
}
