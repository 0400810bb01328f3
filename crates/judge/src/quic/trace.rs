//! The QUIC packets of a capture, each opened with the keys of its connection.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::decrypt::{KeyLog, Keys, Suite};
use super::handshake::{Known, Stream};
use super::wire::{Frames, LongHeader, PacketType, V1, V2};

/// A datagram that was captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Since 1970.
    pub at: Duration,
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// The ECN bits of its IP header.
    pub ecn: u8,
    /// All of its payload.
    pub payload: Vec<u8>,
}

/// The packets that one end of the link saw.
#[derive(Debug, Default)]
pub struct Trace {
    /// Datagrams in both directions.
    pub datagrams: Vec<Seen>,
    /// Connections in the order of their first packets.
    pub connections: Vec<Known>,
    /// Bytes of the server's CRYPTO frames in Handshake packets, of each connection.
    pub handshake_bytes: Vec<u64>,
}

/// A datagram with its packets.
#[derive(Debug)]
pub struct Seen {
    /// Since 1970.
    pub at: Duration,
    /// Its source.
    pub from: SocketAddr,
    /// Its destination.
    pub to: SocketAddr,
    /// True if the server sent it.
    pub is_from_server: bool,
    /// The ECN bits of its IP header.
    pub ecn: u8,
    /// Bytes of its payload.
    pub bytes: usize,
    /// The packets in it.
    pub packets: Vec<Packet>,
}

/// A packet.
#[derive(Debug)]
pub struct Packet {
    /// Its type.
    pub kind: PacketType,
    /// The version of a long header, 0 of a short one.
    pub version: u32,
    /// The destination connection ID; of a short header only if the packet was opened.
    pub destination: Vec<u8>,
    /// The source connection ID of a long header.
    pub source: Vec<u8>,
    /// The token of an Initial or of a Retry.
    pub token: Vec<u8>,
    /// Bytes behind the packet number, with the tag.
    pub bytes: usize,
    /// Bytes of all of it.
    pub whole_bytes: usize,
    /// Nothing where the keys do not open it.
    pub opened: Option<Opened>,
}

/// The inside of a packet.
#[derive(Debug)]
pub struct Opened {
    /// The number of its connection, from 0.
    pub connection: usize,
    /// The packet number.
    pub number: u64,
    /// The key phase bit of a short header.
    pub key_phase: bool,
    /// Its frames.
    pub frames: Frames,
}

/// Directions of a connection and its packet number spaces.
const CLIENT: usize = 0;
const SERVER: usize = 1;
const INITIAL: usize = 0;
const HANDSHAKE: usize = 1;
const APPLICATION: usize = 2;

/// Labels in a key log, of the client and of the server.
const HANDSHAKE_LABELS: [&str; 2] =
    ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"];
const APPLICATION_LABELS: [&str; 2] = ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"];
const EARLY_LABEL: &str = "CLIENT_EARLY_TRAFFIC_SECRET";

/// A connection while its packets are read.
#[derive(Default)]
struct Connection {
    known: Known,
    /// Destination connection IDs that Initial keys are made of.
    first_ids: Vec<Vec<u8>>,
    /// The connection IDs that a packet of each direction can have as its destination: of the
    /// client's the server's.
    ids: [Vec<Vec<u8>>; 2],
    ways: [DirectionKeys; 2],
    /// 0-RTT keys, with their version.
    early: Option<Keys>,
}

/// One direction of a connection.
#[derive(Default)]
struct DirectionKeys {
    initial: Vec<Keys>,
    handshake: Option<Keys>,
    /// By key phase, from the first.
    application: Vec<Keys>,
    largest: [Option<u64>; 3],
    streams: [Stream; 3],
}

/// Reads datagrams one after the other.
pub(crate) struct Tracker<'a> {
    log: &'a KeyLog,
    connections: Vec<Connection>,
}

impl Trace {
    /// The packets of one end of the link. All addresses of the server are `servers`.
    pub fn read(datagrams: &[Datagram], servers: &[IpAddr], log: &KeyLog) -> Self {
        let mut tracker = Tracker::new(log);
        let seen = datagrams.iter().map(|datagram| {
            let is_from_server = servers.contains(&datagram.from.ip());
            Seen {
                at: datagram.at,
                from: datagram.from,
                to: datagram.to,
                is_from_server,
                ecn: datagram.ecn,
                bytes: datagram.payload.len(),
                packets: tracker.datagram(&datagram.payload, usize::from(is_from_server)),
            }
        });
        let datagrams = seen.collect();
        let bytes = |c: &Connection| c.ways[SERVER].streams[HANDSHAKE].end;
        Self {
            datagrams,
            handshake_bytes: tracker.connections.iter().map(bytes).collect(),
            connections: tracker.connections.into_iter().map(|c| c.known).collect(),
        }
    }

    /// The datagrams of one end.
    pub fn from(&self, is_server: bool) -> impl Iterator<Item = &Seen> {
        self.datagrams.iter().filter(move |seen| seen.is_from_server == is_server)
    }

