//! Traffic that shares a path with the flows and reacts to nothing.

use fullpipe_units::{Duration, Instant, Rate};

use crate::exponential::Exponential;

/// The spacing of cross-traffic packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// At random and without memory: a Poisson process.
    Poisson,
}

/// Packets at a rate that nothing changes, and that nobody acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrossTraffic {
    /// Wire bytes per second, above 0.
    pub rate: Rate,
    /// Wire bytes of a packet, above 0.
    pub packet_bytes: u32,
    /// The spacing of packets.
    pub arrivals: Arrivals,
    /// The earliest time of the first packet, counted from the start of the run.
    pub start: Duration,
    /// The latest time of the last packet.
    pub stop: Option<Duration>,
}

impl CrossTraffic {
    /// Evenly spaced packets of 1500 bytes from the start on.
    pub fn constant(rate: Rate) -> Self {
        Self {
            rate,
            packet_bytes: 1500,
            arrivals: Arrivals::Constant,
            start: Duration::ZERO,
            stop: None,
        }
    }
}

/// The packets of one [`CrossTraffic`], each at its time.
#[derive(Clone, Debug)]
pub struct CrossSource {
    config: CrossTraffic,
    sent: u64,
    next: Instant,
    chance: Exponential,
}

impl CrossSource {
    /// The number of the first source as a flow; that of a further one is its index more. No flow
    /// has as high a one, and source 0 does not share flow 0's queue where there is one for each
    /// flow, modulo 1024.
    pub const FIRST_FLOW: u32 = (1 << 31) + 341;

    /// The source before its first packet. `seed` decides the times of [`Arrivals::Poisson`].
    pub fn new(config: CrossTraffic, seed: u64) -> Self {
        let next = Instant::default() + config.start;
        Self { config, sent: 0, next, chance: Exponential::new(seed) }
    }

    /// Wire bytes of a packet.
    pub fn packet_bytes(&self) -> u32 {
        self.config.packet_bytes
    }

    /// The time of the next packet; `None` after the last.
    pub fn next_due(&self) -> Option<Instant> {
        let is_over = |stop| self.next >= Instant::default() + stop;
        (!self.config.stop.is_some_and(is_over)).then_some(self.next)
    }

    /// Goes on to the next packet. Returns the number of the one that is sent by this, from 1.
    pub fn advance(&mut self) -> u64 {
        let CrossTraffic { rate, packet_bytes, arrivals, start, .. } = self.config;
        self.sent += 1;
        self.next = match arrivals {
            // From the start and not from the packet before: no rounding adds up.
            Arrivals::Constant => {
                Instant::default() + start + rate.time_for(self.sent * u64::from(packet_bytes))
            }
            Arrivals::Poisson => {
                self.next + self.chance.draw(rate.time_for(u64::from(packet_bytes)))
            }
        };
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_rate_from_start_to_stop() {
        let traffic = CrossTraffic {
            start: Duration::from_secs(1),
            stop: Some(Duration::from_secs(3)),
            ..CrossTraffic::constant(Rate::from_bytes_per_sec(150_000))
        };
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let mut source = CrossSource::new(CrossTraffic { arrivals, ..traffic }, 7);
            let mut times = Vec::new();
            while let Some(at) = source.next_due() {
                times.push(at);
                assert_eq!(source.advance(), times.len() as u64);
            }
            assert_eq!(times[0], Instant::default() + Duration::from_secs(1));
            assert!(
                times.is_sorted() && times[times.len() - 1] < Instant::from_nanos(3_000_000_000)
            );
            match arrivals {
                Arrivals::Constant => assert_eq!(times.len(), 200),
                Arrivals::Poisson => assert!((150..250).contains(&times.len()), "{}", times.len()),
            }
        }
    }
}
