//! A log of what entered a path, from which the same path can be run again.

use fullpipe_units::Instant;

use crate::packet::Header;

/// A packet's entrance. A path of the same configuration does the same again when it gets the same
/// packets at the same times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// The time at which it entered the path.
    pub at: Instant,
    /// Its header.
    pub header: Header,
}

/// The first packets that entered.
#[derive(Debug)]
pub(crate) struct ArrivalLog {
    pub(crate) most: usize,
    pub(crate) arrivals: Vec<Arrival>,
}

impl ArrivalLog {
    #[cold]
    #[inline(never)]
    pub(crate) fn push(&mut self, arrival: Arrival) {
        if self.arrivals.len() < self.most {
            self.arrivals.push(arrival);
        }
    }
}
