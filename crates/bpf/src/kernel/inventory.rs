//! All programs of ours in the kernel, whoever holds them.

use std::ffi::OsStr;

use libbpf_rs::query::{
    LinkInfoIter, LinkTypeInfo, MapInfoIter, ProgInfoIter, ProgInfoQueryOptions,
};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::settings::{self, Settings};
use super::usage::{self, Usage};
use super::{Error, be_quiet, error, pins};

/// The holder that keeps a program in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A pin in `/sys/fs/bpf/fullpipe`: it stays until [`unload`](super::unload).
    Pinned,
    /// A process, or a pin elsewhere: it stays until that ends.
    ByProcess,
    /// Connections alone, or the default of a network namespace: TCP does not have its name any
    /// more, and the kernel frees it after the last of them.
    ByConnections,
}

/// A program in the kernel.
pub(super) struct Found {
    pub(super) settings: Settings,
    pub(super) usage: Usage,
    pub(super) held: Held,
}

/// The programs, in the order in which they were loaded.
///
/// # Errors
///
/// Only root sees them.
pub(super) fn programs() -> Result<Vec<Found>, Error> {
    if !error::is_admin() {
        return Err(Error::NotAdmin);
    }
    be_quiet();
    let registered = registered();
    let query = ProgInfoQueryOptions::default().include_map_ids(true);
    let ours = ProgInfoIter::with_query_opts(query).filter(|program| program.name == "bbr3_start");
    let found = ours.filter_map(|program| {
        // It may go meanwhile, or be another's by this name.
        let (settings, usage) = maps_of(&program.map_ids)?;
        let own = registered.iter().find(|registered| registered.is_of(program.id));
        let held = match own {
            Some(registered) if registered.is_pinned_as(&settings.name) => Held::Pinned,
            Some(_) => Held::ByProcess,
            None => Held::ByConnections,
        };
        Some(Found { settings, usage, held })
    });
    Ok(found.collect())
}

/// The content of a program's maps.
fn maps_of(ids: &[u32]) -> Option<(Settings, Usage)> {
    let settings = Settings::read(&open_map(ids, settings::MAP, settings::SIZE)?).ok()?;
    let usage = Usage::of(&open_map(ids, usage::MAP, usage::SIZE)?).ok()?;
    Some((settings, usage))
}

/// The numbers of the maps that a program has.
pub(super) fn map_ids(program: u32) -> Option<Vec<u32>> {
    let query = ProgInfoQueryOptions::default().include_map_ids(true);
    let own = ProgInfoIter::with_query_opts(query).find(|found| found.id == program);
    own.map(|own| own.map_ids)
}

/// Opens one of these maps by its name, of which the kernel keeps 15 letters, and its size.
pub(super) fn open_map(ids: &[u32], name: &str, size: usize) -> Option<MapHandle> {
    let short = name.get(..name.len().min(15))?;
    let is_it = |name: &OsStr, value_size: u32| name == short && value_size as usize == size;
    let mut own = MapInfoIter::default().filter(|map| ids.contains(&map.id));
    let map = own.find(|map| is_it(&map.name, map.value_size))?;
    MapHandle::from_map_id(map.id).ok()
}

/// Operations that TCP has now.
struct Registered {
    map: u32,
    /// `struct tcp_congestion_ops`, with the number of a program in place of each function.
    value: Vec<u8>,
}

impl Registered {
    fn is_of(&self, program: u32) -> bool {
        let program = u64::from(program).to_ne_bytes();
        self.value.chunks_exact(8).any(|word| word == program)
    }

    fn is_pinned_as(&self, name: &str) -> bool {
        let link = Link::open(pins::link(name)).and_then(|link| link.info());
        link.is_ok_and(|link| map_of(&link.info) == Some(self.map))
    }
}

fn map_of(link: &LinkTypeInfo) -> Option<u32> {
    match link {
        LinkTypeInfo::StructOps(link) => Some(link.map_id),
        _ => None,
    }
}

fn registered() -> Vec<Registered> {
    let maps = LinkInfoIter::default().filter_map(|link| map_of(&link.info));
    let values = maps.filter_map(|map| {
        let handle = MapHandle::from_map_id(map).ok()?;
        let value = handle.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        Some(Registered { map, value })
    });
    values.collect()
}
