//! Version Negotiation packets that a client discards (RFC 9000 section 6.2, RFC 8999 section 6).
//! Nothing protects them, and a packet of another type becomes one when its version is changed to 0
//! on the path.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use noq::ConnectionId;

use super::{KEEP_WAITING, MOST_WAITING};
use crate::expiring_map::ExpiringMap;
use crate::wire::header::{LongType, long_headers, long_version};
use crate::wire::{Invariants, V1};

/// A version that nobody speaks (RFC 9000 section 15).
const RESERVED: u32 = 0x0a0a_0a0a;

/// The first packets of a client's connections, by the connection ID that the client chose for
/// itself. An entry goes some time after the last Initial packet of its connection.
#[derive(Clone, Debug)]
pub(super) struct PendingHandshakes(Arc<Mutex<ExpiringMap<ConnectionId, First>>>);

/// Fields of the first packet of a connection that a server repeats, and versions that it may not
/// list.
#[derive(Debug)]
struct First {
    destination: ConnectionId,
    version: u32,
}

impl PendingHandshakes {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(ExpiringMap::new(KEEP_WAITING, MOST_WAITING, Instant::now()))))
    }

    fn lock(&self) -> MutexGuard<'_, ExpiringMap<ConnectionId, First>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a datagram that the client sends.
    pub(super) fn sent(&self, datagram: &[u8]) {
        let Some(version) = long_version(datagram) else { return };
        let Some(header) = long_headers(datagram).next() else { return };
        if header.kind == LongType::Initial {
            let [source, destination] = [header.source, header.destination].map(ConnectionId::new);
            let mut attempts = self.lock();
            attempts.age(Instant::now());
            attempts.get_or_insert(source, || First { destination, version });
        }
    }

    /// False for a Version Negotiation packet that answers no first packet, that lists the version
    /// of the one that it answers, or whose list is empty or cut off. noq discards those that come
    /// after another packet of the server.
    pub(super) fn is_acceptable(&self, datagram: &[u8]) -> bool {
        if long_version(datagram) != Some(0) {
            return true;
        }
        let Some(negotiation) = Negotiation::read(datagram) else { return false };
        let (versions, rest) = negotiation.list.as_chunks::<4>();
        let mut attempts = self.lock();
        attempts.get(&negotiation.destination).is_some_and(|first| {
            let lists_it = versions.contains(&first.version.to_be_bytes());
            first.destination == negotiation.source
                && !lists_it
                && !versions.is_empty()
                && rest.is_empty()
        })
    }
}

/// Hides version 1 in the list of a Version Negotiation packet that is acceptable. The connection
/// has then another version, which noq takes for version 1: it would ignore the packet.
pub(super) fn hide_v1(datagram: &mut [u8]) {
    if long_version(datagram) != Some(0) {
        return;
    }
    let Some(listed) = Negotiation::read(datagram).map(|negotiation| negotiation.list.len()) else {
        return;
    };
    let start = datagram.len() - listed;
    for version in datagram[start..].as_chunks_mut::<4>().0 {
        if *version == V1.to_be_bytes() {
            *version = RESERVED.to_be_bytes();
        }
    }
}

/// The fields of a Version Negotiation packet (RFC 9000 section 17.2.1).
struct Negotiation<'a> {
    destination: ConnectionId,
    source: ConnectionId,
    list: &'a [u8],
}

impl<'a> Negotiation<'a> {
    /// `None` if the packet is cut off, or an ID is longer than those of the versions that there
    /// are.
    fn read(packet: &'a [u8]) -> Option<Self> {
        const MOST_ID_BYTES: usize = 20;
        let Invariants { destination, source, rest: list, .. } = Invariants::read(packet)?;
        let fits = [destination, source].iter().all(|id| id.len() <= MOST_ID_BYTES);
        let [destination, source] = fits.then(|| [destination, source].map(ConnectionId::new))?;
        Some(Self { destination, source, list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::V2;

    const OURS: &[u8] = &[1, 2, 3, 4];
    const FIRST: &[u8] = &[5, 6, 7, 8, 9];
    const OTHER: &[u8] = &[9, 9, 9, 9];

    fn ids(destination: &[u8], source: &[u8]) -> Vec<u8> {
        [destination, source].iter().flat_map(|id| [&[id.len() as u8][..], id].concat()).collect()
    }

    /// An Initial packet that a client sends.
    fn initial(version: u32, destination: &[u8]) -> Vec<u8> {
        let first = if version == V2 { 0xd0 } else { 0xc0 };
        [&[first][..], &version.to_be_bytes(), &ids(destination, OURS), &[0, 2, 0, 0]].concat()
    }

    fn negotiation(destination: &[u8], source: &[u8], versions: &[u32]) -> Vec<u8> {
        let list = versions.iter().flat_map(|version| version.to_be_bytes()).collect();
        [vec![0xc0, 0, 0, 0, 0], ids(destination, source), list].concat()
    }

    #[test]
    fn a_version_negotiation_is_believed_only_when_it_can_be_an_answer() {
        for (version, other) in [(V1, V2), (V2, V1)] {
            let attempts = PendingHandshakes::new();
            let answer = negotiation(OURS, FIRST, &[RESERVED, other]);
            assert!(!attempts.is_acceptable(&answer), "nothing was sent");
            attempts.sent(&initial(version, FIRST));
            assert!(attempts.is_acceptable(&answer));
            assert!(!attempts.is_acceptable(&negotiation(OURS, FIRST, &[other, version])));
            assert!(!attempts.is_acceptable(&negotiation(OURS, OTHER, &[other])));
            assert!(!attempts.is_acceptable(&negotiation(OTHER, FIRST, &[other])));
            assert!(!attempts.is_acceptable(&negotiation(OURS, FIRST, &[])));
            for end in 5..answer.len() {
                let complete = end == answer.len() - 4;
                assert_eq!(attempts.is_acceptable(&answer[..end]), complete, "{end} bytes");
            }
            // After a Retry, or the server's first packet, the server has chosen its ID.
            attempts.sent(&initial(version, OTHER));
            assert!(!attempts.is_acceptable(&negotiation(OURS, OTHER, &[other])));
            assert!(attempts.is_acceptable(&answer));
        }
    }

    #[test]
    fn other_packets_pass() {
        let attempts = PendingHandshakes::new();
        let packets = [initial(V1, OURS), initial(V2, OURS), vec![0x40; 30], vec![0xc0], vec![]];
        for packet in packets {
            assert!(attempts.is_acceptable(&packet), "{packet:x?}");
            let mut same = packet.clone();
            hide_v1(&mut same);
            assert_eq!(same, packet);
        }
    }

    #[test]
    fn version_1_is_hidden_in_a_list() {
        let mut packet = negotiation(OURS, FIRST, &[V1, V2, V1]);
        hide_v1(&mut packet);
        assert_eq!(packet, negotiation(OURS, FIRST, &[RESERVED, V2, RESERVED]));
        for end in 0..packet.len() {
            hide_v1(&mut packet[..end]);
        }
    }
}
