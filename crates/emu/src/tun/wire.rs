//! Flows on the wire, told apart by a port: what each sent, what of it arrived, how long it waited,
//! and in which bursts it came. Nothing here needs to know the programs at the ends.

use std::collections::{BTreeMap, HashMap, VecDeque};

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Count, Delivered};
use hdrhistogram::Histogram;
use smoltcp::wire::{TcpOption, TcpPacket};

use super::ip::{self, TCP, UDP, UDP_HEADER};
use crate::report::Nanos;

/// Smaller packets are no data: acknowledgements and requests are left out of bursts.
const DATA_BYTES: usize = 400;

/// Timestamps of a connection that wait for their echo; a connection that echoes none keeps no
/// more.
const MOST_STAMPS: usize = 4096;

/// Connections of a flow whose sequence numbers are followed; of others only packets and bytes are
/// counted.
const MOST_CONNECTIONS: usize = 1024;

/// Longest burst that is told from a longer one, in packets.
const LONGEST_BURST: u64 = 1_000_000;

/// The flows that are watched.
#[derive(Clone, Debug, Default)]
pub struct WireConfig {
    /// A port of each flow, at either end.
    pub ports: Vec<u16>,
    /// Packets of data that enter the link no farther apart are a burst.
    pub burst_gap: Duration,
}

/// One direction of a flow so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireSample {
    /// Packets that entered the link, IP headers included.
    pub sent: Count,
    /// Bytes of these behind the headers of TCP or UDP.
    pub sent_payload_bytes: u64,
    /// True if some were TCP's.
    pub is_tcp: bool,
    /// Packets that the link dropped.
    pub dropped: Count,
    /// Packets that arrived.
    pub delivered: Count,
    /// Bytes that arrived behind the headers of TCP, each once, or of UDP.
    pub payload_bytes: u64,
    /// TCP segments that repeat what was sent before, and the bytes that they repeat.
    pub retransmitted: Count,
    /// Smoothed round trip (RFC 6298) between the sender's end of the link and the receiver, by
    /// TCP's timestamps.
    pub srtt: Option<Duration>,
    /// Time at which the first packet entered.
    pub first: Option<Instant>,
    /// Time at which the newest packet arrived.
    pub newest: Option<Instant>,
}

/// Distributions of one direction of a flow so far.
#[derive(Clone, Debug)]
pub struct WireDistributions {
    /// Queueing delay in nanoseconds of each packet that arrived.
    pub queue_delay_ns: Histogram<u64>,
    /// Packets of each burst.
    pub burst_packets: Histogram<u64>,
}

/// Every watched flow.
#[derive(Debug, Default)]
pub(super) struct Wire {
    by_port: HashMap<u16, usize>,
    flows: Vec<[WireDirection; 2]>,
    burst_gap: Duration,
}

/// One direction of a flow.
#[derive(Debug)]
struct WireDirection {
    sample: WireSample,
    queue_delay: Nanos,
    bursts: Histogram<u64>,
    /// Packets of the burst that may go on.
    burst: u64,
    newest_data: Option<Instant>,
    connections: HashMap<u32, Connection>,
}

/// One direction of a TCP connection.
#[derive(Debug)]
struct Connection {
    /// The end of what was sent, without wrapping.
    high: u64,
    arrived: Ranges,
    /// Timestamps of data and the times at which they entered, oldest first.
    stamps: VecDeque<(u32, Instant)>,
}

/// Bytes that arrived: all up to an offset, and ranges beyond it.
#[derive(Debug)]
struct Ranges {
    until: u64,
    beyond: BTreeMap<u64, u64>,
}

/// The fields of a packet that are looked at here.
struct Seen {
    flow: usize,
    /// The connection's ports, the same in both directions.
    connection: u32,
    payload: usize,
    /// Sequence number, and TCP's timestamp with its echo.
    tcp: Option<(u32, Option<(u32, u32)>)>,
}

