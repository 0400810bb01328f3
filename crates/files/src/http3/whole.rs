//! Frames of HTTP/3 as wholes (RFC 9114 section 7). h3 keeps the pieces in which an unfinished
//! frame arrives, and each piece keeps the whole datagram: a peer that sends a byte a datagram
//! makes it hold a thousand times what it sent. So pieces are copied together here, up to a bound,
//! and h3 gets frames that are complete. DATA goes to it as it comes, but for empty frames: h3 0.0.8
//! tells one as it tells the end of a body (frame.rs, `poll_data`).

use std::ops::Range;
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
        Self { next, order, load, held: Vec::new(), needed: 0 }
    }

    /// Takes what has arrived, and gives what h3 may have; empty if that is nothing yet.
    ///
    /// # Errors
    /// A frame is too long or has no place here, or the connection's streams hold too much.
    pub(super) fn take(&mut self, arrived: Bytes) -> Result<Bytes, Violation> {
        let mut all = if self.held.is_empty() {
            arrived
        } else {
            self.hold(&arrived)?;
            if self.held.len() < self.needed {
                return Ok(Bytes::new());
            }
            self.release()
        };
        let mut empty = Vec::new();
        let complete = self.complete(&all, &mut empty)?;
        let ready = all.split_to(complete);
        self.hold(&all)?;
        Ok(without(ready, &empty))
    }

    /// The rest at the end of the stream, for h3 to judge. It takes DATA that is cut off for whole.
    ///
    /// # Errors
    /// The stream ends within a DATA frame (RFC 9114 section 7.1).
    pub(super) fn rest(&mut self) -> Result<Bytes, Violation> {
        match self.next {
            Next::Data(_) => Err(Violation::new(Code::Frame, "a DATA frame is cut off")),
            _ => Ok(self.release()),
        }
    }

    /// The instructions of a QPACK stream, once its type has come, and what came of them.
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

    /// The bytes that belong to what is complete, and the places of empty DATA frames in them.
    fn complete(&mut self, all: &[u8], empty: &mut Vec<Range<usize>>) -> Result<usize, Violation> {
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
                        } else {
                            empty.push(all.len() - left..all.len() - rest.0.len());
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

/// The bytes that are at none of these places, which are in order. Without a place, this copies
/// nothing.
fn without(all: Bytes, places: &[Range<usize>]) -> Bytes {
    if places.is_empty() {
        return all;
    }
    let (mut kept, mut from) = (Vec::with_capacity(all.len()), 0);
    for place in places {
        kept.extend_from_slice(&all[from..place.start]);
        from = place.end;
    }
    kept.extend_from_slice(&all[from..]);
    kept.into()
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

    #[test]
    fn an_unfinished_frame_keeps_its_bytes_and_no_datagram() {
        let load = load();
        let mut stream = Whole::of_uni(load.clone());
        // A control stream with SETTINGS of 10,000 bytes.
        for byte in [&[0, 4, 0x67, 0x10][..], &[7; 9_999]].concat() {
            let ready = stream.take(byte_of_a_datagram(byte)).expect("within the bounds");
            assert!(ready.len() <= 1, "the type alone");
        }
        assert_eq!(KEPT.load(Ordering::Relaxed), 0);
        assert_eq!(load.0.held.load(Ordering::Relaxed), 10_002);
        let whole = stream.take(byte_of_a_datagram(7)).expect("within the bounds");
        assert_eq!(whole.len(), 10_003);
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
                let ready = whole.take(Bytes::copy_from_slice(piece)).expect("within the bounds");
                got.extend_from_slice(&ready);
            }
            assert_eq!(got, for_h3[..for_h3.len() - 5], "pieces of {size}");
            got.extend_from_slice(&whole.rest().expect("a whole end"));
            assert_eq!(got, for_h3);
        }
    }

    #[test]
    fn data_and_other_peoples_streams_are_not_held() {
        let mut request = Whole::of_request(load());
        // HEADERS, and DATA of 2^61 bytes.
        let begin = Bytes::from_static(&[1, 2, 0, 0, 0, 0xe0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]);
        assert_eq!(request.take(begin.clone()), Ok(begin));
        let more = Bytes::from_static(&[4; 1000]);
        assert_eq!(request.take(more.clone()), Ok(more));
        let mut unknown = Whole::of_uni(load());
        let begin = Bytes::from_static(&[0x21, 1, 0x7f]);
        assert_eq!(unknown.take(begin.clone()), Ok(begin));
        // h3 hears of QPACK's streams that they are there.
        let mut encoder = Whole::of_uni(load());
        let kind = encoder.take(Bytes::from_static(&[2, 0x20]));
        assert_eq!(kind, Ok(Bytes::from_static(&[2])));
        let (_, begun) = encoder.instructions().expect("its type has come");
        assert_eq!(&*begun, [0x20]);
    }

    #[test]
    fn there_is_a_bound_for_a_frame_and_for_all_streams() {
        let length = [0x80, 1, 0, 1];
        let mut long = Whole::of_request(load());
        let frame = Bytes::from([&[1][..], &length].concat());
        assert_eq!(long.take(frame), Err(Violation::too_much("a frame is too long")));
        let load = load();
        let frame = Bytes::from([&[1, 0x80, 0, 0xff, 0xff][..], &[0; 50_000]].concat());
        let mut streams: Vec<_> = (0..6).map(|_| Whole::of_request(load.clone())).collect();
        let taken: Vec<_> = streams.iter_mut().map(|one| one.take(frame.clone()).is_ok()).collect();
        assert_eq!(taken, [true, true, true, true, true, false]);
        drop(streams);
        assert_eq!(load.0.held.load(Ordering::Relaxed), 0);
    }
}
