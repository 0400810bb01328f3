//! The values of a run, and the comparison of two.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::case::{Case, Kind};

/// Figures of one run, over the time that is judged. Null where there is none.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Values {
    /// Of all flows under test.
    pub goodput_mbps: Option<f64>,
    /// Queueing delay of all packets.
    #[serde(rename = "queue_ms.p50")]
    pub queue_ms_p50: Option<f64>,
    #[serde(rename = "queue_ms.p95")]
    #[allow(missing_docs)]
    pub queue_ms_p95: Option<f64>,
    /// Of the flows under test.
    pub retransmit_rate: Option<f64>,
    /// Of bulk flows under test, where there are several.
    pub jain: Option<f64>,
    /// Of the flows of another algorithm beside them.
    pub competitor_goodput_mbps: Option<f64>,
    /// Of frames, from writing to reading.
    #[serde(rename = "latency_ms.p99")]
    pub latency_ms_p99: Option<f64>,
    /// Of answers, from the request to the last byte.
    #[serde(rename = "completion_ms.p99")]
    pub completion_ms_p99: Option<f64>,
    /// Largest congestion window of a flow.
    #[serde(rename = "cwnd_bytes.max")]
    pub cwnd_bytes_max: Option<f64>,
}

impl Values {
    /// The metrics that a path's runs have, as expectations that ask for them: the values of a run
    /// come in this order.
    pub fn expectations(case: &Case) -> Vec<String> {
        let from_s = case.judged_from_s();
        let asked = asked(case).into_iter();
        asked.map(|(term, _)| format!("{term} >= 0 after {from_s}s")).collect()
    }

    /// The values that a run brought for the expectations.
    pub fn of(case: &Case, probes: &[Option<f64>]) -> Self {
        let mut values = Self::default();
        for ((_, place), value) in asked(case).into_iter().zip(probes) {
            *place(&mut values) = *value;
        }
        values
    }

    /// Means of several runs. A figure that one of them does not have, has none.
    pub fn mean(runs: &[Self]) -> Self {
        let mut mean = Self::default();
        for place in PLACES {
            let each: Option<Vec<f64>> = runs.iter().map(|run| *place(&mut run.clone())).collect();
            *place(&mut mean) = each
                .map(|all| all.iter().sum::<f64>() / all.len() as f64)
                .filter(|x| x.is_finite());
        }
        mean
    }

    /// The part of the goodput of all that the flows under test have beside others.
    pub fn share(&self) -> Option<f64> {
        let (own, other) = (self.goodput_mbps?, self.competitor_goodput_mbps?);
        (own + other > 0.0).then(|| own / (own + other))
    }
}

/// The place of a value.
type ValueField = fn(&mut Values) -> &mut Option<f64>;

/// The places of all.
const PLACES: [ValueField; 9] = [
    |v| &mut v.goodput_mbps,
    |v| &mut v.queue_ms_p50,
    |v| &mut v.queue_ms_p95,
    |v| &mut v.retransmit_rate,
    |v| &mut v.jain,
    |v| &mut v.competitor_goodput_mbps,
    |v| &mut v.latency_ms_p99,
    |v| &mut v.completion_ms_p99,
    |v| &mut v.cwnd_bytes_max,
];

/// A metric's term in an expectation, and the place of its value.
type Asked = (&'static str, ValueField);

fn asked(case: &Case) -> Vec<Asked> {
    let mut all: Vec<Asked> = vec![
        ("goodput_mbps", PLACES[0]),
        ("queue_ms.p50", PLACES[1]),
        ("queue_ms.p95", PLACES[2]),
        ("retransmit_rate", PLACES[3]),
        ("cwnd_bytes.max", PLACES[8]),
    ];
    if case.bulk_flows() > 1 {
        all.push(("jain", PLACES[4]));
    }
    if case.has(Kind::Competitor) {
        all.push(("flow[competitor].goodput_mbps", PLACES[5]));
    }
    if case.has(Kind::Media) {
        all.push(("flow[media].latency_ms.p99", PLACES[6]));
    }
    if case.has(Kind::Requests) {
        all.push(("flow[requests].completion_ms.p99", PLACES[7]));
    }
    all
}

/// A measure in which two algorithms are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Measure {
    /// Goodput.
    Goodput,
    /// 95th percentile of the queueing delay.
    Queue,
    /// 99th percentile of the time until a frame or an answer is there.
    Latency,
    /// Jain's index of the bulk flows.
    Jain,
    /// Retransmitted bytes over sent ones.
    Retransmissions,
    /// Share beside flows of another algorithm.
    Share,
    /// Largest window. An algorithm's is compared with its own of before alone.
    Window,
}

