//! The rate that an application may plan with, on paths that change: the same numbers on every
//! machine.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{ElementConfig, Link, PathConfig, QueueLimit, RateConfig};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};

const ROUND_TRIP: Duration = Duration::from_millis(40);

const fn mbit(n: u64) -> Rate {
    Rate::from_bits_per_sec(n * 1_000_000)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A bulk flow on 20 Mbit/s, from 10 s on 5 and from 30 s on 20 again, with a buffer of one BDP.
fn on_steps(algorithm: Algorithm) -> Sim {
    let delay = Duration::from_millis(20);
    let queue = QueueLimit::Bytes(mbit(20).bytes_in(ROUND_TRIP));
    let mut downlink: PathConfig =
        Link { rate: Some(mbit(20)), queue, delay, seed: 11, ..Link::default() }.into();
    for element in &mut downlink.row {
        if let ElementConfig::Bottleneck { rate, .. } = element {
            let steps = [(secs(0), mbit(20)), (secs(10), mbit(5)), (secs(30), mbit(20))];
            *rate = RateConfig::Steps(steps.to_vec());
        }
    }
    let uplink = Link { delay, seed: 12, ..Link::default() }.into();
    let flows = vec![FlowConfig::bulk(algorithm, 1)];
    Sim::new(&SimConfig::new(downlink, uplink, flows)).expect("a sound path")
}

fn estimate_mbit(sim: &Sim) -> f64 {
    let rate = sim.flow(0).snapshot().send_rate_estimate().expect("a round trip");
    rate.as_bits_per_sec() as f64 / 1e6
}

/// The round trips of the empty path after `from` until the estimate is for the first time within a
/// fifth of `rate`, and its share of that at `to`.
fn follows(sim: &mut Sim, (from, to): (u64, u64), rate: f64) -> (u64, f64) {
    let (from, to) = (Instant::default() + secs(from), Instant::default() + secs(to));
    sim.run_until(from);
    let mut rounds = 0;
    while !(0.8..=1.2).contains(&(estimate_mbit(sim) / rate)) && sim.now() < to {
        rounds += 1;
        sim.run_until(from + ROUND_TRIP.times(rounds));
    }
    sim.run_until(to);
    (rounds, estimate_mbit(sim) / rate)
}

/// Up, a queue is there and the first rounds at the new rate show it. Down, the loss-based cut the
/// window when packets are lost; BBRv1 forgets a maximum in ten round trips, which the queue makes
/// longer, and BBRv3 after two probes: nine seconds here, in which the estimate is too high.
#[test]
fn the_estimate_follows_the_links_rate() {
    let mut wrong = Vec::new();
    for (algorithm, down, up) in [
        (Algorithm::BBR3, 240, 40),
        (Algorithm::BBR3X, 130, 40),
        (Algorithm::BBR1, 50, 40),
        (Algorithm::CUBIC, 20, 20),
        (Algorithm::RENO, 20, 20),
        (Algorithm::PRAGUE, 20, 20),
    ] {
        let mut sim = on_steps(algorithm);
        let phases = [((5, 10), 20.0, 0), ((10, 30), 5.0, down), ((30, 50), 20.0, up)];
        for (time, rate, most) in phases {
            let (rounds, share) = follows(&mut sim, time, rate);
            let told = format!("{algorithm}, {rate} Mbit/s in {time:?} s: {rounds} round trips");
            println!("{told}, at the end {share:.3}");
            if rounds > most || !(0.8..=1.2).contains(&share) {
                wrong.push(format!("{told}, at the end {share:.3}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
