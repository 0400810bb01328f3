//! A scenario's network as one path there and one back, and what the ends have to know of it.

use std::iter;
use std::sync::Arc;

use fullpipe_cc::{Duration, Rate};
#[cfg(target_os = "linux")]
use fullpipe_emu::netem::NetemConfig;
use fullpipe_path::{CrossSource, CrossTraffic, ElementConfig, LossConfig, PathConfig, RateConfig};
use fullpipe_scenario::{Run, Scenario};
use fullpipe_sim::Route;
use fullpipe_traffic::{Direction, Stream, stream_seed};

use super::capacity;

/// A path both ways. Its times count from the first request.
#[derive(Clone, Debug)]
pub struct RealPath {
    /// The way of the data: all links of a chain, one behind the other.
    downlink: PathConfig,
    uplink: PathConfig,
    /// Flows that share the way of the data, and the seed of each.
    cross: Vec<(CrossTraffic, u64)>,
    /// The two ways of a flow after each change of its route: it has one pair of ways at a time.
    later: Vec<[PathConfig; 2]>,
    /// The longest way back of a flow beyond the uplink.
    extra_rtt: Duration,
    /// The same for netem, where netem can be it.
    #[cfg(target_os = "linux")]
    pub(super) netem: Option<NetemConfig>,
}

/// The handshake's computation on a busy machine.
const HANDSHAKE_TIME: Duration = Duration::from_millis(300);
/// Its round trips, with one for a packet that is lost and sent again.
const HANDSHAKE_RTTS: u64 = 5;
/// Its packets, both ways.
const HANDSHAKE_BYTES: u64 = 20_000;

/// However deep a buffer is, nobody waits longer for what is behind it.
const LONGEST_DRAIN: Duration = Duration::from_secs(60);

impl RealPath {
    /// The path of a run.
    pub fn of_run(run: &Run) -> Self {
        Self::of(run.scenario())
    }

    pub(crate) fn of(scenario: &Scenario) -> Self {
        let links = &scenario.config.links;
        let seed = |i: usize| stream_seed(scenario.seed, Stream::Cross, i as u64);
        let cross = scenario.config.cross.iter().enumerate();
        let extra_rtt = scenario.config.flows.iter().map(|flow| flow.extra_rtt).max();
        let row = links.iter().flat_map(|link| link.row.clone()).collect();
        Self {
            downlink: PathConfig { row, seed: links.first().map_or(scenario.seed, |l| l.seed) },
            uplink: scenario.config.uplink.clone(),
            cross: cross.map(|(i, c)| (c.traffic, seed(i))).collect(),
            later: Vec::new(),
            extra_rtt: extra_rtt.unwrap_or_default(),
            #[cfg(target_os = "linux")]
            netem: super::netem_config(scenario).ok(),
        }
    }

    /// That of a flow with a route or a link of its own: the route that it begins with, and those
    /// that it has later.
    pub(crate) fn of_flow(scenario: &Scenario, i: usize) -> Option<Self> {
        let config = &scenario.config;
        let flow = config.flows.get(i)?;
        if flow.route.is_none() && flow.access.is_none() {
            return None;
        }
        let own = flow.access.map(|access| access.link());
        let path = |links: &[usize]| {
            let links = links.iter().map(|i| config.link(*i)).chain(&own);
            PathConfig { row: links.flat_map(|l| l.row.clone()).collect(), seed: scenario.seed }
        };
        let ways = |route: &Route| match flow.direction {
            Direction::Down => [path(&route.there), path(&route.back)],
            Direction::Up => [path(&route.back), path(&route.there)],
        };
        let [downlink, uplink] = ways(&config.route(flow));
        let later = config.reroutes.iter().filter(|change| change.flow == i);
        Some(Self {
            downlink,
            uplink,
            cross: Vec::new(),
            later: later.map(|change| ways(&config.routes[change.route])).collect(),
            extra_rtt: flow.extra_rtt,
            #[cfg(target_os = "linux")]
            netem: None,
        })
    }

    /// The way of the data of a link that starts so long before the first request.
    pub fn downlink_after(&self, lead: Duration) -> PathConfig {
        later(&self.downlink, lead)
    }

    /// The way back of a link that starts so long before the first request.
    pub fn uplink_after(&self, lead: Duration) -> PathConfig {
        later(&self.uplink, lead)
    }

