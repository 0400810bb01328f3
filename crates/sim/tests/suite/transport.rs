//! Behaviour of a flow's transport and applications, checked against exact arithmetic.

use fullpipe_cc::{Algorithm, Config, Duration, Instant, Rate};
use fullpipe_path::{
    CrossTraffic, Ecn, ElementConfig, Link, LossConfig, Probability, QueueConfig, QueueLimit,
    Selection, StepConfig,
};
use fullpipe_sim::{AckPolicy, FlowConfig, ReceiveWindow, Route, Sim, SimConfig, SimError};
use fullpipe_traffic::{Application, Direction};

const MS: Duration = Duration::from_millis(1);

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

/// 40 ms there and back, with a buffer of `queue_bytes` before the rate.
fn config(rate: Rate, queue_bytes: u64, flows: Vec<FlowConfig>) -> SimConfig {
    let delay = MS.times(20);
    let queue = QueueLimit::Bytes(queue_bytes);
    let down = Link { rate: Some(rate), queue, delay, ..Link::default() };
    SimConfig::new(down.into(), Link { delay, ..Link::default() }.into(), flows)
}

fn sim(rate: Rate, queue_bytes: u64, flows: Vec<FlowConfig>) -> Sim {
    Sim::new(&config(rate, queue_bytes, flows)).expect("a sound path")
}

/// Application Mbit/s of a flow between two times in ms.
fn goodput(sim: &mut Sim, flow: usize, from: u64, to: u64) -> f64 {
    sim.run_until(at(from));
    let before = sim.flow(flow).received();
    sim.run_until(at(to));
    (sim.flow(flow).received() - before) as f64 * 8e-3 / (to - from) as f64
}

fn is_near(seen: f64, wanted: f64, part: f64) -> bool {
    (seen / wanted - 1.0).abs() <= part
}

#[test]
fn tcp_fills_the_link_as_quic_does_but_for_the_headers() {
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC] {
        let [quic, tcp] = [FlowConfig::bulk(algorithm, 1), FlowConfig::tcp_bulk(algorithm, 1)]
            .map(|flow| goodput(&mut sim(mbit(50), 250_000, vec![flow]), 0, 5_000, 20_000));
        // Application bytes in a packet on the wire: 1415 of 1480, and 1448 of 1500.
        let (quic, tcp) = (quic / (50.0 * 1415.0 / 1480.0), tcp / (50.0 * 1448.0 / 1500.0));
        assert!(is_near(tcp, quic, 0.01) && tcp > 0.95, "{algorithm}: {tcp} beside {quic}");
    }
}

#[test]
fn every_byte_arrives_once_and_in_order_whatever_is_lost() {
    for flow in [FlowConfig::bulk(Algorithm::BBR3, 1), FlowConfig::tcp_bulk(Algorithm::BBR3, 1)] {
        for percent in [1, 5, 20] {
            let bytes = 3_000_001;
            let application = Application::Bytes(bytes);
            let mut config = config(mbit(20), 100_000, vec![FlowConfig { application, ..flow }]);
            let loss = Probability::new(f64::from(percent) / 100.0).expect("a probability");
            let delay = MS.times(20);
            let down = Link {
                rate: Some(mbit(20)),
                queue: QueueLimit::Bytes(100_000),
                delay,
                loss,
                seed: 7,
            };
            config.links[0] = down.into();
            // ACKs get lost as well.
            config.uplink = Link { delay, loss, seed: 8, ..Link::default() }.into();
            let mut sim = Sim::new(&config).expect("a sound path");
            sim.run_until(at(300_000));
            assert_eq!(sim.flow(0).received(), bytes, "{percent} %");
            assert!(sim.flow(0).end().is_some());
        }
    }
}

