//! The server's socket on one connection: the peer's addresses, which of them it has
//! validated, and what it may send to the others (RFC 9000 sections 8 and 9.3.1).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use noq::crypto::CryptoError;

use super::limit::{Allowance, AmplificationLimit, FACTOR};
use crate::layer::{TAG_BYTES, Tag};
use crate::wire::frames::{PATH_FRAME_BYTES, PATH_RESPONSE, without_acks};

/// The length of noq's connection IDs.
pub(super) const CID_BYTES: usize = 8;
/// A connection ID that the server chose.
pub(super) type Cid = [u8; CID_BYTES];

/// Connection IDs of one connection that are remembered; noq has fewer in use at one time.
const MOST_IDS: usize = 32;
/// Addresses of one connection that are remembered. What is forgotten begins anew, with no bytes
/// received.
const MOST_ADDRESSES: usize = 16;
/// Of them, those that are validated: the one in use and those that it may return to.
const MOST_VALIDATED: usize = 4;
/// Challenges that are remembered: more than are under way at one time.
const MOST_CHALLENGES: usize = 16;
/// Packets that were replaced. Each is forgotten never, because its ACK may come at any time; a
/// connection that needs more gets no small challenges any more.
const MOST_REPLACED: usize = 64;

/// A packet with a PATH_CHALLENGE.
#[derive(Debug)]
pub(super) struct Challenge {
    pub(super) data: [u8; 8],
    /// A packet with the same number and the PATH_CHALLENGE alone, if it may take the place of the
    /// first.
    pub(super) small: Option<Vec<u8>>,
    pub(super) number: u64,
    /// True if the first has more that the peer acknowledges.
    pub(super) loses: bool,
    /// True if noq did not ask for it, so it may go to an address that noq takes for validated.
    pub(super) added: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Peer {
    guard: AmplificationLimit,
    /// The peer's address in the handshake, the only one that it can have there (RFC 9000
    /// section 9).
    first: SocketAddr,
    state: Mutex<State>,
    /// Changes when an address is validated no more.
    generation: AtomicU64,
    /// True if anything came from another address than the first.
    moved: AtomicBool,
    /// Challenges that wait to be sent.
    pending: AtomicUsize,
}

#[derive(Debug)]
struct State {
    /// The newest last.
    ids: Vec<Cid>,
    /// Empty until the first address is validated: the guard counts what is sent until then.
    addresses: Vec<Address>,
    /// The address that something came from last.
    current: SocketAddr,
    /// The address that data goes to.
    used: SocketAddr,
    /// Challenges that noq has made, by the last bytes of their packets, until they are sent.
    challenges: Vec<(Tag, Challenge)>,
    /// The data of challenges that were sent, and where.
    asked: Vec<([u8; 8], SocketAddr)>,
    /// Numbers of packets that the peer got in a smaller version.
    replaced: Vec<u64>,
}

#[derive(Debug)]
struct Address {
    address: SocketAddr,
    validated: bool,
    /// Bytes since the peer came here last.
    received: u64,
    sent: u64,
}

impl Peer {
    pub(super) fn new(guard: AmplificationLimit, first: SocketAddr) -> Self {
        let state = State {
            ids: Vec::new(),
            addresses: Vec::new(),
            current: first,
            used: first,
            challenges: Vec::new(),
            asked: Vec::new(),
            replaced: Vec::new(),
        };
        Self {
            guard,
            first,
            state: Mutex::new(state),
            generation: AtomicU64::new(0),
            moved: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True until the first address is validated.
    pub(super) fn is_in_handshake(&self) -> bool {
        self.state().addresses.is_empty()
    }

    /// True if a connection ID is this connection's and a packet from there can be the proof that
    /// the client receives at its address.
    pub(super) fn can_prove(&self, id: &[u8], from: SocketAddr) -> bool {
        from == self.first && self.state().ids.iter().any(|own| own == id)
    }

    /// The peer has shown that it receives at the address of the handshake.
    pub fn handshake_done(&self) {
        if self.is_in_handshake() {
            self.validated(self.first);
        }
    }

    /// The peer has shown that it receives at this address.
    pub(super) fn validated(&self, address: SocketAddr) {
        let mut state = self.state();
        let was_in_handshake = state.addresses.is_empty();
        state.entry(address).validated = true;
        if state.addresses.iter().filter(|one| one.validated).count() > MOST_VALIDATED {
            let kept = [address, state.current, state.used];
            let mut others = state.addresses.iter_mut();
            if let Some(oldest) = others.find(|one| one.validated && !kept.contains(&one.address)) {
                oldest.validated = false;
                self.generation.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(state);
        if was_in_handshake {
            self.guard.wake(address);
        }
    }

    /// Counts what came from an address. False in a handshake, which the guard counts.
    pub(super) fn received(&self, from: SocketAddr, bytes: u64) -> bool {
        let mut state = self.state();
        if state.addresses.is_empty() {
            return false;
        }
        if state.current != from {
            state.current = from;
            self.moved.store(true, Ordering::Relaxed);
            // Whoever was there before may be somebody else.
            let address = state.entry(from);
            (address.received, address.sent) = (0, 0);
        }
        state.entry(from).received += bytes;
        true
    }

    /// A packet with this header was the peer's.
    pub(super) fn opened(self: &Arc<Self>, header: &[u8]) {
        let id = header.get(1..).and_then(|rest| rest.first_chunk::<CID_BYTES>());
        let Some(id) = id else { return };
        if !self.state().ids.contains(id) {
            self.enter(*id);
        }
    }

    /// The server uses this connection ID, which the peer was told.
    pub(super) fn enter(self: &Arc<Self>, id: Cid) {
        let mut state = self.state();
        state.ids.push(id);
        let oldest = (state.ids.len() > MOST_IDS).then(|| state.ids.remove(0));
        drop(state);
        if let Some(oldest) = oldest {
            self.guard.forget(&[oldest], self);
        }
        for (from, bytes) in self.guard.enter(id, self) {
            if !self.received(from, bytes) {
                self.guard.count(from, bytes);
            }
        }
    }

    /// True if the peer may be moving. Until then nobody looks for challenges.
    pub(super) fn has_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    /// True if a packet may be replaced by a smaller version.
    pub(super) fn may_replace(&self) -> bool {
        self.state().replaced.len() < MOST_REPLACED
    }

    /// noq has made a packet with a PATH_CHALLENGE that ends with this tag.
    pub(super) fn challenge(&self, tag: Tag, challenge: Challenge) {
        let mut state = self.state();
        if state.challenges.len() >= MOST_CHALLENGES {
            state.challenges.remove(0);
        }
        state.challenges.push((tag, challenge));
        self.pending.store(state.challenges.len(), Ordering::Relaxed);
    }

    /// The generation in which everything may be sent to an address; `None` if not everything may.
    pub(super) fn open_to(&self, to: SocketAddr) -> Option<u64> {
        let mut state = self.state();
        if !state.challenges.is_empty() || !state.addresses.iter().any(|one| one.is_open(to)) {
            return None;
        }
        state.used = to;
        Some(self.generation.load(Ordering::Relaxed))
    }

    /// True if what [`open_to`](Self::open_to) said in this generation is still so.
    pub(super) fn is_still_open(&self, generation: u64) -> bool {
        self.generation.load(Ordering::Relaxed) == generation
            && self.pending.load(Ordering::Relaxed) == 0
    }

    /// The permission to send this datagram now; it then counts as sent. `None` in a handshake,
    /// which the guard counts.
    pub(super) fn permit(&self, to: SocketAddr, datagram: &[u8]) -> Option<Allowance> {
        let mut state = self.state();
        if state.addresses.is_empty() {
            return None;
        }
        let challenge = state.challenge_in(datagram);
        self.pending.store(state.challenges.len(), Ordering::Relaxed);
        let asks_anew = match &challenge {
            // What was added to the answer to a probe: data may go elsewhere all the time.
            Some(challenge) if challenge.added => state.used != to,
            Some(_) => true,
            None => false,
        };
        if !challenge.as_ref().is_some_and(|challenge| challenge.added) {
            state.used = to;
        }
        // Nobody sends to an address that nothing came from.
        let Some(address) = state.addresses.iter_mut().find(|one| one.address == to) else {
            return Some(Allowance::No);
        };
        if asks_anew && std::mem::take(&mut address.validated) {
            self.generation.fetch_add(1, Ordering::Relaxed);
        }
        let small = challenge.as_ref().and_then(|challenge| challenge.small.as_deref());
        let permit = address.permit(datagram, small);
        if let Some(challenge) = challenge
            && permit != Allowance::No
        {
            state.asked(challenge, to, matches!(permit, Allowance::Instead(_)));
        }
        Some(permit)
    }

    /// Reads a packet of the peer's: which challenges it answers. Takes the numbers of replaced
    /// packets out of its ACKs.
    pub(super) fn read(&self, payload: &mut BytesMut) -> Result<(), CryptoError> {
        if !self.has_moved() {
            return Ok(());
        }
        let mut state = self.state();
        let answered = state.answered(payload);
        // A packet with frames that nobody here knows cannot be corrected, and is dropped.
        let changed = if state.replaced.is_empty() {
            None
        } else {
            without_acks(payload, &state.replaced).map_err(|_| CryptoError)?
        };
        drop(state);
        if let Some(changed) = changed {
            *payload = BytesMut::from(&changed[..]);
        }
        for address in answered {
            self.validated(address);
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let ids = std::mem::take(&mut self.state().ids);
        self.guard.forget(&ids, self);
    }
}

impl State {
    fn entry(&mut self, address: SocketAddr) -> &mut Address {
        let at = self.addresses.iter().position(|one| one.address == address);
        let at = at.unwrap_or_else(|| {
            if self.addresses.len() >= MOST_ADDRESSES {
                let oldest = self.addresses.iter().position(|one| !one.validated);
                self.addresses.remove(oldest.unwrap_or(0));
            }
            self.addresses.push(Address { address, validated: false, received: 0, sent: 0 });
            self.addresses.len() - 1
        });
        &mut self.addresses[at]
    }

    /// Takes out the challenge that this datagram carries.
    fn challenge_in(&mut self, datagram: &[u8]) -> Option<Challenge> {
        let tag = datagram.last_chunk::<TAG_BYTES>()?;
        let at = self.challenges.iter().position(|(of, _)| of == tag)?;
        Some(self.challenges.remove(at).1)
    }

    /// A challenge goes out, in its small version or the large one.
    fn asked(&mut self, challenge: Challenge, to: SocketAddr, small: bool) {
        if self.asked.len() >= MOST_CHALLENGES {
            self.asked.remove(0);
        }
        self.asked.push((challenge.data, to));
        if small && challenge.loses {
            self.replaced.push(challenge.number);
        }
    }

    /// The addresses to which the challenges were sent that a payload answers. The peer has to have
    /// the data; its address does not count.
    fn answered(&mut self, payload: &[u8]) -> Vec<SocketAddr> {
        if self.asked.is_empty() {
            return Vec::new();
        }
        let answers = |data: &[u8; 8]| {
            let frames = payload.windows(PATH_FRAME_BYTES);
            frames.into_iter().any(|frame| frame[0] == PATH_RESPONSE && frame[1..] == data[..])
        };
        let answered = self.asked.extract_if(.., |(data, _)| answers(data));
        answered.map(|(_, address)| address).collect()
    }
}

impl Address {
    fn is_open(&self, to: SocketAddr) -> bool {
        self.validated && self.address == to
    }

    fn permit(&mut self, datagram: &[u8], small: Option<&[u8]>) -> Allowance {
        if self.validated {
            return Allowance::Yes;
        }
        let left = (FACTOR * self.received).saturating_sub(self.sent);
        let fits = |datagram: &[u8]| datagram.len() as u64 <= left;
        if fits(datagram) {
            self.sent += datagram.len() as u64;
            return Allowance::Yes;
        }
        match small.filter(|small| fits(small)) {
            Some(small) => {
                self.sent += small.len() as u64;
                Allowance::Instead(small.to_vec())
            }
            None => Allowance::No,
        }
    }
}
