//! A drawn path as the text of a scenario file, which the lab reads like any other.

use std::fmt::Write as _;
use std::ops::Range;

use crate::case::{Case, Disturbance, Kind, PACKET_BYTES};
use crate::chance::digits;

/// A queue has room for so many packets at least.
const LEAST_PACKETS: f64 = 4.0;

/// A queue discipline needs some room for its signals.
const LEAST_MANAGED_PACKETS: f64 = 40.0;

/// Frames of a media flow in a second.
const FRAMES_PER_S: f64 = 30.0;

/// Senders of the flows under test.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Senders {
    /// Names of algorithms as a scenario file has them, or `program:NAME`. `NAME#2` is NAME once
    /// more, with other seeds.
    pub names: Vec<String>,
    /// Programs: name, and the table of its commands.
    pub programs: Vec<(String, String)>,
}

impl Senders {
    /// Those with the names given, in that order.
    pub fn only(&self, names: &[&str]) -> Self {
        let is_named = |(name, _): &&(String, String)| {
            names.iter().any(|n| algorithm(n).strip_prefix("program:") == Some(name))
        };
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            programs: self.programs.iter().filter(is_named).cloned().collect(),
        }
    }
}

/// Names in which each that was there before has a number, as `bbr3#2`.
pub fn numbered(names: &[String]) -> Vec<String> {
    let number = |i: usize| names[..=i].iter().filter(|name| **name == names[i]).count();
    let each = names.iter().enumerate();
    each.map(|(i, name)| match number(i) {
        1 => name.clone(),
        n => format!("{name}#{n}"),
    })
    .collect()
}

/// The algorithm of a name that may have a number.
pub fn algorithm(name: &str) -> &str {
    name.split_once('#').map_or(name, |(algorithm, _)| algorithm)
}

/// Number of a name, from 1.
fn number_of(name: &str) -> usize {
    let number = name.split_once('#').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1).max(1)
}

/// True if a name has a number: the algorithm is there once more.
pub(crate) fn is_again(name: &str) -> bool {
    number_of(name) > 1
}

