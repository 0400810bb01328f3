//! Draws scenario files. The same number draws the same file, so that one that fails can be run
//! again.

use std::fmt::{Display, Write as _};
use std::path::Path;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Traces in Mahimahi's format that a drawn scenario may name, with what they hold.
const TRACES: [(&str, &str); 2] = [
    ("steady.trace", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"),
    ("bursty.trace", "0\n0\n0\n7\n7\n31\n100\n"),
];

/// Writes the traces that drawn scenarios name into their directory.
pub(crate) fn write_traces(dir: &Path) {
    for (name, text) in TRACES {
        std::fs::write(dir.join(name), text).expect("a file");
    }
}

/// Cases of a test: `PROPTEST_CASES`, as for the other property tests, or else `default`.
pub(crate) fn cases(default: u64) -> u64 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Random choices.
pub(crate) struct Chance(Pcg64Mcg);

impl Chance {
    /// Those of case number `case`.
    pub(crate) fn of(case: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(case))
    }

    /// A number from `from` to `to`, both included.
    pub(crate) fn number(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.next_u64() % (to - from + 1)
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.number(1, n) == 1
    }

    /// One of these.
    pub(crate) fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.number(0, all.len() as u64 - 1) as usize]
    }

    /// As likely between 1 and 10 times `least` as between 10 and 100 times.
    fn spread(&mut self, least: u64, decades: u64) -> u64 {
        let decade = 10u64.pow(self.number(0, decades - 1) as u32);
        self.number(least * decade, least * decade * 10)
    }
}

/// A scenario that is valid but for rare combinations, and takes a fraction of a second: up to 4 s
/// of up to 50 Mbit/s.
pub(crate) fn scenario(chance: &mut Chance) -> String {
    let ms = chance.number(200, 4000);
    let mut file = String::new();
    let seed = chance.number(0, 1000);
    let _ = writeln!(file, "cc = \"{}\"\nduration = \"{ms}ms\"\nseed = {seed}", algorithm(chance));
    if chance.once_in(3) {
        let _ = writeln!(file, "interval = \"{}ms\"", chance.number(5, 300));
    }
    let edge = chance.number(1, ms - 1);
    let _ = writeln!(
        file,
        "expect = [\"utilization >= 0 before {edge}ms\", \"elapsed_s >= 0 before {edge}ms\", \
         \"utilization >= 0 after {edge}ms\", \"elapsed_s >= 0 after {edge}ms\", \
         \"completed_bytes >= 0 before {edge}ms\", \"completed_bytes >= 0 after {edge}ms\"]"
    );
    let links = if chance.once_in(4) { chance.number(2, 3) } else { 1 };
    let rest = net(chance, &mut file, links, ms);
    for _ in 0..chance.number(0, 3) {
        flow(chance, &mut file, links, ms);
    }
    for _ in 0..chance.number(0, 5).saturating_sub(3) {
        cross(chance, &mut file, links, ms);
    }
    file + &rest
}

fn algorithm(chance: &mut Chance) -> String {
    match chance.number(0, 8) {
        0 => "bbr3-linux".to_owned(),
        1 => "bbr1".to_owned(),
        2 => "cubic".to_owned(),
        3 => "reno".to_owned(),
        4 => format!("fixed:{}kbit", chance.spread(10, 4)),
        5 => "bbr-swift".to_owned(),
        6 => "prague".to_owned(),
        _ => "bbr3".to_owned(),
    }
}

/// The fields of an inline table.
#[derive(Default)]
struct Fields(Vec<String>);

impl Fields {
    fn text(&mut self, name: &str, value: impl Display) {
        self.0.push(format!("{name} = \"{value}\""));
    }

    fn bare(&mut self, name: &str, value: impl Display) {
        self.0.push(format!("{name} = {value}"));
    }

    fn table(&self) -> String {
        format!("{{ {} }}", self.0.join(", "))
    }

    fn lines(&self) -> String {
        self.0.join("\n") + "\n"
    }
}

/// Writes `path`, or returns the links, which come behind the fields at the top.
fn net(chance: &mut Chance, file: &mut String, links: u64, ms: u64) -> String {
    if links == 1 {
        let mut path = Fields::default();
        path.text("rtt", format!("{}ms", chance.spread(1, 2)));
        wire(chance, &mut path, ms);
        if chance.once_in(3) {
            path.bare("down", elements(chance, ms));
        }
        if chance.once_in(3) {
            path.bare("up", elements(chance, ms));
        }
        let _ = writeln!(file, "path = {}", path.table());
        return String::new();
    }
    let mut all = String::new();
    for _ in 0..links {
        let mut link = Fields::default();
        link.text("delay", format!("{}ms", chance.number(0, 50)));
        wire(chance, &mut link, ms);
        if chance.once_in(4) {
            link.bare("down", elements(chance, ms));
        }
        let _ = write!(all, "[[link]]\n{}", link.lines());
    }
    all
}

