//! Each check passes with what a case asks for, and fails when that is not there.

use std::time::Duration;

use fullpipe_judge::quic::{Close, Frames, Known, Opened};

use super::super::cases::{CASES, MEASUREMENTS};
use super::*;

const SERVER: &str = "198.18.0.1:443";
const CLIENT: &str = "198.18.0.2:4000";

fn packet(kind: PacketType) -> Packet {
    let frames = Frames::default();
    Packet {
        kind,
        version: if kind == PacketType::OneRtt { 0 } else { V1 },
        destination: vec![1],
        source: vec![2],
        token: Vec::new(),
        bytes: 100,
        whole_bytes: 120,
        opened: Some(Opened { connection: 0, number: 0, key_phase: false, frames }),
    }
}

fn frames(packet: &mut Packet) -> &mut Frames {
    &mut packet.opened.as_mut().expect("it is open").frames
}

fn seen(is_from_server: bool, bytes: usize, packets: Vec<Packet>) -> Seen {
    let ends = [CLIENT, SERVER].map(|end| end.parse().expect("an address"));
    let (from, to) = if is_from_server { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
    Seen { at: Duration::ZERO, from, to, is_from_server, ecn: ECT0, bytes, packets }
}

/// A case with one handshake: an Initial and a Handshake packet of each end, one packet of data of
/// each.
fn ground(kind: Kind) -> Ground<'static> {
    let case = CASES.iter().chain(&MEASUREMENTS).find(|case| case.kind == kind).expect("a case");
    let trace = || {
        let one = |is_server, kind| seen(is_server, 1200, vec![packet(kind)]);
        Trace {
            datagrams: vec![
                one(false, PacketType::Initial),
                one(true, PacketType::Initial),
                one(true, PacketType::Handshake),
                one(false, PacketType::Handshake),
                one(false, PacketType::OneRtt),
                one(true, PacketType::OneRtt),
            ],
            connections: vec![Known {
                random: Some([0; 32]),
                suite: Some(0x1301),
                ..Known::default()
            }],
            handshake_bytes: vec![1000],
        }
    };
    let mut ground =
        Ground { case, client: trace(), server: trace(), has_keys: true, is_own_server: true };
    for n in 1..case.handshakes {
        let mut more = packet(PacketType::Initial);
        more.source = vec![9, n as u8];
        ground.server.datagrams.push(seen(true, 1200, vec![more]));
    }
    ground
}

fn grade(ground: &Ground<'_>) -> Grade {
    check(ground).into_parts().0
}

/// A change, and words of what is wrong then.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Ground<'static>));

/// Passes as it is, and fails with the words after each change alone.
#[track_caller]
fn breaks(make: impl Fn() -> Ground<'static>, changes: &[Change<'_>]) {
    let verdict = check(&make());
    assert_eq!((verdict.wrong, verdict.unchecked), (vec![], vec![]));
    for (words, change) in changes {
        let mut ground = make();
        change(&mut ground);
        let verdict = check(&ground);
        assert!(verdict.wrong.iter().any(|wrong| wrong.contains(words)), "{words}: {verdict:?}");
    }
}

#[test]
fn a_handshake_is_one_of_version_1_without_a_retry() {
    breaks(
        || ground(Kind::Handshake),
        &[
            ("there was a Retry", &|g| {
                g.client.datagrams.push(seen(true, 100, vec![packet(PacketType::Retry)]));
            }),
            ("2 handshakes in place of 1", &|g| {
                let mut other = packet(PacketType::Initial);
                other.source = vec![3];
                g.server.datagrams.push(seen(true, 1200, vec![other]));
            }),
            ("0x6b3343cf in place of version 1", &|g| {
                g.server.datagrams[1].packets[0].version = V2
            }),
            ("0 handshakes", &|g| g.server.datagrams.clear()),
        ],
    );
    for kind in [Kind::HandshakeLoss, Kind::HandshakeCorruption] {
        breaks(
            || ground(kind),
            &[("49 handshakes in place of 50", &|g| drop(g.server.datagrams.pop()))],
        );
    }
}

#[test]
fn a_transfer_ends_without_an_error() {
    let close = |code| Some(Close { is_application: true, code });
    let closed = move || {
        let mut g = ground(Kind::Transfer);
        frames(&mut g.client.datagrams[4].packets[0]).close = close(0);
        g
    };
    breaks(
        closed,
        &[("client closed the connection with code 0x10", &move |g| {
            frames(&mut g.client.datagrams[4].packets[0]).close = close(16);
        })],
    );
    let mut without = ground(Kind::Transfer);
    without.has_keys = false;
    assert_eq!(grade(&without), Grade::NotChecked);
}

#[test]
fn a_long_round_trip_repeats_the_client_hello() {
    let hello = |packet: &mut Packet| frames(packet).crypto.push((0, vec![1, 0]));
    let twice = move || {
        let mut g = ground(Kind::LongRtt);
        hello(&mut g.client.datagrams[0].packets[0]);
        let mut again = packet(PacketType::Initial);
        hello(&mut again);
        g.client.datagrams.push(seen(false, 1200, vec![again]));
        g
    };
    breaks(twice, &[("1 times in place of at least 2", &|g| drop(g.client.datagrams.pop()))]);
}