/// A window of W bytes a round trip is all that passes, however wide the link; a little less,
/// because only whole packets leave, and ACKs wait for a second packet. BBR takes the window for a
/// bottleneck: it paces at 99 % of what passes, and has a ProbeRTT.
#[test]
fn a_receive_window_limits_to_itself_per_round_trip() {
    let receive_window = ReceiveWindow::Fixed(200_000);
    for flow in [FlowConfig::bulk(Algorithm::BBR3, 1), FlowConfig::tcp_bulk(Algorithm::CUBIC, 1)] {
        let mut sim = sim(mbit(1_000), 5_000_000, vec![FlowConfig { receive_window, ..flow }]);
        let seen = goodput(&mut sim, 0, 2_000, 10_000);
        let most = 200_000.0 * 8.0 / 40_000.0;
        assert!((0.96 * most..most).contains(&seen), "{seen} Mbit/s");
    }
}

#[test]
fn a_window_that_grows_lets_the_link_be_filled() {
    let receive_window = ReceiveWindow::Auto { initial: 64_000, max: 10_000_000 };
    let flow = FlowConfig { receive_window, ..FlowConfig::bulk(Algorithm::BBR3, 1) };
    let seen = goodput(&mut sim(mbit(100), 500_000, vec![flow]), 0, 3_000, 10_000);
    assert!(seen > 0.9 * 100.0 * 1415.0 / 1480.0, "{seen} Mbit/s");
}

/// Little's law: bytes in a full send buffer leave at the goodput, so that each waits for buffer
/// over goodput, less the way of the ACK that frees it.
#[test]
fn a_send_buffer_is_latency() {
    let buffer = 4_000_000;
    let flow = FlowConfig { send_buffer: Some(buffer), ..FlowConfig::bulk(Algorithm::BBR3, 1) };
    let mut sim = sim(mbit(100), 500_000, vec![flow]);
    let seen = goodput(&mut sim, 0, 5_000, 20_000);
    let littles = buffer as f64 * 8e-3 / seen - 20.0;
    let p50_ms = sim.latency_ns().value_at_quantile(0.5) as f64 / 1e6;
    assert!(is_near(p50_ms, littles, 0.03), "{p50_ms} beside {littles} ms");

    let unbounded = FlowConfig::bulk(Algorithm::BBR3, 1);
    let mut just_in_time = self::sim(mbit(100), 500_000, vec![unbounded]);
    just_in_time.run_until(at(20_000));
    let p50_ms = just_in_time.latency_ns().value_at_quantile(0.5) as f64 / 1e6;
    assert!((20.0..25.0).contains(&p50_ms), "{p50_ms} ms from write to read");
}

#[test]
fn an_empty_path_takes_its_delay_to_the_nanosecond() {
    let extra_rtt = Duration::from_nanos(1_234_567);
    let application = Application::Bytes(1_000);
    let acks = AckPolicy { every: 1, max_delay: MS, quick: 0 };
    let flow =
        FlowConfig { application, acks, extra_rtt, ..exact(FlowConfig::bulk(Algorithm::RENO, 1)) };
    let mut config = config(mbit(10), 100_000, vec![flow]);
    config.links.push(config.links[0].clone());
    let mut sim = Sim::new(&config).expect("a sound path");
    sim.run_until(at(1_000));
    // 1000 bytes, 37 of QUIC's and 28 of UDP's and IP's headers, twice through 10 Mbit/s.
    let wire = Duration::from_nanos(1_065 * 800);
    assert_eq!(sim.flow(0).end(), Some(at(40) + wire.times(2)));
    assert_eq!(sim.flow(0).latest_rtt(), Some(MS.times(60) + wire.times(2) + extra_rtt));
}

#[test]
fn a_receiver_acknowledges_as_often_as_it_was_told() {
    for every in [1, 2, 10] {
        let acks = AckPolicy { every, max_delay: MS.times(25), quick: 0 };
        let flow = FlowConfig { acks, ..FlowConfig::bulk(Algorithm::BBR3, 1) };
        let mut sim = sim(mbit(100), 500_000, vec![flow]);
        sim.run_until(at(5_000));
        let packets = sim.link(0).stats.delivered.packets as f64;
        let acks = sim.uplink().stats.delivered.packets as f64;
        assert!(is_near(packets / acks, f64::from(every), 0.02), "{packets} over {acks}");
    }
}

