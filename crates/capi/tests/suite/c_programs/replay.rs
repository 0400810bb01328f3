//! A trace of a flow: its events as `tests/replay.c` reads them, and the decisions of the core in
//! Rust.

use std::collections::VecDeque;
use std::fmt::Write;

use fullpipe_cc::{
    AckBatch, AckFrequency, BandwidthProbe, Config, Controller, Duration, Instant, NotNow,
    PacketState, Rate, RttSample, SendDecision,
};
use fullpipe_path::{Event, Link, Path, Probability, QueueLimit};

const END: Instant = Instant::from_nanos(12_000_000_000);
const OUTAGE: [Instant; 2] =
    [Instant::from_nanos(6_000_000_000), Instant::from_nanos(6_800_000_000)];

/// The step of the transport's clock from the migration on. Without it the rates of the new path
/// are not believed.
const COARSE: Duration = Duration::from_millis(25);
const COARSE_FROM: Instant = Instant::from_nanos(10_500_000_000);

/// The events of a trace, and the words of a batch.
pub(crate) const KINDS: [&str; 27] = [
    "new ",
    "estimate",
    "probe ",
    "ready_at ",
    "can_send ",
    "sent ",
    "batch ",
    "acked ",
    "acked_bytes ",
    "late ",
    "lost ",
    "gone ",
    "ce ",
    "ambiguous",
    "rtt ",
    "resync ",
    "timeout",
    "spurious ",
    "app_limited",
    "mtu ",
    "ack_frequency ",
    "cwnd_limited",
    "idle ",
    "discarded ",
    "split ",
    "forget_flight",
    "migration ",
];

/// Events, one a line, and the decisions after each of them.
pub(crate) struct Trace {
    pub(crate) events: String,
    pub(crate) decisions: String,
}

/// A flow of `algorithm` in recording. Packets have the numbers 0, 1, 2, ... in the order of
/// sending.
struct Flow {
    cc: Controller,
    config: Config,
    trace: Trace,
    now: Instant,
    packets: Vec<PacketState>,
    outstanding: VecDeque<usize>,
    lost: Vec<usize>,
    acks: u64,
}

/// Records 12 s on a link of 20 Mbit/s and 30 ms with 1 % of random loss and an outage. Each kind
/// of event happens.
pub(crate) fn record(algorithm: &str) -> Trace {
    let link = Link {
        rate: Some(Rate::from_bits_per_sec(20_000_000)),
        delay: Duration::from_millis(30),
        queue: QueueLimit::Bytes(100_000),
        loss: Probability::new(0.01).expect("a probability"),
        seed: 5,
    };
    let mut path: Path<usize> = Path::new(&link.into()).expect("a link");
    let mut flow = Flow::new(algorithm);
    // Spans in which the application has nothing to send, and what happens at their ends.
    let mut turns = [1_500, 2_500, 3_500, 4_500, 5_500, 8_000, 9_000, 9_500, 10_000, 10_500]
        .map(|millis| Instant::default() + Duration::from_millis(millis))
        .into_iter()
        .enumerate()
        .peekable();
    while flow.now < END {
        if let Some((number, _)) = turns.next_if(|(_, at)| *at <= flow.now) {
            flow.turn(number);
        }
        let mut wake = flow.now + Duration::from_millis(100);
        match flow.ask() {
            SendDecision::Now { quantum } => {
                let bytes =
                    quantum.min(if flow.packets.len().is_multiple_of(7) { 700 } else { 1_200 });
                let number = flow.send(bytes as u32);
                let is_out = (OUTAGE[0]..OUTAGE[1]).contains(&flow.now);
                if !is_out {
                    // What is dropped on the spot is missing at the far end, like any other loss.
                    _ = path.send(flow.now, bytes as u32 + 28, number);
                }
                continue;
            }
            SendDecision::At(at) => wake = wake.min(at),
            SendDecision::CwndLimited => {}
        }
        match path.next_event().filter(|at| *at <= wake) {
            Some(at) => {
                flow.now = flow.now.max(at);
                if let Some(Event::Delivered(packet)) = path.poll(at) {
                    flow.arrived(packet.payload);
                }
            }
            None if path.next_event().is_none() && !flow.outstanding.is_empty() => {
                flow.now += Duration::from_millis(200);
                flow.time_out();
            }
            None => flow.now = wake,
        }
    }
    flow.trace
}

impl Flow {
    fn new(algorithm: &str) -> Self {
        let config = Config { pacing_granularity: Duration::from_millis(1), ..Config::new(23) };
        let now = Instant::default();
        let cc = Controller::new(algorithm.parse().expect("an algorithm"), config, now);
        let trace = Trace { events: String::new(), decisions: String::new() };
        let mut flow = Self {
            cc,
            config,
            trace,
            now,
            packets: Vec::new(),
            outstanding: VecDeque::new(),
            lost: Vec::new(),
            acks: 0,
        };
        let granularity = config.pacing_granularity.as_nanos();
        flow.note(&format!("new {algorithm} {} {granularity}", config.seed), "");
        flow
    }

