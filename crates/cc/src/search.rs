//! SEARCH, Slow start Exit At Right CHokepoint (draft-chung-ccwg-search-09): slow start ends when
//! what arrives falls behind what was sent a round trip before.
//!
//! HyStart++ asks the round-trip time, which jitter moves as well as a queue. SEARCH asks the
//! volume: while the path has room, all that was sent in a window of time arrives one round trip
//! later. It looks at a window of 3.5 round trips, so that no single ACK decides.
//!
//! Three things differ from the draft. A window that lies between two bins is interpolated with the
//! bin before, which is where it is; the draft takes the one after. The window stays as it is when
//! slow start ends: the draft lowers it to its estimate of the BDP without a queue. And what was
//! sent while the application was the limit judges nothing: a burst counts as sent from the first
//! ACK after it on, a round trip late, and a few packets after a pause would seem to lack it.

use crate::conn::Conn;
use crate::sampler::RateSample;
use crate::units::{Duration, Instant};

/// WINDOW_SIZE in tenths of the first round trip.
const WINDOW_TENTHS: u64 = 35;
/// W: bins of a window.
const W: usize = 10;
/// EXTRA_BINS: a round trip may grow to so many bins before SEARCH is blind.
const EXTRA_BINS: usize = 15;
/// THRESH in hundredths: the share of what was sent that may be missing.
const THRESH: u64 = 26;
/// One bin more than the windows span: both of its ends are read.
const ACKED_BINS: usize = W + 1;
const SENT_BINS: usize = W + EXTRA_BINS + 1;

/// What was delivered and sent by the end of each bin of time. Volumes are counted modulo 2^32, as
/// their differences are below that.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    acked: [u32; ACKED_BINS],
    sent: [u32; SENT_BINS],
    /// The newest bin since the start.
    bin: usize,
    /// The length of a bin; zero before the first sample.
    length: Duration,
    end: Instant,
    /// [`crate::sampler::Sampler::path`] of all this.
    path: u8,
}

impl Search {
    pub(crate) const fn new() -> Self {
        Self {
            acked: [0; ACKED_BINS],
            sent: [0; SENT_BINS],
            bin: 0,
            length: Duration::ZERO,
            end: Instant::from_nanos(0),
            path: 0,
        }
    }

    /// Takes an ACK in. True if slow start is to end.
    pub(crate) fn observe(&mut self, conn: &Conn, rs: &RateSample) -> bool {
        let Some(rtt) = rs.rtt() else { return false };
        // What was in flight over the path of before is neither delivered nor lost.
        if self.length == Duration::ZERO || self.path != conn.sampler.path() {
            self.begin(conn, rs.now, rtt);
        }
        if rs.now <= self.end || !self.advance(conn, rs.now) {
            return false;
        }
        let back = (rtt.as_nanos() / self.length.as_nanos()) as usize;
        // The bin before those of the earlier window is read too.
        if back >= EXTRA_BINS || self.bin <= W + back || rs.is_app_limited {
            return false;
        }
        let delivered = u64::from(self.delivered());
        let part = rtt.as_nanos() % self.length.as_nanos();
        let sent = self.sent_before(self.bin - back, part);
        sent.saturating_sub(delivered) * 100 >= THRESH * sent && sent > 0
    }

    fn begin(&mut self, conn: &Conn, now: Instant, rtt: Duration) {
        let nanos = rtt.as_nanos().saturating_mul(WINDOW_TENTHS) / (10 * W as u64);
        self.length = Duration::from_nanos(nanos.max(1));
        self.end = now + self.length;
        self.bin = 0;
        self.path = conn.sampler.path();
        self.write(0, conn);
    }

    fn write(&mut self, bin: usize, conn: &Conn) {
        self.acked[bin % ACKED_BINS] = conn.delivered() as u32;
        self.sent[bin % SENT_BINS] = Self::sent_by(conn);
    }

    fn sent_by(conn: &Conn) -> u32 {
        conn.departed().saturating_add(conn.inflight()) as u32
    }

    /// Closes the bins that have passed. False if they are more than a window, so that what they
    /// hold is of before a pause, or if less was sent than before, as the transport has discarded
    /// packets: the windows begin anew.
    fn advance(&mut self, conn: &Conn, now: Instant) -> bool {
        let passed = now.since(self.end).as_nanos() / self.length.as_nanos() + 1;
        let (acked, sent) = (self.acked[self.bin % ACKED_BINS], self.sent[self.bin % SENT_BINS]);
        let is_less = Self::sent_by(conn).wrapping_sub(sent) > u32::MAX / 2;
        if passed > W as u64 || is_less {
            self.length = Duration::ZERO;
            return false;
        }
        let passed = passed as usize;
        for skipped in self.bin + 1..self.bin + passed {
            self.acked[skipped % ACKED_BINS] = acked;
            self.sent[skipped % SENT_BINS] = sent;
        }
        self.bin += passed;
        self.end += Duration::from_nanos(self.length.as_nanos().saturating_mul(passed as u64));
        self.write(self.bin, conn);
        true
    }

