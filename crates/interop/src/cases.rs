//! The cases: files, paths and names as the public runner has them.

use std::time::Duration;

use serde::Serialize;

use fullpipe_scenario::suggest::did_you_mean;

const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

/// Time that a case has, unless it says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its kind, by which it is checked.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
    /// In a few words, what it passes by.
    pub about: &'static str,
    /// Time that it has; a client that is not done then has failed.
    pub timeout: Duration,
    /// The names that the ends are told as TESTCASE, where that is another name: the server and the
    /// client.
    pub(super) told: (&'static str, &'static str),
    /// The sizes of its files, in bytes.
    pub(super) files: Files,
    /// The handshakes that there must be.
    pub(super) handshakes: usize,
}

/// The files of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Files {
    /// Of these sizes.
    Sizes(&'static [usize]),
    /// As many of one size, with names of so many characters.
    Many { count: usize, bytes: usize, name_chars: usize },
}

/// The kind of a case, by which it is checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Kind {
    Handshake,
    Transfer,
    LongRtt,
    ChaCha20,
    Multiplexing,
    Retry,
    Resumption,
    ZeroRtt,
    Http3,
    Blackhole,
    KeyUpdate,
    Ecn,
    AmplificationLimit,
    HandshakeLoss,
    TransferLoss,
    HandshakeCorruption,
    TransferCorruption,
    Ipv6,
    V2,
    RebindPort,
    RebindAddr,
    ConnectionMigration,
    Goodput,
    CrossTraffic,
}

const fn case(
    kind: Kind,
    name: &'static str,
    told: (&'static str, &'static str),
    files: Files,
    about: &'static str,
) -> Case {
    Case { kind, name, about, timeout: TIMEOUT, told, files, handshakes: 1 }
}

const fn with_handshakes(case: Case, handshakes: usize, seconds: u64) -> Case {
    Case { handshakes, timeout: Duration::from_secs(seconds), ..case }
}

const TRANSFER: (&str, &str) = ("transfer", "transfer");
const MULTICONNECT: (&str, &str) = ("multiconnect", "multiconnect");
const FIFTY: Files = Files::Many { count: 50, bytes: KB, name_chars: 8 };

/// The cases, in the runner's order.
pub const CASES: [Case; 22] = [
    case(
        Kind::Handshake,
        "handshake",
        ("handshake", "handshake"),
        Files::Sizes(&[KB]),
        "one handshake without a Retry",
    ),
    case(
        Kind::Transfer,
        "transfer",
        TRANSFER,
        Files::Sizes(&[2 * MB, 3 * MB, 5 * MB]),
        "one handshake, flow control, no error at the end",
    ),
    case(
        Kind::LongRtt,
        "longrtt",
        ("handshake", "handshake"),
        Files::Sizes(&[KB]),
        "1.5 s of round trip: the ClientHello is repeated",
    ),
    case(
        Kind::ChaCha20,
        "chacha20",
        ("chacha20", "chacha20"),
        Files::Sizes(&[3 * MB]),
        "the client offers TLS_CHACHA20_POLY1305_SHA256 alone, and it is used",
    ),
    case(
        Kind::Multiplexing,
        "multiplexing",
        TRANSFER,
        Files::Many { count: 2000, bytes: 32, name_chars: 8 },
        "2000 files on one connection that allows 1000 streams at first, or fewer",
    ),
    case(
        Kind::Retry,
        "retry",
        ("retry", "retry"),
        Files::Sizes(&[10 * KB]),
        "a Retry, whose token the client returns",
    ),
    with_handshakes(
        case(
            Kind::Resumption,
            "resumption",
            ("resumption", "resumption"),
            Files::Sizes(&[5 * KB, 10 * KB]),
            "the second connection has no certificate",
        ),
        2,
        60,
    ),
    with_handshakes(
        case(
            Kind::ZeroRtt,
            "zerortt",
            ("zerortt", "zerortt"),
            Files::Many { count: 40, bytes: 32, name_chars: 250 },
            "most requests of the second connection are in 0-RTT packets",
        ),
        2,
        60,
    ),
    case(
        Kind::Http3,
        "http3",
        ("http3", "http3"),
        Files::Sizes(&[5 * KB, 10 * KB, 500 * KB]),
        "HTTP/3",
    ),
    case(
        Kind::Blackhole,
        "blackhole",
        TRANSFER,
        Files::Sizes(&[10 * MB]),
        "no packet passes for 2 s after each 5 s",
    ),
    case(
        Kind::KeyUpdate,
        "keyupdate",
        ("transfer", "keyupdate"),
        Files::Sizes(&[3 * MB]),
        "both ends change the key phase",
    ),
    case(
        Kind::Ecn,
        "ecn",
        ("ecn", "ecn"),
        Files::Sizes(&[100 * KB]),
        "both ends mark their packets as ECN-capable and report counts",
    ),
    case(
        Kind::AmplificationLimit,
        "amplificationlimit",
        TRANSFER,
        Files::Sizes(&[5 * KB]),
        "a long certificate chain, and never more than 3 times what the client sent",
    ),
    with_handshakes(
        case(
            Kind::HandshakeLoss,
            "handshakeloss",
            MULTICONNECT,
            FIFTY,
            "50 connections, 30 % of the packets lost",
        ),
        50,
        300,
    ),
    case(
        Kind::TransferLoss,
        "transferloss",
        TRANSFER,
        Files::Sizes(&[2 * MB]),
        "2 % of the packets lost",
    ),
    with_handshakes(
        case(
            Kind::HandshakeCorruption,
            "handshakecorruption",
            MULTICONNECT,
            FIFTY,
            "50 connections, 30 % of the packets corrupted",
        ),
        50,
        300,
    ),
    case(
        Kind::TransferCorruption,
        "transfercorruption",
        TRANSFER,
        Files::Sizes(&[2 * MB]),
        "2 % of the packets corrupted",
    ),
    case(Kind::Ipv6, "ipv6", TRANSFER, Files::Sizes(&[5 * KB, 10 * KB]), "IPv6 alone"),
    case(
        Kind::V2,
        "v2",
        ("v2", "v2"),
        Files::Sizes(&[KB]),
        "the client begins with version 1, and the server moves it to version 2",
    ),
    case(
        Kind::RebindPort,
        "rebind-port",
        TRANSFER,
        Files::Sizes(&[10 * MB]),
        "the client's port changes at 1 s and each 5 s: a path challenge is answered",
    ),
    case(
        Kind::RebindAddr,
        "rebind-addr",
        TRANSFER,
        Files::Sizes(&[10 * MB]),
        "its address changes too",
    ),
    case(
        Kind::ConnectionMigration,
        "connectionmigration",
        ("connectionmigration", "transfer"),
        Files::Sizes(&[2 * MB]),
        "the client moves to the server's preferred address",
    ),
];

