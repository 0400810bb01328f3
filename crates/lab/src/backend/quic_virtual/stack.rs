//! Interface of a QUIC stack without its sockets. quinn-proto and noq-proto, which is a fork of it,
//! have most of it under the same names, and [`alike`] is that part; a stack's file is the rest.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fullpipe_cc::{BandwidthProbe, Rate, SavedParameters, Snapshot};
use fullpipe_noq::{Marks, TransportSettings, Unsent};
use fullpipe_path::Ecn;
use fullpipe_report::observe::FlowSample;
use fullpipe_scenario::Cc;
use fullpipe_traffic::SenderStats;

use super::foreign::Gap;
use crate::backend::RunError;
use crate::backend::quic::identity::Identity;

/// A stack, by the types and functions of its crate.
pub(in crate::backend) trait Stack: Sized + Send + Sync + 'static {
    /// The backend's name on the command line.
    const NAMED: fullpipe_scenario::Stack;

    type Endpoint;
    type Connection;
    type ClientConfig;
    type ServerConfig;
    /// TLS of a flow's clients.
    type Tls: Clone + Send;
    /// Names a connection to its endpoint.
    type Handle: Copy + Eq + std::hash::Hash;
    /// The part of a datagram that is a connection's.
    type Event;
    /// A connection that a client opens.
    type Incoming;
    type StreamId: Copy + Ord;
    /// A congestion control of this stack.
    type Control: Copy;
    /// Pacing below the stack, of one connection.
    type Pacing: Default;
    /// The knowledge of one controller of the stack's own from before.
    type View: Default;

    /// Variables of a snapshot that [`Self::view`] leaves without a meaning.
    const GAPS: &'static [Gap];

    /// The congestion control by this name; `None` if it has none.
    fn control(cc: Cc) -> Option<Self::Control>;
    /// The configuration of a flow's server, which sends requests and acknowledgements.
    fn server(
        identity: &Identity,
        settings: &TransportSettings,
        seed: u64,
    ) -> Result<Self::ServerConfig, RunError>;
    /// TLS of a flow's clients.
    fn tls(identity: &Identity) -> Result<Self::Tls, RunError>;
    /// TLS of one connection of L4S, which puts what its peer counts into `marks`.
    fn hearing(tls: Self::Tls, marks: &Marks) -> Self::Tls;
    /// The configuration of a connection's client, without its congestion control. The ID of the
    /// first packet is `number`.
    fn client(tls: Self::Tls, number: u64) -> Self::ClientConfig;
    /// Sets a client's congestion control.
    fn set_control(
        client: &mut Self::ClientConfig,
        settings: &TransportSettings,
        control: Self::Control,
        own: Own,
    );

    /// An endpoint; `seed` determines the randomness of its connections.
    fn endpoint(seed: [u8; 32], server: Option<Arc<Self::ServerConfig>>) -> Self::Endpoint;
    fn connect(
        endpoint: &mut Self::Endpoint,
        now: Instant,
        client: Self::ClientConfig,
        name: &str,
    ) -> Option<(Self::Handle, Self::Connection)>;
    /// A datagram arrives. An answer that is no connection's is written into `reply`.
    fn arrive(
        endpoint: &mut Self::Endpoint,
        now: Instant,
        ecn: Ecn,
        datagram: &[u8],
        reply: &mut Vec<u8>,
    ) -> Arrival<Self>;
    /// Accepts a connection, with the ID of its first packet; `None` if its handshake fails at
    /// once.
    fn accept(
        endpoint: &mut Self::Endpoint,
        now: Instant,
        incoming: Self::Incoming,
        server: Option<Arc<Self::ServerConfig>>,
    ) -> Option<(u64, Self::Handle, Self::Connection)>;
    /// Lets an endpoint and its connection tell each other what they have to.
    fn confer(
        endpoint: &mut Self::Endpoint,
        handle: Self::Handle,
        connection: &mut Self::Connection,
    );

    fn handle_event(connection: &mut Self::Connection, event: Self::Event);
    fn handle_timeout(connection: &mut Self::Connection, now: Instant);
    fn poll_timeout(connection: &mut Self::Connection) -> Option<Instant>;
    /// News of a connection. Streams that may have data are put into `readable`.
    fn poll(
        connection: &mut Self::Connection,
        readable: &mut BTreeSet<Self::StreamId>,
    ) -> Option<News>;
    /// Makes the next datagrams, up to [`BATCH`], in `bytes`, which is empty. Not to be called
    /// while a part of those before waits.
    fn poll_transmit(
        connection: &mut Self::Connection,
        pacing: &mut Self::Pacing,
        now: Instant,
        bytes: &mut Vec<u8>,
    ) -> Option<Batch>;
    /// Takes the next part of a batch.
    fn leave(pacing: &mut Self::Pacing, now: Instant, batch: &Batch) -> Leave;
    fn is_closed(connection: &Self::Connection) -> bool;
    fn is_drained(connection: &Self::Connection) -> bool;
    fn close(connection: &mut Self::Connection, now: Instant);

    /// Opens a stream to write to.
    fn open(connection: &mut Self::Connection) -> Option<Self::StreamId>;
    /// The number of bytes that a stream took; 0 if it takes none now.
    fn write(connection: &mut Self::Connection, id: Self::StreamId, data: Bytes) -> usize;
    fn finish(connection: &mut Self::Connection, id: Self::StreamId);
    /// Abandons a stream: what of it has not arrived is not sent any more.
    fn reset(connection: &mut Self::Connection, id: Self::StreamId);
    /// Reads all that a stream has: the number of bytes, and true if it has ended. `None` for a
    /// stream that is over.
    fn read(connection: &mut Self::Connection, id: Self::StreamId) -> Option<(u64, bool)>;

    /// The number of ACK frames that came.
    fn acks(connection: &mut Self::Connection) -> u64;
    /// The counters at the sender.
    fn counters(connection: &mut Self::Connection) -> SenderStats;
    /// Congestion control now.
    fn sample(connection: &Self::Connection) -> Option<FlowSample>;
    /// The sender's model of the path; `None` where the controller is none of ours.
    fn snapshot(connection: &Self::Connection) -> Option<Snapshot>;
    /// Has the controller know whether the application has data; nothing where it is none of ours.
    fn set_unsent(connection: &Self::Connection, unsent: &Unsent);
    /// Asks the controller whether the path carries this rate; `None` where it is none of ours.
    fn probe_bandwidth(
        connection: &Self::Connection,
        now: Instant,
        target: Rate,
    ) -> Option<BandwidthProbe>;
    /// The model of the stack's own BBR, by its printed text; an error where the controller is
    /// none.
    fn view(connection: &Self::Connection, view: &mut Self::View) -> Result<Snapshot, RunError>;
}

