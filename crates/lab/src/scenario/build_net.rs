//! The network of a scenario: its links, the way back, and what quantities in BDP refer to.

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{
    ConfigError, ElementConfig, LossConfig, MTU_BYTES, PathConfig, Probability, RateConfig, Series,
};
use fullpipe_sim::Route;
use fullpipe_traffic::{Stream, stream_seed};

use super::elements::{Element, Frame, Wire, validate};
use super::error::Wrong;
use super::input::Traces;
use super::quantity::{Chance, Room};
use super::schema::{Document, LinkTable, PathTable};
use crate::units::{Buffer, show_duration};

/// The links, and what quantities in BDP refer to.
pub(super) struct Net {
    pub(super) links: Vec<PathConfig>,
    pub(super) uplink: PathConfig,
    rate: Option<Rate>,
    pub(super) rtt: Duration,
}

impl Net {
    pub(super) fn of(doc: &Document, traces: &Traces) -> Result<Self, Wrong> {
        match (&doc.path, doc.link.as_slice()) {
            (None, []) => Err(Wrong::new(
                "",
                "no path; write path = { rate = \"100mbit\", rtt = \"40ms\" }, or [[link]] tables",
            )),
            (Some(path), []) => Self::one(path, doc.seed, traces),
            (None, links) => Self::chain(links, Duration::ZERO, &[], doc.seed, traces),
            (Some(path), links) => {
                if let Some(field) = path.field_of_a_link() {
                    let why = "describes a link, and there are [[link]] tables too; beside those \
                               write only rtt and up here";
                    return Err(Wrong::new(format!("path.{field}"), why));
                }
                let rtt = path.rtt.map_or(Duration::ZERO, |t| t.0);
                Self::chain(links, rtt, &path.up, doc.seed, traces)
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
        Ok(Self { links, uplink, rate: wire.nominal(traces), rtt: frame.rtt })
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
            let wire = Wire {
                rate: link.rate,
                steps: link.steps.clone(),
                trace: link.trace.clone(),
                buffer: link.buffer,
                queue: link.queue,
            };
            let field = format!("link[{i}]");
            let over_time = OverTime::of(&wire, &field, link.loss, traces)?;
            if over_time.rtt.is_some() {
                let why = "the trace has round-trip times, and a link of a chain has a delay; name the trace's other \
                           columns: { file = \"…\", columns = { time = \"…\", rate = \"…\" } }";
                return Err(Wrong::new(format!("{field}.trace"), why));
            }
            let delay = Distance::Fixed(delay_of(link));
            let row = row(&link.down, link.loss, &wire, &over_time, &delay, &field, frame)?;
            first_rate = first_rate.or(wire.nominal(traces));
            links.push(PathConfig { row, seed: stream_seed(seed, Stream::Link, i as u64) });
        }
        let uplink = uplink(up, &Distance::Fixed(rtt - there), seed, frame)?;
        Ok(Self { links, uplink, rate: first_rate, rtt })
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

    pub(super) fn route(&self, text: Option<&String>, field: &str) -> Result<Option<Route>, Wrong> {
        let Some(text) = text else { return Ok(None) };
        let n = self.links.len();
        let numbers = text.split_once('-').unwrap_or((text, text));
        match (numbers.0.trim().parse(), numbers.1.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last && last < n => Ok(Some(Route { first, last })),
            _ => {
                let why = match n {
                    1 => "there is one link; leave it out".to_owned(),
                    n => format!("links count from 0 to {}; write \"0-{}\" or \"1\"", n - 1, n - 1),
                };
                let text = text.escape_debug();
                Err(Wrong::new(format!("{field}.route"), format!("'{text}' is no route: {why}")))
            }
        }
    }
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
