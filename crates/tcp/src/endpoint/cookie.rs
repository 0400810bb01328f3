//! Numbers that a stranger cannot guess: initial sequence numbers (RFC 6528), SYN cookies (RFC 4987
//! section 3.6), ephemeral ports (RFC 6056).

use core::hash::{Hash, Hasher};
use core::net::{IpAddr, SocketAddr};

use fullpipe_cc::{Duration, Instant};
use siphasher::sip::SipHasher13;

use crate::options::Options;
use crate::recovery::before;
use crate::wire::{FastOpen, Header};

/// Segment sizes that a cookie can say.
const SIZES: [u16; 8] = [64, 512, 536, 1024, 1220, 1440, 1460, 4312];
/// The step of a cookie's clock. A cookie counts in its own step and in the next one.
const STEP: Duration = Duration::from_secs(64);
/// The time for which Fast Open cookies are made with one key. They count for as long again, and
/// who comes with an old one is given a new one (RFC 7413 section 4.1.2).
const FAST_OPEN_STEP: Duration = Duration::from_secs(12 * 3600);
/// The clock of initial sequence numbers: RFC 6528 section 3.
const ISN_TICK: Duration = Duration::from_micros(4);

/// The low bits of a timestamp that say what options both ends have, as in Linux: four for the
/// peer's window scale, one for SACK and one for ECN.
const STAMP_MASK: u32 = 0x3f;
const SACK_BIT: u32 = 4;
const ECN_BIT: u32 = 5;
/// In place of a window scale, which is 14 at most (RFC 7323 section 2.3).
const NO_SCALE: u8 = 15;
const MAX_SCALE: u8 = 14;

const TIME_BITS: u32 = 5;
const SIZE_BITS: u32 = 3;
const HASH_BITS: u32 = 32 - TIME_BITS - SIZE_BITS;

/// The kinds of numbers, so that one says nothing of another.
#[derive(Hash)]
enum Purpose {
    Isn,
    Clock,
    Congestion,
    Port,
    Ident,
    Cookie(u64, u32),
    FastOpen(u64),
}

/// A key, and the numbers made with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret {
    key: [u8; 16],
}

impl Secret {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    fn hash(&self, purpose: &Purpose, local: SocketAddr, remote: SocketAddr, count: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        // As packets name them: the scope of an IPv6 address is the host's own affair.
        let [local, remote] = [local, remote].map(|end| (end.ip(), end.port()));
        (purpose, local, remote, count).hash(&mut hasher);
        hasher.finish()
    }

    /// RFC 6528 section 3: M + F(ends, key).
    pub(super) fn isn(&self, now: Instant, local: SocketAddr, remote: SocketAddr) -> u32 {
        let m = (now.as_nanos() / ISN_TICK.as_nanos()) as u32;
        m.wrapping_add(self.hash(&Purpose::Isn, local, remote, 0) as u32)
    }

    /// The offset of a connection's timestamps (RFC 7323 section 5.4): the same for the same ends,
    /// so that a new connection's are beyond the old one's.
    pub(super) fn clock(&self, local: SocketAddr, remote: SocketAddr) -> u32 {
        self.hash(&Purpose::Clock, local, remote, 0) as u32
    }

    /// The seed of a connection's congestion control.
    pub(super) fn congestion(&self, local: SocketAddr, remote: SocketAddr, count: u64) -> u64 {
        self.hash(&Purpose::Congestion, local, remote, count)
    }

    /// The first ephemeral port to try towards `remote`, without its offset from the lowest.
    pub(super) fn port(&self, local: SocketAddr, remote: SocketAddr) -> u64 {
        self.hash(&Purpose::Port, local, remote, 0)
    }

    /// The number of a pair of addresses, for the identifications of packets between them.
    pub(super) fn pair(&self, local: IpAddr, remote: IpAddr) -> u64 {
        self.hash(&Purpose::Ident, SocketAddr::new(local, 0), SocketAddr::new(remote, 0), 0)
    }

    fn fast_open_at(&self, step: u64, local: IpAddr, remote: IpAddr) -> FastOpen {
        let (local, remote) = (SocketAddr::new(local, 0), SocketAddr::new(remote, 0));
        let hash = self.hash(&Purpose::FastOpen(step), local, remote, 0);
        FastOpen::new(&hash.to_be_bytes()).unwrap_or_default()
    }

    /// The Fast Open cookie of a client: of 8 bytes, and bound to the addresses of both ends (RFC
    /// 7413 section 4.1.2).
    pub(super) fn fast_open(&self, now: Instant, local: IpAddr, remote: IpAddr) -> FastOpen {
        self.fast_open_at(now.as_nanos() / FAST_OPEN_STEP.as_nanos(), local, remote)
    }

    /// True if `cookie` is one of this client's that still counts.
    pub(super) fn is_fast_open(
        &self,
        now: Instant,
        local: IpAddr,
        remote: IpAddr,
        cookie: &FastOpen,
    ) -> bool {
        let step = now.as_nanos() / FAST_OPEN_STEP.as_nanos();
        let is_of = |step| self.fast_open_at(step, local, remote) == *cookie;
        is_of(step) || step > 0 && is_of(step - 1)
    }

