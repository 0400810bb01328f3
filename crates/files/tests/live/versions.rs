//! Versions 1 and 2 of QUIC between this server and this client, as they are seen on the wire.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{fetch, loopback};
use fullpipe_files::{
    ClientError, ClientOptions, Connector, Content, Limits, QuicVersions, Server, ServerOptions,
    ServerTls, Verify, bulk_block,
};
use fullpipe_testkit::PATIENCE;

const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;

/// The types of packets with a long header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}
use Kind::{Handshake, Initial, Retry, ZeroRtt};

/// The packets that one end has sent.
type Seen = Arc<Mutex<BTreeSet<(u32, Kind)>>>;

/// A relay between a client and a server that notes what has a long header.
struct Relay {
    address: SocketAddr,
    client: Seen,
    server: Seen,
}

/// A variable-length integer and what is behind it.
fn integer(bytes: &[u8]) -> (usize, &[u8]) {
    let (number, rest) = bytes.split_at(1 << (bytes[0] >> 6));
    let first = usize::from(number[0] & 0x3f);
    (number[1..].iter().fold(first, |value, byte| value << 8 | usize::from(*byte)), rest)
}

fn note(seen: &Seen, mut datagram: &[u8]) {
    while let Some((head, rest)) = datagram.split_first_chunk::<5>() {
        if head[0] & 0x80 == 0 {
            return;
        }
        let version = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let added = if version == V2 { 1 } else { 0 };
        let kinds = [Initial, ZeroRtt, Handshake, Retry];
        let kind = kinds[usize::from((head[0] >> 4).wrapping_sub(added) & 3)];
        seen.lock().expect("no panic").insert((version, kind));
        if kind == Retry || version == 0 {
            return;
        }
        let mut rest = rest;
        for _ in 0..2 {
            rest = &rest[1 + usize::from(rest[0])..];
        }
        if kind == Initial {
            let (token, behind) = integer(rest);
            rest = &behind[token..];
        }
        let (length, packet) = integer(rest);
        datagram = &packet[length..];
    }
}

/// Datagrams of somebody on the path to the client when a datagram comes by, before that goes on:
/// gets `true` if it is the client's.
type Forge = Arc<dyn Fn(bool, &[u8]) -> Vec<Vec<u8>> + Send + Sync>;

impl Relay {
    fn to(server: SocketAddr) -> Self {
        Self::forging(server, Arc::new(|_, _| Vec::new()))
    }

    fn forging(server: SocketAddr, forge: Forge) -> Self {
        let front = UdpSocket::bind(loopback()).expect("a socket");
        let back = UdpSocket::bind(loopback()).expect("a socket");
        let address = front.local_addr().expect("an address");
        let relay = Self { address, client: Seen::default(), server: Seen::default() };
        let client_address = Arc::new(Mutex::new(None));
        let clones = |socket: &UdpSocket| socket.try_clone().expect("a socket");
        for (from, to, seen, is_client) in [
            (clones(&front), clones(&back), relay.client.clone(), true),
            (back, clones(&front), relay.server.clone(), false),
        ] {
            let (client_address, forge, front) =
                (client_address.clone(), forge.clone(), clones(&front));
            thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok((length, peer)) = from.recv_from(&mut buffer) {
                    note(&seen, &buffer[..length]);
                    let mut client = client_address.lock().expect("no panic");
                    let target = if is_client {
                        *client = Some(peer);
                        Some(server)
                    } else {
                        *client
                    };
                    for forged in forge(is_client, &buffer[..length]) {
                        client.map(|client| front.send_to(&forged, client));
                    }
                    // What does not arrive is lost.
                    target.map(|target| to.send_to(&buffer[..length], target));
                }
            });
        }
        relay
    }

    /// The versions of one end's packets of a kind.
    fn versions(seen: &Seen, kind: Kind) -> Vec<u32> {
        let seen = seen.lock().expect("no panic");
        seen.iter().filter(|(_, k)| *k == kind).map(|(version, _)| *version).collect()
    }
}

fn serve(versions: QuicVersions, limits: Limits) -> (Server, Verify) {
    let tls = ServerTls::self_signed(&["localhost"]).expect("a certificate").with_early_data();
    let verify = Verify::Certificates(tls.certificates());
    let options = ServerOptions { versions, limits, ..ServerOptions::default() };
    (Server::bind(loopback(), &tls, Content::Bulk, options).expect("a server"), verify)
}

