//! Values at given times, once or again and again: `[{ at = "5s", … }]`, or
//! `{ every = "10s", repeat = 3, list = […] }`.

use std::fmt;
use std::marker::PhantomData;

use fullpipe_cc::Duration;
use fullpipe_path::{ConfigError, Series};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::error::Wrong;
use super::quantity::Time;
use crate::units::show_duration;

/// Most values of a list whose rounds are counted.
const MOST_VALUES: u64 = 1_000_000;

/// A list, and the time after which it begins again.
#[derive(Clone, Debug)]
pub struct Repeated<T> {
    /// The values of one round.
    pub list: Vec<T>,
    rounds: Option<Rounds>,
}

#[derive(Clone, Copy, Debug)]
struct Rounds {
    every: Duration,
    /// Nothing: without end.
    repeat: Option<u64>,
}

impl<T> Default for Repeated<T> {
    fn default() -> Self {
        Self { list: Vec::new(), rounds: None }
    }
}

impl<T> Repeated<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The time after which it begins again.
    pub(super) fn every(&self) -> Option<Duration> {
        self.rounds.map(|rounds| rounds.every)
    }

    /// The values over time, from those of one round, whether they begin again or not.
    pub(super) fn values<V: Copy>(
        &self,
        round: Vec<(Duration, V)>,
        field: &str,
    ) -> Result<Series<V>, Wrong> {
        match self.series(&round, None, field)? {
            Some(series) => Ok(series),
            None => Series::new(round, None).map_err(|error| Wrong::new(field, error)),
        }
    }

    /// The values over time if they begin again, from those of one round. After the last of counted
    /// rounds `after` holds, or else the first value.
    pub(super) fn series<V: Copy>(
        &self,
        round: &[(Duration, V)],
        after: Option<V>,
        field: &str,
    ) -> Result<Option<Series<V>>, Wrong> {
        let Some(Rounds { every, repeat }) = self.rounds else { return Ok(None) };
        let wrong = |error: ConfigError| match error {
            ConfigError::ShortPeriod => {
                let every = show_duration(every);
                let why = format!("after {every} it begins again, and a time is not before that");
                Wrong::new(format!("{field}.every"), why)
            }
            error => Wrong::new(field, error),
        };
        // A mistake in the list is one whether its rounds are counted or not.
        let endless = Series::new(round, Some(every)).map_err(wrong)?;
        let Some(repeat) = repeat else { return Ok(Some(endless)) };
        let values = (round.len() as u64).saturating_mul(repeat);
        let end = every.as_nanos().checked_mul(repeat).filter(|_| values <= MOST_VALUES);
        let Some(end) = end else {
            let why = format!("{repeat} rounds are too many; leave it out, and there is no end");
            return Err(Wrong::new(format!("{field}.repeat"), why));
        };
        let at = |n: u64| move |(t, v): &(Duration, V)| (every.times(n) + *t, *v);
        let mut steps: Vec<(Duration, V)> =
            (0..repeat).flat_map(|n| round.iter().map(at(n))).collect();
        let after = after.or(round.first().map(|(_, value)| *value));
        steps.extend(after.map(|value| (Duration::from_nanos(end), value)));
        Series::new(steps, None).map(Some).map_err(wrong)
    }
}

impl<T> From<Vec<T>> for Repeated<T> {
    fn from(list: Vec<T>) -> Self {
        Self { list, rounds: None }
    }
}

impl<T: Serialize> Serialize for Repeated<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Some(Rounds { every, repeat }) = self.rounds else { return self.list.serialize(to) };
        Table { every: Time(every), repeat, list: self.list.iter().collect() }.serialize(to)
    }
}

#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Table<T> {
    every: Time,
    repeat: Option<u64>,
    list: Vec<T>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Repeated<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Repeated<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list, or a table like { every = \"10s\", list = [{ … }] }")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Repeated<T>, A::Error> {
                let list = Vec::deserialize(SeqAccessDeserializer::new(list))?;
                Ok(Repeated { list, rounds: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Repeated<T>, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                if table.every.0 == Duration::ZERO || table.repeat == Some(0) {
                    let what = if table.repeat == Some(0) { "repeat" } else { "every" };
                    return Err(serde::de::Error::custom(format!(
                        "{what} is 0; write a time like 10s, and at least 1 round"
                    )));
                }
                let rounds = Some(Rounds { every: table.every.0, repeat: table.repeat });
                Ok(Repeated { list: table.list, rounds })
            }
        }

        from.deserialize_any(Reader(PhantomData))
    }
}
