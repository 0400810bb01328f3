//! Counters of an endpoint: all of its connections, those that are over included.

use super::Endpoint;

/// Counters since an [`Endpoint`] was made, as in TCP's MIB (RFC 4022) and Linux's SNMP files where
/// these have them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Segments that arrived whole, of no connection as well.
    pub segments_in: u64,
    /// ICMP messages about segments.
    pub icmp_in: u64,
    /// Packets that were neither, or were damaged.
    pub packets_unread: u64,
    /// Segments that left.
    pub segments_out: u64,
    /// Connections that this end opened.
    pub active_opens: u64,
    /// Connections that listeners took, by their SYN or a cookie, whose handshake may not be over.
    pub passive_opens: u64,
    /// SYNs that were dropped, as too many connections waited to be accepted.
    pub syns_dropped: u64,
    /// SYNs that were answered with a cookie.
    pub cookies_sent: u64,
    /// ACKs with a cookie that opened a connection.
    pub cookies_accepted: u64,
    /// ACKs that might have had a cookie, and did not.
    pub cookies_refused: u64,
    /// Connections that listeners took with the data of their SYN (RFC 7413).
    pub fast_opens: u64,
    /// SYNs with a Fast Open cookie that was none of this end's or too old, or beyond the limit of
    /// pending connections: these opened as without it.
    pub fast_opens_refused: u64,
    /// Resets that arrived.
    pub resets_in: u64,
    /// Resets that left.
    pub resets_out: u64,
    /// Resets, cookies and answers in TIME-WAIT that were not made, as too many waited to leave.
    pub replies_dropped: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Firings of retransmission timers.
    pub timeouts: u64,
    /// Segments with data for which there was no memory, see [`Endpoint::set_memory_limit`], and
    /// pieces of data before their turn that were thrown away for the same reason.
    pub data_dropped: u64,
    /// Connections that were reset while memory was short, as their peers took nothing.
    pub stalled: u64,
    /// Connections in TIME-WAIT that gave way to others.
    pub time_waits_cut: u64,
}

/// The counters of a connection that an endpoint adds up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) data_dropped: u64,
}

impl Counters {
    pub(super) fn add(&mut self, totals: Totals) {
        self.retransmitted += totals.retransmitted;
        self.timeouts += totals.timeouts;
        self.data_dropped += totals.data_dropped;
    }
}

impl Endpoint {
    /// The counters. It takes a look at each connection.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters;
        for connection in self.slots.iter().filter_map(|slot| slot.connection.as_deref()) {
            all.add(connection.totals());
        }
        all
    }
}
