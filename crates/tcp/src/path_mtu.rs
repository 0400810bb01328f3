//! The search for the largest packet that the path carries (RFC 8899, RFC 4821).
//!
//! A connection begins with the segment size that both ends agreed on: most paths carry it, and a
//! router that does not says so with an ICMP message. Where such messages are filtered, segments of
//! the full size vanish and smaller ones do not: a black hole (section 4.3). Then the size falls to
//! one that every path should carry, and probes look for the largest between the two (section 5.3).
//! A probe is a segment of the stream that is larger than the others, so nothing is sent for its
//! sake alone, and its loss is no sign of congestion (RFC 4821 section 7.6).
//!
//! IPv4 has one step more if the base does not pass either: the least size that every host takes.
//! Routers may cut packets of that size if even they are too large.

use core::net::IpAddr;

use fullpipe_cc::{Duration, Instant};

use crate::options::TCP_HEADER;
use crate::wire::ip_header_bytes;

/// BASE_PLPMTU of RFC 8899 section 5.1.2: an IP packet of this size should pass anywhere.
const BASE_PACKET: u32 = 1200;
/// MIN_PLPMTU: what every host takes with IPv4 (RFC 1122 section 3.3.2), and what IPv6 carries (RFC
/// 8200 section 5).
const LEAST_PACKET_V4: u32 = 576;
const LEAST_PACKET_V6: u32 = 1280;
/// Timeouts in a row after which a full segment is held to be too large, and as many more for one
/// of the base size: an outage is the likelier reason.
const BLACK_HOLE_TIMEOUTS: u32 = 3;
/// MAX_PROBES of RFC 8899 section 5.1.2: losses after which a size is held to be too large.
const MAX_PROBES: u32 = 3;
/// The search ends when its bounds are as close (RFC 4821 section 7.2 leaves the number open).
const CLOSE_ENOUGH: u32 = 8;
/// PMTU_RAISE_TIMER of RFC 8899 section 5.1.1.
const RAISE_AFTER: Duration = Duration::from_secs(600);

/// Sizes are those of a segment's options and data, as Eff.snd.MSS (RFC 9293 section 3.7.1).
#[derive(Debug)]
pub(crate) struct PathMtu {
    /// The agreement of the two ends: more is never sent.
    ceiling: u32,
    base: u32,
    /// No router's word and no timeout makes the size less than this.
    floor: u32,
    /// The timeouts in a row when one made the size smaller.
    lowered: u32,
    /// The size in use, which the path carries as far as is known.
    size: u32,
    /// The largest size that is not known to be too large.
    high: u32,
    /// The place and size of the probe that is under way.
    probe: Option<(u64, u32)>,
    losses: u32,
    /// The search begins anew then.
    raise_at: Option<Instant>,
}

impl PathMtu {
    /// For a connection to `remote` whose ends agreed on `ceiling`.
    pub(crate) fn new(ceiling: u32, remote: IpAddr) -> Self {
        let headers = ip_header_bytes(remote) as u32 + TCP_HEADER;
        let least = if remote.is_ipv4() { LEAST_PACKET_V4 } else { LEAST_PACKET_V6 };
        let base = (BASE_PACKET - headers).min(ceiling);
        Self {
            ceiling,
            base,
            floor: (least - headers).min(base),
            lowered: 0,
            size: ceiling,
            high: ceiling,
            probe: None,
            losses: 0,
            raise_at: None,
        }
    }

    /// True if the size has come down to the least: then routers may cut packets.
    pub(crate) fn is_lowest(&self) -> bool {
        self.size <= self.floor && self.size < self.ceiling
    }

    /// The size in use.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// The retransmission timer fired for the `count`-th time in a row, for a segment with `bytes`
    /// of data. True if the size is smaller now.
    pub(crate) fn on_timeout(&mut self, now: Instant, count: u32, bytes: u32) -> bool {
        self.probe = None;
        if count <= self.lowered {
            self.lowered = 0;
        }
        let (next, least) = match self.size > self.base {
            true => (self.base, BLACK_HOLE_TIMEOUTS),
            false => (self.floor, 2 * BLACK_HOLE_TIMEOUTS),
        };
        let least = least.max(self.lowered + BLACK_HOLE_TIMEOUTS);
        if count < least || bytes <= next || self.size <= next {
            return false;
        }
        self.lowered = count;
        self.high = self.size - 1;
        self.lower(now, next);
        true
    }

    /// A router says that it passes on no more than `size`. True if the size is smaller now.
    pub(crate) fn on_too_big(&mut self, now: Instant, size: u32) -> bool {
        // A message may be a lie: nobody makes this end send smaller packets than the least.
        let size = size.max(self.floor);
        if size >= self.size {
            return false;
        }
        self.lower(now, size);
        self.high = self.size;
        true
    }

    fn lower(&mut self, now: Instant, size: u32) {
        self.size = size;
        (self.probe, self.losses) = (None, 0);
        self.raise_at = Some(now + RAISE_AFTER);
    }

    /// The size of a probe that should leave now, if one should.
    pub(crate) fn wanted(&mut self, now: Instant) -> Option<u32> {
        if self.raise_at.is_some_and(|at| at <= now) {
            (self.high, self.raise_at, self.losses) = (self.ceiling, None, 0);
        }
        if self.probe.is_some() || self.size >= self.high {
            return None;
        }
        let gap = self.high - self.size;
        if gap < CLOSE_ENOUGH {
            self.raise_at.get_or_insert(now + RAISE_AFTER);
            return None;
        }
        // Half of what is left; the last step is to the bound itself.
        Some(if gap < 2 * CLOSE_ENOUGH { self.high } else { self.size + gap.div_ceil(2) })
    }

