//! Seeds of a run's random streams, the same on every machine.

/// A source of random numbers in a run. Each kind, and each source of a kind, draws its own
/// sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// A link from the senders to the receivers: [`fullpipe_path::PathConfig::seed`].
    Link,
    /// The way back.
    Uplink,
    /// A flow's controller: [`fullpipe_cc::Config::seed`].
    Controller,
    /// The starts of a flow's short connections.
    Starts,
    /// A short connection of a flow; below the flow's own controller's seed.
    Connection,
    /// The packets of cross traffic.
    Cross,
    /// A flow's host: `fullpipe_sim::FlowConfig::jitter`.
    Jitter,
    /// A whole run that repeats another with a seed of its own.
    Repetition,
    /// A flow's receiver: `fullpipe_sim::FlowConfig::receiver_delay`.
    Receiver,
    /// A flow's choice among routes that are as short as each other, and of a node to send to.
    Route,
}

/// The seed of one stream of a run: a hash of the run's seed, the kind and the index of its kind.
///
/// Sums and exclusive ors of small numbers give the streams of neighbouring seeds in common: seed
/// 1's second flow would be seed 2's first. The hash is SplitMix64's finalizer (Steele, Lea and
/// Flood 2014), once for each of the three, so that seeds are independent replicates.
pub const fn stream_seed(seed: u64, stream: Stream, index: u64) -> u64 {
    mix(mix(mix(seed) ^ stream as u64) ^ index)
}

/// One step of SplitMix64: a bijection, and one bit of the input changes each of the output's with
/// probability one half.
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of SplitMix64 with the seed 1234567, as Vigna's reference code gives them.
    #[test]
    fn the_hash_is_splitmix64() {
        let step = 0x9E37_79B9_7F4A_7C15u64;
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(mix(1_234_567u64.wrapping_add(step)), 3_203_168_211_198_807_973);
    }

    #[test]
    fn no_two_streams_of_any_two_seeds_are_one() {
        use Stream::{
            Connection, Controller, Cross, Jitter, Link, Receiver, Repetition, Route, Starts,
            Uplink,
        };
        let mut seen = std::collections::HashSet::new();
        for seed in 0..200 {
            for stream in [
                Link, Uplink, Controller, Starts, Connection, Cross, Jitter, Repetition, Receiver,
                Route,
            ] {
                for index in 0..100 {
                    assert!(
                        seen.insert(stream_seed(seed, stream, index)),
                        "{seed} {stream:?} {index}"
                    );
                }
            }
        }
    }
}
