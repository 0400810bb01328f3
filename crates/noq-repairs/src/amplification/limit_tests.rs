use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};

use noq::udp::Transmit;

use crate::amplification::peer::Challenge;
use crate::filter::{NotTaken, OnSend};

fn packet(kind: u8, destination: &[u8], source: &[u8], bytes: usize) -> Vec<u8> {
    let mut packet = vec![0xc0 | kind << 4, 0, 0, 0, 1, destination.len() as u8];
    packet.extend_from_slice(destination);
    packet.push(source.len() as u8);
    packet.extend_from_slice(source);
    if kind == 0 {
        packet.push(0);
    }
    let rest = (bytes - packet.len() - 2) as u16;
    packet.extend_from_slice(&(0x4000 | rest).to_be_bytes());
    packet.resize(bytes, 0);
    packet
}

/// A packet with a short header.
fn data(destination: &[u8], bytes: usize) -> Vec<u8> {
    let mut packet = [&[0x40][..], destination].concat();
    packet.resize(bytes, 7);
    packet
}

const CLIENT: [u8; 8] = [1; 8];
const SERVER: [u8; 8] = [2; 8];
const SECOND: [u8; 8] = [3; 8];

fn address(port: u16) -> SocketAddr {
    ([192, 0, 2, 1], port).into()
}

fn permit(guard: &AmplificationLimit, to: SocketAddr, datagram: &[u8]) -> bool {
    guard.permit(to, datagram, Waker::noop())
}

/// A connection from this address with these connection IDs of the server.
fn peer(guard: &AmplificationLimit, first: SocketAddr, ids: &[Cid]) -> Arc<Peer> {
    let peer = Arc::new(Peer::new(guard.clone(), first));
    ids.iter().for_each(|id| peer.enter(*id));
    peer
}

fn validated_peer(guard: &AmplificationLimit, first: SocketAddr, ids: &[Cid]) -> Arc<Peer> {
    let peer = peer(guard, first, ids);
    peer.handshake_done();
    peer
}

fn challenge(data: u8, small: usize, added: bool) -> Challenge {
    Challenge { data: [data; 8], small: Some(vec![9; small]), number: 7, loses: true, added }
}

#[test]
fn three_times_and_not_a_byte_more() {
    let guard = AmplificationLimit::default();
    let (now, from) = (Instant::now(), address(1));
    guard.received(from, &packet(0, &SERVER, &CLIENT, 1252), now);
    let answer = packet(0, &CLIENT, &SERVER, 1200);
    for _ in 0..3 {
        assert!(permit(&guard, from, &answer));
    }
    assert!(!permit(&guard, from, &answer));
    assert!(permit(&guard, from, &packet(0, &CLIENT, &SERVER, 156)));
    assert!(!permit(&guard, from, &packet(0, &CLIENT, &SERVER, 30)));
    // More from there gives more, also when the connection is known by then.
    let peer = peer(&guard, from, &[SERVER]);
    guard.received(from, &packet(0, &SERVER, &CLIENT, 1200), now);
    assert_eq!(peer.permit(from, &answer), None, "the guard counts in a handshake");
    assert!(permit(&guard, from, &answer));
}

/// Before a connection is validated, and on one that is and whose packets come from ever new ports.
#[test]
fn another_port_gives_no_room() {
    let guard = AmplificationLimit::default();
    let now = Instant::now();
    let (mut received, mut sent) = (0, 0);
    let moving = validated_peer(&guard, address(1), &[SERVER]);
    let answer = packet(0, &CLIENT, &SECOND, 100);
    for round in 0..200 {
        // A port is used again after some others, and more of them than are remembered.
        let from = address(1000 + round % 70);
        let first = packet(0, &SECOND, &CLIENT, 120);
        guard.received(from, &first, now);
        received += first.len();
        let more = data(&SERVER, 50);
        guard.received(from, &more, now);
        received += more.len();
        for _ in 0..20 {
            sent += if permit(&guard, from, &answer) { answer.len() } else { 0 };
            let is_permitted = moving.permit(from, &answer) == Some(Allowance::Yes);
            sent += if is_permitted { answer.len() } else { 0 };
        }
    }
    assert!(sent <= FACTOR as usize * received, "{sent} for {received}");
    assert!(sent > received, "something was sent: {sent}");
}

