//! Configuration of a controller.

use core::mem::{offset_of, size_of};

use fullpipe_cc::{
    AckFrequency, Algorithm, Bbr1Options, BbrSwiftOptions, CubicOptions, CubicRules, Duration,
    Rate, Transport,
};

use crate::FULLPIPE_NONE;
use crate::handle::{guard, read};
use crate::packet::MAX_BYTES;
use crate::status::Status;
use crate::versioned::{self, Versioned};

/// A QUIC flow: one quantum of offload budget.
pub const FULLPIPE_TRANSPORT_QUIC: u32 = 0;
/// A TCP flow: three quanta of offload budget.
pub const FULLPIPE_TRANSPORT_TCP: u32 = 1;
/// `cubic` follows RFC 9438, with the slow start of RFC 9406.
pub const FULLPIPE_CUBIC_RFC9438: u32 = 0;
/// `cubic` follows Linux.
pub const FULLPIPE_CUBIC_LINUX: u32 = 1;

/// The largest initial window in bytes: no flight is larger.
const MAX_INITIAL_CWND: u64 = 1 << 34;
/// 32 bits of nanoseconds.
const MAX_PACING_GRANULARITY: u64 = u32::MAX as u64;

/// 4 s, the most that an option of `bbr-swift` may be.
const MAX_SWIFT_NANOS: u64 = 4_000_000_000;

/// The numbers that belong to the transport and not to the algorithm. Call `fullpipe_config_init`,
/// then change what differs. An older program may have fewer fields, down to those before
/// `swift_base_target`: the others have their defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    /// The size of the program's struct. Where the library's is smaller, what it does not know has
    /// to be 0.
    pub size: usize,
    /// Seed of the randomised probe times. Each flow needs another one.
    pub seed: u64,
    /// Initial window in bytes, up to 16 GiB. FULLPIPE_NONE: that of RFC 9002 section 7.2.
    pub initial_cwnd: u64,
    /// The round trip that the handshake measured, at least 1 ns. FULLPIPE_NONE: there was none.
    pub handshake_rtt: u64,
    /// Delay of the transport's timer that costs no rate before any was measured, up to 4.29 s.
    pub pacing_granularity: u64,
    /// The most that the pacing rate may be, at least 1. FULLPIPE_NONE: no limit.
    pub max_pacing_rate: u64,
    /// Requested Max Ack Delay of draft-ietf-quic-ack-frequency, if `ack_threshold` is not 0.
    pub max_ack_delay: u64,
    /// Ack-Eliciting Threshold in packets. 0: the receiver was not asked for another frequency.
    pub ack_threshold: u32,
    /// Maximum packet size, 1 to 131071 bytes.
    pub smss: u32,
    /// FULLPIPE_TRANSPORT_QUIC or FULLPIPE_TRANSPORT_TCP.
    pub transport: u32,
    /// FULLPIPE_CUBIC_RFC9438 or FULLPIPE_CUBIC_LINUX.
    pub cubic_rules: u32,
    /// 1 if the transport sees more than one loss in a round trip, else 0.
    pub has_selective_acks: u8,
    /// 1 if `cubic` and `reno` are paced, else 0. The others always are.
    pub paced: u8,
    /// 1 if `bbr1` widens its window by the aggregation of ACKs, else 0.
    pub bbr1_ack_aggregation: u8,
    /// 1 if CE marks on the path mean low-latency ECN, which `bbr3-linux` answers, else 0.
    pub ecn: u8,
    /// 0: room for later fields.
    pub reserved: [u8; 4],
    /// `bbr-swift`: the network RTT at which a flow with a large window is content, over one hop.
    /// With `swift_hops` times `swift_hop_delay` up to 4 s; each of the next four up to 4 s as
    /// well.
    pub swift_base_target: u64,
    /// `bbr-swift`: the part of that target for each hop.
    pub swift_hop_delay: u64,
    /// `bbr-swift`: the most that the flow scaling adds to the target.
    pub swift_flow_scaling_range: u64,
    /// `bbr-swift`: the delay in the receiver's host at which a flow is content.
    pub swift_endpoint_target: u64,
    /// `bbr-swift`: the longest delay at the receiver, in its host and on purpose together, that is
    /// believed.
    pub swift_max_receiver_delay: u64,
    /// `bbr-swift`: the switches between the ends, up to 255.
    pub swift_hops: u64,
}

