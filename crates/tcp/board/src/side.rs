//! The application of one end: it sends what a rule says, closes, and hashes what it reads.

use fullpipe_cc::Instant;
use fullpipe_tcp::{Endpoint, Error, Handle};
use sha2::{Digest, Sha256};

use crate::BYTES;

pub(crate) struct Side {
    pub(crate) handle: Option<Handle>,
    written: usize,
    read: usize,
    at_end: bool,
    sent: Sha256,
    got: Sha256,
}

impl Side {
    pub(crate) fn new(handle: Option<Handle>) -> Self {
        let (sent, got) = (Sha256::new(), Sha256::new());
        Self { handle, written: 0, read: 0, at_end: false, sent, got }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.written == BYTES && self.at_end
    }

    /// True if `other` read what this end wrote.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        self.written == other.read && self.sent.clone().finalize() == other.got.clone().finalize()
    }

    /// Reads and writes what is possible now.
    pub(crate) fn act(&mut self, now: Instant, end: &mut Endpoint) -> Result<(), Error> {
        let Some(handle) = self.handle else { return Ok(()) };
        match self.read(end, handle).and_then(|()| self.write(now, end, handle)) {
            Err(Error::WouldBlock) => Ok(()),
            done => done,
        }
    }

    fn write(&mut self, now: Instant, end: &mut Endpoint, handle: Handle) -> Result<(), Error> {
        let mut chunk = [0; 512];
        while self.written < BYTES {
            let count = chunk.len().min(BYTES - self.written);
            for (i, byte) in chunk[..count].iter_mut().enumerate() {
                *byte = ((self.written + i) as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()[0];
            }
            let taken = end.write(now, handle, &chunk[..count])?;
            self.sent.update(&chunk[..taken]);
            self.written += taken;
            if self.written == BYTES {
                end.close(now, handle);
            }
        }
        Ok(())
    }

    fn read(&mut self, end: &mut Endpoint, handle: Handle) -> Result<(), Error> {
        let mut chunk = [0; 512];
        while !self.at_end {
            match end.read(handle, &mut chunk) {
                Ok(0) => self.at_end = true,
                Ok(count) => {
                    self.got.update(&chunk[..count]);
                    self.read += count;
                }
                Err(Error::WouldBlock) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
