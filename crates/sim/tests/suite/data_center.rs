//! Data centres: `bbr-swift`, incast, and receivers that take their time.

use fullpipe_cc::{Algorithm, Config, Duration, Instant, Rate};
use fullpipe_path::{Link, QueueLimit};
use fullpipe_sim::{AckPolicy, FlowConfig, Sim, SimConfig};

const RTT: Duration = Duration::from_micros(25);

fn at(us: u64) -> Instant {
    Instant::default() + Duration::from_micros(us)
}

/// 25 us and `gbit` with a buffer of `buffer` bytes.
fn config(gbit: u64, buffer: u64, flows: Vec<FlowConfig>) -> SimConfig {
    let rate = Some(Rate::from_bits_per_sec(gbit * 1_000_000_000));
    let delay = Duration::from_nanos(RTT.as_nanos() / 2);
    let down = Link { rate, queue: QueueLimit::Bytes(buffer), delay, ..Link::default() };
    SimConfig::new(down.into(), Link { delay, ..Link::default() }.into(), flows)
}

/// A sender of a data centre, whose receiver acknowledges each packet.
fn sender(algorithm: Algorithm, seed: u64) -> FlowConfig {
    FlowConfig {
        acks: AckPolicy { every: 1, ..AckPolicy::default() },
        jitter: Duration::from_micros(1),
        ..FlowConfig::bulk(algorithm, seed)
    }
}

/// So many senders to one port of 10 Gbit/s and 1 MB, that begin within a millisecond.
fn incast(algorithm: Algorithm, senders: u64) -> Sim {
    let flows = (0..senders).map(|i| FlowConfig {
        start: Duration::from_nanos(1_000_000 * i / senders),
        ..sender(algorithm, i + 1)
    });
    Sim::new(&config(10, 1_000_000, flows.collect())).expect("a sound path")
}

/// Share of the link that receivers read after `from`, and of what was sent there the share that
/// was lost.
fn measure(mut sim: Sim, from: u64, to: u64) -> (f64, f64) {
    let counts = |sim: &Sim| {
        let stats: Vec<_> =
            sim.flows().iter().map(|flow| (flow.received(), flow.stats())).collect();
        let received: u64 = stats.iter().map(|(received, _)| received).sum();
        let sent: u64 = stats.iter().map(|(_, stats)| stats.sent_packets).sum();
        let lost: u64 = stats.iter().map(|(_, stats)| stats.lost_packets).sum();
        (received, sent, lost)
    };
    sim.run_until(at(from));
    let before = counts(&sim);
    sim.run_until(at(to));
    let after = counts(&sim);
    let possible = 10e9 / 8.0 * (to - from) as f64 / 1e6;
    let goodput = (after.0 - before.0) as f64 / possible;
    (goodput, (after.2 - before.2) as f64 / (after.1 - before.1) as f64)
}

/// A BDP is 21 packets here: 200 flows have a tenth of a packet each. With windows of four packets
/// they keep 800 in a buffer of 690. The first windows do not fit either; their losses are known
/// after a timeout.
#[test]
fn more_flows_than_packets_share_a_port_without_loss() {
    let (goodput, lost) = measure(incast(Algorithm::BbrSwift, 200), 50_000, 70_000);
    println!("bbr-swift: {goodput:.3}, lost {lost:.6}");
    assert!(goodput >= 0.9, "{goodput}");
    assert!(lost < 1e-4, "{lost}");
    let (goodput, lost) = measure(incast(Algorithm::Bbr3, 200), 50_000, 70_000);
    println!("bbr3: {goodput:.3}, lost {lost:.6}");
    assert!(lost > 0.01, "{lost}");
}

/// A host that comes to its packets late is seen in the round trip, up to its largest delay.
#[test]
fn a_busy_receiver_is_in_the_round_trip() {
    let flow =
        FlowConfig { receiver_delay: Duration::from_micros(50), ..sender(Algorithm::Reno, 1) };
    let mut sim = Sim::new(&config(1, 100_000, vec![flow])).expect("a sound path");
    sim.run_until(at(20_000));
    let rtt = sim.rtt_ns();
    let queue = sim.queue_delay_ns(0);
    let most = RTT + Duration::from_micros(50 + 15) + Duration::from_nanos(queue.max());
    assert!(rtt.max() <= most.as_nanos(), "{} of {most}", rtt.max());
    assert!(rtt.value_at_quantile(0.9) >= 55_000, "{}", rtt.value_at_quantile(0.9));
}

/// The network window of a flow to a busy receiver is that of a flow to an idle one: it has the
/// link. The receiver's delay is below its target.
#[test]
fn a_busy_receiver_does_not_slow_the_network_window() {
    let share = |algorithm, receiver_delay| {
        let cc = Config { smss: 1_452, ..Config::new(1) };
        let flow = FlowConfig { receiver_delay, cc, ..sender(algorithm, 1) };
        measure(Sim::new(&config(10, 4_000_000, vec![flow])).expect("sound"), 5_000, 25_000).0
    };
    let busy = Duration::from_micros(90);
    let (idle, slow) =
        (share(Algorithm::BbrSwift, Duration::ZERO), share(Algorithm::BbrSwift, busy));
    println!("bbr-swift: {idle:.3} and {slow:.3}");
    assert!(idle >= 0.93 && slow >= 0.9 * idle, "{idle} and {slow}");
}
