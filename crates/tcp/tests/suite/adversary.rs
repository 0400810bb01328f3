//! Two ends over a network that loses, doubles, reorders and damages: every byte arrives, in its
//! place.

use crate::common::{App, MS, Net};
use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{ElementConfig, LossConfig, PathConfig, Probability, QueueLimit, Selection};
use fullpipe_tcp::{Config, State};
use proptest::prelude::*;

/// Ample: where half of the packets are lost, timestamps make the timeout two minutes long (the
/// answer to a copy echoes the original), and a buffer of a byte has one packet under way.
const LONG: Duration = Duration::from_secs(1_000_000);

#[derive(Clone, Debug)]
struct Case {
    bytes: [u64; 2],
    loss: [f64; 2],
    duplication: f64,
    corruption: f64,
    reordering: f64,
    delay_ms: u64,
    mbit: u64,
    algorithm: Algorithm,
    sack: bool,
    timestamps: bool,
    window_scaling: bool,
    ecn: bool,
    nagle: bool,
    buffers: [usize; 2],
    mtu: u16,
    carries: usize,
    tells: bool,
    read_step: usize,
    outage: bool,
    seed: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let algorithms = [
        Algorithm::BBR3,
        Algorithm::BBR3X,
        Algorithm::BBR3_LINUX,
        Algorithm::BBR3X_LINUX,
        Algorithm::BBR1,
        Algorithm::CUBIC,
        Algorithm::RENO,
    ];
    let network = (
        prop::array::uniform2(prop_oneof![Just(0.0), 0.0..0.2]),
        prop_oneof![Just(0.0), 0.0..0.1],
        prop_oneof![Just(0.0), 0.0..0.1],
        prop_oneof![Just(0.0), 0.0..0.3],
        0..80_u64,
        1..50_u64,
        any::<bool>(),
    );
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let sizes = (
        prop::array::uniform2(0..150_000_u64),
        prop::array::uniform2(prop_oneof![1..3000_usize, 3000..200_000_usize]),
        100..2000_u16,
        // BASE_PLPMTU of RFC 8899 or more, and whether the router says so.
        (prop_oneof![Just(usize::MAX), 1200..2000_usize], any::<bool>()),
        prop_oneof![Just(0), 1..5000_usize],
    );
    (network, options, sizes, 0..algorithms.len(), any::<u64>()).prop_map(
        move |(network, options, sizes, algorithm, seed)| {
            let (loss, duplication, corruption, reordering, delay_ms, mbit, outage) = network;
            let (sack, timestamps, window_scaling, ecn, nagle) = options;
            let (bytes, buffers, mtu, (carries, tells), read_step) = sizes;
            // No more than so many round trips through a tiny buffer.
            let bytes = [0, 1].map(|i| u64::min(bytes[i], 500 * buffers[i] as u64));
            Case {
                bytes,
                loss,
                duplication,
                corruption,
                reordering,
                delay_ms,
                mbit,
                algorithm: algorithms[algorithm],
                sack,
                timestamps,
                window_scaling,
                ecn,
                nagle,
                buffers,
                mtu,
                carries,
                tells,
                read_step,
                outage,
                seed,
            }
        },
    )
}

impl Case {
    fn path(&self, i: usize) -> PathConfig {
        let probability = |p| Probability::new(p).expect("a probability");
        let mut row = vec![
            ElementConfig::Loss(LossConfig::Independent(probability(self.loss[i]))),
            ElementConfig::Duplication(probability(self.duplication)),
            ElementConfig::Corruption(probability(self.corruption)),
            ElementConfig::Bottleneck {
                rate: Rate::from_bits_per_sec(self.mbit * 1_000_000).into(),
                queue: QueueLimit::Bytes(30_000).into(),
            },
            ElementConfig::Delay(MS.times(self.delay_ms)),
            ElementConfig::Reordering {
                packets: Selection::Random(probability(self.reordering)),
                delay: MS.times(5),
            },
        ];
        if self.outage {
            row.push(ElementConfig::Blackhole(vec![(MS.times(300), MS.times(2300))]));
        }
        PathConfig { row, seed: self.seed.wrapping_add(i as u64) }
    }

    fn net(&self) -> Net {
        let config = |i: usize| Config {
            algorithm: self.algorithm,
            send_buffer: self.buffers[i],
            receive_buffer: self.buffers[1 - i],
            // As large as that, or less and growing.
            initial_receive_buffer: 1 + self.buffers[i],
            mtu: self.mtu,
            // As long as packets pass now and then, nobody gives up.
            user_timeout: LONG,
            nagle: self.nagle,
            // One end alone does not want these.
            sack: self.sack || i == 0,
            timestamps: self.timestamps || i == 1,
            window_scaling: self.window_scaling,
            ecn: self.ecn,
            ..Config::default()
        };
        let mut apps = [App::writer(0, self.bytes[0]), App::writer(1, self.bytes[1])];
        apps[1].read_step = self.read_step;
        let paths = [self.path(0), self.path(1)];
        let mut net = Net::new(paths, [config(0), config(1)], apps);
        (net.carries, net.tells) = (self.carries, self.tells);
        net
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        // Failures are printed; a case is its own report.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_byte_arrives(case in case()) {
        let mut net = case.net();
        let done = net.run(Instant::default() + LONG);
        let infos = [0, 1].map(|i| {
            net.apps[i].handle.and_then(|handle| net.ends[i].connection(handle).map(|c| c.info()))
        });
        prop_assert!(done, "after {:?}: {:?}\n{infos:?}", net.now, net.apps);
        prop_assert_eq!(net.apps.map(|app| app.error), [None; 2]);
        prop_assert_eq!(net.apps.map(|app| app.read), [case.bytes[1], case.bytes[0]]);
        // Both ends come to the end of the connection, and nothing is kept for it.
        for i in 0..2 {
            let handle = net.apps[i].handle.expect("open");
            net.ends[i].release(net.now, handle);
        }
        let end = net.now + LONG;
        net.run_while(end, |net| net.ends.iter().any(|end| end.connections() > 0));
        prop_assert_eq!([0, 1].map(|i| net.ends[i].connections()), [0, 0]);
    }
}

/// Memory does not grow with what passes: 20 MB through buffers of 64 KiB.
#[test]
fn memory_stays_within_the_buffers() {
    let case = Case {
        bytes: [20_000_000, 0],
        loss: [0.01, 0.01],
        duplication: 0.01,
        corruption: 0.01,
        reordering: 0.01,
        delay_ms: 5,
        mbit: 100,
        algorithm: Algorithm::BBR3,
        sack: true,
        timestamps: true,
        window_scaling: true,
        ecn: false,
        nagle: true,
        buffers: [65_536; 2],
        mtu: 1500,
        carries: usize::MAX,
        tells: false,
        read_step: 0,
        outage: false,
        seed: 3,
    };
    let mut net = case.net();
    assert!(net.run(Instant::default() + Duration::from_secs(600)));
    for end in &net.ends {
        assert!(end.memory() < 400_000, "{} bytes", end.memory());
    }
    let state = net.ends[0].connection(net.apps[0].handle.expect("open")).map(|c| c.state());
    assert!(state >= Some(State::FinWait2), "{state:?}");
}