/// Rate, buffer, queue and loss.
fn wire(chance: &mut Chance, to: &mut Fields, ms: u64) {
    let is_traced = chance.once_in(8);
    if is_traced {
        let name = TRACES[chance.number(0, 1) as usize].0;
        to.text("trace", name);
    } else {
        to.text("rate", format!("{}kbit", chance.number(1, 5) * chance.spread(100, 2)));
        if chance.once_in(5) {
            let (first, last) = (chance.number(0, ms / 2), chance.number(ms / 2 + 1, ms));
            let outage = if chance.once_in(2) { "0" } else { "700kbit" };
            to.bare(
                "steps",
                format!(
                    "[{{ at = \"{}ms\", rate = \"{outage}\" }}, {{ at = \"{last}ms\", rate = \"{}kbit\" }}]",
                    first.max(1),
                    chance.spread(300, 2)
                ),
            );
        }
    }
    let room = match chance.number(0, 2) {
        0 if !is_traced => format!("{}bdp", chance.number(1, 8)),
        1 => format!("{}kB", chance.number(2, 400)),
        _ => format!("{}pkts", chance.number(1, 300)),
    };
    to.text("buffer", room);
    let ecn = if chance.once_in(2) { "true" } else { "false" };
    match chance.number(0, 11) {
        0 => to.text("queue", "codel"),
        1 => to.bare(
            "queue",
            format!("{{ codel = {{ target = \"{}ms\", ecn = {ecn} }} }}", chance.number(1, 30)),
        ),
        2 => to.text("queue", "fq_codel"),
        3 => to.bare(
            "queue",
            format!("{{ fq_codel = {{ queues = {}, ecn = {ecn} }} }}", chance.spread(1, 3)),
        ),
        4 => to.bare("queue", format!("{{ pie = {{ ecn = {ecn} }} }}")),
        5 => to.bare(
            "queue",
            format!(
                "{{ red = {{ min = \"{}kB\", max = \"{}kB\", ecn = {ecn} }} }}",
                chance.number(2, 30),
                chance.number(31, 200)
            ),
        ),
        6 => to.text("queue", "dualpi2"),
        7 => to.bare(
            "queue",
            format!("{{ step = {{ mark_above = \"{}pkts\" }} }}", chance.number(1, 50)),
        ),
        _ => {}
    }
    if chance.once_in(3) {
        to.text("loss", format!("0.{}%", chance.number(0, 999)));
    }
}

fn elements(chance: &mut Chance, ms: u64) -> String {
    let each: Vec<String> = (0..chance.number(1, 3)).map(|_| element(chance, ms)).collect();
    format!("[{}]", each.join(", "))
}

fn element(chance: &mut Chance, ms: u64) -> String {
    let n = chance.number(1, 20);
    match chance.number(0, 18) {
        0 => format!("{{ loss = \"{n}%\" }}"),
        1 => format!("{{ gilbert_elliott = {{ to_bad = \"0.{n}%\", to_good = \"{n}%\" }} }}"),
        2 => format!("{{ loss_list = {{ listed = [{n}, {}, {}] }} }}", 2 * n, 300 + n),
        3 => format!("{{ loss_bursts = {{ every = {}, length = {n} }} }}", 100 * n),
        4 => format!("{{ loss_overflows = {{ begins = \"0.0{n}%\", lasts = \"{n}ms\" }} }}"),
        5 => {
            format!("{{ blackhole = [{{ from = \"{}ms\", to = \"{}ms\" }}] }}", ms / 3, ms / 3 + n)
        }
        6 => format!("{{ corruption = \"0.{n}%\" }}"),
        7 => format!("{{ duplication = \"0.{n}%\" }}"),
        8 => format!("{{ policer = {{ rate = \"{n}mbit\", bucket = \"{}kB\" }} }}", 2 * n),
        9 => format!(
            "{{ shaper = {{ rate = \"{n}mbit\", bucket = \"{}kB\", buffer = \"{n}0kB\" }} }}",
            2 * n
        ),
        10 => format!("{{ bottleneck = {{ rate = \"{n}mbit\", buffer = \"{n}0pkts\" }} }}"),
        11 => format!("{{ delay = \"{n}ms\" }}"),
        12 => format!("{{ jitter = \"{n}ms\" }}"),
        13 => format!("{{ reordering = {{ every = {}, delay = \"{n}ms\" }} }}", 5 * n),
        14 => format!(
            "{{ delay_steps = [{{ at = \"0s\", delay = \"{n}ms\" }}, {{ at = \"{}ms\", delay = \"3ms\" }}] }}",
            ms / 2
        ),
        15 => format!("{{ loss_limited = {{ chance = \"{n}%\", in_a_row = {n} }} }}"),
        16 if n > 10 => format!("{{ mangling = \"{n}%\" }}"),
        16 => format!("{{ marking = \"{n}%\" }}"),
        17 => format!("{{ bleaching = \"{n}%\" }}"),
        _ => format!("{{ aggregation = {{ interval = \"{n}ms\", burst = \"{n}0kB\" }} }}"),
    }
}

