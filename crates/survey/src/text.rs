//! A drawn path as the text of a scenario file, which the lab reads like any other.

use std::ops::Range;

use fullpipe_path::{Distribution, JitterConfig};
use fullpipe_scenario::Protocol;
use fullpipe_scenario::document::{
    App, Chance, CoDel, CrossTable, DelayStep, Direction, Document, EcnMode, Element, FlowTable,
    JitterField, Length, Outage, PathTable, Queue, RateLimited, RateStep, RequestResponse, Room,
    Share, Size, Spacing, Speed, SpeedOrNone, Time, Wire,
};
use fullpipe_scenario::units::Buffer;

use crate::case::{Case, Disturbance, Ecn, HANDOVER_EVERY_S, Kind, Shape, visits};
use crate::chance::digits;

/// A queue has room for so many packets at least.
const LEAST_PACKETS: f64 = 4.0;

/// A queue discipline needs some room for its signals.
const LEAST_MANAGED_PACKETS: f64 = 40.0;

/// Moments of a run at which windows are read.
const ROWS: f64 = 100.0;

/// Frames of a media flow in a second.
const FRAMES_PER_S: f64 = 30.0;

/// Senders of the flows under test.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Senders {
    /// Names of algorithms as a scenario file has them, or `program:NAME`. `NAME#2` is NAME once
    /// more, with other seeds.
    pub names: Vec<String>,
    /// Programs: name, and the table of its commands.
    pub programs: Vec<(String, toml::Value)>,
}

impl Senders {
    /// Those with the names given, in that order.
    pub fn only(&self, names: &[&str]) -> Self {
        let is_named = |(name, _): &&(String, toml::Value)| {
            names.iter().any(|n| algorithm(n).strip_prefix("program:") == Some(name))
        };
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            programs: self.programs.iter().filter(is_named).cloned().collect(),
        }
    }
}

/// Names in which each that was there before has a number, as `bbr3#2`.
pub fn numbered(names: &[String]) -> Vec<String> {
    let number = |i: usize| names[..=i].iter().filter(|name| **name == names[i]).count();
    let each = names.iter().enumerate();
    each.map(|(i, name)| match number(i) {
        1 => name.clone(),
        n => format!("{name}#{n}"),
    })
    .collect()
}

/// The algorithm of a name that may have a number.
pub fn algorithm(name: &str) -> &str {
    name.split_once('#').map_or(name, |(algorithm, _)| algorithm)
}

/// Number of a name, from 1.
fn number_of(name: &str) -> usize {
    let number = name.split_once('#').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(1).max(1)
}

/// True if a name has a number: the algorithm is there once more.
pub(crate) fn is_again(name: &str) -> bool {
    number_of(name) > 1
}

