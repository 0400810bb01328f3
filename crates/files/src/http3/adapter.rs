//! noq behind the traits of the h3 crate.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use noq::{ConnectionError, ReadError, VarInt};

use super::NO_ERROR;
use super::critical::{Critical, Qpack};
use super::errors::{of_connection, of_message, of_read, of_stream, of_violation, of_write};
use super::rules::{self, Peer, Violation};
use super::whole::{Load, Whole};
use crate::client::{CHUNKS_AT_ONCE, Early};

/// Most bytes that are read of a client's request: h3 keeps a header until it is complete.
const MOST_OF_A_REQUEST: u64 = 32 * 1024;
/// Most bytes that are read of each of a client's unidirectional streams, which carry settings and
/// priorities.
const MOST_OF_CONTROL: u64 = 256 * 1024;

type BoxedFuture<T> = Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send + Sync>>;
type Pair = (noq::SendStream, noq::RecvStream);

/// A connection of noq as h3 sees it.
pub(super) struct Connection {
    opener: Opener,
    accepting_bi: Option<BoxedFuture<Pair>>,
    accepting_uni: Option<BoxedFuture<noq::RecvStream>>,
    streams: Streams,
    /// True if what the peer sends is bounded: that of a server's client is.
    bounded: bool,
    /// Of a client that began before its handshake was done.
    early: Option<Early>,
    load: Load,
    critical: Critical,
}

impl Connection {
    pub(super) fn of_client(connection: noq::Connection, early: Option<Early>) -> Self {
        Self::new(connection, Peer::Server, early)
    }

    pub(super) fn of_server(connection: noq::Connection) -> Self {
        Self::new(connection, Peer::Client, None)
    }

    fn new(connection: noq::Connection, peer: Peer, early: Option<Early>) -> Self {
        let load = Load::of(connection.clone(), peer);
        let opener = Opener {
            connection,
            early: early.clone(),
            opening_bi: None,
            opening_uni: None,
            load: load.clone(),
        };
        Self {
            opener,
            accepting_bi: None,
            accepting_uni: None,
            streams: Streams::default(),
            bounded: peer == Peer::Client,
            early,
            load,
            critical: Critical::default(),
        }
    }

    /// State that its streams share.
    pub(super) fn load(&self) -> Load {
        self.load.clone()
    }

    /// The streams of the requests that arrive.
    pub(super) fn streams(&self) -> Streams {
        self.streams.clone()
    }
}

/// A stream of noq that h3 writes to until somebody takes it out.
type Slot = Arc<Mutex<Option<noq::SendStream>>>;

/// The sending sides of the requests that arrived. A body is written to noq's stream itself: h3
/// would keep a block of it for each stream that takes nothing.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<HashMap<StreamId, Slot>>>);

impl Streams {
    fn map(&self) -> MutexGuard<'_, HashMap<StreamId, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a stream from h3, which can then not write to it any more.
    pub(super) fn take(&self, id: StreamId) -> Option<noq::SendStream> {
        let slot = self.map().remove(&id)?;
        slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        if let Err(violation) = self.critical.poll(cx) {
            self.load.close(&violation);
            return Poll::Ready(Err(of_violation(&violation)));
        }
        let connection = &self.opener.connection;
        let accepting = self.accepting_uni.get_or_insert_with(|| {
            let (connection, early) = (connection.clone(), self.early.clone());
            Box::pin(async move {
                if let Some(early) = early {
                    early.taken().await;
                }
                connection.accept_uni().await
            })
        });
        let accepted = ready!(accepting.as_mut().poll(cx));
        self.accepting_uni = None;
        let most = self.bounded.then_some(MOST_OF_CONTROL);
        let frames = Whole::of_uni(self.load.clone());
        let recv = accepted.map_err(of_connection)?;
        let critical = Some(self.critical.clone());
        Poll::Ready(Ok(RecvStream::new(recv, critical, most, frames)))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let connection = &self.opener.connection;
        let accepting = self.accepting_bi.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_bi().await })
        });
        let accepted = ready!(accepting.as_mut().poll(cx));
        self.accepting_bi = None;
        let (send, recv) = accepted.map_err(of_connection)?;
        let send = SendStream::new(send, Some(self.streams.clone()));
        self.streams.map().insert(send.id, send.slot.clone());
        let most = self.bounded.then_some(MOST_OF_A_REQUEST);
        let recv = RecvStream::new(recv, None, most, Whole::of_request(self.load.clone()));
        Poll::Ready(Ok(BidiStream { send, recv }))
    }

    fn opener(&self) -> Self::OpenStreams {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let mut opened: Self::SendStream = ready!(self.opener.poll_open_send(cx))?;
        opened.with(|stream| self.critical.opened(stream))?;
        Poll::Ready(Ok(opened))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.opener, code, reason);
    }
}

