//! Random networks of the path model: loss, reordering, duplicates, damage and outages in both
//! directions, queues and links of any size, and two applications that stop reading, write in
//! pieces, change their mind and end at different times. Memory may be short, so that an end throws
//! away what it has acknowledged selectively. Every byte arrives, memory stays within its bounds,
//! and nothing is kept at the end.
//!
//! `FUZZ_NETWORKS` says how many are run and `FUZZ_SEED` which; `FUZZ_NETWORK` is the number of the
//! only one.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate, SavedParameters};
use fullpipe_path::{ElementConfig, LossConfig, PathConfig, Probability, QueueLimit, Selection};
use fullpipe_tcp::{Config, Connection, Info};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::common::{App, MS, Net};
use crate::fuzz::number;

/// Everything has to be done by then: where a quarter of all packets are lost in each direction,
/// there are minutes between two timeouts.
const LATEST: Duration = Duration::from_secs(20_000);
/// Memory of each connection that [`fullpipe_tcp::Endpoint::set_memory_limit`] does not count, and
/// the tables of an endpoint.
const APART: usize = (32 << 10) + size_of::<Connection>() + 4096;

const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::BBR3,
    Algorithm::BBR3X,
    Algorithm::BBR3_LINUX,
    Algorithm::BBR3X_LINUX,
    Algorithm::BBR1,
    Algorithm::CUBIC,
    Algorithm::RENO,
    Algorithm::PRAGUE,
    Algorithm::BBR_SWIFT,
];

struct Dice(TestRng);

impl Dice {
    fn new(seed: u64, network: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&network.to_le_bytes());
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &key))
    }

    /// Less than `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// From `least` to `most`, each order of magnitude as likely.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        let bits = |n: u64| 64 - u64::from(n.leading_zeros());
        let size = bits(least) + self.below(bits(most) - bits(least) + 1);
        (self.below(1 << (size - 1)) | 1 << (size - 1)).clamp(least, most)
    }

    /// At most `most` percent.
    fn chance(&mut self, most: u64) -> Probability {
        Probability::new(self.below(most * 100) as f64 / 10_000.0).expect("a probability")
    }

    fn path(&mut self) -> PathConfig {
        let mut row = Vec::new();
        if self.one_in(2) {
            row.push(ElementConfig::Loss(self.chance(25).into()));
        }
        if self.one_in(4) {
            // A burst of packets would outlast all timeouts of a flow that has one packet left.
            let (begins, lasts) = (self.chance(5), MS.times(self.between(1, 1000)));
            row.push(ElementConfig::Loss(LossConfig::Overflows { begins, lasts }));
        }
        if self.one_in(5) {
            let start = MS.times(self.between(1, 5000));
            row.push(ElementConfig::Blackhole(vec![(
                start,
                start + MS.times(self.between(1, 30_000)),
            )]));
        }
        if self.one_in(3) {
            row.push(ElementConfig::Duplication(self.chance(30)));
        }
        if self.one_in(5) {
            row.push(ElementConfig::Corruption(self.chance(10)));
        }
        if self.one_in(3) {
            row.push(ElementConfig::Marking(self.chance(20)));
        }
        if self.one_in(2) {
            let rate = Rate::from_bytes_per_sec(self.between(5_000, 100_000_000));
            let queue = QueueLimit::Bytes(self.between(1500, 1_000_000));
            row.push(ElementConfig::Bottleneck { rate: rate.into(), queue: queue.into() });
        }
        row.push(ElementConfig::Delay(Duration::from_micros(self.between(1, 300_000))));
        if self.one_in(3) {
            row.push(ElementConfig::Jitter(
                Duration::from_micros(self.between(10, 100_000)).into(),
            ));
        }
        for _ in 0..self.below(3) {
            let packets = Selection::Random(self.chance(30));
            let delay = Duration::from_micros(self.between(10, 500_000));
            row.push(ElementConfig::Reordering { packets, delay });
        }
        PathConfig { row, seed: self.below(u64::MAX) }
    }

    fn config(&mut self) -> Config {
        // A queue may hold no more than a packet of 1500 bytes.
        let mtu_discovery = !self.one_in(4);
        let resume = self.one_in(3).then(|| SavedParameters {
            cwnd: self.between(10_000, 10_000_000),
            rtt: Duration::from_micros(self.between(1, 600_000)),
        });
        Config {
            algorithm: ALGORITHMS[self.below(ALGORITHMS.len() as u64) as usize],
            congestion: fullpipe_cc::Config { resume, ..Config::default().congestion },
            send_buffer: self.between(1, 300_000) as usize,
            receive_buffer: self.between(1, 300_000) as usize,
            initial_receive_buffer: self.between(1, 128 << 10) as usize,
            mtu: self.between(576, if mtu_discovery { 9000 } else { 1500 }) as u16,
            mtu_discovery,
            user_timeout: LATEST,
            connect_timeout: LATEST,
            time_wait: Duration::from_secs(1),
            keep_alive: self.one_in(4).then(|| MS.times(self.between(1000, 30_000))),
            keep_alive_probes: u32::MAX,
            nagle: self.one_in(2),
            sack: !self.one_in(4),
            timestamps: !self.one_in(4),
            window_scaling: !self.one_in(4),
            ecn: self.one_in(2),
            accurate_ecn: self.one_in(2),
            receiver_delay: self.one_in(2),
            ..Config::default()
        }
    }
}