impl Senders {
    /// The algorithms, each once.
    fn algorithms(&self) -> Vec<&str> {
        let mut all = Vec::new();
        for name in self.names.iter().map(|name| algorithm(name)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }

    /// Number of seeds of a scenario in which each sender has so many of its own.
    fn seeds(&self, each: usize) -> usize {
        each * self.names.iter().map(|name| number_of(name)).max().unwrap_or(1)
    }

    /// The runs of a sender in a scenario's plan.
    pub(crate) fn runs_of(&self, name: &str, seeds: usize) -> Range<usize> {
        let place = self.algorithms().iter().position(|known| *known == algorithm(name));
        let first = place.unwrap_or(0) * self.seeds(seeds) + (number_of(name) - 1) * seeds;
        first..first + seeds
    }
}

/// The scenario's text: a run for each algorithm and each of its seeds. The lines of `about` stand
/// at its top as comments.
pub fn scenario(
    case: &Case,
    senders: &Senders,
    seeds: usize,
    about: &[String],
    expect: &[String],
) -> String {
    let document = Document {
        name: Some(format!("survey path {}", case.path)),
        duration: Some(Length(Some(secs(case.duration_s() as f64).0))),
        interval: Some(secs(case.duration_s() as f64 / ROWS)),
        path: Some(path(case)),
        flow: flows(case),
        cross: case.disturbances.iter().filter_map(|d| cross(case, d)).collect(),
        ..Document::default()
    };
    // Each of its values can be a value of TOML.
    let mut file = toml::Table::try_from(document).unwrap_or_default();
    let seeds = (0..senders.seeds(seeds) as u64).map(|i| case.seed.wrapping_add(i) as i64);
    file.insert("cc".to_owned(), list(senders.algorithms()));
    file.insert("seed".to_owned(), list(seeds));
    file.insert("expect".to_owned(), expect.to_vec().into());
    let programs: toml::Table = senders.programs.iter().cloned().collect();
    if !programs.is_empty() {
        file.insert("program".to_owned(), programs.into());
    }
    let comments: String = about.iter().map(|line| format!("# {line}\n")).collect();
    comments + &toml::to_string_pretty(&file).unwrap_or_default()
}

/// One value is no axis of a grid.
fn list<T: Into<toml::Value>>(values: impl IntoIterator<Item = T>) -> toml::Value {
    let mut all: Vec<toml::Value> = values.into_iter().map(Into::into).collect();
    if all.len() == 1 { all.remove(0) } else { all.into() }
}

/// A rate with three digits.
fn mbit(mbps: f64) -> Speed {
    Speed::of_mbps(digits(mbps, 3))
}

fn secs(s: f64) -> Time {
    Time::of_ms(1e3 * s)
}

fn percent(percent: f64) -> Share {
    Share(Chance::of_percent(percent).0)
}

/// Bytes that a rate carries in a time.
fn bytes_in(mbps: f64, ms: f64) -> f64 {
    mbps * 1e6 / 8.0 * ms / 1e3
}

/// A volume of so many kB, with three digits.
fn kb(bytes: f64) -> u64 {
    (digits(bytes / 1e3, 3) * 1e3).round() as u64
}

/// A buffer in bytes, in packets where it is small.
fn room(case: &Case, bytes: f64, least_packets: f64) -> Room {
    Room(match bytes / case.packet_bytes() {
        packets if packets < 100.0 => Buffer::Packets(packets.round().max(least_packets) as u64),
        _ => Buffer::Bytes(kb(bytes)),
    })
}

/// The room of an end, which counts bytes.
fn room_of_end(case: &Case, bdp: f64) -> Room {
    let (bytes, least) = (bdp * case.bdp_bytes(), LEAST_PACKETS * case.packet_bytes());
    Room(match bytes < least || case.has(Kind::Trace) {
        true => Buffer::Bytes(bytes.max(least).round() as u64),
        false => Buffer::Bdp(bdp),
    })
}

fn path(case: &Case) -> PathTable {
    let least = if case.has(Kind::Aqm) { LEAST_MANAGED_PACKETS } else { LEAST_PACKETS };
    let bytes = case.buffer_bdp * case.bdp_bytes();
    let mut path = PathTable {
        rtt: Some(Time::of_ms(case.rtt_ms)),
        buffer: Some(match bytes < least * case.packet_bytes() || case.has(Kind::Trace) {
            true => room(case, bytes, least),
            false => Room(Buffer::Bdp(case.buffer_bdp)),
        }),
        ..PathTable::default()
    };
    match case.disturbance(Kind::Trace) {
        Some(Disturbance::Trace { name }) => path.trace = Some((*name).into()),
        _ => path.rate = Some(mbit(case.rate_mbps)),
    }
    for disturbance in &case.disturbances {
        disturb(case, disturbance, &mut path);
    }
    path
}

/// Adds a disturbance to the path: fields of its own, or elements.
fn disturb(case: &Case, disturbance: &Disturbance, path: &mut PathTable) {
    let at = |percent: f64| secs(digits(case.duration_s() as f64 * percent / 100.0, 4));
    let part = |percent: f64| case.nominal_mbps() * percent / 100.0;
    let bucket = |percent: f64, ms: f64| {
        Size(kb(bytes_in(part(percent), ms).max(4.0 * case.packet_bytes())))
    };
    match disturbance {
        Disturbance::Jitter { jitter_ms, shape } => {
            let distribution = match shape {
                Shape::Uniform => Distribution::Uniform,
                Shape::Pareto => Distribution::Pareto,
                Shape::Wifi => Distribution::Wifi,
            };
            let spread = JitterConfig::from(Time::of_ms(*jitter_ms).0);
            path.down.push(Element::Jitter(JitterField(JitterConfig { distribution, ..spread })));
        }
        Disturbance::Reordering { chance_percent, delay_ms } => {
            path.down.push(Element::Reordering {
                chance: Some(percent(*chance_percent)),
                every: None,
                delay: Time::of_ms(*delay_ms),
            });
        }
        Disturbance::AckBursts { interval_ms, keep_one_in } => {
            path.up.push(Element::Aggregation {
                interval: Time::of_ms(*interval_ms),
                burst: None,
                keep_one_in: Some(*keep_one_in as u32).filter(|n| *n > 1),
            });
        }
        Disturbance::AckLoss { loss_percent } => {
            path.up.push(Element::Loss(Chance::of_percent(*loss_percent)));
        }
        Disturbance::TwoWay { rate_mbps, buffer_ms, .. } => {
            path.up.push(Element::Bottleneck(Box::new(Wire {
                rate: Some(mbit(*rate_mbps)),
                buffer: Some(room(case, bytes_in(*rate_mbps, *buffer_ms), LEAST_PACKETS)),
                ..Wire::default()
            })));
        }
        Disturbance::RttStep { before_ms, after_ms, at_percent, back_percent } => {
            let step = |at, ms: f64| DelayStep { at, delay: Time::of_ms(ms) };
            let mut steps = vec![step(secs(0.0), *before_ms), step(at(*at_percent), *after_ms)];
            steps.extend(back_percent.map(|back| step(at(back), *before_ms)));
            path.down.push(Element::DelaySteps(steps.into()));
        }
        Disturbance::RateStep { steps } => {
            let steps = steps.iter().map(|s| {
                let rate = SpeedOrNone(mbit(case.rate_mbps * s.factor).0);
                RateStep { at: at(s.at_percent), rate }
            });
            path.steps = steps.collect::<Vec<_>>().into();
        }
        Disturbance::Policer { rate_percent, bucket_ms } => path.down.push(Element::Policer {
            rate: mbit(part(*rate_percent)),
            bucket: bucket(*rate_percent, *bucket_ms),
            tokens: None,
        }),
        Disturbance::Shaper { rate_percent, bucket_ms, buffer_bdp } => {
            let bytes = buffer_bdp * case.bdp_bytes() * rate_percent / 100.0;
            path.down.push(Element::Shaper {
                rate: mbit(part(*rate_percent)),
                bucket: bucket(*rate_percent, *bucket_ms),
                buffer: room(case, bytes, LEAST_PACKETS),
            });
        }
        Disturbance::RandomLoss { loss_percent } => {
            path.loss = Some(Chance::of_percent(*loss_percent));
        }
        Disturbance::LossBursts { every_ms, lasts_ms } => {
            path.down.push(outages(case, *every_ms, *lasts_ms));
        }
        Disturbance::Handovers { more_ms, lasts_ms } => {
            let changes = (0..).map(|i| f64::from(i) * HANDOVER_EVERY_S);
            let changes = changes.take_while(|at| *at < case.duration_s() as f64);
            let steps = changes.zip(more_ms.iter().cycle());
            let steps = steps.map(|(at, ms)| DelayStep { at: secs(at), delay: Time::of_ms(*ms) });
            path.down.push(Element::DelaySteps(steps.collect::<Vec<_>>().into()));
            if *lasts_ms > 0.0 {
                path.down.push(outages(case, 1e3 * HANDOVER_EVERY_S, *lasts_ms));
            }
        }
        Disturbance::Aqm { queue, ecn } => {
            let least = LEAST_MANAGED_PACKETS * case.packet_bytes();
            let bytes = (case.buffer_bdp * case.bdp_bytes()).max(least);
            path.queue = Some(discipline(queue, Some(*ecn != Ecn::Off), bytes));
        }
        Disturbance::LateHost { .. }
        | Disturbance::Trace { .. }
        | Disturbance::Cross { .. }
        | Disturbance::ManyFlows { .. }
        | Disturbance::Requests { .. }
        | Disturbance::Media { .. }
        | Disturbance::RttMix { .. }
        | Disturbance::Competitor { .. }
        | Disturbance::ReceiveWindow { .. }
        | Disturbance::SendBuffer { .. }
        | Disturbance::PacketSize { .. } => {}
    }
}

/// Times in which all is lost, until the end.
fn outages(case: &Case, every_ms: f64, lasts_ms: f64) -> Element {
    let outages = (1..).map(|i| f64::from(i) * every_ms);
    let outages = outages.take_while(|from| *from < 1e3 * case.duration_s() as f64);
    let time = |ms: f64| Time::of_ms(digits(ms, 6));
    let outages = outages.map(|ms| Outage { from: time(ms), to: time(ms + lasts_ms) });
    Element::Blackhole(outages.collect::<Vec<_>>().into())
}

/// A queue discipline by its name, in a buffer of so many bytes.
fn discipline(name: &str, ecn: Option<bool>, bytes: f64) -> Queue {
    match name {
        "codel" => Queue::CoDel(CoDel { ecn, ..CoDel::default() }),
        "fq_codel" => Queue::FqCoDel {
            queues: None,
            quantum: None,
            target: None,
            interval: None,
            ecn,
            ce_threshold: None,
        },
        "pie" => Queue::Pie { target: None, update: None, max_burst: None, ecn },
        "dualpi2" => {
            Queue::DualPi2 { target: None, rtt_max: None, ramp_from: None, ramp_range: None }
        }
        "step" => Queue::Step { mark_above: Room(Buffer::Bytes(kb(bytes / 6.0))) },
        _ => Queue::Red {
            min: Room(Buffer::Bytes(kb(bytes / 6.0))),
            max: Room(Buffer::Bytes(kb(bytes / 2.0))),
            max_probability: None,
            weight: None,
            ecn,
        },
    }
}

/// The flows under test, and after them those that are there for them: these are in no figure of a
/// run.
fn flows(case: &Case) -> Vec<FlowTable> {
    let mss = case.disturbances.iter().find_map(|d| match d {
        Disturbance::PacketSize { mss } => u32::try_from(*mss).ok(),
        _ => None,
    });
    let transport = case.tcp.then_some(Protocol::Tcp);
    let usual = FlowTable { transport, mss, ..FlowTable::default() };
    let mut tested = usual.clone();
    let mut stagger_ms = case.stagger_ms;
    for disturbance in &case.disturbances {
        match disturbance {
            Disturbance::ReceiveWindow { window_bdp } => {
                tested.receive_window = Some(room_of_end(case, *window_bdp));
            }
            Disturbance::SendBuffer { buffer_bdp } => {
                tested.send_buffer = Some(room_of_end(case, *buffer_bdp));
            }
            Disturbance::LateHost { late_ms } => tested.jitter = Some(Time::of_ms(*late_ms)),
            Disturbance::Aqm { ecn: Ecn::Classic, .. } => tested.ecn = EcnMode::Classic,
            Disturbance::Aqm { ecn: Ecn::L4s, .. } => tested.ecn = EcnMode::L4s,
            Disturbance::ManyFlows { stagger_ms: many, .. } => stagger_ms = *many,
            _ => {}
        }
    }
    let named =
        |name: &str, of: &FlowTable| FlowTable { name: Some(name.to_owned()), ..of.clone() };
    let near = match case.near_flows() {
        0 => None,
        1 => Some(named("bulk", &tested)),
        n => Some(FlowTable {
            count: Some(n),
            every: Some(Time::of_ms(stagger_ms)),
            ..named("bulk", &tested)
        }),
    };
    let others = case.disturbances.iter().filter_map(|disturbance| {
        Some(match disturbance {
            Disturbance::RttMix { extra_ms, flows } => FlowTable {
                count: Some(*flows),
                extra_rtt: Some(Time::of_ms(*extra_ms)),
                ..named("far", &tested)
            },
            Disturbance::Requests { response_kb, think_ms, .. } => FlowTable {
                in_fairness: Some(false),
                app: Some(App::RequestResponse(RequestResponse {
                    response: Size((response_kb * 1e3).round() as u64),
                    think: Time::of_ms(*think_ms),
                })),
                ..named("requests", &tested)
            },
            Disturbance::Media { rate_percent, .. } => {
                let mbps = digits(case.narrowest_mbps() * rate_percent / 100.0, 3);
                let bytes = (mbps * 1e6 / 8.0 / FRAMES_PER_S).round();
                FlowTable {
                    in_fairness: Some(false),
                    app: Some(App::RateLimited(RateLimited {
                        rate: mbit(mbps),
                        write: Some(Size(bytes as u64)),
                    })),
                    ..named("media", &tested)
                }
            }
            Disturbance::TwoWay { flows, cc, .. } => FlowTable {
                cc: cc.parse().ok(),
                count: Some(*flows),
                direction: Direction::Up,
                background: true,
                ..named("upload", &usual)
            },
            _ => return None,
        })
    });
    let competitors = case.disturbances.iter().flat_map(|disturbance| match disturbance {
        Disturbance::Competitor { cc, flows, start_percent, visits: times } => {
            let at = |percent: f64| secs(digits(case.duration_s() as f64 * percent / 100.0, 4));
            let each =
                visits(*start_percent, *times).zip(1..).map(|((from, to), number)| FlowTable {
                    cc: cc.parse().ok(),
                    count: Some(*flows),
                    start: Some(at(from)),
                    stop: (number < *times).then(|| at(to)),
                    background: true,
                    ..named("competitor", &usual)
                });
            each.collect()
        }
        _ => Vec::new(),
    });
    near.into_iter().chain(others).chain(competitors).collect()
}

/// The traffic that reacts to nothing, if a disturbance is that.
fn cross(case: &Case, disturbance: &Disturbance) -> Option<CrossTable> {
    let Disturbance::Cross { rate_percent, poisson } = disturbance else { return None };
    Some(CrossTable {
        rate: mbit(case.narrowest_mbps() * rate_percent / 100.0),
        packet: None,
        arrivals: if *poisson { Spacing::Poisson } else { Spacing::Constant },
        start: None,
        stop: None,
        route: None,
        from: None,
        to: None,
    })
}