/// The part of a congestion control that is one connection's. The stack's own algorithms take
/// nothing of it.
pub(in crate::backend) struct Own {
    /// The seed of what it draws.
    pub(super) seed: u64,
    /// Parameters that an earlier connection left.
    pub(super) saved: Option<SavedParameters>,
    /// The marks that are counted, of a connection of L4S.
    pub(super) marks: Option<Marks>,
}

/// A datagram's meaning to an endpoint.
pub(in crate::backend) enum Arrival<S: Stack> {
    Of(S::Handle, S::Event),
    Opens(S::Incoming),
    /// It is answered with so many bytes.
    Answered(usize),
    Nothing,
}

/// News of a connection for its application.
pub(in crate::backend) enum News {
    Connected,
    Lost,
    /// The peer has all of a stream.
    Acknowledged,
    Other,
}

/// Datagrams of one size that were made together; the last may be smaller.
pub(in crate::backend) struct Batch {
    pub(super) size: usize,
    pub(super) segment_size: Option<usize>,
    pub(super) ecn: Ecn,
}

/// The answer of the pacing below the stack to a batch.
pub(in crate::backend) enum Leave {
    /// These of its bytes leave now, with this codepoint.
    Now(Range<usize>, Ecn),
    /// Nothing leaves before this time, if nothing happens until then. noq never says so.
    #[cfg_attr(not(feature = "quinn"), expect(dead_code))]
    At(Instant),
}

/// Datagrams that the drivers of both stacks ask for at a time.
pub(super) const BATCH: usize = 10;

