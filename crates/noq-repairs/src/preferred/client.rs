//! A client that moves to its server's preferred address.
//!
//! Once the handshake is confirmed, a packet in which noq only asks for an acknowledgement becomes
//! a probe: it has the same number, the connection ID of the transport parameter and a
//! PATH_CHALLENGE, 1200 bytes, and goes to the preferred address. When the answer has come,
//! everything goes there. noq sees the address of the handshake throughout, so it keeps its RTT and
//! its window, which RFC 9000 section 9.4 wants begun anew; a client that downloads sends little.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use bytes::BytesMut;
use noq::crypto::{self, CryptoError};
use noq::udp::Transmit;
use noq::{Connection, ConnectionId, Endpoint, PathId, WeakConnectionHandle};
use noq_proto::transport_parameters::TransportParameters;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;
use tokio::time::Instant;

use super::scope::may_lead;
use super::{Offer, offer};
use crate::filter::{Filter, OnSend, Outgoing};
use crate::layer::{self, Layer, Packet, Tag};
use crate::wire::frames::{PATH_CHALLENGE, only_asks, responses};
use crate::wire::header::long_version;

/// Size of a datagram with a PATH_CHALLENGE (RFC 9000 section 8.2.1).
const PROBE_BYTES: usize = 1200;
/// Probes that are sent before the client stays where it is.
const MOST_PROBES: u32 = 5;
/// Shortest wait for the answer to a probe; it doubles with each.
const LEAST_WAIT: Duration = Duration::from_millis(200);
/// Wait for noq to send what becomes a probe, before it is asked again.
const PING_AGAIN: Duration = Duration::from_millis(5);

/// One connection's move, shared by its packet protection, its socket and the task that drives it.
#[derive(Clone, Debug)]
pub struct PreferredAddressMigration(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The server's address in the handshake.
    server: SocketAddr,
    phase: watch::Sender<Phase>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Before the handshake is confirmed.
    Waiting,
    /// The preferred address is probed.
    Probing,
    /// Everything goes to the preferred address.
    UpgradedServers,
    /// There is none, or no answer came from there.
    Stays,
}

#[derive(Debug, Default)]
struct State {
    offer: Option<Offer>,
    /// The offer's address of the family of the handshake's.
    address: Option<SocketAddr>,
    /// The connection ID of packets to the address of the handshake.
    first_id: Option<ConnectionId>,
    /// Data of the PATH_CHALLENGE frames that were made.
    challenges: Vec<[u8; 8]>,
    /// A probe, by the last bytes of the packet that it is sent instead of.
    probe: Option<(Tag, Vec<u8>)>,
}

impl PreferredAddressMigration {
    /// One away from this address of the server, if the server wants it.
    pub fn new(server: SocketAddr) -> Self {
        let phase = watch::Sender::new(Phase::Waiting);
        Self(Arc::new(Inner { server, phase, state: Mutex::default() }))
    }

    fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's TLS, so that the move sees the transport parameters and the packets of data.
    pub fn watch(&self, tls: Arc<dyn crypto::ClientConfig>) -> Arc<dyn crypto::ClientConfig> {
        layer::client(tls, self.clone())
    }

    /// The filter of the client's socket.
    pub(crate) fn filter(&self) -> Box<dyn Filter> {
        Box::new(self.clone())
    }

    /// Moves the connection, which is the only one of its endpoint, if its server wants that.
    pub fn start(self, endpoint: Endpoint, connection: Connection) {
        tokio::spawn(async move {
            if connection.handshake_confirmed().await.is_err() || self.state().address.is_none() {
                self.0.phase.send_replace(Phase::Stays);
                return;
            }
            self.0.phase.send_replace(Phase::Probing);
            // The task keeps no connection open that its user has dropped.
            let weak = connection.weak_handle();
            drop(connection);
            self.probe(&weak).await;
            if self.phase() == Phase::UpgradedServers {
                tracing::debug!(server = %self.0.server, to = ?self.state().address, "moved");
                // noq takes its next connection ID, which is the offer's, and retires the first.
                endpoint.handle_network_change(None);
            }
        });
    }

    /// Lets noq send what becomes a probe until one is answered.
    async fn probe(&self, connection: &WeakConnectionHandle) {
        let mut wait = LEAST_WAIT;
        for _ in 0..MOST_PROBES {
            let Some(rtt) = connection.upgrade().and_then(|c| c.rtt(PathId::ZERO)) else { return };
            let deadline = Instant::now() + wait.max(3 * rtt);
            let before = self.state().challenges.len();
            // A packet that says something else as well is no probe, so that there may have to be
            // another.
            while self.state().challenges.len() == before && Instant::now() < deadline {
                if !ping(connection) || self.answered_before(Instant::now() + PING_AGAIN).await {
                    return;
                }
            }
            if self.answered_before(deadline).await {
                return;
            }
            wait *= 2;
        }
        tracing::debug!(server = %self.0.server, "no answer from the preferred address");
        self.turn(Phase::Stays);
    }

