//! Loss recovery and sampling of the simulated transports, where a known answer exists.

use fullpipe_cc::{Algorithm, CubicOptions, CubicRules, Duration, Instant, Rate};
use fullpipe_path::{
    ElementConfig, Link, LossConfig, PathConfig, Probability, QueueLimit, Selection,
};
use fullpipe_sim::{AckPolicy, FlowConfig, ReceiveWindow, Reordering, Sim, SimConfig};
use fullpipe_traffic::Application;

const MS: Duration = Duration::from_millis(1);
const RTT_MS: u64 = 40;

fn mbit(n: u64) -> Rate {
    Rate::from_bits_per_sec(n * 1_000_000)
}

/// A flow whose data leaves at once, and to the nanosecond.
fn exact(flow: FlowConfig) -> FlowConfig {
    FlowConfig { jitter: Duration::ZERO, handshake: false, ..flow }
}

fn at(ms: u64) -> Instant {
    Instant::default() + MS.times(ms)
}

/// 40 ms there and back, two BDP of buffer, and losses of `up_percent` % of what goes back.
fn config(rate: Rate, up_percent: f64, flows: Vec<FlowConfig>) -> SimConfig {
    let delay = MS.times(RTT_MS / 2);
    let queue = QueueLimit::Bytes(rate.bytes_in(MS.times(2 * RTT_MS)));
    let down = Link { rate: Some(rate), queue, delay, ..Link::default() };
    let loss = Probability::new(up_percent / 100.0).expect("a probability");
    let up = Link { delay, loss, seed: 8, ..Link::default() };
    SimConfig::new(down.into(), up.into(), flows)
}

fn run(config: &SimConfig, ms: u64) -> Sim {
    let mut sim = Sim::new(config).expect("a sound path");
    sim.run_until(at(ms));
    sim
}

fn both(algorithm: Algorithm) -> [FlowConfig; 2] {
    [FlowConfig::bulk(algorithm, 1), FlowConfig::tcp_bulk(algorithm, 1)]
}

/// One request in twenty is lost, and asked again after a timeout. An answer of 100 kB takes 4
/// round trips; a timeout costs less than 300 ms. The stalled flow got one twentieth of the
/// answers.
#[test]
fn a_lost_request_is_sent_again() {
    let application = Application::RequestResponse { response_bytes: 100_000, think: MS };
    for flow in both(Algorithm::CUBIC) {
        let answers = |up_percent| {
            let flow = FlowConfig { application, ..flow };
            let sim = run(&config(mbit(20), up_percent, vec![flow]), 60_000);
            sim.flow(0).completion_ns().expect("answers are timed").len()
        };
        let (without, with) = (answers(0.0), answers(5.0));
        assert!(2 * with > without, "{:?}: {with} of {without} answers", flow.cc.transport);
    }
}

/// Twenty segments, of which the last ACK is lost: a tail loss probe repeats the last segment, the
/// receiver has it already and says so (DSACK). Nothing was lost, and nothing is counted as lost
/// when more data follows (RFC 8985 section 7.4).
#[test]
fn tcp_takes_no_lost_ack_for_lost_data() {
    let (lost, cwnd) = after_a_tail(None, Some(9));
    assert_eq!(lost, 0);
    let (_, undisturbed) = after_a_tail(None, None);
    assert!(cwnd >= undisturbed, "a window of {cwnd} instead of {undisturbed} bytes");
}

/// The same, and the last segment itself is lost: the probe repairs it, no duplicate is reported,
/// and congestion control hears of one loss.
#[test]
fn tcp_counts_a_loss_that_a_probe_repaired() {
    let (_, undisturbed) = after_a_tail(None, None);
    let (lost, cwnd) = after_a_tail(Some(19), None);
    assert_eq!(lost, 1);
    assert!(cwnd < undisturbed, "a window of {cwnd} beside {undisturbed} bytes");
}

