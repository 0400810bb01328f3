//! Both ends of a flow: endpoints of fullpipe-tcp.

use std::collections::HashMap;
use std::net::SocketAddr;

use fullpipe_cc::{BandwidthProbe, Duration, Instant, Rate};
use fullpipe_path::Ecn;
use fullpipe_report::observe::FlowSample;
use fullpipe_sim::FlowConfig;
use fullpipe_tcp::{Config, Endpoint, Handle, ListenerHandle, State, wire};
use fullpipe_traffic::{SenderStats, SentPacket};

use super::settings;
use crate::backend::RunError;
use crate::backend::network::{
    Departure, RECEIVER, Read, RttSample, SENDER, Seen, Stamp, Transport,
};

/// Connections that a flow may have at a time, those in TIME-WAIT included.
const MAX_CONNECTIONS: usize = 1 << 20;
/// Half-open ones.
const BACKLOG: usize = 1 << 16;
/// Headers without options.
const IP_HEADER: usize = 20;

/// The bytes to write, and the room to read into.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

#[derive(Debug)]
pub(super) struct TcpEnds {
    tcp: Config,
    ends: [Endpoint; 2],
    remote: SocketAddr,
    listener: ListenerHandle,
    /// The sender's ends that were not released, by their port.
    by_port: HashMap<u16, Handle>,
    /// The port of the first connection: queues know connections by their distance from it.
    first_port: Option<u16>,
    /// Counts of the packets that left so far, and of the retransmissions of connections that are
    /// over.
    sent: SenderStats,
    newest_packet: Option<SentPacket>,
    /// Data that is read is thrown away here.
    sink: Vec<u8>,
}

impl TcpEnds {
    pub(super) fn new(config: &FlowConfig) -> Result<Self, RunError> {
        Self::with([settings::of_flow(&settings::over_tcp(config)); 2])
    }

    /// The sender and the receiver with these settings.
    pub(super) fn with([tcp, receiver]: [Config; 2]) -> Result<Self, RunError> {
        let key = |end: usize| {
            let halves = [tcp.congestion.seed, end as u64];
            let mut key = [0; 16];
            for (part, half) in key.chunks_exact_mut(8).zip(halves) {
                part.copy_from_slice(&half.to_le_bytes());
            }
            key
        };
        let mut ends = [SENDER, RECEIVER].map(|end| Endpoint::new(key(end), MAX_CONNECTIONS));
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        // An endpoint that nobody has used has the port.
        let listener =
            ends[RECEIVER].listen(remote, BACKLOG, &receiver).map_err(|_| RunError::Lost)?;
        Ok(Self {
            tcp,
            ends,
            remote,
            listener,
            by_port: HashMap::new(),
            first_port: None,
            sent: SenderStats::default(),
            newest_packet: None,
            sink: vec![0; ZEROS.len()],
        })
    }

    /// Every retransmission counts as a loss, as with the kernel's TCP.
    fn sent_again(&self, handle: Handle) -> SenderStats {
        let info = self.ends[SENDER].connection(handle).map(|tcp| tcp.info());
        SenderStats {
            lost_packets: info.map_or(0, |info| info.total_retrans),
            lost_bytes: info.map_or(0, |info| info.bytes_retrans),
            ..SenderStats::default()
        }
    }

    /// A packet with so many bytes of data leaves the sender.
    fn count(&mut self, now: Instant, bytes: u64) {
        let number = self.sent.sent_packets;
        self.newest_packet = Some(SentPacket { number, bytes: bytes as u32, sent: now });
        self.sent.sent_packets += 1;
        self.sent.sent_bytes += bytes;
    }
}

impl Transport for TcpEnds {
    type Handle = Handle;

    fn segment(&self) -> u64 {
        u64::from(self.tcp.congestion.smss)
    }

    fn stamp(&self) -> Stamp {
        Stamp::AtDeparture
    }

    fn writes_segments(&self) -> bool {
        self.tcp.send_buffer as u64 > self.segment()
    }

    /// `None` if no port is left.
    fn connect(&mut self, now: Instant) -> Option<Handle> {
        let local = SocketAddr::from(([10, 0, 0, 1], 0));
        let handle = self.ends[SENDER].connect(now, local, self.remote, &self.tcp).ok()?;
        if let Some(connection) = self.ends[SENDER].connection(handle) {
            self.by_port.insert(connection.local().port(), handle);
        }
        Some(handle)
    }

