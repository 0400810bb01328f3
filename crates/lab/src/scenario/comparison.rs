//! What to run: a path, the flows on it, and the algorithms to compare.

use std::fmt;
use std::str::FromStr;

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{Link, MTU_BYTES, PathConfig, Probability};
use fullpipe_quic::CongestionControl;
use fullpipe_sim::{Stream, stream_seed};

use crate::metrics::{millis, seconds};
use crate::observe::Extent;
use crate::output::results::ScenarioRecord;
use crate::scenario::{Cc, KernelCc};
use crate::units::{Buffer, show_bytes, show_duration};

/// More flows than this are no comparison but a load test of the machine.
pub const MAX_FLOWS: u32 = 1000;

/// What the emulated link carries.
const MAX_FLOWS_OVER_QUIC: u32 = fullpipe_emu::MAX_FLOWS as u32;

/// Each has two threads.
const MAX_FLOWS_OVER_TCP: u32 = 256;

/// The one of this program's algorithms that runs over tcp: as BPF, in the kernel.
pub(crate) const OVER_TCP: CongestionControl =
    CongestionControl::Fullpipe(fullpipe_cc::Algorithm::Bbr3Linux);

/// What carries the flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Over {
    /// QUIC over UDP on loopback, through an emulated link, in real time.
    #[default]
    Quic,
    /// The simulator: a virtual clock, and no packets.
    Sim,
    /// The kernel's TCP between two network namespaces, through an emulated link or the kernel's netem, in
    /// real time.
    Tcp,
}

impl Over {
    /// The name that [`FromStr`] takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Sim => "sim",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Over {
    type Err = ScenarioError;

    fn from_str(name: &str) -> Result<Self, ScenarioError> {
        match name {
            "quic" => Ok(Self::Quic),
            "sim" => Ok(Self::Sim),
            "tcp" => Ok(Self::Tcp),
            _ => Err(ScenarioError::UnknownBackend(name.escape_debug().to_string())),
        }
    }
}

/// What is between the ends of a run in real time: the path model in one of two places, or the
/// kernel's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// UDP inside this process, over loopback. Needs nothing.
    Udp,
    /// TUN devices between two network namespaces that the run makes. Needs Linux and root.
    Tun,
    /// The kernel's netem between two such namespaces, for tcp. Needs a kernel that has it, and root.
    Netem,
}

impl LinkKind {
    /// The name that [`FromStr`] takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tun => "tun",
            Self::Netem => "netem",
        }
    }
}

impl FromStr for LinkKind {
    type Err = ScenarioError;

    fn from_str(name: &str) -> Result<Self, ScenarioError> {
        match name {
            "udp" => Ok(Self::Udp),
            "tun" => Ok(Self::Tun),
            "netem" => Ok(Self::Netem),
            _ => Err(ScenarioError::UnknownLink(name.escape_debug().to_string())),
        }
    }
}

/// When a run is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// After this time, counted from the first flow's first request.
    Duration(Duration),
    /// When every flow has received this many bytes.
    Bytes(u64),
}

/// A path, the flows on it, and the algorithms to compare, one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// What carries the flows.
    pub over: Over,
    /// The link. `None`: UDP over quic, TUN over tcp.
    pub link: Option<LinkKind>,
    /// The algorithms, each run alone on a path of its own.
    pub cc: Vec<Cc>,
    /// Rate of the bottleneck, IP and UDP headers included.
    pub rate: Rate,
    /// Round-trip propagation delay, half of it in each direction.
    pub rtt: Duration,
    /// The queue in front of the bottleneck.
    pub buffer: Buffer,
    /// Random loss in the direction of the data.
    pub loss: Probability,
    /// How many flows share the path.
    pub flows: u32,
    /// Time between the starts of two flows.
    pub stagger: Duration,
    /// When the run is over.
    pub amount: Amount,
    /// Seed of the path's losses and of the algorithms' probe times.
    pub seed: u64,
}

