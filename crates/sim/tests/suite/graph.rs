//! Graphs of links: nothing is lost, overtaken or made by them, and the short way of a single link
//! gives what they give.

use std::collections::BTreeMap;

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{
    CrossTraffic, ElementConfig, FqCoDelConfig, Link, LossConfig, PathConfig, Probability,
    QueueConfig, QueueLimit,
};
use fullpipe_sim::{Access, FlowConfig, Reroute, Route, RoutedTraffic, Sim, SimConfig, SimError};
use fullpipe_traffic::{Application, Direction, Stream, stream_seed};

const MS: Duration = Duration::from_millis(1);

fn mbit(n: u64) -> Rate {
    Rate::from_bits_per_sec(n * 1_000_000)
}

fn at(ms: u64) -> Instant {
    Instant::default() + MS.times(ms)
}

fn link(rate: u64, delay: Duration, queue: QueueLimit) -> PathConfig {
    Link { rate: Some(mbit(rate)), delay, queue, ..Link::default() }.into()
}

fn route(there: &[usize], back: &[usize]) -> Route {
    Route { there: there.to_vec(), back: back.to_vec() }
}

fn bulk(algorithm: Algorithm, seed: u64, route: usize) -> FlowConfig {
    FlowConfig { route: Some(route), ..FlowConfig::bulk(algorithm, seed) }
}

/// Links and routes over them, without an uplink.
fn graph(links: Vec<PathConfig>, routes: Vec<Route>, flows: Vec<FlowConfig>) -> SimConfig {
    let config = SimConfig::new(PathConfig::default(), PathConfig::default(), flows);
    SimConfig { links, routes, ..config }
}

/// Numbers of one seed.
struct Draw(u64, u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.1 += 1;
        (stream_seed(self.0, Stream::Link, self.1) % end as u64) as usize
    }

    /// Some of so many links, in any order and each once.
    fn links(&mut self, of: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..of).collect();
        for i in (1..of).rev() {
            all.swap(i, self.below(i + 1));
        }
        all.truncate(1 + self.below(4.min(of)));
        all
    }
}

/// A graph at random, with flows that all have an end.
fn random(seed: u64, queue: QueueLimit) -> SimConfig {
    let mut draw = Draw(seed, 0);
    let n = 2 + draw.below(6);
    let links = (0..n).map(|_| {
        let (rate, delay) =
            (5 + draw.below(40) as u64, Duration::from_micros(draw.below(4000) as u64));
        link(rate, delay, queue)
    });
    let links: Vec<PathConfig> = links.collect();
    let routes: Vec<Route> =
        (0..6).map(|_| Route { there: draw.links(n), back: draw.links(n) }).collect();
    let algorithms = [Algorithm::BBR3, Algorithm::CUBIC, Algorithm::RENO];
    let flows = (0..6).map(|i| {
        let algorithm = algorithms[draw.below(3)];
        let flow = match draw.below(2) {
            0 => FlowConfig::bulk(algorithm, i),
            _ => FlowConfig::tcp_bulk(algorithm, i),
        };
        let access = Access { rate: Some(mbit(20)), delay: MS, queue: QueueLimit::Packets(10_000) };
        FlowConfig {
            application: Application::Bytes(20_000 + draw.below(200_000) as u64),
            access: (draw.below(3) == 0).then_some(access),
            route: Some(i as usize),
            ..flow
        }
    });
    let flows = flows.collect();
    graph(links, routes, flows)
}

/// Everything that a run says of itself.
fn figures(sim: &mut Sim, time: Instant) -> String {
    sim.run_until(time);
    sim.begin_part();
    let flows = sim.flows().iter().map(|f| (f.received(), f.stats(), f.end(), f.snapshot()));
    let flows: Vec<_> = flows.collect();
    let links: Vec<_> =
        (0..sim.links()).map(|i| (sim.link(i), sim.queue_delay_ns(i).len())).collect();
    format!("{flows:?} {links:?} {:?} {:?}", sim.uplink(), sim.rtt_ns_by_flow())
}

