//! Words of a column's name: what it is, and in which unit.

use super::header::Role;
use super::units::TimeUnit;

/// The words of a column's name in small letters: `Throughput (Mbps)` has `throughput` and `mbps`.
fn words(name: &str) -> Vec<String> {
    let split = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    split.map(str::to_lowercase).collect()
}

fn has(words: &[String], any: &[&str]) -> bool {
    words.iter().any(|word| any.contains(&word.as_str()))
}

const RATE_UNITS: [(&[&str], f64, &str); 4] = [
    (&["gbps", "gbit", "gbits", "gigabit", "gigabits"], 1e9 / 8.0, "Gbit/s"),
    (&["mbps", "mbit", "mbits", "megabit", "megabits"], 1e6 / 8.0, "Mbit/s"),
    (&["kbps", "kbit", "kbits", "kilobit", "kilobits"], 1e3 / 8.0, "kbit/s"),
    (&["bps", "bit", "bits"], 1.0 / 8.0, "bit/s"),
];

/// Units that differ in capital letters, or that words of letters and digits would cut in two.
const EXACT_UNITS: [(&[&str], f64, &str); 15] = [
    (&["GiB/s"], 1_073_741_824.0, "GiB/s"),
    (&["MiB/s"], 1_048_576.0, "MiB/s"),
    (&["KiB/s", "kiB/s"], 1024.0, "KiB/s"),
    (&["GB/s", "GBps"], 1e9, "GB/s"),
    (&["MB/s", "MBps"], 1e6, "MB/s"),
    (&["kB/s", "KB/s", "kBps", "KBps"], 1e3, "kB/s"),
    (&["B/s", "Bps"], 1.0, "B/s"),
    (&["Gib/s", "gib/s"], 1_073_741_824.0 / 8.0, "Gibit/s"),
    (&["Mib/s", "mib/s"], 1_048_576.0 / 8.0, "Mibit/s"),
    (&["Kib/s", "kib/s"], 1024.0 / 8.0, "Kibit/s"),
    (&["Tb/s", "tb/s"], 1e12 / 8.0, "Tbit/s"),
    (&["Gb/s", "gb/s"], 1e9 / 8.0, "Gbit/s"),
    (&["Mb/s", "mb/s"], 1e6 / 8.0, "Mbit/s"),
    (&["Kb/s", "kb/s"], 1e3 / 8.0, "kbit/s"),
    (&["b/s"], 1.0 / 8.0, "bit/s"),
];

/// Bytes in full; `per second` goes without saying.
const BYTE_WORDS: [(&[&str], f64, &str); 4] = [
    (&["gbyte", "gbytes", "gigabytes"], 1e9, "GB/s"),
    (&["mbyte", "mbytes", "megabytes"], 1e6, "MB/s"),
    (&["kbyte", "kbytes", "kilobytes"], 1e3, "kB/s"),
    (&["byte", "bytes"], 1.0, "B/s"),
];

/// Units of a rate that may be bits or bytes, or that are neither.
const UNKNOWN_UNITS: [&str; 22] = [
    "per", "sec", "kb", "mb", "gb", "tb", "kib", "mib", "gib", "kibps", "mibps", "gibps", "kibit",
    "mibit", "gibit", "tbps", "pps", "packet", "packets", "pkt", "pkts", "frames",
];

/// Units of times in which no round-trip time is.
const LONG_TIMES: [(&[&str], f64, &str); 3] = [
    (&["min", "mins", "minute", "minutes"], 60e9, "min"),
    (&["h", "hr", "hrs", "hour", "hours"], 3600e9, "h"),
    (&["days"], 86_400e9, "d"),
];

/// Of the other direction: not the rate where there is another one.
const UPWARDS: [&str; 5] = ["up", "upload", "ul", "uplink", "upstream"];

/// Of a spread: not the value where there is another one.
const SPREADS: [&str; 3] = ["min", "max", "baseline"];

/// Of a deviation, which is never the value.
const DEVIATIONS: [&str; 9] =
    ["std", "stddev", "stdev", "mdev", "var", "variance", "variation", "deviation", "jitter"];

const DOWNWARDS: [&str; 3] = ["download", "dl", "downlink"];
const RATES: [&str; 9] =
    ["rate", "bitrate", "throughput", "bandwidth", "bw", "goodput", "capacity", "tput", "speed"];
const RTTS: [&str; 3] = ["rtt", "ping", "latency"];
const DELAYS: [&str; 3] = ["delay", "owd", "oneway"];
const LOSSES: [&str; 3] = ["loss", "lost", "plr"];
const TIMES: [&str; 8] = ["time", "t", "timestamp", "ts", "epoch", "date", "datetime", "elapsed"];

