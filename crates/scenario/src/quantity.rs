//! Quantities with their units, as serde reads and writes them; [`crate::units`] knows the units.

use std::fmt;
use std::marker::PhantomData;

use fullpipe_cc::{Duration, Gain, Rate};
use fullpipe_path::Probability;
use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::units::{self, Buffer, ParseError};

/// Something that is written as text with a unit, or as a bare number where that is clear.
pub(super) trait Quantity: Sized {
    const LIKE: &str;
    fn parse(text: &str) -> Result<Self, ParseError>;
}

struct Reader<Q>(PhantomData<Q>);

impl<Q: Quantity> Visitor<'_> for Reader<Q> {
    type Value = Q;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Q::LIKE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Q, E> {
        Q::parse(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Q, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Q, E> {
        self.visit_str(&number.to_string())
    }
}

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $parse:expr, $show:expr, $like:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name(
            /// Its value.
            pub $inner,
        );

        impl Quantity for $name {
            const LIKE: &str = $like;

            fn parse(text: &str) -> Result<Self, ParseError> {
                $parse(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(Reader(PhantomData))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&($show)(self.0))
            }
        }
    )*};
}

quantities! {
    /// A rate above 0.
    Speed(Rate) = positive_rate, units::show_rate, "a rate like 100mbit";
    /// A rate, which may be 0.
    SpeedOrNone(Rate) = units::parse_rate, units::show_rate, "a rate like 100mbit";
    /// A time.
    Time(Duration) = units::parse_duration, units::show_duration, "a time like 40ms";
    /// Length of a run: a time, or until everything has arrived.
    Length(Option<Duration>) = length, show_length, "a time like 10s, or until_done";
    /// Bytes.
    Size(u64) = units::parse_bytes, units::show_bytes, "a volume like 100MB";
    /// The probability of a loss.
    Chance(Probability) = units::parse_loss, show_share, "a loss like 0.1%";
    /// A probability that may be certainty.
    Share(Probability) = share, show_share, "a probability like 1% or 0.01";
    /// A gain.
    Factor(Gain) = factor, show_factor, "a gain like 2.89";
    /// A volume as a buffer's, or none.
    Saved(Option<Buffer>) = saved, show_saved, "a volume like 1bdp or 4MB, or off";
    /// The room of a buffer.
    Room(Buffer) = str::parse::<Buffer>, |buffer: Buffer| buffer.to_string(), "a buffer like 1bdp, 6MB, 700pkts or 100ms";
}

fn length(text: &str) -> Result<Option<Duration>, ParseError> {
    match text.trim() {
        "until_done" => Ok(None),
        text => units::parse_duration(text).map(Some),
    }
}

fn show_length(length: Option<Duration>) -> String {
    length.map_or_else(|| "until_done".to_owned(), units::show_duration)
}

fn show_saved(saved: Option<Buffer>) -> String {
    saved.map_or_else(|| "off".to_owned(), |buffer| buffer.to_string())
}

fn show_factor(gain: Gain) -> String {
    (f64::from(gain.as_percent()) / 100.0).to_string()
}

/// In percent, where that is exact.
fn show_share(p: Probability) -> String {
    let percent = units::show_loss(p.as_f64());
    if share(&percent) == Ok(p) { percent } else { p.as_f64().to_string() }
}

fn saved(text: &str) -> Result<Option<Buffer>, ParseError> {
    match text.trim() {
        "off" => Ok(None),
        text => text.parse().map(Some),
    }
}

fn positive_rate(text: &str) -> Result<Rate, ParseError> {
    units::parse_rate(text).and_then(|rate| match rate {
        Rate::ZERO => Err(units::wrong(text, "carries nothing", "a rate like 100mbit")),
        rate => Ok(rate),
    })
}

fn factor(text: &str) -> Result<Gain, ParseError> {
    match text.trim().parse::<f64>() {
        Ok(x) if (1.0..=10.0).contains(&x) => Ok(Gain::percent((100.0 * x).round() as u32)),
        _ => Err(units::wrong(text, "is no gain from 1 to 10", "a gain like 2.89")),
    }
}

fn share(text: &str) -> Result<Probability, ParseError> {
    match text.trim() {
        "100%" | "1" | "1.0" => Ok(Probability::ONE),
        other => units::parse_loss(other),
    }
}

impl Speed {
    /// So many Mbit/s.
    pub fn of_mbps(mbps: f64) -> Self {
        Self(Rate::from_bits_per_sec((mbps * 1e6).round() as u64))
    }
}

impl Time {
    /// So many milliseconds.
    pub fn of_ms(ms: f64) -> Self {
        Self(Duration::from_nanos((ms * 1e6).round() as u64))
    }
}

impl Chance {
    /// So many percent, below 100.
    pub fn of_percent(percent: f64) -> Self {
        Self(Probability::new(percent / 100.0).unwrap_or_default())
    }
}

impl Share {
    /// Default for a field that a file leaves out; `p` is from 0 to 1.
    pub(super) fn of(p: f64) -> Self {
        Self(Probability::new(p).unwrap_or_default())
    }
}

/// Reads an enum whose variants have parameters with defaults: `"codel"` is short for
/// `{ codel = {} }`.
pub(super) fn by_name<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct ByName<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for ByName<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a name, or a table of one name with its parameters")
        }

        fn visit_str<E: Error>(self, name: &str) -> Result<T, E> {
            let nothing = MapDeserializer::new(std::iter::empty::<(&str, &str)>());
            let only = std::iter::once((StrDeserializer::new(name), Table(nothing)));
            let map = MapDeserializer::new(only);
            T::deserialize(serde::de::value::MapAccessDeserializer::new(map))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
            let one = T::deserialize(serde::de::value::MapAccessDeserializer::new(&mut map))?;
            match map.next_key::<String>()? {
                None => Ok(one),
                Some(other) => Err(A::Error::custom(format!(
                    "'{}' is a second one; write one of them",
                    other.escape_debug()
                ))),
            }
        }
    }

    from.deserialize_any(ByName(PhantomData))
}

/// An empty table as a value.
struct Table<I>(I);

impl<'de, E: Error, I: Deserializer<'de, Error = E>> IntoDeserializer<'de, E> for Table<I> {
    type Deserializer = I;

    fn into_deserializer(self) -> I {
        self.0
    }
}
