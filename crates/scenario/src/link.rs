//! Kinds of link between the ends of a run in real time.

use std::fmt;
use std::str::FromStr;

/// The path model in one of two places, or the kernel's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// UDP inside this process, over loopback. Needs nothing.
    Udp,
    /// TUN devices between two network namespaces that the run makes. Needs Linux and root.
    Tun,
    /// The kernel's netem between two such namespaces, for tcp. Needs a kernel that has it, and
    /// root.
    Netem,
}

/// A name that no link has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown link '{0}'; there are udp, tun and netem")]
pub struct UnknownLink(String);

impl LinkKind {
    const ALL: [Self; 3] = [Self::Udp, Self::Tun, Self::Netem];

    /// The name that [`FromStr`] takes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tun => "tun",
            Self::Netem => "netem",
        }
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LinkKind {
    type Err = UnknownLink;

    fn from_str(name: &str) -> Result<Self, UnknownLink> {
        let found = Self::ALL.into_iter().find(|link| link.name() == name);
        found.ok_or_else(|| UnknownLink(name.escape_debug().to_string()))
    }
}
