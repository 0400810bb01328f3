//! One connection, and a peer whose every segment the test writes.

use std::net::SocketAddr;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::wire::{self, Control, Header, Segment, Timestamp};
use fullpipe_tcp::{Config, Connection, Error, Seeds, State};

pub(crate) const MS: Duration = Duration::from_millis(1);
/// Initial sequence numbers: ours and the peer's.
pub(crate) const ISS: u32 = 1_000;
pub(crate) const IRS: u32 = 50_000;
pub(crate) const MSS: usize = 1_000;
/// The zero of this end's timestamps.
pub(crate) const CLOCK: u32 = 7_000_000;

pub(crate) fn local() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 4000))
}

pub(crate) fn remote() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 80))
}

/// What the peer sends.
fn segment(header: Header, payload: &[u8]) -> Segment<'_> {
    let (from, to, in_host) = (remote(), local(), Duration::ZERO);
    Segment { from, to, header, payload, packets: 1, in_host }
}

/// Without timestamps, which tests turn on that are about them; segments of 1000 bytes, no Nagle.
pub(crate) fn config() -> Config {
    Config { mtu: MSS as u16 + 40, timestamps: false, nagle: false, ..Config::default() }
}

/// A segment that left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Out {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
}

impl Out {
    /// The offset of the first byte in the stream, the number of bytes, and what is acknowledged.
    pub(crate) fn range(&self, lab: &Lab) -> (u32, usize) {
        (self.header.seq.wrapping_sub(lab.iss).wrapping_sub(1), self.payload.len())
    }
}

pub(crate) struct Lab {
    pub(crate) tcp: Connection,
    pub(crate) now: Instant,
    pub(crate) iss: u32,
    pub(crate) irs: u32,
    /// The window that the peer tells, on the wire.
    pub(crate) window: u16,
    /// The peer's clock of timestamps, if it uses them, and the newest of ours that it saw.
    pub(crate) clock: Option<u32>,
    pub(crate) echo: u32,
    /// The time that the peer's segments are in this host before they are read.
    pub(crate) in_host: Duration,
    buffer: Vec<u8>,
}

impl Lab {
    pub(crate) fn active(config: &Config) -> Self {
        Self::active_from(config, ISS)
    }

    /// An active open, before anything left.
    pub(crate) fn active_from(config: &Config, iss: u32) -> Self {
        let now = Instant::default() + MS.times(1000);
        let seeds = Seeds { isn: iss, clock: CLOCK, cc: 1 };
        let tcp = Connection::open(now, local(), remote(), config, seeds);
        Self::with(tcp, now, iss)
    }

    /// A passive open by this SYN, before anything left.
    pub(crate) fn passive(config: &Config, syn: Header) -> Self {
        let now = Instant::default() + MS.times(1000);
        let seeds = Seeds { isn: ISS, clock: CLOCK, cc: 1 };
        let segment = segment(syn, &[]);
        let mut lab = Self::with(Connection::accept(now, &segment, config, seeds), now, ISS);
        lab.irs = syn.seq;
        lab
    }

    fn with(tcp: Connection, now: Instant, iss: u32) -> Self {
        let (clock, echo, in_host, buffer) = (None, 0, Duration::ZERO, Vec::new());
        Self { tcp, now, iss, irs: IRS, window: u16::MAX, clock, echo, in_host, buffer }
    }

    /// An established connection with a peer that has all options but timestamps and ECN. The round
    /// trip is 100 ms.
    pub(crate) fn established(config: &Config) -> Self {
        Self::established_with(config, Self::syn())
    }

    pub(crate) fn established_with(config: &Config, syn: Header) -> Self {
        let mut lab = Self::active(config);
        lab.finish_handshake(syn);
        lab
    }

    pub(crate) fn finish_handshake(&mut self, syn: Header) {
        assert_eq!(self.out().header.control, Control::Syn);
        self.after(100);
        let ack = Some(self.iss.wrapping_add(1));
        self.irs = syn.seq;
        self.window = syn.window;
        self.clock = syn.timestamp.map(|timestamp| timestamp.value);
        self.send(Header { ack, ..syn }, &[]);
        assert_eq!(self.tcp.state(), State::Established);
        let reply = self.out();
        assert_eq!(reply.header.ack, Some(self.irs.wrapping_add(1)));
        self.quiet();
    }

    /// A SYN of the peer.
    pub(crate) fn syn() -> Header {
        Header {
            seq: IRS,
            control: Control::Syn,
            window: u16::MAX,
            mss: Some(MSS as u16),
            window_scale: Some(0),
            sack_permitted: true,
            ..Header::default()
        }
    }