#[test]
fn chacha20_is_offered_alone_and_used() {
    let make = || {
        let mut g = ground(Kind::ChaCha20);
        g.client.connections[0].offered = vec![CHACHA20];
        g.server.connections[0].suite = Some(CHACHA20);
        g
    };
    breaks(
        make,
        &[
            ("0x1303, 0x1301", &|g| g.client.connections[0].offered.push(0x1301)),
            ("was not used", &|g| g.server.connections[0].suite = Some(0x1302)),
        ],
    );
}

#[test]
fn multiplexing_needs_a_limit_that_is_raised() {
    let make = || {
        let mut g = ground(Kind::Multiplexing);
        g.server.connections[0].max_streams = Some(1000);
        g
    };
    breaks(
        make,
        &[("2000 streams at once", &|g| g.server.connections[0].max_streams = Some(2000))],
    );
    assert_eq!(grade(&ground(Kind::Multiplexing)), Grade::NotChecked);
}

#[test]
fn a_retry_is_sent_and_its_token_returned() {
    let make = || {
        let mut g = ground(Kind::Retry);
        let mut retry = packet(PacketType::Retry);
        retry.token = vec![7];
        let mut answer = packet(PacketType::Initial);
        answer.token = vec![7];
        answer.opened.as_mut().expect("open").number = 1;
        g.client.datagrams.push(seen(true, 100, vec![retry]));
        g.client.datagrams.push(seen(false, 1200, vec![answer]));
        g
    };
    let at = make().client.datagrams.len();
    breaks(
        make,
        &[
            ("the server sent no Retry", &move |g| drop(g.client.datagrams.remove(at - 2))),
            ("returned no token", &move |g| g.client.datagrams[at - 1].packets[0].token = vec![8]),
            ("had no token", &move |g| g.client.datagrams[at - 2].packets[0].token.clear()),
            ("count its packets anew", &move |g| {
                g.client.datagrams[at - 1].packets[0].opened.as_mut().expect("open").number = 0;
            }),
        ],
    );
}

#[test]
fn a_resumed_session_has_no_certificate() {
    let make = || {
        let mut g = ground(Kind::Resumption);
        let first = Known { suite: Some(0x1301), has_certificate: true, ..Known::default() };
        let second = Known { has_certificate: false, ..first.clone() };
        g.server.connections = vec![first, second];
        g
    };
    breaks(
        make,
        &[
            ("the second handshake has a certificate", &|g| {
                g.server.connections[1].has_certificate = true
            }),
            ("1 handshakes were read", &|g| drop(g.server.connections.pop())),
        ],
    );
    let mut without = make();
    without.has_keys = false;
    assert_eq!(grade(&without), Grade::NotChecked);
}

#[test]
fn requests_go_in_0rtt_packets() {
    let make = || {
        let mut g = ground(Kind::ZeroRtt);
        g.client.datagrams.push(seen(false, 1200, vec![packet(PacketType::ZeroRtt)]));
        g
    };
    breaks(
        make,
        &[
            ("no 0-RTT packet", &|g| drop(g.client.datagrams.pop())),
            ("5001 bytes in 1-RTT", &|g| g.client.datagrams[4].packets[0].bytes = 5001),
        ],
    );
}

#[test]
fn http3_is_what_the_server_chose() {
    let make = || {
        let mut g = ground(Kind::Http3);
        g.server.connections[0].protocol = Some(b"h3".to_vec());
        g
    };
    breaks(
        make,
        &[("\"hq-interop\" in place of h3", &|g| {
            g.server.connections[0].protocol = Some(b"hq-interop".to_vec());
        })],
    );
}

#[test]
fn both_ends_change_the_key_phase() {
    let make = || {
        let mut g = ground(Kind::KeyUpdate);
        for (trace, at) in [(&mut g.client, 4), (&mut g.server, 5)] {
            trace.datagrams[at].packets[0].opened.as_mut().expect("open").key_phase = true;
        }
        g
    };
    breaks(
        make,
        &[
            ("the client never changed", &|g| g.client.datagrams[4].packets[0].opened = None),
            ("the server never changed", &|g| g.server.datagrams[5].packets[0].opened = None),
        ],
    );
}

#[test]
fn both_ends_mark_and_count() {
    let make = || {
        let mut g = ground(Kind::Ecn);
        frames(&mut g.client.datagrams[4].packets[0]).ecn_counts = Some([1, 0, 0]);
        frames(&mut g.server.datagrams[5].packets[0]).ecn_counts = Some([1, 0, 0]);
        g
    };
    breaks(
        make,
        &[
            ("the client marked no packet", &|g| {
                g.client.datagrams.iter_mut().for_each(|s| s.ecn = 0)
            }),
            ("the server sent packets with CE", &|g| g.server.datagrams[5].ecn = CE),
            ("the server acknowledged without", &|g| {
                frames(&mut g.server.datagrams[5].packets[0]).ecn_counts = None;
            }),
        ],
    );
}

