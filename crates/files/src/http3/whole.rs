//! Frames of HTTP/3 as wholes (RFC 9114 section 7). h3 keeps the pieces in which an unfinished
//! frame arrives, and each piece keeps the whole datagram: a peer that sends a byte a datagram
//! makes it hold a thousand times what it sent. So pieces are copied together here, up to a bound,
//! and h3 gets frames that are complete. DATA goes to it as it comes, but for empty frames: h3
//! 0.0.8 tells one as it tells the end of a body (frame.rs, `poll_data`).
//!
//! h3 gets one piece at a time. It asks for more at each step, before it looks at what it has, and
//! a step takes one frame's header or one frame's data: with more than that in a piece, short
//! frames would make it collect what the peer sends, faster than anybody reads it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use fullpipe_noq_repairs::wire::Reader;
use tokio::sync::Notify;

use super::qpack::Instructions;
use super::rules::{
    CONTROL_STREAM, Code, Control, DATA, DECODER_STREAM, ENCODER_STREAM, Message, Peer, SETTINGS,
    Violation, stream_begins,
};

/// Bytes of unfinished frames that all streams of a connection hold together: a few of the largest
/// that each may have.
const MOST_HELD: usize = 256 * 1024;
/// Bytes of the largest frame. That is more than any header that either end takes.
pub(super) const MOST_OF_A_FRAME: usize = 64 * 1024;

/// State that the streams of one connection share.
#[derive(Clone, Debug)]
pub(super) struct Load(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    connection: Option<noq::Connection>,
    peer: Peer,
    held: AtomicUsize,
    has_settings: AtomicBool,
    settings: Notify,
    /// The reason why the connection was closed.
    violation: OnceLock<Violation>,
    /// The connection was closed because of the peer, here or by h3.
    is_broken: AtomicBool,
}

impl Load {
    pub(super) fn of(connection: noq::Connection, peer: Peer) -> Self {
        Self::new(Some(connection), peer)
    }

    fn new(connection: Option<noq::Connection>, peer: Peer) -> Self {
        Self(Arc::new(Inner {
            connection,
            peer,
            held: AtomicUsize::new(0),
            has_settings: AtomicBool::new(false),
            settings: Notify::new(),
            violation: OnceLock::new(),
            is_broken: AtomicBool::new(false),
        }))
    }

    /// The reason why the connection was closed, if the peer did what it may not.
    pub(super) fn violation(&self) -> Option<Violation> {
        self.0.violation.get().copied()
    }

    /// Closes the connection for this reason.
    pub(super) fn close(&self, violation: &Violation) {
        if let Some(connection) = &self.0.connection
            && connection.close_reason().is_none()
        {
            self.0.violation.get_or_init(|| *violation);
            self.breaks();
            connection.close(violation.code, violation.reason.as_bytes());
        }
    }

    /// This end closes the connection because of the peer.
    pub(super) fn breaks(&self) {
        self.0.is_broken.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Relaxed)
    }

    /// Ends when the peer's SETTINGS have come.
    pub(super) async fn has_settings(&self) {
        let notified = self.0.settings.notified();
        if !self.0.has_settings.load(Ordering::Relaxed) {
            notified.await;
        }
    }
}

/// The next piece of a stream.
#[derive(Debug)]
enum Next {
    /// The type of a unidirectional stream.
    Type,
    /// A frame.
    Frame,
    /// So many bytes of a DATA frame.
    Data(usize),
    /// Instructions of QPACK, which h3 does not read.
    Instructions(Instructions),
    /// Bytes that h3 does not read as frames.
    Anything,
}

/// The next piece that h3 gets.
#[derive(Debug)]
enum Given {
    /// The type of a unidirectional stream.
    Type,
    /// A whole frame, or the header of DATA.
    Frame,
    /// So many bytes of a DATA frame, or what is there of them.
    Data(usize),
    /// All that is there.
    Anything,
}