fn connector(verify: &Verify, versions: QuicVersions) -> Connector {
    let options =
        ClientOptions { versions, handshake_timeout: PATIENCE.into(), ..ClientOptions::default() };
    Connector::new(verify, options).expect("TLS")
}

/// A Version Negotiation packet in answer to an Initial packet, with this list.
fn negotiation(initial: &[u8], versions: &[u32]) -> Vec<u8> {
    let (destination, rest) = initial[6..].split_at(initial[5].into());
    let source = &rest[1..1 + usize::from(rest[0])];
    let mut packet = vec![0xc0, 0, 0, 0, 0];
    for id in [source, destination] {
        packet.push(id.len() as u8);
        packet.extend_from_slice(id);
    }
    packet.extend(versions.iter().flat_map(|version| version.to_be_bytes()));
    packet
}

fn is_initial(datagram: &[u8]) -> bool {
    [[0xc0, 0, 0, 0, 1], [0xd0, 0x6b, 0x33, 0x43, 0xcf]]
        .iter()
        .any(|head| datagram[0] & 0xf0 == head[0] && datagram[1..5] == head[1..])
}

/// Fetches over a new relay, and updates the keys on the way.
async fn get(connector: &Connector, server: &Server) -> Result<Relay, ClientError> {
    let relay = Relay::to(server.local_addr());
    let client = connector.connect_early(relay.address, "localhost").await?;
    for _ in 0..3 {
        let body = fetch(&client, "/bulk/300000").await?;
        assert_eq!((body.len(), &body[..9]), (300_000, &bulk_block()[..9]));
        client.connection().force_key_update();
    }
    connector.wait_for_session(PATIENCE.into()).await;
    Ok(relay)
}

#[tokio::main]
async fn the_version_is_the_one_that_both_ends_prefer() {
    use QuicVersions::{V1 as Only1, V1AndV2 as Both, V2 as Only2};
    for (client, server, first, then) in [
        (Both, Both, vec![V1], V2),
        (Both, Only1, vec![V1], V1),
        (Only1, Both, vec![V1], V1),
        (Only1, Only1, vec![V1], V1),
        (Only2, Both, vec![V2], V2),
        (Only1, Only2, vec![V1], V1),
    ] {
        let (server, verify) = serve(server, Limits::default());
        let relay = get(&connector(&verify, client), &server).await.expect("fetched");
        let initial = Relay::versions(&relay.client, Initial);
        assert!(first.iter().all(|version| initial.contains(version)), "{initial:x?}");
        assert_eq!(Relay::versions(&relay.client, Handshake), [then], "{client}");
        assert_eq!(Relay::versions(&relay.server, Initial), [then], "{client}");
    }
}

#[tokio::main]
async fn a_server_without_version_2_refuses_it_at_once() {
    let (server, verify) = serve(QuicVersions::V1, Limits::default());
    let error = get(&connector(&verify, QuicVersions::V2), &server).await.err().expect("refused");
    assert!(error.to_string().contains("version"), "{error}");
}

/// The destination connection IDs of the first packets of a client that fetches while somebody on
/// the path forges.
async fn attempts(versions: QuicVersions, forge: Forge) -> (Result<(), ClientError>, usize) {
    let (server, verify) = serve(QuicVersions::V1AndV2, Limits::default());
    let sources = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = sources.clone();
    let noting: Forge = Arc::new(move |is_client, datagram| {
        if is_client && is_initial(datagram) {
            let source = 7 + usize::from(datagram[5]);
            noted.lock().expect("no panic").insert(datagram[source..source + 8].to_vec());
        }
        forge(is_client, datagram)
    });
    let relay = Relay::forging(server.local_addr(), noting);
    let client = connector(&verify, versions).connect(relay.address, "localhost").await;
    let outcome = match client {
        Ok(client) => fetch(&client, "/bulk/1000").await.map(|body| assert_eq!(body.len(), 1000)),
        Err(error) => Err(error),
    };
    let count = sources.lock().expect("no panic").len();
    (outcome, count)
}

