//! Present state of the pinned program.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;

use libbpf_rs::{Link, Object};

use super::{CONNECTIONS, Error, PINS, registration, sysctl};

/// The program in the kernel.
#[derive(Clone, Debug)]
pub struct Status {
    /// The name by which TCP knows it.
    pub name: String,
    /// True if new connections of this network namespace use it by default.
    pub is_default: bool,
    /// The default before it, if it became the default when it was loaded.
    pub previous_default: Option<String>,
    /// The connections that use it now.
    pub connections: Vec<Connection>,
}

/// One connection under its control. Volumes are bytes, rates bytes a second, times nanoseconds; what
/// the algorithm does not know yet, and what it calls infinite, is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The local port.
    pub local_port: u16,
    /// The other end.
    pub remote: SocketAddr,
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
    /// Linux's ecn_alpha in 256ths, where marks are responded to: ECN was negotiated, and min_rtt was
    /// once at most 5 ms.
    pub ecn_alpha: Option<u32>,
    /// ACKs that brought a delivery-rate sample.
    pub samples: u32,
    /// Samples of packets of which it is not known any more what was in flight when they left: their
    /// loss rate is unknown.
    pub samples_without_note: u32,
    /// Packets that were lost.
    pub losses: u32,
    /// Lost packets that the program did not find in TCP's retransmission queue: a retransmission that
    /// was lost as well, for one.
    pub losses_not_found: u32,
}

/// Bytes of `struct connection` in `c/bbr3.bpf.c`.
const RECORD: usize = 120;

/// The pinned program, or `None` when none is.
///
/// # Errors
///
/// The pins cannot be read: they are root's.
pub fn status() -> Result<Option<Status>, Error> {
    let Some((name, previous)) = registration()? else { return Ok(None) };
    let connections = Path::new(PINS).join(CONNECTIONS);
    let records = fs::read(connections).map_err(|source| Error::Pins { source })?;
    Ok(Some(Status {
        is_default: sysctl::default()? == name,
        previous_default: (!previous.is_empty()).then_some(previous),
        connections: decode(&records),
        name,
    }))
}

/// Names of the congestion controls that the kernel has, whoever brought them.
///
/// # Errors
/// The kernel does not say which it has.
pub fn available() -> Result<Vec<String>, Error> {
    sysctl::available()
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
        let address = if u32_at(88) != 0 {
            let octets: [u8; 16] = bytes(0, 16).try_into().unwrap_or_default();
            IpAddr::from(Ipv6Addr::from(octets))
        } else {
            let octets: [u8; 4] = bytes(0, 4).try_into().unwrap_or_default();
            IpAddr::from(Ipv4Addr::from(octets))
        };
        Self {
            remote: SocketAddr::new(address, u16_at(86)),
            cwnd: u64_at(16),
            pacing_rate: u64_at(24),
            max_bw: u64_at(32),
            min_rtt: finite(u64_at(40)),
            delivered: u64_at(48),
            lost: u64_at(56),
            marked: u64_at(96),
            ecn_alpha: (u32_at(92) != u32::MAX).then(|| u32_at(92)),
            inflight_longterm: finite(u64_at(64)),
            smss: u64_at(72),
            state: state_name(u32_at(80)),
            local_port: u16_at(84),
            samples: u32_at(104),
            samples_without_note: u32_at(108),
            losses: u32_at(112),
            losses_not_found: u32_at(116),
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
