//! The rate traces that are in the program: made by the generators below, the same ones each time.
//!
//! `lte` is a cell of 10 MHz: each millisecond carries what the channel's quality allows (the 15
//! efficiencies of 3GPP TS 36.213, table 7.2.3-1) of the share that the cell's other users leave,
//! with a pause of a handover now and then. `wifi` is a link of 20 MHz and one stream (802.11n's
//! rates): each burst of up to 4 ms of airtime waits for its turn among other stations. Neither was
//! measured anywhere: they move in the time and by the factors that such links do.

use fullpipe_cc::Duration;
use fullpipe_path::{MTU_BYTES, RateConfig};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A trace begins again after this time.
const PERIOD_MS: u64 = 60_000;

/// Bits of a resource element by channel quality, in ten-thousandths.
const LTE_BITS: [u64; 15] = [
    1523, 2344, 3770, 6016, 8770, 11_758, 14_766, 19_141, 24_063, 27_305, 33_223, 39_023, 45_234,
    51_152, 55_547,
];
/// Resource elements in a millisecond of 10 MHz: 50 blocks of 12 x 14, less a quarter for
/// signalling.
const LTE_ELEMENTS: u64 = 6300;

/// 802.11n's rates of 20 MHz, one stream and the long guard interval, in kbit/s.
const WIFI_KBPS: [u64; 8] = [6500, 13_000, 19_500, 26_000, 39_000, 52_000, 58_500, 65_000];
/// The longest burst, in microseconds of airtime.
const WIFI_BURST_US: u64 = 4000;
/// The longest wait for a turn.
const WIFI_WAIT_US: u64 = 6000;

/// Their names, as a file says them in `trace`.
pub(super) const TRACES: [&str; 2] = ["lte", "wifi"];

/// The trace of this name; nothing where there is none.
pub(super) fn trace(name: &str) -> Option<RateConfig> {
    match name {
        "lte" => Some(RateConfig::Trace(lte(1).into())),
        "wifi" => Some(RateConfig::Trace(wifi(1).into())),
        _ => None,
    }
}

/// Integers alone, so that every machine makes the same.
struct Chance(Pcg64Mcg);

impl Chance {
    fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// From 0 to `n - 1`.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// A neighbour of `place` below `n`, or `place`, with a chance of one in four each way.
    fn walk(&mut self, place: usize, n: usize) -> usize {
        match self.below(4) {
            0 => place.saturating_sub(1),
            1 => (place + 1).min(n - 1),
            _ => place,
        }
    }
}

fn lte(seed: u64) -> Vec<Duration> {
    let mut chance = Chance::new(seed);
    let (mut quality, mut share, mut handover, mut bytes) = (9, 60, 0_u64, 0);
    let mut times = Vec::new();
    for ms in 0..PERIOD_MS {
        if ms % 20 == 0 {
            quality = chance.walk(quality, LTE_BITS.len());
        }
        if ms % 500 == 0 {
            share = 20 + chance.below(80);
        }
        if chance.below(8000) == 0 {
            handover = 30 + chance.below(40);
        }
        if handover > 0 {
            handover -= 1;
            continue;
        }
        bytes += LTE_BITS[quality] * LTE_ELEMENTS * share / 10_000 / 100 / 8;
        while bytes >= u64::from(MTU_BYTES) {
            bytes -= u64::from(MTU_BYTES);
            times.push(Duration::from_millis(ms));
        }
    }
    whole(times)
}

fn wifi(seed: u64) -> Vec<Duration> {
    let mut chance = Chance::new(seed);
    let (mut rate, mut next_walk, mut t_us) = (5, 0, 0);
    let mut times = Vec::new();
    while t_us < PERIOD_MS * 1000 {
        while next_walk <= t_us {
            rate = chance.walk(rate, WIFI_KBPS.len());
            next_walk += 100_000;
        }
        t_us += chance.below(WIFI_WAIT_US) + 200;
        let airtime = WIFI_BURST_US / 4 * (1 + chance.below(4));
        let packets = WIFI_KBPS[rate] * airtime / 1000 / 8 / u64::from(MTU_BYTES);
        t_us += airtime;
        // A burst is acknowledged, and so delivered, as a whole.
        times.extend((0..packets).map(|_| Duration::from_micros(t_us)));
    }
    times.retain(|t| *t < Duration::from_millis(PERIOD_MS));
    whole(times)
}

/// The last opportunity is at the end of the period, which is the trace's own.
fn whole(mut times: Vec<Duration>) -> Vec<Duration> {
    times.push(Duration::from_millis(PERIOD_MS));
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean rate in Mbit/s, of all of it and of each second.
    fn rates(times: &[Duration]) -> (f64, Vec<f64>) {
        let mut seconds = vec![0.0; 60];
        for t in times {
            let second = (t.as_nanos() / 1_000_000_000) as usize;
            seconds[second.min(59)] += f64::from(MTU_BYTES) * 8.0 / 1e6;
        }
        (seconds.iter().sum::<f64>() / 60.0, seconds)
    }

    #[test]
    fn traces_are_the_same_each_time_and_move_as_such_links_do() {
        for (name, make, least, most) in
            [("lte", lte as fn(u64) -> Vec<Duration>, 5.0, 25.0), ("wifi", wifi, 8.0, 40.0)]
        {
            let times = make(1);
            assert_eq!(times, make(1), "{name}");
            assert_ne!(times, make(2), "{name}");
            assert!(times.is_sorted());
            let (mean, seconds) = rates(&times);
            assert!((least..most).contains(&mean), "{name}: {mean} Mbit/s");
            let lowest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = seconds.iter().copied().fold(0.0, f64::max);
            assert!(highest > 2.0 * lowest, "{name}: {lowest} to {highest} Mbit/s");
            assert!(TRACES.contains(&name) && trace(name) == Some(RateConfig::Trace(times.into())));
        }
        assert_eq!(trace("3g"), None);
    }
}