    fn cookie_at(
        &self,
        step: u64,
        size: usize,
        local: SocketAddr,
        remote: SocketAddr,
        peer: u32,
    ) -> u32 {
        let hash = self.hash(&Purpose::Cookie(step, peer), local, remote, size as u64);
        (step as u32) << (32 - TIME_BITS)
            | (size as u32) << HASH_BITS
            | (hash as u32) >> (32 - HASH_BITS)
    }

    /// The sequence number of a SYN-ACK that says what is to be remembered of a SYN: its segment
    /// size.
    pub(super) fn cookie(
        &self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        peer: u32,
        mss: u16,
    ) -> u32 {
        let size = SIZES.partition_point(|size| *size <= mss).saturating_sub(1);
        self.cookie_at(now.as_nanos() / STEP.as_nanos(), size, local, remote, peer)
    }

    /// The timestamp of such a SYN-ACK, which says what else is to be remembered: the options that
    /// both ends have. The client sends it back. It is not beyond this end's clock, `clock`, so
    /// that the next ones are newer.
    pub(super) fn stamp(clock: u32, options: &Options, scale: Option<u8>) -> u32 {
        let scale = u32::from(scale.map_or(NO_SCALE, |scale| scale.min(MAX_SCALE)));
        let bits = scale | u32::from(options.sack) << SACK_BIT | u32::from(options.ecn) << ECN_BIT;
        let stamp = clock & !STAMP_MASK | bits;
        stamp.wrapping_sub(if before(clock, stamp) { STAMP_MASK + 1 } else { 0 })
    }

    /// The SYN of which `stamp` says what its options were.
    pub(super) fn syn_of(stamp: u32) -> Header {
        let scale = (stamp & u32::from(NO_SCALE)) as u8;
        let ecn = stamp >> ECN_BIT & 1 == 1;
        Header {
            window_scale: (scale <= MAX_SCALE).then_some(scale),
            sack_permitted: stamp >> SACK_BIT & 1 == 1,
            ece: ecn,
            cwr: ecn,
            ..Header::default()
        }
    }

    /// The segment size in `cookie`, if it is one of the last two steps for this SYN.
    pub(super) fn open(
        &self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        peer: u32,
        cookie: u32,
    ) -> Option<u16> {
        let step = now.as_nanos() / STEP.as_nanos();
        let size = (cookie >> HASH_BITS) as usize % SIZES.len();
        let is_of = |step| self.cookie_at(step, size, local, remote, peer) == cookie;
        let is_ours = is_of(step) || step > 0 && is_of(step - 1);
        is_ours.then(|| SIZES[size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn ends() -> (SocketAddr, SocketAddr) {
        (SocketAddr::from(([10, 0, 0, 1], 80)), SocketAddr::from(([10, 0, 0, 2], 4000)))
    }

    #[test]
    fn a_cookie_says_the_size_for_two_steps_and_to_its_ends_only() {
        let (secret, (local, remote)) = (Secret::new([7; 16]), ends());
        let at = |secs| Instant::default() + Duration::from_secs(secs);
        for (mss, said) in [(1460, 1460), (1459, 1440), (0, 64), (9000, 4312)] {
            let cookie = secret.cookie(at(100), local, remote, 5, mss);
            assert_eq!(secret.open(at(100), local, remote, 5, cookie), Some(said));
            assert_eq!(secret.open(at(190), local, remote, 5, cookie), Some(said));
            assert_eq!(secret.open(at(200), local, remote, 5, cookie), None, "too old");
            assert_eq!(secret.open(at(100), local, remote, 6, cookie), None);
            assert_eq!(secret.open(at(100), remote, local, 5, cookie), None);
            assert_eq!(Secret::new([8; 16]).open(at(100), local, remote, 5, cookie), None);
        }
    }

    /// RFC 4987 section 3.6 has no room for options in a sequence number; the timestamp has.
    #[test]
    fn a_stamp_says_the_options_and_is_no_later_than_now() {
        let remote = ends().1;
        let config = Config { ecn: true, ..Config::default() };
        for (scale, sack, ecn) in
            [(None, true, false), (Some(0), false, true), (Some(14), true, true)]
        {
            for clock in [0, 1, 63, 64, 1000, u32::MAX] {
                let options = Options { sack, ecn, ..Options::offered(&config, remote) };
                let stamp = Secret::stamp(clock, &options, scale);
                assert!(clock.wrapping_sub(stamp) < 64, "{stamp} at {clock}");
                let syn = Secret::syn_of(stamp);
                assert_eq!((syn.window_scale, syn.sack_permitted), (scale, sack));
                assert_eq!((syn.ece, syn.cwr), (ecn, ecn));
            }
        }
    }

    /// RFC 6528 section 3: the numbers of the same ends follow the clock of 4 us, those of others
    /// do not tell.
    #[test]
    fn initial_sequence_numbers_follow_the_clock() {
        let (secret, (local, remote)) = (Secret::new([7; 16]), ends());
        let first = secret.isn(Instant::default(), local, remote);
        let later = secret.isn(Instant::default() + Duration::from_millis(4), local, remote);
        assert_eq!(later.wrapping_sub(first), 1000);
        let other = SocketAddr::new(remote.ip(), 4001);
        assert!(secret.isn(Instant::default(), local, other).abs_diff(first) > 1000);
    }
}
