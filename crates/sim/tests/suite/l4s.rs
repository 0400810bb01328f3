//! L4S: Prague in queues that mark early, beside CUBIC, and where the ECN field is changed.

use fullpipe_cc::{Algorithm, Duration, Instant, PragueOptions, Rate};
use fullpipe_path::{
    CoDelConfig, DualPi2Config, Ecn, ElementConfig, Link, LossConfig, PathConfig, Probability,
    QueueConfig, QueueLimit,
};
use fullpipe_sim::{FlowConfig, Sim, SimConfig};
use fullpipe_traffic::Application;

fn at(secs: u64) -> Instant {
    Instant::default() + Duration::from_secs(secs)
}

/// A flow of L4S.
fn low_latency(algorithm: Algorithm, seed: u64) -> FlowConfig {
    let mut flow = FlowConfig { ecn: Ecn::Ect1, ..FlowConfig::bulk(algorithm, seed) };
    flow.cc.ecn = true;
    flow
}

fn sim(
    mbit: u64,
    rtt_ms: u64,
    queue: QueueConfig,
    mangler: Option<ElementConfig>,
    flows: Vec<FlowConfig>,
) -> Sim {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    let delay = Duration::from_micros(rtt_ms * 500);
    let mut row = vec![ElementConfig::Bottleneck { rate: rate.into(), queue }];
    row.extend(mangler);
    row.push(ElementConfig::Delay(delay));
    let up = Link { delay, ..Link::default() };
    Sim::new(&SimConfig::new(PathConfig { row, seed: 3 }, up.into(), flows)).expect("a sound path")
}

fn limit() -> QueueLimit {
    QueueLimit::Packets(10_000)
}

/// Application bytes of each flow, and the share of the link that was used, from 10 to 40 s.
fn shares(sim: &mut Sim, mbit: u64) -> (Vec<u64>, f64) {
    sim.run_until(at(10));
    let received = |sim: &Sim| sim.flows().iter().map(|flow| flow.received()).collect::<Vec<_>>();
    let (before, carried) = (received(sim), sim.link(0).stats.carried.bytes);
    sim.run_until(at(40));
    let carried = sim.link(0).stats.carried.bytes - carried;
    let each = received(sim).into_iter().zip(before).map(|(after, before)| after - before);
    (each.collect(), carried as f64 * 8.0 / (mbit * 30) as f64 / 1e6)
}

/// RFC 9332: the low-latency queue stays short, the link full, and neither kind of flow gets more
/// than twice what the other has. The figures of longer runs are in docs/l4s.md.
#[test]
fn prague_and_cubic_share_dualpi2() {
    for (mbit, rtt_ms) in [(40, 5), (40, 20), (40, 50), (120, 10)] {
        let queue = QueueConfig::DualPi2(DualPi2Config::new(limit()));
        let flows = vec![
            low_latency(Algorithm::PRAGUE, 1),
            FlowConfig { ..FlowConfig::bulk(Algorithm::CUBIC, 2) },
        ];
        let mut sim = sim(mbit, rtt_ms, queue, None, flows);
        let (each, used) = shares(&mut sim, mbit);
        let ratio = each[0] as f64 / each[1] as f64;
        let tallies = sim.queue_delays_by_flow_ns().expect("the queue has lines");
        let [prague, cubic] =
            [0, 1].map(|i| tallies[i].histogram().value_at_quantile(0.99) as f64 / 1e6);
        println!(
            "{mbit} Mbit/s, {rtt_ms} ms: {ratio:.2}, {used:.3}, {prague:.2} and {cubic:.1} ms"
        );
        assert!((0.5..=2.0).contains(&ratio), "{mbit} Mbit/s, {rtt_ms} ms: {ratio}");
        assert!(used >= 0.95, "{mbit} Mbit/s, {rtt_ms} ms: {used}");
        assert!(prague <= 1.0 && cubic > 10.0, "{mbit} Mbit/s, {rtt_ms} ms: {prague}, {cubic}");
    }
}