    /// The packets of one end of a type.
    pub fn packets(&self, is_server: bool, kind: PacketType) -> impl Iterator<Item = &Packet> {
        let packets = self.from(is_server).flat_map(|seen| &seen.packets);
        packets.filter(move |packet| packet.kind == kind)
    }
}

impl<'a> Tracker<'a> {
    pub(crate) fn new(log: &'a KeyLog) -> Self {
        Self { log, connections: Vec::new() }
    }

    /// The packets of a datagram. `way` is 0 if the client sent it, 1 if the server did.
    pub(crate) fn datagram(&mut self, payload: &[u8], way: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        let mut rest = payload;
        while let Some(first) = rest.first() {
            if first & 0x80 == 0 {
                // The fixed bit of what follows the first packet tells a packet from padding,
                // unless the ends agreed to draw it (RFC 9287).
                let packet = self.short(rest, way);
                if packets.is_empty() || first & 0x40 != 0 || packet.opened.is_some() {
                    packets.push(packet);
                }
                break;
            }
            let Some(header) = LongHeader::read(rest) else { break };
            let (packet, behind) = rest.split_at(header.end);
            packets.push(self.long(packet, &header, way));
            rest = behind;
        }
        packets
    }

    fn long(&mut self, packet: &[u8], header: &LongHeader<'_>, way: usize) -> Packet {
        let opened = match header.kind {
            PacketType::Initial => self.initial(packet, header, way),
            PacketType::Handshake => self.open_known(packet, header, way, HANDSHAKE),
            PacketType::ZeroRtt => self.open_known(packet, header, way, APPLICATION),
            PacketType::Retry => {
                self.retry(header);
                None
            }
            _ => None,
        };
        Packet {
            kind: header.kind,
            version: header.version,
            destination: header.destination.to_vec(),
            source: header.source.to_vec(),
            token: header.token.to_vec(),
            bytes: header.end - header.number_at,
            whole_bytes: header.end,
            opened,
        }
    }

    /// The client's next Initial has the Retry's source as its destination, and keys of it.
    fn retry(&mut self, header: &LongHeader<'_>) {
        let of_client =
            |c: &&mut Connection| c.ids[SERVER].iter().any(|id| id == header.destination);
        if let Some(connection) = self.connections.iter_mut().rev().find(of_client) {
            connection.add_first_id(header.source);
            add(&mut connection.ids[CLIENT], header.source);
        }
    }

    fn initial(&mut self, packet: &[u8], header: &LongHeader<'_>, way: usize) -> Option<Opened> {
        // The newest first: a server's Initial names the client's ID alone, which may be empty.
        for place in (0..self.connections.len()).rev() {
            let connection = &mut self.connections[place];
            let is_its = connection.ids[way].iter().any(|id| id == header.destination);
            if !is_its {
                continue;
            }
            connection.prepare_initial(header.version, way);
            let keys = &connection.ways[way].initial;
            let largest = connection.ways[way].largest[INITIAL];
            let found = keys.iter().find_map(|keys| open(keys, packet, header.number_at, largest));
            if let Some((number, first, payload)) = found {
                return Some(self.take(place, way, INITIAL, header, (number, first, payload)));
            }
        }
        if way != CLIENT {
            return None;
        }
        let keys = Keys::initial(header.version, header.destination, true)?;
        let found = open(&keys, packet, header.number_at, None)?;
        let mut connection = Connection::default();
        connection.add_first_id(header.destination);
        add(&mut connection.ids[CLIENT], header.destination);
        self.connections.push(connection);
        Some(self.take(self.connections.len() - 1, way, INITIAL, header, found))
    }

    /// A Handshake or 0-RTT packet.
    fn open_known(
        &mut self,
        packet: &[u8],
        header: &LongHeader<'_>,
        way: usize,
        space: usize,
    ) -> Option<Opened> {
        for place in (0..self.connections.len()).rev() {
            let connection = &mut self.connections[place];
            if !connection.ids[way].iter().any(|id| id == header.destination) {
                continue;
            }
            let largest = connection.ways[way].largest[space];
            let random = connection.known.random?;
            let suite = connection.known.suite;
            let (slot, label, suite) = match space {
                HANDSHAKE => (&mut connection.ways[way].handshake, HANDSHAKE_LABELS[way], suite),
                // The suite of 0-RTT is that of the session that is resumed.
                _ => (&mut connection.early, EARLY_LABEL, None),
            };
            let at = header.number_at;
            let known = slot.as_ref().and_then(|keys| open(keys, packet, at, largest));
            let found = known.or_else(|| {
                let secret = self.log.secret(label, &random)?;
                let (keys, found) = Suite::candidates(secret, suite).find_map(|suite| {
                    let keys = Keys::of(suite, header.version, secret)?;
                    let found = open(&keys, packet, at, largest)?;
                    Some((keys, found))
                })?;
                *slot = Some(keys);
                Some(found)
            });
            if let Some(found) = found {
                return Some(self.take(place, way, space, header, found));
            }
        }
        None
    }

