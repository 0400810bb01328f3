//! The full pipe, "Exiting Acceleration Based on Bandwidth Plateau".

use crate::units::{Gain, Rate};

/// The full-pipe estimate of Startup and of UP.
#[derive(Clone, Debug)]
pub(crate) struct FullPipe {
    /// BBR.full_bw_reached: the pipe was full once.
    pub(super) reached: bool,
    /// BBR.full_bw_now: it is full in this Startup or UP.
    pub(super) now: bool,
    /// BBR.full_bw: the rate that a round has to exceed.
    pub(super) bw: Rate,
    /// BBR.full_bw_count: rounds that did not.
    pub(super) count: u32,
    /// No sample of this round was fit to judge it yet.
    pub(super) awaits_sample: bool,
    /// The round in which Drain began.
    pub(super) drain_start_round: u64,
}

impl FullPipe {
    pub(super) const fn new() -> Self {
        Self {
            reached: false,
            now: false,
            bw: Rate::ZERO,
            count: 0,
            awaits_sample: false,
            drain_start_round: 0,
        }
    }

    /// ResetFullBW(); `bw` is what the next round has to exceed.
    pub(super) const fn reset(&mut self, bw: Rate) {
        self.bw = bw;
        self.count = 0;
        self.now = false;
    }

    /// It is full, whatever the rounds said.
    pub(super) const fn fill(&mut self) {
        self.now = true;
        self.reached = true;
    }

    /// True if a round that delivered at `rate` grew by `growth`; it is then the new baseline.
    pub(super) fn grows(&mut self, rate: Rate, growth: Gain) -> bool {
        let grows = rate >= growth.of_rate(self.bw);
        if grows {
            self.reset(rate);
        }
        grows
    }

    /// A round that did not grow; the pipe is full after so many.
    pub(super) const fn count_plateau(&mut self, rounds: u32) {
        self.count += 1;
        self.now = self.count >= rounds;
        if self.now {
            self.reached = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROWTH: Gain = Gain::percent(125);

    /// The pipe is full after three rounds without a quarter more than the last that had it.
    #[test]
    fn a_plateau_is_so_many_rounds_without_growth() {
        let mut pipe = FullPipe::new();
        for (rate, count) in [(100, 0), (124, 1), (125, 0), (155, 1), (125, 2)] {
            if !pipe.grows(Rate::from_bytes_per_sec(rate), GROWTH) {
                pipe.count_plateau(3);
            }
            assert_eq!((pipe.count, pipe.now, pipe.reached), (count, false, false), "{rate}");
        }
        pipe.count_plateau(3);
        assert!(pipe.now && pipe.reached);
        pipe.reset(Rate::ZERO);
        assert!(!pipe.now && pipe.reached && pipe.count == 0, "full once");
        pipe.fill();
        assert!(pipe.now);
    }
}