/// Segments counted as lost, and the window, after two writes of 20 segments; without the data
/// packet and the ACK of these numbers.
fn after_a_tail(data: Option<u64>, ack: Option<u64>) -> (u64, u64) {
    let acks = AckPolicy { every: 2, max_delay: MS.times(40), quick: 0 };
    let flow = FlowConfig { acks, ..exact(FlowConfig::tcp_bulk(Algorithm::RENO, 1)) };
    let mut config = config(mbit(20), 0.0, vec![flow]);
    let listed =
        |number: Option<u64>| ElementConfig::Loss(LossConfig::Listed(number.into_iter().collect()));
    config.links[0].row.insert(0, listed(data));
    config.uplink.row.insert(0, listed(ack));
    let mut sim = Sim::new(&config).expect("a sound path");
    sim.flow_mut(0).pause();
    sim.run_until(at(1));
    sim.flow_mut(0).pause();
    for _ in 0..2 {
        sim.with(0, |flow, io| flow.write(io, 20 * 1448));
        sim.run_until(sim.now() + MS.times(1_000));
    }
    (sim.flow(0).stats().lost_packets, sim.flow(0).snapshot().cwnd)
}

/// One ACK in five is lost, and no data. None is counted as lost in a bulk flow. Of 133 bursts
/// every fifth loses its last ACK, and of the probes that follow every fifth its DSACK: a timeout
/// is the end, as it is in a kernel, and takes the two to four segments without an ACK for lost.
#[test]
fn tcp_counts_few_losses_where_only_acks_are_lost() {
    let pauses = Application::OnOff { on: MS.times(50), off: MS.times(400) };
    for (application, most) in [(Application::Bulk, 0), (pauses, 133 / 25 * 5)] {
        let receive_window = ReceiveWindow::Fixed(100_000);
        let mut flow = FlowConfig {
            application,
            receive_window,
            ..exact(FlowConfig::tcp_bulk(Algorithm::CUBIC, 1))
        };
        // Every second segment is acknowledged, and the window outlives the pauses.
        (flow.acks.quick, flow.tcp.idle_restart) = (0, false);
        let sim = run(&config(mbit(20), 20.0, vec![flow]), 60_000);
        assert_eq!(sim.link(0).stats.tail_dropped.packets, 0, "the queue was to be long enough");
        let stats = sim.flow(0).stats();
        println!(
            "{application:?}: {} of {} counted as lost",
            stats.lost_packets, stats.sent_packets
        );
        assert!(
            stats.lost_packets <= most,
            "{} of {} sent",
            stats.lost_packets,
            stats.sent_packets
        );
    }
}

/// A hundredth of the packets is 2 ms late: RACK sees that it is reordering after the first of
/// them, so that CUBIC keeps the link. With a fixed threshold of three packets it loses a quarter.
#[test]
fn tcp_learns_that_packets_are_reordered() {
    let goodput = |reordering| {
        let mut flow = FlowConfig::tcp_bulk(Algorithm::CUBIC, 1);
        flow.tcp.reordering = reordering;
        // Linux's loses less: after each undo its cubic starts anew above the plateau.
        let options = CubicOptions::new().with_rules(CubicRules::Rfc9438);
        flow.algorithm = Algorithm::Cubic(options);
        let mut config = config(mbit(50), 0.0, vec![flow]);
        let packets = Selection::Random(Probability::new(0.01).expect("a probability"));
        let late = ElementConfig::Reordering { packets, delay: MS.times(2) };
        config.links[0].row.push(late);
        let sim = run(&config, 30_000);
        sim.flow(0).received() as f64 * 8e-6 / 30.0 / (50.0 * 1448.0 / 1500.0)
    };
    let [fixed, rack] = [Reordering::Threshold, Reordering::Rack].map(goodput);
    println!("of the link: {fixed:.3} with a fixed threshold, {rack:.3} with RACK");
    assert!(rack > 0.95 && fixed < 0.85, "{fixed} with a fixed threshold, {rack} with RACK");
}

/// The late ones are sent again before they arrive, so that each of them is a copy's original: that
/// is reordering too, as in Linux, which sends 0.02 % again on such a path. Without that each late
/// packet is sent again for ever.
#[test]
fn an_original_that_arrives_after_its_copy_left_is_reordering() {
    let mut flow = FlowConfig::tcp_bulk(Algorithm::CUBIC, 1);
    flow.cc.paced = false;
    let mut config = config(mbit(50), 0.0, vec![flow]);
    let packets = Selection::Random(Probability::new(0.01).expect("a probability"));
    config.links[0].row.insert(0, ElementConfig::Reordering { packets, delay: MS.times(2) });
    let sim = run(&config, 20_000);
    let (lost, dropped) =
        (sim.sender_stats(0).lost_packets, sim.link(0).stats.tail_dropped.packets);
    assert!(lost >= dropped && lost - dropped <= 10, "{lost} counted as lost, {dropped} dropped");
}

