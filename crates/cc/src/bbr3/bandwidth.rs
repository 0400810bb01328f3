//! The bandwidth that the path had of late, "BBR.max_bw".

use crate::sampler::RateSample;
use crate::units::Rate;

/// BBR.max_bw, its filter, and BBR.bw.
#[derive(Clone, Debug)]
pub(crate) struct Bandwidth {
    /// BBR.max_bw.
    pub(super) max: Rate,
    /// BBR.max_bw_filter: the maximum of this ProbeBW cycle, behind that of the one before.
    pub(super) filter: [Rate; 2],
    /// BBR.bw: the maximum within the short-term bound.
    pub(super) bw: Rate,
}

impl Bandwidth {
    /// InitWindowedMaxFilter().
    pub(super) const fn new() -> Self {
        Self { max: Rate::ZERO, filter: [Rate::ZERO; 2], bw: Rate::ZERO }
    }

    /// UpdateMaxBw(), "Updating the BBR.max_bw Max Filter". A sample without a rate updates
    /// nothing.
    #[inline]
    pub(super) fn update_max(&mut self, rs: &RateSample) {
        let counts = rs.delivery_rate >= self.max || !rs.is_app_limited;
        if counts && rs.delivery_rate > self.filter[1] {
            self.filter[1] = rs.delivery_rate;
            self.max = self.filter[0].max(self.filter[1]);
        }
    }

    /// AdvanceMaxBwFilter(), "Tracking Time for the BBR.max_bw Max Filter". The maximum is taken
    /// again at once, or an old one would outlive its window until the next sample. A cycle without
    /// a sample (all of them application-limited) does not end: there is nothing to replace the old
    /// maximum with.
    pub(super) fn advance_filter(&mut self) {
        if self.filter[1] != Rate::ZERO {
            self.filter = [self.filter[1], Rate::ZERO];
            self.max = self.filter[0];
        }
    }

    /// The one maximum that there is, from now on.
    pub(super) const fn restart_filter(&mut self, max: Rate) {
        self.filter = [max, Rate::ZERO];
        self.max = max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr3::flavour_tests::sample;

    fn after(samples: &[(u64, bool)], bandwidth: &mut Bandwidth) -> u64 {
        for (rate, is_app_limited) in samples {
            let rs = sample(Rate::from_bytes_per_sec(*rate));
            bandwidth.update_max(&RateSample { is_app_limited: *is_app_limited, ..rs });
        }
        bandwidth.max.as_bytes_per_sec()
    }

    #[test]
    fn the_maximum_is_that_of_two_cycles() {
        let mut bandwidth = Bandwidth::new();
        assert_eq!(after(&[(100, false), (90, false)], &mut bandwidth), 100);
        bandwidth.advance_filter();
        assert_eq!(after(&[(70, false)], &mut bandwidth), 100);
        bandwidth.advance_filter();
        assert_eq!(after(&[], &mut bandwidth), 70);
        bandwidth.advance_filter();
        assert_eq!(after(&[], &mut bandwidth), 70, "a cycle without a sample does not end");
        bandwidth.restart_filter(Rate::from_bytes_per_sec(50));
        assert_eq!(after(&[(60, false)], &mut bandwidth), 60);
    }

    #[test]
    fn a_limited_sample_counts_if_it_is_the_largest() {
        let mut bandwidth = Bandwidth::new();
        assert_eq!(after(&[(100, true), (40, true), (0, false)], &mut bandwidth), 100);
        bandwidth.advance_filter();
        assert_eq!(after(&[(99, true)], &mut bandwidth), 100);
        assert_eq!(bandwidth.filter[1], Rate::ZERO);
    }
}