/// Times that differ by less than this are alike.
pub(crate) const ALIKE_MS: f64 = 2.0;

/// Factor by which a time may exceed the reference's.
pub(crate) const TIME_FACTOR: f64 = 1.25;

/// Jain's index and a share may be so much less than the reference's.
pub(crate) const LESS: f64 = 0.1;

/// A window may be so many times as large.
pub(crate) const WINDOW_FACTOR: f64 = 4.0;

/// Retransmissions may be so much more.
pub(crate) const MORE_RETRANSMISSIONS: f64 = 0.005;

impl Measure {
    /// All of them, those between two algorithms first.
    pub const ALL: [Self; 7] = [
        Self::Goodput,
        Self::Queue,
        Self::Latency,
        Self::Jain,
        Self::Retransmissions,
        Self::Share,
        Self::Window,
    ];

    /// Its name in tables and names of files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Queue => "queue",
            Self::Latency => "latency",
            Self::Jain => "jain",
            Self::Retransmissions => "retr",
            Self::Share => "share",
            Self::Window => "window",
        }
    }

    /// The metric of its values, with their unit.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Goodput => "goodput_mbps",
            Self::Queue => "queue_ms.p95",
            Self::Latency => "latency_ms.p99",
            Self::Jain => "jain",
            Self::Retransmissions => "retransmit_rate",
            Self::Share => "share",
            Self::Window => "cwnd_bytes.max",
        }
    }

    /// Kind of its figure: one value over the other, or their difference.
    pub const fn figure_is(self) -> &'static str {
        match self {
            Self::Goodput | Self::Queue | Self::Latency | Self::Window => "ratio",
            Self::Jain | Self::Retransmissions | Self::Share => "difference",
        }
    }

    /// The value of a run; nothing where it has none.
    pub fn value(self, values: &Values) -> Option<f64> {
        match self {
            Self::Goodput => values.goodput_mbps,
            Self::Queue => values.queue_ms_p95,
            Self::Latency => values.latency_ms_p99.or(values.completion_ms_p99),
            Self::Jain => values.jain,
            Self::Retransmissions => values.retransmit_rate,
            Self::Share => values.share(),
            Self::Window => values.cwnd_bytes_max,
        }
    }

    /// One run against another on the same path. Times are compared as if both were 2 ms more, so
    /// that a packet of queue is no multiple of none.
    pub fn figure(self, own: f64, reference: f64) -> f64 {
        match self {
            Self::Goodput | Self::Window if reference > 0.0 => own / reference,
            Self::Goodput | Self::Window => 1.0,
            Self::Queue | Self::Latency => (own + ALIKE_MS) / (reference + ALIKE_MS),
            Self::Jain | Self::Share | Self::Retransmissions => own - reference,
        }
    }

    /// True if a run falls short of the reference. `limit` is that of goodput, as a ratio.
    pub fn falls_short(self, own: f64, reference: f64, limit: f64) -> bool {
        match self {
            Self::Goodput => own < limit * reference,
            Self::Queue | Self::Latency => own > TIME_FACTOR * reference + ALIKE_MS,
            Self::Jain | Self::Share => own < reference - LESS,
            Self::Retransmissions => own > reference + MORE_RETRANSMISSIONS,
            Self::Window => own > WINDOW_FACTOR * reference,
        }
    }

    /// The same in words, behind the measure's name.
    pub fn rule(self, limit: f64) -> String {
        match self {
            Self::Goodput => format!("is below {limit} x that of the other"),
            Self::Queue => format!("p95 is above {TIME_FACTOR} x + {ALIKE_MS} ms"),
            Self::Latency => {
                format!("p99 of frames or answers is above {TIME_FACTOR} x + {ALIKE_MS} ms")
            }
            Self::Jain => format!("Jain's index is lower by more than {LESS}"),
            Self::Retransmissions => {
                let points = 100.0 * MORE_RETRANSMISSIONS;
                format!("retransmissions are higher by more than {points} percentage points")
            }
            Self::Share => format!("beside a competitor is lower by more than {LESS}"),
            Self::Window => format!("is above {WINDOW_FACTOR} x that of before"),
        }
    }

    /// The distance from equal at which a run falls short. `limit` is that of goodput, as a ratio.
    pub(crate) fn short_from(self, limit: f64) -> f64 {
        match self {
            Self::Goodput => 1.0 - limit,
            Self::Queue | Self::Latency => TIME_FACTOR - 1.0,
            Self::Jain | Self::Share => LESS,
            Self::Retransmissions => MORE_RETRANSMISSIONS,
            Self::Window => WINDOW_FACTOR - 1.0,
        }
    }

    /// Distance of a figure from that of equals: above 0 if it is worse.
    pub fn shortfall(self, figure: f64) -> f64 {
        match self {
            Self::Goodput => 1.0 - figure,
            Self::Queue | Self::Latency | Self::Window => figure - 1.0,
            Self::Jain | Self::Share => -figure,
            Self::Retransmissions => figure,
        }
    }

    /// A figure for people. That of retransmissions is in percentage points.
    pub fn show(self, figure: Option<f64>) -> String {
        match (self, figure) {
            (_, None) => "none".to_owned(),
            (Self::Retransmissions, Some(figure)) => format!("{:.2}", 100.0 * figure),
            (Self::Queue | Self::Latency | Self::Window, Some(figure)) if figure >= 10.0 => {
                format!("{figure:.1}")
            }
            (_, Some(figure)) => format!("{figure:.3}"),
        }
    }

    /// Unit of what [`Self::show`] prints.
    pub const fn shown_in(self) -> &'static str {
        match self {
            Self::Goodput | Self::Queue | Self::Latency | Self::Window => "ratio",
            Self::Jain | Self::Share => "diff",
            Self::Retransmissions => "points",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Measure {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.metric())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_worse_by_so_much_is_short() {
        let is_short = [
            (Measure::Goodput, 9.4, 10.0, true, 0.94),
            (Measure::Goodput, 9.6, 10.0, false, 0.96),
            (Measure::Goodput, 0.0, 0.0, false, 1.0),
            (Measure::Queue, 15.0, 10.0, true, 17.0 / 12.0),
            (Measure::Queue, 14.0, 10.0, false, 16.0 / 12.0),
            (Measure::Queue, 1.9, 0.0, false, 1.95),
            (Measure::Latency, 200.0, 100.0, true, 202.0 / 102.0),
            (Measure::Jain, 0.8, 0.95, true, 0.8 - 0.95),
            (Measure::Jain, 0.9, 0.95, false, 0.9 - 0.95),
            (Measure::Retransmissions, 0.02, 0.01, true, 0.02 - 0.01),
            (Measure::Retransmissions, 0.014, 0.01, false, 0.014 - 0.01),
            (Measure::Share, 0.3, 0.5, true, 0.3 - 0.5),
            (Measure::Window, 5e5, 1e5, true, 5.0),
            (Measure::Window, 3e5, 1e5, false, 3.0),
        ];
        for (measure, own, reference, short, figure) in is_short {
            assert_eq!(measure.falls_short(own, reference, 0.95), short, "{measure} {own}");
            assert!((measure.figure(own, reference) - figure).abs() < 1e-9, "{measure} {own}");
            assert!(!short || measure.shortfall(figure) > 0.0, "{measure} {own}");
        }
    }
}