impl Versioned for Config {
    const FIRST: usize = offset_of!(Self, swift_base_target);
}

const _: () = assert!(offset_of!(Config, swift_hops) + size_of::<u64>() == size_of::<Config>());

impl Config {
    /// The defaults, in a program's struct of `size` bytes.
    fn new(size: usize, seed: u64) -> Self {
        let config = fullpipe_cc::Config::new(seed);
        let swift = BbrSwiftOptions::new();
        Self {
            size,
            seed,
            initial_cwnd: FULLPIPE_NONE,
            handshake_rtt: FULLPIPE_NONE,
            pacing_granularity: config.pacing_granularity.as_nanos(),
            max_pacing_rate: FULLPIPE_NONE,
            max_ack_delay: 0,
            ack_threshold: 0,
            smss: config.smss,
            transport: FULLPIPE_TRANSPORT_QUIC,
            cubic_rules: FULLPIPE_CUBIC_RFC9438,
            has_selective_acks: config.has_selective_acks.into(),
            paced: config.paced.into(),
            bbr1_ack_aggregation: Bbr1Options::new().ack_aggregation().into(),
            ecn: config.ecn.into(),
            reserved: [0; 4],
            swift_base_target: swift.base_target().as_nanos(),
            swift_hop_delay: swift.hop_delay().as_nanos(),
            swift_flow_scaling_range: swift.flow_scaling_range().as_nanos(),
            swift_endpoint_target: swift.endpoint_target().as_nanos(),
            swift_max_receiver_delay: swift.max_receiver_delay().as_nanos(),
            swift_hops: swift.hops().into(),
        }
    }

    /// What the struct behind `config` says.
    ///
    /// # Safety
    ///
    /// `config` is null, or points to a valid struct of this name, of any version.
    pub(crate) unsafe fn read(config: *const Self) -> Result<Checked, Status> {
        // SAFETY: null, or `size` is there, with which each version begins.
        let size = unsafe { read(config.cast::<usize>()) }?;
        // SAFETY: the caller's guarantee, and all fields are integers.
        unsafe { versioned::read_over(config, size, Self::new(size, 0)) }?.to_core()
    }

    /// The same for the core, or what is wrong with it.
    fn to_core(self) -> Result<Checked, Status> {
        if self.reserved != [0; 4] {
            return Err(Status::UnknownField);
        }
        let config = fullpipe_cc::Config {
            smss: check(self.smss.into(), 1, MAX_BYTES.into())? as u32,
            initial_cwnd: optional(self.initial_cwnd, 1, MAX_INITIAL_CWND)?,
            transport: match self.transport {
                FULLPIPE_TRANSPORT_QUIC => Transport::Quic,
                FULLPIPE_TRANSPORT_TCP => Transport::Tcp,
                _ => return Err(Status::BadConfig),
            },
            ack_frequency: ack_frequency(self.ack_threshold, self.max_ack_delay),
            has_selective_acks: boolean(self.has_selective_acks)?,
            handshake_rtt: optional(self.handshake_rtt, 1, u64::MAX)?.map(Duration::from_nanos),
            pacing_granularity: Duration::from_nanos(check(
                self.pacing_granularity,
                0,
                MAX_PACING_GRANULARITY,
            )?),
            max_pacing_rate: optional(self.max_pacing_rate, 1, u64::MAX)?
                .map(Rate::from_bytes_per_sec),
            paced: boolean(self.paced)?,
            ecn: boolean(self.ecn)?,
            ..fullpipe_cc::Config::new(self.seed)
        };
        let has_ack_aggregation = boolean(self.bbr1_ack_aggregation)?;
        let rules = match self.cubic_rules {
            FULLPIPE_CUBIC_RFC9438 => CubicRules::Rfc9438,
            FULLPIPE_CUBIC_LINUX => CubicRules::Linux,
            _ => return Err(Status::BadConfig),
        };
        Ok(Checked {
            config,
            bbr1: Bbr1Options::new().with_ack_aggregation(has_ack_aggregation),
            cubic: CubicOptions::new().with_rules(rules),
            swift: self.swift()?,
        })
    }