/// RFC 9000 section 6.2: it lists the version of the client, answers another packet, or is a packet
/// of the server's whose version was changed.
#[tokio::main]
async fn a_version_negotiation_that_can_be_no_answer_is_discarded() {
    for versions in [QuicVersions::V1, QuicVersions::V1AndV2, QuicVersions::V2] {
        let forge: Forge = Arc::new(|is_client, datagram| {
            if !is_initial(datagram) {
                return Vec::new();
            }
            if !is_client {
                let mut changed = datagram.to_vec();
                changed[1..5].fill(0);
                let source = 6 + usize::from(changed[5]);
                let listed = changed.len() - source - 1 - usize::from(changed[source]);
                // A list that is cut off is no list.
                changed.truncate(changed.len() - listed % 4);
                return vec![changed];
            }
            let own = u32::from_be_bytes(datagram[1..5].try_into().expect("four bytes"));
            let mut other = negotiation(datagram, &[7]);
            let last = other.len() - 5;
            other[last] ^= 1;
            vec![negotiation(datagram, &[7, own]), other, negotiation(datagram, &[])]
        });
        let (outcome, attempts) = attempts(versions, forge).await;
        outcome.unwrap_or_else(|error| panic!("{versions}: {error}"));
        assert_eq!(attempts, 1, "{versions}");
    }
}

/// One that is changed on the path cannot be told from a right one; the next attempt can.
#[tokio::main]
async fn a_version_negotiation_ends_an_attempt_and_not_the_connection() {
    for versions in [QuicVersions::V1, QuicVersions::V1AndV2, QuicVersions::V2] {
        for (changed, expected) in [(1, 2), (usize::MAX, 3)] {
            let answered = Mutex::new(BTreeSet::new());
            let forge: Forge = Arc::new(move |is_client, datagram| {
                let mut answered = answered.lock().expect("no panic");
                if is_client && is_initial(datagram) {
                    answered.insert(datagram[6..14].to_vec());
                    if answered.len() <= changed {
                        return vec![negotiation(datagram, &[7])];
                    }
                }
                Vec::new()
            });
            let (outcome, attempts) = attempts(versions, forge).await;
            assert_eq!(attempts, expected, "{versions}: {outcome:?}");
            let told = outcome.err().map(|error| error.to_string());
            assert_eq!(told.is_some(), changed == usize::MAX, "{versions}: {told:?}");
            assert!(told.is_none_or(|told| told.contains("version")));
        }
    }
}

/// The second connection begins with the version that the first was moved to, and its requests go
/// early.
#[tokio::main]
async fn a_session_is_resumed_in_its_version() {
    for (versions, then) in
        [(QuicVersions::V1AndV2, V2), (QuicVersions::V2, V2), (QuicVersions::V1, V1)]
    {
        let (server, verify) = serve(QuicVersions::V1AndV2, Limits::default());
        let connector = connector(&verify, versions);
        get(&connector, &server).await.expect("fetched");
        let relay = get(&connector, &server).await.expect("fetched");
        assert_eq!(Relay::versions(&relay.client, Initial), [then], "{versions}");
        let early = Relay::versions(&relay.client, ZeroRtt);
        assert!(early.is_empty() || early == [then], "{versions}: {early:x?}");
        assert_eq!(Relay::versions(&relay.server, Handshake), [then], "{versions}");
    }
}

#[tokio::main]
async fn a_retry_has_the_version_of_what_it_answers() {
    let mut limits = Limits::default();
    limits.unvalidated_handshakes = 0;
    for (versions, first, then) in
        [(QuicVersions::V1, V1, V1), (QuicVersions::V1AndV2, V1, V2), (QuicVersions::V2, V2, V2)]
    {
        let (server, verify) = serve(QuicVersions::V1AndV2, limits);
        let relay = get(&connector(&verify, versions), &server).await.expect("fetched");
        assert_eq!(Relay::versions(&relay.server, Retry), [first], "{versions}");
        assert_eq!(Relay::versions(&relay.client, Handshake), [then], "{versions}");
    }
}

fullpipe_testkit::tests! {
    [] the_version_is_the_one_that_both_ends_prefer;
    [] a_server_without_version_2_refuses_it_at_once;
    [] a_version_negotiation_that_can_be_no_answer_is_discarded;
    [] a_version_negotiation_ends_an_attempt_and_not_the_connection;
    [] a_session_is_resumed_in_its_version;
    [] a_retry_has_the_version_of_what_it_answers;
}
