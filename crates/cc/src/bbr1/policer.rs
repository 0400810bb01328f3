//! The long-term bandwidth: what a token-bucket policer lets through.
//!
//! A policer passes bursts at the full rate while it has tokens, then drops all that exceeds the
//! token rate. The maximum filter remembers the bursts, and the flow would lose ever after. So when
//! two intervals of heavy loss in succession delivered at about the same rate, that rate is taken
//! for the truth for a while.
//!
//! As in Linux there is no least rate: where almost nothing arrives, and much of it is lost, the
//! mean may be some hundred bytes per second, and LT_USE_ROUNDS at that rate are minutes. A floor
//! would be a rate at which the policer goes on dropping; the rounds bound the mistake instead.

use super::params::{
    LT_AGREE, LT_AGREE_RATE, LT_LOSS, LT_MAX_ROUNDS, LT_MIN_ROUNDS, LT_USE_ROUNDS,
};
use crate::units::{Duration, Instant, Rate};

/// A shorter interval than this measures nothing.
const SHORTEST: Duration = Duration::from_millis(1);

/// Input to the sampling at an ACK or a timeout.
pub(super) struct Event {
    /// The time of the last delivery.
    pub(super) now: Instant,
    /// Bytes delivered so far.
    pub(super) delivered: u64,
    /// Bytes lost so far.
    pub(super) lost: u64,
    pub(super) has_losses: bool,
    pub(super) is_app_limited: bool,
    pub(super) round_start: bool,
    pub(super) in_probe_bw: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Policer {
    is_sampling: bool,
    is_in_use: bool,
    /// The rate of the last interval with heavy loss; in use, the mean of the two that agreed.
    bw: Option<Rate>,
    /// Rounds of the interval, or of the use.
    rounds: u32,
    start: Instant,
    start_delivered: u64,
    start_lost: u64,
}

impl Policer {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            is_sampling: false,
            is_in_use: false,
            bw: None,
            rounds: 0,
            start: now,
            start_delivered: 0,
            start_lost: 0,
        }
    }

    /// The rate of the policer, while there seems to be one.
    pub(super) fn bw(&self) -> Option<Rate> {
        self.bw.filter(|_| self.is_in_use)
    }

    /// Forgets everything: the next loss begins a new search.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.start);
    }

    /// True if an event without a loss means anything to it.
    pub(super) fn is_active(&self) -> bool {
        self.is_in_use || self.is_sampling
    }

    fn start_interval(&mut self, event: &Event) {
        self.start = event.now;
        self.start_delivered = event.delivered;
        self.start_lost = event.lost;
        self.rounds = 0;
    }

    /// Takes an event in. Returns true when the rate was used for long enough, and the bandwidth is
    /// to be probed again.
    pub(super) fn update(&mut self, event: &Event) -> bool {
        if self.is_in_use {
            return self.is_use_over(event);
        }
        if !self.is_sampling {
            // A policer out of tokens shows itself by a loss: begin there, with an empty bucket.
            if !event.has_losses {
                return false;
            }
            self.start_interval(event);
            self.is_sampling = true;
        }
        if event.is_app_limited {
            self.reset();
            return false;
        }
        self.rounds += u32::from(event.round_start);
        if self.rounds > LT_MAX_ROUNDS {
            self.reset();
        } else if self.rounds >= LT_MIN_ROUNDS && event.has_losses {
            // An interval ends with a loss as it began with one: the bucket was empty both times.
            self.end_interval(event);
        }
        false
    }

    fn is_use_over(&mut self, event: &Event) -> bool {
        self.rounds += u32::from(event.in_probe_bw && event.round_start);
        let over = self.rounds >= LT_USE_ROUNDS;
        if over {
            self.reset();
        }
        over
    }

    fn end_interval(&mut self, event: &Event) {
        let lost = event.lost.saturating_sub(self.start_lost);
        let delivered = event.delivered.saturating_sub(self.start_delivered);
        let time = event.now.since(self.start);
        if delivered == 0 || lost < LT_LOSS.of(delivered) || time < SHORTEST {
            return;
        }
        let bw = Rate::from_volume(delivered, time);
        let bytes = bw.as_bytes_per_sec();
        if let Some(before) = self.bw.map(Rate::as_bytes_per_sec) {
            let apart = bytes.abs_diff(before);
            if apart <= LT_AGREE.of(before) || apart <= LT_AGREE_RATE {
                // The mean, and never 0: a rate of 0 would never end.
                let mean = before / 2 + bytes / 2 + (before & bytes & 1);
                self.bw = Some(Rate::from_bytes_per_sec(mean.max(1)));
                self.is_in_use = true;
                self.rounds = 0;
                return;
            }
        }
        self.bw = Some(bw);
        self.start_interval(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event a round, of 40 ms at first, in which `delivered` bytes came through and `lost` did
    /// not.
    struct Script {
        policer: Policer,
        event: Event,
        round: Duration,
    }

    impl Script {
        fn new() -> Self {
            let now = Instant::from_nanos(5);
            let event = Event {
                now,
                delivered: 0,
                lost: 0,
                has_losses: false,
                is_app_limited: false,
                round_start: true,
                in_probe_bw: true,
            };
            Self { policer: Policer::new(now), event, round: Duration::from_millis(40) }
        }

        fn round(&mut self, delivered: u64, lost: u64) -> bool {
            self.event.now += self.round;
            self.event.delivered += delivered;
            self.event.lost += lost;
            self.event.has_losses = lost > 0;
            self.policer.update(&self.event)
        }

        /// Rounds until the policer is found, if it is.
        fn rounds_to_find(&mut self, mut volumes: impl FnMut(u32) -> (u64, u64)) -> Option<u32> {
            (1..100).find(|n| {
                let (delivered, lost) = volumes(*n);
                self.round(delivered, lost);
                self.policer.bw().is_some()
            })
        }
    }

    /// The first loss begins the search and counts its own round: four rounds give the first
    /// interval, four more the second.
    #[test]
    fn two_intervals_of_four_rounds_find_the_policer() {
        let mut script = Script::new();
        for _ in 0..20 {
            script.round(50_000, 0);
        }
        assert_eq!(script.rounds_to_find(|_| (40_000, 10_000)), Some(8));
        assert_eq!(script.policer.bw(), Some(Rate::from_bytes_per_sec(1_000_000)));
    }

    #[test]
    fn less_loss_than_50_in_256_is_no_policer() {
        let below = |_| (25_600, 4_999);
        assert_eq!(Script::new().rounds_to_find(below), None);
        let at = |_| (25_600, 5_000);
        assert!(Script::new().rounds_to_find(at).is_some_and(|n| n <= 9));
    }

    /// Within an eighth two intervals agree, and the mean is believed; a little beyond they do not.
    #[test]
    fn intervals_agree_within_an_eighth() {
        // The interval from round 1 to 4 holds three rounds of volume, the one from 4 to 8 four.
        let volumes = |second: u64| move |n| (if n <= 4 { 40_000 } else { second }, 20_000);
        let mut script = Script::new();
        assert_eq!(script.rounds_to_find(volumes(45_000)), Some(8));
        assert_eq!(script.policer.bw(), Some(Rate::from_bytes_per_sec(1_062_500)));
        assert!(Script::new().rounds_to_find(volumes(45_100)) > Some(8));
        // 25 and 29 bytes a round are 625 and 725 B/s: more than an eighth, less than 500 B/s.
        let slow = |n| (if n <= 4 { 25 } else { 29 }, 20);
        assert_eq!(Script::new().rounds_to_find(slow), Some(8));
    }

    /// Of odd rates, too: what is lost to halving each is added again.
    #[test]
    fn the_rate_is_the_mean_of_both_intervals() {
        for (first, second) in [(40_001, 40_001), (40_001, 40_003), (40_000, 40_001), (1, 1)] {
            let mut script = Script::new();
            // Intervals of 120 and 160 ms, which have three and four rounds of volume.
            let volumes = |n| (if n <= 4 { first } else { second }, 80_000);
            assert_eq!(script.rounds_to_find(volumes), Some(8));
            let mean = (25.0 * first as f64 + 25.0 * second as f64) / 2.0;
            let expected = Rate::from_bytes_per_sec(mean.floor() as u64);
            assert_eq!(script.policer.bw(), Some(expected), "{first} and {second}");
        }
    }

    /// Four rounds of a microsecond are no interval: it goes on until a millisecond is over.
    #[test]
    fn an_interval_lasts_a_millisecond_at_least() {
        for (round_us, rounds) in [(1, None), (249, Some(11)), (250, Some(9)), (334, Some(8))] {
            let mut script = Script { round: Duration::from_micros(round_us), ..Script::new() };
            assert_eq!(script.rounds_to_find(|_| (40, 10)), rounds);
        }
    }

    #[test]
    fn a_rate_in_use_is_forgotten_after_48_rounds() {
        let mut script = Script::new();
        assert!(script.rounds_to_find(|_| (40_000, 10_000)).is_some());
        let used = (1..200).find(|_| script.round(40_000, 0));
        assert_eq!((used, script.policer.bw()), (Some(48), None));
    }

    #[test]
    fn an_interval_past_16_rounds_or_short_of_data_is_dropped() {
        // Loss in rounds 1 and 18: the interval between them is too long to mean anything.
        let mut script = Script::new();
        for n in 1..=18 {
            script.round(1_000, if n == 1 || n == 18 { 10_000 } else { 0 });
        }
        assert!(script.policer.bw.is_none());
        let mut script = Script::new();
        for n in 1..=15 {
            script.round(1_000, if n == 1 || n == 15 { 10_000 } else { 0 });
        }
        assert!(script.policer.bw.is_some());
        script.event.is_app_limited = true;
        script.round(1_000, 0);
        assert!(script.policer.bw.is_none() && !script.policer.is_sampling);
    }
}