impl Wire {
    pub(super) fn new(config: &WireConfig) -> Self {
        let by_port = config.ports.iter().enumerate().map(|(flow, port)| (*port, flow)).collect();
        let flows =
            config.ports.iter().map(|_| [WireDirection::new(), WireDirection::new()]).collect();
        Self { by_port, flows, burst_gap: config.burst_gap }
    }

    fn look(&self, packet: &[u8]) -> Option<Seen> {
        if self.flows.is_empty() {
            return None;
        }
        let (protocol, segment) = ip::transport(packet)?;
        let ports = segment.get(..4)?;
        let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
        let (from, to) = (port(0), port(2));
        let flow = *self.by_port.get(&from).or_else(|| self.by_port.get(&to))?;
        let connection = u32::from(from.min(to)) << 16 | u32::from(from.max(to));
        let seen = Seen { flow, connection, payload: 0, tcp: None };
        match protocol {
            UDP => Some(Seen { payload: segment.len().saturating_sub(UDP_HEADER), ..seen }),
            TCP => {
                let tcp = TcpPacket::new_checked(segment).ok()?;
                let number = tcp.seq_number().0.cast_unsigned();
                let stamps = timestamps(tcp.options());
                Some(Seen { payload: tcp.payload().len(), tcp: Some((number, stamps)), ..seen })
            }
            _ => None,
        }
    }

    /// A packet enters the link in direction `way`.
    pub(super) fn sent(&mut self, way: usize, now: Instant, packet: &[u8]) {
        let Some(seen) = self.look(packet) else { return };
        let gap = self.burst_gap;
        let Some(own) = self.flows.get_mut(seen.flow).map(|ways| &mut ways[way]) else { return };
        own.sample.sent.add(packet.len() as u32);
        own.sample.sent_payload_bytes += seen.payload as u64;
        own.sample.is_tcp |= seen.tcp.is_some();
        own.sample.first.get_or_insert(now);
        if packet.len() >= DATA_BYTES {
            own.note_burst(now, gap);
        }
        let Some((number, stamps)) = seen.tcp.filter(|_| seen.payload > 0) else { return };
        let Some(connection) = own.connection(seen.connection, number) else { return };
        let start = connection.offset(number);
        let end = start + seen.payload as u64;
        let again = end.min(connection.high).saturating_sub(start);
        connection.high = connection.high.max(end);
        if let Some((stamp, _)) = stamps
            && connection.stamps.back().is_none_or(|(newest, _)| is_later(stamp, *newest))
            && connection.stamps.len() < MOST_STAMPS
        {
            connection.stamps.push_back((stamp, now));
        }
        if again > 0 {
            own.sample.retransmitted.add(again as u32);
        }
    }

    /// A packet did not get through.
    pub(super) fn dropped(&mut self, way: usize, packet: &[u8]) {
        let Some(seen) = self.look(packet) else { return };
        if let Some(ways) = self.flows.get_mut(seen.flow) {
            ways[way].sample.dropped.add(packet.len() as u32);
        }
    }

    /// A packet arrived.
    pub(super) fn delivered(&mut self, way: usize, packet: &Delivered<Vec<u8>>) {
        let Some(seen) = self.look(&packet.payload) else { return };
        let Some(ways) = self.flows.get_mut(seen.flow) else { return };
        let own = &mut ways[way];
        own.sample.delivered.add(packet.payload.len() as u32);
        own.sample.newest = Some(packet.at);
        own.queue_delay.record(packet.queued);
        let fresh = match (seen.tcp, seen.payload as u64) {
            (_, 0) => 0,
            (None, bytes) => bytes,
            (Some((number, _)), bytes) => match own.connection(seen.connection, number) {
                Some(connection) => {
                    let start = connection.offset(number);
                    connection.arrived.insert(start, start + bytes)
                }
                None => bytes,
            },
        };
        own.sample.payload_bytes += fresh;
        // Its echo ends a round trip of the other direction.
        let Some((_, Some((_, echo)))) = seen.tcp else { return };
        let other = &mut ways[1 - way];
        let Some(connection) = other.connections.get_mut(&seen.connection) else { return };
        while let Some((stamp, at)) = connection.stamps.front().copied()
            && !is_later(stamp, echo)
        {
            connection.stamps.pop_front();
            if stamp == echo {
                let rtt = packet.at.since(at);
                let srtt = other.sample.srtt.unwrap_or(rtt).as_nanos();
                other.sample.srtt = Some(Duration::from_nanos((7 * srtt + rtt.as_nanos()) / 8));
            }
        }
    }

