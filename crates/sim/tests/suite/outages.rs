//! A flow's exact behaviour after a link outage: the same numbers on every machine.

use fullpipe_cc::{Algorithm, Duration, Rate};
use fullpipe_path::{ElementConfig, Link, PathConfig, QueueLimit};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};

const RATE: Rate = Rate::from_bits_per_sec(1_000_000_000);
const ROUND_TRIP: Duration = Duration::from_millis(40);
const BBRS: [Algorithm; 3] = [Algorithm::BBR3, Algorithm::BBR3_LINUX, Algorithm::BBR1];

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A bulk flow on 1 Gbit/s and 40 ms with a buffer of one BDP. The link drops all data from `from`
/// to `to`, both in ms.
fn through_an_outage(algorithm: Algorithm, from: u64, to: u64) -> Sim {
    let delay = Duration::from_nanos(ROUND_TRIP.as_nanos() / 2);
    let queue = QueueLimit::Bytes(RATE.bytes_in(ROUND_TRIP));
    let mut downlink: PathConfig =
        Link { rate: Some(RATE), queue, delay, seed: 11, ..Link::default() }.into();
    downlink.row.insert(0, ElementConfig::Blackhole(vec![(ms(from), ms(to))]));
    let uplink = Link { delay, seed: 12, ..Link::default() }.into();
    let flows = vec![FlowConfig::bulk(algorithm, 1)];
    Sim::new(&SimConfig::new(downlink, uplink, flows)).expect("a sound path")
}

/// Per cent of what the link could carry in `time` from now on that it does carry.
fn utilization_percent(sim: &mut Sim, time: Duration) -> f64 {
    let before = sim.link(0).stats.carried.bytes;
    sim.run_until(sim.now() + time);
    let carried = sim.link(0).stats.carried.bytes - before;
    100.0 * carried as f64 / RATE.bytes_in(time) as f64
}

/// A timeout in Startup: the small rounds after it are no plateau. Startup ends with the bandwidth
/// of the link, and the next five seconds carry at least 95 % of it.
#[test]
fn a_timeout_in_startup_does_not_end_it() {
    for algorithm in BBRS {
        for from in [60, 80, 100, 120, 150, 180, 210] {
            let mut sim = through_an_outage(algorithm, from, 500);
            let bbr = |sim: &Sim| sim.flow(0).snapshot().bbr.expect("a model");
            while !bbr(&sim).full_bw_reached {
                sim.run_until(sim.now() + ms(1));
            }
            let (ended, found) = (sim.now(), bbr(&sim).max_bw.as_bits_per_sec() / 1_000_000);
            let used = utilization_percent(&mut sim, ms(5_000));
            let told = format!("{algorithm}, gone from {from} ms: {found} Mbit/s at {ended:?}");
            assert!(found >= 950, "{told}");
            assert!(used >= 95.0, "{told}, then {used:.1} %");
            println!("{told}, then {used:.1} %");
        }
    }
}