/// Three links in a row, a flow over all of them and one over each: the parking lot. Whoever passes
/// more bottlenecks gets less, nobody nothing, and each link is full.
#[test]
fn a_chain_of_bottlenecks_is_shared() {
    let flow = FlowConfig::bulk(Algorithm::BBR3, 1);
    let mut flows: Vec<FlowConfig> =
        (0..3).map(|i| FlowConfig { route: Some(i), ..flow }).collect();
    flows.push(flow);
    for (i, flow) in flows.iter_mut().enumerate() {
        flow.cc.seed = i as u64;
    }
    let mut config = config(mbit(20), 200_000, flows);
    config.links = vec![config.links[0].clone(); 3];
    config.routes = (0..3).map(|link| Route { there: vec![link], back: vec![3] }).collect();
    let mut sim = Sim::new(&config).expect("sound paths");
    let long = goodput(&mut sim, 3, 10_000, 60_000);
    for link in 0..3 {
        let carried = sim.link(link).stats.carried.bytes as f64 * 8e-6 / 60.0;
        assert!(carried > 0.9 * 20.0, "link {link}: {carried} of 20 Mbit/s");
    }
    assert!(sim.flow(3).latest_rtt() >= Some(MS.times(3 * 20 + 20)), "three links there");
    assert!((2.0..11.0).contains(&long), "{long} Mbit/s over three links");
}

#[test]
fn cross_traffic_reacts_to_nothing_and_takes_its_rate() {
    let mut config = config(mbit(100), 500_000, vec![FlowConfig::bulk(Algorithm::BBR3, 1)]);
    config.cross.push(CrossTraffic::constant(mbit(60)).into());
    let mut sim = Sim::new(&config).expect("a sound path");
    let seen = goodput(&mut sim, 0, 5_000, 20_000);
    assert!(is_near(seen, 40.0 * 1415.0 / 1480.0, 0.04), "{seen} Mbit/s are left");
}

/// An application that writes 5 Mbit/s gets them, in writes of 10 kB each 16 ms, and is no reason
/// for a queue.
#[test]
fn a_limited_application_gets_its_rate() {
    let application = Application::RateLimited { rate: mbit(5), write_bytes: 10_000 };
    let flow = FlowConfig { application, ..FlowConfig::bulk(Algorithm::BBR3, 1) };
    let mut sim = sim(mbit(100), 500_000, vec![flow]);
    let seen = goodput(&mut sim, 0, 1_000, 11_000);
    assert!(is_near(seen, 5.0, 0.005), "{seen} Mbit/s");
    assert!(sim.queue_delay_ns(0).max() < 2_000_000);
}

#[test]
fn an_application_that_pauses_sends_half_of_the_time() {
    let application = Application::OnOff { on: MS.times(500), off: MS.times(500) };
    let flow = FlowConfig { application, ..FlowConfig::bulk(Algorithm::BBR3, 1) };
    let mut sim = sim(mbit(50), 250_000, vec![flow]);
    let seen = goodput(&mut sim, 0, 5_000, 25_000);
    assert!((0.44..0.51).contains(&(seen / (50.0 * 1415.0 / 1480.0))), "{seen} Mbit/s");
    let silent = Application::OnOff { on: MS.times(500), off: Duration::ZERO };
    let flow = FlowConfig { application: silent, stop: Some(MS.times(1_000)), ..flow };
    let mut stopped = self::sim(mbit(50), 250_000, vec![flow]);
    assert!(goodput(&mut stopped, 0, 1_500, 5_000) == 0.0, "it was to stop after a second");
}

/// A request takes half a round trip, the answer the other half and its time on the wire; then the
/// reader thinks.
#[test]
fn an_answer_takes_a_round_trip() {
    let think = MS.times(100);
    let application = Application::RequestResponse { response_bytes: 1_000, think };
    let flow = FlowConfig { application, ..exact(FlowConfig::bulk(Algorithm::CUBIC, 1)) };
    let mut sim = sim(mbit(10), 100_000, vec![flow]);
    sim.run_until(at(10_000));
    let times = sim.flow(0).completion_ns().expect("answers are timed").histogram();
    let one = MS.times(40).as_nanos() + 1_065 * 800;
    assert!(times.max().abs_diff(one) < one / 900, "{} ns for one of {one}", times.max());
    assert_eq!(times.len(), 10_000_000_000 / (one + think.as_nanos()) + 1);
}