    /// A probe of `size` left, whose data begins at `place`.
    pub(crate) fn on_probe(&mut self, place: u64, size: u32) {
        self.probe = Some((place, size));
    }

    /// The place of the probe that is under way.
    pub(crate) fn probe(&self) -> Option<u64> {
        self.probe.map(|(place, _)| place)
    }

    /// The probe arrived: its size is the one in use.
    pub(crate) fn on_arrived(&mut self) {
        if let Some((_, size)) = self.probe.take() {
            (self.size, self.losses) = (size, 0);
        }
    }

    /// The probe was lost.
    pub(crate) fn on_lost(&mut self) {
        let Some((_, size)) = self.probe.take() else { return };
        self.losses += 1;
        if self.losses >= MAX_PROBES {
            // What is closer to the lost size than the search goes is not tried.
            (self.high, self.losses) = ((size - CLOSE_ENOUGH).max(self.size), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(0);
    const V4: IpAddr = IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(core::net::Ipv6Addr::LOCALHOST);

    /// A path that carries segments up to `carries`: the size that is found, and the number of
    /// probes.
    fn search(mtu: &mut PathMtu, now: Instant, carries: u32) -> (u32, u32) {
        let mut probes = 0;
        while let Some(size) = mtu.wanted(now) {
            probes += 1;
            mtu.on_probe(0, size);
            if size <= carries { mtu.on_arrived() } else { mtu.on_lost() }
        }
        (mtu.size(), probes)
    }

    #[test]
    fn a_black_hole_is_found_and_searched() {
        let mut mtu = PathMtu::new(8960, V4);
        assert!(!mtu.on_timeout(NOW, 2, 8960));
        assert!(!mtu.on_timeout(NOW, 3, 1000), "a small segment is lost for another reason");
        assert!(mtu.on_timeout(NOW, 3, 8960));
        assert_eq!(mtu.size(), 1160);
        for (carries, most) in [(1460, 30), (4312, 30), (8900, 30), (1160, 36)] {
            let mut mtu = PathMtu::new(8960, V4);
            mtu.on_timeout(NOW, 3, 8960);
            let (size, probes) = search(&mut mtu, NOW, carries);
            assert!(size <= carries && carries - size < 2 * CLOSE_ENOUGH, "{size} of {carries}");
            assert!(probes <= most, "{probes} probes for {carries}");
        }
    }

    /// RFC 8899 section 5.1.2: a probe may be lost for another reason, so that a size is held to be
    /// too large after three losses in a row alone; and one that vanished is not tried again.
    #[test]
    fn one_loss_does_not_rule_a_size_out() {
        let mut mtu = PathMtu::new(8960, V4);
        mtu.on_timeout(NOW, 3, 8960);
        let size = mtu.wanted(NOW);
        for lost in 0..MAX_PROBES {
            assert_eq!(mtu.wanted(NOW), size, "after {lost} losses");
            mtu.on_probe(0, size.expect("a probe"));
            mtu.on_lost();
        }
        assert!(mtu.wanted(NOW) < size);
        let mut mtu = PathMtu::new(8960, V4);
        mtu.on_timeout(NOW, 3, 8960);
        assert_eq!(search(&mut mtu, NOW, 8960).0, 8959);
    }

    /// RFC 8899 section 5.3.3: the search begins again, for the path may carry more now.
    #[test]
    fn the_search_is_repeated() {
        let mut mtu = PathMtu::new(1460, V4);
        mtu.on_timeout(NOW, 3, 1460);
        assert!(search(&mut mtu, NOW, 1300).0 <= 1300);
        assert_eq!(mtu.wanted(NOW + Duration::from_secs(599)), None);
        let later = NOW + Duration::from_secs(601);
        assert_eq!(search(&mut mtu, later, 1460).0, 1460);
        assert_eq!(mtu.wanted(later + RAISE_AFTER), None, "there is nothing left to search");
    }

    #[test]
    fn routers_are_believed_within_bounds() {
        let mut mtu = PathMtu::new(1460, V4);
        assert!(!mtu.on_too_big(NOW, 1460));
        assert!(mtu.on_too_big(NOW, 1380));
        assert_eq!((mtu.size(), mtu.wanted(NOW)), (1380, None));
        assert!(mtu.on_too_big(NOW, 68));
        assert_eq!((mtu.size(), mtu.is_lowest()), (536, true));
        assert!(!mtu.on_too_big(NOW, 68));
        assert!(mtu.wanted(NOW + RAISE_AFTER).is_some());
        let mut mtu = PathMtu::new(1440, V6);
        assert!(mtu.on_too_big(NOW, 68));
        assert_eq!(mtu.size(), 1140, "RFC 8201 section 4 has no less");
    }

    /// The base does not pass: three timeouts more, and the least size.
    #[test]
    fn the_base_may_be_too_large() {
        let mut mtu = PathMtu::new(1460, V4);
        let sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(|count| {
            mtu.on_timeout(NOW, count, mtu.size());
            mtu.size()
        });
        assert_eq!(sizes, [1460, 1460, 1160, 1160, 1160, 536, 536, 536, 536]);
        assert!(mtu.is_lowest());
        assert!(search(&mut mtu, NOW, 960).0 > 940);
        assert!(!mtu.is_lowest());
        // A row that begins anew counts from its start.
        assert!(!mtu.on_timeout(NOW, 1, 960) && !mtu.on_timeout(NOW, 5, 960));
        assert!(mtu.on_timeout(NOW, 6, 960));
    }
}