#[test]
fn a_single_link_is_the_same_with_and_without_a_graph() {
    let discipline = QueueConfig::FqCoDel(FqCoDelConfig::new());
    let queues = [QueueLimit::Bytes(60_000).into(), discipline];
    for queue in queues {
        let bottleneck = ElementConfig::Bottleneck { rate: mbit(20).into(), queue };
        let lossy = ElementConfig::Loss(LossConfig::Independent(
            Probability::new(0.001).expect("a probability"),
        ));
        let down = PathConfig {
            row: vec![lossy, bottleneck, ElementConfig::Delay(MS.times(10))],
            seed: 4,
        };
        let up = Link { rate: Some(mbit(1)), delay: MS.times(9), ..Link::default() };
        let short = Application::ShortFlows { bytes: 50_000, mean_interval: MS.times(100) };
        let flows = vec![
            FlowConfig::bulk(Algorithm::BBR3, 1),
            FlowConfig::tcp_bulk(Algorithm::CUBIC, 2),
            FlowConfig { application: short, ..FlowConfig::bulk(Algorithm::RENO, 3) },
            FlowConfig {
                receiver_delay: MS,
                extra_rtt: MS.times(7),
                ..FlowConfig::bulk(Algorithm::BBR3, 4)
            },
        ];
        let mut plain = SimConfig::new(down, up.into(), flows);
        plain.cross.push(CrossTraffic::constant(mbit(2)).into());
        let mut routed = plain.clone();
        routed.routes.push(route(&[0], &[1]));
        routed.flows[0].route = Some(0);
        let run =
            |config: &SimConfig| figures(&mut Sim::new(config).expect("sound links"), at(3_000));
        assert_eq!(run(&plain), run(&routed));
    }
}

/// The packets that enter each link, as the flows and directions that they are of. What goes from
/// one link to another one comes there, all of it and in the same order.
#[test]
fn no_packet_is_lost_or_overtaken_between_links() {
    for seed in 0..40 {
        let config = random(seed, QueueLimit::Packets(1 << 20));
        let mut sim = Sim::new(&config).expect("sound links");
        sim.record_arrivals(1 << 20);
        sim.run_until_done(at(60_000));
        assert!(sim.is_done(), "seed {seed}: a flow is not complete");
        // What is under way comes to its end.
        sim.run_until(sim.now() + MS.times(1_000));
        let arrivals = sim.take_arrivals();
        // The next link of each flow and direction, by the number in a header.
        let mut next: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        let answers = |flow: usize| (3 << 30) + flow as u32;
        for (i, flow) in config.flows.iter().enumerate() {
            let route = config.route(flow);
            for pair in route.there.windows(2) {
                next.insert((pair[0], i as u32), pair[1]);
            }
            for pair in route.back.windows(2) {
                next.insert((pair[0], answers(i)), pair[1]);
            }
        }
        for from in 0..config.links.len() {
            let stats = sim.link(from).stats;
            assert_eq!(stats.arrived, stats.delivered, "seed {seed}, link {from}");
            for to in 0..config.links.len() {
                let of = |link: usize| {
                    let numbers =
                        arrivals[link].iter().map(|a| (a.header.flow, a.header.wire_bytes));
                    numbers.filter(|(n, _)| next.get(&(from, *n)) == Some(&to)).collect::<Vec<_>>()
                };
                assert_eq!(of(from), of(to), "seed {seed}, from link {from} to {to}");
            }
        }
        for (i, flow) in config.flows.iter().enumerate() {
            let Application::Bytes(bytes) = flow.application else { unreachable!() };
            assert_eq!(sim.flow(i).received(), bytes, "seed {seed}, flow {i}");
            let first = config.first_link(flow);
            let entered = arrivals[first].iter().filter(|a| a.header.flow == i as u32).count();
            // The handshake's packet is nobody's.
            assert_eq!(entered as u64, sim.sender_stats(i).sent_packets + 1, "seed {seed}");
        }
    }
}

