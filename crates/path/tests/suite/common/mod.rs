//! Helpers shared by the tests of the elements.

use fullpipe_path::{DropReason, ElementConfig, Event, Path, PathConfig};
use fullpipe_units::{Duration, Instant};

pub(crate) const LATE: Instant = Instant::from_nanos(u64::MAX);

pub(crate) fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

pub(crate) fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

pub(crate) fn path(row: Vec<ElementConfig>) -> Path<u64> {
    Path::new(&PathConfig { row, seed: 5 }).expect("a row that makes sense")
}

/// The payload, and why.
pub(crate) type Drop = (u64, DropReason);

/// Everything that comes out until the end: (time, payload), and the dropped with their reason.
pub(crate) fn drain(path: &mut Path<u64>) -> (Vec<(u64, u64)>, Vec<Drop>) {
    let (mut out, mut dropped) = (Vec::new(), Vec::new());
    while let Some(event) = path.poll(LATE) {
        match event {
            Event::Delivered(d) => out.push((d.at.as_nanos(), d.payload)),
            Event::Dropped(d) => dropped.push((d.payload, d.reason)),
        }
    }
    (out, dropped)
}

pub(crate) fn times(out: &[(u64, u64)]) -> Vec<u64> {
    out.iter().map(|(time, _)| *time).collect()
}
