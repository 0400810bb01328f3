//! An estimate of the memory that runs need, before any of them begins: a scenario can ask for more
//! packets under way than a machine holds.
//!
//! Windows are bounded by what arrived: an algorithm doubles its window at most, and what waits in
//! the bottleneck's queue arrives as well. So what is under way is about twice what the path holds,
//! and never more than twice what can arrive in the run, or what the first windows are.

use fullpipe_cc::{Algorithm, Duration, Rate};
use fullpipe_path::{
    ElementConfig, JitterConfig, MTU_BYTES, PathConfig, QueueConfig, QueueLimit, RateConfig,
    Selection, Series,
};
use fullpipe_scenario::units::show_bytes;
use fullpipe_scenario::{FileError, Run, Scenario, Wrong, locate};
use fullpipe_sim::{FlowConfig, ReceiveWindow, Route};
use fullpipe_traffic::Application;

use super::Plan;
use crate::metrics::moments;
use crate::observe::{MAX_OWN_DISTRIBUTIONS, SeriesRow, rows_within};

/// A packet under way, at both ends and on the path, and its ACK. Runs of 10 Gbit/s and 200 ms
/// needed 380.
const PACKET_BYTES: f64 = 600.0;

/// A flow with its controller.
const FLOW_BYTES: f64 = 8000.0;

/// Both directions of a sender's own link.
const ACCESS_BYTES: f64 = 3000.0;

/// A link of a route: in the list of routes, once more while they are made, and in the simulator.
const HOP_BYTES: f64 = 24.0;

/// A write of an application that was not sent.
const WRITE_BYTES: f64 = 50.0;

/// Padding of a probe for bandwidth is written so often.
const MAX_PADDING_PER_SEC: f64 = 200.0;

/// One queue of fq_codel.
const QUEUE_BYTES: f64 = 160.0;

/// A histogram of times, three digits each.
const HISTOGRAM_BYTES: f64 = 300e3;

/// The queueing delays of a link in a graph of many: those of a millisecond have eleven powers of
/// two, 8 kB each.
const LINK_BYTES: f64 = 90e3;

/// The figures of a run, a flow or a link.
const FIGURES_BYTES: f64 = 5000.0;

/// Ratio of the largest windows to the capacity of the path.
const OVERSHOOT: f64 = 2.0;

/// The initial window where none is said.
const INITIAL_WINDOW: f64 = 15e3;

/// Memory needed for one purpose, the field that asks for it, and the reason in words.
struct Part {
    bytes: f64,
    field: String,
    why: String,
}

fn part(bytes: f64, field: impl Into<String>, why: impl Into<String>) -> Part {
    Part { bytes, field: field.into(), why: why.into() }
}

impl Plan {
    /// Number of runs that fit in so much memory at the same time: `jobs`, or fewer. `rows` is the
    /// number of rows in a flow's series if the scenario does not set it.
    ///
    /// # Errors
    /// Not even one fits: the field that asks for most of it, what it makes, and how much that is.
    pub fn jobs_within(
        &self,
        most: u64,
        jobs: usize,
        rows: Option<u64>,
        file: &str,
    ) -> Result<usize, FileError> {
        let mut largest: Option<Part> = None;
        let mut kept = 0.0;
        for scenario in self.grid.runs.iter().map(Run::scenario) {
            let series = series(scenario, rows);
            kept += series.bytes + FIGURES_BYTES * (1 + scenario.flows.len()) as f64;
            let parts = parts(scenario, moments(&self.probes, scenario).len());
            let needs: f64 = parts.iter().map(|p| p.bytes).sum();
            let cause = parts.into_iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
            let whole = cause.map(|cause| Part { bytes: needs, ..cause });
            largest =
                [largest, whole].into_iter().flatten().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
            if kept > most as f64 {
                largest = Some(Part { bytes: kept, ..series });
                break;
            }
        }
        let Some(largest) = largest else { return Ok(jobs) };
        let fit = (most as f64 - kept) / largest.bytes;
        if fit >= 1.0 && largest.bytes + kept <= most as f64 {
            return Ok(jobs.min(fit as usize));
        }
        let why = format!(
            "{}, and the run would need about {} of memory, more than the {} that it may have; write \
             something smaller, or a larger --max-memory",
            largest.why,
            in_short(largest.bytes),
            show_bytes(most)
        );
        Err(locate(&self.text, file, &Wrong::new(largest.field, why)))
    }
}