/// One queue that marks both by RFC 3168: the share of Prague where it looks for such queues, and
/// where it does not.
#[test]
fn prague_gives_way_to_cubic_in_a_classic_queue() {
    let share = |fallback: bool| {
        let queue = QueueConfig::CoDel(CoDelConfig::new(limit()));
        let mut prague = low_latency(Algorithm::PRAGUE, 1);
        let options = PragueOptions::new().with_classic_fallback(fallback);
        prague.algorithm = Algorithm::Prague(options);
        let cubic = FlowConfig { ecn: Ecn::Ect0, ..FlowConfig::bulk(Algorithm::CUBIC, 2) };
        let mut sim = sim(50, 30, queue, None, vec![prague, cubic]);
        let (each, _) = shares(&mut sim, 50);
        each[0] as f64 / (each[0] + each[1]) as f64
    };
    let [with, without] = [true, false].map(share);
    println!("{with:.3} with the fallback, {without:.3} without");
    assert!(with < without && with < 0.7, "{with}, {without}");
}

/// The same of `bbr3` and `bbr3x` beside five flows of CUBIC: from half of a fair share to two.
#[test]
fn bbr3_gives_way_to_cubic_in_a_classic_queue() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X] {
        let queue = QueueConfig::CoDel(CoDelConfig::new(limit()));
        let mut flows = vec![low_latency(algorithm, 1)];
        flows.extend(
            (2..7).map(|i| FlowConfig { ecn: Ecn::Ect0, ..FlowConfig::bulk(Algorithm::CUBIC, i) }),
        );
        let (each, used) = shares(&mut sim(100, 40, queue, None, flows), 100);
        let share = each[0] as f64 / each.iter().sum::<u64>() as f64;
        println!("{algorithm}: {share:.3} beside five of cubic, {used:.3} used");
        assert!((0.5 / 6.0..=2.0 / 6.0).contains(&share), "{algorithm}: {share}");
        assert!(used >= 0.95, "{algorithm}: {used}");
    }
}

/// Their own probes make the round trip vary, and no classic queue of one of L4S: alone behind
/// DualPI2 they have what the rest of their response leaves them.
#[test]
fn bbr3_takes_no_queue_of_l4s_for_a_classic_one() {
    for algorithm in [Algorithm::BBR3, Algorithm::BBR3X] {
        for mbit in [40, 120] {
            let queue = QueueConfig::DualPi2(DualPi2Config::new(limit()));
            let flow = vec![low_latency(algorithm, 1)];
            let (_, used) = shares(&mut sim(mbit, 50, queue, None, flow), mbit);
            println!("{algorithm}, {mbit} Mbit/s: {used:.3}");
            assert!(used >= 0.8, "{algorithm}, {mbit} Mbit/s: {used}");
        }
    }
}

/// RFC 9000 section 13.4.2: a router that clears the field, or that writes CE into each packet's.
/// The sender notices, its packets ask for marks no more, and it has the link as without ECN.
#[test]
fn a_sender_stops_where_the_field_is_changed() {
    let none = || QueueConfig::TailDrop(QueueLimit::Packets(200));
    let [cubic, bbr3] = [Algorithm::CUBIC, Algorithm::BBR3];
    for algorithm in [Algorithm::PRAGUE, cubic, bbr3, Algorithm::BBR3_LINUX] {
        for flow in [low_latency(algorithm, 1), {
            let tcp = FlowConfig::tcp_bulk(algorithm, 1);
            FlowConfig { ecn: Ecn::Ect1, cc: fullpipe_cc::Config { ecn: true, ..tcp.cc }, ..tcp }
        }] {
            for (name, mangler) in [
                ("bleached", ElementConfig::Bleaching(Probability::ONE)),
                ("mangled", ElementConfig::Mangling(Probability::ONE)),
            ] {
                let mut sim = sim(50, 20, none(), Some(mangler), vec![flow]);
                sim.run_until(at(3));
                assert_eq!(sim.flow(0).ecn(), Ecn::NotEct, "{algorithm}, {name}");
                let (_, used) = shares(&mut sim, 50);
                assert!(used > 0.9, "{algorithm}, {name}: {used}");
            }
            let mut sim = sim(50, 20, none(), None, vec![flow]);
            sim.run_until(at(1));
            assert_eq!(sim.flow(0).ecn(), Ecn::Ect1, "{algorithm}");
        }
    }
}

