//! The simulator beside formulas that nobody here wrote.

use fullpipe_cc::{Duration, Instant, Rate};
use fullpipe_path::{Link, QueueLimit};
use fullpipe_sim::{Arrivals, CrossTraffic, Sim, SimConfig};

/// Pollaczek and Khinchine for M/D/1: the mean wait is load / (2 (1 - load)) of a packet's own time.
#[test]
fn poisson_arrivals_wait_as_long_as_queueing_theory_says() {
    let rate = Rate::from_bits_per_sec(1_000_000_000);
    for percent in [30u64, 60, 80, 90] {
        let link =
            Link { rate: Some(rate), queue: QueueLimit::Packets(1 << 40), ..Link::default() };
        let mut config = SimConfig::new(link.into(), Link::default().into(), Vec::new());
        config.cross.push(CrossTraffic {
            rate: Rate::from_bits_per_sec(10_000_000 * percent),
            arrivals: Arrivals::Poisson,
            ..CrossTraffic::constant(rate)
        });
        let mut sim = Sim::new(&config).expect("a sound path");
        sim.run_until(Instant::default() + Duration::from_secs(100));
        let load = percent as f64 / 100.0;
        let wanted = 12_000.0 * load / (2.0 * (1.0 - load));
        let seen = sim.queue_delay_ns(0).mean();
        assert!((seen / wanted - 1.0).abs() < 0.02, "load {load}: {seen} ns of {wanted}");
    }
}