    /// A flow's direction now.
    pub(super) fn sample(&self, flow: usize, way: usize) -> WireSample {
        self.flows.get(flow).map_or_else(WireSample::default, |ways| ways[way].sample)
    }

    /// Its distributions, without the burst that may still go on.
    pub(super) fn distributions(&self, flow: usize, way: usize) -> Option<WireDistributions> {
        let way = self.flows.get(flow)?.get(way)?;
        Some(WireDistributions {
            queue_delay_ns: way.queue_delay.histogram().clone(),
            burst_packets: way.bursts.clone(),
        })
    }
}

impl WireDirection {
    fn new() -> Self {
        // The bounds are constants and within those that hdrhistogram takes.
        #[expect(clippy::expect_used, reason = "constants, covered by every test of a flow")]
        let bursts = Histogram::new_with_bounds(1, LONGEST_BURST, 3).expect("1 to 1e6 in 3 digits");
        Self {
            sample: WireSample::default(),
            queue_delay: Nanos::new(),
            bursts,
            burst: 0,
            newest_data: None,
            connections: HashMap::new(),
        }
    }

    fn note_burst(&mut self, now: Instant, gap: Duration) {
        let goes_on = self.newest_data.is_some_and(|before| now.since(before) <= gap);
        if !goes_on && self.burst > 0 {
            self.bursts.saturating_record(self.burst);
            self.burst = 0;
        }
        self.burst += 1;
        self.newest_data = Some(now);
    }

    fn connection(&mut self, ports: u32, number: u32) -> Option<&mut Connection> {
        if !self.connections.contains_key(&ports) && self.connections.len() >= MOST_CONNECTIONS {
            return None;
        }
        Some(self.connections.entry(ports).or_insert_with(|| Connection::new(number)))
    }
}

impl Connection {
    /// Of a connection whose first data has this number.
    fn new(number: u32) -> Self {
        // Room below for what comes late.
        let start = (1 << 32) + u64::from(number);
        let arrived = Ranges { until: start, beyond: BTreeMap::new() };
        Self { high: start, arrived, stamps: VecDeque::new() }
    }

    /// A sequence number without wrapping: the one that is nearest to what was sent last.
    fn offset(&self, number: u32) -> u64 {
        let ahead = number.wrapping_sub(self.high as u32).cast_signed();
        self.high.saturating_add_signed(i64::from(ahead))
    }
}

impl Ranges {
    /// Number of bytes of a range that are new.
    fn insert(&mut self, start: u64, end: u64) -> u64 {
        let (mut start, mut end) = (start.max(self.until), end);
        if start >= end {
            return 0;
        }
        let mut fresh = end - start;
        // Those that begin before its end, the last of them first.
        while let Some((&from, &to)) = self.beyond.range(..=end).next_back() {
            if to < start {
                break;
            }
            fresh -= to.min(end).saturating_sub(from.max(start));
            self.beyond.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        if start == self.until {
            self.until = end;
        } else {
            self.beyond.insert(start, end);
        }
        fresh
    }
}

/// True if a timestamp is after another one; they wrap.
fn is_later(stamp: u32, than: u32) -> bool {
    stamp.wrapping_sub(than).cast_signed() > 0
}

/// The timestamp and its echo (RFC 7323).
fn timestamps(mut options: &[u8]) -> Option<(u32, u32)> {
    while let Ok((rest, option)) = TcpOption::parse(options) {
        match option {
            TcpOption::TimeStamp { tsval, tsecr } => return Some((tsval, tsecr)),
            TcpOption::EndOfList => return None,
            _ => options = rest,
        }
    }
    None
}

#[cfg(test)]
mod tests;