impl Default for Scenario {
    /// BBRv3 and CUBIC for 10 s on 100 Mbit/s and 40 ms with a buffer of one BDP.
    fn default() -> Self {
        use fullpipe_cc::Algorithm::{Bbr3, Cubic};
        Self {
            over: Over::Quic,
            link: None,
            cc: [Bbr3, Cubic].map(|ours| CongestionControl::Fullpipe(ours).into()).to_vec(),
            rate: Rate::from_bits_per_sec(100_000_000),
            rtt: Duration::from_millis(40),
            buffer: Buffer::Bdp(1.0),
            loss: Probability::ZERO,
            flows: 1,
            stagger: Duration::ZERO,
            amount: Amount::Duration(Duration::from_secs(10)),
            seed: 1,
        }
    }
}

/// A scenario that cannot be run: one line that says what is wrong and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum ScenarioError {
    #[error("unknown backend '{0}'; there are quic, sim and tcp")]
    UnknownBackend(String),
    #[error("unknown link '{0}'; there are udp, tun and netem")]
    UnknownLink(String),
    #[error("--link udp carries UDP alone and is not for --over tcp; write --link tun")]
    TcpOverUdp,
    #[error(
        "--link netem is for the kernel's TCP; write --over tcp, or --link tun for --over quic"
    )]
    QuicOverNetem,
    #[error("--link is not for --over sim, which has no packets; leave it out")]
    NoLinkInSim,
    #[error("--link tun needs Linux; leave it out")]
    TunOnlyOnLinux,
    #[error("no algorithm to run; write --cc bbr3,cubic")]
    NoAlgorithm,
    #[error("{0} is named twice; each algorithm runs once")]
    Twice(Cc),
    #[error("{0} belongs to the QUIC stack and cannot run over sim; write --over quic")]
    OnlyOverQuic(Cc),
    #[error("{0} is the kernel's and runs over tcp alone; write --over tcp")]
    OnlyOverTcp(KernelCc),
    #[error(
        "{0} does not run over tcp, which has bbr3-linux and the kernel's own algorithms; write \
         --cc bbr3-linux,linux:bbr,linux:cubic"
    )]
    NotOverTcp(Cc),
    #[error(
        "{0} over tcp is a program for the kernel that this fullpipe was built without; build it with \
         `--features kernel` (needs clang-19, libelf-dev and zlib1g-dev), or write linux:NAME for one that is loaded"
    )]
    BuiltWithoutKernel(Cc),
    #[error("this kernel has no {0}; it has {1}")]
    NotInKernel(KernelCc, String),
    #[error("--over tcp needs Linux; write --over quic or --over sim")]
    OnlyOnLinux,
    #[error("--rate is 0 and nothing would ever arrive; write a rate like 100mbit")]
    ZeroRate,
    #[error(
        "--buffer {buffer} is {bytes} bytes here{origin}, too small for one packet of {MTU_BYTES}; write {instead}"
    )]
    BufferUnderOnePacket { buffer: String, bytes: u64, origin: String, instead: String },
    #[error(
        "--buffer {buffer} is {bytes} bytes here{origin}, larger than {}; write {instead}",
        show_bytes(MAX_BUFFER)
    )]
    BufferTooLarge { buffer: String, bytes: u64, origin: String, instead: String },
    #[error("--rtt {} is longer than {}; write a time like 40ms", show_duration(*.0), show_duration(MAX_RTT))]
    RttTooLong(Duration),
    #[error("--flows {flows} is outside 1 to {most}, the most over {over}; write --flows 2")]
    Flows { flows: u32, most: u32, over: Over },
    #[error("--duration is 0 and nothing could happen; write a time like 10s")]
    ZeroDuration,
    #[error("--bytes is 0 and nothing could happen; write a volume like 100MB")]
    ZeroBytes,
    #[error(
        "with --stagger {} the last of {flows} flows starts after the end of {}; write a longer \
         --duration", show_duration(*.stagger), show_duration(*.duration)
    )]
    StartsAfterTheEnd { stagger: Duration, flows: u32, duration: Duration },
}

