//! The simulator beside formulas that nobody here wrote.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{
    Arrivals, CrossTraffic, ElementConfig, Link, LossConfig, PathConfig, QueueLimit,
};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};

/// Pollaczek and Khinchine for M/D/1: the mean wait is load / (2 (1 - load)) of a packet's own
/// time.
#[test]
fn poisson_arrivals_wait_as_long_as_queueing_theory_says() {
    let rate = Rate::from_bits_per_sec(1_000_000_000);
    for percent in [30u64, 60, 80, 90] {
        let link =
            Link { rate: Some(rate), queue: QueueLimit::Packets(1 << 40), ..Link::default() };
        let mut config = SimConfig::new(link.into(), Link::default().into(), Vec::new());
        let load = CrossTraffic {
            rate: Rate::from_bits_per_sec(10_000_000 * percent),
            arrivals: Arrivals::Poisson,
            ..CrossTraffic::constant(rate)
        };
        config.cross.push(load.into());
        let mut sim = Sim::new(&config).expect("a sound path");
        sim.run_until(Instant::default() + Duration::from_secs(100));
        let load = percent as f64 / 100.0;
        let wanted = 12_000.0 * load / (2.0 * (1.0 - load));
        let seen = sim.queue_delay_ns(0).mean();
        assert!((seen / wanted - 1.0).abs() < 0.02, "load {load}: {seen} ns of {wanted}");
    }
}

/// Bytes per second of a flow over a fast link of 40 ms that loses every n-th packet, from the
/// tenth loss on; and the payload of a packet.
fn response(algorithm: Algorithm, every: u64) -> f64 {
    let delay = Duration::from_millis(20);
    let rate = Some(Rate::from_bits_per_sec(10_000_000_000));
    let mut down = PathConfig::from(Link { rate, delay, ..Link::default() });
    let loss = LossConfig::Bursts { every, length: 1 };
    down.row.insert(0, ElementConfig::Loss(loss));
    let up = Link { delay, ..Link::default() };
    // Not paced: the formulas know nothing but the window.
    let mut flow = FlowConfig::bulk(algorithm, 1);
    flow.cc.paced = false;
    let mut sim = Sim::new(&SimConfig::new(down, up.into(), vec![flow])).expect("a sound path");
    let lost = |sim: &Sim| sim.link(0).stats.random_lost.packets;
    let step = |sim: &mut Sim, losses| {
        while lost(sim) < losses {
            sim.step();
        }
        (sim.now(), sim.flow(0).received())
    };
    let (from, before) = step(&mut sim, 30);
    let (to, after) = step(&mut sim, 130);
    (after - before) as f64 / to.since(from).as_nanos() as f64 * 1e9
}

/// Mathis et al. 1997 for NewReno: sqrt(3 / (2 p)) packets a round trip. It knows of no round trip
/// spent on recovery, which costs 12 % where a window is 17 packets (one loss of 200).
#[test]
fn reno_answers_loss_as_mathis_says() {
    for every in [1_000u64, 5_000, 25_000] {
        let wanted = (1.5 * every as f64).sqrt() * 1_415.0 / 0.04;
        let seen = response(Algorithm::RENO, every);
        println!("one of {every}: {seen:.0} of {wanted:.0} B/s");
        assert!((seen / wanted - 1.0).abs() < 0.1, "one of {every}: {seen} of {wanted} B/s");
    }
}

/// RFC 9438 section 5.1, equation 6: C (3 + beta) / (4 (1 - beta)) to the fourth root, times
/// RTT^(3/4) / p^(3/4), in packets a round trip; and never less than Reno where that is faster.
#[test]
fn cubic_answers_loss_as_its_rfc_says() {
    for every in [2_000u64, 10_000, 50_000] {
        let window =
            (0.4 * 3.7f64 / 1.2).powf(0.25) * 0.04f64.powf(0.75) * (every as f64).powf(0.75);
        let reno = (1.5 * every as f64).sqrt();
        let wanted = window.max(reno) * 1_415.0 / 0.04;
        let seen = response(Algorithm::CUBIC, every);
        println!(
            "one of {every}: {seen:.0} of {wanted:.0} B/s (cubic {window:.0}, reno {reno:.0} packets)"
        );
        assert!((seen / wanted - 1.0).abs() < 0.1, "one of {every}: {seen} of {wanted} B/s");
    }
}
