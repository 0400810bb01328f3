//! Pacing of one connection's datagrams, for whoever sends them: the socket, or a driver of
//! quinn-proto.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{Connection, Transmit};

use crate::path::{Leave, Path};

/// Holds the datagrams of one connection to the pacing rate of its controller, for a program that
/// drives quinn-proto by itself. With quinn the socket of [`runtime`](crate::runtime) does it.
///
/// Each connection has one of its own. While a part of a batch waits, no other batch is made; what
/// the wait costs the sender is in the times that the controller sees. A controller that is not of
/// this crate lets everything leave at once.
///
/// ```
/// use std::time::Instant;
///
/// use fullpipe_quinn::{Pacing, Permit};
/// use quinn_proto::{Connection, Transmit};
///
/// struct Sender {
///     connection: Connection,
///     pacing: Pacing,
///     /// A batch that has not all left, with its bytes.
///     waiting: Option<Transmit>,
///     bytes: Vec<u8>,
/// }
///
/// impl Sender {
///     /// Sends all that may leave now. Returns the time at which to call it again; an event of the
///     /// connection before that is a reason to call it as well.
///     fn send(&mut self, now: Instant, mut socket: impl FnMut(&[u8])) -> Option<Instant> {
///         loop {
///             let batch = match self.waiting.take() {
///                 Some(batch) => batch,
///                 None => {
///                     self.bytes.clear();
///                     let Self { connection, pacing, bytes, .. } = self;
///                     pacing.poll_transmit(connection, now, 10, bytes)?
///                 }
///             };
///             let (size, segment) = (batch.size, batch.segment_size);
///             match self.pacing.permit(now) {
///                 Permit::At(time) => {
///                     self.waiting = Some(batch);
///                     return Some(time);
///                 }
///                 Permit::Now(grant) => {
///                     let part = grant.part(size, segment);
///                     let is_last = part.end == size;
///                     self.bytes[part].chunks(segment.unwrap_or(size)).for_each(&mut socket);
///                     grant.have_left(now, size, segment);
///                     self.waiting = (!is_last).then_some(batch);
///                 }
///             }
///         }
///     }
/// }
/// ```
#[derive(Debug, Default)]
pub struct Pacing {
    /// The path for which the connection made datagrams last.
    path: Option<Arc<Path>>,
}

/// An answer to the question whether the next datagrams may leave.
#[derive(Debug)]
pub enum Permit {
    /// A part of the batch may leave now.
    Now(Grant),
    /// None may before this time, as far as is known now: the answer after an ACK may be an earlier
    /// one.
    At(Instant),
}

/// Permission for a part of a batch.
#[derive(Debug)]
pub struct Grant {
    /// `None` for datagrams that are none of a controller's of ours.
    paced: Option<Paced>,
}

#[derive(Debug)]
struct Paced {
    path: Arc<Path>,
    /// Bytes at the beginning of the batch that have left.
    gone: u64,
    bytes: u64,
}

impl Pacing {
    /// The pacing of a connection that has sent nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// [`Connection::poll_transmit`] of the connection that this is the pacing of. Not to be called
    /// while a part of the batch before waits.
    pub fn poll_transmit(
        &mut self,
        connection: &mut Connection,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        // Of another connection, which may be driven without a `Pacing`.
        Path::forget_made();
        let transmit = connection.poll_transmit(now, max_datagrams, buf);
        self.look();
        transmit
    }

    /// The connection made datagrams on this thread since [`Path::forget_made`], if any were made.
    pub(crate) fn look(&mut self) {
        if let Some(path) = Path::take_made() {
            self.path = Some(path);
        }
    }

    /// Asks for the part of the newest batch that may leave now.
    pub fn permit(&self, now: Instant) -> Permit {
        let paced = match &self.path {
            None => None,
            Some(path) => match path.may_leave(now) {
                Leave::Now { gone, bytes } => Some(Paced { path: path.clone(), gone, bytes }),
                Leave::At(time) => return Permit::At(time),
                Leave::Unpaced => None,
            },
        };
        Permit::Now(Grant { paced })
    }
}

impl Grant {
    /// The bytes of the batch that may leave: one datagram or more, which are a batch again.
    pub fn part(&self, size: usize, segment_size: Option<usize>) -> Range<usize> {
        let Some(paced) = &self.paced else { return 0..size };
        let segment = segment_size.unwrap_or(size).max(1);
        let begin = usize::try_from(paced.gone).unwrap_or(size).min(size);
        let most = usize::try_from(paced.bytes).unwrap_or(size);
        begin..(begin + (most / segment).max(1) * segment).min(size)
    }

    /// True if they may be marked as ECN-capable, where quinn marks them.
    pub fn wants_ecn(&self) -> bool {
        self.paced.as_ref().is_none_or(|paced| paced.path.wants_ecn())
    }

    /// The part left at `now`, of a batch of the same sizes as in [`Self::part`].
    pub fn have_left(self, now: Instant, size: usize, segment_size: Option<usize>) {
        let part = self.part(size, segment_size);
        let segment = segment_size.unwrap_or(size).max(1);
        if let Some(Paced { path, .. }) = self.paced {
            let end = part.end;
            path.have_left(now, part.step_by(segment).map(|begin| segment.min(end - begin)));
        }
    }
}