/// The meaning of a column by its name.
pub(super) fn role_of(name: &str) -> Option<Role> {
    let words = words(name);
    let is_rate_unit = || {
        RATE_UNITS.iter().any(|(names, ..)| has(&words, names))
            || EXACT_UNITS.iter().any(|(names, ..)| names.iter().any(|unit| name.contains(unit)))
            || BYTE_WORDS.iter().any(|(names, ..)| has(&words, names))
                && has(&words, &["s", "sec", "second", "per"])
    };
    match () {
        () if has(&words, &DEVIATIONS) => None,
        () if has(&words, &RTTS) || has(&words, &["round"]) && has(&words, &["trip"]) => {
            Some(Role::Rtt)
        }
        () if has(&words, &DELAYS) || has(&words, &["one"]) && has(&words, &["way"]) => {
            // That of a queue is in addition to the path's.
            let is_of_a_queue = words.iter().any(|word| word.starts_with("queu"));
            (!is_of_a_queue).then_some(Role::Delay)
        }
        // `loss_rate` is a loss.
        () if has(&words, &LOSSES) => (!is_a_count(name)).then_some(Role::Loss),
        () if has(&words, &RATES) || is_rate_unit() => Some(Role::Rate),
        () if has(&words, &DOWNWARDS) => Some(Role::Rate),
        () if has(&words, &TIMES) => Some(Role::Time),
        () if words.len() == 1 && TimeUnit::of_words(&words).is_some() => Some(Role::Time),
        () => None,
    }
}

/// True if a name begins with a word of its meaning, as `rtt` does and `video_ts` does not.
pub(super) fn begins_with(role: Role, name: &str) -> bool {
    let of_role: &[&str] = match role {
        Role::Time => &TIMES,
        Role::Rate => &RATES,
        Role::Rtt => &RTTS,
        Role::Delay => &DELAYS,
        Role::Loss => &LOSSES,
    };
    words(name).first().is_some_and(|word| of_role.contains(&word.as_str()))
}

/// The unit of a rate that its name says: bytes per second and its sign.
pub(super) fn said_rate(name: &str) -> Option<(f64, &'static str)> {
    let words = words(name);
    let exact = EXACT_UNITS.iter().find(|(names, ..)| names.iter().any(|u| name.contains(u)));
    let bits = || RATE_UNITS.iter().find(|(names, ..)| has(&words, names));
    let bytes = || BYTE_WORDS.iter().find(|(names, ..)| has(&words, names));
    let (_, scale, unit) = exact.or_else(bits).or_else(bytes)?;
    Some((*scale, unit))
}

/// True if a name says bytes, and nothing of a rate or of a second.
pub(super) fn is_an_amount(name: &str) -> bool {
    let words = words(name);
    let has_bytes = BYTE_WORDS.iter().any(|(names, ..)| has(&words, names));
    has_bytes && !has(&words, &RATES) && !has(&words, &["s", "sec", "second", "per"])
}

/// True if a name has a unit of a rate that is not known.
pub(super) fn has_unknown_unit(name: &str) -> bool {
    name.contains('/') || has(&words(name), &UNKNOWN_UNITS)
}

/// The unit of a time that its name says: nanoseconds and its sign. `rtt_min` is no time in minutes.
pub(super) fn said_time(role: Role, name: &str) -> Option<(f64, &'static str)> {
    let words = words(name);
    let short = TimeUnit::of_words(&words).map(|unit| (unit.nanos(), unit.name()));
    let is_long = |(names, ..): &&(&[&str], f64, &str)| role == Role::Time && has(&words, names);
    let long = || LONG_TIMES.iter().find(is_long).map(|(_, nanos, sign)| (*nanos, *sign));
    short.or_else(long)
}

/// True if a loss is in percent.
pub(super) fn says_percent(name: &str) -> bool {
    name.contains('%') || has(&words(name), &["percent", "pct", "percentage"])
}

/// True if what was lost is a number of packets, and no share of them.
fn is_a_count(name: &str) -> bool {
    let words = words(name);
    let of_packets = has(&words, &["lost"]) && has(&words, &["packet", "packets", "pkt", "pkts"]);
    let is_share = says_percent(name) || has(&words, &["rate", "ratio", "share", "fraction"]);
    has(&words, &["pps", "count", "counts"]) || of_packets && !is_share
}

/// True if a name says the other direction.
pub(super) fn is_upwards(name: &str) -> bool {
    has(&words(name), &UPWARDS)
}

/// True if a name says an end of the spread.
pub(super) fn is_a_spread(name: &str) -> bool {
    has(&words(name), &SPREADS)
}

/// True if a speed is that of a vehicle: it is no link's by its name, and there are places on earth.
pub(super) fn is_of_a_vehicle(name: &str, names: &[String]) -> bool {
    let is_there = |any: &[&str]| names.iter().any(|other| has(&words(other), any));
    let own = words(name);
    has(&own, &["speed"])
        && said_rate(name).is_none()
        && !has(&own, &DOWNWARDS)
        && !has(&own, &UPWARDS)
        && is_there(&["lat", "latitude"])
        && is_there(&["lon", "lng", "long", "longitude"])
}
