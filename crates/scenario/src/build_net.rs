//! The network of a scenario: its links, the way back, and what quantities in BDP refer to.

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{
    ConfigError, ElementConfig, LossConfig, MTU_BYTES, PathConfig, Probability, QueueLimit,
    RateConfig, Series,
};
use fullpipe_sim::Access;
use fullpipe_traffic::{Stream, stream_seed};

use super::elements::{Element, Frame, Wire, validate};
use super::error::Wrong;
use super::input::Traces;
use super::nodes::{Cable, Nodes, times};
use super::quantity::{Chance, Room};
use super::routes::longest;
use super::schema::{AccessTable, Document, LinkTable, PathTable};
use crate::units::{Buffer, show_duration};

/// The queue of a sender's own link when nothing else is said: a network interface's.
const ACCESS_PACKETS: u64 = 1000;

/// The links, and what quantities in BDP refer to.
pub(super) struct Net {
    pub(super) links: Vec<PathConfig>,
    pub(super) uplink: PathConfig,
    /// The graph, if the file has nodes.
    pub(super) nodes: Option<Nodes>,
    rate: Option<Rate>,
    pub(super) rtt: Duration,
}

impl Net {
    pub(super) fn of(doc: &Document, traces: &Traces) -> Result<Self, Wrong> {
        if let Some((nodes, cables)) = Nodes::of(doc)? {
            return Self::graph(doc, nodes, &cables, traces);
        }
        match (&doc.path, doc.link.as_slice()) {
            (None, []) => Err(Wrong::new(
                "",
                "no path; write path = { rate = \"100mbit\", rtt = \"40ms\" }, or [[link]] tables",
            )),
            (Some(path), []) => Self::one(path, doc.seed(), traces),
            (None, links) => Self::chain(links, Duration::ZERO, &[], doc.seed(), traces),
            (Some(path), links) => {
                if let Some(field) = path.field_of_a_link() {
                    let why = "describes a link, and there are [[link]] tables too; beside those \
                               write only rtt and up here";
                    return Err(Wrong::new(format!("path.{field}"), why));
                }
                let rtt = path.rtt.map_or(Duration::ZERO, |t| t.0);
                Self::chain(links, rtt, &path.up, doc.seed(), traces)
            }
        }
    }

    fn one(path: &PathTable, seed: u64, traces: &Traces) -> Result<Self, Wrong> {
        let wire = Wire {
            rate: path.rate,
            steps: path.steps.clone(),
            trace: path.trace.clone(),
            buffer: path.buffer,
            queue: path.queue,
        };
        let over_time = OverTime::of(&wire, "path", path.loss, traces)?;
        if over_time.rtt.is_some() && path.rtt.is_some() {
            let why = "the trace has round-trip times too; leave rtt out, or name the trace's other columns: \
                       { file = \"…\", columns = { time = \"…\", rate = \"…\" } }";
            return Err(Wrong::new("path.rtt", why));
        }
        let mean = over_time.rtt.as_ref().map(Series::mean_time).or(path.rtt.map(|t| t.0));
        if mean.is_none() && !path.down.iter().any(Element::is_delay) {
            let why = "no rtt; write rtt = \"40ms\" (\"0ms\" for none)";
            return Err(Wrong::new("path", why));
        }
        let frame = Frame { rtt: mean.unwrap_or(Duration::ZERO), traces };
        let [half, rest] = Distance::halves(over_time.rtt.as_ref(), frame.rtt);
        let row = row(&path.down, path.loss, &wire, &over_time, &half, "path", frame)?;
        let links = vec![PathConfig { row, seed: stream_seed(seed, Stream::Link, 0) }];
        let uplink = uplink(&path.up, &rest, seed, frame)?;
        let rate = wire.nominal(traces);
        Ok(Self { links, uplink, nodes: None, rate, rtt: frame.rtt })
    }

    fn chain(
        tables: &[LinkTable],
        rtt: Duration,
        up: &[Element],
        seed: u64,
        traces: &Traces,
    ) -> Result<Self, Wrong> {
        let delay_of = |l: &LinkTable| l.delay.map_or(Duration::ZERO, |t| t.0);
        let there = tables.iter().fold(Duration::ZERO, |sum, link| sum + delay_of(link));
        let rtt = if rtt == Duration::ZERO { there.times(2) } else { rtt };
        if rtt < there {
            let why = format!("shorter than the links' delays of {}", show_duration(there));
            return Err(Wrong::new("path.rtt", why));
        }
        let frame = Frame { rtt, traces };
        let mut links = Vec::with_capacity(tables.len());
        let mut first_rate = None;
        for (i, link) in tables.iter().enumerate() {
            let (row, rate) = link_row(link, &format!("link[{i}]"), frame)?;
            first_rate = first_rate.or(rate);
            links.push(PathConfig { row, seed: stream_seed(seed, Stream::Link, i as u64) });
        }
        let uplink = uplink(up, &Distance::Fixed(rtt - there), seed, frame)?;
        Ok(Self { links, uplink, nodes: None, rate: first_rate, rtt })
    }

