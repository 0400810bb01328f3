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

/// Shares of a link of 10 Gbit/s in a part of a run.
struct Shares {
    /// Share of the link that receivers read.
    goodput: f64,
    /// Share of what was sent that was lost.
    lost: f64,
    /// Jain's index of what each receiver read.
    jain: f64,
}

fn measure(mut sim: Sim, from: u64, to: u64) -> Shares {
    let counts = |sim: &Sim| {
        let received: Vec<u64> = sim.flows().iter().map(|flow| flow.received()).collect();
        let stats = sim.flows().iter().map(|flow| flow.stats());
        let (sent, lost) =
            stats.fold((0, 0), |(sent, lost), s| (sent + s.sent_packets, lost + s.lost_packets));
        (received, sent, lost)
    };
    sim.run_until(at(from));
    let before = counts(&sim);
    sim.run_until(at(to));
    let after = counts(&sim);
    let read: Vec<f64> = after.0.iter().zip(&before.0).map(|(a, b)| (a - b) as f64).collect();
    let sum = read.iter().sum::<f64>();
    let squares = read.iter().map(|x| x * x).sum::<f64>();
    Shares {
        goodput: sum / (10e9 / 8.0 * (to - from) as f64 / 1e6),
        lost: (after.2 - before.2) as f64 / (after.1 - before.1) as f64,
        jain: sum * sum / (read.len() as f64 * squares),
    }
}

/// A BDP is 21 packets here: 200 flows have a tenth of a packet each. With windows of four packets
/// they keep 800 in a buffer of 690. The first windows do not fit either; their losses are known
/// after a timeout.
#[test]
fn more_flows_than_packets_share_a_port_without_loss() {
    let Shares { goodput, lost, .. } = measure(incast(Algorithm::BBR_SWIFT, 200), 50_000, 70_000);
    println!("bbr-swift: {goodput:.3}, lost {lost:.6}");
    assert!(goodput >= 0.9, "{goodput}");
    assert!(lost < 1e-4, "{lost}");
    let Shares { goodput, lost, .. } = measure(incast(Algorithm::BBR3, 200), 50_000, 70_000);
    println!("bbr3: {goodput:.3}, lost {lost:.6}");
    assert!(lost > 0.01, "{lost}");
}

/// A host that comes to its packets late is seen in the round trip, up to its largest delay.
#[test]
fn a_busy_receiver_is_in_the_round_trip() {
    let flow =
        FlowConfig { receiver_delay: Duration::from_micros(50), ..sender(Algorithm::RENO, 1) };
    let mut sim = Sim::new(&config(1, 100_000, vec![flow])).expect("a sound path");
    sim.run_until(at(20_000));
    let rtt = sim.rtt_ns();
    let queue = sim.queue_delay_ns(0);
    let most = RTT + Duration::from_micros(50 + 15) + Duration::from_nanos(queue.max());
    assert!(rtt.max() <= most.as_nanos(), "{} of {most}", rtt.max());
    assert!(rtt.value_at_quantile(0.9) >= 55_000, "{}", rtt.value_at_quantile(0.9));
}

/// The handshake's packets wait in the host as all others do: no round trip is shorter than the
/// wait, not even the first.
#[test]
fn a_busy_receiver_is_in_the_handshake() {
    let first_rtt = |receiver_delay, flow: FlowConfig| {
        let mut sim = Sim::new(&config(10, 100_000, vec![FlowConfig { receiver_delay, ..flow }]))
            .expect("a sound path");
        while sim.flows()[0].latest_rtt().is_none() {
            sim.run_until(sim.now() + Duration::from_micros(1));
        }
        sim.flows()[0].latest_rtt().expect("measured")
    };
    for flow in [FlowConfig::bulk(Algorithm::RENO, 1), FlowConfig::tcp_bulk(Algorithm::RENO, 1)] {
        let idle = first_rtt(Duration::ZERO, flow);
        let busy = first_rtt(Duration::from_millis(9), flow);
        // A uniform part of 9 ms, by the seed.
        assert!(busy > idle + Duration::from_micros(500), "{busy} and {idle}");
    }
}

