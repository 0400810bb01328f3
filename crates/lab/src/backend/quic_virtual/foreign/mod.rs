//! Models of the controllers that come with a stack. They have no accessors: what is read here is
//! the text that `#[derive(Debug)]` prints of them.

mod fields;
pub(super) mod noq;
#[cfg(feature = "quinn")]
pub(super) mod quinn;

use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, Rate, Snapshot};

use crate::backend::RunError;

/// A variable that a stack's own controller does not give: in its snapshot it has a value without a
/// meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The name of the field of [`Snapshot`] or of [`fullpipe_cc::BbrSnapshot`].
    pub variable: &'static str,
    /// The reason.
    pub reason: GapReason,
}

/// The reason for a [`Gap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapReason {
    /// The controller has no such variable.
    Absent,
    /// Something of this kind is there, and nothing outside of the stack shows it.
    Hidden,
}

/// Variables that a controller has not.
const fn absent<const N: usize>(variables: [&'static str; N]) -> [Gap; N] {
    let mut gaps = [Gap { variable: "", reason: GapReason::Absent }; N];
    let mut i = 0;
    while i < N {
        gaps[i].variable = variables[i];
        i += 1;
    }
    gaps
}

/// The text of a controller is not as expected: another version of the stack, most likely.
fn unreadable(controller: &'static str, field: &'static str) -> RunError {
    RunError::Unreadable { controller, field }
}

/// A snapshot to fill in, with a model.
fn template(algorithm: &'static str) -> Snapshot {
    let ours = Controller::new(Algorithm::BBR3, Config::new(0), Instant::default());
    let mut snapshot = ours.snapshot();
    snapshot.algorithm = algorithm;
    snapshot
}

/// A rate in bytes per second, rounded; `None` for an infinite one.
fn rate(text: &str) -> Option<Option<Rate>> {
    let rate: f64 = text.parse().ok()?;
    (rate >= 0.0).then(|| rate.is_finite().then(|| Rate::from_bytes_per_sec(rate.round() as u64)))
}

fn finite_rate(text: &str) -> Option<Rate> {
    rate(text)?
}

/// A gain in hundredths, rounded down.
fn percent(text: &str) -> Option<u32> {
    let gain: f64 = text.parse().ok()?;
    // A product like 0.29 * 100 is a little below its value.
    Some((gain * 100.0 + 1e-4) as u32)
}

/// A volume; `None` for the largest number, which stands for infinity.
fn volume(text: &str) -> Option<Option<u64>> {
    let bytes: u64 = text.parse().ok()?;
    Some((bytes != u64::MAX).then_some(bytes))
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A time as `Duration` prints it, like `2.652s`; `None` for one that nanoseconds cannot hold,
/// which stands for infinity.
fn duration(text: &str) -> Option<Option<Duration>> {
    let digits = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (value, unit) = text.split_at(digits);
    let nanos_per_unit: u64 = match unit {
        "s" => 1_000_000_000,
        "ms" => 1_000_000,
        "µs" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut nanos = u128::from(whole) * u128::from(nanos_per_unit);
    let mut digit_nanos = nanos_per_unit;
    for digit in part.bytes() {
        digit_nanos /= 10;
        nanos += u128::from(digit.checked_sub(b'0')?) * u128::from(digit_nanos);
    }
    Some(u64::try_from(nanos).ok().map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gap of another name would hide nothing.
    #[test]
    fn every_gap_is_a_field_of_the_snapshot() {
        let fields = format!("{:?}", template(""));
        let gaps = noq::GAPS.iter();
        #[cfg(feature = "quinn")]
        let gaps = gaps.chain(&quinn::GAPS);
        for gap in gaps {
            assert!(fields.contains(&format!(" {}: ", gap.variable)), "{gap:?}");
        }
    }

    #[test]
    fn values_are_read_as_debug_prints_them() {
        for (time, nanos) in [
            (std::time::Duration::from_nanos(7), Some(7)),
            (std::time::Duration::from_nanos(1_234_567), Some(1_234_567)),
            (std::time::Duration::from_nanos(1_050), Some(1_050)),
            (std::time::Duration::from_millis(2_652), Some(2_652_000_000)),
            (std::time::Duration::from_secs(u64::MAX), None),
        ] {
            let read = duration(&format!("{time:?}"));
            assert_eq!(read, Some(nanos.map(Duration::from_nanos)), "{time:?}");
        }
        assert_eq!(rate(&format!("{:?}", 1.25e17)).flatten(), rate("125000000000000000").flatten());
        assert_eq!(rate(&format!("{:?}", f64::INFINITY)), Some(None));
        assert_eq!(rate("NaN"), None);
        assert_eq!(percent(&format!("{:?}", 2.773)), Some(277));
        assert_eq!(percent(&format!("{:?}", 0.29_f32)), Some(29));
        assert_eq!(volume(&u64::MAX.to_string()), Some(None));
        for text in ["", "s", "5", "5x", "1.-s", "Some(1)"] {
            assert_eq!(duration(text), None, "{text}");
            assert_eq!(number::<u32>(text).is_some(), text == "5");
        }
    }
}