#[test]
fn a_handshake_packet_with_the_servers_connection_id_validates_its_own_address_only() {
    let guard = AmplificationLimit::default();
    let (now, from, other) = (Instant::now(), address(1), address(2));
    let peer = peer(&guard, from, &[SERVER]);
    // Guessed, or from elsewhere, or an Initial, which is not proof enough here.
    guard.received(from, &packet(2, &[9; 8], &CLIENT, 50), now);
    guard.received(other, &packet(2, &SERVER, &CLIENT, 50), now);
    guard.received(from, &packet(0, &SERVER, &CLIENT, 50), now);
    assert!(peer.is_in_handshake());
    // Behind an Initial in the same datagram.
    let both = [packet(0, &SERVER, &CLIENT, 60), packet(2, &SERVER, &CLIENT, 60)].concat();
    guard.received(from, &both, now);
    assert!(!peer.is_in_handshake());
    assert_eq!(peer.permit(from, &[0; 3000]), Some(Allowance::Yes));
    assert_eq!(peer.permit(other, &[0; 30]), Some(Allowance::No));
}

#[test]
fn an_address_is_validated_by_one_connection_and_for_no_other() {
    let guard = AmplificationLimit::default();
    let (now, from, other) = (Instant::now(), address(1), address(2));
    let theirs = validated_peer(&guard, from, &[SERVER]);
    let attackers = validated_peer(&guard, other, &[SECOND]);
    // What the other connection gets from there is not the attacker's either.
    guard.received(from, &data(&SERVER, 1200), now);
    assert_eq!(attackers.permit(from, &[0; 30]), Some(Allowance::No));
    guard.received(from, &data(&SECOND, 29), now);
    assert_eq!(attackers.permit(from, &[0; 1200]), Some(Allowance::No));
    assert_eq!(attackers.permit(from, &[0; 87]), Some(Allowance::Yes));
    assert_eq!(attackers.permit(from, &[0; 1]), Some(Allowance::No));
    assert_eq!(theirs.permit(from, &[0; 60_000]), Some(Allowance::Yes));
    // Nor for a handshake in its name.
    let third = peer(&guard, from, &[[4; 8]]);
    guard.received(from, &packet(0, &[5; 8], &CLIENT, 1200), now);
    assert_eq!(third.permit(from, &[0; 3601]), None);
    assert!(!permit(&guard, from, &[0; 3601]));
}

#[test]
fn a_challenge_takes_an_address_that_a_client_returns_to_for_new() {
    let guard = AmplificationLimit::default();
    let (now, first, second) = (Instant::now(), address(1), address(2));
    let peer = validated_peer(&guard, first, &[SERVER]);
    let generation = peer.open_to(first).expect("validated");
    guard.received(second, &data(&SERVER, 40), now);
    assert!(peer.has_moved());
    peer.challenge([8; 16], challenge(1, 60, false));
    assert_eq!(peer.open_to(first), None, "whoever sends looks for the challenge");
    let large = [vec![0; 1184], vec![8; 16]].concat();
    assert_eq!(peer.permit(second, &large), Some(Allowance::Instead(vec![9; 60])));
    assert_eq!(peer.open_to(first), Some(generation));
    peer.validated(second);
    assert!(peer.open_to(second).is_some());
    // The attacker speaks for whoever has the first address now.
    guard.received(first, &data(&SERVER, 29), now);
    peer.challenge([8; 16], challenge(2, 60, false));
    assert_eq!(peer.permit(first, &large), Some(Allowance::Instead(vec![9; 60])));
    assert_eq!(peer.open_to(first), None);
    assert!(!peer.is_still_open(generation));
    assert!(peer.open_to(second).is_some());
}

#[test]
fn the_answer_to_a_probe_takes_no_address_in_use_for_new() {
    let guard = AmplificationLimit::default();
    let (now, first, second) = (Instant::now(), address(1), address(2));
    let peer = validated_peer(&guard, first, &[SERVER]);
    peer.validated(second);
    assert!(peer.open_to(second).is_some());
    for (to, stays) in [(second, true), (first, false)] {
        guard.received(to, &data(&SERVER, 50), now);
        peer.challenge([8; 16], challenge(1, 60, true));
        let large = [vec![0; 1184], vec![8; 16]].concat();
        let sent = peer.permit(to, &large).expect("after the handshake");
        assert_eq!(sent == Allowance::Yes, stays);
        assert!(peer.open_to(second).is_some(), "data goes on");
    }
    assert_eq!(peer.open_to(first), None);
}

#[test]
fn the_first_packets_with_a_new_connection_id_count_for_their_connection() {
    let guard = AmplificationLimit::default();
    let (now, first, second) = (Instant::now(), address(1), address(2));
    let peer = validated_peer(&guard, first, &[SERVER]);
    guard.received(second, &data(&SECOND, 100), now);
    assert_eq!(peer.permit(second, &[0; 30]), Some(Allowance::No));
    peer.opened(&data(&SECOND, 12));
    assert_eq!(peer.permit(second, &[0; 300]), Some(Allowance::Yes));
    assert_eq!(peer.permit(second, &[0; 1]), Some(Allowance::No));
    assert!(!permit(&guard, second, &[0; 1]), "nobody else may send for them");
}

