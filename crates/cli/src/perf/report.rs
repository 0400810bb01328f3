//! The result of a measurement.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The result, as the sender has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Report {
    /// The sender's TCP, in words.
    pub(super) sender: String,
    /// Bytes that the receiving application has read.
    pub(super) bytes: u64,
    /// From the first write until the last byte was read.
    pub(super) seconds: f64,
    pub(super) goodput_mbps: f64,
    /// The shortest round trip from application to application, before the data.
    pub(super) idle_rtt_ms: f64,
    /// From the transport's taking of a block's first byte until it was read: the answer time less
    /// half of `idle_rtt_ms`.
    pub(super) latency_ms: Option<Percentiles>,
    /// Until the block's answer arrived.
    pub(super) answer_ms: Option<Percentiles>,
    pub(super) retransmitted_segments: u64,
    pub(super) intervals: Vec<Interval>,
    /// True if it was ended before its time.
    pub(super) interrupted: bool,
}

/// A distribution, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Percentiles {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// A part of a measurement.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Interval {
    pub(super) start_seconds: f64,
    pub(super) end_seconds: f64,
    pub(super) goodput_mbps: f64,
    /// The median of the latency; nothing was answered without one, and the receiver does not know
    /// it.
    pub(super) latency_p50_ms: Option<f64>,
}

impl Interval {
    /// The part from `start` to `end` in which so many bytes were read.
    pub(super) fn new(start: Duration, end: Duration, bytes: u64) -> Self {
        Self {
            start_seconds: start.as_secs_f64(),
            end_seconds: end.as_secs_f64(),
            goodput_mbps: mbps(bytes, end.saturating_sub(start)),
            latency_p50_ms: None,
        }
    }
}

/// Megabits per second; 0 for no time.
pub(super) fn mbps(bytes: u64, time: Duration) -> f64 {
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => bytes as f64 * 8.0 / 1e6 / seconds,
    }
}

impl Percentiles {
    /// Of nanoseconds, less `less`; `None` when nothing was measured.
    pub(super) fn of(nanos: &Histogram<u64>, less: Duration) -> Option<Self> {
        let ms = |nanos: u64| Duration::from_nanos(nanos).saturating_sub(less).as_secs_f64() * 1e3;
        let at = |quantile| ms(nanos.value_at_quantile(quantile));
        (!nanos.is_empty()).then(|| Self {
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: ms(nanos.max()),
        })
    }
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { start_seconds, end_seconds, goodput_mbps, latency_p50_ms } = self;
        write!(f, "{start_seconds:7.2} to {end_seconds:7.2} s  {goodput_mbps:9.1} Mbit/s")?;
        match latency_p50_ms {
            Some(ms) => write!(f, "  latency p50 {ms:.1} ms"),
            None => Ok(()),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "sender           {}", self.sender)?;
        writeln!(
            f,
            "goodput          {:.1} Mbit/s ({} bytes in {:.2} s)",
            self.goodput_mbps, self.bytes, self.seconds
        )?;
        writeln!(f, "retransmitted    {} segments", self.retransmitted_segments)?;
        write!(f, "idle round trip  {:.2} ms", self.idle_rtt_ms)?;
        for (name, times) in [("latency", self.latency_ms), ("answer", self.answer_ms)] {
            let Some(Percentiles { p50, p95, p99, max }) = times else { continue };
            write!(
                f,
                "\n{name:<15}  p50 {p50:.1} ms, p95 {p95:.1} ms, p99 {p99:.1} ms, max {max:.1} ms"
            )?;
        }
        Ok(())
    }
}