/// Makes one of the changes that may come while a connection is in use.
fn disturb(dice: &mut Dice, net: &mut Net, limits: &mut [usize; 2]) {
    let i = dice.below(2) as usize;
    let Some(handle) = net.apps[i].handle else { return };
    match dice.below(6) {
        0 => net.apps[i].holds = true,
        1 => net.apps[i].read_step = dice.between(100, 16_000) as usize,
        2 => net.ends[i].set_cork(net.now, handle, dice.one_in(2)),
        3 => {
            let algorithm = ALGORITHMS[dice.below(ALGORITHMS.len() as u64) as usize];
            net.ends[i].set_congestion(net.now, handle, algorithm);
        }
        4 => {
            let held = net.ends[i].memory();
            let limit = (dice.between(1000, 1_000_000) as usize).max(2 * held);
            // An endpoint looks at its memory between two frames, of which bursts make fewer.
            if net.trail.is_none() {
                limits[i] = limit;
                net.ends[i].set_memory_limit(limit);
            }
        }
        _ => net.apps.iter_mut().for_each(|app| (app.holds, app.read_step) = (false, 0)),
    }
}

/// The ways of a host that looks now and then and has more to send at once.
#[derive(Clone, Copy)]
enum Host {
    /// Packets leave one by one.
    Packets,
    /// Its device cuts bursts into packets.
    Bursts,
}

/// What is known of a network after its run.
#[derive(Debug)]
struct Outcome {
    /// Data that was thrown away for want of memory.
    dropped: u64,
    repeated: u64,
    /// See [`Net::trail`] and [`Net::frames`].
    trail: Option<u64>,
    frames: u64,
}

impl Dice {
    /// Large windows on a path that loses little, where much may leave at once.
    fn fast_path(&mut self) -> PathConfig {
        let mut row = Vec::new();
        if self.one_in(2) {
            row.push(ElementConfig::Loss(self.chance(3).into()));
        }
        if self.one_in(3) {
            row.push(ElementConfig::Marking(self.chance(10)));
        }
        let rate = Rate::from_bytes_per_sec(self.between(500_000, 100_000_000));
        let queue = QueueLimit::Bytes(self.between(20_000, 1_000_000));
        row.push(ElementConfig::Bottleneck { rate: rate.into(), queue: queue.into() });
        row.push(ElementConfig::Delay(Duration::from_micros(self.between(1000, 50_000))));
        if self.one_in(4) {
            let packets = Selection::Random(self.chance(5));
            row.push(ElementConfig::Reordering { packets, delay: MS.times(self.between(1, 50)) });
        }
        PathConfig { row, seed: self.below(u64::MAX) }
    }

    fn fast_config(&mut self) -> Config {
        let config = self.config();
        // Their window does not depend on the rate, so that more of a burst is theirs.
        let algorithm =
            [config.algorithm, Algorithm::CUBIC, Algorithm::RENO][self.below(3) as usize];
        Config {
            algorithm,
            send_buffer: self.between(100_000, 2_000_000) as usize,
            receive_buffer: self.between(100_000, 2_000_000) as usize,
            initial_receive_buffer: 2_000_000,
            sack: !self.one_in(8),
            ..config
        }
    }
}