#[test]
fn a_server_stays_within_the_amplification_limit() {
    let make = || {
        let mut g = ground(Kind::AmplificationLimit);
        g.server.handshake_bytes = vec![8000];
        g.server.datagrams[2].bytes = 2400;
        g
    };
    breaks(
        make,
        &[
            ("3.00 times", &|g| g.server.datagrams[2].bytes = 2401),
            ("does not use its certificate chain", &|g| g.server.handshake_bytes = vec![7499]),
            ("no Handshake packet", &|g| drop(g.server.datagrams.remove(3))),
        ],
    );
    // The runner's rule, for others.
    let mut other = make();
    other.is_own_server = false;
    other.server.datagrams[2].bytes = 3599;
    assert_eq!(grade(&other), Grade::Passed);
    other.server.datagrams[2].bytes = 3600;
    assert_eq!(grade(&other), Grade::Failed);
    // What comes after the client has shown its address does not count.
    let mut later = make();
    later.server.datagrams[5].bytes = 100_000;
    assert_eq!(grade(&later), Grade::Passed);
}

#[test]
fn ipv6_is_alone() {
    let make = || {
        let mut g = ground(Kind::Ipv6);
        for seen in &mut g.server.datagrams {
            seen.from = "[2001:2::1]:443".parse().expect("an address");
        }
        g
    };
    breaks(
        make,
        &[("1 packets of IPv4", &|g| g.server.datagrams[0].from = CLIENT.parse().expect("one"))],
    );
}

#[test]
fn version_2_follows_version_1() {
    let make = || {
        let mut g = ground(Kind::V2);
        for trace in [&mut g.client, &mut g.server] {
            for seen in &mut trace.datagrams[1..4] {
                seen.packets[0].version = V2;
            }
        }
        g
    };
    breaks(
        make,
        &[
            ("the client began with version 0x6b3343cf", &|g| {
                g.client.datagrams[0].packets[0].version = V2
            }),
            ("the server's Initial packets have version 0x00000001", &|g| {
                g.server.datagrams[1].packets[0].version = V1;
            }),
            ("the server's Handshake packets", &|g| g.server.datagrams[2].packets[0].version = V1),
            ("the client's Handshake packets", &|g| g.client.datagrams[3].packets[0].version = V1),
        ],
    );
}

/// The server sends to another port of the client, with a challenge that the client answers.
fn moved(kind: Kind) -> Ground<'static> {
    let mut g = ground(kind);
    let mut challenge = packet(PacketType::OneRtt);
    frames(&mut challenge).challenges.push([1; 8]);
    let mut answer = packet(PacketType::OneRtt);
    frames(&mut answer).responses.push([1; 8]);
    answer.destination = vec![5];
    let mut there = seen(true, 1200, vec![challenge]);
    there.to = "198.18.0.6:4001".parse().expect("an address");
    g.server.datagrams.push(there);
    let mut back = seen(false, 1200, vec![answer]);
    back.to = "198.18.0.1:444".parse().expect("an address");
    g.client.datagrams.push(back);
    g
}

#[test]
fn a_new_path_has_a_challenge_that_is_answered() {
    for kind in [Kind::RebindPort, Kind::RebindAddr, Kind::ConnectionMigration] {
        breaks(
            || moved(kind),
            &[
                ("has no PATH_CHALLENGE", &|g| {
                    frames(&mut g.server.datagrams[6].packets[0]).challenges.clear();
                }),
                ("did not answer 1 of 1", &|g| {
                    frames(&mut g.client.datagrams[6].packets[0]).responses.clear()
                }),
                ("one path alone", &|g| drop(g.server.datagrams.pop())),
            ],
        );
    }
    breaks(
        || moved(Kind::RebindAddr),
        &[("one address of the client alone", &|g| {
            g.server.datagrams[6].to = "198.18.0.2:4001".parse().expect("an address");
        })],
    );
    breaks(
        || moved(Kind::ConnectionMigration),
        &[
            ("has the connection ID of the path before", &|g| {
                g.client.datagrams[6].packets[0].destination = vec![1];
            }),
            ("the client used one path alone", &|g| {
                g.client.datagrams[6].to = SERVER.parse().expect("an address");
            }),
        ],
    );
    let mut without = moved(Kind::RebindPort);
    without.has_keys = false;
    assert_eq!(grade(&without), Grade::NotChecked);
}

#[test]
fn goodput_is_from_the_first_to_the_last_packet_of_data() {
    let make = || {
        let mut g = ground(Kind::Goodput);
        g.client.datagrams[5].at = Duration::from_secs(1);
        let mut last = seen(true, 1200, vec![packet(PacketType::OneRtt)]);
        last.at = Duration::from_secs(11);
        g.client.datagrams.push(last);
        // The client's own do not count.
        let mut own = seen(false, 40, vec![packet(PacketType::OneRtt)]);
        own.at = Duration::from_secs(20);
        g.client.datagrams.push(own);
        g
    };
    assert_eq!(make().kbps(), Some(8.0 * 10.0 * 1_048_576.0 / 10.0 / 1000.0));
    breaks(make, &[("sent no data", &|g| g.client.datagrams.truncate(6))]);
}