/// The order of a stream's frames.
#[derive(Debug)]
enum Order {
    Control(Control),
    Message(Message),
}

impl Order {
    fn begins(&self, peer: Peer, kind: usize, length: usize) -> Result<(), Violation> {
        match self {
            Self::Control(control) => control.begins(peer, kind, length),
            Self::Message(message) => message.begins(peer, kind),
        }
    }

    fn ends(&mut self, peer: Peer, kind: usize, payload: &[u8]) -> Result<(), Violation> {
        match self {
            Self::Control(control) => control.ends(kind, payload),
            Self::Message(message) => message.ends(peer, kind, payload),
        }
    }
}

/// The frames of one stream.
#[derive(Debug)]
pub(super) struct Whole {
    next: Next,
    order: Order,
    load: Load,
    /// The bytes that are complete, and were not given yet.
    complete: Bytes,
    /// The place in those that were given, which is behind that of `next`: what comes later may
    /// have no place there.
    given: Given,
    /// The beginning of something that is not complete.
    held: Vec<u8>,
    /// The bytes that it takes to know more.
    needed: usize,
}

impl Whole {
    /// The frames of a request, or of its answer.
    pub(super) fn of_request(load: Load) -> Self {
        Self::new(Next::Frame, Order::Message(Message::default()), load)
    }

    /// A unidirectional stream. Those without frames have no order.
    pub(super) fn of_uni(load: Load) -> Self {
        Self::new(Next::Type, Order::Control(Control::default()), load)
    }

    fn new(next: Next, order: Order, load: Load) -> Self {
        let given = if matches!(next, Next::Type) { Given::Type } else { Given::Frame };
        let (complete, held) = (Bytes::new(), Vec::new());
        Self { next, order, load, complete, given, held, needed: 0 }
    }

    /// Takes what has arrived. All that came before has been given.
    ///
    /// # Errors
    /// A frame is too long or has no place here, or the connection's streams hold too much.
    pub(super) fn take(&mut self, arrived: Bytes) -> Result<(), Violation> {
        let mut all = if self.held.is_empty() {
            arrived
        } else {
            self.hold(&arrived)?;
            if self.held.len() < self.needed {
                return Ok(());
            }
            self.release()
        };
        let complete = self.complete(&all)?;
        self.complete = all.split_to(complete);
        self.hold(&all)
    }

