//! Names of congestion controls: ours, those of other crates that were registered, and noq's own.

use std::fmt;
use std::str::FromStr;
use std::sync::{PoisonError, RwLock};

use fullpipe_cc::{Algorithm, CustomAlgorithm, UnknownAlgorithm};

/// The algorithms of other crates that names are looked up in besides our own, the newest last.
static CUSTOM: RwLock<Vec<&'static CustomAlgorithm>> = RwLock::new(Vec::new());

/// Lets names mean algorithms of other crates, from now on and in the whole process. A name that
/// was registered before means the new one in what is read later.
pub fn register_algorithms(custom: &[&'static CustomAlgorithm]) {
    CUSTOM.write().unwrap_or_else(PoisonError::into_inner).extend(custom);
}

/// The algorithm of that name: one of ours, or one that was registered.
pub fn algorithm_by_name(name: &str) -> Result<Algorithm, UnknownAlgorithm> {
    let all = CUSTOM.read().unwrap_or_else(PoisonError::into_inner);
    let custom = all.iter().rev().find(|custom| custom.name == name);
    name.parse().or_else(|unknown| custom.map(|c| Algorithm::Custom(c)).ok_or(unknown))
}

/// The controller of a connection. An algorithm of another stack is always written `stack:name`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionControl {
    /// fullpipe's own algorithm.
    Fullpipe(Algorithm),
    /// noq's own, to stand beside ours on the same path.
    Noq(NoqAlgorithm),
}

/// The controllers that come with noq.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoqAlgorithm {
    /// noq's BBRv3.
    Bbr3,
    /// noq's CUBIC.
    Cubic,
    /// noq's NewReno.
    NewReno,
}

impl NoqAlgorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Bbr3 => "noq:bbr3",
            Self::Cubic => "noq:cubic",
            Self::NewReno => "noq:reno",
        }
    }
}

impl CongestionControl {
    /// The names that [`FromStr`] takes.
    pub const NAMES: [&'static str;
        10 + cfg!(feature = "bbr-swift") as usize + cfg!(feature = "prague") as usize] = [
        "bbr3",
        "bbr3x",
        "bbr3-linux",
        "bbr3x-linux",
        #[cfg(feature = "bbr-swift")]
        "bbr-swift",
        #[cfg(feature = "prague")]
        "prague",
        "bbr1",
        "cubic",
        "reno",
        "noq:bbr3",
        "noq:cubic",
        "noq:reno",
    ];

    /// The name, as in [`Self::NAMES`]; `fixed` for a fixed rate, which has no name to parse.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fullpipe(algorithm) => algorithm.name(),
            Self::Noq(algorithm) => algorithm.name(),
        }
    }
}

impl From<Algorithm> for CongestionControl {
    fn from(algorithm: Algorithm) -> Self {
        Self::Fullpipe(algorithm)
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is none of [`CongestionControl::NAMES`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown algorithm {0:?}; there are {ours}, and noq's own noq:bbr3, noq:cubic and noq:reno",
    ours = Algorithm::NAMES.join(", ")
)]
pub struct UnknownCongestionControl(pub String);

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(name: &str) -> Result<Self, UnknownCongestionControl> {
        match name {
            "noq:bbr3" => Ok(Self::Noq(NoqAlgorithm::Bbr3)),
            "noq:cubic" => Ok(Self::Noq(NoqAlgorithm::Cubic)),
            "noq:reno" => Ok(Self::Noq(NoqAlgorithm::NewReno)),
            ours => algorithm_by_name(ours)
                .map(Self::Fullpipe)
                .map_err(|_| UnknownCongestionControl(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_to_the_algorithm_that_prints_it() {
        for name in CongestionControl::NAMES {
            let parsed: CongestionControl = name.parse().expect(name);
            assert_eq!(parsed.to_string(), name);
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_that_there_are() {
        for name in ["bbr", "BBR3", "", "noq:", "noq:bbr", "quinn:bbr", " bbr3", "fixed"] {
            let error = name.parse::<CongestionControl>().expect_err(name).to_string();
            for known in CongestionControl::NAMES {
                assert!(error.contains(known), "{error}");
            }
        }
    }
}