    fn accept(&mut self) -> Option<(Handle, Option<Handle>)> {
        let handle = self.ends[RECEIVER].accept(self.listener)?;
        let port = self.ends[RECEIVER].connection(handle).map_or(0, |c| c.remote().port());
        Some((handle, self.by_port.get(&port).copied()))
    }

    fn next_changed(&mut self, end: usize) -> Option<Handle> {
        self.ends[end].next_changed()
    }

    fn look(&self, handle: Handle) -> Option<Seen> {
        let tcp = self.ends[SENDER].connection(handle)?;
        let (newest, count) = tcp.newest_rtt();
        Some(Seen {
            is_established: tcp.state().is_synchronized(),
            is_over: tcp.state() >= State::TimeWait,
            unsent: tcp.unsent() as u64,
            writable: tcp.writable() as u64,
            rtt: RttSample { newest, count },
        })
    }

    fn write(&mut self, now: Instant, end: usize, handle: Handle, bytes: u64) -> u64 {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(ZEROS.len() as u64) as usize;
            match self.ends[end].write(now, handle, &ZEROS[..piece]) {
                Ok(written @ 1..) => left -= written as u64,
                _ => break,
            }
        }
        bytes - left
    }

    fn read(&mut self, end: usize, handle: Handle) -> Read {
        // A call of `read` is news of the connection, also where it brings nothing.
        let is_there = |tcp: &fullpipe_tcp::Connection| match end {
            SENDER => tcp.readable() > 0,
            _ => tcp.is_readable(),
        };
        if !self.ends[end].connection(handle).is_some_and(is_there) {
            return Read::Nothing;
        }
        match self.ends[end].read(handle, &mut self.sink) {
            Ok(count @ 1..) => Read::Data(count as u64),
            _ => Read::End,
        }
    }

    fn close(&mut self, now: Instant, handle: Handle) {
        self.ends[SENDER].close(now, handle);
    }

    fn release(&mut self, now: Instant, end: usize, handle: Handle) {
        if end == SENDER {
            self.sent.add(self.sent_again(handle));
            if let Some(tcp) = self.ends[SENDER].connection(handle) {
                self.by_port.remove(&tcp.local().port());
            }
        }
        self.ends[end].release(now, handle);
    }

    fn receive(
        &mut self,
        now: Instant,
        end: usize,
        in_host: Duration,
        packet: &mut [u8],
        ecn: Ecn,
    ) {
        if ecn == Ecn::Ce {
            wire::set_ce(packet);
        }
        self.ends[end].receive_after(now, in_host, packet);
    }

    fn on_timer(&mut self, now: Instant, end: usize) {
        self.ends[end].on_timer(now);
    }

    fn poll_at(&self, end: usize) -> Option<Instant> {
        self.ends[end].poll_at()
    }

    fn transmit(&mut self, now: Instant, end: usize, out: &mut Vec<u8>) -> Option<Departure> {
        if !self.ends[end].transmit(now, out) {
            return None;
        }
        if end == SENDER {
            let header = out.get(IP_HEADER + 12).map_or(0, |byte| usize::from(byte >> 4) * 4);
            let bytes = out.len().saturating_sub(IP_HEADER + header) as u64;
            if bytes > 0 {
                self.count(now, bytes);
            }
        }
        // The sender's port: the first of its packets, the second of those to it.
        let at = IP_HEADER + if end == SENDER { 0 } else { 2 };
        let port = out.get(at..at + 2).map_or(0, |p| u16::from_be_bytes([p[0], p[1]]));
        let first_port = *self.first_port.get_or_insert(port);
        let ecn = match out.get(1).map_or(0, |tos| tos & 3) {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        };
        Some(Departure {
            wire_bytes: out.len() as u32,
            ecn,
            connection: u32::from(port.wrapping_sub(first_port)),
        })
    }

    fn stats(&mut self) -> SenderStats {
        let mut stats = self.sent;
        for handle in self.by_port.values() {
            stats.add(self.sent_again(*handle));
        }
        stats
    }

    fn newest_packet(&self) -> Option<SentPacket> {
        self.newest_packet
    }

    fn sample(&self, handle: Handle) -> Option<FlowSample> {
        let tcp = self.ends[SENDER].connection(handle)?;
        Some(FlowSample::of_model(tcp.congestion()))
    }

    fn probe_bandwidth(
        &mut self,
        now: Instant,
        handle: Handle,
        target: Rate,
    ) -> Option<BandwidthProbe> {
        self.ends[SENDER].probe_bandwidth(now, handle, target).ok()
    }
}
