//! Traces: a flow over a link that changes, loses, marks, aggregates and falls silent, and the
//! events that no link makes. All numbers are in the trace, so that it repeats and shrinks.

use std::collections::VecDeque;

use fullpipe_cc::{Amendment, Amendments, SendDecision, Snapshot};
use proptest::option;
use proptest::prelude::*;

use super::native::Native;
use super::twins::{Ack, Difference, Packet, Rtt, Start, Twins};

const MS: u64 = 1_000_000;
/// Packets of one [`Step::Run`] at most: a fast link would take all the time of the test.
const PACKETS_OF_A_RUN: u32 = 3_000;

/// The path from now on.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    kbit_per_sec: u64,
    rtt_us: u64,
    /// Packets that are dropped at a longer queue.
    queue_ms: u64,
    /// Packets that are marked at a longer queue.
    mark_above_us: u64,
    /// Packets lost of a thousand.
    loss_per_mille: u64,
    /// ACKs come together at multiples of this.
    clump_us: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Link(Link),
    /// The flow sends what window and pacer allow.
    Run(u64),
    /// The application writes so many packets at once, and no more for so long, in ms.
    Write(u32, u64),
    /// The application has nothing for so long, in ms, and then says so.
    Idle(u64),
    /// ACKs come together at multiples of so many us, and so many times the application writes so
    /// many packets, waits until they are acknowledged, says that it has nothing, and pauses for so
    /// many us.
    Answers {
        clump_us: u64,
        times: u8,
        packets: u32,
        pause_us: u64,
    },
    /// The receiver's window: at most so many packets are in flight from now on, and whether the
    /// transport calls that limited by the application. `None`: it is not the limit.
    Credit(Option<(u8, bool)>),
    /// For so long, in ms, nothing arrives and nobody sends, as when the host sleeps. TCP's clock
    /// does not go back.
    Sleep(u64),
    /// Packets that neither window nor pacer allow, of so many bytes.
    Send(u8, u32),
    /// Every so manieth of the packets in flight is acknowledged and every so manieth lost, in
    /// whichever order, with so many marks.
    Report(u8, u8, u64, Rtt),
    /// A packet that was lost arrives after all.
    LateAck,
    /// Everything in flight is lost, and the timer fires.
    Rto,
    /// Timeouts in succession, the first after so many ms and the time doubled each time, with a
    /// probe sent after each.
    Outage(u8, u64),
    /// The timer fires in the report that acknowledges and loses every so manieth.
    RtoReport(u8, u8, u64),
    /// The oldest packets are lost, and as many are sent again in the same instant.
    RepairAtOnce(u8),
    SpuriousLoss,
    /// The clock steps back by so many ms.
    ClockBack(u64),
    Smss(u32),
    Discard,
    ForgetFlight,
}

#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) start: Start,
    pub(crate) steps: Vec<Step>,
}

fn link() -> impl Strategy<Value = Link> {
    let rate = prop_oneof![
        3 => 500u64..20_000,
        2 => 20_000u64..400_000,
        1 => 400_000u64..100_000_000,
        1 => 1u64..500,
    ];
    let rtt = prop_oneof![2 => 100u64..5_000, 3 => 5_000u64..100_000, 1 => 1u64..2_000_000];
    let queue = prop_oneof![Just(5u64), 1u64..100, Just(100_000)];
    let mark = prop_oneof![2 => Just(u64::MAX / 1_000), 1 => 0u64..1_000];
    let loss = prop_oneof![3 => Just(0u64), 2 => 1u64..20, 1 => 20u64..600];
    let clump = prop_oneof![3 => Just(0u64), 1 => 1u64..20_000];
    (rate, rtt, queue, mark, loss, clump).prop_map(
        |(kbit_per_sec, rtt_us, queue_ms, mark_above_us, loss_per_mille, clump_us)| Link {
            kbit_per_sec,
            rtt_us,
            queue_ms,
            mark_above_us,
            loss_per_mille,
            clump_us,
        },
    )
}

