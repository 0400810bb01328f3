//! Settings that the loader writes into the program, for its code and for whoever looks at it
//! later.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::{BBR3, BBR3X, Error, Options};

/// `settings` of `c/flow.h`, as libbpf names it; the kernel keeps 15 letters of that.
pub(super) const MAP: &str = ".rodata.settings";

/// Longest name of a congestion control: TCP_CA_NAME_MAX with the zero at its end.
pub(super) const NAME_SIZE: usize = 16;

/// `sizeof(struct settings)`.
pub(super) const SIZE: usize = 64;

/// Settings of a program that is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) max_connections: u32,
    pub(super) low_latency_ecn: bool,
    pub(super) amended: bool,
    pub(super) name: String,
    /// Empty if the program did not become the default when it was loaded.
    pub(super) previous_default: String,
    /// Version of the loader.
    pub(super) version: String,
    /// Number of the object's content.
    pub(super) build: u64,
}

impl Settings {
    pub(super) fn of(options: &Options, previous_default: Option<&str>) -> Self {
        Self {
            max_connections: options.max_connections,
            low_latency_ecn: options.low_latency_ecn,
            amended: options.amended,
            name: options.name.clone(),
            previous_default: previous_default.unwrap_or_default().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: build_of(options.amended),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = self.max_connections.to_ne_bytes().to_vec();
        value.extend([self.low_latency_ecn.into(), self.amended.into(), 0, 0]);
        for text in [&self.name, &self.previous_default, &self.version] {
            value.extend(field(text));
        }
        value.extend(self.build.to_ne_bytes());
        value
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let value: &[u8; SIZE] = value.try_into().ok()?;
        let text = |at: usize| {
            let field = value.get(at..at + NAME_SIZE).unwrap_or_default();
            String::from_utf8_lossy(field).trim_end_matches('\0').to_owned()
        };
        Some(Self {
            max_connections: u32::from_ne_bytes(value.get(..4)?.try_into().ok()?),
            low_latency_ecn: *value.get(4)? != 0,
            amended: *value.get(5)? != 0,
            name: text(8),
            previous_default: text(24),
            version: text(40),
            build: u64::from_ne_bytes(value.get(56..)?.try_into().ok()?),
        })
    }

    /// Reads them from the program's map.
    pub(super) fn read(map: &MapHandle) -> Result<Self, Error> {
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::Usage)?;
        value.and_then(|value| Self::decode(&value)).ok_or(Error::NoName)
    }

    /// True if the object is one of those that this loader carries.
    pub(super) fn is_this_build(&self) -> bool {
        self.build == build_of(self.amended)
    }
}

/// A number for the content of an object: FNV-1a.
fn build_of(amended: bool) -> u64 {
    let object = if amended { BBR3X } else { BBR3 };
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    object.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A name as C has it; longer ones are cut.
pub(super) fn field(name: &str) -> [u8; NAME_SIZE] {
    let mut field = [0; NAME_SIZE];
    for (to, from) in field.iter_mut().take(NAME_SIZE - 1).zip(name.bytes()) {
        *to = from;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        let options = Options { name: "bbr3_here".to_owned(), amended: true, ..Options::default() };
        let settings = Settings::of(&options, Some("cubic"));
        let value = settings.encode();
        assert_eq!(value.len(), SIZE);
        assert_eq!(Settings::decode(&value), Some(settings.clone()));
        assert!(settings.is_this_build());
        assert!(!Settings { amended: false, ..settings }.is_this_build());
        assert_eq!(Settings::decode(&value[1..]), None);
    }
}
