//! Long headers between the wire and noq.

use std::net::SocketAddr;
use std::task::Context;
use std::time::Instant;

use noq::udp::Transmit;

use super::negotiation::{PendingHandshakes, hide_v1};
use super::{NegotiationTable, QuicVersions};
use crate::filter::{Filter, OnReceive, OnSend, Outgoing};
use crate::layer::TAG_BYTES;
use crate::wire::header::{long_headers, long_version};
use crate::wire::{LONG_FORM, V1, V2};

const FIXED_BIT: u8 = 0x40;
const TYPE_BITS: u8 = 0x30;
/// Bits of the type in the first byte of a Retry of version 1.
const RETRY_V1: u8 = 0x30;

/// The types of version 2 are those of version 1 and one more, modulo four (RFC 9369 section 3.2).
const fn with_type_added(first: u8, added: u8) -> u8 {
    first & !TYPE_BITS | first.wrapping_add(added << 4) & TYPE_BITS
}

fn set_version(packet: &mut [u8], version: u32) {
    if let Some(bytes) = packet.get_mut(1..5) {
        bytes.copy_from_slice(&version.to_be_bytes());
    }
}

/// Writes a long header of version 1, as noq makes it, as one of version 2.
pub(super) fn make_v2(packet: &mut [u8]) {
    if let Some(first) = packet.first_mut() {
        *first = with_type_added(*first, 1);
    }
    set_version(packet, V2);
}

/// The header as it was on the wire, of one that noq has got.
pub(super) fn as_received(header: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    if is_marked(&header) {
        header[0] |= FIXED_BIT;
        make_v2(&mut header);
    }
    header
}

/// True if a packet that noq has got was of version 2 on the wire.
pub(super) fn is_marked(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & (LONG_FORM | FIXED_BIT) == LONG_FORM)
}

/// True if a packet has a long header.
pub(super) fn is_long(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & LONG_FORM != 0)
}

/// True if a packet that is about to be sent is of version 2.
pub(super) fn is_v2(packet: &[u8]) -> bool {
    long_version(packet) == Some(V2)
}

/// Turns the headers of version 2 in a received datagram into marked ones of version 1.
fn receive(datagram: &mut [u8]) {
    if !is_v2(datagram) {
        return;
    }
    let starts: Vec<usize> = long_headers(datagram).map(|header| header.start).collect();
    for start in starts {
        let packet = &mut datagram[start..];
        if is_v2(packet) {
            packet[0] = with_type_added(packet[0], 3) & !FIXED_BIT;
            set_version(packet, V1);
        }
    }
}

/// A filter above which packets of version 2 are noq's of version 1.
#[derive(Clone, Debug)]
struct Versions {
    notes: NegotiationTable,
    versions: QuicVersions,
    /// Those of a client. A server's noq gets no Version Negotiation packet.
    attempts: Option<PendingHandshakes>,
}

impl NegotiationTable {
    /// The filter of a server's socket; a server that speaks version 1 alone needs none.
    pub(crate) fn filter(&self, versions: QuicVersions) -> Option<Box<dyn Filter>> {
        let filter = Versions { notes: self.clone(), versions, attempts: None };
        (versions != QuicVersions::V1).then(|| Box::new(filter) as _)
    }
}

/// The filter of a client's socket, which also discards Version Negotiation packets.
pub(crate) fn client_filter(versions: QuicVersions) -> Box<dyn Filter> {
    let attempts = Some(PendingHandshakes::new());
    Box::new(Versions { notes: NegotiationTable::default(), versions, attempts })
}

impl Filter for Versions {
    fn on_receive(&self, _from: SocketAddr, datagram: &mut [u8], _now: Instant) -> OnReceive {
        if self.attempts.as_ref().is_some_and(|attempts| !attempts.is_acceptable(datagram)) {
            return OnReceive::Drop;
        }
        if self.versions != QuicVersions::V1 {
            receive(datagram);
        }
        if self.attempts.is_some() {
            hide_v1(datagram);
        }
        OnReceive::Keep
    }

    fn sender(&self) -> Box<dyn Outgoing> {
        Box::new(self.clone())
    }
}

impl Outgoing for Versions {
    /// Retry packets have no protection in which their header could be written, so it is written
    /// here.
    fn on_send(&mut self, transmit: &Transmit<'_>, _cx: &mut Context<'_>) -> OnSend {
        let packet = transmit.contents;
        if let Some(attempts) = &self.attempts {
            attempts.sent(packet);
        }
        let may_be_retry = is_long(packet)
            && packet[0] & TYPE_BITS == RETRY_V1
            && long_version(packet) == Some(V1);
        let tag = packet.last_chunk::<TAG_BYTES>().filter(|_| may_be_retry);
        if !tag.is_some_and(|tag| self.notes.is_retry_of_v2(tag)) {
            return OnSend::Keep;
        }
        let mut contents = packet.to_vec();
        make_v2(&mut contents);
        OnSend::Rewrite { destination: transmit.destination, contents: Some(contents) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_received_as_version_2_is_known_as_it_was() {
        // Initial without a token, Handshake, a short header.
        let initial = [&[0xd3][..], &V2.to_be_bytes(), &[1, 9, 0, 0, 3, 7, 7, 7]].concat();
        let handshake = [&[0xf1][..], &V2.to_be_bytes(), &[1, 9, 0, 2, 8, 8]].concat();
        let wire = [&initial[..], &handshake, &[0x41, 9, 9, 9, 9, 9, 9]].concat();
        let mut datagram = wire.clone();
        receive(&mut datagram);
        let second = initial.len();
        assert_eq!((datagram[0], datagram[second]), (0x83, 0xa1), "the types of version 1, marked");
        for start in [0, second] {
            assert_eq!(datagram[start + 1..start + 5], V1.to_be_bytes());
            assert!(is_marked(&datagram[start..]));
            assert_eq!(as_received(&datagram[start..start + 9]), wire[start..start + 9]);
        }
        let behind = second + handshake.len();
        assert_eq!(datagram[behind..], wire[behind..]);
        assert_eq!(as_received(&datagram[behind..]), wire[behind..]);
    }

    #[test]
    fn other_versions_stay_as_they_are() {
        for version in [V1, 0, 2, u32::MAX] {
            let wire = [&[0xc0][..], &version.to_be_bytes(), &[1, 9, 0, 0, 1, 7]].concat();
            let mut datagram = wire.clone();
            receive(&mut datagram);
            assert_eq!(datagram, wire, "{version:#x}");
        }
        let mut first = vec![0xc0];
        for (added, kind) in [(1, 0xd0), (2, 0xe0), (3, 0xf0), (4, 0xc0)] {
            make_v2(&mut first);
            assert_eq!(first[0], kind, "{added}");
        }
    }
}