    /// Waits for the answer to a probe.
    async fn answered_before(&self, deadline: Instant) -> bool {
        let mut phase = self.0.phase.subscribe();
        let answered = phase.wait_for(|phase| *phase != Phase::Probing);
        tokio::time::timeout_at(deadline, answered).await.is_ok()
    }

    /// Ends probing.
    fn turn(&self, next: Phase) {
        self.0.phase.send_if_modified(|phase| {
            let ends = *phase == Phase::Probing;
            if ends {
                *phase = next;
            }
            ends
        });
    }
}

/// Lets noq ask for an acknowledgement. Whether there is still a connection.
fn ping(connection: &WeakConnectionHandle) -> bool {
    let path = connection.upgrade().and_then(|connection| connection.path(PathId::ZERO));
    path.is_some_and(|path| path.ping().is_ok())
}

impl State {
    /// A probe with this packet's number, if the packet may be lost.
    fn make_probe(&mut self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        let id = self.offer?.id;
        let first_id = packet.destination()?;
        // A larger packet asks whether the path carries it, which a probe does not tell.
        let replaceable = packet.len() <= PROBE_BYTES && only_asks(packet.payload());
        if first_id == &id[..] || !replaceable {
            return None;
        }
        self.first_id = Some(ConnectionId::new(first_id));
        let mut data = [0; 8];
        SystemRandom::new().fill(&mut data).ok()?;
        self.challenges.push(data);
        let frame = [&[PATH_CHALLENGE][..], &data].concat();
        packet.second_to(&id, &frame, PROBE_BYTES)
    }

    /// Writes the offer's connection ID into a packet with the first one, as long as noq has not
    /// changed to it.
    fn readdress(&self, packet: &mut Packet<'_>) {
        let (Some(offer), Some(first)) = (&self.offer, &self.first_id) else { return };
        if packet.destination() == Some(&first[..]) {
            packet.set_destination(&offer.id);
        }
    }
}

impl Layer for PreferredAddressMigration {
    const SEES_DATA: bool = true;

    type Second = Vec<u8>;

    fn sends(&self, packet: &mut Packet<'_>) -> Option<Vec<u8>> {
        match self.phase() {
            Phase::Waiting | Phase::Stays => {}
            Phase::Probing => return self.state().make_probe(packet),
            Phase::UpgradedServers => self.state().readdress(packet),
        }
        None
    }

    fn has_second(&self, tag: Tag, probe: Vec<u8>) {
        self.state().probe = Some((tag, probe));
    }

    fn opened(&self, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        if self.phase() == Phase::Probing {
            let state = self.state();
            let answered = responses(payload).any(|data| state.challenges.contains(&data));
            drop(state);
            if answered {
                self.turn(Phase::UpgradedServers);
            }
        }
        Ok(())
    }

    /// The last ones count: before them a client that resumes a session has those of the session.
    fn parameters(&self, parameters: &TransportParameters) {
        let mut bytes = Vec::new();
        parameters.write(&mut bytes);
        let mut state = self.state();
        state.offer = offer(&bytes);
        let same_family = |address: &SocketAddr| address.is_ipv4() == self.0.server.is_ipv4();
        let offered = state.offer.and_then(|offer| offer.address.all().find(same_family));
        let server = self.0.server;
        state.address = offered.filter(|to| *to != server && may_lead(server, *to));
    }
}

/// To noq the preferred address is that of the handshake.
impl Filter for PreferredAddressMigration {
    fn seen(&self, from: SocketAddr) -> SocketAddr {
        let looks = matches!(self.phase(), Phase::Probing | Phase::UpgradedServers);
        if looks && self.state().address == Some(from) { self.0.server } else { from }
    }

    fn sender(&self) -> Box<dyn Outgoing> {
        Box::new(self.clone())
    }
}

impl PreferredAddressMigration {
    /// The way of a packet, by its connection ID.
    fn destination(&self, packet: &[u8]) -> Option<SocketAddr> {
        let state = self.state();
        let first = state.first_id.as_ref()?;
        let to_first = packet.get(1..1 + first.len()) == Some(&first[..]);
        if to_first || long_version(packet).is_some() { None } else { state.address }
    }