/// A queue may mark everything that can be marked, and the sender goes on to answer: 150 flows keep
/// it above its threshold, and five more that come late see nothing but marks and no wait.
#[test]
fn flows_that_come_late_into_a_marked_queue_go_on_with_ecn() {
    let mut codel = CoDelConfig::new(limit());
    codel.ce_threshold = Some(Duration::from_millis(1));
    let flow = |i| FlowConfig {
        start: if i < 150 { Duration::ZERO } else { Duration::from_secs(5) },
        ..low_latency(Algorithm::CUBIC, i)
    };
    let mut sim = sim(100, 10, QueueConfig::CoDel(codel), None, (0..155).map(flow).collect());
    let (each, _) = shares(&mut sim, 100);
    assert!(sim.flows().iter().all(|flow| flow.ecn() == Ecn::Ect1));
    let (all, late) = (each.iter().sum::<u64>(), each[150..].iter().sum::<u64>());
    let share = late as f64 / all as f64;
    println!("the five have {:.1} % of the link", 100.0 * share);
    assert!(share < 2.0 * 5.0 / 155.0, "the five have {share} of the link");
}

/// RFC 8985 section 7.4.2: the last packet is lost, and TCP's probe repairs it. Prague's window is
/// halved as by any loss, and alpha knows of no mark.
#[test]
fn a_loss_that_the_probe_repaired_is_no_mark() {
    let after = |listed: Vec<u64>| {
        let tcp = FlowConfig::tcp_bulk(Algorithm::PRAGUE, 1);
        let cc = fullpipe_cc::Config { ecn: true, ..tcp.cc };
        let application = Application::Bytes(100_000);
        let flow = FlowConfig { ecn: Ecn::Ect1, cc, application, ..tcp };
        let queue = QueueConfig::TailDrop(QueueLimit::Packets(200));
        let loss = ElementConfig::Loss(LossConfig::Listed(listed));
        let mut sim = sim(50, 20, queue, Some(loss), vec![flow]);
        sim.run_until(at(2));
        (sim.flow(0).stats(), sim.flow(0).snapshot())
    };
    let (stats, whole) = after(Vec::new());
    assert_eq!(stats.lost_packets, 0);
    let (stats, repaired) = after(vec![stats.sent_packets - 1]);
    assert_eq!(stats.lost_packets, 1);
    // The last packet did not let the window grow before.
    let halves = (whole.cwnd - 2 * 1500) / 2..=whole.cwnd / 2;
    assert!(halves.contains(&repaired.cwnd), "from {} to {}", whole.cwnd, repaired.cwnd);
    assert_eq!((whole.ecn_alpha, repaired.ecn_alpha), (None, None));
}

/// Thirty flows that start within 30 ms into a queue that marks from 242 us on: some meet nothing
/// but marks for many round trips of a millisecond, and none takes the queue for a mangler.
#[test]
fn flows_that_share_a_marked_link_go_on_with_ecn() {
    let mut codel = CoDelConfig::new(QueueLimit::Packets(1_000));
    codel.ce_threshold = Some(Duration::from_micros(242));
    let flow = |i| {
        let tcp = FlowConfig::tcp_bulk(Algorithm::BBR3_LINUX, i);
        let start = Duration::from_millis(i);
        FlowConfig { ecn: Ecn::Ect1, start, cc: fullpipe_cc::Config { ecn: true, ..tcp.cc }, ..tcp }
    };
    let mut sim = sim(1_000, 1, QueueConfig::CoDel(codel), None, (0..30).map(flow).collect());
    sim.run_until(at(2));
    assert!(sim.flows().iter().all(|flow| flow.ecn() == Ecn::Ect1));
}