#[test]
fn short_connections_come_and_go() {
    let application = Application::ShortFlows { bytes: 50_000, mean_interval: MS.times(20) };
    let flow = FlowConfig { application, ..FlowConfig::bulk(Algorithm::CUBIC, 1) };
    let mut sim = sim(mbit(100), 500_000, vec![flow]);
    sim.run_until(at(60_000));
    let times = sim.flow(0).completion_ns().expect("connections are timed").histogram();
    let wanted = 60_000.0 / 20.0;
    // Three standard deviations of a Poisson count.
    assert!((times.len() as f64 - wanted).abs() < 3.0 * wanted.sqrt(), "{}", times.len());
    assert!(sim.flow(0).received() >= times.len() * 50_000);
    // The handshake takes one round trip; 12 kB go in the second, 24 in the third, the rest in the
    // fourth.
    let p50_ms = times.value_at_quantile(0.5) as f64 / 1e6;
    assert!((140.0..155.0).contains(&p50_ms), "{p50_ms} ms");
}

/// A queue that marks what finds more than 20 packets: Reno with ECN halves without a loss, and
/// without ECN the mark means nothing to anybody. Of each packet two copies leave the first link,
/// one of them a second late: when its connection, of one packet, is over. It passes the second
/// link as the first copy does.
#[test]
fn late_packets_of_a_short_connection_pass_the_whole_chain() {
    let app = Application::ShortFlows { bytes: 1_000, mean_interval: MS.times(100) };
    let flow = FlowConfig {
        application: app,
        stop: Some(MS.times(2_000)),
        ..FlowConfig::tcp_bulk(Algorithm::CUBIC, 1)
    };
    let mut config = config(mbit(10), 100_000, vec![flow]);
    config.links.push(config.links[0].clone());
    let every = Probability::new(1.0).expect("a probability");
    let late = ElementConfig::Reordering { packets: Selection::Every(2), delay: MS.times(1_000) };
    config.links[0].row.extend([ElementConfig::Duplication(every), late]);
    let mut sim = Sim::new(&config).expect("a sound path");
    sim.run_until(at(10_000));
    let [first, second] = [0, 1].map(|i| sim.link(i).stats);
    assert!(first.delivered.packets >= 40, "{first:?}");
    assert_eq!(second.arrived, first.delivered);
    assert_eq!(sim.delivered_packets(), second.delivered.packets);
}

#[test]
fn marks_reach_the_controller_and_spare_the_packets() {
    let queue = |algorithm, ecn, ignores_marks| {
        let flow = FlowConfig { ecn, ignores_marks, ..FlowConfig::bulk(algorithm, 1) };
        let mut config = config(mbit(50), 1_000_000, vec![flow]);
        let limit = QueueLimit::Packets(700);
        let mark_above = QueueLimit::Packets(20);
        let queue = QueueConfig::Step(StepConfig { limit, mark_above });
        let rate = mbit(50).into();
        config.links[0].row[0] = ElementConfig::Bottleneck { rate, queue };
        let mut sim = Sim::new(&config).expect("a sound path");
        sim.run_until(at(20_000));
        let lost = sim.flow(0).stats().lost_packets;
        (sim.queue_delay_ns(0).value_at_quantile(0.95), lost, sim.link(0).stats.marked.packets)
    };
    let (delay, lost, marked) = queue(Algorithm::RENO, Ecn::Ect0, false);
    assert!(marked > 0 && lost == 0, "{marked} marked, {lost} lost");
    assert!(delay < 2 * 20 * 240_000, "{delay} ns is more than twice what is marked");
    let unmarked = queue(Algorithm::RENO, Ecn::NotEct, false);
    let (delay, lost, marked) = unmarked;
    assert!(
        marked == 0 && lost > 0 && delay > 100_000_000,
        "{marked} marked, {lost} lost, {delay}"
    );
    // Packets that are marked to no effect do what those do that cannot be marked.
    for algorithm in [Algorithm::RENO, Algorithm::BBR1, Algorithm::BBR3_LINUX] {
        let ignores_marks = algorithm == Algorithm::RENO;
        let (delay, lost, marked) = queue(algorithm, Ecn::Ect0, ignores_marks);
        assert!(marked > 0, "{algorithm}");
        let unmarked = queue(algorithm, Ecn::NotEct, false);
        // But that a mark is acknowledged at once.
        assert!(delay.abs_diff(unmarked.0) < unmarked.0 / 10, "{algorithm}: {delay}, {unmarked:?}");
        assert_eq!(lost > 0, unmarked.1 > 0, "{algorithm}: {lost} lost");
    }
}