/// The part of [`Stack`] that is the same for both crates.
macro_rules! alike {
    ($proto:ident) => {
        type Endpoint = $proto::Endpoint;
        type Connection = $proto::Connection;
        type ClientConfig = $proto::ClientConfig;
        type ServerConfig = $proto::ServerConfig;
        type Handle = $proto::ConnectionHandle;
        type Event = $proto::ConnectionEvent;
        type Incoming = $proto::Incoming;
        type StreamId = $proto::StreamId;
        type Tls = Arc<dyn $proto::crypto::ClientConfig>;

        fn tls(identity: &Identity) -> Result<Self::Tls, RunError> {
            use $proto::crypto::rustls::QuicClientConfig;
            let config = QuicClientConfig::try_from(identity.client()?).map_err(certificate)?;
            Ok(Arc::new(config))
        }

        fn hearing(tls: Self::Tls, marks: &Marks) -> Self::Tls {
            l4s_client(tls, marks)
        }

        fn client(tls: Self::Tls, number: u64) -> Self::ClientConfig {
            let mut client = Self::ClientConfig::new(tls);
            client.initial_dst_cid_provider(Arc::new(move || {
                $proto::ConnectionId::new(&number.to_be_bytes())
            }));
            client
        }

        fn connect(
            endpoint: &mut Self::Endpoint,
            now: Instant,
            client: Self::ClientConfig,
            name: &str,
        ) -> Option<(Self::Handle, Self::Connection)> {
            endpoint.connect(now, client, PEER, name).ok()
        }

        fn arrive(
            endpoint: &mut Self::Endpoint,
            now: Instant,
            ecn: Ecn,
            datagram: &[u8],
            reply: &mut Vec<u8>,
        ) -> Arrival<Self> {
            use $proto::{DatagramEvent, EcnCodepoint, Transmit};
            let ecn = match ecn {
                Ecn::NotEct => None,
                Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                Ecn::Ect1 => Some(EcnCodepoint::Ect1),
                Ecn::Ce => Some(EcnCodepoint::Ce),
            };
            match handle(endpoint, now, ecn, datagram.into(), reply) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => Arrival::Of(handle, event),
                Some(DatagramEvent::NewConnection(incoming)) => Arrival::Opens(incoming),
                Some(DatagramEvent::Response(Transmit { size, .. })) => Arrival::Answered(size),
                None => Arrival::Nothing,
            }
        }

        fn accept(
            endpoint: &mut Self::Endpoint,
            now: Instant,
            incoming: Self::Incoming,
            server: Option<Arc<Self::ServerConfig>>,
        ) -> Option<(u64, Self::Handle, Self::Connection)> {
            let id = incoming.orig_dst_cid();
            let Ok(number) = <[u8; 8]>::try_from(&id[..]).map(u64::from_be_bytes) else {
                endpoint.ignore(incoming);
                return None;
            };
            // A handshake that fails is the sender's to notice.
            let mut reply = Vec::new();
            let (handle, connection) = endpoint.accept(incoming, now, &mut reply, server).ok()?;
            Some((number, handle, connection))
        }

        fn confer(
            endpoint: &mut Self::Endpoint,
            handle: Self::Handle,
            connection: &mut Self::Connection,
        ) {
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = endpoint.handle_event(handle, event) {
                    connection.handle_event(event);
                }
            }
        }

        fn handle_event(connection: &mut Self::Connection, event: Self::Event) {
            connection.handle_event(event);
        }

        fn handle_timeout(connection: &mut Self::Connection, now: Instant) {
            connection.handle_timeout(now);
        }

        fn poll_timeout(connection: &mut Self::Connection) -> Option<Instant> {
            connection.poll_timeout()
        }

        fn poll(
            connection: &mut Self::Connection,
            readable: &mut BTreeSet<Self::StreamId>,
        ) -> Option<News> {
            use $proto::{Event, StreamEvent};
            match connection.poll()? {
                Event::Connected => return Some(News::Connected),
                Event::ConnectionLost { .. } => return Some(News::Lost),
                Event::Stream(StreamEvent::Finished { .. }) => return Some(News::Acknowledged),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = connection.streams().accept(dir) {
                        readable.insert(id);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    readable.insert(id);
                }
                _ => {}
            }
            Some(News::Other)
        }

        fn poll_transmit(
            connection: &mut Self::Connection,
            pacing: &mut Self::Pacing,
            now: Instant,
            bytes: &mut Vec<u8>,
        ) -> Option<Batch> {
            use $proto::{EcnCodepoint, Transmit};
            let made = transmit(connection, pacing, now, bytes)?;
            let Transmit { size, segment_size, ecn, .. } = made;
            let ecn = match ecn {
                None => Ecn::NotEct,
                Some(EcnCodepoint::Ect0) => Ecn::Ect0,
                Some(EcnCodepoint::Ect1) => Ecn::Ect1,
                Some(EcnCodepoint::Ce) => Ecn::Ce,
            };
            Some(Batch { size, segment_size, ecn })
        }

        fn is_closed(connection: &Self::Connection) -> bool {
            connection.is_closed()
        }

        fn is_drained(connection: &Self::Connection) -> bool {
            connection.is_drained()
        }

        fn close(connection: &mut Self::Connection, now: Instant) {
            connection.close(now, 0_u32.into(), Bytes::new());
        }

        fn open(connection: &mut Self::Connection) -> Option<Self::StreamId> {
            connection.streams().open($proto::Dir::Uni)
        }

        fn finish(connection: &mut Self::Connection, id: Self::StreamId) {
            // It fails for one that the peer has stopped, and nobody here does.
            let _ = connection.send_stream(id).finish();
        }

        fn reset(connection: &mut Self::Connection, id: Self::StreamId) {
            // It fails for one that the peer has stopped, and nobody here does.
            let _ = connection.send_stream(id).reset(0_u32.into());
        }

        fn read(connection: &mut Self::Connection, id: Self::StreamId) -> Option<(u64, bool)> {
            let mut stream = connection.recv_stream(id);
            let mut chunks = stream.read(true).ok()?;
            let (mut bytes, mut has_ended) = (0, false);
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
                    Ok(None) => {
                        has_ended = true;
                        break;
                    }
                    // Blocked, or reset: the sender may open others in place of one that it
                    // abandoned.
                    Err(_) => break,
                }
            }
            let _goes_with_what_leaves_next = chunks.finalize();
            Some((bytes, has_ended))
        }
    };
}

pub(super) use alike;