    /// The next piece for h3, never empty; `None` if there is nothing yet.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        while !self.complete.is_empty() {
            let all = self.complete.len();
            let mut rest = Reader(&self.complete);
            let mut is_empty_data = false;
            match self.given {
                Given::Anything => return Some(std::mem::take(&mut self.complete)),
                Given::Data(left) => {
                    let here = left.min(all);
                    self.given = if here < left { Given::Data(left - here) } else { Given::Frame };
                    return Some(self.complete.split_to(here));
                }
                Given::Type => {
                    let is_control = rest.size() == Some(CONTROL_STREAM);
                    self.given = if is_control { Given::Frame } else { Given::Anything };
                }
                Given::Frame => match (rest.size(), rest.size()) {
                    (Some(DATA), Some(0)) => is_empty_data = true,
                    (Some(DATA), Some(length)) => self.given = Given::Data(length),
                    (_, length) => drop(length.and_then(|length| rest.take(length))),
                },
            }
            let bytes = all - rest.0.len();
            let piece = self.complete.split_to(bytes);
            if !is_empty_data {
                return Some(piece);
            }
        }
        None
    }

    /// The rest at the end of the stream, for h3 to judge; `None` if there is none. It takes DATA
    /// that is cut off for whole.
    ///
    /// # Errors
    /// The stream ends within a DATA frame (RFC 9114 section 7.1).
    pub(super) fn rest(&mut self) -> Result<Option<Bytes>, Violation> {
        match self.next {
            Next::Data(_) => Err(Violation::new(Code::Frame, "a DATA frame is cut off")),
            _ => Ok(Some(self.release()).filter(|rest| !rest.is_empty())),
        }
    }

    /// The instructions of a QPACK stream, once its type has been given, and what came of them.
    pub(super) fn instructions(&mut self) -> Option<(Instructions, Bytes)> {
        match std::mem::replace(&mut self.next, Next::Anything) {
            Next::Instructions(instructions) => Some((instructions, self.release())),
            next => {
                self.next = next;
                None
            }
        }
    }

    /// Closes the connection for this reason.
    pub(super) fn close_connection(&self, violation: &Violation) {
        self.load.close(violation);
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let before = self.load.0.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.held.extend_from_slice(bytes);
        if before + bytes.len() > MOST_HELD {
            return Err(Violation::too_much("too much of unfinished frames"));
        }
        Ok(())
    }

    fn release(&mut self) -> Bytes {
        self.load.0.held.fetch_sub(self.held.len(), Ordering::Relaxed);
        std::mem::take(&mut self.held).into()
    }

    /// The bytes that belong to what is complete.
    fn complete(&mut self, all: &[u8]) -> Result<usize, Violation> {
        let peer = self.load.0.peer;
        let mut rest = Reader(all);
        let mut done = 0;
        while !rest.0.is_empty() {
            let left = rest.0.len();
            match self.next {
                Next::Anything => return Ok(all.len()),
                Next::Instructions(_) => break,
                Next::Data(bytes) => {
                    let here = bytes.min(left);
                    rest.take(here);
                    self.next = if here < bytes { Next::Data(bytes - here) } else { Next::Frame };
                }
                Next::Type => {
                    let Some(kind) = rest.size() else {
                        self.needed = left + 1;
                        break;
                    };
                    stream_begins(peer, kind)?;
                    self.next = match kind {
                        CONTROL_STREAM => Next::Frame,
                        ENCODER_STREAM => Next::Instructions(Instructions::Encoder),
                        DECODER_STREAM => Next::Instructions(Instructions::Decoder(None)),
                        _ => Next::Anything,
                    };
                }
                Next::Frame => {
                    let (Some(kind), Some(length)) = (rest.size(), rest.size()) else {
                        self.needed = left + 1;
                        break;
                    };
                    self.order.begins(peer, kind, length)?;
                    if kind == DATA {
                        self.order.ends(peer, kind, &[])?;
                        if length > 0 {
                            self.next = Next::Data(length);
                        }
                    } else if length > MOST_OF_A_FRAME {
                        return Err(Violation::too_much("a frame is too long"));
                    } else if let Some(payload) = rest.take(length) {
                        self.order.ends(peer, kind, payload)?;
                        if kind == SETTINGS {
                            self.load.0.has_settings.store(true, Ordering::Relaxed);
                            self.load.0.settings.notify_waiters();
                        }
                    } else {
                        self.needed = left - rest.0.len() + length;
                        break;
                    }
                }
            }
            done = all.len() - rest.0.len();
        }
        Ok(done)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Datagrams that are kept.
    static KEPT: AtomicUsize = AtomicUsize::new(0);

    struct Datagram(Vec<u8>);

    impl AsRef<[u8]> for Datagram {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Datagram {
        fn drop(&mut self) {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// One byte of a datagram.
    fn byte_of_a_datagram(byte: u8) -> Bytes {
        KEPT.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Datagram(vec![byte; 1200])).slice(600..601)
    }

    fn load() -> Load {
        Load::new(None, Peer::Client)
    }

    impl Whole {
        /// All pieces of what has arrived.
        fn pieces(&mut self, arrived: Bytes) -> Result<Vec<Bytes>, Violation> {
            self.take(arrived)?;
            Ok(std::iter::from_fn(|| self.next()).collect())
        }
    }

    #[test]
    fn an_unfinished_frame_keeps_its_bytes_and_no_datagram() {
        let load = load();
        let mut stream = Whole::of_uni(load.clone());
        // A control stream with SETTINGS of 10,000 bytes.
        for byte in [&[0, 4, 0x67, 0x10][..], &[7; 9_999]].concat() {
            let ready = stream.pieces(byte_of_a_datagram(byte)).expect("within the bounds");
            assert!(ready.concat().len() <= 1, "the type alone");
        }
        assert_eq!(KEPT.load(Ordering::Relaxed), 0);
        assert_eq!(load.0.held.load(Ordering::Relaxed), 10_002);
        let whole = stream.pieces(byte_of_a_datagram(7)).expect("within the bounds");
        assert_eq!(whole.concat().len(), 10_003);
        assert_eq!(load.0.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_h3_gets_is_what_came_but_for_empty_data() {
        // HEADERS, DATA, empty DATA, also with more bytes for the length than it takes, DATA, an
        // unknown frame, and the beginning of HEADERS.
        let before = [1, 3, 0, 0, 0xd1, 0, 4, 8, 8, 8, 8];
        let behind = [0, 1, 9, 0x40, 0x21, 2, 7, 7, 1, 0x40, 90, 6, 6];
        let stream = [&before[..], &[0, 0, 0, 0x40, 0], &behind].concat();
        let for_h3 = [&before[..], &behind].concat();
        for size in 1..stream.len() {
            let mut whole = Whole::of_request(load());
            let mut got = Vec::new();
            for piece in stream.chunks(size) {
                let ready = whole.pieces(Bytes::copy_from_slice(piece)).expect("within the bounds");
                got.extend_from_slice(&ready.concat());
            }
            assert_eq!(got, for_h3[..for_h3.len() - 5], "pieces of {size}");
            got.extend_from_slice(&whole.rest().expect("a whole end").unwrap_or_default());
            assert_eq!(got, for_h3);
        }
    }

    #[test]
    fn data_and_other_peoples_streams_are_not_held() {
        let mut request = Whole::of_request(load());
        // HEADERS, and DATA of 2^61 bytes.
        let begin = Bytes::from_static(&[1, 2, 0, 0, 0, 0xe0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        let pieces = [&begin[..4], &begin[4..13], &begin[13..]].map(Bytes::copy_from_slice);
        assert_eq!(request.pieces(begin), Ok(pieces.to_vec()));
        let more = Bytes::from_static(&[4; 1000]);
        assert_eq!(request.pieces(more.clone()), Ok(vec![more]));
        let mut unknown = Whole::of_uni(load());
        let pieces = [&[0x21][..], &[1, 0x7f]].map(Bytes::from_static);
        assert_eq!(unknown.pieces(Bytes::from_static(&[0x21, 1, 0x7f])), Ok(pieces.to_vec()));
        // h3 hears of QPACK's streams that they are there.
        let mut encoder = Whole::of_uni(load());
        let kind = encoder.pieces(Bytes::from_static(&[2, 0x20]));
        assert_eq!(kind, Ok(vec![Bytes::from_static(&[2])]));
        let (_, begun) = encoder.instructions().expect("its type has come");
        assert_eq!(&*begun, [0x20]);
    }

    #[test]
    fn there_is_a_bound_for_a_frame_and_for_all_streams() {
        let length = [0x80, 1, 0, 1];
        let mut long = Whole::of_request(load());
        let frame = Bytes::from([&[1][..], &length].concat());
        assert_eq!(long.pieces(frame), Err(Violation::too_much("a frame is too long")));
        let load = load();
        let frame = Bytes::from([&[1, 0x80, 0, 0xff, 0xff][..], &[0; 50_000]].concat());
        let mut streams: Vec<_> = (0..6).map(|_| Whole::of_request(load.clone())).collect();
        let taken: Vec<_> =
            streams.iter_mut().map(|one| one.pieces(frame.clone()).is_ok()).collect();
        assert_eq!(taken, [true, true, true, true, true, false]);
        drop(streams);
        assert_eq!(load.0.held.load(Ordering::Relaxed), 0);
    }
}
