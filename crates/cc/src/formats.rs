//! Types that serde and defmt see by their names.

#[cfg(feature = "serde")]
mod serde {
    use core::fmt;
    use core::marker::PhantomData;
    use core::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    use crate::algorithm::Algorithm;
    use crate::amendments::Amendments;
    use crate::snapshot::State;

    impl Serialize for State {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(self.name())
        }
    }

    impl Serialize for Algorithm {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(self.name())
        }
    }

    /// Reads the names that [`Algorithm::NAMES`] has; `Fixed` and algorithms of other crates cannot
    /// be read.
    impl<'de> Deserialize<'de> for Algorithm {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_str(Text(PhantomData))
        }
    }

    impl Serialize for Amendments {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Amendments {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_str(Text(PhantomData))
        }
    }

    /// Reads a `T` from its text.
    struct Text<T>(PhantomData<T>);

    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a name")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
    }
}

#[cfg(feature = "defmt")]
mod defmt {
    use defmt::{Display2Format, Format, Formatter, write};

    use crate::algorithm::Algorithm;
    use crate::amendments::Amendments;
    use crate::snapshot::State;

    impl Format for State {
        fn format(&self, f: Formatter<'_>) {
            write!(f, "{=str}", self.name());
        }
    }

    impl Format for Amendments {
        fn format(&self, f: Formatter<'_>) {
            Display2Format(self).format(f);
        }
    }

    impl Format for Algorithm {
        fn format(&self, f: Formatter<'_>) {
            write!(f, "{=str}", self.name());
        }
    }
}