    /// Writes an event, its own answer, and all decisions after it.
    fn note(&mut self, event: &str, answer: &str) {
        let (cc, trace) = (&self.cc, &mut self.trace);
        let snapshot = cc.snapshot();
        let none = |value: Option<u64>| value.unwrap_or(u64::MAX);
        let rate = |rate: Option<Rate>| none(rate.map(Rate::as_bytes_per_sec));
        let span = |span: Option<Duration>| none(span.map(Duration::as_nanos));
        let bbr = snapshot.bbr.as_ref();
        let numbers = [
            cc.cwnd(),
            cc.inflight(),
            rate(cc.pacing_rate()),
            cc.send_quantum(),
            snapshot.is_cwnd_limited.into(),
            snapshot.app_limited.into(),
            cc.wants_ecn().into(),
            bbr.is_some_and(|bbr| bbr.full_bw_reached).into(),
            snapshot.delivered,
            snapshot.lost,
            span(snapshot.srtt),
            span(snapshot.latest_rtt),
            none(snapshot.ssthresh),
            cc.initial_cwnd(),
            cc.burst_bound(),
            cc.send_buffer_windows(),
            rate(bbr.map(|bbr| bbr.max_bw)),
            rate(bbr.map(|bbr| bbr.bw)),
            rate(bbr.and_then(|bbr| bbr.bw_shortterm)),
            none(bbr.and_then(|bbr| bbr.inflight_shortterm)),
            none(bbr.and_then(|bbr| bbr.inflight_longterm)),
            span(bbr.and_then(|bbr| bbr.min_rtt)),
            none(bbr.map(|bbr| bbr.bdp)),
            none(bbr.map(|bbr| bbr.extra_acked)),
            none(bbr.map(|bbr| bbr.max_inflight)),
            none(bbr.map(|bbr| bbr.round_count)),
            bbr.map_or(0, |bbr| bbr.pacing_gain.as_percent().into()),
            bbr.map_or(0, |bbr| bbr.cwnd_gain.as_percent().into()),
        ];
        trace.events += event;
        trace.events += "\n";
        let decisions = &mut trace.decisions;
        write!(decisions, "{answer}{} {}", snapshot.algorithm, snapshot.state.name())
            .and_then(|()| numbers.iter().try_for_each(|number| write!(decisions, " {number}")))
            .expect("strings grow");
        *decisions += "\n";
    }

    /// Asks whether a packet may leave.
    fn ask(&mut self) -> SendDecision {
        let now = self.now.as_nanos();
        let ready = self.cc.ready_at(self.now, 4_800).as_nanos();
        self.note(&format!("ready_at {now} 4800"), &format!("{ready} "));
        let estimate = self.cc.send_rate_estimate();
        let estimate = estimate.map_or(u64::MAX, Rate::as_bytes_per_sec);
        self.note("estimate", &format!("{estimate} "));
        let target = self.cc.snapshot().delivered;
        let answer = match self.cc.probe_bandwidth(self.now, Rate::from_bytes_per_sec(target)) {
            BandwidthProbe::Reached => 0,
            BandwidthProbe::Probing => 1,
            BandwidthProbe::NotNow(NotNow::NoRoundTrip) => 2,
            BandwidthProbe::NotNow(NotNow::Draining) => 3,
            BandwidthProbe::NotNow(NotNow::ProbeRtt) => 4,
            BandwidthProbe::NotNow(NotNow::Congestion) => 5,
            BandwidthProbe::NotNow(NotNow::TooSoon) => 6,
            BandwidthProbe::NotNow(NotNow::Limit) => 7,
            _ => 8,
        };
        self.note(&format!("probe {now} {target}"), &format!("{answer} "));
        let decision = self.cc.can_send(self.now);
        let answer = match decision {
            SendDecision::Now { quantum } => format!("now {quantum} 0 "),
            SendDecision::At(at) => format!("at 0 {} ", at.as_nanos()),
            SendDecision::CwndLimited => "limited 0 0 ".to_owned(),
        };
        self.note(&format!("can_send {now}"), &answer);
        decision
    }

    fn send(&mut self, bytes: u32) -> usize {
        let packet = self.cc.on_sent(self.now, bytes);
        self.packets.push(packet);
        self.outstanding.push_back(self.packets.len() - 1);
        self.note(&format!("sent {} {bytes}", self.now.as_nanos()), "");
        self.packets.len() - 1
    }

