//! A language of events for a controller, its interpreter, and the properties that must hold after
//! each event. The property tests and the fuzz target share it.
//!
//! An event is four bytes, so that a fuzzer can mutate it and a failing sequence shrinks. What a
//! transport may do is *legal*; what a broken one may do (and a controller must survive) is not.

mod combined;
mod flow;
mod limits;
pub(crate) mod liveness;
mod property;
mod seldom;

use fullpipe_cc::{
    AckFrequency, Algorithm, Bbr1Options, Config, CubicOptions, CubicRules, Duration, Gain,
    Instant, Rate, SavedParameters, StartupGains, Transport,
};

pub(crate) use flow::Flow;
pub(crate) use property::Property;

/// An event; the arguments are raw bytes, which [`Flow::step`] interprets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Packets as window and pacer allow.
    Send {
        size: u8,
        count: u8,
        wait: u8,
    },
    /// An ACK after some time: which packets, how many, and what else it says.
    Ack {
        from: u8,
        count: u8,
        flags: u8,
    },
    /// Nothing happens for nanoseconds to years.
    Idle {
        exponent: u8,
        mantissa: u8,
        range: u8,
    },
    /// The oldest packets are lost, without an ACK.
    Lose {
        count: u8,
    },
    /// Everything is lost, and the timeout fires.
    Timeout,
    /// All that was lost arrives after all.
    Spurious,
    Mtu {
        size: u8,
    },
    AppLimited,
    CwndLimited,
    /// The transport tells its own count of bytes in flight.
    Resync {
        value: u8,
    },
    /// A packet leaves the transport's sight.
    Discard {
        which: u8,
    },
    /// One packet that asks neither window nor pacer.
    Probe {
        size: u8,
    },
    /// The flow moves to another path, and begins anew there or not.
    Forget {
        migrates: bool,
    },
    /// Timeouts in succession.
    Outage {
        times: u8,
        wait: u8,
        is_probed: bool,
    },
    /// Silence with nothing in flight.
    Restart {
        exponent: u8,
        is_told: bool,
        count: u8,
    },
    /// Losses, repairs and their ACKs at one time.
    AtOnce {
        lost: u8,
        sent: u8,
        acked: u8,
    },
    /// A report of ACKs, losses, marks and late packets.
    Everything {
        nth_acked: u8,
        nth_lost: u8,
        flags: u8,
    },
    /// The application asks for a probe of the bandwidth.
    Ask {
        exponent: u8,
        mantissa: u8,
        fills: bool,
    },
    /// The transport trusts a part of the window after idleness.
    Distrust {
        shift: u8,
    },
    /// A pacing timer of the transport's own, or other wishes for ACKs.
    OwnTimer {
        what: u8,
        count: u8,
        late: u8,
    },
    /// An ACK of which the newest packet alone is known.
    Cumulative {
        count: u8,
        exponent: u8,
        is_repair: bool,
    },
    /// Something that no transport should do.
    Illegal {
        what: u8,
        which: u8,
    },
    /// Something beside the window is the limit, or changes.
    Limit(Limit),
}

/// A limit that is not the window's, or a change under the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Requests with pauses between them, and an ACK for each answer.
    Answers { count: u8, packets: u8 },
    /// The receiver's window from now on. Data waits, and may not leave.
    Credit { packets: u8 },
    /// The clock steps back, perhaps for a moment.
    StepClock { exponent: u8, how: u8 },
    /// Another path, with a round trip that is known or not, and a cap on the rate.
    Migrate { rtt: u8, cap: u8 },
    /// Another algorithm, and a cap on the rate.
    TakeOver { algorithm: u8, cap: u8 },
    /// An ACK of everything with up to a million marks.
    Marks { exponent: u8 },
    /// Another size of packets in the middle of losses and ACKs.
    MtuInFlight { size: u8, count: u8 },
}

impl Limit {
    fn decode(kind: u8, a: u8, b: u8) -> Self {
        match kind % 8 {
            0 | 1 => Self::Answers { count: a, packets: b },
            2 => Self::Credit { packets: a },
            3 => Self::StepClock { exponent: a, how: b },
            4 => Self::Migrate { rtt: a, cap: b },
            5 => Self::TakeOver { algorithm: a, cap: b },
            6 => Self::Marks { exponent: a },
            _ => Self::MtuInFlight { size: a, count: b },
        }
    }
}

