//! Dates and times of day, as a table has them.

use chrono::format::{Parsed, StrftimeItems, parse};
use chrono::{Datelike, NaiveDateTime, NaiveTime, Timelike};

/// A day in nanoseconds.
pub(super) const DAY: i128 = 86_400_000_000_000;

/// Ways to write a time of which each has one meaning. An offset from UTC may change within a file.
const FORMATS: [&str; 13] = [
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M%#z",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y-%m-%d-%H:%M:%S%.f",
    "%Y-%m-%d_%H:%M:%S%.f",
    "%Y.%m.%d_%H.%M.%S%.f",
    "%H:%M:%S%.f",
];

/// Ways to write a time of which several fit one text.
const AMBIGUOUS: [&str; 12] = [
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %H:%M:%S%.f",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S%.f",
    "%d/%m/%Y %H:%M",
    "%d.%m.%Y %H:%M:%S%.f",
    "%d.%m.%Y %H:%M",
    "%H:%M",
    "%M:%S%.f",
    "%I:%M:%S %p",
    "%I:%M %p",
];

/// A time without a unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Civil {
    /// Nanoseconds since 1970, in UTC.
    Since1970(i128),
    /// Nanoseconds since midnight.
    OfDay(i128),
}

impl Civil {
    /// The time in a cell, written in a way that has one meaning.
    pub(super) fn of(cell: &str) -> Option<Self> {
        // Words are the most frequent texts that are no time.
        if !cell.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        FORMATS.iter().find_map(|format| Self::by(cell, format))
    }

    /// The time in a cell that is written so.
    pub(super) fn by(cell: &str, format: &str) -> Option<Self> {
        let mut parsed = Parsed::new();
        parse(&mut parsed, cell.trim(), StrftimeItems::new(format)).ok()?;
        let east = parsed.offset().unwrap_or(0);
        if east.abs() >= 86_400 {
            return None;
        }
        let since_1970 = |at: NaiveDateTime| {
            let nanos = i128::from(at.and_utc().timestamp_subsec_nanos());
            let seconds = i128::from(at.and_utc().timestamp()) - i128::from(east);
            Self::Since1970(seconds * 1_000_000_000 + nanos)
        };
        let has_date = parsed.year().is_some() || parsed.year_mod_100().is_some();
        if has_date || parsed.timestamp().is_some() {
            let date = || parsed.to_naive_date().ok()?.and_hms_opt(0, 0, 0);
            let has_time = parsed.hour_div_12().is_some() || parsed.timestamp().is_some();
            let at =
                if has_time { parsed.to_naive_datetime_with_offset(east).ok() } else { date() };
            // A year of two digits or less is a mistake in the order of the parts.
            return at.filter(|at| (1000..=9999).contains(&at.year())).map(since_1970);
        }
        // Minutes and seconds alone are those of an hour.
        if parsed.hour_div_12().is_none() && parsed.minute().is_some() {
            parsed.set_hour(0).ok()?;
        }
        parsed.to_naive_time().ok().map(|time: NaiveTime| {
            let seconds = i128::from(time.num_seconds_from_midnight());
            Self::OfDay(seconds * 1_000_000_000 + i128::from(time.nanosecond()))
        })
    }
}

/// True if a time can be written so.
pub(super) fn is_format(format: &str) -> bool {
    let mut items = StrftimeItems::new(format);
    !format.is_empty() && items.all(|item| item != chrono::format::Item::Error)
}

/// The formats that a cell without one meaning may have.
pub(super) fn formats_of(cell: &str) -> Vec<&'static str> {
    AMBIGUOUS.into_iter().filter(|format| Civil::by(cell, format).is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_counted_from_1970() {
        let s = |cell: &str| match Civil::of(cell) {
            Some(Civil::Since1970(nanos)) => Some(nanos as f64 / 1e9),
            _ => None,
        };
        assert_eq!(s("1970-01-01T00:00:00Z"), Some(0.0));
        assert_eq!(s("2024-02-29 23:59:59.5"), Some(1_709_251_199.5));
        for (east, hours) in [("+01:00", -1.0), ("-0530", 5.5), ("+02", -2.0), ("Z ", 0.0)] {
            let shifted = Some(1_709_251_200.0 + 3_600.0 * hours);
            assert_eq!(s(&format!("2024-03-01T00:00:00{east}")), shifted, "{east}");
        }
        for other in [
            "2019-11-25 15:34",
            "2019-11-25T15:34Z",
            "2019.11.25_15.34.00",
            "2019/11/25 15:34:00",
            "2019-11-25-15:34:00",
        ] {
            assert_eq!(s(other), Some(1_574_696_040.0), "{other}");
        }
        for not in [
            "",
            "12:00",
            "2024-13-01T00:00:00",
            "2024-02-30T00:00:00",
            "2024-01-01",
            "1-2-3 4:5",
            "a b",
            "2024-03-01T00:00:00+1",
            "2024-03-01T00:00:00+25:00",
            "2024-03-01T00:00:00Zulu",
            "11/25/2019 03:34 PM",
            "25:00:00",
        ] {
            assert_eq!(Civil::of(not), None, "{not}");
        }
    }

    #[test]
    fn a_time_is_read_as_its_format_says() {
        let s = |cell: &str, format: &str| match Civil::by(cell, format) {
            Some(Civil::Since1970(nanos)) => Some((true, nanos as f64 / 1e9)),
            Some(Civil::OfDay(nanos)) => Some((false, nanos as f64 / 1e9)),
            None => None,
        };
        let afternoon = Some((true, 1_574_696_040.0));
        assert_eq!(s("11/25/2019 03:34 PM", "%m/%d/%Y %I:%M %p"), afternoon);
        assert_eq!(s("25.11.2019 16:34 +0100", "%d.%m.%Y %H:%M %z"), afternoon);
        assert_eq!(s("1574696040", "%s"), afternoon);
        assert_eq!(s("25.11.19", "%d.%m.%y"), Some((true, 1_574_640_000.0)));
        assert_eq!(s("12:59:00.5", "%H:%M:%S%.f"), Some((false, 46_740.5)));
        assert_eq!(s("02:03", "%M:%S"), Some((false, 123.0)));
        assert_eq!(s("31.02.2019 00:00", "%d.%m.%Y %H:%M"), None);
        assert!(is_format("%d.%m.%Y") && !is_format("%Q") && !is_format(""));
        assert_eq!(formats_of("11/25/2019 03:34 PM"), ["%m/%d/%Y %I:%M %p"]);
        assert_eq!(formats_of("01/02/2019 03:34"), ["%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M"]);
    }
}