impl ScenarioError {
    /// An algorithm that the backend does not have.
    pub(crate) fn wrong_backend(cc: Cc, over: Over) -> Self {
        match (cc, over) {
            (Cc::Kernel(cc), _) => Self::OnlyOverTcp(cc),
            (cc, Over::Tcp) => Self::NotOverTcp(cc),
            (cc, _) => Self::OnlyOverQuic(cc),
        }
    }
}

/// A larger queue would take the memory of the machine that emulates it.
const MAX_BUFFER: u64 = 4_000_000_000;

/// Longer than to the Moon and back ten times; a handshake would give up.
const MAX_RTT: Duration = Duration::from_secs(25);

impl Scenario {
    /// Whether it can be run at all.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        self.validate_algorithms()?;
        match (self.over, self.link) {
            (Over::Sim, Some(_)) => return Err(ScenarioError::NoLinkInSim),
            (Over::Tcp, Some(LinkKind::Udp)) => return Err(ScenarioError::TcpOverUdp),
            (Over::Quic, Some(LinkKind::Netem)) => return Err(ScenarioError::QuicOverNetem),
            _ => {}
        }
        self.validate_path()?;
        self.validate_flows()
    }

    fn validate_algorithms(&self) -> Result<(), ScenarioError> {
        if self.cc.is_empty() {
            return Err(ScenarioError::NoAlgorithm);
        }
        for (i, cc) in self.cc.iter().enumerate() {
            if self.cc[..i].contains(cc) {
                return Err(ScenarioError::Twice(*cc));
            }
            let runs = match (self.over, cc) {
                (Over::Quic, Cc::Program(_)) | (Over::Tcp, Cc::Kernel(_)) => true,
                (Over::Tcp, Cc::Program(cc)) => *cc == OVER_TCP,
                (Over::Sim, Cc::Program(cc)) => matches!(cc, CongestionControl::Fullpipe(_)),
                _ => false,
            };
            if !runs {
                return Err(ScenarioError::wrong_backend(*cc, self.over));
            }
        }
        Ok(())
    }

    fn validate_path(&self) -> Result<(), ScenarioError> {
        if self.rate == Rate::ZERO {
            return Err(ScenarioError::ZeroRate);
        }
        if self.rtt > MAX_RTT {
            return Err(ScenarioError::RttTooLong(self.rtt));
        }
        let (bytes, least) = match self.buffer {
            Buffer::Packets(n) => (n.saturating_mul(u64::from(MTU_BYTES)), 1),
            other => (other.bytes_on(self.rate, self.rtt).unwrap_or(0), u64::from(MTU_BYTES)),
        };
        let buffer = self.buffer.to_string();
        let origin = self.buffer.origin(self.rate, self.rtt);
        let is_computed = matches!(self.buffer, Buffer::Bdp(_));
        if bytes < least {
            let at_least = format!("at least {MTU_BYTES}B or 1pkts");
            let instead = match is_computed {
                true => format!("a larger --rate or --rtt, or a --buffer of {at_least}"),
                false => at_least,
            };
            return Err(ScenarioError::BufferUnderOnePacket { buffer, bytes, origin, instead });
        }
        if bytes > MAX_BUFFER {
            let smaller = if is_computed { "a smaller --rate or --rtt, or " } else { "" };
            let instead = format!("{smaller}a --buffer like 6MB or 700pkts");
            return Err(ScenarioError::BufferTooLarge { buffer, bytes, origin, instead });
        }
        Ok(())
    }

    fn validate_flows(&self) -> Result<(), ScenarioError> {
        let (flows, over) = (self.flows, self.over);
        let most = match over {
            Over::Quic => MAX_FLOWS_OVER_QUIC.min(MAX_FLOWS),
            Over::Tcp => MAX_FLOWS_OVER_TCP,
            Over::Sim => MAX_FLOWS,
        };
        if flows == 0 || flows > most {
            return Err(ScenarioError::Flows { flows, most, over });
        }
        match self.amount {
            Amount::Bytes(0) => Err(ScenarioError::ZeroBytes),
            Amount::Bytes(_) => Ok(()),
            Amount::Duration(Duration::ZERO) => Err(ScenarioError::ZeroDuration),
            Amount::Duration(duration) if self.start_of(self.flows - 1) >= duration => {
                let (stagger, flows) = (self.stagger, self.flows);
                Err(ScenarioError::StartsAfterTheEnd { stagger, flows, duration })
            }
            Amount::Duration(_) => Ok(()),
        }
    }

    /// The link that it runs over, if over any.
    pub(crate) fn link_kind(&self) -> Option<LinkKind> {
        match self.over {
            Over::Quic => Some(self.link.unwrap_or(LinkKind::Udp)),
            Over::Tcp => Some(self.link.unwrap_or(LinkKind::Tun)),
            Over::Sim => None,
        }
    }

    /// When flow `i` starts, counted from the start of flow 0.
    pub fn start_of(&self, i: u32) -> Duration {
        self.stagger.times(u64::from(i))
    }

    /// How much there is of a run.
    pub(crate) fn extent(&self) -> Extent {
        let (duration, bytes) = match self.amount {
            Amount::Duration(d) => (Some(d), None),
            Amount::Bytes(n) => (None, Some(n)),
        };
        Extent { flows: self.flows as usize, duration, bytes }
    }

    /// The propagation delays of the path's two directions, the bottleneck's first.
    pub(crate) fn delays(&self) -> (Duration, Duration) {
        let half = Duration::from_nanos(self.rtt.as_nanos() / 2);
        (half, self.rtt - half)
    }

    /// The path's two directions, the bottleneck's first.
    pub(crate) fn directions(&self) -> (PathConfig, PathConfig) {
        let (down, up) = self.delays();
        let downlink = Link {
            rate: Some(self.rate),
            delay: down,
            queue: self.buffer.limit_on(self.rate, self.rtt),
            loss: self.loss,
            seed: stream_seed(self.seed, Stream::Link, 0),
        };
        let seed = stream_seed(self.seed, Stream::Uplink, 0);
        let uplink = Link { delay: up, seed, ..Link::default() };
        (downlink.into(), uplink.into())
    }

    /// The scenario in plain numbers, as it stands in the results.
    pub fn record(&self) -> ScenarioRecord {
        let (duration_s, bytes) = match self.amount {
            Amount::Duration(d) => (Some(seconds(d)), None),
            Amount::Bytes(n) => (None, Some(n)),
        };
        ScenarioRecord {
            over: self.over.to_string(),
            link: self.link_kind().map(|link| link.name().to_owned()),
            cc: self.cc.iter().map(ToString::to_string).collect(),
            rate_bps: self.rate.as_bits_per_sec(),
            rtt_ms: millis(self.rtt),
            buffer: self.buffer.to_string(),
            buffer_bytes: self.buffer.bytes_on(self.rate, self.rtt),
            buffer_packets: match self.buffer {
                Buffer::Packets(n) => Some(n),
                _ => None,
            },
            loss: self.loss.as_f64(),
            flows: self.flows,
            stagger_s: seconds(self.stagger),
            duration_s,
            bytes,
            seed: self.seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fullpipe_cc::Algorithm;
    use fullpipe_quic::NoqAlgorithm;

    fn with(change: impl FnOnce(&mut Scenario)) -> Scenario {
        let mut s = Scenario::default();
        change(&mut s);
        s
    }

    #[test]
    fn what_cannot_run_says_why_on_one_line() {
        let noq = Cc::Program(CongestionControl::Noq(NoqAlgorithm::Bbr3));
        let bbr3 = Cc::Program(CongestionControl::Fullpipe(Algorithm::Bbr3));
        let linux: Cc = "linux:bbr".parse().expect("a kernel's name");
        for (scenario, says) in [
            (with(|s| s.cc.clear()), "no algorithm"),
            (with(|s| s.cc = vec![bbr3, noq, bbr3]), "bbr3 is named twice"),
            (with(|s| (s.over, s.cc) = (Over::Sim, vec![noq])), "noq:bbr3 belongs to"),
            (with(|s| (s.over, s.cc) = (Over::Sim, vec![linux])), "linux:bbr is the kernel's"),
            (with(|s| (s.over, s.cc) = (Over::Quic, vec![linux])), "write --over tcp"),
            (
                with(|s| (s.over, s.cc) = (Over::Tcp, vec![linux, bbr3])),
                "bbr3 does not run over tcp",
            ),
            (with(|s| s.rate = Rate::ZERO), "--rate is 0"),
            (with(|s| s.rtt = Duration::from_secs(60)), "--rtt 60s is longer"),
            (with(|s| s.buffer = Buffer::Bytes(1499)), "is 1499 bytes"),
            (
                with(|s| s.buffer = Buffer::Bdp(0.002)),
                "--buffer 0.002bdp is 1000 bytes here (100mbit x 40ms), too small",
            ),
            (with(|s| s.rtt = Duration::ZERO), "is 0 bytes here (100mbit x 0ns), too small"),
            (
                with(|s| s.rate = Rate::from_bits_per_sec(1_000_000_000_000)),
                "--buffer 1bdp is 5000000000 bytes here (1000gbit x 40ms), larger than 4GB",
            ),
            (with(|s| s.buffer = Buffer::Packets(0)), "--buffer 0pkts"),
            (with(|s| s.buffer = Buffer::Bdp(1e9)), "larger than 4GB; write a smaller --rate"),
            (with(|s| s.flows = 0), "--flows 0 is outside 1 to"),
            (
                with(|s| (s.over, s.cc, s.flows) = (Over::Tcp, vec![linux], 257)),
                "the most over tcp",
            ),
            (with(|s| s.flows = MAX_FLOWS_OVER_QUIC + 1), "the most over quic"),
            (with(|s| (s.over, s.flows) = (Over::Sim, 1001)), "--flows 1001 is outside 1 to 1000"),
            (with(|s| s.amount = Amount::Duration(Duration::ZERO)), "--duration is 0"),
            (with(|s| s.amount = Amount::Bytes(0)), "--bytes is 0"),
            (
                with(|s| (s.flows, s.stagger) = (11, Duration::from_secs(1))),
                "--stagger 1s the last of 11 flows",
            ),
        ] {
            let error = scenario.validate().expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
            assert!(!error.contains('\n') && error.contains("; "), "{error}");
        }
    }

    #[test]
    fn what_can_run_is_accepted() {
        for scenario in [
            Scenario::default(),
            with(|s| s.buffer = Buffer::Packets(1)),
            with(|s| s.buffer = Buffer::Bytes(1500)),
            with(|s| (s.flows, s.stagger) = (10, Duration::from_secs(1))),
            with(|s| (s.rtt, s.buffer) = (Duration::ZERO, Buffer::Bytes(64_000))),
            with(|s| {
                s.amount = Amount::Bytes(1);
                (s.flows, s.stagger) = (MAX_FLOWS_OVER_QUIC, Duration::from_secs(1));
            }),
        ] {
            assert_eq!(scenario.validate(), Ok(()), "{scenario:?}");
        }
    }

    #[test]
    fn the_record_has_numbers_with_units() {
        let r = with(|s| s.buffer = Buffer::Bdp(6.0)).record();
        assert_eq!((r.rate_bps, r.rtt_ms), (100_000_000, 40.0));
        assert_eq!((r.buffer.as_str(), r.buffer_bytes), ("6bdp", Some(3_000_000)));
        assert_eq!((r.duration_s, r.bytes), (Some(10.0), None));
        let r = with(|s| s.buffer = Buffer::Packets(700)).record();
        assert_eq!((r.buffer_bytes, r.buffer_packets), (None, Some(700)));
    }
}