impl Event {
    /// The event that four bytes stand for: every value is one.
    pub(crate) fn decode([kind, a, b, c]: [u8; 4]) -> Self {
        // Values that only repeat others otherwise: inputs that were found before mean what they
        // meant.
        match kind {
            236..=238 => return Self::Outage { times: a, wait: b, is_probed: c % 2 == 0 },
            239..=241 => return Self::Restart { exponent: a, is_told: c % 4 != 0, count: b },
            242..=244 => return Self::AtOnce { lost: a, sent: b, acked: c },
            245..=248 => return Self::Everything { nth_acked: a, nth_lost: b, flags: c },
            249 => return Self::Ask { exponent: a, mantissa: b, fills: c % 2 == 0 },
            250 => return Self::Distrust { shift: a },
            251 => return Self::OwnTimer { what: a, count: b, late: c },
            252 => return Self::Cumulative { count: a, exponent: b, is_repair: c % 4 == 0 },
            254 => return Self::Limit(Limit::decode(a, b, c)),
            _ => {}
        }
        match kind % 32 {
            0..=8 => Self::Send { size: a, count: b, wait: c },
            9..=17 => Self::Ack { from: a, count: b, flags: c },
            18..=20 => Self::Idle { exponent: a, mantissa: b, range: c },
            21 => Self::Lose { count: a },
            22 => Self::Timeout,
            23 => Self::Spurious,
            24 => Self::Mtu { size: a },
            25 => Self::AppLimited,
            26 => Self::CwndLimited,
            27 => Self::Resync { value: a },
            28 => Self::Discard { which: a },
            29 => Self::Probe { size: a },
            30 if a < 64 => Self::Forget { migrates: a % 2 == 1 },
            _ => Self::Illegal { what: a, which: b },
        }
    }
}

/// The start of a flow: the algorithm, its configuration and the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) algorithm: Algorithm,
    pub(crate) options: Options,
    pub(crate) config: Config,
    pub(crate) now: Instant,
    /// True if events that no transport should produce are left out.
    pub(crate) legal: bool,
    /// True if the events find a connection that resumes in the middle of its jump.
    pub(crate) jumps: bool,
}

/// The parameters of a path like those of the events.
pub(crate) const RESUME: SavedParameters =
    SavedParameters { cwnd: 600_000, rtt: Duration::from_millis(20) };

impl Start {
    /// The start that three bytes stand for, for one of [`algorithms`].
    pub(crate) fn decode(
        algorithm: Algorithm,
        legal: bool,
        [clock, window, smss]: [u8; 3],
    ) -> Self {
        // No input from before begins with these.
        let jumps = (0x40..0x60).contains(&clock);
        let start = match clock {
            0x60..0x80 => fullpipe_cc::Start::RapidStart,
            0x80..0xa0 => fullpipe_cc::Start::Search,
            _ => fullpipe_cc::Start::Standard,
        };
        let now = match clock % 4 {
            0 => 1,
            1 => 0,
            2 => u64::MAX - 3_600_000_000_000,
            _ => u64::MAX - u64::from(clock),
        };
        let initial_cwnd = match window % 4 {
            0 | 1 => None,
            2 => Some(0),
            _ => Some(1 << 24), // in 0.1 ms more than 400 Gbit/s
        };
        let config = Config {
            smss: mtu(smss),
            initial_cwnd,
            start,
            paced: window & 4 == 0,
            ecn: window & 16 == 0,
            resume: (window >= 0xc0 || jumps).then_some(RESUME),
            ..Config::new(1)
        };
        // What the others leave as it is. No input from before begins with these.
        let has = |bit: u8| (217..232).contains(&smss) && (smss - 217) >> bit & 1 == 1;
        let config = Config {
            transport: if has(0) { Transport::Tcp } else { config.transport },
            max_pacing_rate: has(1).then_some(Rate::from_bits_per_sec(1_000_000)),
            ack_frequency: has(2).then_some(AckFrequency {
                threshold_packets: 20,
                max_delay: Duration::from_millis(25),
            }),
            has_selective_acks: !has(3),
            ..config
        };
        let config = if smss < 232 {
            config
        } else {
            Config {
                handshake_rtt: Some(Duration::from_millis(20)),
                max_pacing_rate: Some(Rate::from_bits_per_sec(100_000_000)),
                pacing_granularity: Duration::ZERO,
                ..config
            }
        };
        let options = Options {
            has_linux_cubic: window & 64 != 0,
            has_ack_aggregation: window & 8 == 0,
            has_more_startup: window & 32 == 0,
            has_far_targets: smss >= 232,
        };
        let algorithm = options.of(algorithm);
        Self { algorithm, options, config, now: Instant::from_nanos(now), legal, jumps }
    }
}