impl Senders {
    /// The algorithms, each once.
    fn algorithms(&self) -> Vec<&str> {
        let mut all = Vec::new();
        for name in self.names.iter().map(|name| algorithm(name)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// Number of seeds of a scenario in which each sender has so many of its own.
    fn seeds(&self, each: usize) -> usize {
        each * self.names.iter().map(|name| number_of(name)).max().unwrap_or(1)
    }

    /// The runs of a sender in a scenario's plan.
    pub(crate) fn runs_of(&self, name: &str, seeds: usize) -> Range<usize> {
        let place = self.algorithms().iter().position(|known| *known == algorithm(name));
        let first = place.unwrap_or(0) * self.seeds(seeds) + (number_of(name) - 1) * seeds;
        first..first + seeds
    }
}

/// The scenario's text: a run for each algorithm and each of its seeds. The lines of `about` stand
/// at its top as comments.
pub fn scenario(
    case: &Case,
    senders: &Senders,
    seeds: usize,
    about: &[String],
    expect: &[String],
) -> String {
    let mut file = String::new();
    for line in about {
        // Text is written to text without fail; so below.
        let _ = writeln!(file, "# {line}");
    }
    let algorithms = senders.algorithms();
    let cc = list(algorithms.iter().map(|name| format!("\"{name}\"")).collect());
    let all = (0..senders.seeds(seeds) as u64).map(|i| case.seed.wrapping_add(i).to_string());
    let seed = list(all.collect());
    let _ = write!(
        file,
        "name = \"survey path {}\"\ncc = {cc}\nduration = \"{}s\"\nseed = {seed}\nexpect = [\n",
        case.path,
        case.duration_s(),
    );
    for line in expect {
        let _ = writeln!(file, "    \"{line}\",");
    }
    file.push_str("]\n\n[path]\n");
    path(case, &mut file);
    flows(case, &mut file);
    if !senders.programs.is_empty() {
        file.push_str("\n[program]\n");
    }
    for (name, table) in &senders.programs {
        let _ = writeln!(file, "{name} = {table}");
    }
    file
}

/// One value is no axis of a grid.
fn list(values: Vec<String>) -> String {
    match values.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

/// A rate with three digits.
fn mbit(mbps: f64) -> String {
    format!("{}mbit", digits(mbps, 3))
}

/// Bytes that a rate carries in a time.
fn bytes_in(mbps: f64, ms: f64) -> f64 {
    mbps * 1e6 / 8.0 * ms / 1e3
}

/// A buffer in bytes, in packets where it is small.
fn room(bytes: f64, least_packets: f64) -> String {
    match bytes / PACKET_BYTES {
        packets if packets < least_packets => format!("{least_packets}pkts"),
        packets if packets < 100.0 => format!("{}pkts", packets.round()),
        _ => format!("{}kB", digits(bytes / 1e3, 3)),
    }
}

fn path(case: &Case, file: &mut String) {
    let _ = writeln!(file, "rtt = \"{}ms\"", case.rtt_ms);
    match case.disturbance(Kind::Trace) {
        Some(Disturbance::Trace { name }) => {
            let _ = writeln!(file, "trace = \"{name}\"");
        }
        _ => {
            let _ = writeln!(file, "rate = \"{}\"", mbit(case.rate_mbps));
        }
    }
    let least = if case.has(Kind::Aqm) { LEAST_MANAGED_PACKETS } else { LEAST_PACKETS };
    let bytes = case.buffer_bdp * case.bdp_bytes();
    match bytes < least * PACKET_BYTES || case.has(Kind::Trace) {
        true => {
            let _ = writeln!(file, "buffer = \"{}\"", room(bytes, least));
        }
        false => {
            let _ = writeln!(file, "buffer = \"{}bdp\"", case.buffer_bdp);
        }
    }
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for disturbance in &case.disturbances {
        element(case, disturbance, file, &mut down, &mut up);
    }
    for (name, all) in [("down", down), ("up", up)] {
        match all.as_slice() {
            [] => {}
            [one] => {
                let _ = writeln!(file, "{name} = [{one}]");
            }
            several => {
                let _ = writeln!(file, "{name} = [\n    {},\n]", several.join(",\n    "));
            }
        }
    }
}

/// Adds a disturbance to the path: fields of its own, or elements.
fn element(
    case: &Case,
    disturbance: &Disturbance,
    file: &mut String,
    down: &mut Vec<String>,
    up: &mut Vec<String>,
) {
    let at_s = |percent: f64| digits(case.duration_s() as f64 * percent / 100.0, 4);
    let part = |percent: f64| case.nominal_mbps() * percent / 100.0;
    let bucket_kb = |percent: f64, ms: f64| {
        digits((bytes_in(part(percent), ms) / 1e3).max(4.0 * PACKET_BYTES / 1e3), 3)
    };
    match disturbance {
        Disturbance::Jitter { jitter_ms } => down.push(format!("{{ jitter = \"{jitter_ms}ms\" }}")),
        Disturbance::Reordering { chance_percent, delay_ms } => down.push(format!(
            "{{ reordering = {{ chance = \"{chance_percent}%\", delay = \"{delay_ms}ms\" }} }}"
        )),
        Disturbance::AckBursts { interval_ms, keep_one_in } => {
            let keep = match keep_one_in {
                1 => String::new(),
                n => format!(", keep_one_in = {n}"),
            };
            up.push(format!("{{ aggregation = {{ interval = \"{interval_ms}ms\"{keep} }} }}"));
        }
        Disturbance::AckLoss { loss_percent } => {
            up.push(format!("{{ loss = \"{loss_percent}%\" }}"));
        }
        Disturbance::TwoWay { rate_mbps, buffer_ms, .. } => up.push(format!(
            "{{ bottleneck = {{ rate = \"{}\", buffer = \"{}\" }} }}",
            mbit(*rate_mbps),
            room(bytes_in(*rate_mbps, *buffer_ms), LEAST_PACKETS)
        )),
        Disturbance::RttStep { before_ms, after_ms, at_percent, back_percent } => {
            let mut steps = vec![
                format!("{{ at = \"0s\", delay = \"{before_ms}ms\" }}"),
                format!("{{ at = \"{}s\", delay = \"{after_ms}ms\" }}", at_s(*at_percent)),
            ];
            steps.extend(
                back_percent.map(|back| {
                    format!("{{ at = \"{}s\", delay = \"{before_ms}ms\" }}", at_s(back))
                }),
            );
            down.push(format!("{{ delay_steps = [{}] }}", steps.join(", ")));
        }
        Disturbance::RateStep { steps } => {
            let each = steps.iter().map(|s| {
                let rate = mbit(case.rate_mbps * s.factor);
                format!("{{ at = \"{}s\", rate = \"{rate}\" }}", at_s(s.at_percent))
            });
            let _ = writeln!(file, "steps = [{}]", each.collect::<Vec<_>>().join(", "));
        }
        Disturbance::Policer { rate_percent, bucket_ms } => down.push(format!(
            "{{ policer = {{ rate = \"{}\", bucket = \"{}kB\" }} }}",
            mbit(part(*rate_percent)),
            bucket_kb(*rate_percent, *bucket_ms)
        )),
        Disturbance::Shaper { rate_percent, bucket_ms, buffer_bdp } => down.push(format!(
            "{{ shaper = {{ rate = \"{}\", bucket = \"{}kB\", buffer = \"{}\" }} }}",
            mbit(part(*rate_percent)),
            bucket_kb(*rate_percent, *bucket_ms),
            room(buffer_bdp * case.bdp_bytes() * rate_percent / 100.0, LEAST_PACKETS)
        )),
        Disturbance::RandomLoss { loss_percent } => {
            let _ = writeln!(file, "loss = \"{loss_percent}%\"");
        }
        Disturbance::LossBursts { every_ms, lasts_ms } => {
            let outages = (1..).map(|i| f64::from(i) * every_ms);
            let outages = outages.take_while(|from| *from < 1e3 * case.duration_s() as f64);
            let outages = outages.map(|from_ms| {
                let (from, to) = (digits(from_ms, 6), digits(from_ms + lasts_ms, 6));
                format!("{{ from = \"{from}ms\", to = \"{to}ms\" }}")
            });
            down.push(format!("{{ blackhole = [{}] }}", outages.collect::<Vec<_>>().join(", ")));
        }
        Disturbance::Aqm { queue: "red", ecn } => {
            let bytes =
                (case.buffer_bdp * case.bdp_bytes()).max(LEAST_MANAGED_PACKETS * PACKET_BYTES);
            let (min, max) = (digits(bytes / 6e3, 3), digits(bytes / 2e3, 3));
            let _ = writeln!(
                file,
                "queue = {{ red = {{ min = \"{min}kB\", max = \"{max}kB\", ecn = {ecn} }} }}"
            );
        }
        Disturbance::Aqm { queue, ecn } => {
            let _ = writeln!(file, "queue = {{ {queue} = {{ ecn = {ecn} }} }}");
        }
        Disturbance::LateHost { .. }
        | Disturbance::Trace { .. }
        | Disturbance::Cross { .. }
        | Disturbance::ManyFlows { .. }
        | Disturbance::Requests { .. }
        | Disturbance::Media { .. }
        | Disturbance::RttMix { .. }
        | Disturbance::Competitor { .. } => {}
    }
}

/// The flows under test, and after them those that are there for them: these are in no figure of a
/// run.
fn flows(case: &Case, file: &mut String) {
    let tcp = if case.tcp { "transport = \"tcp\"\n" } else { "" };
    let mut tested = tcp.to_owned();
    let mut stagger_ms = case.stagger_ms;
    for disturbance in &case.disturbances {
        match disturbance {
            Disturbance::LateHost { late_ms } => {
                let _ = writeln!(tested, "jitter = \"{late_ms}ms\"");
            }
            Disturbance::Aqm { ecn: true, .. } => tested.push_str("ecn = \"classic\"\n"),
            Disturbance::ManyFlows { stagger_ms: many, .. } => stagger_ms = *many,
            _ => {}
        }
    }
    match case.near_flows() {
        0 => {}
        1 => {
            let _ = write!(file, "\n[[flow]]\nname = \"bulk\"\n{tested}");
        }
        n => {
            let _ = write!(
                file,
                "\n[[flow]]\nname = \"bulk\"\ncount = {n}\nevery = \"{stagger_ms}ms\"\n{tested}"
            );
        }
    }
    for disturbance in &case.disturbances {
        match disturbance {
            Disturbance::RttMix { extra_ms, flows } => {
                let _ = write!(
                    file,
                    "\n[[flow]]\nname = \"far\"\ncount = {flows}\nextra_rtt = \"{extra_ms}ms\"\n{tested}"
                );
            }
            Disturbance::Requests { response_kb, think_ms, .. } => {
                let _ = write!(
                    file,
                    "\n[[flow]]\nname = \"requests\"\nin_fairness = false\n{tested}app = {{ request_response = \
                     {{ response = \"{response_kb}kB\", think = \"{think_ms}ms\" }} }}\n"
                );
            }
            Disturbance::Media { rate_percent, .. } => {
                let mbps = digits(case.narrowest_mbps() * rate_percent / 100.0, 3);
                let bytes = (mbps * 1e6 / 8.0 / FRAMES_PER_S).round();
                let _ = write!(
                    file,
                    "\n[[flow]]\nname = \"media\"\nin_fairness = false\n{tested}app = {{ rate_limited = \
                     {{ rate = \"{}\", write = \"{bytes}B\" }} }}\n",
                    mbit(mbps)
                );
            }
            Disturbance::Competitor { cc, flows, start_percent } => {
                let start = digits(case.duration_s() as f64 * start_percent / 100.0, 3);
                let _ = write!(
                    file,
                    "\n[[flow]]\nname = \"competitor\"\ncc = \"{cc}\"\ncount = {flows}\nstart = \"{start}s\"\n\
                     background = true\n{tcp}"
                );
            }
            Disturbance::TwoWay { flows, cc, .. } => {
                let _ = write!(
                    file,
                    "\n[[flow]]\nname = \"upload\"\ncc = \"{cc}\"\ncount = {flows}\ndirection = \"up\"\n\
                     background = true\n{tcp}"
                );
            }
            Disturbance::Cross { rate_percent, poisson } => {
                let arrivals = if *poisson { "poisson" } else { "constant" };
                let _ = write!(
                    file,
                    "\n[[cross]]\nrate = \"{}\"\narrivals = \"{arrivals}\"\n",
                    mbit(case.narrowest_mbps() * rate_percent / 100.0)
                );
            }
            _ => {}
        }
    }
}