/// An amount in two digits: more are not known of an estimate.
fn in_short(bytes: f64) -> String {
    let units = [(1e24, "YB"), (1e21, "ZB"), (1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB")];
    let found = units.into_iter().find(|(scale, _)| bytes >= *scale);
    let (scale, unit) = found.unwrap_or((1e6, "MB"));
    match bytes / scale {
        x if x >= 1000.0 => "more than 1000YB".to_owned(),
        x if x >= 10.0 => format!("{x:.0}{unit}"),
        x => format!("{x:.1}{unit}"),
    }
}

/// A count in words.
fn count(n: f64) -> String {
    match n {
        n if n >= 1e15 => format!("{n:.0e}"),
        n if n >= 1e9 => format!("{:.0} thousand million", n / 1e9),
        n if n >= 1e6 => format!("{:.0} million", n / 1e6),
        n => format!("{n:.0}"),
    }
}

fn seconds(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e9
}

fn bytes_per_sec(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64
}

fn series(scenario: &Scenario, rows: Option<u64>) -> Part {
    let flows = scenario.flows.len() as f64;
    let n = match (scenario.interval, scenario.duration, rows) {
        (Some(interval), Some(duration), _) => seconds(duration) / seconds(interval),
        // Up to four times as many where the end is not known.
        (None, end, Some(rows)) => {
            let rows = rows_within(rows, scenario.flows.len()) as f64;
            if end.is_some() { rows } else { 4.0 * rows }
        }
        _ => 0.0,
    };
    let bytes = 2.0 * n * flows * size_of::<SeriesRow>() as f64;
    part(bytes, "interval", format!("each run makes {} rows", count(n * flows)))
}

/// Effect of a link's row of elements on the packets under way.
struct Hold {
    /// The least rate of its limits; infinite without one.
    rate: f64,
    /// Capacity of their queues.
    buffer: f64,
    /// The longest that its delays keep a packet.
    delay: f64,
    /// Number of packets that one packet becomes.
    copies: f64,
    /// Memory that is there without any packet.
    own: Vec<(f64, String)>,
}

impl Hold {
    fn of(path: &PathConfig) -> Self {
        let mut hold =
            Self { rate: f64::INFINITY, buffer: 0.0, delay: 0.0, copies: 1.0, own: Vec::new() };
        for element in &path.row {
            match element {
                ElementConfig::Bottleneck { rate, queue } => hold.bottleneck(rate, queue),
                ElementConfig::Shaper { rate, bucket_bytes, queue } => {
                    hold.rate = hold.rate.min(bytes_per_sec(*rate));
                    hold.buffer += bytes_of(*queue) + *bucket_bytes as f64;
                }
                ElementConfig::Policer { rate, bucket_bytes, .. } => {
                    hold.rate = hold.rate.min(bytes_per_sec(*rate));
                    hold.buffer += *bucket_bytes as f64;
                }
                ElementConfig::Duplication(p) => hold.copies *= 1.0 + p.as_f64(),
                ElementConfig::Delay(d) => hold.delay += seconds(*d),
                ElementConfig::Jitter(jitter) => hold.delay += seconds(jitter.most()),
                ElementConfig::DelaySteps(steps) => {
                    hold.delay += steps.iter().map(|(_, d)| seconds(*d)).fold(0.0, f64::max);
                }
                ElementConfig::DelaySeries(series) => hold.delays(series),
                ElementConfig::JitterSeries(series) => hold.delays(&series.map(JitterConfig::most)),
                ElementConfig::Reordering { packets, delay } => {
                    let any = !matches!(packets, Selection::Random(p) if p.as_f64() == 0.0);
                    hold.delay += if any { seconds(*delay) } else { 0.0 };
                }
                ElementConfig::Aggregation { interval, .. } => hold.delay += seconds(*interval),
                _ => {}
            }
        }
        hold
    }

    fn delays(&mut self, series: &Series<Duration>) {
        self.own.push((16.0 * series.steps().len() as f64, "the trace is long".to_owned()));
        self.delay += series.steps().iter().map(|(_, d)| seconds(*d)).fold(0.0, f64::max);
    }

    fn bottleneck(&mut self, rate: &RateConfig, queue: &QueueConfig) {
        let fastest = match rate {
            RateConfig::Constant(rate) => bytes_per_sec(*rate),
            RateConfig::Steps(steps) => {
                steps.iter().map(|(_, rate)| bytes_per_sec(*rate)).fold(0.0, f64::max)
            }
            RateConfig::Series(series) => {
                self.own.push((16.0 * series.steps().len() as f64, "the trace is long".to_owned()));
                series.steps().iter().map(|(_, rate)| bytes_per_sec(*rate)).fold(0.0, f64::max)
            }
            RateConfig::Trace(times) => {
                // One that all share, and in real time one that is later by the lead.
                self.own.push((16.0 * times.len() as f64, "the trace is long".to_owned()));
                f64::from(MTU_BYTES) / seconds(rate.packet_time())
            }
            _ => f64::INFINITY,
        };
        self.rate = self.rate.min(fastest);
        if let QueueConfig::FqCoDel(c) = queue {
            let why = format!("fq_codel has {} queues", count(f64::from(c.queues)));
            self.own.push((QUEUE_BYTES * f64::from(c.queues), why));
        }
        self.buffer += match queue.limit() {
            QueueLimit::Time(time) => fastest * seconds(time),
            limit => bytes_of(limit),
        };
    }
}

fn bytes_of(limit: QueueLimit) -> f64 {
    match limit {
        QueueLimit::Bytes(n) => n as f64,
        QueueLimit::Packets(n) => n as f64 * f64::from(MTU_BYTES),
        // Only a bottleneck's, which has a rate.
        QueueLimit::Time(_) => 0.0,
    }
}

/// Memory that one run needs.
fn parts(scenario: &Scenario, moments: usize) -> Vec<Part> {
    let config = &scenario.config;
    let mut links: Vec<Hold> = config.links.iter().map(Hold::of).collect();
    let up = Hold::of(&config.uplink);
    let end = scenario.duration.map_or(f64::INFINITY, seconds);
    let rtt = links.iter().map(|l| l.delay).sum::<f64>() + up.delay;
    let (last_link, is_chain) = (links.len() - 1, links.len() > 1);
    let name = |i: usize| match i {
        i if i > last_link => "path.up".to_owned(),
        i if is_chain => format!("link[{i}]"),
        _ => "path".to_owned(),
    };
    let mut parts = Vec::new();
    for (i, link) in links.iter().enumerate() {
        for (bytes, why) in &link.own {
            let field = if why.contains("trace") { "trace" } else { "queue" };
            parts.push(part(*bytes, format!("{}.{field}", name(i)), why));
        }
    }
    // Every copy is under way by itself, and so is the ACK that it causes.
    let copies = links.iter().map(|l| l.copies).product::<f64>() * up.copies;
    let copies_field =
        if up.copies > links.iter().map(|l| l.copies).product() { "up" } else { "down" };
    // The way up is one more link, of the flows that go up.
    links.push(up);
    // A flow is slowed down by the slowest of its links; those that share one share what it holds.
    let mut held = vec![0.0_f64; links.len()];
    let mut smallest = vec![f64::INFINITY; links.len()];
    let mut wanted = vec![0.0_f64; links.len()];
    // The longest delay of a receiver's host, and its flow.
    let mut hosts = vec![(0.0_f64, 0); links.len()];
    // Those that have links of their own, by the slowest link of their route.
    let mut access: Vec<Vec<OwnLink>> = (0..links.len()).map(|_| Vec::new()).collect();
    for (i, flow) in config.flows.iter().enumerate() {
        let route = config.route(flow);
        let of_flow = route.there.iter().copied();
        let slowest = of_flow.min_by(|a, b| links[*a].rate.total_cmp(&links[*b].rate)).unwrap_or(0);
        let link = &links[slowest];
        // What waits in the receiver's host is under way as well.
        let rtt = rtt_of(&links, &route, rtt) + seconds(flow.extra_rtt);
        let own = flow.access.map_or(0.0, |access| 2.0 * seconds(access.delay));
        let rtt = rtt + own + seconds(flow.receiver_delay);
        let packet = f64::from(flow.cc.smss.max(1));
        let host = (seconds(flow.receiver_delay), i);
        if host.0 > hosts[slowest].0 {
            hosts[slowest] = host;
        }
        held[slowest] = held[slowest].max(OVERSHOOT * (link.rate * rtt + link.buffer));
        smallest[slowest] = smallest[slowest].min(packet);
        wanted[slowest] += OVERSHOOT * most_of(flow);
        parts.extend(of_flow_alone(flow, i, link, rtt, end, copies));
        access[slowest].extend(OwnLink::of(flow, i, rtt, end));
    }
    for (own, link) in access.into_iter().zip(&links) {
        parts.extend(of_own_links(own, link, copies));
    }
    parts.push(part(HOP_BYTES * hops(scenario), "flow", "routes are long and change often"));
    for (i, (held, packet)) in held.iter().zip(&smallest).enumerate() {
        let arrives = OVERSHOOT * links[i].rate * end;
        let packets = held.min(arrives).min(wanted[i]) / packet * copies;
        if packets.is_nan() || *held == 0.0 {
            continue;
        }
        let (field, why) = match copies {
            copies if copies > 100.0 => {
                let why = format!("every packet becomes {}", self::count(copies));
                (format!("path.{copies_field}"), why)
            }
            _ if links[i].rate * hosts[i].0 > links[i].buffer + links[i].rate * rtt => {
                let why = format!("some {} packets are in its host", count(packets));
                (format!("flow[{}].receiver_delay", hosts[i].1), why)
            }
            _ if links[i].rate * rtt > links[i].buffer => {
                let why = format!("some {} packets are under way", count(packets));
                (format!("{}.rate", name(i)), why)
            }
            _ => (format!("{}.buffer", name(i)), format!("some {} packets wait", count(packets))),
        };
        parts.push(part(packets * PACKET_BYTES, field, why));
    }
    for (i, cross) in config.cross.iter().enumerate() {
        let route = config.cross_route(cross);
        let waits = route.there.iter().map(|i| links[*i].buffer / links[*i].rate).sum::<f64>();
        let there = (rtt_of(&links, &route, rtt) + waits).min(end);
        let packets = bytes_per_sec(cross.traffic.rate) * there
            / f64::from(cross.traffic.packet_bytes.max(1))
            * copies;
        let why = format!("some {} packets of cross traffic are under way", count(packets));
        parts.push(part(packets * PACKET_BYTES / 2.0, format!("cross[{i}].rate"), why));
    }
    // Those of the start and of the end are there besides.
    let marks = (moments + 3) as f64;
    let completing = config.flows.iter().filter(|f| {
        matches!(
            f.application,
            Application::RequestResponse { .. }
                | Application::ShortFlows { .. }
                | Application::Media(_)
        )
    });
    // Round trips and latency are known of each flow, of many flows of all together.
    let own = match config.flows.len() {
        n if n <= MAX_OWN_DISTRIBUTIONS => n,
        _ => 1,
    };
    let histograms = marks * (2 * own + last_link + 1 + completing.count()) as f64;
    // Of a link in a graph only short queueing delays are counted.
    let in_graph = if config.routes.is_empty() { 0.0 } else { marks * last_link as f64 };
    let bytes = (histograms - in_graph) * HISTOGRAM_BYTES + in_graph * LINK_BYTES;
    let why = format!("{} distributions are kept", count(histograms));
    let field = if marks > 20.0 { "expect" } else { "flow" };
    parts.push(part(bytes, field, why));
    parts
}

/// The round trip of a route, and at most that of all links one behind the other.
fn rtt_of(links: &[Hold], route: &Route, all: f64) -> f64 {
    let passed = route.there.iter().chain(&route.back);
    passed.map(|i| links[*i].delay).sum::<f64>().min(all)
}

/// The links of all routes, as often as flows have them.
fn hops(scenario: &Scenario) -> f64 {
    let config = &scenario.config;
    let length = |route: &Route| (route.there.len() + route.back.len()) as f64;
    let of_flows = config.flows.iter().filter_map(|flow| flow.route);
    let used = of_flows.chain(config.reroutes.iter().map(|change| change.route));
    used.map(|route| length(&config.routes[route])).sum()
}

/// A flow's own link.
struct OwnLink {
    flow: usize,
    rate: f64,
    /// Packets that the flow has under way where this link slows it down.
    packets: f64,
}

impl OwnLink {
    fn of(flow: &FlowConfig, i: usize, rtt: f64, end: f64) -> Option<Self> {
        let Hold { rate, buffer, .. } = Hold::of(&flow.access?.link());
        let held = match rate {
            rate if rate.is_finite() => (rate * rtt + buffer).min(rate * end).min(most_of(flow)),
            _ => 0.0,
        };
        Some(Self { flow: i, rate, packets: OVERSHOOT * held / f64::from(flow.cc.smss.max(1)) })
    }
}

/// Memory for the own links of flows that meet in `link`. It is what slows flows down as soon as
/// their own links let more through in all: the slowest of them count, as far as it has room.
fn of_own_links(mut own: Vec<OwnLink>, link: &Hold, copies: f64) -> Option<Part> {
    own.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let mut through = 0.0;
    let slow = own.iter().take_while(|one| {
        let has_room = through < link.rate;
        through += one.rate;
        has_room
    });
    let packets = slow.map(|one| one.packets).sum::<f64>() * copies;
    let most = own.iter().max_by(|a, b| a.packets.total_cmp(&b.packets))?.flow;
    let bytes = ACCESS_BYTES * own.len() as f64 + PACKET_BYTES * packets;
    let why = format!("some {} packets are on their way over links of their own", count(packets));
    Some(part(bytes, format!("flow[{most}].access"), why))
}

/// The most that a flow has under way, whatever its algorithm does.
fn most_of(flow: &FlowConfig) -> f64 {
    let volume = match flow.application {
        Application::Bytes(n) => n as f64,
        _ => f64::INFINITY,
    };
    let window = match flow.receive_window {
        ReceiveWindow::Unlimited => f64::INFINITY,
        ReceiveWindow::Fixed(n) | ReceiveWindow::Auto { max: n, .. } => n as f64,
    };
    volume.min(window).min(flow.send_buffer.map_or(f64::INFINITY, |n| n as f64))
}

/// Memory that a flow needs for itself alone.
fn of_flow_alone(
    flow: &FlowConfig,
    i: usize,
    link: &Hold,
    rtt: f64,
    end: f64,
    copies: f64,
) -> Vec<Part> {
    let packet = f64::from(flow.cc.smss.max(1));
    let end = flow.stop.map_or(end, |stop| end.min(seconds(stop)));
    let mut parts = vec![part(FLOW_BYTES, "flow", "there are many flows")];
    let most = most_of(flow);
    let field = |name: &str| format!("flow[{i}].{name}");
    let first = flow.cc.initial_cwnd.map_or(INITIAL_WINDOW, |n| n as f64).min(most);
    let packets = OVERSHOOT * first / packet * copies;
    let why = format!("the first window is {} packets", count(packets));
    parts.push(part(packets * PACKET_BYTES, field("initial_cwnd"), why));
    if let Algorithm::Fixed(rate) = flow.algorithm {
        // Until it knows that they are lost.
        let there = (OVERSHOOT * (rtt + link.buffer / link.rate)).min(end);
        let packets = (bytes_per_sec(rate) * there).min(most) / packet * copies;
        let why = format!("some {} packets are under way", count(packets));
        parts.push(part(packets * PACKET_BYTES, field("cc"), why));
    }
    match flow.application {
        Application::RateLimited { rate, write_bytes } => {
            let rate = bytes_per_sec(rate);
            // Behind a queue or an outage writes wait too.
            let waits = if rate < 0.5 * link.rate { 10.0 * rtt + 10.0 } else { f64::INFINITY };
            let writes = rate * waits.min(end) / write_bytes.max(1) as f64;
            let why = format!("{} writes wait to be sent", count(writes));
            parts.push(part(writes * WRITE_BYTES, field("app"), why));
        }
        Application::Media(media) => {
            let waits = (seconds(media.playout) + 10.0 * rtt + 10.0).min(end);
            // Twice, for the frame and its write; and padding.
            let frames = 2.0 * (f64::from(media.fps) + MAX_PADDING_PER_SEC) * waits;
            let why = format!("{} frames wait to arrive", count(frames));
            parts.push(part(frames * WRITE_BYTES, field("app"), why));
        }
        Application::ShortFlows { bytes, mean_interval } => {
            let (bytes, every) = (bytes as f64, seconds(mean_interval));
            let lasts =
                if bytes / every < 0.5 * link.rate { 20.0 * rtt + 1.0 } else { f64::INFINITY };
            let open = lasts.min(end) / every;
            let each = FLOW_BYTES + PACKET_BYTES * first.min(bytes) / packet;
            let why = format!("{} connections are open", count(open));
            parts.push(part(open * each, field("app"), why));
        }
        _ => {}
    }
    parts
}