/// The options of whichever algorithm runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    has_linux_cubic: bool,
    has_ack_aggregation: bool,
    has_more_startup: bool,
    /// Swift's of 4 s, and Prague without its fallback.
    has_far_targets: bool,
}

impl Options {
    pub(crate) fn of(self, algorithm: Algorithm) -> Algorithm {
        macro_rules! with_gains {
            ($variant:ident, $options:expr) => {{
                let (pacing, cwnd) = (Gain::percent(289), Gain::percent(289));
                let more = $options.with_startup_gains(StartupGains { pacing, cwnd });
                Algorithm::$variant(if self.has_more_startup { more } else { $options })
            }};
        }
        match algorithm {
            Algorithm::Bbr3(options) => with_gains!(Bbr3, options),
            Algorithm::Bbr3Linux(options) => with_gains!(Bbr3Linux, options),
            Algorithm::Bbr3x(options) => with_gains!(Bbr3x, options),
            Algorithm::Bbr3xLinux(options) => with_gains!(Bbr3xLinux, options),
            Algorithm::BbrSwift(options) => {
                let far = options.with_base_target(Duration::from_secs(4));
                with_gains!(BbrSwift, if self.has_far_targets { far } else { options })
            }
            Algorithm::Prague(options) => {
                Algorithm::Prague(options.with_classic_fallback(!self.has_far_targets))
            }
            Algorithm::Bbr1(_) => {
                let estimates = self.has_ack_aggregation;
                Algorithm::Bbr1(Bbr1Options::new().with_ack_aggregation(estimates))
            }
            Algorithm::Cubic(_) if self.has_linux_cubic => LINUX_CUBIC,
            Algorithm::Cubic(options) => Algorithm::Cubic(options.with_rules(CubicRules::Rfc9438)),
            others => others,
        }
    }
}

/// CUBIC as Linux has it.
pub(crate) const LINUX_CUBIC: Algorithm =
    Algorithm::Cubic(CubicOptions::new().with_rules(CubicRules::Linux));

/// Every algorithm that a name chooses, and two fixed rates: 400 Gbit/s and none.
pub(crate) fn algorithms() -> Vec<Algorithm> {
    let named = Algorithm::NAMES.iter().filter_map(|name| name.parse().ok());
    let fixed = [Rate::from_bits_per_sec(400_000_000_000), Rate::ZERO].map(Algorithm::Fixed);
    named.chain(fixed).collect()
}

/// Runs what the fuzzer's input stands for: the algorithm and whether the transport keeps the
/// rules, the fate of what is in flight at the end, three bytes of start, then four bytes an event.
/// A legal history is followed by the test of liveness.
pub(crate) fn replay(input: &[u8]) {
    if let Some((flow, fate)) = replay_history(input) {
        _ = liveness::assert_delivers(flow, fate);
    }
}

/// [`replay`] without the test of liveness, which takes a hundred times as long as the history.
/// Returns the flow and the fate of what it has in flight, if the history was legal.
pub(crate) fn replay_history(input: &[u8]) -> Option<(Flow, liveness::Fate)> {
    let ([choice, fate, start @ ..], rest) = input.split_first_chunk::<5>()?;
    let legal = choice.is_multiple_of(2);
    // Those that came later are chosen by values that only repeated others: inputs that were found
    // before mean what they meant.
    let late = match choice {
        232.. => "bbr-swift",
        208..232 => "prague",
        _ => "",
    };
    let is_late = |algorithm: &Algorithm| ["bbr-swift", "prague"].contains(&algorithm.name());
    let others: Vec<_> = algorithms().into_iter().filter(|a| !is_late(a)).collect();
    let algorithm = algorithms().into_iter().find(|algorithm| algorithm.name() == late);
    let algorithm = algorithm.unwrap_or(others[usize::from(choice / 2) % others.len()]);
    let events: Vec<Event> = rest.as_chunks::<4>().0.iter().map(|e| Event::decode(*e)).collect();

    let mut flow = Flow::new(&Start::decode(algorithm, legal, *start));
    if legal {
        flow.run(&events, &Property::ALL);
        Some((flow, liveness::Fate::decode(*fate)))
    } else {
        flow.run(&events, &Property::ALWAYS);
        None
    }
}

fn mtu(byte: u8) -> u32 {
    [1200, 1452, 9000, 64, 1, 65_527][usize::from(byte) % 6]
}