/// Runs a network, with ends that are woken on time unless they are such a host.
fn run(seed: u64, network: u64, host: Option<Host>) -> Outcome {
    let case = format!("network {network} of FUZZ_SEED={seed}");
    let mut dice = Dice::new(seed, network);
    let is_fast = host.is_some() && !network.is_multiple_of(4);
    let (paths, mut configs) = if is_fast {
        ([dice.fast_path(), dice.fast_path()], [dice.fast_config(), dice.fast_config()])
    } else {
        ([dice.path(), dice.path()], [dice.config(), dice.config()])
    };
    configs.iter_mut().for_each(|config| config.offload_keeps_cwr = network % 2 == 1);
    if std::env::var_os("FUZZ_NETWORK").is_some() {
        println!("{paths:#?} {configs:#?}");
    }
    // No more than so many round trips through a tiny buffer.
    let apps = [0, 1].map(|i| {
        let most = 200 * configs[i].send_buffer.min(configs[1 - i].receive_buffer) as u64;
        let bytes = if is_fast { (100_000, 3_000_000) } else { (1, 300_000) };
        App::writer(i as u64, dice.between(bytes.0, bytes.1).min(most))
    });
    let mut net = Net::new(paths, configs, apps);
    if let Some(host) = host {
        (net.granularity, net.trail) = (MS.times(10), Some(0));
        net.virtio = matches!(host, Host::Bursts);
    }
    let buffers = configs[0].send_buffer.max(configs[0].receive_buffer)
        + configs[1].send_buffer.max(configs[1].receive_buffer);
    let mut limits = [usize::MAX; 2];
    for _ in 0..dice.below(20) {
        disturb(&mut dice, &mut net, &mut limits);
        let until = net.now + MS.times(dice.between(1, 3000));
        go_on(&mut net, until, limits, buffers, &case, |_| true);
    }
    net.apps.iter_mut().for_each(|app| (app.holds, app.read_step) = (false, 0));
    let end = net.now + LATEST;
    let done =
        go_on(&mut net, end, limits, buffers, &case, |net| !net.apps.iter().all(App::is_done));
    let case = format!("{case}, done {done}, at {:?}: {:?}", net.now, infos(&net));
    assert_eq!(net.apps.map(|app| app.error), [None; 2], "{case}");
    let read = net.apps.map(|app| app.read);
    assert_eq!(read, [net.apps[1].to_write, net.apps[0].to_write], "{case}");
    for i in 0..2 {
        net.ends[i].release(net.now, net.apps[i].handle.expect("open"));
    }
    let end = net.now + LATEST;
    net.run_while(end, |net| net.ends.iter().any(|end| end.connections() > 0));
    for end in &mut net.ends {
        while end.transmit(net.now, &mut Vec::new()) {}
        assert_eq!((end.connections(), end.poll_at()), (0, None), "{case}");
        assert!(end.memory() < 2000, "{case}: {} bytes stay", end.memory());
    }
    let counters = net.ends.each_ref().map(|end| end.counters());
    let sum = |count: fn(&fullpipe_tcp::Counters) -> u64| counters.iter().map(count).sum();
    Outcome {
        dropped: sum(|all| all.data_dropped),
        repeated: sum(|all| all.retransmitted),
        trail: net.trail,
        frames: net.frames,
    }
}

fn infos(net: &Net) -> [Option<Info>; 2] {
    [0, 1].map(|i| Some(net.ends[i].connection(net.apps[i].handle?)?.info()))
}

/// As [`Net::run_while`], with a look at the memory after each step.
fn go_on(
    net: &mut Net,
    end: Instant,
    limits: [usize; 2],
    buffers: usize,
    case: &str,
    goes_on: impl Fn(&Net) -> bool,
) -> bool {
    net.run_while(end, |net| {
        for (end, limit) in net.ends.iter().zip(limits) {
            // Of the lists of segments, which are half of the send buffer each, there are two.
            let most = limit.min(6 * buffers + 100_000) + APART;
            let held = end.memory();
            assert!(held <= most, "{case}: {held} bytes, and {most} are the most");
        }
        goes_on(net)
    })
}

/// The numbers of the networks to run, as the environment has it, and the seed.
fn wanted(part: u64) -> (std::ops::Range<u64>, u64) {
    let seed = number("FUZZ_SEED", 1);
    match std::env::var("FUZZ_NETWORK").ok() {
        Some(only) => {
            let only = only.parse().expect("FUZZ_NETWORK is a number");
            (only..only + 1, seed)
        }
        None => (0..number("FUZZ_NETWORKS", 1000) / part, seed),
    }
}

#[test]
fn every_byte_arrives_over_random_networks() {
    let (networks, seed) = wanted(1);
    let mut sums = (0, 0);
    for network in networks.clone() {
        let outcome = run(seed, network, None);
        sums = (sums.0 + outcome.dropped, sums.1 + outcome.repeated);
    }
    println!("{networks:?}: {} pieces of data dropped, {} segments repeated", sums.0, sums.1);
    let is_enough = networks.end - networks.start < 1000 || sums.0 > 0 && sums.1 > 0;
    assert!(is_enough, "something is thrown away, and something repeated: {sums:?}");
}

/// Whatever happens on the way, bursts are the packets that would have left without them, at the
/// same times: with losses and their repair, probes, marks, small windows, and a stream's end.
#[test]
fn a_burst_is_the_packets_that_would_have_left_over_any_network() {
    let (networks, seed) = wanted(8);
    let (mut frames, mut count) = ((0, 0), 0);
    for network in networks {
        count += 1;
        let [packets, bursts] = [Host::Packets, Host::Bursts].map(|h| run(seed, network, Some(h)));
        assert_eq!(packets.trail, bursts.trail, "network {network} of FUZZ_SEED={seed}");
        frames = (frames.0 + packets.frames, frames.1 + bursts.frames);
    }
    println!("{} packets, in {} frames", frames.0, frames.1);
    // One network may have none.
    assert!(frames.1 < frames.0 || count < 30, "nothing left together");
}