    /// The cross traffic of a link that starts so long before the first request.
    pub fn cross_after(&self, lead: Duration) -> Vec<CrossSource> {
        let later = |c: &CrossTraffic| CrossTraffic {
            start: c.start + lead,
            stop: c.stop.map(|stop| stop + lead),
            ..*c
        };
        self.cross.iter().map(|(traffic, seed)| CrossSource::new(later(traffic), *seed)).collect()
    }

    /// Downlink and uplink of each time.
    fn ways(&self) -> impl Iterator<Item = [&PathConfig; 2]> {
        iter::once([&self.downlink, &self.uplink]).chain(self.later.iter().map(<[_; 2]>::each_ref))
    }

    /// The rate of the slowest element of a direction; nothing without one.
    pub(crate) fn slowest(&self, direction: Direction) -> Option<Rate> {
        self.ways().filter_map(|way| capacity::slowest(way[direction as usize])).min()
    }

    /// The longest round trip without queues.
    pub fn rtt(&self) -> Duration {
        self.ways().map(|way| self.rtt_of(way)).max().unwrap_or_default()
    }

    fn rtt_of(&self, way: [&PathConfig; 2]) -> Duration {
        way.map(capacity::longest_delay).into_iter().fold(self.extra_rtt, |sum, delay| sum + delay)
    }

    /// The most bytes of data in this direction that are in flight and get there: what the path
    /// holds with full buffers, of the largest of its ways. 0 for a way without a rate.
    ///
    /// More than what an element lets by in a round trip, and what waits in the buffers of all, is
    /// not in flight. What is behind the element and out of the queues left it in the time of the
    /// rest of the way; what comes to it in the time of the way to it has to leave it in that time,
    /// or to fit its queue. So the element that lets by least is what bounds the flow, however fast
    /// the others are. An element whose rate changes counts with the most that it ever lets by in a
    /// round trip: its highest rate, the best stretch of a trace, or its bucket at once. The time
    /// that ACKs wait behind other flows is not in the round trip.
    pub(crate) fn holds(&self, direction: Direction) -> u64 {
        let held = self.ways().map(|way| {
            let data = way[direction as usize];
            capacity::let_by(data, self.rtt_of(way)).saturating_add(capacity::buffers(data))
        });
        held.max().unwrap_or(0)
    }

    /// Time to drain the full buffers of both directions.
    pub(crate) fn drain_time(&self) -> Duration {
        let time = |path: &PathConfig| {
            let drain = |rate: Rate| rate.time_for(capacity::buffers(path)).min(LONGEST_DRAIN);
            capacity::slowest(path).map_or(Duration::ZERO, drain)
        };
        self.ways().map(|[down, up]| time(down) + time(up)).max().unwrap_or_default()
    }

    /// Delay from the start of the link to the first request, for a path with changes at fixed
    /// times after the link's start: long enough for a handshake. Zero for a path without such
    /// times and without cross traffic, which has times as well.
    pub(crate) fn lead(&self) -> Duration {
        let has_times = [&self.downlink, &self.uplink].into_iter().flat_map(|p| &p.row).any(|e| {
            matches!(
                e,
                ElementConfig::Blackhole(_)
                    | ElementConfig::BlackholeSeries(_)
                    | ElementConfig::DelaySteps(_)
                    | ElementConfig::DelaySeries(_)
                    | ElementConfig::JitterSeries(_)
                    | ElementConfig::Loss(LossConfig::Series(_))
                    | ElementConfig::Bottleneck {
                        rate: RateConfig::Steps(_) | RateConfig::Trace(_) | RateConfig::Series(_),
                        ..
                    }
            )
        });
        if !has_times && self.cross.is_empty() {
            return Duration::ZERO;
        }
        let slowest = Direction::BOTH.into_iter().filter_map(|way| self.slowest(way)).min();
        let packets = slowest.map_or(Duration::ZERO, |rate| rate.time_for(HANDSHAKE_BYTES));
        HANDSHAKE_TIME + self.rtt().times(HANDSHAKE_RTTS) + packets
    }
}