    /// Bytes delivered in the newest window.
    fn delivered(&self) -> u32 {
        self.acked[self.bin % ACKED_BINS].wrapping_sub(self.acked[(self.bin - W) % ACKED_BINS])
    }

    /// Bytes sent in the window that ends `part` nanoseconds before the end of `bin`.
    fn sent_before(&self, bin: usize, part: u64) -> u64 {
        let window = |bin: usize| {
            let (first, last) = (self.sent[(bin - W) % SENT_BINS], self.sent[bin % SENT_BINS]);
            u64::from(last.wrapping_sub(first))
        };
        let (here, before) = (window(bin), window(bin - 1));
        let length = self.length.as_nanos();
        let moved = crate::units::mul_div(here.abs_diff(before), part, length);
        if here < before { here + moved } else { here - moved }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::config::Config;

    /// The draft's check over the whole history, with fractions: what `Search` keeps in rings.
    struct Oracle {
        bins: Vec<(f64, f64)>,
        length: u64,
        end: u64,
    }

    impl Oracle {
        /// The share of what was sent that is missing, where there is enough to say so.
        fn observe(&mut self, now: u64, rtt: u64, acked: u64, sent: u64) -> Option<f64> {
            if now <= self.end {
                return None;
            }
            let last = *self.bins.last().expect("the first bin");
            while self.end + self.length <= now {
                self.bins.push(last);
                self.end += self.length;
            }
            self.bins.push((acked as f64, sent as f64));
            self.end += self.length;
            let newest = self.bins.len() - 1;
            let back = (rtt / self.length) as usize;
            if back >= 15 || newest <= 10 + back {
                return None;
            }
            let delivered = self.bins[newest].0 - self.bins[newest - 10].0;
            let window = |bin: usize| self.bins[bin].1 - self.bins[bin - 10].1;
            let part = (rtt % self.length) as f64 / self.length as f64;
            let bin = newest - back;
            let sent = window(bin) * (1.0 - part) + window(bin - 1) * part;
            Some((sent - delivered) / sent)
        }
    }

    /// A sender whose volume doubles in a round trip, on a link that is full after some of them, and
    /// RTTs of one to two round trips. The two agree at each ACK, and slow start ends in each flow.
    #[test]
    fn it_ends_slow_start_where_the_formula_over_the_whole_history_does() {
        let start = 1_000_000_000_000;
        let mut random = crate::rng::Rng::new(7);
        for flow in 0..60 {
            let rtt = 5_000_000 + random.below(200_000_000);
            // Bytes in a round trip.
            let capacity = 50_000 + random.below(2_000_000);
            let mut conn = Conn::new(&Config::new(1), Instant::default());
            let (mut search, mut oracle) = (Search::new(), None);
            let (mut now, mut acked) = (start, 0);
            let mut history = std::vec![(start - rtt, 12_000)];
            // Twenty round trips at least.
            let ended = (0..400).any(|_| {
                let step = 1 + random.below(rtt / 8);
                now += step;
                let before = history.iter().rev().find(|(at, _)| *at <= now - rtt);
                let at_link = before.map_or(12_000, |(_, sent)| *sent);
                let arrived = (at_link - acked).min(capacity * step / rtt);
                acked += arrived;
                let rounds = (now - start) as f64 / rtt as f64;
                let sent = (12_000.0 * rounds.exp2()) as u64;
                history.push((now, sent));
                conn.sampler.count_delivered(arrived);
                conn.inflight = sent - acked;
                let left = now - rtt - random.below(rtt);
                let packet = conn.sampler.on_sent(Instant::from_nanos(left), 1_200, 1_200);
                let rs = conn.sample(Instant::from_nanos(now), &packet, None);
                let sample = rs.rtt().expect("a sample").as_nanos();
                let oracle = oracle.get_or_insert_with(|| {
                    let bins = std::vec![(acked as f64, sent as f64)];
                    let length = sample * 35 / 100;
                    Oracle { bins, length, end: now + length }
                });
                let missing = oracle.observe(now, sample, acked, sent);
                let ends = search.observe(&conn, &rs);
                if missing.is_none_or(|share| (share - 0.26).abs() > 0.001) {
                    let expected = missing.is_some_and(|share| share >= 0.26);
                    assert_eq!(ends, expected, "{flow}: {missing:?}");
                }
                ends
            });
            assert!(ended, "{flow}");
        }
    }
}
