//! One experiment for this simulator and for another one: `scripts/htsim.sh` runs it in both.
//!
//! ```text
//! cargo run --release -p fullpipe-sim --example beside -- run link bbr3 1 100 60
//! cargo run --release -p fullpipe-sim --example beside -- describe fat-tree 1
//! ```
//!
//! `link ALGORITHM FLOWS MBIT_PER_S SECONDS` is flows of QUIC over one link of 40 ms with about one
//! BDP of queue. `fat-tree SECONDS` is TCP from each host of a fat tree to another one, k = 8, in a
//! window of ten segments. `run` prints what each flow sent and received; `describe` prints links
//! and routes as numbers, for whoever else simulates them.

use std::io::Write as _;
use std::process::ExitCode;

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{Link, QueueLimit};
use fullpipe_sim::topology::{Cost, Edge, Shape, Topology};
use fullpipe_sim::{AckPolicy, FlowConfig, ReceiveWindow, Route, Sim, SimConfig};

const USAGE: &str =
    "write: (run | describe) (link ALGORITHM FLOWS MBIT_PER_S SECONDS | fat-tree SECONDS)";
/// Ports of a switch of the fat tree.
const PORTS: usize = 8;
/// Segments that a flow of the fat tree has under way.
const WINDOW: u32 = 10;
const WIRE_BYTES: u64 = 1500;

/// Links, flows over them, and the time that they take.
struct Experiment {
    links: Vec<Link>,
    flows: Vec<FlowConfig>,
    routes: Vec<Route>,
    /// Segments that each flow may have under way; 0: as its congestion control says.
    window: u32,
    /// Segments at which slow start ends, for a simulator that would overshoot.
    ssthresh: u64,
    time: Duration,
}

fn link(algorithm: Algorithm, flows: usize, mbit: u64, time: Duration) -> Experiment {
    let delay = Duration::from_millis(20);
    let rate = Some(Rate::from_bits_per_sec(mbit * 1_000_000));
    let queue = QueueLimit::Packets(340 * mbit / 100);
    let bdp = mbit * 1_000_000 / 8 * 40 / 1000 / WIRE_BYTES;
    Experiment {
        links: vec![
            Link { rate, queue, delay, ..Link::default() },
            Link { delay, ..Link::default() },
        ],
        flows: (0..flows).map(|seed| FlowConfig::bulk(algorithm, seed as u64)).collect(),
        routes: vec![Route { there: vec![0], back: vec![1] }],
        window: 0,
        ssthresh: (bdp / flows.max(1) as u64).max(2),
        time,
    }
}

fn fat_tree(time: Duration) -> Experiment {
    let shape = Shape::fat_tree(PORTS);
    let delay = Duration::from_micros(20);
    let cables = shape.core.iter().chain(&shape.edge);
    let edges: Vec<Edge> = cables
        .flat_map(|&(a, b)| [(a, b), (b, a)])
        .map(|(from, to)| Edge { from, to, delay })
        .collect();
    let rate = Some(Rate::from_bits_per_sec(100_000_000));
    let one = Link { rate, queue: QueueLimit::Packets(200), delay, ..Link::default() };
    let links = vec![one; edges.len()];
    let topology = Topology::new(shape.nodes.len(), edges);
    // A permutation without a fixed point, most pairs of which are in different pods.
    let to = |host: usize| (5 * host + 37) % shape.hosts;
    let route = |from: usize, to: usize, hash: u64| {
        topology.toward(to, Cost::Hops, |_| true).route(from, Some(hash)).expect("a fat tree")
    };
    let routes = (0..shape.hosts).map(|host| Route {
        there: route(host, to(host), 2 * host as u64),
        back: route(to(host), host, 2 * host as u64 + 1),
    });
    let flow = |host: usize| {
        let flow = FlowConfig::tcp_bulk(Algorithm::RENO, host as u64);
        let window = u64::from(WINDOW * flow.cc.smss);
        FlowConfig {
            receive_window: ReceiveWindow::Fixed(window),
            acks: AckPolicy { every: 1, ..AckPolicy::default() },
            jitter: Duration::ZERO,
            route: Some(host),
            // Not all at once, but the same in every run.
            start: Duration::from_micros(17 * host as u64),
            ..flow
        }
    };
    let flows = (0..shape.hosts).map(flow).collect();
    let (routes, ssthresh) = (routes.collect(), u64::from(WINDOW));
    Experiment { links, flows, routes, window: WINDOW, ssthresh, time }
}

fn describe(all: &Experiment, out: &mut impl std::io::Write) -> std::io::Result<()> {
    writeln!(out, "{WIRE_BYTES} {}", all.time.as_nanos())?;
    writeln!(out, "{}", all.links.len())?;
    for link in &all.links {
        let bits = link.rate.map_or(0, |rate| 8 * rate.as_bytes_per_sec());
        let packets = match link.queue {
            QueueLimit::Packets(packets) if bits > 0 => packets,
            _ => 0,
        };
        writeln!(out, "{bits} {} {packets}", link.delay.as_nanos())?;
    }
    writeln!(out, "{}", all.flows.len())?;
    for flow in &all.flows {
        let route = &all.routes[flow.route.unwrap_or(0)];
        write!(out, "{} {} {}", flow.start.as_nanos(), all.window, all.ssthresh)?;
        for links in [&route.there, &route.back] {
            write!(out, " {}", links.len())?;
            links.iter().try_for_each(|link| write!(out, " {link}"))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Prints packets sent, and each flow's bytes on the wire in the second half of the time.
fn run(all: Experiment, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let mut links = all.links.into_iter().map(Into::into);
    let is_graph = all.window > 0;
    let mut config = if is_graph {
        SimConfig::new(Link::default().into(), Link::default().into(), all.flows)
    } else {
        let (down, up) = (links.next().unwrap_or_default(), links.next().unwrap_or_default());
        SimConfig::new(down, up, all.flows)
    };
    if is_graph {
        config.links = links.collect();
        config.routes = all.routes;
    }
    let payload = config.flows.first().map_or(1, |flow| flow.cc.smss);
    let mut sim = Sim::new(&config).expect("sound paths");
    let received = |sim: &Sim| sim.flows().iter().map(|flow| flow.received()).collect::<Vec<_>>();
    sim.run_until(Instant::default() + Duration::from_nanos(all.time.as_nanos() / 2));
    let half = received(&sim);
    sim.run_until(Instant::default() + all.time);
    let packets: u64 = sim.flows().iter().map(|flow| flow.stats().sent_packets).sum();
    writeln!(out, "{packets}")?;
    for (end, half) in received(&sim).iter().zip(half) {
        writeln!(out, "{}", (end - half) * WIRE_BYTES / u64::from(payload))?;
    }
    Ok(())
}

fn experiment(words: &[&str]) -> Option<Experiment> {
    let number =
        |word: &str, most: u64| word.parse::<u64>().ok().filter(|n| (1..=most).contains(n));
    let seconds = |word: &str| number(word, 100_000).map(Duration::from_secs);
    match words {
        ["link", algorithm, flows, mbit, time] => Some(link(
            algorithm.parse().ok()?,
            number(flows, 100_000)? as usize,
            number(mbit, 1_000_000)?,
            seconds(time)?,
        )),
        ["fat-tree", time] => Some(fat_tree(seconds(time)?)),
        _ => None,
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let done = match words.split_first().map(|(what, rest)| (*what, experiment(rest))) {
        Some(("run", Some(all))) => run(all, &mut out),
        Some(("describe", Some(all))) => describe(&all, &mut out),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done.and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot print: {error}");
            ExitCode::FAILURE
        }
    }
}
