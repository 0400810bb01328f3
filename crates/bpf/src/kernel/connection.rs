//! The program's view of each connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use libbpf_rs::{Link, Object};

use super::Error;

/// One connection under its control. Volumes are bytes, rates bytes a second, times nanoseconds;
/// what the algorithm does not know yet, and what it calls infinite, is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Its network namespace, by the number that `/proc/PID/ns/net` and `lsns` show; `None` if the
    /// kernel does not tell.
    pub namespace: Option<u32>,
    /// The state, in the draft's spelling.
    pub state: &'static str,
    /// C.SMSS.
    pub smss: u64,
    /// C.cwnd.
    pub cwnd: u64,
    /// C.pacing_rate.
    pub pacing_rate: u64,
    /// BBR.max_bw.
    pub max_bw: u64,
    /// BBR.min_rtt.
    pub min_rtt: Option<u64>,
    /// BBR.inflight_longterm.
    pub inflight_longterm: Option<u64>,
    /// C.delivered since the program has the connection.
    pub delivered: u64,
    /// C.lost since the program has the connection.
    pub lost: u64,
    /// Data delivered with a CE mark, as TCP counts it, since the program has the connection.
    pub marked: u64,
    /// Linux's ecn_alpha in 256ths, where marks are responded to: ECN was negotiated, and min_rtt
    /// was once at most 5 ms.
    pub ecn_alpha: Option<u32>,
    /// ACKs that brought a delivery-rate sample.
    pub samples: u32,
    /// Samples of packets of which it is not known any more what was in flight when they left:
    /// their loss rate is unknown.
    pub samples_without_note: u32,
    /// Packets that were lost.
    pub losses: u32,
    /// Lost packets that the program did not find in TCP's retransmission queue: a retransmission
    /// that was lost as well, for one.
    pub losses_not_found: u32,
    /// Lost packets at the end of a flight that TCP repaired with a probe (RFC 8985 section 7.4):
    /// it counts them as sent again, and not as lost.
    pub tail_losses: u32,
    /// Times at which it sent again after it had been idle.
    pub restarts: u32,
}

/// Bytes of `struct connection` in `c/connections.h`.
const RECORD: usize = 152;

/// Like a line of `ss -ti`: volumes in packets and bytes, rates in Mbit/s, times in ms.
impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbit = |bytes_per_sec: u64| bytes_per_sec as f64 * 8.0 / 1e6;
        let min_rtt = self.min_rtt.map_or("-".to_owned(), |t| format!("{:.3}ms", t as f64 / 1e6));
        let bound =
            self.inflight_longterm.map(|v| format!(" inflight_longterm:{}", v / self.smss.max(1)));
        let alpha =
            self.ecn_alpha.map(|alpha| format!(" ecn_alpha:{:.2}", f64::from(alpha) / 256.0));
        let not_found = match self.losses_not_found {
            0 => String::new(),
            n => format!(" losses_not_found:{n}/{}", self.losses),
        };
        let namespace = self.namespace.map(|number| format!(" netns:{number}"));
        write!(
            f,
            "{} -> {} {} cwnd:{} mss:{} pacing_rate:{:.1}Mbps max_bw:{:.1}Mbps min_rtt:{min_rtt}{} \
             delivered:{} lost:{}{}{}{}",
            self.local,
            self.remote,
            self.state,
            self.cwnd / self.smss.max(1),
            self.smss,
            mbit(self.pacing_rate),
            mbit(self.max_bw),
            bound.unwrap_or_default(),
            self.delivered,
            self.lost,
            not_found,
            alpha.unwrap_or_default(),
            namespace.unwrap_or_default(),
        )
    }
}

/// The iterator over the connections, which is read like a file once it is pinned.
pub(super) fn attach(object: &Object) -> Result<Link, Error> {
    let program = object.progs_mut().find(|program| program.name() == "bbr3_connections");
    let flows = object.maps().find(|map| libbpf_rs::MapCore::name(map) == "flows");
    let (Some(program), Some(flows)) = (program, flows) else { return Err(Error::NoName) };
    let flows = libbpf_rs::MapHandle::try_from(&flows).map_err(Error::Pin)?;
    program.attach_iter(flows.as_fd()).map_err(Error::load)
}

/// Decodes the records of the iterator.
pub(super) fn decode(records: &[u8]) -> Vec<Connection> {
    records.chunks_exact(RECORD).map(Connection::decode).collect()
}

impl Connection {
    fn decode(record: &[u8]) -> Self {
        let bytes = |at: usize, len: usize| record.get(at..at + len).unwrap_or_default();
        let u64_at = |at| u64::from_ne_bytes(bytes(at, 8).try_into().unwrap_or_default());
        let u32_at = |at| u32::from_ne_bytes(bytes(at, 4).try_into().unwrap_or_default());
        let u16_at = |at| u16::from_ne_bytes(bytes(at, 2).try_into().unwrap_or_default());
        let finite = |v: u64| (v != u64::MAX).then_some(v);
        let is_ipv6 = u32_at(104) != 0;
        let address = |at: usize| {
            if is_ipv6 {
                let octets: [u8; 16] = bytes(at, 16).try_into().unwrap_or_default();
                IpAddr::from(Ipv6Addr::from(octets))
            } else {
                let octets: [u8; 4] = bytes(at, 4).try_into().unwrap_or_default();
                IpAddr::from(Ipv4Addr::from(octets))
            }
        };
        Self {
            remote: SocketAddr::new(address(0), u16_at(102)),
            local: SocketAddr::new(address(16), u16_at(100)),
            namespace: Some(u32_at(144)).filter(|number| *number != 0),
            cwnd: u64_at(32),
            pacing_rate: u64_at(40),
            max_bw: u64_at(48),
            min_rtt: finite(u64_at(56)),
            delivered: u64_at(64),
            lost: u64_at(72),
            inflight_longterm: finite(u64_at(80)),
            smss: u64_at(88),
            state: state_name(u32_at(96)),
            ecn_alpha: (u32_at(108) != u32::MAX).then(|| u32_at(108)),
            marked: u64_at(112),
            samples: u32_at(120),
            samples_without_note: u32_at(124),
            losses: u32_at(128),
            losses_not_found: u32_at(132),
            tail_losses: u32_at(136),
            restarts: u32_at(140),
        }
    }
}

/// `enum bbr3_state` of `c/state.h`.
fn state_name(state: u32) -> &'static str {
    match state {
        0 => "Startup",
        1 => "Drain",
        2 => "ProbeBW_DOWN",
        3 => "ProbeBW_CRUISE",
        4 => "ProbeBW_REFILL",
        5 => "ProbeBW_UP",
        6 => "ProbeRTT",
        _ => "unknown",
    }
}
