//! Numbers of the connections that the program has, and of those that it could not take.

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};

use super::Error;

/// `usage` of `c/flow.h`.
pub(super) const MAP: &str = ".data.usage";

/// `sizeof(struct usage)`.
pub(super) const SIZE: usize = 12;

/// Connections of one loaded program, of all users and network namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of connections that have its state.
    pub connections: u32,
    /// Number of connections that run as Reno because there were
    /// [`max_connections`](super::Options::max_connections) when they asked.
    pub above_limit: u32,
    /// Number of connections that run as Reno because there was no memory for their state: the
    /// kernel's, the memory cgroup's, or the socket's own `net.core.optmem_max`.
    pub without_memory: u32,
}

impl Usage {
    /// Reads it from the program's map.
    pub(super) fn of(map: &MapHandle) -> Result<Self, Error> {
        let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(Error::Usage)?;
        let value = value.ok_or(Error::NoName)?;
        let number = |at: usize| {
            let bytes = value.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_ne_bytes).ok_or(Error::NoName)
        };
        Ok(Self { connections: number(0)?, above_limit: number(4)?, without_memory: number(8)? })
    }

    /// Number of connections that asked for it and run as Reno.
    pub fn as_reno(&self) -> u32 {
        self.above_limit.saturating_add(self.without_memory)
    }
}

/// The map of an object that is loaded.
pub(super) fn of_object(object: &Object) -> Result<MapHandle, Error> {
    let map = object.maps().find(|map| map.name() == MAP).ok_or(Error::NoName)?;
    MapHandle::try_from(&map).map_err(Error::Usage)
}