/// The path is dark for two seconds. A probe leaves after two round trips, a timeout follows SRTT +
/// 200 ms later; the window is one segment then, and the next timeout comes after twice the time.
#[test]
fn a_tcp_timeout_leaves_a_window_of_one_segment() {
    let mut config = config(mbit(20), 0.0, vec![FlowConfig::tcp_bulk(Algorithm::CUBIC, 1)]);
    let dark = ElementConfig::Blackhole(vec![(MS.times(3_000), MS.times(5_000))]);
    config.links[0].row.insert(0, dark);
    let mut sim = Sim::new(&config).expect("a sound path");
    sim.run_until(at(3_900));
    assert_eq!(sim.flow(0).snapshot().cwnd, 1448);
    let before = sim.flow(0).stats().sent_packets;
    sim.run_until(at(4_900));
    assert!(sim.flow(0).stats().sent_packets - before <= 2, "timeouts back off");
    sim.run_until(at(8_000));
    let before = sim.flow(0).received();
    sim.run_until(at(12_000));
    let part = (sim.flow(0).received() - before) as f64 * 8e-6 / 4.0 / (20.0 * 1448.0 / 1500.0);
    assert!(part > 0.8, "{part} of the link three seconds after the outage");
}

/// Ten packets a millisecond apart share an ACK. It leaves when the newest arrives, and so does
/// that one's round trip: the path's, and the time of one packet on the wire. That of the oldest is
/// 9 ms longer.
#[test]
fn a_round_trip_is_that_of_the_newest_packet_of_an_ack() {
    let acks = AckPolicy { every: 10, max_delay: MS.times(40), quick: 0 };
    let algorithm = Algorithm::Fixed(Rate::from_bytes_per_sec(1_448_000));
    for flow in [FlowConfig::bulk(algorithm, 1), FlowConfig::tcp_bulk(algorithm, 1)] {
        let sim = run(&config(mbit(100), 0.0, vec![FlowConfig { acks, ..flow }]), 10_000);
        let p50_ms = sim.rtt_ns().value_at_quantile(0.5) as f64 / 1e6;
        assert!((40.0..40.5).contains(&p50_ms), "{:?}: {p50_ms} ms", flow.cc.transport);
    }
}

/// RFC 9002 section 7.6.2: packets sent before the first round-trip sample establish no persistent
/// congestion. The path is dark for its first 3 s; all that follows is one loss event, which
/// halves Reno's initial window.
#[test]
fn no_persistent_congestion_before_the_first_round_trip() {
    let mut config = config(mbit(20), 0.0, vec![FlowConfig::bulk(Algorithm::RENO, 1)]);
    let dark = ElementConfig::Blackhole(vec![(Duration::ZERO, MS.times(3_000))]);
    config.links[0].row.insert(0, dark);
    let mut sim = Sim::new(&config).expect("a sound path");
    while sim.flow(0).stats().lost_packets == 0 {
        sim.step();
    }
    let smss = u64::from(FlowConfig::bulk(Algorithm::RENO, 1).cc.smss);
    let cwnd = sim.flow(0).snapshot().cwnd;
    assert!(cwnd >= 4 * smss, "{cwnd} bytes are {} packets", cwnd / smss);
}

/// Each group of short connections draws its own starts: another group beside it moves none of
/// them.
#[test]
fn another_group_of_connections_moves_no_start() {
    let application = Application::ShortFlows { bytes: 3_000, mean_interval: MS.times(50) };
    let flow = FlowConfig { application, ..FlowConfig::bulk(Algorithm::CUBIC, 1) };
    let path = PathConfig::from(Link { delay: MS.times(20), ..Link::default() });
    let received = |flows| {
        let mut sim =
            Sim::new(&SimConfig::new(path.clone(), path.clone(), flows)).expect("a sound path");
        (1..=100u64)
            .map(|i| {
                sim.run_until(at(100 * i));
                sim.flow(0).received()
            })
            .collect::<Vec<u64>>()
    };
    assert_eq!(received(vec![flow]), received(vec![flow, flow]));
}