/// Each byte that arrived at a link was delivered, dropped, or is inside; a run is the same again.
#[test]
fn bytes_are_conserved_where_queues_overflow() {
    let mut dropped = 0;
    for seed in 100..140 {
        let mut config = random(seed, QueueLimit::Packets(8));
        let rate = CrossTraffic::constant(mbit(3));
        config.cross.push(RoutedTraffic { traffic: rate, route: Some(0) });
        for flow in &mut config.flows {
            flow.application = Application::Bulk;
        }
        let mut sim = Sim::new(&config).expect("sound links");
        sim.run_until(at(700));
        sim.begin_part();
        for i in 0..config.links.len() {
            let stats = sim.link(i).stats;
            let gone = stats.delivered.bytes + stats.dropped().bytes + stats.inside.bytes;
            assert_eq!(stats.arrived.bytes, gone, "seed {seed}, link {i}");
            dropped += stats.dropped().packets;
        }
        for i in 0..config.flows.len() {
            let (sent, read) = (sim.sender_stats(i).sent_bytes, sim.flow(i).received());
            assert!(read <= sent, "seed {seed}, flow {i}: {read} of {sent}");
        }
        let again = figures(&mut Sim::new(&config).expect("sound links"), at(700));
        let once = figures(&mut sim, at(700));
        assert_eq!(once, again, "seed {seed}");
    }
    assert!(dropped > 1_000, "{dropped} packets were dropped, too few to see anything");
}

/// Two links of 6 and 30 Mbit/s into one that carries less than both, or more, and links back for
/// the ACKs.
#[test]
fn two_access_links_share_a_bottleneck() {
    let deep = QueueLimit::Packets(100);
    for shared in [20, 40] {
        let links = [(6, 1), (30, 15), (shared, 2), (100, 1), (100, 15), (100, 2)];
        let links = links.map(|(rate, ms)| link(rate, MS.times(ms), deep)).to_vec();
        let routes = vec![route(&[0, 2], &[5, 3]), route(&[1, 2], &[5, 4])];
        let flows = vec![bulk(Algorithm::BBR3, 1, 0), bulk(Algorithm::BBR3, 2, 1)];
        let mut sim = Sim::new(&graph(links, routes, flows)).expect("sound links");
        sim.run_until(at(10_000));
        let got: Vec<f64> = sim.flows().iter().map(|f| f.received() as f64 * 8e-7).collect();
        if shared == 20 {
            assert!((17.5..19.2).contains(&(got[0] + got[1])), "they fill it: {got:?}");
            assert!(got[0] > 1.0 && got[1] > 1.0, "{got:?}");
        } else {
            assert!((5.2..5.8).contains(&got[0]), "it has its own link: {got:?}");
            assert!((26.0..28.8).contains(&got[1]), "it has its own link: {got:?}");
        }
        for (i, ms) in [(0, 6), (1, 34)] {
            let least = sim.rtt_ns_by_flow()[i].histogram().min();
            let base = ms * 1_000_000;
            assert!((base..base + 3_500_000).contains(&least), "flow {i}: {least} ns of {ms} ms");
        }
    }
}

/// Any order of the links of a chain, and data up over the uplink with ACKs over a part of them.
#[test]
fn a_route_has_any_links_in_any_order_and_directions_share_them() {
    let all = vec![link(10, MS.times(2), QueueLimit::Packets(60)); 3];
    let routes = vec![route(&[0, 2], &[3]), route(&[2, 1, 0], &[3]), route(&[3], &[1])];
    let up = FlowConfig { direction: Direction::Up, ..bulk(Algorithm::CUBIC, 3, 2) };
    let flows = vec![bulk(Algorithm::CUBIC, 1, 0), bulk(Algorithm::CUBIC, 2, 1), up];
    let mut config = graph(all, routes, flows);
    config.uplink = link(10, MS.times(2), QueueLimit::Packets(60));
    let mut sim = Sim::new(&config).expect("sound links");
    sim.run_until(at(5_000));
    let got: Vec<u64> = sim.flows().iter().map(|f| f.received() * 8 / 5_000).collect();
    assert!(got[0] + got[1] > 8_000 && got[0] > 1_500 && got[1] > 1_500, "{got:?} kbit/s");
    assert!(got[2] > 8_000, "{got:?} kbit/s");
    let acks = sim.link(1).stats.delivered.packets - sim.flow(1).stats().sent_packets;
    assert!(acks > 1_000, "{acks} ACKs of the flow that goes up");
}

