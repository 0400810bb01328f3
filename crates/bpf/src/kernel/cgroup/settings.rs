//! The values that the program for a cgroup shares with the loader.

use crate::kernel::settings::{NAME_SIZE, field};

/// `use` of `c/use.bpf.c`, as libbpf names it.
pub(super) const MAP: &str = ".rodata.use";

/// `given` there.
pub(super) const GIVEN: &str = ".data.given";

/// `MAX_PORTS` there.
pub(super) const MAX_PORTS: usize = 16;

/// `sizeof(struct use)`.
pub(super) const SIZE: usize = NAME_SIZE + 4 + 2 * MAX_PORTS;

/// `sizeof(struct given)`.
pub(super) const GIVEN_SIZE: usize = 16;

/// `struct use`: at most [`MAX_PORTS`] ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) algorithm: String,
    pub(super) ports: Vec<u16>,
}

impl Settings {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = field(&self.algorithm).to_vec();
        value.extend((self.ports.len() as u32).to_ne_bytes());
        for at in 0..MAX_PORTS {
            value.extend(self.ports.get(at).copied().unwrap_or(0).to_ne_bytes());
        }
        value
    }

    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let value: &[u8; SIZE] = value.try_into().ok()?;
        let (name, rest) = value.split_at(NAME_SIZE);
        let (number, ports) = rest.split_at(4);
        let number = u32::from_ne_bytes(number.try_into().ok()?) as usize;
        let ports = ports.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        Some(Self {
            algorithm: String::from_utf8_lossy(name).trim_end_matches('\0').to_owned(),
            ports: ports.take(number).collect(),
        })
    }
}

/// `struct given`: connections that were given the algorithm, and those that TCP gave nothing.
pub(super) fn decode_given(value: &[u8]) -> Option<[u64; 2]> {
    let number = |at: usize| {
        let bytes = value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u64::from_ne_bytes)
    };
    Some([number(0)?, number(8)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        for ports in [vec![], vec![443], (1..=MAX_PORTS as u16).collect()] {
            let settings = Settings { algorithm: "bbr3x_of_15_lett".to_owned(), ports };
            let cut = Settings { algorithm: "bbr3x_of_15_let".to_owned(), ..settings.clone() };
            let value = settings.encode();
            assert_eq!(value.len(), SIZE);
            assert_eq!(Settings::decode(&value), Some(cut));
            assert_eq!(Settings::decode(&value[1..]), None);
        }
    }
}
