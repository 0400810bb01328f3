//! Packets of strangers who do harm.

use std::net::{Ipv4Addr, SocketAddr};

use fullpipe_tcp::wire::{self, Control, Header};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// Packets of an attack a second.
pub(crate) const PER_SECOND: u64 = 100_000;

/// Writes one packet to a server.
pub(crate) type Make = fn(SocketAddr, &mut TestRng, &mut Vec<u8>);

/// Packets of an attack: `STRANGERS`.
pub(crate) fn packets() -> u64 {
    let packets = std::env::var("STRANGERS").ok();
    packets.map_or(200_000, |text| text.parse().expect("STRANGERS is a number"))
}

pub(crate) fn dice() -> TestRng {
    TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32])
}

/// True for a packet to a stranger.
pub(crate) fn is_for_a_stranger(packet: &[u8]) -> bool {
    packet.get(16..18) == Some(&[203, 0])
}

/// An address of 203.0.0.0/16, and any port.
fn stranger(dice: &mut TestRng) -> SocketAddr {
    let low = dice.next_u32();
    SocketAddr::from((Ipv4Addr::from(0xcb00_0000 | low >> 16), low as u16 | 1))
}

/// The first packet of a connection to a server.
pub(crate) fn syn(server: SocketAddr, dice: &mut TestRng, packet: &mut Vec<u8>) {
    let header = Header {
        seq: dice.next_u32(),
        control: Control::Syn,
        window: 60_000,
        mss: Some(1460),
        sack_permitted: true,
        ..Header::default()
    };
    wire::write(packet, stranger(dice), server, &header, [&[], &[]]);
}

/// Bytes without a meaning, half of a packet, or a segment of no connection with any flags.
pub(crate) fn garbage(server: SocketAddr, dice: &mut TestRng, packet: &mut Vec<u8>) {
    let kind = dice.next_u32() % 4;
    if kind == 0 {
        packet.resize(20 + dice.next_u32() as usize % 1400, 0);
        dice.fill_bytes(packet);
        packet[0] = 0x45;
        return;
    }
    let control = [Control::None, Control::Syn, Control::Fin, Control::Rst];
    let header = Header {
        seq: dice.next_u32(),
        ack: Some(dice.next_u32()),
        control: control[dice.next_u32() as usize % 4],
        window: dice.next_u32() as u16,
        ..Header::default()
    };
    let payload = [0xa5; 1000];
    let length = dice.next_u32() as usize % 1000;
    let port = if kind == 1 { dice.next_u32() as u16 } else { server.port() };
    let to = SocketAddr::new(server.ip(), port);
    wire::write(packet, stranger(dice), to, &header, [&payload[..length], &[]]);
    if kind == 3 {
        packet.truncate(packet.len() / 2);
    }
}