fn rtt() -> impl Strategy<Value = Rtt> {
    prop_oneof![Just(Rtt::Own), (0u64..3_000_000).prop_map(Rtt::Exact), Just(Rtt::Ambiguous)]
}

/// Marks of a report, also more than a packet counts.
fn marks() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..20, 1 => 0u64..200_000]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => link().prop_map(Step::Link),
        8 => (1u64..6_000).prop_map(Step::Run),
        1 => (1u32..200, 0u64..500).prop_map(|(n, ms)| Step::Write(n, ms)),
        1 => (0u64..15_000).prop_map(Step::Idle),
        1 => (0u64..50_000, 1u8..20, 1u32..100, 0u64..1_000_000).prop_map(
            |(clump_us, times, packets, pause_us)| Step::Answers {
                clump_us,
                times,
                packets,
                pause_us,
            }
        ),
        1 => option::of((1u8..100, any::<bool>())).prop_map(Step::Credit),
        1 => (1u64..100_000).prop_map(Step::Sleep),
        1 => (1u8..50, 1u32..65_536).prop_map(|(n, bytes)| Step::Send(n, bytes)),
        1 => (1u8..8, 1u8..8, marks(), rtt())
            .prop_map(|(acked, lost, ce, rtt)| Step::Report(acked, lost, ce, rtt)),
        1 => Just(Step::LateAck),
        1 => Just(Step::Rto),
        1 => (1u8..6, 1u64..1_000).prop_map(|(times, ms)| Step::Outage(times, ms)),
        1 => (1u8..8, 1u8..8, marks())
            .prop_map(|(acked, lost, ce)| Step::RtoReport(acked, lost, ce)),
        1 => (1u8..20).prop_map(Step::RepairAtOnce),
        1 => Just(Step::SpuriousLoss),
        1 => (1u64..2_000).prop_map(Step::ClockBack),
        1 => (200u32..9_000).prop_map(Step::Smss),
        1 => Just(Step::Discard),
        1 => Just(Step::ForgetFlight),
    ]
}

/// With all amendments, or with any.
fn without() -> impl Strategy<Value = Amendments> {
    let set = |bits: u8| {
        let off = Amendment::ALL.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        off.fold(Amendments::NONE, |set, (_, amendment)| set.with(amendment))
    };
    prop_oneof![2 => Just(Amendments::NONE), 1 => any::<u8>().prop_map(set)]
}

/// Of `bbr3-linux`, or of `bbr3x-linux`.
pub(crate) fn trace(is_amended: bool) -> impl Strategy<Value = Trace> {
    let now = prop_oneof![Just(0u64), Just(1_000 * MS), Just(u64::MAX / 2)];
    let without = if is_amended { without().prop_map(Some).boxed() } else { Just(None).boxed() };
    let most = prop_oneof![3 => Just(None), 1 => (1u64..20_000_000).prop_map(Some)];
    let start = (200u32..9_000, 1u64..64, any::<u64>(), any::<bool>(), now, most, without);
    let start = start.prop_map(|(smss, initial_cwnd, seed, ecn, now, max_pacing_rate, without)| {
        Start { smss, initial_cwnd, seed, ecn, now, max_pacing_rate, without }
    });
    let steps = (link(), prop::collection::vec(step(), 1..24)).prop_map(|(link, mut steps)| {
        steps.insert(0, Step::Link(link));
        steps
    });
    (start, steps).prop_map(|(start, steps)| Trace { start, steps })
}

struct Flight {
    arrives: u64,
    packet: Packet,
    is_lost: bool,
    is_marked: bool,
}

/// A trace on its way.
struct Run<'a> {
    twins: Twins,
    now: u64,
    smss: u32,
    link: Link,
    credit: Option<(u8, bool)>,
    /// The time at which the link has sent all that it took in.
    free: u64,
    random: u64,
    flight: VecDeque<Flight>,
    last_lost: Option<Packet>,
    see: &'a mut dyn FnMut(&Snapshot),
}