    /// The probe that is sent instead of a packet.
    fn probe_for(&self, transmit: &Transmit<'_>) -> Option<OnSend> {
        let state = self.state();
        let (tag, probe) = state.probe.as_ref()?;
        let alone = transmit.segment_size.is_none_or(|size| size >= transmit.contents.len());
        if !alone || transmit.contents.last_chunk() != Some(tag) {
            return None;
        }
        Some(OnSend::Rewrite { destination: state.address?, contents: Some(probe.clone()) })
    }
}

impl Outgoing for PreferredAddressMigration {
    /// A packet that was made while the phase was another keeps its connection ID, and so its way.
    fn on_send(&mut self, transmit: &Transmit<'_>, _cx: &mut Context<'_>) -> OnSend {
        if let Some(probe) = self.probe_for(transmit) {
            return probe;
        }
        match self.destination(transmit.contents) {
            Some(destination) if self.phase() == Phase::UpgradedServers => {
                OnSend::Rewrite { destination, contents: None }
            }
            _ => OnSend::Keep,
        }
    }

    /// One at a time while one of them may be a probe.
    fn most_segments(&self, below: NonZeroUsize) -> NonZeroUsize {
        if self.phase() == Phase::Probing { NonZeroUsize::MIN } else { below }
    }
}

#[cfg(test)]
mod tests {
    use noq::Side;

    use super::*;

    /// The address to which a client of this server goes that is offered this address.
    fn goes(server: &str, offered: &str) -> Option<SocketAddr> {
        let mut value = Vec::new();
        let offered: SocketAddr = offered.parse().expect("an address");
        let (mut v4, mut v6) = ([0; 6], [0; 18]);
        let place = match offered {
            SocketAddr::V4(address) => {
                v4[..4].copy_from_slice(&address.ip().octets());
                &mut v4[4..]
            }
            SocketAddr::V6(address) => {
                v6[..16].copy_from_slice(&address.ip().octets());
                &mut v6[16..]
            }
        };
        place.copy_from_slice(&offered.port().to_be_bytes());
        value.extend_from_slice(&v4);
        value.extend_from_slice(&v6);
        value.extend_from_slice(&[8, 1, 2, 3, 4, 5, 6, 7, 8]);
        value.extend_from_slice(&[3; 16]);
        let mut parameters = &[&[0x0d, value.len() as u8][..], &value].concat()[..];
        let parameters = TransportParameters::read(Side::Client, &mut parameters).expect("valid");
        let moving = PreferredAddressMigration::new(server.parse().expect("an address"));
        moving.parameters(&parameters);
        moving.state().address
    }

    #[test]
    fn a_server_leads_nobody_further_inside_than_it_is_itself() {
        for (server, offered, goes_there) in [
            ("203.0.113.1:443", "203.0.113.2:443", true),
            ("203.0.113.1:443", "127.0.0.1:443", false),
            ("203.0.113.1:443", "127.255.0.9:443", false),
            ("203.0.113.1:443", "0.1.2.3:443", false),
            ("203.0.113.1:443", "10.0.0.1:443", false),
            ("203.0.113.1:443", "172.16.0.1:443", false),
            ("203.0.113.1:443", "192.168.1.1:53", false),
            ("203.0.113.1:443", "100.64.0.1:443", false),
            ("203.0.113.1:443", "169.254.169.254:80", false),
            ("203.0.113.1:443", "224.0.0.251:5353", false),
            ("203.0.113.1:443", "255.255.255.255:443", false),
            ("203.0.113.1:443", "203.0.113.2:0", false),
            ("10.0.0.1:443", "192.168.1.1:443", true),
            ("10.0.0.1:443", "203.0.113.1:443", true),
            ("10.0.0.1:443", "169.254.0.1:443", false),
            ("10.0.0.1:443", "127.0.0.1:443", false),
            ("127.0.0.1:443", "127.0.0.2:443", true),
            ("127.0.0.1:443", "10.0.0.1:443", true),
            ("[2001:db8::1]:443", "[2001:db8::2]:443", true),
            ("[2001:db8::1]:443", "[::1]:443", false),
            ("[2001:db8::1]:443", "[fe80::1]:443", false),
            ("[2001:db8::1]:443", "[fd00::1]:443", false),
            ("[2001:db8::1]:443", "[ff02::1]:443", false),
            ("[2001:db8::1]:443", "[::ffff:127.0.0.1]:443", false),
            ("[fd00::1]:443", "[fd00::2]:443", true),
            ("[fd00::1]:443", "[::1]:443", false),
            ("[::1]:443", "[fd00::2]:443", true),
        ] {
            let expected = goes_there.then(|| offered.parse().expect("an address"));
            assert_eq!(goes(server, offered), expected, "{server} offers {offered}");
        }
    }
}
