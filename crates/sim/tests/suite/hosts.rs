//! Behaviour of a simulated host beside the rules of its transport: jitter, handshake, restarts,
//! PRR.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{ElementConfig, Link, LossConfig, QueueLimit};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};
use fullpipe_traffic::Application;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::default() + MS.times(ms)
}

/// 40 ms there and back, `mbit`, one BDP of buffer.
fn config(mbit: u64, flows: Vec<FlowConfig>) -> SimConfig {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    let queue = QueueLimit::Bytes(rate.bytes_in(MS.times(40)));
    let down = Link { rate: Some(rate), queue, delay: MS.times(20), ..Link::default() };
    SimConfig::new(down.into(), Link { delay: MS.times(20), ..Link::default() }.into(), flows)
}

fn sim(config: &SimConfig) -> Sim {
    Sim::new(config).expect("a sound path")
}

/// Of two equal CUBIC flows the share of the first in the second minute, for some seeds.
fn shares(jitter: Duration) -> Vec<f64> {
    let flow = FlowConfig { jitter, ..FlowConfig::tcp_bulk(Algorithm::CUBIC, 1) };
    (1..=16)
        .map(|seed| {
            let second = FlowConfig { start: MS.times(500), ..flow };
            let mut sim = sim(&SimConfig { seed, ..config(20, vec![flow, second]) });
            sim.run_until(at(10_000));
            let before = [0, 1].map(|i| sim.flow(i).received());
            sim.run_until(at(70_000));
            let got = [0, 1].map(|i| (sim.flow(i).received() - before[i]) as f64);
            got[0] / (got[0] + got[1])
        })
        .collect()
}

/// A path without random elements: seeds are replicates by the hosts' jitter alone, and their mean
/// is a fair share. Without jitter all are one run, with whatever share its phase gives.
#[test]
fn seeds_are_replicates_and_their_mean_is_fair() {
    let without = shares(Duration::ZERO);
    assert!(without.iter().all(|share| *share == without[0]), "{without:?}");
    let with = shares(FlowConfig::bulk(Algorithm::CUBIC, 1).jitter);
    let mean = with.iter().sum::<f64>() / with.len() as f64;
    println!("{with:.2?}: mean {mean:.3}; without jitter {:.3}", without[0]);
    assert!(with.windows(2).all(|pair| pair[0] != pair[1]), "{with:?}");
    assert!((0.47..0.53).contains(&mean), "{mean}");
}

/// A connection takes a round trip before its data, and so does its completion; a lost first packet
/// is sent again after a second.
#[test]
fn a_handshake_takes_a_round_trip_and_a_lost_one_a_second_more() {
    let application = Application::Bytes(1_000);
    for flow in [FlowConfig::bulk(Algorithm::RENO, 1), FlowConfig::tcp_bulk(Algorithm::RENO, 1)] {
        let flow = FlowConfig { application, jitter: Duration::ZERO, ..flow };
        let end_ms = |handshake, lost: Vec<u64>| {
            let mut config = config(1_000, vec![FlowConfig { handshake, ..flow }]);
            let lost = ElementConfig::Loss(LossConfig::Listed(lost));
            config.links[0].row.insert(0, lost);
            let mut sim = sim(&config);
            sim.run_until(at(10_000));
            sim.flow(0).end().expect("it ends").since(Instant::default()).as_nanos() as f64 / 1e6
        };
        let without = end_ms(false, vec![]);
        let (with, late) = (end_ms(true, vec![]), end_ms(true, vec![0]));
        assert!((with - without - 40.0).abs() < 0.1, "{with} and {without} ms without");
        assert!((late - with - 1_000.0).abs() < 0.1, "{late} ms after the loss, {with} without");
    }
}