/// Opens streams of a connection.
pub(crate) struct Opener {
    connection: noq::Connection,
    early: Option<Early>,
    opening_bi: Option<BoxedFuture<Pair>>,
    opening_uni: Option<BoxedFuture<noq::SendStream>>,
    load: Load,
}

impl Clone for Opener {
    fn clone(&self) -> Self {
        let (connection, early) = (self.connection.clone(), self.early.clone());
        let load = self.load.clone();
        Self { connection, early, opening_bi: None, opening_uni: None, load }
    }
}

impl<B: Buf> quic::OpenStreams<B> for Opener {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let connection = &self.connection;
        let opening = self.opening_bi.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.open_bi().await })
        });
        let opened = ready!(opening.as_mut().poll(cx));
        self.opening_bi = None;
        let (send, recv) = opened.map_err(of_stream)?;
        let recv = RecvStream::new(recv, None, None, Whole::of_request(self.load.clone()));
        let send = SendStream::new(send, None);
        Poll::Ready(Ok(BidiStream { send, recv }))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let connection = &self.connection;
        let opening = self.opening_uni.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        let opened = ready!(opening.as_mut().poll(cx));
        self.opening_uni = None;
        Poll::Ready(opened.map(|send| SendStream::new(send, None)).map_err(of_stream))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        // What the server did not take ends, and the connection goes on.
        let gone = self.early.as_ref().is_some_and(Early::is_rejected);
        // h3 closes what has ended as well, and noq would forget why it ended.
        if self.connection.close_reason().is_none() && !gone {
            if !matches!(code, Code::H3_NO_ERROR | Code::H3_INTERNAL_ERROR) {
                self.load.breaks();
            }
            self.connection.close(var_int(code.value()), reason);
        }
    }
}

/// Both sides of a request.
pub(crate) struct BidiStream<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<D: Into<WriteBuf<B>>>(&mut self, data: D) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

/// The sending side of a stream.
pub(crate) struct SendStream<B: Buf> {
    slot: Slot,
    id: StreamId,
    /// The streams from which the slot can be taken.
    streams: Option<Streams>,
    writing: Option<WriteBuf<B>>,
    /// True if something was written.
    is_begun: bool,
}

impl<B: Buf> SendStream<B> {
    fn new(stream: noq::SendStream, streams: Option<Streams>) -> Self {
        let id = stream_id(stream.id());
        let slot = Arc::new(Mutex::new(Some(stream)));
        Self { slot, id, streams, writing: None, is_begun: false }
    }

    fn with<T>(
        &mut self,
        act: impl FnOnce(&mut noq::SendStream) -> T,
    ) -> Result<T, StreamErrorIncoming> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_mut().map(act).ok_or_else(|| StreamErrorIncoming::Unknown("it was taken".into()))
    }
}