    /// A place in our stream of data.
    pub(crate) fn our(&self, offset: u32) -> u32 {
        self.iss.wrapping_add(1).wrapping_add(offset)
    }

    /// A place in the peer's stream of data.
    pub(crate) fn their(&self, offset: u32) -> u32 {
        self.irs.wrapping_add(1).wrapping_add(offset)
    }

    /// The next segment that leaves.
    #[track_caller]
    pub(crate) fn out(&mut self) -> Out {
        self.try_out().expect("a segment")
    }

    pub(crate) fn try_out(&mut self) -> Option<Out> {
        let mut buffer = core::mem::take(&mut self.buffer);
        let left = self.tcp.transmit(self.now, &mut buffer);
        let out = left.then(|| {
            let segment = wire::parse(&buffer).expect("a sound packet");
            assert_eq!((segment.from, segment.to), (local(), remote()));
            Out { header: segment.header, payload: segment.payload.to_vec() }
        });
        if let Some(timestamp) = out.as_ref().and_then(|out| out.header.timestamp) {
            self.echo = timestamp.value;
        }
        self.buffer = buffer;
        out
    }

    /// All segments that leave now.
    pub(crate) fn all(&mut self) -> Vec<Out> {
        std::iter::from_fn(|| self.try_out()).collect()
    }

    #[track_caller]
    pub(crate) fn quiet(&mut self) {
        assert_eq!(self.try_out(), None);
    }

    /// Time passes, and what is due in it happens at its time; what leaves meanwhile is collected.
    pub(crate) fn after(&mut self, ms: u64) -> Vec<Out> {
        let end = self.now + MS.times(ms);
        let mut out = self.all();
        while let Some(at) = self.tcp.poll_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.tcp.on_timer(self.now);
            out.extend(self.all());
        }
        self.now = end;
        out
    }

    /// The milliseconds until the next timer.
    pub(crate) fn timer(&self) -> Option<u64> {
        Some(self.tcp.poll_at()?.since(self.now).as_nanos().div_ceil(1_000_000))
    }

    /// The peer sends a segment.
    pub(crate) fn send(&mut self, header: Header, payload: &[u8]) {
        let timestamp = header
            .timestamp
            .or_else(|| self.clock.map(|value| Timestamp { value, echo: self.echo }));
        let header = Header { timestamp, ..header };
        let segment = Segment { in_host: self.in_host, ..segment(header, payload) };
        self.tcp.on_segment(self.now, &segment);
    }

    /// A header of the peer's that acknowledges our data up to `acked` and begins at `offset` of
    /// its own.
    pub(crate) fn header(&self, offset: u32, acked: u32) -> Header {
        Header {
            seq: self.their(offset),
            ack: Some(self.our(acked)),
            window: self.window,
            ..Header::default()
        }
    }

    /// The peer acknowledges our data up to `acked`; its own stream is at `offset`.
    pub(crate) fn ack(&mut self, offset: u32, acked: u32) {
        self.send(self.header(offset, acked), &[]);
    }

    /// The same with SACK blocks, as offsets in our stream.
    pub(crate) fn sack(&mut self, acked: u32, blocks: &[(u32, u32)]) {
        let mut header = self.header(0, acked);
        for (to, (start, end)) in header.sack.iter_mut().zip(blocks) {
            *to = Some((self.our(*start), self.our(*end)));
        }
        self.send(header, &[]);
    }

    /// The peer sends data.
    pub(crate) fn data(&mut self, offset: u32, payload: &[u8]) {
        self.send(self.header(offset, 0), payload);
    }

    pub(crate) fn fin(&mut self, offset: u32, acked: u32) {
        self.send(Header { control: Control::Fin, ..self.header(offset, acked) }, &[]);
    }

    /// The application writes `segments` full segments.
    pub(crate) fn write(&mut self, segments: usize) {
        let data: Vec<u8> = (0..segments * MSS).map(|i| (i / MSS) as u8).collect();
        assert_eq!(self.tcp.write(self.now, &data), Ok(data.len()));
    }

    pub(crate) fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut data = vec![0; 1 << 20];
        let count = self.tcp.read(&mut data)?;
        data.truncate(count);
        Ok(data)
    }

    /// Offsets and sizes of segments.
    pub(crate) fn ranges(&self, out: &[Out]) -> Vec<(u32, usize)> {
        out.iter().map(|out| out.range(self)).collect()
    }

    /// `segments` full segments leave, over as long as the pacer takes.
    pub(crate) fn fly(&mut self, segments: usize) {
        self.write(segments);
        let out = self.after(60);
        assert_eq!(out.len(), segments, "{:?}", self.ranges(&out));
    }
}