/// Data both ways over a link of 20 Mbit/s and one of 5: each fills its own, and shares it with the
/// other's ACKs.
#[test]
fn data_goes_both_ways_and_shares_each_way_with_the_acks_of_the_other() {
    let up = FlowConfig { direction: Direction::Up, ..FlowConfig::bulk(Algorithm::CUBIC, 2) };
    let down = FlowConfig::bulk(Algorithm::CUBIC, 1);
    let run = |flows: Vec<FlowConfig>| {
        let mut config = config(mbit(20), 50_000, flows);
        let back = Link {
            rate: Some(mbit(5)),
            queue: QueueLimit::Bytes(50_000),
            delay: MS.times(20),
            ..Link::default()
        };
        config.uplink = back.into();
        let mut sim = Sim::new(&config).expect("a sound path");
        sim.run_until(Instant::default() + Duration::from_secs(20));
        let received: Vec<f64> =
            sim.flows().iter().map(|flow| flow.received() as f64 * 8.0 / 20e6).collect();
        assert!(sim.rtt_ns_by_flow().iter().all(|rtt| rtt.histogram().min() >= 40_000_000));
        received
    };
    let alone = run(vec![up]);
    assert!(alone[0] > 4.3 && alone[0] < 5.0, "{alone:?}");
    let both = run(vec![down, up]);
    assert!(both[1] > 2.5 && both[1] < alone[0], "ACKs take a part of the way up: {both:?}");
    assert!(both[0] > 8.0 && both[0] < 20.0, "{both:?}");
    // A corrupted, a duplicated and a lost answer harm nobody.
    let mut config = config(mbit(20), 50_000, vec![up]);
    config.uplink = Link {
        rate: Some(mbit(5)),
        delay: MS.times(20),
        queue: QueueLimit::Bytes(50_000),
        ..Link::default()
    }
    .into();
    for element in [
        ElementConfig::Corruption(Probability::new(0.05).expect("a share")),
        ElementConfig::Duplication(Probability::new(0.05).expect("a share")),
        ElementConfig::Loss(LossConfig::Independent(Probability::new(0.05).expect("a share"))),
    ] {
        config.links[0].row.push(element);
    }
    let mut sim = Sim::new(&config).expect("a sound path");
    sim.run_until(Instant::default() + Duration::from_secs(20));
    let seen = sim.flow(0).received() as f64 * 8.0 / 20e6;
    assert!(seen > 4.0, "{seen} Mbit/s with lost ACKs");
}

/// The sender keeps a packet's bytes in the 17 bits of its state.
#[test]
fn packets_that_ip_does_not_carry_are_refused() {
    let of = |smss| {
        let bulk = FlowConfig::bulk(Algorithm::RENO, 1);
        let flow = FlowConfig { cc: Config { smss, ..bulk.cc }, ..bulk };
        Sim::new(&config(mbit(10), 50_000, vec![flow])).map(drop)
    };
    assert_eq!(of(65_535), Ok(()));
    assert_eq!(of(65_536), Err(SimError::PacketBytes(65_536)));
}