    /// The links between nodes. Nothing has another way back than over them.
    fn graph(
        doc: &Document,
        nodes: Nodes,
        cables: &[Cable<'_>],
        traces: &Traces,
    ) -> Result<Self, Wrong> {
        let rtt = doc.network.as_ref().and_then(|network| network.rtt).map(|t| t.0);
        let rtt = rtt.map_or_else(|| longest(doc, &nodes), Ok)?;
        let frame = Frame { rtt, traces };
        let mut links: Vec<PathConfig> = Vec::with_capacity(cables.len());
        let mut first_rate = None;
        for (i, Cable { table, field }) in cables.iter().enumerate() {
            let seed = stream_seed(doc.seed(), Stream::Link, i as u64);
            // Neighbours are often of one table.
            let same = i.checked_sub(1).filter(|i| std::ptr::eq(cables[*i].table, *table));
            let row = match same {
                Some(i) => links[i].row.clone(),
                None => {
                    let (row, rate) = link_row(table, field, frame)?;
                    first_rate = first_rate.or(rate);
                    row
                }
            };
            links.push(PathConfig { row, seed });
        }
        let uplink = PathConfig { row: Vec::new(), seed: 0 };
        Ok(Self { links, uplink, nodes: Some(nodes), rate: first_rate, rtt })
    }

    /// A sender's own link.
    pub(super) fn access(&self, table: &AccessTable, field: &str) -> Result<Access, Wrong> {
        let delay = table.delay.map_or(Duration::ZERO, |t| t.0);
        let rate = table.rate.map(|rate| rate.0);
        if rate.is_none() && delay == Duration::ZERO {
            return Err(Wrong::new(field, "neither rate nor delay; write one of them"));
        }
        let queue = match (table.buffer, rate) {
            (Some(_), None) => {
                let why = "nothing waits without a rate; write one, or leave it out";
                return Err(Wrong::new(format!("{field}.buffer"), why));
            }
            (Some(buffer), Some(rate)) => buffer.0.limit_on(rate, self.rtt),
            (None, _) => QueueLimit::Packets(ACCESS_PACKETS),
        };
        queue.validate().map_err(|e| Wrong::new(format!("{field}.buffer"), e))?;
        Ok(Access { rate, delay, queue })
    }

    /// A volume of a flow in bytes.
    pub(super) fn bytes(&self, room: Room, field: &str) -> Result<u64, Wrong> {
        let bytes = match room.0 {
            Buffer::Bytes(n) => Some(n),
            Buffer::Packets(n) => Some(n * u64::from(MTU_BYTES)),
            Buffer::Bdp(_) | Buffer::Time(_) => {
                self.rate.and_then(|rate| room.0.bytes_on(rate, self.rtt))
            }
        };
        let wrong = |why: &str| Wrong::new(field, format!("'{}' {why}; write 4MB", room.0));
        match bytes {
            None => Err(wrong("needs a path with a constant rate")),
            Some(0) => Err(wrong("is nothing")),
            Some(bytes) => Ok(bytes),
        }
    }
}

/// A link's elements, and its rate if it has one that stays.
fn link_row(
    link: &LinkTable,
    field: &str,
    frame: Frame<'_>,
) -> Result<(Vec<ElementConfig>, Option<Rate>), Wrong> {
    let wire = Wire {
        rate: link.rate,
        steps: link.steps.clone(),
        trace: link.trace.clone(),
        buffer: link.buffer,
        queue: link.queue,
    };
    let over_time = OverTime::of(&wire, field, link.loss, frame.traces)?;
    if over_time.rtt.is_some() {
        let why = "the trace has round-trip times, and a link of a chain has a delay; name the trace's other \
                   columns: { file = \"…\", columns = { time = \"…\", rate = \"…\" } }";
        return Err(Wrong::new(format!("{field}.trace"), why));
    }
    let delay = Distance::Fixed(link.delay.map_or(Duration::ZERO, |t| t.0));
    let mut row = row(&link.down, link.loss, &wire, &over_time, &delay, field, frame)?;
    let outages = times(link, field)?;
    if !outages.is_empty() {
        // What has left the queue and not come to the other end is on its way already.
        let place = row.len() - usize::from(delay.element().is_some());
        row.insert(place, ElementConfig::Blackhole(outages));
    }
    Ok((row, wire.nominal(frame.traces)))
}

/// True if nothing gets past it faster than at a rate.
fn is_limit(element: &ElementConfig) -> bool {
    matches!(
        element,
        ElementConfig::Bottleneck { .. }
            | ElementConfig::Shaper { .. }
            | ElementConfig::Policer { .. }
    )
}

/// The parts of a link's trace beside its rate.
struct OverTime {
    rtt: Option<Series<Duration>>,
    loss: Option<Series<Probability>>,
}

impl OverTime {
    fn of(wire: &Wire, field: &str, loss: Option<Chance>, traces: &Traces) -> Result<Self, Wrong> {
        if wire.trace.is_none() {
            return Ok(Self { rtt: None, loss: None });
        }
        let trace = wire.traced(field, traces)?;
        if trace.loss.is_some() && loss.is_some() {
            let why = "the trace has losses too; write one of them";
            return Err(Wrong::new(format!("{field}.loss"), why));
        }
        Ok(Self { rtt: trace.rtt.clone(), loss: trace.loss.clone() })
    }
}

/// The delay of one direction.
enum Distance {
    Fixed(Duration),
    OverTime(Series<Duration>),
}

impl Distance {
    /// The two directions of a round trip.
    fn halves(over_time: Option<&Series<Duration>>, rtt: Duration) -> [Self; 2] {
        let half = |rtt: Duration| Duration::from_nanos(rtt.as_nanos() / 2);
        match over_time {
            None => [Self::Fixed(half(rtt)), Self::Fixed(rtt - half(rtt))],
            Some(series) => [
                Self::OverTime(series.map(|rtt| half(*rtt))),
                Self::OverTime(series.map(|rtt| *rtt - half(*rtt))),
            ],
        }
    }