/// The network window of a flow to a busy receiver is that of a flow to an idle one: it has the
/// link. The receiver's delay is below its target.
#[test]
fn a_busy_receiver_does_not_slow_the_network_window() {
    let share = |algorithm, receiver_delay| {
        let cc = Config { smss: 1_452, ..Config::new(1) };
        let flow = FlowConfig { receiver_delay, cc, ..sender(algorithm, 1) };
        measure(Sim::new(&config(10, 4_000_000, vec![flow])).expect("sound"), 5_000, 25_000).goodput
    };
    let busy = Duration::from_micros(90);
    let (idle, slow) =
        (share(Algorithm::BBR_SWIFT, Duration::ZERO), share(Algorithm::BBR_SWIFT, busy));
    println!("bbr-swift: {idle:.3} and {slow:.3}");
    assert!(idle >= 0.93 && slow >= 0.9 * idle, "{idle} and {slow}");
}

/// A receiver that waits on purpose, for a second packet to acknowledge, is not a slow host: 50
/// flows share a port although none of them has two packets in a round trip. QUIC and TCP
/// acknowledge by different rules, and TCP waits for longer.
#[test]
fn delayed_acks_are_no_slow_receiver() {
    let delayed: [fn(u64) -> FlowConfig; 2] = [
        |seed| FlowConfig::bulk(Algorithm::BBR_SWIFT, seed),
        |seed| FlowConfig::tcp_bulk(Algorithm::BBR_SWIFT, seed),
    ];
    for flow in delayed {
        let flows = (0..50).map(|i| FlowConfig {
            start: Duration::from_micros(20 * i),
            jitter: Duration::from_micros(1),
            ..flow(i + 1)
        });
        let sim = Sim::new(&config(10, 1_000_000, flows.collect())).expect("a sound path");
        let Shares { goodput, lost, jain } = measure(sim, 20_000, 80_000);
        println!("50 flows: {goodput:.3}, lost {lost:.6}, Jain's index {jain:.3}");
        assert!(goodput >= 0.9 && lost < 1e-3 && jain >= 0.9, "{goodput}, {lost}, {jain}");
    }
}

/// The same for receivers that wait for ten packets, which is learned from their waits.
#[test]
fn receivers_that_wait_for_many_packets_are_learned() {
    let flows = (0..10).map(|i| FlowConfig {
        acks: AckPolicy { every: 10, ..AckPolicy::default() },
        ..sender(Algorithm::BBR_SWIFT, i + 1)
    });
    let sim = Sim::new(&config(10, 1_000_000, flows.collect())).expect("a sound path");
    let Shares { goodput, jain, .. } = measure(sim, 200_000, 300_000);
    println!("{goodput:.3}, Jain's index {jain:.3}");
    assert!(goodput >= 0.9 && jain >= 0.8, "{goodput}, {jain}");
}

/// A slow link, on which a delayed ACK is no longer than a round trip.
#[test]
fn delayed_acks_do_not_starve_a_slow_link() {
    let (rate, delay) = (Rate::from_bits_per_sec(1_000_000), Duration::from_millis(10));
    let queue = QueueLimit::Bytes(64_000);
    let down = Link { rate: Some(rate), queue, delay, ..Link::default() };
    let up = Link { delay, ..Link::default() };
    let flow = FlowConfig::bulk(Algorithm::BBR_SWIFT, 1);
    let config = SimConfig::new(down.into(), up.into(), vec![flow]);
    let mut sim = Sim::new(&config).expect("a sound path");
    sim.run_until(at(20_000_000));
    let possible = rate.bytes_in(Duration::from_secs(20)) as f64;
    let goodput = sim.flows()[0].received() as f64 / possible;
    assert!(goodput >= 0.9, "{goodput}");
}
