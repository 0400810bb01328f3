//! Both ends of a flow. The sender is the client, as it opens the connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use fullpipe_cc::{BandwidthProbe, Duration, Instant, Rate, SavedParameters};
use fullpipe_noq::{Marks, TransportSettings};
use fullpipe_noq_repairs::wire::{Invariants, Reader, V1};
use fullpipe_path::{Ecn, IPV4_UDP_HEADER_BYTES};
use fullpipe_report::observe::FlowSample;
use fullpipe_sim::{FlowConfig, OVERHEAD_BYTES};
use fullpipe_traffic::{SenderStats, SentPacket, Stream, stream_seed};

use super::end::{QuicEnd, StackClock};
use super::stack::{Own, Stack};
use crate::backend::RunError;
use crate::backend::network::{Departure, RECEIVER, Read, SENDER, Seen, Stamp, Transport};
use crate::backend::quic::identity::Identity;

pub(super) const SERVER_NAME: &str = "flow.localhost";

pub(super) struct QuicEnds<S: Stack> {
    cc: S::Control,
    seed: u64,
    /// Parameters for the first connection.
    saved: Option<SavedParameters>,
    segment: u64,
    settings: TransportSettings,
    /// The codepoint of packets that ask for marks; not ECN-capable if none do.
    ecn: Ecn,
    tls: S::Tls,
    /// The marks of connections of L4S of which nothing has left.
    unopened: BTreeMap<u64, Marks>,
    /// The number of the next connection; the ID of its first packet is that.
    opened: u64,
    times: StackClock,
    ends: [QuicEnd<S>; 2],
    /// Counters of connections that were released.
    gone: SenderStats,
    newest_packet: Option<SentPacket>,
    left: u64,
}

impl<S: Stack> QuicEnds<S> {
    pub(super) fn new(
        flow: &FlowConfig,
        cc: S::Control,
        settings: TransportSettings,
        streams: u64,
        identity: &Identity,
    ) -> Result<Self, RunError> {
        let server = S::server(identity, &settings, flow.cc.seed)?;
        let end = |place: u64, server| {
            let seed = stream_seed(flow.cc.seed, Stream::Connection, u64::MAX - place);
            QuicEnd::new(seed, server, streams)
        };
        Ok(Self {
            cc,
            seed: flow.cc.seed,
            saved: flow.cc.resume,
            segment: u64::from(flow.cc.smss - OVERHEAD_BYTES),
            settings,
            ecn: flow.ecn,
            tls: S::tls(identity)?,
            unopened: BTreeMap::new(),
            opened: 0,
            times: StackClock::start(),
            ends: [end(0, None), end(1, Some(Arc::new(server)))],
            gone: SenderStats::default(),
            newest_packet: None,
            left: 0,
        })
    }
}

impl<S: Stack> QuicEnds<S> {
    /// See [`QuicEnd::abandon`].
    pub(super) fn abandon(&mut self, number: u64) {
        self.ends[SENDER].abandon(number);
    }

    /// The codepoint of a datagram of the sender's, as a socket of L4S writes it below a stack that
    /// knows ECT(0) alone. The receiver sends requests and acknowledgements, with CUBIC.
    fn codepoint(&mut self, number: u64, ecn: Ecn, datagram: &[u8]) -> Ecn {
        if let Some(marks) = self.unopened.remove(&number)
            && is_initial_alone(datagram)
        {
            marks.first_leaves_without_ecn();
            return Ecn::NotEct;
        }
        if ecn == Ecn::Ect0 { self.ecn } else { ecn }
    }

    /// The sender's end of a connection.
    pub(super) fn connection(&self, number: u64) -> Option<&S::Connection> {
        self.ends[SENDER].peek(number)
    }
}

/// True for a datagram that is an Initial packet of version 1, and nothing else.
fn is_initial_alone(datagram: &[u8]) -> bool {
    let alone = || {
        let header = Invariants::read(datagram)?;
        let mut behind = Reader(header.rest);
        // The token, and the packet behind its length (RFC 9000 section 17.2.2).
        behind.with_length()?;
        behind.with_length()?;
        Some(header.version == V1 && header.first & 0x30 == 0 && behind.0.is_empty())
    };
    alone().unwrap_or(false)
}