/// RFC 5681 section 4.1 and Linux: after ten seconds of silence the window is the initial one, and
/// after one timeout half of it is left. QUIC paces instead.
#[test]
fn a_tcp_window_is_halved_for_each_timeout_of_a_pause() {
    let window = |flow: FlowConfig, pause_ms: u64| {
        let mut sim = sim(&config(50, vec![flow]));
        sim.run_until(at(5_000));
        sim.flow_mut(0).pause();
        sim.run_until(at(6_000));
        let before = sim.flow(0).snapshot().cwnd;
        sim.run_until(at(5_100 + pause_ms));
        sim.with(0, |flow, io| flow.write(io, 1));
        (before, sim.flow(0).snapshot().cwnd)
    };
    let tcp = FlowConfig::tcp_bulk(Algorithm::CUBIC, 1);
    let (before, after) = window(tcp, 10_000);
    assert!(before > 100_000 && after == 14_480, "{before}, then {after}");
    let mut keeps = tcp;
    keeps.tcp.idle_restart = false;
    for flow in [keeps, FlowConfig::bulk(Algorithm::CUBIC, 1)] {
        let (before, after) = window(flow, 10_000);
        assert!(after == before, "{before}, then {after}");
    }
    let (before, after) = window(FlowConfig::tcp_bulk(Algorithm::BBR3, 1), 10_000);
    assert!(after >= before, "bbr3 has rules of its own: {before}, then {after}");
}

/// The longest time in which nothing leaves, in ms, in the second after the 2000th packet is lost.
fn silence_ms(prr: bool) -> f64 {
    let mut flow = FlowConfig::tcp_bulk(Algorithm::CUBIC, 1);
    flow.tcp.prr = prr;
    let mut config = config(50, vec![flow]);
    config.links[0].row.insert(0, ElementConfig::Loss(LossConfig::Listed(vec![2_000])));
    let mut sim = sim(&config);
    while sim.flow(0).stats().lost_packets == 0 {
        sim.step();
    }
    let (mut last, mut longest) = (sim.now(), Duration::ZERO);
    let (end, mut sent) = (sim.now() + MS.times(100), 0);
    while sim.now() < end {
        sim.step();
        if sim.flow(0).stats().sent_packets > sent {
            sent = sim.flow(0).stats().sent_packets;
            longest = longest.max(sim.now().since(last));
            last = sim.now();
        }
    }
    longest.as_nanos() as f64 / 1e6
}

/// A reduction to 0.7 of the window silences the sender for some 0.3 of it; PRR has it send seven
/// segments for ten that arrive.
#[test]
fn prr_leaves_no_silence_after_a_loss() {
    let (with, without) = (silence_ms(true), silence_ms(false));
    println!("{with:.1} ms with PRR, {without:.1} ms without");
    assert!(with < 5.0 && without > 10.0, "{with} ms with PRR, {without} ms without");
}

/// A hundred short connections, acknowledged one by one at the start, end no later than with
/// every second packet acknowledged, where a lone last packet waits 40 ms.
#[test]
fn quick_acks_leave_no_lone_packet_waiting() {
    let acks = |quick| {
        let mut flow = FlowConfig {
            application: Application::Bytes(5 * 1448),
            ..FlowConfig::tcp_bulk(Algorithm::CUBIC, 1)
        };
        flow.acks.quick = quick;
        let mut sim = sim(&config(50, vec![flow]));
        sim.run_until(at(5_000));
        (sim.uplink().stats.delivered.packets, sim.rtt_ns().max() / 1_000_000)
    };
    // The handshake's packet is one of them.
    let (quick, delayed) = (acks(16), acks(0));
    assert_eq!((quick.0, delayed.0), (6, 4));
    assert!(quick.1 < 45 && delayed.1 >= 80, "{} and {} ms", quick.1, delayed.1);
}

/// After a pause the pacer has credit for a quarter of min_rtt. Credit for 2 ms, whatever the RTT,
/// would be two windows here: 1.8 % of the data was lost with it, and 0.2 % with the bound.
#[test]
fn a_pause_earns_no_burst_of_a_window() {
    let rate = Rate::from_bits_per_sec(1_000_000_000);
    let queue = QueueLimit::Bytes(rate.bytes_in(MS));
    let delay = Duration::from_micros(500);
    let down = Link { rate: Some(rate), queue, delay, ..Link::default() };
    let application = Application::OnOff { on: MS.times(20), off: MS.times(5) };
    let flow = FlowConfig { application, ..FlowConfig::bulk(Algorithm::BBR3, 1) };
    let back = Link { delay, ..Link::default() };
    let mut sim = sim(&SimConfig::new(down.into(), back.into(), vec![flow]));
    sim.run_until(at(5_000));
    let snapshot = sim.flow(0).snapshot();
    let lost = snapshot.lost as f64 / (snapshot.lost + snapshot.delivered) as f64;
    assert!(snapshot.delivered > 450_000_000 && lost < 0.005, "{lost}: {snapshot:?}");
}
