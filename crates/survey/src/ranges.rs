//! The ranges that numbers of a path are drawn from, and their words in the documentation.

use std::fmt;

use crate::chance::Chance;

/// A number from `least` to `most`, which may depend on another number of the path as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    least: f64,
    most: f64,
    unit: &'static str,
    is_even: bool,
    /// At least and at most so many times another number, and what that is called.
    times: Option<(f64, f64, &'static str)>,
}

/// Spread by the logarithm: between 1 and 10 as often as between 10 and 100.
const fn spread(least: f64, most: f64, unit: &'static str) -> Range {
    Range { least, most, unit, is_even: false, times: None }
}

/// Everywhere as often.
const fn even(least: f64, most: f64, unit: &'static str) -> Range {
    Range { least, most, unit, is_even: true, times: None }
}

impl Range {
    const fn times(self, least: f64, most: f64, of: &'static str) -> Self {
        Self { times: Some((least, most, of)), ..self }
    }

    /// The factors by which a number stays in a range of its own.
    pub(crate) fn within(self, range: Self, number: f64) -> Self {
        let (least, most) = (range.least / number, range.most / number);
        Self { least: self.least.max(least), most: self.most.min(most), ..self }
    }

    /// A number of this range.
    pub(crate) fn draw(&self, chance: &mut Chance) -> f64 {
        self.draw_of(chance, 1.0)
    }

    /// A number of this range where the other number has a value.
    pub(crate) fn draw_of(&self, chance: &mut Chance, other: f64) -> f64 {
        let (mut least, mut most) = (self.least, self.most);
        if let Some((from, to, _)) = self.times {
            least = least.max(from * other);
            most = most.min(to * other);
        }
        if self.is_even { chance.even(least, most) } else { chance.spread(least, most) }
    }
}

/// A range is by the logarithm where it does not say that it is even.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit;
        match (self.least, self.most) {
            (least, most) if most.is_infinite() => write!(f, "at least {least}{unit}")?,
            (0.0, most) => write!(f, "up to {most}{unit}")?,
            (least, most) => write!(f, "{least} to {most}{unit}")?,
        }
        match self.times {
            Some((0.0, to, of)) => write!(f, ", at most {to} x {of}")?,
            Some((from, to, of)) => write!(f, ", {from} to {to} x {of}")?,
            None => {}
        }
        f.write_str(if self.is_even { " (even)" } else { "" })
    }
}

pub(crate) const RATE_MBPS: Range = spread(1.0, 500.0, " Mbit/s");
pub(crate) const RTT_MS: Range = spread(2.0, 300.0, " ms");
pub(crate) const BUFFER_BDP: Range = spread(0.1, 16.0, " BDP");
pub(crate) const STAGGER_MS: Range = spread(10.0, 2000.0, " ms");

/// Wi-Fi's has a mean of 85 ms at most, and 70 is the most that becomes 50 as a round number.
pub(crate) const JITTER_MS: Range = spread(1.0, 70.0, " ms").times(0.0, 1.5, "RTT");
pub(crate) const LATE_PERCENT: Range = spread(0.1, 5.0, " %");
pub(crate) const LATE_MS: Range = spread(0.5, 100.0, " ms").times(0.05, 0.75, "RTT");
pub(crate) const ACK_INTERVAL_MS: Range = spread(5.0, 100.0, " ms");
pub(crate) const ACK_LOSS_PERCENT: Range = spread(1.0, 30.0, " %");
pub(crate) const UP_RATE_MBPS: Range = spread(0.2, 500.0, " Mbit/s").times(0.05, 1.0, "rate");
pub(crate) const UP_BUFFER_MS: Range = spread(20.0, 1000.0, " ms");
pub(crate) const RTT_STEP_MS: Range = spread(0.0, 300.0, " ms").times(0.1, 3.0, "RTT");
pub(crate) const RTT_STEP_AT_PERCENT: Range = even(30.0, 50.0, " %");
pub(crate) const RATE_FACTOR: Range = spread(0.1, 4.0, "");
pub(crate) const HOST_LATE_MS: Range = spread(1.0, 20.0, " ms");
pub(crate) const BUCKET_RATE_PERCENT: Range = even(30.0, 90.0, " %");
pub(crate) const BUCKET_MS: Range = spread(5.0, 500.0, " ms");
pub(crate) const SHAPER_BUFFER_BDP: Range = spread(0.5, 8.0, " BDP");
pub(crate) const LOSS_PERCENT: Range = spread(0.01, 3.0, " %");
pub(crate) const OUTAGE_EVERY_MS: Range = spread(500.0, 15000.0, " ms");
pub(crate) const OUTAGE_LASTS_MS: Range = spread(2.0, 3000.0, " ms").times(0.0, 0.25, "that");
pub(crate) const CROSS_PERCENT: Range = even(5.0, 70.0, " % of the narrowest rate");
pub(crate) const MANY_FLOWS: Range = spread(8.0, 40.0, "");
pub(crate) const MANY_STAGGER_MS: Range = spread(1.0, 150.0, " ms");
/// At least one packet.
pub(crate) const RESPONSE_KB: Range = spread(1.4, f64::INFINITY, " kB").times(0.0, 10.0, "BDP");
pub(crate) const THINK_MS: Range = spread(1.0, 60000.0, " ms");
pub(crate) const MEDIA_PERCENT: Range = even(5.0, 80.0, " % of the narrowest rate");
pub(crate) const EXTRA_RTT_MS: Range = spread(0.0, 300.0, " ms").times(0.5, 10.0, "RTT");
pub(crate) const COMPETITOR_START_PERCENT: Range = even(0.0, 15.0, " %");
pub(crate) const HANDOVER_MS: Range = spread(1.0, 100.0, " ms");
pub(crate) const HANDOVER_LASTS_MS: Range = spread(5.0, 500.0, " ms");
pub(crate) const WINDOW_BDP: Range = spread(0.3, 4.0, " BDP");
pub(crate) const SEND_BUFFER_BDP: Range = spread(0.3, 8.0, " BDP");
pub(crate) const MSS: Range = spread(500.0, 9000.0, " bytes");