fn flow(chance: &mut Chance, file: &mut String, links: u64, ms: u64) {
    let mut flow = Fields::default();
    if chance.once_in(2) {
        let cc = algorithm(chance);
        if cc == "bbr-swift" {
            for option in ["swift_target", "swift_range", "swift_endpoint"] {
                if chance.once_in(2) {
                    flow.text(option, format!("{}us", chance.spread(1, 5)));
                }
            }
        }
        flow.text("cc", cc);
    }
    if chance.once_in(3) {
        flow.bare("count", chance.number(1, 4));
    }
    let start = if chance.once_in(2) { chance.number(0, ms / 2) } else { 0 };
    flow.text("start", format!("{start}ms"));
    if chance.once_in(4) {
        flow.text("stop", format!("{}ms", chance.number(start + 1, ms + 100)));
    }
    if chance.once_in(3) {
        flow.text("transport", "tcp");
    }
    if chance.once_in(2) {
        flow.bare("handshake", "false");
    }
    if chance.once_in(2) {
        flow.bare("app", application(chance));
    }
    if chance.once_in(4) {
        flow.text("ecn", chance.one_of(&["classic", "l4s"]));
    }
    if chance.once_in(6) {
        flow.bare("mss", chance.number(200, 3000));
    }
    if chance.once_in(6) {
        flow.text("extra_rtt", format!("{}ms", chance.number(1, 60)));
    }
    if chance.once_in(6) {
        flow.text("receive_window", format!("{}kB", chance.number(4, 500)));
    }
    if chance.once_in(6) {
        flow.text("send_buffer", format!("{}kB", chance.number(4, 500)));
    }
    if chance.once_in(6) {
        flow.bare("ack_every", chance.number(1, 12));
    }
    if chance.once_in(6) {
        flow.text("receiver_delay", format!("{}us", chance.spread(1, 5)));
    }
    if links > 1 && chance.once_in(2) {
        let first = chance.number(0, links - 1);
        flow.text("route", format!("{first}-{}", chance.number(first, links - 1)));
    }
    let _ = write!(file, "[[flow]]\n{}", flow.lines());
}

fn application(chance: &mut Chance) -> String {
    match chance.number(0, 6) {
        0 | 1 => format!("{{ bytes = \"{}B\" }}", chance.spread(100, 4)),
        2 => format!("{{ rate_limited = {{ rate = \"{}kbit\" }} }}", chance.spread(50, 2)),
        3 => format!(
            "{{ on_off = {{ on = \"{}ms\", off = \"{}ms\" }} }}",
            chance.number(1, 500),
            chance.number(0, 500)
        ),
        4 => format!(
            "{{ request_response = {{ response = \"{}B\", think = \"{}ms\" }} }}",
            chance.spread(100, 4),
            chance.number(0, 200)
        ),
        5 => format!(
            "{{ media = {{ bitrate = \"{}kbit\", fps = {}, keyframes = \"{}ms\", adapt = {} }} }}",
            chance.spread(20, 3),
            chance.number(1, 120),
            chance.number(0, 3000),
            chance.one_of(&["true", "false"])
        ),
        _ => format!(
            "{{ short_flows = {{ bytes = \"{}B\", every = \"{}ms\" }} }}",
            chance.spread(100, 4),
            chance.number(10, 400)
        ),
    }
}

fn cross(chance: &mut Chance, file: &mut String, links: u64, ms: u64) {
    let mut cross = Fields::default();
    cross.text("rate", format!("{}kbit", chance.spread(100, 2)));
    cross.text("packet", format!("{}B", chance.number(60, 1500)));
    cross.text("arrivals", chance.one_of(&["constant", "poisson"]));
    if chance.once_in(2) {
        let start = chance.number(0, ms);
        cross.text("start", format!("{start}ms"));
        cross.text("stop", format!("{}ms", start + chance.number(1, ms)));
    }
    if links > 1 && chance.once_in(2) {
        cross.text("route", chance.number(0, links - 1));
    }
    let _ = write!(file, "[[cross]]\n{}", cross.lines());
}