    fn short(&mut self, packet: &[u8], way: usize) -> Packet {
        let mut closed = Packet {
            kind: PacketType::OneRtt,
            version: 0,
            destination: Vec::new(),
            source: Vec::new(),
            token: Vec::new(),
            bytes: packet.len(),
            whole_bytes: packet.len(),
            opened: None,
        };
        for place in (0..self.connections.len()).rev() {
            let connection = &mut self.connections[place];
            let mut ids: Vec<Vec<u8>> = connection.ids[way].clone();
            ids.retain(|id| packet[1..].starts_with(id));
            ids.sort_by_key(|id| std::cmp::Reverse(id.len()));
            for id in ids {
                let Some(found) = connection.open_short(packet, 1 + id.len(), way, self.log) else {
                    continue;
                };
                let (number, first, payload) = found;
                closed.bytes = packet.len() - 1 - id.len();
                let header = LongHeader {
                    kind: PacketType::OneRtt,
                    version: 0,
                    destination: &id,
                    source: &[],
                    token: &[],
                    number_at: 0,
                    end: 0,
                };
                let found = (number, first, payload);
                closed.opened = Some(self.take(place, way, APPLICATION, &header, found));
                closed.destination = id;
                return closed;
            }
        }
        closed
    }

    /// Takes over what an opened packet tells.
    fn take(
        &mut self,
        place: usize,
        way: usize,
        space: usize,
        header: &LongHeader<'_>,
        (number, first, payload): (u64, u8, Vec<u8>),
    ) -> Opened {
        let connection = &mut self.connections[place];
        let frames = Frames::read(&payload);
        if header.kind != PacketType::OneRtt {
            // The sender's own ID is the destination of the other direction.
            add(&mut connection.ids[1 - way], header.source);
        }
        for id in &frames.new_ids {
            add(&mut connection.ids[1 - way], id);
        }
        let own = &mut connection.ways[way];
        own.largest[space] = own.largest[space].max(Some(number));
        for (offset, data) in &frames.crypto {
            own.streams[space].insert(*offset, data);
        }
        for (kind, body) in own.streams[space].messages() {
            connection.known.hear(kind, &body);
        }
        if let Some(id) = connection.known.preferred_id.clone() {
            add(&mut connection.ids[CLIENT], &id);
        }
        Opened { connection: place, number, key_phase: first & 0x04 != 0, frames }
    }
}

impl Connection {
    fn add_first_id(&mut self, id: &[u8]) {
        add(&mut self.first_ids, id);
        self.ways.iter_mut().for_each(|way| way.initial.clear());
    }

    /// Keys of Initial packets: of each first ID, and of each version once a packet of that was
    /// seen.
    fn prepare_initial(&mut self, version: u32, way: usize) {
        let versions = if version == V2 { &[V1, V2][..] } else { &[V1][..] };
        let wanted = self.first_ids.len() * versions.len();
        if self.ways[way].initial.len() < wanted {
            let all = versions.iter().flat_map(|v| self.first_ids.iter().map(move |id| (v, id)));
            let keys = all.filter_map(|(v, id)| Keys::initial(*v, id, way == CLIENT));
            self.ways[way].initial = keys.collect();
        }
    }

    /// Number, first byte and payload of a packet with a short header.
    fn open_short(
        &mut self,
        packet: &[u8],
        at: usize,
        way: usize,
        log: &KeyLog,
    ) -> Option<(u64, u8, Vec<u8>)> {
        let own = &mut self.ways[way];
        let largest = own.largest[APPLICATION];
        let Some(first_keys) = own.application.first() else {
            let secret = log.secret(APPLICATION_LABELS[way], &self.known.random?)?;
            let suites = Suite::candidates(secret, self.known.suite);
            let all = suites.flat_map(|suite| [V1, V2].map(|version| (suite, version)));
            let (keys, found) = all.into_iter().find_map(|(suite, version)| {
                let keys = Keys::of(suite, version, secret)?;
                let found = open(&keys, packet, at, largest)?;
                Some((keys, found))
            })?;
            own.application.push(keys);
            return Some(found);
        };
        // A key update keeps the keys of the headers.
        let header = first_keys.unprotected(packet, at)?;
        let number = header.number(largest);
        let generations = own.application.iter().rev();
        let known = generations.take(2).find_map(|keys| keys.open(packet, at, &header, number));
        let payload = match known {
            Some(payload) => payload,
            None => {
                let next = own.application.last()?.updated()?;
                let payload = next.open(packet, at, &header, number)?;
                own.application.push(next);
                payload
            }
        };
        Some((number, header.first, payload))
    }
}

/// Number, first byte and payload of a packet that these keys open.
fn open(
    keys: &Keys,
    packet: &[u8],
    number_at: usize,
    largest: Option<u64>,
) -> Option<(u64, u8, Vec<u8>)> {
    let header = keys.unprotected(packet, number_at)?;
    let number = header.number(largest);
    let payload = keys.open(packet, number_at, &header, number)?;
    Some((number, header.first, payload))
}

fn add(ids: &mut Vec<Vec<u8>>, id: &[u8]) {
    if !ids.iter().any(|known| known == id) {
        ids.push(id.to_vec());
    }
}