    /// The options of `bbr-swift`, or [`Status::BadConfig`].
    fn swift(&self) -> Result<BbrSwiftOptions, Status> {
        let time = |nanos| check(nanos, 0, MAX_SWIFT_NANOS).map(Duration::from_nanos);
        let options = BbrSwiftOptions::new()
            .with_base_target(time(self.swift_base_target)?)
            .with_hop_delay(time(self.swift_hop_delay)?)
            .with_hops(u8::try_from(self.swift_hops).map_err(|_| Status::BadConfig)?)
            .with_flow_scaling_range(time(self.swift_flow_scaling_range)?)
            .with_endpoint_target(time(self.swift_endpoint_target)?)
            .with_max_receiver_delay(time(self.swift_max_receiver_delay)?);
        let hops = options.hop_delay().times(options.hops().into());
        time((options.base_target() + hops).as_nanos())?;
        Ok(options)
    }
}

/// The core's configuration, and the options of the algorithms that have some here.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) config: fullpipe_cc::Config,
    bbr1: Bbr1Options,
    cubic: CubicOptions,
    swift: BbrSwiftOptions,
}

impl Checked {
    /// `algorithm` with its options.
    pub(crate) fn options_of(&self, algorithm: Algorithm) -> Algorithm {
        match algorithm {
            Algorithm::Bbr1(_) => Algorithm::Bbr1(self.bbr1),
            Algorithm::Cubic(_) => Algorithm::Cubic(self.cubic),
            Algorithm::BbrSwift(_) => Algorithm::BbrSwift(self.swift),
            others => others,
        }
    }
}

/// The ACK frequency that was asked for; none for a threshold of 0.
pub(crate) fn ack_frequency(threshold_packets: u32, max_delay: u64) -> Option<AckFrequency> {
    let max_delay = Duration::from_nanos(max_delay);
    (threshold_packets > 0).then_some(AckFrequency { threshold_packets, max_delay })
}

fn check(value: u64, least: u64, most: u64) -> Result<u64, Status> {
    (least..=most).contains(&value).then_some(value).ok_or(Status::BadConfig)
}

fn optional(value: u64, least: u64, most: u64) -> Result<Option<u64>, Status> {
    if value == FULLPIPE_NONE { Ok(None) } else { check(value, least, most).map(Some) }
}

fn boolean(value: u8) -> Result<bool, Status> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Status::BadConfig),
    }
}

/// Writes the configuration of a QUIC flow with datagrams of 1200 bytes. `size` is `sizeof(struct
/// fullpipe_config)`; the fields of a newer program that this library does not know are 0. `seed`
/// is the flow's own: two flows with one seed probe for bandwidth at the same moments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fullpipe_config_init(
    config: *mut Config,
    size: usize,
    seed: u64,
) -> Status {
    guard(|| {
        versioned::check(config, size)?;
        // SAFETY: the caller's guarantee for `config`, which is of `size` bytes.
        unsafe { versioned::fill(config, size, Config::new(size, seed)) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_swift(size: usize, values: [u64; 6]) -> Config {
        let [base, hop, range, endpoint, receiver, hops] = values;
        Config {
            swift_base_target: base,
            swift_hop_delay: hop,
            swift_flow_scaling_range: range,
            swift_endpoint_target: endpoint,
            swift_max_receiver_delay: receiver,
            swift_hops: hops,
            initial_cwnd: 55_555,
            ecn: 1,
            ..Config::new(size, 9)
        }
    }

    /// The memory behind an older struct has other values, which nobody looks at.
    #[test]
    fn a_field_that_an_older_program_does_not_have_is_the_default() {
        let whole = size_of::<Config>();
        let core = |config: &Config| {
            // SAFETY: `config` is valid, and as long as its size at least.
            format!("{:?}", unsafe { Config::read(config) }.expect("a configuration"))
        };
        let swift = BbrSwiftOptions::new();
        let defaults = [
            swift.base_target().as_nanos(),
            swift.hop_delay().as_nanos(),
            swift.flow_scaling_range().as_nanos(),
            swift.endpoint_target().as_nanos(),
            swift.max_receiver_delay().as_nanos(),
            swift.hops().into(),
        ];
        let own = [100_001, 2_002, 300_003, 400_004, 5_005, 66];
        let mut seen = Vec::new();
        for fields in 0..=6 {
            let older = with_swift(Config::FIRST + 8 * fields, own);
            let values = core::array::from_fn(|i| if i < fields { own[i] } else { defaults[i] });
            seen.push(core(&older));
            assert_eq!(seen.last(), Some(&core(&with_swift(whole, values))), "{fields}");
        }
        seen.dedup();
        assert_eq!(seen.len(), 7);
    }
}