    fn element(&self) -> Option<ElementConfig> {
        match self {
            Self::Fixed(Duration::ZERO) => None,
            Self::Fixed(delay) => Some(ElementConfig::Delay(*delay)),
            Self::OverTime(series) => Some(ElementConfig::DelaySeries(series.clone())),
        }
    }
}

/// A link's elements: those of `down`, the random loss, the bottleneck, the delay.
fn row(
    down: &[Element],
    loss: Option<Chance>,
    wire: &Wire,
    over_time: &OverTime,
    delay: &Distance,
    field: &str,
    frame: Frame<'_>,
) -> Result<Vec<ElementConfig>, Wrong> {
    let mut row = Vec::with_capacity(down.len() + 4);
    for (i, element) in down.iter().enumerate() {
        row.push(checked(element.config(&format!("{field}.down[{i}]"), frame)?, field, Some(i))?);
    }
    if let Some(loss) = loss {
        row.push(ElementConfig::Loss(loss.0.into()));
    }
    if let Some(loss) = &over_time.loss {
        row.push(ElementConfig::Loss(LossConfig::Series(loss.clone())));
    }
    let is_bare = wire.buffer.is_none() && wire.queue.is_none() && wire.steps.is_empty();
    let own = wire.rate.is_some() || wire.nominal(frame.traces).is_some();
    if own || !is_bare || !row.iter().any(is_limit) {
        row.push(checked(wire.config(field, frame)?, field, None)?);
    }
    row.extend(delay.element());
    Ok(row)
}

fn uplink(
    up: &[Element],
    delay: &Distance,
    seed: u64,
    frame: Frame<'_>,
) -> Result<PathConfig, Wrong> {
    let mut row = Vec::with_capacity(up.len() + 1);
    for (i, element) in up.iter().enumerate() {
        let field = format!("path.up[{i}]");
        let element = element.config(&field, frame)?;
        validate(&element).map_err(|e| Wrong::new(field, e))?;
        row.push(element);
    }
    row.extend(delay.element());
    Ok(PathConfig { row, seed: stream_seed(seed, Stream::Uplink, 0) })
}

fn checked(
    element: ElementConfig,
    field: &str,
    down: Option<usize>,
) -> Result<ElementConfig, Wrong> {
    validate(&element).map_err(|error| {
        let place = match (down, error, &element) {
            (Some(i), _, _) => format!(".down[{i}]"),
            (_, ConfigError::QueueBelowOnePacket(_) | ConfigError::EmptyQueue, _) => {
                ".buffer".to_owned()
            }
            (_, ConfigError::Queue { .. }, _) => ".queue".to_owned(),
            // A trace that carries nothing is no trace.
            (
                _,
                _,
                ElementConfig::Bottleneck {
                    rate: RateConfig::Steps(_) | RateConfig::Series(_),
                    ..
                },
            ) => ".steps".to_owned(),
            _ => String::new(),
        };
        Wrong::new(format!("{field}{place}"), error)
    })?;
    Ok(element)
}
