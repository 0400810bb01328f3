//! Tables of programs and data sets whose names of columns do not say the units.

use super::header::{Role, same};
use super::units::{RateUnit, TimeUnit};

/// Unit of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unit {
    Rate(RateUnit),
    Time(TimeUnit),
}

/// A table that is known by names of its columns.
#[derive(Debug)]
pub(super) struct Known {
    /// Columns that are all there.
    has: &'static [&'static str],
    /// The columns that are read, where they are there.
    reads: &'static [(Role, &'static str)],
    /// A column that is the same in all rows of one path.
    of_path: Option<&'static str>,
    /// Units that the names do not say.
    units: &'static [(&'static str, Unit)],
}

const KNOWN: [Known; 4] = [
    // Puffer's video_sent.
    Known {
        has: &["in_flight", "min_rtt", "rtt", "delivery_rate"],
        reads: &[(Role::Time, "time (ns GMT)"), (Role::Rate, "delivery_rate"), (Role::Rtt, "rtt")],
        of_path: Some("session_id"),
        units: &[
            ("delivery_rate", Unit::Rate(RateUnit::Bytes)),
            ("rtt", Unit::Time(TimeUnit::Micros)),
            ("min_rtt", Unit::Time(TimeUnit::Micros)),
        ],
    },
    // G-NetTrack Pro, and with it the 4G and 5G data sets of Cork.
    Known {
        has: &["Timestamp", "DL_bitrate"],
        reads: &[(Role::Time, "Timestamp"), (Role::Rate, "DL_bitrate"), (Role::Rtt, "PINGAVG")],
        of_path: None,
        units: &[
            ("DL_bitrate", Unit::Rate(RateUnit::Kbits)),
            ("UL_bitrate", Unit::Rate(RateUnit::Kbits)),
        ],
    },
    // speedtest-cli --csv.
    Known {
        has: &["Server ID", "Timestamp", "Ping", "Download"],
        reads: &[(Role::Time, "Timestamp"), (Role::Rate, "Download"), (Role::Rtt, "Ping")],
        of_path: None,
        units: &[("Download", Unit::Rate(RateUnit::Bits)), ("Upload", Unit::Rate(RateUnit::Bits))],
    },
    // cake-autorate: the shaper's rate is what the link carries; what was achieved may be less.
    Known {
        has: &["LOG_TIMESTAMP", "CAKE_DL_RATE_KBPS"],
        reads: &[(Role::Time, "LOG_TIMESTAMP"), (Role::Rate, "CAKE_DL_RATE_KBPS")],
        of_path: None,
        units: &[],
    },
];

impl Known {
    /// The table with such columns.
    pub(super) fn of(names: &[String]) -> Option<&'static Self> {
        let has = |wanted: &&str| names.iter().any(|name| same(name, wanted));
        KNOWN.iter().find(|known| known.has.iter().all(has))
    }

    /// The places of the columns that are read.
    pub(super) fn columns(&self, names: &[String]) -> Vec<(Role, usize)> {
        let place = |(role, wanted): &(Role, &str)| {
            Some((*role, names.iter().position(|name| same(name, wanted))?))
        };
        self.reads.iter().filter_map(place).collect()
    }

    /// Place and name of the column that is the same in all rows of one path.
    pub(super) fn of_path(&self, names: &[String]) -> Option<(usize, &'static str)> {
        let wanted = self.of_path?;
        Some((names.iter().position(|name| same(name, wanted))?, wanted))
    }

    /// The unit of a column.
    pub(super) fn unit(&self, name: &str) -> Option<Unit> {
        self.units.iter().find(|(known, _)| same(known, name)).map(|(_, unit)| *unit)
    }
}
