//! Strangers who do harm, beside a connection, in virtual time: the connection sends what it sends
//! without them, what they get is no more than what they sent, and memory stays bounded.
//! `STRANGERS` says how many packets they send.

use fullpipe_cc::{Instant, Rate};
use fullpipe_path::{Header, Link, QueueLimit};
use fullpipe_tcp::{Config, Error, Handle, Info, State};

use crate::common::{App, MS, Net, ends};
use crate::flood::{Make, PER_SECOND, dice, garbage, is_for_a_stranger, packets, syn};

const BUFFER: usize = 256 << 10;
/// Half-open connections of the listener of a [`Net`].
const BACKLOG: usize = 8;
/// Connections that open and never read.
const READ_NOTHING: usize = 60;

/// A server that writes to a client as long as it reads, over 100 Mbit/s and 20 ms.
fn serve() -> Net {
    let config = Config { send_buffer: BUFFER, receive_buffer: BUFFER, ..Config::default() };
    let back = Link {
        rate: Some(Rate::from_bits_per_sec(100_000_000)),
        queue: QueueLimit::Bytes(250_000),
        delay: MS.times(10),
        ..Link::default()
    };
    let there = Link { delay: MS.times(10), ..Link::default() };
    let apps = [App::default(), App::writer(1, u64::MAX)];
    Net::new([there.into(), back.into()], [config; 2], apps)
}

/// Goes on to a time.
fn run_to(net: &mut Net, end: Instant) {
    net.run_while(end, |net| net.now < end);
    assert_eq!(net.apps.map(|app| app.error), [None; 2]);
}

/// Of the server's end.
fn info(net: &Net) -> Info {
    net.ends[1].connection(net.apps[1].handle.expect("open")).expect("open").info()
}

/// Packets and bytes that strangers got.
#[derive(Debug, Default)]
struct Told {
    packets: u64,
    bytes: usize,
}

/// Sends the server a packet, and takes what leaves for strangers; what is for the client goes on
/// its way.
fn attack(net: &mut Net, packet: &[u8], told: &mut Told) {
    net.ends[1].receive(net.now, packet);
    let mut answer = Vec::new();
    while net.ends[1].transmit(net.now, &mut answer) {
        if is_for_a_stranger(&answer) {
            told.packets += 1;
            told.bytes += answer.len();
        } else {
            let header = Header::from(answer.len() as u32);
            let _ = net.paths[1].send(net.now, header, answer.clone());
        }
    }
}

fn survives(make: Make) {
    let (wanted, server) = (packets(), ends()[1]);
    let (mut net, mut quiet) = (serve(), serve());
    let (mut dice, mut packet, mut told) = (dice(), Vec::new(), Told::default());
    let (mut sent, mut bytes) = (0, 0);
    // The handshake.
    for net in [&mut net, &mut quiet] {
        run_to(net, Instant::default() + MS.times(100));
    }
    while sent < wanted {
        for _ in 0..PER_SECOND / 1000 {
            make(server, &mut dice, &mut packet);
            attack(&mut net, &packet, &mut told);
            (sent, bytes) = (sent + 1, bytes + packet.len());
        }
        let end = net.now + MS;
        run_to(&mut net, end);
        let (connections, memory) = (net.ends[1].connections(), net.ends[1].memory());
        assert!(connections <= 1 + 2 * BACKLOG, "{connections} connections");
        assert!(memory < 2_000_000, "{memory} bytes");
    }
    run_to(&mut quiet, net.now);
    println!("{sent} packets of {bytes} bytes, {told:?}, {} bytes read", net.apps[0].read);
    assert!(net.apps[0].read > 10_000_000 * wanted / PER_SECOND, "{} read", net.apps[0].read);
    assert_eq!(net.apps[0].read, quiet.apps[0].read, "less than without strangers");
    let work = |net: &Net| (info(net).segs_out, info(net).total_retrans);
    assert_eq!(work(&net), work(&quiet), "more work than without strangers");
    // A half-open connection repeats its answer, each time after twice as long.
    assert!(told.packets <= sent + 8 * BACKLOG as u64, "more answers than packets");
    assert!(told.bytes <= bytes, "more bytes than they sent");
    // And who is no stranger still gets in.
    let handle = net.ends[0].connect(net.now, ends()[0], server, &Config::default());
    let handle = handle.expect("room");
    let end = net.now + MS.times(1000);
    run_to(&mut net, end);
    let state = net.ends[0].connection(handle).map(|c| c.state());
    assert_eq!(state, Some(State::Established), "nobody gets in");
}

#[test]
fn a_flood_of_syns_costs_a_connection_nothing() {
    survives(syn);
}

#[test]
fn a_flood_of_garbage_costs_a_connection_nothing() {
    survives(garbage);
}

/// Reads nothing, of many.
#[test]
fn peers_that_open_and_never_read_leave_half_of_the_rate() {
    let (mut net, mut quiet) = (serve(), serve());
    let config = Config { send_buffer: BUFFER, receive_buffer: BUFFER, ..Config::default() };
    let [local, server] = ends();
    let mut served: Vec<Handle> = Vec::new();
    let end = Instant::default() + MS.times(10_000);
    let (mut opened, page) = (0, vec![1; 65_536]);
    while net.now < end {
        // As many at once as the listener takes.
        if opened < READ_NOTHING && opened < served.len() + BACKLOG / 2 {
            net.ends[0].connect(net.now, local, server, &config).expect("room");
            opened += 1;
        }
        let next = net.now + MS;
        run_to(&mut net, next);
        let (now, listener) = (net.now, net.listener);
        served.extend(std::iter::from_fn(|| net.ends[1].accept(listener)));
        for handle in &served {
            while match net.ends[1].write(now, *handle, &page) {
                Ok(_) => true,
                Err(Error::WouldBlock) => false,
                Err(error) => panic!("{error}"),
            } {}
        }
        let memory = net.ends[1].memory();
        // Buffers may have twice the capacity of what is in them.
        assert!(memory < (READ_NOTHING + 1) * 3 * BUFFER, "{memory} bytes");
    }
    run_to(&mut quiet, end);
    assert_eq!(served.len(), READ_NOTHING);
    let (alone, meanwhile) = (quiet.apps[0].read, net.apps[0].read);
    println!("{alone} bytes alone, {meanwhile} meanwhile, {} bytes kept", net.ends[1].memory());
    assert!(meanwhile >= alone / 2, "less than half of its rate");
}
