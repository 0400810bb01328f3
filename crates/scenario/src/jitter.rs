//! The element `jitter`: a time, or a table with the distribution.

use std::fmt;

use fullpipe_cc::Duration;
use fullpipe_path::{Distribution, JitterConfig, Probability};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use super::quantity::{Share, Time};
use crate::units;

/// A jitter as the path takes it.
#[derive(Clone, Copy, Debug)]
pub struct JitterField(pub JitterConfig);

#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    spread: Time,
    distribution: Option<Shape>,
    correlation: Option<Share>,
}

/// The spread of a Wi-Fi channel on which each packet meets collisions.
const MOST_WIFI: Duration = Duration::from_millis(85);

#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Shape {
    Uniform,
    Normal,
    Pareto,
    Wifi,
}

impl From<Shape> for Distribution {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Uniform => Self::Uniform,
            Shape::Normal => Self::Normal,
            Shape::Pareto => Self::Pareto,
            Shape::Wifi => Self::Wifi,
        }
    }
}

impl From<Distribution> for Shape {
    fn from(distribution: Distribution) -> Self {
        match distribution {
            Distribution::Normal => Self::Normal,
            Distribution::Pareto => Self::Pareto,
            Distribution::Wifi => Self::Wifi,
            // A file has no other.
            _ => Self::Uniform,
        }
    }
}

impl Serialize for JitterField {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let JitterConfig { spread, distribution, correlation } = self.0;
        let spread = Time(spread);
        if self.0 == JitterConfig::from(spread.0) {
            return spread.serialize(to);
        }
        let distribution = Some(distribution.into());
        let correlation = (correlation > Probability::ZERO).then_some(Share(correlation));
        Table { spread, distribution, correlation }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for JitterField {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = JitterField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a time like 2ms, or a table like { spread = \"2ms\", distribution = \"normal\" }",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JitterField, E> {
                let most = units::parse_duration(text).map_err(E::custom)?;
                Ok(JitterField(most.into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<JitterField, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JitterField, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                if table.distribution == Some(Shape::Wifi) && table.correlation.is_some() {
                    let why = "a jitter of the distribution wifi has no correlation; leave it out";
                    return Err(A::Error::custom(why));
                }
                if table.distribution == Some(Shape::Wifi) && table.spread.0 > MOST_WIFI {
                    let why = "at 85ms each packet meets collisions; write that or less for wifi";
                    return Err(A::Error::custom(why));
                }
                Ok(JitterField(JitterConfig {
                    spread: table.spread.0,
                    distribution: table.distribution.map_or(Distribution::Uniform, Into::into),
                    correlation: table.correlation.map_or(Probability::ZERO, |share| share.0),
                }))
            }
        }

        from.deserialize_any(Reader)
    }
}