#[test]
fn what_is_forgotten_never_gets_more() {
    let guard = AmplificationLimit::default();
    let now = Instant::now();
    let peer = validated_peer(&guard, address(1), &[SERVER]);
    for _round in 0..3 {
        for port in 2..40 {
            guard.received(address(port), &data(&SERVER, 30), now);
            assert_eq!(peer.permit(address(port), &[0; 90]), Some(Allowance::Yes));
            assert_eq!(peer.permit(address(port), &[0; 1]), Some(Allowance::No));
        }
    }
    assert!(peer.open_to(address(1)).is_some());
    for id in 10..100 {
        peer.enter([id; 8]);
    }
    assert!(guard.known().peers.len() <= 32);
    drop(peer);
    assert_eq!(guard.known().peers.len(), 0);
}

#[test]
fn an_address_that_says_nothing_for_long_is_forgotten() {
    let guard = AmplificationLimit::default();
    let now = Instant::now();
    guard.received(address(1), &data(&SERVER, 1200), now);
    for minute in 1..3 {
        guard.received(address(2), &data(&SERVER, 30), now + Duration::from_secs(60 * minute));
    }
    assert!(!permit(&guard, address(1), &[0; 30]));
}

#[test]
fn what_the_system_does_not_take_counts_once() {
    let guard = AmplificationLimit::default();
    let (now, first, second) = (Instant::now(), address(1), address(2));
    let filter = guard.filter();
    let (_endpoints, mut sender) = (filter.sender(), filter.sender());
    let mut cx = Context::from_waker(Waker::noop());
    let mut asked = |to, contents: &[u8], segment_size, is_taken: bool| {
        let transmit =
            Transmit { destination: to, ecn: None, contents, segment_size, src_ip: None };
        let permitted = sender.on_send(&transmit, &mut cx);
        let refused = (!is_taken).then(|| sender.not_taken(&transmit));
        (permitted, refused)
    };
    let peer = peer(&guard, first, &[SERVER]);
    guard.received(first, &packet(0, &SERVER, &CLIENT, 1200), now);
    let handshake = packet(0, &CLIENT, &SERVER, 3600);
    for _ in 0..3 {
        let refused = asked(first, &handshake, None, false);
        assert_eq!(refused, (OnSend::Keep, Some(NotTaken::Wait)));
    }
    assert_eq!(asked(first, &handshake, None, true), (OnSend::Keep, None));
    assert_eq!(asked(first, &[0; 1], None, true).0, OnSend::Wait);
    peer.handshake_done();
    let refused = asked(first, &[0; 60_000], Some(1200), false);
    assert_eq!(refused, (OnSend::Keep, Some(NotTaken::Wait)));
    // Elsewhere data must not wait for what the address lacks.
    assert_eq!(asked(second, &[0; 30], None, true).0, OnSend::Drop);
    guard.received(second, &data(&SERVER, 40), now);
    assert_eq!(asked(second, &[0; 120], Some(60), true).0, OnSend::Split);
    assert_eq!(asked(second, &[0; 121], None, true).0, OnSend::Drop);
    let lost = asked(second, &[0; 120], None, false);
    assert_eq!(lost, (OnSend::Keep, Some(NotTaken::Lose)));
    assert_eq!(asked(second, &[0; 1], None, true).0, OnSend::Drop);
    assert_eq!(asked(first, &[0; 60_000], Some(1200), true).0, OnSend::Keep);
}

/// A waker that needs the lock itself, as one that sends at once does.
struct Sends {
    guard: AmplificationLimit,
    woken: AtomicUsize,
}

impl Wake for Sends {
    fn wake(self: Arc<Self>) {
        assert!(self.guard.0.try_lock().is_ok(), "the lock is held");
        self.woken.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_is_woken_finds_the_lock_free() {
    let guard = AmplificationLimit::default();
    let sends = Arc::new(Sends { guard: guard.clone(), woken: AtomicUsize::new(0) });
    let waker = Waker::from(sends.clone());
    let (from, now) = (address(1), Instant::now());
    let wait = || assert!(!guard.permit(from, &[0; 100_000], &waker));
    guard.received(from, &data(&SECOND, 30), now);
    wait();
    guard.received(from, &data(&SECOND, 30), now);
    wait();
    guard.count(from, 1);
    wait();
    guard.wake(from);
    assert_eq!(sends.woken.load(Ordering::Relaxed), 3);
}