impl<B: Buf> Drop for SendStream<B> {
    /// noq would end the stream, as if no answer or a part of a header were the whole (RFC 9114
    /// section 4.1.1).
    fn drop(&mut self) {
        let Some(streams) = &self.streams else { return };
        streams.map().remove(&self.id);
        let code = match (self.is_begun, &self.writing) {
            (false, _) => rules::Code::RequestRejected,
            (true, Some(_)) => rules::Code::RequestCancelled,
            (true, None) => return,
        };
        // One that is reset already, or in other hands, needs none.
        let _ = self.with(|stream| stream.reset(code.var_int()));
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(mut data) = self.writing.take() {
            if !data.has_remaining() {
                break;
            }
            let written = self.with(|stream| Pin::new(stream).poll_write(cx, data.chunk()))?;
            match written {
                Poll::Ready(Ok(bytes)) => data.advance(bytes),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(of_write(error))),
                Poll::Pending => {
                    self.writing = Some(data);
                    return Poll::Pending;
                }
            }
            self.writing = Some(data);
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<D: Into<WriteBuf<B>>>(&mut self, data: D) -> Result<(), StreamErrorIncoming> {
        self.is_begun = true;
        // h3 waits for poll_ready between two of them.
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let finished = self.with(noq::SendStream::finish)?;
        Poll::Ready(finished.map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, reset_code: u64) {
        // A stream that is closed already, or in other hands, needs none.
        let _ = self.with(|stream| stream.reset(var_int(reset_code)));
    }

    fn send_id(&self) -> StreamId {
        self.id
    }
}

/// The receiving side of a stream.
pub(crate) struct RecvStream {
    id: StreamId,
    /// `None` once it is in other hands.
    stream: Option<noq::RecvStream>,
    /// The hands into which a QPACK stream goes; of a unidirectional stream.
    critical: Option<Critical>,
    /// Pieces that one look at a stream without a bound took.
    read_ahead: VecDeque<Bytes>,
    /// Bytes that may still be read.
    left: Option<u64>,
    ended: bool,
    /// The message is malformed: nothing of it is read any more.
    malformed: Option<Violation>,
    frames: Whole,
}

impl RecvStream {
    fn new(
        stream: noq::RecvStream,
        critical: Option<Critical>,
        left: Option<u64>,
        frames: Whole,
    ) -> Self {
        let (id, read_ahead) = (stream_id(stream.id()), VecDeque::new());
        let stream = Some(stream);
        Self { id, stream, critical, read_ahead, left, ended: false, malformed: None, frames }
    }

    /// The next piece of the stream; `None` at its end. Of a stream that is bounded, no more is
    /// read than is used.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ReadError>> {
        if let Some(next) = self.read_ahead.pop_front() {
            return Poll::Ready(Ok(Some(next)));
        }
        // Of a QPACK stream, h3 reads the type alone.
        let Some(stream) = &mut self.stream else { return Poll::Pending };
        if self.left.is_some() {
            return pin!(stream.read_chunk(usize::MAX)).poll(cx);
        }
        let mut chunks = [const { Bytes::new() }; CHUNKS_AT_ONCE];
        let read = ready!(pin!(stream.read_many_chunks(&mut chunks)).poll(cx));
        let Some(count) = read? else { return Poll::Ready(Ok(None)) };
        self.read_ahead.extend(chunks.into_iter().take(count));
        Poll::Ready(Ok(self.read_ahead.pop_front()))
    }

    /// Takes what has arrived.
    fn take(&mut self, chunk: Bytes) -> Result<(), Violation> {
        if let Some(left) = &mut self.left {
            let rest = left.checked_sub(chunk.len() as u64);
            *left = rest.ok_or(Violation::too_much("too much on one stream"))?;
        }
        self.frames.take(chunk)
    }

    /// Hands a QPACK stream over once its type has come.
    fn hand_over(&mut self, cx: &mut Context<'_>) {
        let Some(critical) = &self.critical else { return };
        if let Some((instructions, begun)) = self.frames.instructions()
            && let Some(stream) = self.stream.take()
        {
            let mut read = std::mem::take(&mut self.read_ahead);
            read.push_front(begun);
            critical.add(Qpack::new(stream, instructions, read, self.left));
            // So that it is polled there.
            cx.waker().wake_by_ref();
        }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        if let Some(violation) = &self.malformed {
            return Poll::Ready(Err(of_message(violation)));
        }
        while !self.ended {
            let next = match self.frames.next() {
                Some(piece) => Ok(Some(piece)),
                None => match ready!(self.poll_next(cx)).map_err(of_read)? {
                    Some(chunk) => self.take(chunk).map(|()| None),
                    None => {
                        self.ended = true;
                        self.frames.rest()
                    }
                },
            };
            match next {
                Ok(None) => {}
                Ok(Some(piece)) => {
                    self.hand_over(cx);
                    return Poll::Ready(Ok(Some(piece)));
                }
                Err(violation) if violation.is_of_a_message() => {
                    self.malformed = Some(violation);
                    quic::RecvStream::stop_sending(self, violation.code.into_inner());
                    return Poll::Ready(Err(of_message(&violation)));
                }
                Err(violation) => {
                    self.frames.close_connection(&violation);
                    let connection_error = of_violation(&violation);
                    return Poll::Ready(Err(StreamErrorIncoming::ConnectionErrorIncoming {
                        connection_error,
                    }));
                }
            }
        }
        Poll::Ready(Ok(None))
    }

    fn stop_sending(&mut self, error_code: u64) {
        if let Some(stream) = &mut self.stream {
            // A stream that has ended needs none.
            let _ = stream.stop(var_int(error_code));
        }
    }

    fn recv_id(&self) -> StreamId {
        self.id
    }
}

impl Drop for RecvStream {
    /// noq itself would say code 0, which is none of HTTP/3's.
    fn drop(&mut self) {
        if let Some(stream) = self.stream.as_mut().filter(|_| !self.ended) {
            let _ = stream.stop(NO_ERROR);
        }
    }
}

fn var_int(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

/// Both are the 62 bits of RFC 9000 section 2.1.
fn stream_id(id: noq::StreamId) -> StreamId {
    let id = u64::from(VarInt::from(id));
    StreamId::try_from(id).unwrap_or_else(|_| unreachable!("a stream ID of noq has 62 bits"))
}