/// The measurements.
pub const MEASUREMENTS: [Case; 2] = [
    case(
        Kind::Goodput,
        "goodput",
        TRANSFER,
        Files::Sizes(&[10 * MB]),
        "8 x 10 MiB / time from the first to the last 1-RTT packet of the server",
    ),
    with_handshakes(
        case(
            Kind::CrossTraffic,
            "crosstraffic",
            TRANSFER,
            Files::Sizes(&[25 * MB]),
            "the same of 25 MiB beside a TCP flow of the kernel's CUBIC",
        ),
        1,
        180,
    ),
];

impl Case {
    /// True if its result is a number.
    pub fn is_measurement(&self) -> bool {
        matches!(self.kind, Kind::Goodput | Kind::CrossTraffic)
    }

    /// The number of its runs when nobody says another.
    pub fn usual_runs(&self) -> usize {
        if self.is_measurement() { 5 } else { 1 }
    }

    /// Bytes of all its files.
    pub(super) fn bytes(&self) -> usize {
        match self.files {
            Files::Sizes(sizes) => sizes.iter().sum(),
            Files::Many { count, bytes, .. } => count * bytes,
        }
    }
}

/// A name that no case has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{name}' is no case; there are {}{meant}", .all.join(", "))]
pub struct UnknownCase {
    name: String,
    all: Vec<&'static str>,
    meant: String,
}

/// The cases and measurements of these names, in their own order.
///
/// # Errors
/// A name that is none.
pub fn choose_cases(names: &[String]) -> Result<Vec<&'static Case>, UnknownCase> {
    let all = || CASES.iter().chain(&MEASUREMENTS);
    let known: Vec<&'static str> = all().map(|case| case.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let meant = did_you_mean(name, known.iter().copied());
        return Err(UnknownCase { name: name.escape_debug().to_string(), all: known, meant });
    }
    Ok(all().filter(|case| names.iter().any(|name| name == case.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name() {
        let names = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let chosen = choose_cases(&names(&["goodput", "retry"])).expect("two");
        assert_eq!(chosen.iter().map(|c| c.name).collect::<Vec<_>>(), ["retry", "goodput"]);
        let error = choose_cases(&names(&["retri"])).expect_err("none").to_string();
        assert!(error.contains("did you mean retry"), "{error}");
    }

    #[test]
    fn the_cases_are_those_of_the_runner() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 22);
        for case in CASES.iter().chain(&MEASUREMENTS) {
            assert!(case.bytes() > 0 && case.timeout >= TIMEOUT, "{}", case.name);
        }
    }
}
