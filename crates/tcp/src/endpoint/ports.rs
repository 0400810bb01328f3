//! The ports that this end chose (RFC 6056), so that a free one is found at once however many are
//! taken.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::IpAddr;

use super::table::Ends;

/// The dynamic ports (RFC 6335 section 6).
const FIRST: u16 = 49_152;
/// The number of dynamic ports.
pub(super) const COUNT: u64 = 16_384;

/// True for one of them.
pub(super) fn is_dynamic(port: u16) -> bool {
    port >= FIRST
}

/// The number of the port after `port` among the dynamic ones.
pub(super) fn after(port: u16) -> u64 {
    u64::from(port - FIRST) + 1
}

/// The dynamic port with this number, counted on from the first one again after the last.
pub(super) fn nth(number: u64) -> u16 {
    FIRST + (number % COUNT) as u16
}

/// The dynamic ports of connections that this end opened, by address and peer.
#[derive(Debug, Default)]
pub(super) struct Ports {
    by_way: BTreeMap<(IpAddr, IpAddr, u16), Runs>,
}

/// The ports of one way.
#[derive(Debug, Default)]
struct Runs {
    /// Taken ports without a gap: the first and the last of each run.
    taken: BTreeMap<u16, u16>,
    /// Those in TIME-WAIT which another connection may follow in, the oldest first.
    waiting: VecDeque<u16>,
}

impl Ports {
    /// The first free port of the dynamic ones from the `from`th on, for a connection between the
    /// addresses of `ends`.
    pub(super) fn free(&self, ends: &Ends, from: u64) -> Option<u16> {
        let from = nth(from);
        match self.by_way.get(&ends.way()) {
            Some(runs) => runs.free(from).or_else(|| runs.free(FIRST)),
            None => Some(from),
        }
    }

    pub(super) fn take(&mut self, ends: &Ends) {
        self.by_way.entry(ends.way()).or_default().take(ends.local_port);
    }

    /// The connection of a taken port is in TIME-WAIT.
    pub(super) fn wait(&mut self, ends: &Ends) {
        if let Some(runs) = self.by_way.get_mut(&ends.way()) {
            runs.waiting.push_back(ends.local_port);
        }
    }

    /// The ports between the addresses of `ends` whose connections are in TIME-WAIT, the oldest
    /// first.
    pub(super) fn waiting(&self, ends: &Ends) -> impl Iterator<Item = u16> + use<'_> {
        self.by_way.get(&ends.way()).into_iter().flat_map(|runs| runs.waiting.iter().copied())
    }

    pub(super) fn give(&mut self, ends: &Ends) {
        let Some(runs) = self.by_way.get_mut(&ends.way()) else { return };
        runs.give(ends.local_port);
        // The oldest, mostly.
        if let Some(at) = runs.waiting.iter().position(|port| *port == ends.local_port) {
            runs.waiting.remove(at);
        }
        if runs.taken.is_empty() {
            self.by_way.remove(&ends.way());
        }
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> usize {
        let of_runs = |runs: &Runs| 4 * runs.taken.len() + 2 * runs.waiting.capacity();
        self.by_way.values().map(|runs| size_of::<(Ends, Runs)>() + of_runs(runs)).sum()
    }
}

impl Runs {
    /// The first free port from `from` on.
    fn free(&self, from: u16) -> Option<u16> {
        match self.taken.range(..=from).next_back() {
            Some((_, last)) if *last >= from => last.checked_add(1),
            _ => Some(from),
        }
    }

    fn take(&mut self, port: u16) {
        let (mut first, mut last) = (port, port);
        if let Some((&start, &end)) = self.taken.range(..=port).next_back() {
            if end >= port {
                return;
            }
            if end + 1 == port {
                first = start;
            }
        }
        if let Some(next) = port.checked_add(1)
            && let Some(end) = self.taken.remove(&next)
        {
            last = end;
        }
        self.taken.insert(first, last);
    }

    fn give(&mut self, port: u16) {
        let Some((&first, &last)) = self.taken.range(..=port).next_back().filter(|r| *r.1 >= port)
        else {
            return;
        };
        self.taken.remove(&first);
        if first < port {
            self.taken.insert(first, port - 1);
        }
        if port < last {
            self.taken.insert(port + 1, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_found_between_taken_ones() {
        let ends = |port| {
            Ends::new(
                (IpAddr::from([10, 0, 0, 1]), port).into(),
                (IpAddr::from([10, 0, 0, 2]), 80).into(),
            )
        };
        let mut ports = Ports::default();
        for i in 0..COUNT {
            let port = ports.free(&ends(0), i * 7919).expect("a port");
            ports.take(&ends(port));
        }
        assert_eq!(ports.free(&ends(0), 5), None);
        assert_eq!(ports.by_way.values().map(|runs| runs.taken.len()).sum::<usize>(), 1);
        for port in [FIRST, FIRST + 9, 60_000, u16::MAX] {
            ports.give(&ends(port));
            ports.give(&ends(port));
            for from in [0, 3, u64::from(port - FIRST), COUNT - 1] {
                assert_eq!(ports.free(&ends(0), from), Some(port));
            }
            ports.take(&ends(port));
            ports.take(&ends(port));
        }
        for i in 0..COUNT {
            ports.give(&ends(FIRST + (i * 7919 % COUNT) as u16));
        }
        assert!(ports.by_way.is_empty());
    }
}
