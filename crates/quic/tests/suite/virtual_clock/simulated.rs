//! The simulator's own sender and receiver beside the whole of noq: the same path, the same
//! controllers, the same figures. If the two parted, the simulator would be a world of its own.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{Link, Probability, QueueLimit};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};

use super::world::{Cc, Scenario, World};

const SECONDS: u64 = 12;

/// Mbit/s of the application, and the median queueing delay in ms, after the first two seconds.
struct Figures {
    goodput: f64,
    queue_ms: f64,
}

fn at(secs: u64) -> Instant {
    Instant::default() + Duration::from_secs(secs)
}

fn over_noq(scenario: &Scenario) -> Figures {
    let mut world = World::new(scenario);
    world.run_until(at(2));
    let before = world.received;
    world.run_until(at(SECONDS));
    Figures {
        goodput: (world.received - before) as f64 * 8e-6 / (SECONDS - 2) as f64,
        queue_ms: world.queue_quantile(0.5).as_nanos() as f64 / 1e6,
    }
}

fn simulated(scenario: &Scenario, algorithm: Algorithm) -> Figures {
    let delay = Duration::from_nanos(scenario.rtt.as_nanos() / 2);
    let down = Link {
        rate: Some(scenario.rate),
        delay,
        queue: QueueLimit::Bytes(scenario.buffer_bytes),
        loss: Probability::new(scenario.loss).expect("a probability"),
        seed: 5,
    };
    let up = Link { delay, ..Link::default() };
    // noq's hosts are exact here, and its time counts from the first request.
    let flow =
        FlowConfig { jitter: Duration::ZERO, handshake: false, ..FlowConfig::bulk(algorithm, 1) };
    let flows = vec![flow];
    let mut sim = Sim::new(&SimConfig::new(down.into(), up.into(), flows)).expect("a sound path");
    sim.run_until(at(2));
    let before = sim.flow(0).received();
    sim.run_until(at(SECONDS));
    Figures {
        goodput: (sim.flow(0).received() - before) as f64 * 8e-6 / (SECONDS - 2) as f64,
        queue_ms: sim.queue_delay_ns(0).value_at_quantile(0.5) as f64 / 1e6,
    }
}

/// Within 2 % of goodput, and 10 % of the median queue or the time of one packet, where BBR leaves
/// the queue empty.
#[test]
fn the_simulator_agrees_with_the_real_stack() {
    for (algorithm, mbit, rtt_ms, buffer_bytes, loss) in [
        (Algorithm::Cubic, 100, 40, 1_000_000, 0.0),
        (Algorithm::Cubic, 20, 100, 250_000, 0.0),
        (Algorithm::Reno, 50, 20, 250_000, 0.0),
        (Algorithm::Bbr3, 100, 40, 3_000_000, 0.0),
        (Algorithm::Bbr1, 50, 40, 500_000, 0.0),
        (Algorithm::Bbr3, 100, 40, 500_000, 0.01),
    ] {
        let scenario = Scenario {
            cc: Cc::Ours(algorithm),
            rate: Rate::from_bits_per_sec(mbit * 1_000_000),
            rtt: Duration::from_millis(rtt_ms),
            buffer_bytes,
            loss,
            ..Scenario::default()
        };
        let (noq, sim) = (over_noq(&scenario), simulated(&scenario, algorithm));
        println!(
            "{algorithm} {mbit} Mbit/s {rtt_ms} ms {buffer_bytes} B {loss}: noq {:.2} Mbit/s, queue p50 \
             {:.2} ms; simulated {:.2} Mbit/s, {:.2} ms",
            noq.goodput, noq.queue_ms, sim.goodput, sim.queue_ms
        );
        let packet_ms = scenario.rate.time_for(1_480).as_nanos() as f64 / 1e6;
        let off_ms = (sim.queue_ms - noq.queue_ms).abs();
        assert!((sim.goodput / noq.goodput - 1.0).abs() < 0.02, "{algorithm}: goodput");
        assert!(off_ms < packet_ms.max(0.1 * noq.queue_ms), "{algorithm}: {off_ms} ms of queue");
    }
}
