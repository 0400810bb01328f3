//! The demands of QUICHE's own simulator tests on its BBR (bbr2_simulator_test.cc), asked of bbr3:
//! one table.
//!
//! Their network: each sender has a local link of 10 Mbit/s and 2 ms to a switch, whose queue
//! stands before the link under test, 4 Mbit/s and 30 ms each way. Both links are symmetric: ACKs
//! are slow where data are. A BDP is that of a round trip with a full packet serialised on each of
//! the four ways. Their datagrams of 1350 bytes are ours, too.
//!
//! Ours is other in two ways, and leaves less room: 28 bytes of IP and UDP around each datagram,
//! and a queue that counts the packet on the wire. What is ours, and leaves more: the policer's
//! bucket is full at the start, theirs has 10 KB; its estimate is the further off for it.
//!
//! Two figures depend on the size of the datagrams, through the rounds in which Startup ends. The
//! draft compares the first sample of a round with the maximum of before; QUICHE compares the
//! maximum at the end of the round. A first sample that is higher by less than 25 % raises max_bw
//! and counts as the first round of the plateau as well. With datagrams of 1452 bytes, Startup so
//! ends 2 rounds after the last growth of max_bw, and not 3. The loss of a Startup with half a BDP
//! of buffer is then 5.1 %; with 1200 bytes it is 5.5 %.

use std::fmt::Write;

use fullpipe_cc::{Algorithm, BbrSnapshot, Config, Duration, Instant, Rate, State};
use fullpipe_path::{ElementConfig, PathConfig, QueueLimit, RateConfig};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};
use fullpipe_traffic::Application;

/// Theirs, without and with IP and UDP.
const DATAGRAM_BYTES: u64 = 1350;
const FULL_PACKET_BYTES: u64 = DATAGRAM_BYTES + 28;
/// The part that congestion control sees of a rate in bytes on the wire.
const SEEN: f64 = DATAGRAM_BYTES as f64 / FULL_PACKET_BYTES as f64;
const MIB: u64 = 1 << 20;

/// A path, flows, and what must come of them.
struct Row {
    name: &'static str,
    path: Path,
    flows: u32,
    /// Application bytes of each flow.
    bytes: u64,
    limit: Limit,
}

struct Path {
    local_kbit: u64,
    /// Of the link under test, from 0 s and from a later second on.
    kbit: u64,
    later: Option<(u64, u64)>,
    buffer_bdp: f64,
    /// ACKs wait for 10 KB of them, or for two round trips.
    gathers_acks: bool,
    /// Lets a quarter of the rate pass, from a bucket of 100 KB.
    polices: bool,
}

const PATH: Path = Path {
    local_kbit: 10_000,
    kbit: 4_000,
    later: None,
    buffer_bdp: 2.0,
    gathers_acks: false,
    polices: false,
};

/// Shares are of 1; what is `None` is not asked for.
#[derive(Clone, Copy)]
struct Limit {
    /// From the start of the first flow, or from the change of the rate, to the last byte of the
    /// last.
    seconds: f64,
    /// Of all packets sent, marked lost.
    loss: Option<f64>,
    /// Of those that were sent until Startup ended.
    startup_loss: Option<f64>,
    /// Of those that were sent until the rate changed.
    early_loss: Option<f64>,
    /// Rounds from the last growth of max_bw to the end of Startup.
    startup_rounds: Option<u64>,
    /// |max_bw / link - 1| when Startup ended, and at the end.
    startup_bandwidth: Option<f64>,
    bandwidth: Option<f64>,
    /// Of the smoothed round trip at the end, in round trips of the empty path.
    srtt: Option<f64>,
}

const LIMIT: Limit = Limit {
    seconds: 30.0,
    loss: None,
    startup_loss: None,
    early_loss: None,
    startup_rounds: None,
    startup_bandwidth: None,
    bandwidth: None,
    srtt: None,
};