    /// One batch. `say` gets the batch, the packets, and the text of what is said.
    fn batch(&mut self, say: impl FnOnce(&mut AckBatch<'_>, &[PacketState], &mut String)) {
        let mut event = format!("batch {}", self.now.as_nanos());
        let mut ack = self.cc.ack(self.now);
        say(&mut ack, &self.packets, &mut event);
        ack.finish();
        self.note(&event, "");
    }

    /// The packet with this number arrived, and its ACK is there at once. The older ones are lost.
    fn arrived(&mut self, number: usize) {
        self.acks += 1;
        let acks = self.acks;
        // What a timeout declared lost, or what the path before carried, may still arrive.
        let position = self.outstanding.iter().position(|packet| *packet == number);
        let Some(position) = position else { return };
        let mut gone: Vec<usize> = self.outstanding.drain(..=position).collect();
        gone.pop();
        let discarded = if acks.is_multiple_of(97) { gone.pop() } else { None };
        let has_coarse_clock = self.now >= COARSE_FROM;
        let late = if acks.is_multiple_of(53) { self.lost.pop() } else { None };
        let resync = acks.is_multiple_of(211).then(|| self.cc.inflight() + 1_200);
        self.batch(|ack, packets, said| {
            for lost in &gone {
                ack.lost(&packets[*lost]);
                *said += &format!(" lost {lost}");
            }
            if let Some(packet) = discarded {
                ack.discarded(&packets[packet]);
                *said += &format!(" gone {packet}");
            }
            if let Some(late) = late {
                ack.acked_after_loss(&packets[late]);
                *said += &format!(" late {late}");
            }
            if acks.is_multiple_of(13) {
                let total = packets[number].size() + 600;
                ack.acked_bytes(&packets[number], total);
                *said += &format!(" acked_bytes {number} {total}");
            } else {
                ack.acked(&packets[number]);
                *said += &format!(" acked {number}");
            }
            if acks.is_multiple_of(50) {
                ack.ce(2);
                *said += " ce 2";
            }
            let exact = Duration::from_micros(31_000 + acks % 5_000);
            let (rtt, granularity) =
                if has_coarse_clock { (exact + COARSE, COARSE) } else { (exact, Duration::ZERO) };
            if acks.is_multiple_of(29) {
                ack.rtt(RttSample::Ambiguous);
                *said += " ambiguous";
            } else if has_coarse_clock || acks.is_multiple_of(3) {
                ack.rtt(if has_coarse_clock {
                    RttSample::Coarse { rtt, granularity }
                } else {
                    RttSample::Exact(rtt)
                });
                *said += &format!(" rtt {} {}", rtt.as_nanos(), granularity.as_nanos());
            }
            if let Some(bytes) = resync {
                ack.resync_inflight(bytes);
                *said += &format!(" resync {bytes}");
            }
        });
        self.lost.extend(gone);
        if acks.is_multiple_of(301) {
            self.cc.on_spurious_loss(self.now);
            self.note(&format!("spurious {}", self.now.as_nanos()), "");
        }
    }

    /// All that is outstanding is lost.
    fn time_out(&mut self) {
        let gone: Vec<usize> = self.outstanding.drain(..).collect();
        self.batch(|ack, packets, said| {
            for lost in &gone {
                ack.lost(&packets[*lost]);
                *said += &format!(" lost {lost}");
            }
            ack.timeout();
            *said += " timeout";
        });
        self.lost.extend(gone);
    }

    /// An event that is rare.
    fn turn(&mut self, number: usize) {
        let now = self.now.as_nanos();
        let seed = self.config.seed;
        let event = match number {
            0 => {
                self.cc.on_app_limited();
                "app_limited".to_owned()
            }
            1 => {
                self.cc.on_mtu_update(self.now, 1_300, self.config.initial_cwnd);
                format!("mtu {now} 1300")
            }
            2 => {
                let max_delay = Duration::from_millis(5);
                self.cc.on_ack_frequency(Some(AckFrequency { threshold_packets: 8, max_delay }));
                "ack_frequency 8 5000000".to_owned()
            }
            3 => {
                self.cc.on_ack_frequency(None);
                "ack_frequency 0 0".to_owned()
            }
            4 => {
                self.cc.on_cwnd_limited();
                "cwnd_limited".to_owned()
            }
            5 => {
                self.cc.on_idle(self.now, 12_000);
                format!("idle {now} 12000")
            }
            6 => {
                let Some(packet) = self.outstanding.pop_back() else { return };
                self.cc.on_discarded(&self.packets[packet]);
                format!("discarded {packet}")
            }
            7 => {
                let Some(packet) = self.outstanding.pop_back() else { return };
                // The second half stands in the list behind all others.
                let (first, rest) = self.packets[packet].split(500);
                self.packets[packet] = first;
                self.packets.push(rest);
                self.outstanding.extend([packet, self.packets.len() - 1]);
                format!("split {packet} 500")
            }
            8 => {
                self.cc.forget_flight();
                "forget_flight".to_owned()
            }
            _ => {
                self.cc.on_migration(self.now, seed + 1, &self.config);
                format!("migration {now} {}", seed + 1)
            }
        };
        self.note(&event, "");
        if number == 9 {
            // To another algorithm and back: the model is a new one, the counters go on.
            let own = self.cc.algorithm();
            for algorithm in ["cubic".parse().expect("an algorithm"), own] {
                self.cc.set_algorithm(algorithm, self.now, &self.config);
                self.note(&format!("algorithm {} {now}", algorithm.name()), "");
            }
        }
    }
}