impl<S: Stack> std::fmt::Debug for QuicEnds<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ends").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<S: Stack> Transport for QuicEnds<S> {
    /// The connection's number.
    type Handle = u64;

    fn segment(&self) -> u64 {
        self.segment
    }

    /// The stacks do not say what has left.
    fn stamp(&self) -> Stamp {
        Stamp::Never
    }

    fn writes_segments(&self) -> bool {
        false
    }

    fn connect(&mut self, now: Instant) -> Option<u64> {
        let number = self.opened;
        let seed = match number {
            0 => self.seed,
            number => stream_seed(self.seed, Stream::Connection, number),
        };
        let marks = (self.ecn == Ecn::Ect1).then(Marks::default);
        let tls = match &marks {
            Some(marks) => S::hearing(self.tls.clone(), marks),
            None => self.tls.clone(),
        };
        let mut config = S::client(tls, number);
        // One connection uses what another left, and no other one after it.
        self.unopened.extend(marks.clone().map(|marks| (number, marks)));
        let own = Own { seed, saved: self.saved.take(), marks };
        S::set_control(&mut config, &self.settings, self.cc, own);
        let now = self.times.of(now);
        self.ends[SENDER].connect(now, number, config, SERVER_NAME)?;
        self.opened += 1;
        Some(number)
    }

    fn accept(&mut self) -> Option<(u64, Option<u64>)> {
        self.ends[RECEIVER].accept().map(|number| (number, Some(number)))
    }

    fn next_changed(&mut self, end: usize) -> Option<u64> {
        self.ends[end].next_changed()
    }

    fn look(&self, number: u64) -> Option<Seen> {
        self.ends[SENDER].look(number)
    }

    fn write(&mut self, _: Instant, end: usize, number: u64, bytes: u64) -> u64 {
        self.ends[end].write(number, bytes)
    }

    fn has_unsent(&mut self, number: u64, bytes: u64) {
        self.ends[SENDER].has_unsent(number, bytes);
    }

    fn read(&mut self, end: usize, number: u64) -> Read {
        self.ends[end].read(number)
    }

    fn close(&mut self, _: Instant, number: u64) {
        self.ends[SENDER].finish(number);
    }

    fn release(&mut self, now: Instant, end: usize, number: u64) {
        if end == SENDER {
            self.gone
                .add(self.ends[SENDER].connection(number).map(S::counters).unwrap_or_default());
        }
        let now = self.times.of(now);
        self.ends[end].release(now, number, end == SENDER);
    }

    fn receive(&mut self, now: Instant, end: usize, _: Duration, packet: &mut [u8], ecn: Ecn) {
        let now = self.times.of(now);
        self.ends[end].receive(now, packet, ecn);
    }

    fn on_timer(&mut self, now: Instant, end: usize) {
        let now = self.times.of(now);
        self.ends[end].on_timer(now);
    }

    fn poll_at(&self, end: usize) -> Option<Instant> {
        self.ends[end].poll_timeout().map(|at| self.times.to(at))
    }

    fn transmit(&mut self, now: Instant, end: usize, out: &mut Vec<u8>) -> Option<Departure> {
        let (number, ecn) = self.ends[end].transmit(self.times.of(now), out)?;
        let ecn = if end == SENDER { self.codepoint(number, ecn, out) } else { ecn };
        if end == SENDER {
            let bytes = u32::try_from(out.len()).unwrap_or(u32::MAX);
            self.newest_packet = Some(SentPacket { number: self.left, bytes, sent: now });
            self.left += 1;
        }
        Some(Departure {
            wire_bytes: out.len() as u32 + IPV4_UDP_HEADER_BYTES,
            ecn: if self.ecn == Ecn::NotEct { Ecn::NotEct } else { ecn },
            connection: number as u32,
        })
    }

    fn stats(&mut self) -> SenderStats {
        let mut stats = self.gone;
        for connection in self.ends[SENDER].kept() {
            stats.add(S::counters(connection));
        }
        stats
    }

    fn newest_packet(&self) -> Option<SentPacket> {
        self.newest_packet
    }

    fn sample(&self, number: u64) -> Option<FlowSample> {
        self.connection(number).and_then(S::sample)
    }

    fn probe_bandwidth(
        &mut self,
        now: Instant,
        number: u64,
        target: Rate,
    ) -> Option<BandwidthProbe> {
        S::probe_bandwidth(self.connection(number)?, self.times.of(now), target)
    }
}