const ROWS: [Row; 9] = [
    Row {
        name: "Startup",
        path: PATH,
        flows: 1,
        bytes: 12 * MIB,
        limit: Limit {
            startup_rounds: Some(3),
            startup_loss: Some(0.0),
            startup_bandwidth: Some(0.01),
            ..LIMIT
        },
    },
    Row {
        name: "a transfer",
        path: PATH,
        flows: 1,
        bytes: 12 * MIB,
        limit: Limit { loss: Some(0.0), srtt: Some(2.5), ..LIMIT },
    },
    Row {
        name: "half a BDP of buffer",
        path: Path { buffer_bdp: 0.5, ..PATH },
        flows: 1,
        bytes: 12 * MIB,
        limit: Limit { bandwidth: Some(0.02), ..LIMIT },
    },
    // Their loss of a Startup is that of a transfer of 1 MiB.
    Row {
        name: "Startup with half a BDP of buffer",
        path: Path { buffer_bdp: 0.5, ..PATH },
        flows: 1,
        bytes: MIB,
        limit: Limit { seconds: 15.0, loss: Some(0.05), ..LIMIT },
    },
    Row {
        name: "ACKs of 10 KB or 2 round trips",
        path: Path { gathers_acks: true, ..PATH },
        flows: 1,
        bytes: 12 * MIB,
        limit: Limit { seconds: 35.0, loss: Some(0.01), ..LIMIT },
    },
    Row {
        name: "10 Mbit/s to 100 kbit/s",
        path: Path { local_kbit: 15_000, kbit: 10_000, later: Some((10, 100)), ..PATH },
        flows: 1,
        bytes: 20 * MIB,
        // That max_bw comes down they do not ask. Without, the link is as busy, and 79 % are lost.
        limit: Limit { seconds: 800.0, bandwidth: Some(0.02), loss: Some(0.03), ..LIMIT },
    },
    Row {
        name: "100 kbit/s to 10 Mbit/s",
        path: Path { local_kbit: 15_000, kbit: 100, later: Some((15, 10_000)), ..PATH },
        flows: 1,
        bytes: 10 * MIB,
        limit: Limit { seconds: 50.0, early_loss: Some(0.3), loss: Some(0.3), ..LIMIT },
    },
    Row {
        name: "a policer",
        path: Path { polices: true, ..PATH },
        flows: 1,
        bytes: 3 * MIB,
        limit: Limit { loss: Some(0.3), ..LIMIT },
    },
    Row {
        name: "six flows, 2 s apart",
        path: PATH,
        flows: 6,
        bytes: 10 * MIB,
        limit: Limit { seconds: 1.1 * 6.0 * (10 * MIB) as f64 / 500_000.0, ..LIMIT },
    },
];

impl Path {
    fn rtt(&self) -> Duration {
        let serialised = |kbit: u64| kbit_rate(kbit).time_for(FULL_PACKET_BYTES);
        let way = Duration::from_millis(32) + serialised(self.local_kbit) + serialised(self.kbit);
        way.times(2)
    }

    fn buffer(&self) -> QueueLimit {
        let bdp = kbit_rate(self.kbit).bytes_in(self.rtt());
        QueueLimit::Bytes((bdp as f64 * self.buffer_bdp) as u64)
    }

    fn rate(&self) -> RateConfig {
        let Some((second, kbit)) = self.later else { return kbit_rate(self.kbit).into() };
        RateConfig::Steps(vec![
            (Duration::ZERO, kbit_rate(self.kbit)),
            (Duration::from_secs(second), kbit_rate(kbit)),
        ])
    }

    /// Of the last of its rates, what a flow can see.
    fn carries(&self) -> f64 {
        let last = self.later.map_or(self.kbit, |(_, kbit)| kbit);
        kbit_rate(last).as_bytes_per_sec() as f64 * SEEN
    }

    fn config(&self, flows: u32, bytes: u64) -> SimConfig {
        let unlimited = QueueLimit::Bytes(u64::MAX);
        let bottleneck = |rate: RateConfig, limit: QueueLimit| ElementConfig::Bottleneck {
            rate,
            queue: limit.into(),
        };
        let delay = |ms: u64| ElementConfig::Delay(Duration::from_millis(ms));
        let local = || [bottleneck(kbit_rate(self.local_kbit).into(), unlimited), delay(2)];
        let policer = self.polices.then(|| ElementConfig::Policer {
            rate: kbit_rate(self.kbit / 4),
            bucket_bytes: 100_000,
        });
        let gathered = self.gathers_acks.then(|| ElementConfig::Aggregation {
            interval: self.rtt().times(2),
            burst: QueueLimit::Bytes(10 * 1024),
            keep_one_in: 1,
        });
        let mut there = vec![bottleneck(self.rate(), self.buffer())];
        there.extend(policer);
        there.push(delay(30));
        let mut back = vec![bottleneck(self.rate(), unlimited), delay(30)];
        back.extend(gathered);
        // Each sender has a local link of its own. Of several only the delay is here.
        let shared = flows > 1;
        if !shared {
            back.extend(local());
        }
        let flows = (0..flows)
            .map(|i| FlowConfig {
                cc: Config { smss: DATAGRAM_BYTES as u32, ..Config::new(1) },
                start: Duration::from_secs(2).times(u64::from(i)),
                application: Application::Bytes(bytes),
                extra_rtt: Duration::from_millis(if shared { 4 } else { 0 }),
                // QUICHE's ends are connected when a test begins.
                handshake: false,
                ..FlowConfig::bulk(Algorithm::BBR3, 1)
            })
            .collect();
        let row = |row| PathConfig { row, seed: 1 };
        let mut config = SimConfig::new(row(there), row(back), flows);
        if !shared {
            config.links.insert(0, row(local().into()));
        }
        config
    }
}

