//! netem's parameters as the kernel wants them (`linux/pkt_sched.h`).

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::Probability;
use netlink_packet_core::{DefaultNla, Emitable};

use crate::netlink::ETHERNET_HEADER_BYTES;

/// Attributes that follow `struct tc_netem_qopt`.
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_PRNG_SEED: u16 = 14;

/// One netem.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Netem {
    pub(super) delay: Duration,
    pub(super) limit_packets: u32,
    pub(super) loss: Probability,
    pub(super) seed: u64,
    pub(super) rate: Option<Rate>,
}

impl Netem {
    /// The qdisc's kind and its options.
    pub(super) fn qdisc(&self) -> (&'static str, Vec<u8>) {
        ("netem", self.options())
    }

    fn options(&self) -> Vec<u8> {
        // In units of 2^-32: all ones is certainty, and 0 is never.
        let loss = (self.loss.as_f64() * f64::from(u32::MAX)) as u32;
        // latency (in LATENCY64), limit, loss, gap, duplicate, jitter.
        let fixed = [0, self.limit_packets, loss, 0, 0, 0];
        let mut attributes = vec![
            nla(TCA_NETEM_LATENCY64, &self.delay.as_nanos().to_ne_bytes()),
            nla(TCA_NETEM_PRNG_SEED, &self.seed.to_ne_bytes()),
        ];
        if let Some(rate) = self.rate {
            let bytes_per_sec = rate.as_bytes_per_sec();
            let small = u32::try_from(bytes_per_sec).unwrap_or(u32::MAX);
            let overhead = 0_u32.wrapping_sub(ETHERNET_HEADER_BYTES);
            // rate (all ones: see RATE64), overhead of a packet, size of a cell, overhead of a
            // cell.
            attributes.push(nla(TCA_NETEM_RATE, &words(&[small, overhead, 0, 0])));
            attributes.push(nla(TCA_NETEM_RATE64, &bytes_per_sec.to_ne_bytes()));
        }
        let mut options = words(&fixed);
        let end = options.len();
        options.resize(end + attributes.as_slice().buffer_len(), 0);
        attributes.as_slice().emit(&mut options[end..]);
        options
    }
}

fn nla(kind: u16, value: &[u8]) -> DefaultNla {
    DefaultNla::new(kind, value.to_vec())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 32-bit words of the fixed part, and the attributes.
    fn parsed(netem: &Netem) -> (Vec<u32>, Vec<(u16, Vec<u8>)>) {
        let options = netem.options();
        let (fixed, mut rest) = options.split_at(24);
        let word = |w: &[u8]| u32::from_ne_bytes(w.try_into().expect("four bytes"));
        let mut attributes = Vec::new();
        while let [l0, l1, k0, k1, ..] = *rest {
            let length = usize::from(u16::from_ne_bytes([l0, l1]));
            attributes.push((u16::from_ne_bytes([k0, k1]), rest[4..length].to_vec()));
            rest = &rest[length.next_multiple_of(4)..];
        }
        (fixed.chunks(4).map(word).collect(), attributes)
    }

    #[test]
    fn a_delay_with_losses() {
        let netem = Netem {
            delay: Duration::from_secs(5),
            limit_packets: 7,
            loss: Probability::new(0.25).expect("a probability"),
            seed: 9,
            rate: None,
        };
        let (fixed, attributes) = parsed(&netem);
        assert_eq!(fixed, [0, 7, u32::MAX / 4, 0, 0, 0]);
        let delay = 5_000_000_000_u64.to_ne_bytes().to_vec();
        assert_eq!(attributes, [(10, delay), (14, 9_u64.to_ne_bytes().to_vec())]);
        let always = Netem { loss: Probability::ONE, ..netem };
        assert_eq!(parsed(&always).0[2], u32::MAX);
    }

    #[test]
    fn a_rate_of_any_size_without_the_ethernet_header() {
        for (mbit, small) in [(100_u64, 12_500_000), (100_000, u32::MAX)] {
            let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
            let (_, attributes) = parsed(&Netem { rate: Some(rate), ..Netem::default() });
            let expected = words(&[small, -14_i32 as u32, 0, 0]);
            assert_eq!(attributes[2], (6, expected));
            assert_eq!(attributes[3], (8, (mbit * 125_000).to_ne_bytes().to_vec()));
        }
    }
}
