//! Whose congestion control a flow runs: a library's in this program, or the kernel's.

use std::fmt;
use std::str::FromStr;

use fullpipe_adapter::CongestionControl;
use fullpipe_cc::Algorithm;

use crate::suggest::did_you_mean;

/// Prefix of a kernel's algorithm.
const KERNEL: &str = "linux:";

/// Prefix of a fixed rate.
const FIXED: &str = "fixed:";

/// Those of the kernel's that most machines have.
const KERNELS: [&str; 3] = ["linux:bbr", "linux:cubic", "linux:reno"];

/// The longest name that the kernel gives an algorithm (TCP_CA_NAME_MAX, less the 0 at its end).
const MAX_NAME: usize = 15;

/// A congestion control to run a scenario with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cc {
    /// Ours, or one of noq's.
    Program(CongestionControl),
    /// Another QUIC stack's own, written `quinn:NAME` or `s2n:NAME`.
    Stack(StackAlgorithm),
    /// The kernel's own, written `linux:NAME`.
    Kernel(KernelCc),
    /// Whatever a program of other people's has.
    Foreign,
}

/// The controllers that come with quinn and with s2n-quic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackAlgorithm {
    /// quinn's BBR, of version 1.
    QuinnBbr,
    /// quinn's CUBIC.
    QuinnCubic,
    /// quinn's NewReno.
    QuinnReno,
    /// s2n-quic's BBR, of version 2.
    S2nBbr,
    /// s2n-quic's CUBIC.
    S2nCubic,
}

impl StackAlgorithm {
    const ALL: [Self; 5] =
        [Self::QuinnBbr, Self::QuinnCubic, Self::QuinnReno, Self::S2nBbr, Self::S2nCubic];

    fn name(self) -> &'static str {
        match self {
            Self::QuinnBbr => "quinn:bbr",
            Self::QuinnCubic => "quinn:cubic",
            Self::QuinnReno => "quinn:reno",
            Self::S2nBbr => "s2n:bbr",
            Self::S2nCubic => "s2n:cubic",
        }
    }
}

/// The name of a TCP congestion control of the kernel, as in
/// `/proc/sys/net/ipv4/tcp_available_congestion_control`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelCc {
    bytes: [u8; MAX_NAME],
    length: usize,
}

impl KernelCc {
    /// By the kernel's own name for it; `None` where no algorithm could have that name.
    pub fn named(name: &str) -> Option<Self> {
        let fits = !name.is_empty() && name.len() <= MAX_NAME;
        if !fits || !name.bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let mut bytes = [0; MAX_NAME];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Self { bytes, length: name.len() })
    }

    /// The name without `linux:`.
    pub fn name(&self) -> &str {
        // It was made of a str, cut nowhere.
        self.bytes.get(..self.length).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

/// A name that no algorithm has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownCc {
    /// A fixed rate that is none.
    #[error(transparent)]
    Rate(crate::units::ParseError),
    /// Not one of this program's.
    #[error(
        "{0}; over quinn its own quinn:bbr, quinn:cubic, quinn:reno; over s2n its own s2n:bbr, \
         s2n:cubic; fixed:RATE; over linux the kernel's: linux:bbr, linux:cubic, linux:reno{meant}",
        meant = did_you_mean(&.0.0, Cc::names())
    )]
    Program(#[from] fullpipe_adapter::UnknownCongestionControl),
    /// Not one that a kernel could have.
    #[error("'{0}' is no name of a kernel's algorithm; write one like linux:bbr")]
    Kernel(String),
}

impl FromStr for Cc {
    type Err = UnknownCc;

    fn from_str(text: &str) -> Result<Self, UnknownCc> {
        if let Some(rate) = text.strip_prefix(FIXED) {
            let rate = crate::units::parse_rate(rate).map_err(UnknownCc::Rate)?;
            return Ok(CongestionControl::Fullpipe(Algorithm::Fixed(rate)).into());
        }
        if let Some(own) = StackAlgorithm::ALL.into_iter().find(|a| a.name() == text) {
            return Ok(Self::Stack(own));
        }
        let Some(name) = text.strip_prefix(KERNEL) else {
            return Ok(Self::Program(text.parse()?));
        };
        let unknown = || UnknownCc::Kernel(text.escape_debug().to_string());
        KernelCc::named(name).map(Self::Kernel).ok_or_else(unknown)
    }
}

impl Cc {
    /// Names of all, but for those that few kernels have and for fixed rates.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let stacks = StackAlgorithm::ALL.into_iter().map(StackAlgorithm::name);
        CongestionControl::NAMES.into_iter().chain(stacks).chain(KERNELS)
    }

    /// The algorithm, if it is one of this program's own.
    pub fn algorithm(self) -> Option<Algorithm> {
        match self {
            Self::Program(CongestionControl::Fullpipe(algorithm)) => Some(algorithm),
            _ => None,
        }
    }
}

impl From<CongestionControl> for Cc {
    fn from(cc: CongestionControl) -> Self {
        Self::Program(cc)
    }
}

impl fmt::Display for KernelCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{KERNEL}{}", self.name())
    }
}

impl fmt::Display for Cc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(CongestionControl::Fullpipe(Algorithm::Fixed(rate))) => {
                write!(f, "{FIXED}{}", crate::units::show_rate(*rate))
            }
            Self::Program(cc) => cc.fmt(f),
            Self::Stack(algorithm) => f.write_str(algorithm.name()),
            Self::Kernel(cc) => cc.fmt(f),
            Self::Foreign => f.write_str("a program's own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_programs_or_the_kernels() {
        let of_others = ["noq:cubic", "quinn:bbr", "s2n:bbr", "linux:bbr", "linux:a-name_of_15_by"];
        for name in ["bbr3", "fixed:1500kbit"].into_iter().chain(of_others) {
            let parsed: Result<Cc, _> = name.parse();
            assert_eq!(parsed.map(|cc| cc.to_string()), Ok(name.to_owned()));
        }
        let Ok(Cc::Kernel(bbr)) = "linux:bbr".parse() else { panic!("the kernel's") };
        assert_eq!(bbr.name(), "bbr");
    }

    #[test]
    fn what_is_neither_is_told_what_would_be_right() {
        for name in ["linux:", "linux:of_16_characters", "linux:bbr ", "linux:b\nr", "linux", "bbr"]
        {
            let error = name.parse::<Cc>().expect_err(name).to_string();
            assert!(error.contains("linux:bbr") && !error.contains('\n'), "{error}");
        }
    }
}