fn kbit_rate(kbit: u64) -> Rate {
    Rate::from_bits_per_sec(kbit * 1_000)
}

/// The results of a run.
#[derive(Default, Debug)]
struct Seen {
    seconds: f64,
    loss: f64,
    startup_loss: f64,
    early_loss: f64,
    startup_rounds: u64,
    startup_bandwidth: f64,
    bandwidth: f64,
    srtt: f64,
}

impl Row {
    fn run(&self) -> Seen {
        let mut sim = Sim::new(&self.path.config(self.flows, self.bytes)).expect("a sound path");
        let mut seen = Seen::default();
        let limit = Instant::default() + Duration::from_secs(2_000);
        self.startup(&mut sim, &mut seen);
        if let Some((second, _)) = self.path.later {
            sim.run_until(Instant::default() + Duration::from_secs(second));
            seen.early_loss = loss(&sim);
        }
        let mut srtt = Duration::ZERO;
        while !sim.is_done() && sim.now() < limit {
            srtt = sim.flow(0).snapshot().srtt.unwrap_or(srtt);
            sim.step();
        }
        let start = Duration::from_secs(self.path.later.map_or(0, |(second, _)| second));
        seen.seconds = sim.now().since(Instant::default() + start).as_nanos() as f64 / 1e9;
        seen.loss = loss(&sim);
        let max_bw = bbr(&sim).max_bw.as_bytes_per_sec() as f64;
        seen.bandwidth = (max_bw / self.path.carries() - 1.0).abs();
        seen.srtt = srtt.as_nanos() as f64 / self.path.rtt().as_nanos() as f64;
        seen
    }

    /// The first flow's Startup.
    fn startup(&self, sim: &mut Sim, seen: &mut Seen) {
        let (mut max_bw, mut round) = (0.0, 0);
        while sim.flow(0).snapshot().state == State::Startup {
            sim.step();
            let bbr = bbr(sim);
            let bw = bbr.max_bw.as_bytes_per_sec() as f64;
            if bw > max_bw * 1.001 {
                (max_bw, round) = (bw, bbr.round_count);
            }
        }
        seen.startup_rounds = bbr(sim).round_count - round;
        seen.startup_loss = loss(sim);
        let carries = kbit_rate(self.path.kbit).as_bytes_per_sec() as f64 * SEEN;
        seen.startup_bandwidth = (max_bw / carries - 1.0).abs();
    }
}

fn bbr(sim: &Sim) -> BbrSnapshot {
    sim.flow(0).snapshot().bbr.expect("bbr3 has a model")
}

/// The share of the packets sent that were marked lost, of all flows.
fn loss(sim: &Sim) -> f64 {
    let sum = |of: fn(&fullpipe_traffic::SenderStats) -> u64| -> u64 {
        sim.flows().iter().map(|flow| of(&flow.stats())).sum()
    };
    sum(|stats| stats.lost_packets) as f64 / sum(|stats| stats.sent_packets).max(1) as f64
}

/// One line for what was seen, and one for each limit that was missed.
fn judge(row: &Row) -> (String, String) {
    let seen = row.run();
    let limit = row.limit;
    let mut missed = String::new();
    for (what, seen, limit) in [
        ("s", seen.seconds, Some(limit.seconds)),
        ("loss", seen.loss, limit.loss),
        ("loss in Startup", seen.startup_loss, limit.startup_loss),
        ("loss before the change", seen.early_loss, limit.early_loss),
        ("off the rate after Startup", seen.startup_bandwidth, limit.startup_bandwidth),
        ("off the rate at the end", seen.bandwidth, limit.bandwidth),
        ("round trips of srtt", seen.srtt, limit.srtt),
    ] {
        if let Some(limit) = limit.filter(|limit| seen > *limit) {
            writeln!(missed, "{}: {seen:.4} {what}, above {limit:.4}", row.name).expect("a string");
        }
    }
    if limit.startup_rounds.is_some_and(|rounds| rounds != seen.startup_rounds) {
        writeln!(missed, "{}: {} rounds of plateau", row.name, seen.startup_rounds)
            .expect("a string");
    }
    (format!("{}: {seen:.4?}", row.name), missed)
}

#[test]
fn the_figures_of_quiches_simulator_hold() {
    let mut missed = String::new();
    for row in &ROWS {
        let (seen, missed_here) = judge(row);
        println!("{seen}");
        missed += &missed_here;
    }
    assert!(missed.is_empty(), "{missed}");
}