/// The path with all its times later by `lead`.
fn later(path: &PathConfig, lead: Duration) -> PathConfig {
    let mut path = path.clone();
    for element in &mut path.row {
        match element {
            ElementConfig::Blackhole(outages) => {
                for (from, to) in outages {
                    (*from, *to) = (*from + lead, *to + lead);
                }
            }
            ElementConfig::DelaySteps(steps) => shift(steps, lead),
            ElementConfig::Bottleneck { rate: RateConfig::Steps(steps), .. } => shift(steps, lead),
            ElementConfig::Bottleneck { rate: RateConfig::Trace(times), .. } => {
                *times = rotated(times, lead);
            }
            ElementConfig::Bottleneck { rate: RateConfig::Series(series), .. } => {
                *series = series.clone().later(lead);
            }
            ElementConfig::DelaySeries(series) => *series = series.clone().later(lead),
            ElementConfig::JitterSeries(series) => *series = series.clone().later(lead),
            ElementConfig::BlackholeSeries(series) => *series = series.clone().later(lead),
            ElementConfig::Loss(LossConfig::Series(series)) => {
                *series = series.clone().later(lead);
            }
            _ => {}
        }
    }
    path
}

/// A trace begins again at its end: later by the lead is rotated by it.
fn rotated(times: &Arc<[Duration]>, lead: Duration) -> Arc<[Duration]> {
    let period = times.last().map_or(0, |t| t.as_nanos());
    // What is not moved is not copied: it may be large.
    if period == 0 || lead.as_nanos().is_multiple_of(period) {
        return times.clone();
    }
    let moved = |t: &Duration| {
        // The end of the period is the beginning of the next, and the last time has to stay there.
        let at = (t.as_nanos() + lead.as_nanos()) % period;
        Duration::from_nanos(if at == 0 { period } else { at })
    };
    let mut times: Vec<Duration> = times.iter().map(moved).collect();
    times.sort();
    // What was somewhere in the period has no opportunity at its end, which says how long it is.
    if times.last().is_none_or(|last| last.as_nanos() < period) {
        times.push(Duration::from_nanos(period));
    }
    times.into()
}

/// All but the first, which is what holds from the beginning.
fn shift<V>(steps: &mut [(Duration, V)], lead: Duration) {
    for (at, _) in steps.iter_mut().skip(1) {
        *at = *at + lead;
    }
}

#[cfg(test)]
mod tests {
    use fullpipe_cc::Instant;
    use fullpipe_path::{Ecn, Event, Header, Path, QueueLimit, Series};

    use super::*;
    use fullpipe_report::plan::Plan;
    use fullpipe_scenario::Edition;

    fn path(rate: RateConfig) -> RealPath {
        let queue = QueueLimit::Bytes(50_000).into();
        let half = ElementConfig::Delay(Duration::from_millis(20));
        let row = vec![ElementConfig::Bottleneck { rate, queue }, half.clone()];
        RealPath {
            downlink: PathConfig { row, seed: 1 },
            uplink: PathConfig { row: vec![half], seed: 2 },
            cross: Vec::new(),
            later: Vec::new(),
            extra_rtt: Duration::ZERO,
            #[cfg(target_os = "linux")]
            netem: None,
        }
    }

    fn mbit(n: u64) -> Rate {
        Rate::from_bits_per_sec(n * 1_000_000)
    }

    #[test]
    fn a_path_without_times_needs_no_lead() {
        let constant = path(mbit(10).into());
        assert_eq!((constant.lead(), constant.holds(Direction::Down)), (Duration::ZERO, 100_000));
        assert_eq!((constant.holds(Direction::Up), constant.slowest(Direction::Up)), (0, None));
        assert_eq!(constant.drain_time(), Duration::from_millis(40));
    }

    /// A flow has one route at a time: of the short one and the long one the long one is the larger.
    #[test]
    fn routes_are_not_one_behind_the_other() {
        let text = include_str!("../../../../../scenarios/topology/reroute.toml");
        let dir = std::path::Path::new("");
        let plan = Plan::parse(text, "x.toml", "x", dir, Edition::default()).expect("a plan");
        let scenario = plan.grid.runs[0].scenario();
        assert!(!scenario.config.reroutes.is_empty());
        let path = RealPath::of_flow(scenario, 0).expect("a route");
        assert_eq!(path.rtt(), Duration::from_millis(80));
        assert_eq!(path.slowest(Direction::Down), Some(mbit(10)));
        // 80 ms at 10 Mbit/s, and two buffers of 40 packets.
        assert_eq!(path.holds(Direction::Down), 100_000 + 120_000);
        assert_eq!(path.drain_time(), mbit(10).time_for(120_000).times(2));
    }