#[test]
fn a_flow_has_an_access_link_of_its_own_in_both_directions() {
    let flow = FlowConfig::bulk(Algorithm::BBR3, 1);
    let access = |rate, ms| {
        let rate = Some(mbit(rate));
        Some(Access { rate, delay: MS.times(ms), queue: QueueLimit::Packets(100) })
    };
    let flows = vec![
        FlowConfig { access: access(4, 5), ..flow },
        FlowConfig { access: access(50, 20), ..flow },
    ];
    let down = link(20, MS.times(10), QueueLimit::Packets(60));
    let up = Link { delay: MS.times(10), ..Link::default() };
    let mut sim = Sim::new(&SimConfig::new(down, up.into(), flows)).expect("sound links");
    sim.run_until(at(8_000));
    assert_eq!(sim.links(), 1, "those of hosts are not links of the configuration");
    let got: Vec<f64> = sim.flows().iter().map(|f| f.received() as f64 * 1e-6).collect();
    assert!((3.0..4.0).contains(&got[0]) && got[1] > 12.0, "{got:?} Mbit/s");
    for (i, ms) in [(0, 30), (1, 60)] {
        let least = sim.rtt_ns_by_flow()[i].histogram().min();
        let base = ms * 1_000_000;
        assert!((base..base + 4_500_000).contains(&least), "flow {i}: {least} ns of {ms} ms");
    }
}

/// At 1 s the longer way, at 2 s back: round trips follow, and nothing is lost.
#[test]
fn a_route_changes_at_its_time_and_what_is_under_way_still_arrives() {
    let deep = QueueLimit::Packets(10_000);
    let links = [2, 20, 2].map(|ms| link(50, MS.times(ms), deep)).to_vec();
    let routes = vec![route(&[0], &[2]), route(&[1], &[2])];
    let mut config = graph(links, routes, vec![bulk(Algorithm::Fixed(mbit(10)), 1, 0)]);
    let change = |ms, route| Reroute { at: MS.times(ms), flow: 0, route };
    config.reroutes = vec![change(2_000, 0), change(1_000, 1)];
    let mut sim = Sim::new(&config).expect("sound links");
    let rtt = |sim: &mut Sim, ms| {
        sim.run_until(at(ms));
        let carried = [0, 1].map(|i| sim.link(i).stats.arrived.packets);
        (sim.flow(0).latest_rtt().expect("samples").as_nanos() / 1_000_000, carried)
    };
    let (before, first) = rtt(&mut sim, 999);
    assert!((4..8).contains(&before) && first[1] == 0, "{before} ms, {first:?}");
    let (there, second) = rtt(&mut sim, 1_999);
    assert!((22..28).contains(&there), "{there} ms");
    assert!(second[0] <= first[0] + 3 && second[1] > 800, "{second:?}");
    let (back, third) = rtt(&mut sim, 3_000);
    assert!((4..8).contains(&back) && third[1] <= second[1] + 3, "{back} ms, {third:?}");
    let stats = |i: usize| sim.link(i).stats;
    assert!((0..3).all(|i| stats(i).dropped().packets == 0));
}

#[test]
fn what_routes_cannot_be_is_refused() {
    let flow = FlowConfig::bulk(Algorithm::RENO, 1);
    let with = |change: fn(&mut SimConfig)| {
        let mut config = graph(vec![PathConfig::default()], vec![route(&[0], &[1])], vec![flow]);
        change(&mut config);
        Sim::new(&config).map(|_| ()).expect_err("refused").to_string()
    };
    let unknown = SimError::UnknownLink { link: 2, links: 1 }.to_string();
    assert_eq!(with(|c| c.routes[0].there = vec![2]), unknown);
    assert_eq!(with(|c| c.routes[0].back.clear()), SimError::EmptyRoute.to_string());
    let unknown = SimError::UnknownRoute { route: 1, routes: 1 }.to_string();
    assert_eq!(with(|c| c.flows[0].route = Some(1)), unknown);
    assert_eq!(with(|c| c.reroutes = vec![Reroute { at: MS, flow: 0, route: 1 }]), unknown);
    let unknown = SimError::UnknownFlow { flow: 1, flows: 1 }.to_string();
    assert_eq!(with(|c| c.reroutes = vec![Reroute { at: MS, flow: 1, route: 0 }]), unknown);
    assert_eq!(with(|c| c.links.clear()), SimError::NoLink.to_string());
}