/// Runs a trace through both; `see` is shown every snapshot on which they agree after an ACK. C
/// does without the amendment that is `broken`.
pub(crate) fn run(
    native: &Native,
    trace: &Trace,
    broken: Option<Amendment>,
    see: &mut dyn FnMut(&Snapshot),
) -> Result<(), Difference> {
    let mut twins = Twins::new(native, &trace.start, broken);
    twins.compare("start")?;
    let link = Link {
        kbit_per_sec: 10_000,
        rtt_us: 40_000,
        queue_ms: 40,
        mark_above_us: u64::MAX / 1_000,
        loss_per_mille: 0,
        clump_us: 0,
    };
    let mut run = Run {
        twins,
        now: trace.start.now,
        smss: trace.start.smss,
        link,
        credit: None,
        free: trace.start.now,
        random: trace.start.seed | 1,
        flight: VecDeque::new(),
        last_lost: None,
        see,
    };
    trace.steps.iter().try_for_each(|step| run.step(step))
}

impl Run<'_> {
    fn step(&mut self, step: &Step) -> Result<(), Difference> {
        match *step {
            Step::Link(ref link) => self.link = link.clone(),
            Step::Run(ms) => self.run(ms * MS, PACKETS_OF_A_RUN)?,
            Step::Write(packets, ms) => {
                self.run(ms * MS, packets)?;
                self.twins.app_limited()?;
                self.run(ms * MS, 0)?;
            }
            Step::Idle(ms) => {
                self.run(ms * MS, 0)?;
                self.twins.app_limited()?;
            }
            Step::Answers { clump_us, times, packets, pause_us } => {
                self.link.clump_us = clump_us;
                for _ in 0..times {
                    self.answer(packets)?;
                    self.twins.app_limited()?;
                    self.now += pause_us * 1_000;
                }
            }
            Step::Credit(credit) => self.credit = credit,
            Step::Sleep(ms) => {
                self.now += ms * MS;
                self.receive()?;
            }
            Step::Send(packets, bytes) => {
                for _ in 0..packets {
                    self.send(bytes)?;
                }
            }
            Step::Report(acked, lost, ce, rtt) => self.report(acked, lost, ce, rtt, false)?,
            Step::LateAck => {
                if let Some(packet) = self.last_lost.take() {
                    let ack = Ack { acked_after_loss: vec![packet], ..Ack::default() };
                    self.ack(&ack)?;
                }
            }
            Step::Rto => self.time_out()?,
            Step::Outage(times, ms) => {
                for n in 0..times {
                    self.now += (ms * MS) << n;
                    self.time_out()?;
                    self.send(self.smss)?;
                }
            }
            Step::RtoReport(acked, lost, ce) => self.report(acked, lost, ce, Rtt::Own, true)?,
            Step::RepairAtOnce(packets) => {
                let packets = usize::from(packets).min(self.flight.len());
                let lost = self.flight.drain(..packets).map(|f| f.packet).collect();
                self.ack(&Ack { lost, ..Ack::default() })?;
                for _ in 0..packets {
                    self.send(self.smss)?;
                }
            }
            Step::ClockBack(ms) => self.now = self.now.saturating_sub(ms * MS),
            Step::SpuriousLoss => self.twins.spurious_loss(self.now)?,
            Step::Smss(smss) => {
                self.smss = smss;
                self.twins.smss(self.now, smss)?;
            }
            Step::Discard => {
                if let Some(f) = self.flight.pop_back() {
                    self.twins.discarded(&f.packet)?;
                }
            }
            Step::ForgetFlight => {
                self.flight.clear();
                self.twins.forget_flight()?;
            }
        }
        Ok(())
    }

    /// Sends and receives for so long, at most so many packets.
    fn run(&mut self, nanos: u64, mut packets: u32) -> Result<(), Difference> {
        let end = self.now + nanos;
        while self.now < end {
            self.run_to_next(end, &mut packets)?;
        }
        Ok(())
    }

    /// Sends so many packets, and receives until nothing is in flight; gives up after 20 s.
    fn answer(&mut self, mut packets: u32) -> Result<(), Difference> {
        let end = self.now + 20_000 * MS;
        while self.now < end && (packets > 0 || !self.flight.is_empty()) {
            self.run_to_next(end, &mut packets)?;
        }
        Ok(())
    }

    /// Sends what may be sent now of so many packets, and receives what comes next, by `end`.
    fn run_to_next(&mut self, end: u64, packets: &mut u32) -> Result<(), Difference> {
        let next_send = if *packets == 0 { None } else { self.send_allowed(packets)? };
        let next_ack = self.flight.front().map(|f| f.arrives);
        let next = [next_send, next_ack].into_iter().flatten().min().unwrap_or(end).min(end);
        self.now = next.max(self.now + 1);
        self.receive()
    }

    /// Sends what may be sent now; when the pacer allows more.
    fn send_allowed(&mut self, packets: &mut u32) -> Result<Option<u64>, Difference> {
        while *packets > 0 {
            if let Some((most, is_said)) = self.credit
                && self.flight.len() >= most.into()
            {
                if is_said {
                    self.twins.app_limited()?;
                }
                return Ok(None);
            }
            match self.twins.can_send(self.now) {
                SendDecision::Now { .. } => self.send(self.smss)?,
                SendDecision::At(at) => return Ok(Some(at.as_nanos())),
                SendDecision::CwndLimited => return Ok(None),
            }
            *packets -= 1;
        }
        Ok(None)
    }

    fn send(&mut self, bytes: u32) -> Result<(), Difference> {
        let packet = self.twins.sent(self.now, bytes)?;
        let queue = self.free.saturating_sub(self.now);
        let is_lost =
            queue > self.link.queue_ms * MS || self.random() % 1_000 < self.link.loss_per_mille;
        if !is_lost {
            let nanos = u64::from(bytes) * 8 * MS / self.link.kbit_per_sec;
            self.free = self.free.max(self.now) + nanos;
        }
        let clump = self.link.clump_us.max(1) * 1_000;
        let arrives = self.free.max(self.now) + self.link.rtt_us * 1_000;
        let arrives = arrives.div_ceil(clump) * clump;
        let is_marked = queue > self.link.mark_above_us * 1_000;
        self.flight.push_back(Flight { arrives, packet, is_lost, is_marked });
        Ok(())
    }

    /// Acknowledges all packets that have arrived by now, in one ACK.
    fn receive(&mut self) -> Result<(), Difference> {
        let mut ack = Ack::default();
        while self.flight.front().is_some_and(|f| f.arrives <= self.now) {
            let Some(f) = self.flight.pop_front() else { break };
            if f.is_lost { &mut ack.lost } else { &mut ack.acked }.push(f.packet);
            ack.ce += u64::from(f.is_marked && !f.is_lost);
        }
        if ack.acked.is_empty() && ack.lost.is_empty() { Ok(()) } else { self.ack(&ack) }
    }

    /// Everything in flight is lost, and the timer fires.
    fn time_out(&mut self) -> Result<(), Difference> {
        let lost = self.flight.drain(..).map(|f| f.packet).collect();
        self.ack(&Ack { lost, timeout: true, ..Ack::default() })
    }

    fn report(
        &mut self,
        nth_acked: u8,
        nth_lost: u8,
        ce: u64,
        rtt: Rtt,
        timeout: bool,
    ) -> Result<(), Difference> {
        let mut ack = Ack { ce, timeout, rtt, ..Ack::default() };
        let mut rest = VecDeque::new();
        for (n, f) in self.flight.drain(..).enumerate() {
            if n % usize::from(nth_acked) == 0 {
                ack.acked.push(f.packet);
            } else if n % usize::from(nth_lost) == 0 {
                ack.lost.push(f.packet);
            } else {
                rest.push_back(f);
            }
        }
        self.flight = rest;
        if nth_acked.is_multiple_of(2) {
            ack.acked.reverse(); // the newest need not come last
        }
        self.ack(&ack)
    }

    fn ack(&mut self, ack: &Ack) -> Result<(), Difference> {
        self.last_lost = ack.lost.last().copied().or(self.last_lost);
        self.twins.ack(self.now, ack)?;
        (self.see)(&self.twins.snapshot());
        Ok(())
    }

    /// xorshift64.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