    /// A link in real time and the simulator draw the same delays, in the same order.
    #[test]
    fn the_jitter_of_a_link_in_real_time_is_that_of_the_simulator() {
        for jitter in [
            "\"2ms\"",
            "{ spread = \"2ms\", distribution = \"normal\" }",
            "{ spread = \"2ms\", distribution = \"pareto\", correlation = \"25%\" }",
        ] {
            let text = format!(
                "cc = \"bbr3\"\nduration = \"1s\"\nseed = 7\npath = {{ rate = \"10mbit\", rtt = \"40ms\", \
                 down = [{{ jitter = {jitter} }}], up = [{{ jitter = {jitter} }}] }}\n"
            );
            let dir = std::path::Path::new("");
            let plan = Plan::parse(&text, "x.toml", "x", dir, Edition::default()).expect("a plan");
            let scenario = plan.grid.runs[0].scenario();
            let [link] = scenario.config.links.as_slice() else { panic!("one link") };
            let real = RealPath::of(scenario);
            let lead = Duration::from_millis(700);
            assert_eq!(
                [real.downlink_after(lead), real.uplink_after(lead)].each_ref(),
                [link, &scenario.config.uplink]
            );
            let delays = |config: &PathConfig| {
                let mut path = Path::new(config).expect("a path");
                let sent = |n: u64| Instant::default() + Duration::from_millis(2 * n);
                for n in 0..500 {
                    path.send(sent(n), Header::from(1500), n).expect("room");
                }
                let mut delays = Vec::new();
                while let Some(event) = path.poll(sent(1000)) {
                    let Event::Delivered(packet) = event else { continue };
                    delays.push(packet.at.since(sent(packet.payload)));
                }
                delays
            };
            let of_link = delays(&real.downlink_after(lead));
            assert_eq!(of_link, delays(link));
            assert!(of_link.len() == 500 && of_link.iter().max() > of_link.iter().min());
        }
    }

    #[test]
    fn a_trace_is_rotated_and_keeps_its_period() {
        let ms = Duration::from_millis;
        let trace = path(RateConfig::Trace([ms(10), ms(40), ms(100)].into()));
        // Three packets in 100 ms.
        assert_eq!(trace.slowest(Direction::Down), Some(Rate::from_bits_per_sec(360_000)));
        assert!(trace.lead() > Duration::ZERO);
        let times: Arc<[Duration]> = [ms(10), ms(40), ms(100)].into();
        let times = rotated(&times, ms(270));
        assert_eq!(*times, [ms(10), ms(70), ms(80), ms(100)]);
        let times = rotated(&times, ms(30));
        assert_eq!(*times, [ms(10), ms(30), ms(40), ms(100)]);
        assert!(Arc::ptr_eq(&times, &rotated(&times, ms(200))));
    }

    #[test]
    fn steps_come_later_by_the_lead_and_the_first_stays() {
        let at = Duration::from_secs;
        let steps = vec![(at(0), mbit(10)), (at(20), mbit(20)), (at(40), mbit(10))];
        let path = path(RateConfig::Steps(steps));
        assert_eq!(path.holds(Direction::Down), 150_000, "of the fastest");
        let lead = path.lead();
        assert!(lead > at(0) && lead < at(1), "{lead}");
        let ElementConfig::Bottleneck { rate: RateConfig::Steps(steps), .. } =
            &later(&path.downlink, lead).row[0]
        else {
            panic!("no steps")
        };
        let times: Vec<Duration> = steps.iter().map(|s| s.0).collect();
        assert_eq!(times, [at(0), at(20) + lead, at(40) + lead]);
    }

    /// Listed once or in rounds, an outage at 0 begins with the first request. A handshake passes.
    #[test]
    fn an_outage_at_the_beginning_is_not_there_during_the_lead() {
        let ms = Duration::from_millis;
        let rounds = Series::new([(ms(0), true), (ms(30), false)], Some(ms(100)));
        for outage in [
            ElementConfig::Blackhole(vec![(ms(0), ms(30)), (ms(100), ms(130))]),
            ElementConfig::BlackholeSeries(rounds.expect("a series")),
        ] {
            let mut path = path(mbit(10).into());
            path.downlink.row = vec![outage];
            let lead = path.lead();
            assert!(lead > Duration::ZERO);
            let mut link = Path::new(&path.downlink_after(lead)).expect("a path");
            let header = Header { flow: 0, wire_bytes: 1500, ecn: Ecn::NotEct };
            let mut passes = |t: Duration| link.send(Instant::default() + t, header, ()).is_ok();
            assert!(passes(Duration::ZERO) && passes(lead - ms(1)), "the handshake");
            let after = [0, 29, 30, 99, 100, 129, 130].map(|t| passes(lead + ms(t)));
            assert_eq!(after, [false, false, true, true, false, false, true]);
        }
    }
}
