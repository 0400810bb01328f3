//! A controller, a transport around it that does what the events say, and the transport's books.

use core::fmt;

use fullpipe_cc::{
    AckBatch, Config, Controller, Duration, Instant, PacketState, RttSample, SendDecision,
    Transport,
};

use super::{Event, Options, Property, Start, mtu};

/// The kind of the last event, as far as a property depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Last {
    Ack,
    Timeout,
    Other,
}

/// A controller, the transport around it, and the transport's own books.
pub(crate) struct Flow {
    pub(crate) cc: Controller,
    pub(crate) now: Instant,
    pub(crate) smss: u64,
    /// Sent, and neither acknowledged nor lost nor discarded; in the order of sending.
    pub(crate) outstanding: Vec<PacketState>,
    /// The longest round trip that an ACK told of: the flow's own idea of a long time.
    pub(crate) longest_rtt: Duration,
    /// The longest time without an ACK of data.
    longest_silence: Duration,
    last_ack: Instant,
    pub(super) options: Options,
    pub(super) config: Config,
    legal: bool,
    /// Marked lost; may arrive after all.
    lost: Vec<PacketState>,
    /// Sent over a path before: whatever is said of them, nothing changes.
    old: Vec<PacketState>,
    /// Acknowledged, for the transport that acknowledges twice.
    acked: Vec<PacketState>,
    pub(super) sent_bytes: u64,
    pub(super) acked_bytes: u64,
    pub(super) late_bytes: u64,
    pub(super) lost_bytes: u64,
    pub(super) window_bound: u64,
    /// Bytes that the receiver lets be in flight.
    pub(super) credit: u64,
    /// The transport has overwritten C.inflight: the books need not agree from here on.
    pub(super) resynced: bool,
    pub(super) last: Last,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?}, {:?}", self.now, self.cc)
    }
}

impl Flow {
    pub(crate) fn new(start: &Start) -> Self {
        let cc = Controller::new(start.algorithm, start.config, start.now);
        let mut flow = Self {
            // Half of what was saved is what it may jump to.
            window_bound: cc.cwnd().max(start.config.resume.map_or(0, |saved| saved.cwnd / 2)),
            cc,
            now: start.now,
            smss: u64::from(start.config.smss),
            outstanding: Vec::new(),
            longest_rtt: Duration::ZERO,
            longest_silence: Duration::ZERO,
            last_ack: start.now,
            options: start.options,
            config: start.config,
            legal: start.legal,
            lost: Vec::new(),
            old: Vec::new(),
            acked: Vec::new(),
            sent_bytes: 0,
            acked_bytes: 0,
            late_bytes: 0,
            lost_bytes: 0,
            credit: u64::MAX,
            resynced: false,
            last: Last::Other,
        };
        flow.raise_bound(flow.highest_floor());
        if start.jumps {
            flow.cross_known_path();
        }
        flow
    }

    /// Runs `events`, and checks `properties` at the start and after each of them.
    pub(crate) fn run(&mut self, events: &[Event], properties: &[Property]) {
        let check = |flow: &Self| properties.iter().for_each(|p| flow.check(*p));
        check(self);
        for event in events {
            self.step(*event);
            check(self);
        }
    }

    /// One event.
    pub(crate) fn step(&mut self, event: Event) {
        self.last = Last::Other;
        match event {
            Event::Send { size, count, wait } => self.send_allowed(size, count, wait),
            Event::Ack { from, count, flags } => self.ack(from, count, flags),
            Event::Idle { exponent, mantissa, range } => {
                // Mostly up to minutes, sometimes up to years.
                let shift = if range.is_multiple_of(4) { exponent % 50 } else { exponent % 30 };
                self.now += Duration::from_nanos((1 + u64::from(mantissa)) << shift);
            }
            Event::Lose { count } => self.lose(usize::from(count % 16) + 1),
            Event::Timeout => self.time_out(),
            Event::Spurious => self.find_losses_spurious(),
            Event::Mtu { size } => self.change_mtu(mtu(size)),
            Event::AppLimited => self.cc.on_app_limited(),
            Event::CwndLimited => self.cc.on_cwnd_limited(),
            Event::Resync { value } => self.resync(value),
            Event::Discard { which } => self.discard(which),
            Event::Probe { size } => _ = self.send(self.size(size, 0)),
            Event::Forget { migrates } => self.change_path(migrates),
            Event::Outage { times, wait, is_probed } => self.pass_outage(times, wait, is_probed),
            Event::Restart { exponent, is_told, count } => self.restart(exponent, is_told, count),
            Event::AtOnce { lost, sent, acked } => self.act_at_once(lost, sent, acked),
            Event::Everything { nth_acked, nth_lost, flags } => {
                self.report_everything(nth_acked, nth_lost, flags);
            }
            Event::Ask { exponent, mantissa, fills } => self.ask(exponent, mantissa, fills),
            Event::Distrust { shift } => self.distrust_window(shift),
            Event::OwnTimer { what, count, late } => self.keep_own_timer(what, count, late),
            Event::Cumulative { count, exponent, is_repair } => {
                self.ack_cumulatively(count, exponent, is_repair);
            }
            Event::Limit(limit) => self.limit(limit),
            Event::Illegal { .. } if self.legal => {}
            Event::Illegal { what, which } => self.misbehave(what, which),
        }
    }

    fn size(&self, class: u8, argument: u8) -> u32 {
        match class % 6 {
            0 | 1 => self.smss as u32,
            2 => 1,
            3 => 65_536,
            4 => u32::from(argument) * 257 + 1,
            _ => self.cc.send_quantum().min(65_536) as u32,
        }
    }

    /// The longest time without an ACK of data, up to now.
    pub(crate) fn longest_silence(&self) -> Duration {
        self.longest_silence.max(self.now.since(self.last_ack))
    }

    /// Sends one packet, allowed or not.
    pub(crate) fn send(&mut self, bytes: u32) -> PacketState {
        let packet = self.cc.on_sent(self.now, bytes);
        self.sent_bytes += packet.size();
        self.outstanding.push(packet);
        packet
    }

    pub(super) fn send_allowed(&mut self, class: u8, count: u8, wait: u8) {
        for _ in 0..=count % 32 {
            match self.cc.can_send(self.now) {
                SendDecision::Now { quantum } => {
                    let bytes = u64::from(self.size(class, count)).min(quantum).min(65_536);
                    if !self.has_credit(bytes) {
                        return;
                    }
                    _ = self.send(bytes as u32);
                }
                SendDecision::At(t) if wait % 2 == 1 => self.now = t,
                _ => return,
            }
        }
    }

    fn ack(&mut self, from: u8, count: u8, flags: u8) {
        let step = [0, 0, 1, 1_000, 100_000, 1_000_000, 20_000_000, 100_000_000];
        self.now += Duration::from_nanos(step[usize::from(flags >> 5)]);
        if self.outstanding.is_empty() {
            return;
        }
        let len = self.outstanding.len();
        // Mostly the oldest; the rest is reordering.
        let first = if from < 160 { 0 } else { usize::from(from) % len };
        let end = (first + usize::from(count) + 1).min(len);
        let mut packets: Vec<PacketState> = self.outstanding.drain(first..end).collect();
        if flags & 1 == 1 {
            packets.reverse();
        }
        // What is older than the acknowledged packets may be lost by the same ACK.
        let gone: Vec<PacketState> =
            if flags & 6 == 6 { self.outstanding.drain(..first).collect() } else { Vec::new() };
        let late = if flags & 8 == 8 { self.lost.pop() } else { None };
        let marks = if flags & 24 == 16 { u64::from(count % 3) } else { 0 };
        let rtt = (flags & 3 == 3).then(|| Duration::from_nanos(u64::from(from) * 10_000));

        self.acked.extend(&packets);
        let newest = packets.iter().chain(&late).map(PacketState::send_time).max();
        let sampled = rtt.unwrap_or(self.now.since(newest.unwrap_or(self.now)));
        self.longest_rtt = self.longest_rtt.max(sampled);
        self.batch(|ack| {
            packets.iter().for_each(|p| ack.acked(p));
            gone.iter().for_each(|p| ack.lost(p));
            late.iter().for_each(|p| ack.acked_after_loss(p));
            ack.ce(marks);
            rtt.into_iter().for_each(|rtt| ack.rtt(RttSample::Exact(rtt)));
            // Any part of the round trip, and sometimes more than that.
            if flags & 128 == 128 {
                let delay = Duration::from_nanos(u64::from(count) << (from % 32));
                // In the host, by the receiver's choice, or both.
                match from % 4 {
                    1 => ack.ack_delay(delay),
                    3 => {
                        ack.receiver_delay(delay);
                        ack.ack_delay(delay);
                    }
                    _ => ack.receiver_delay(delay),
                }
            }
        });
        self.count_acked(&packets);
        self.count_lost(gone);
        self.count_late(late.as_slice());
        self.last = Last::Ack;
    }

    pub(super) fn batch(&mut self, say: impl FnOnce(&mut AckBatch<'_>)) {
        // Every other instant the batch is dropped instead of finished.
        let finish = self.now.as_nanos().is_multiple_of(2);
        let mut ack = self.cc.ack(self.now);
        if let Some(old) = self.old.pop() {
            ack.acked(&old);
            ack.lost(&old);
            ack.acked_after_loss(&old);
        }
        say(&mut ack);
        if finish {
            ack.finish();
        }
    }

    /// Acknowledges or loses packets that the caller took out of `outstanding`.
    pub(crate) fn report(&mut self, acked: &[PacketState], lost: Vec<PacketState>) {
        self.note_round_trip(acked);
        self.batch(|ack| {
            acked.iter().for_each(|p| ack.acked(p));
            lost.iter().for_each(|p| ack.lost(p));
        });
        self.count_acked(acked);
        self.count_lost(lost);
    }

    /// The sample that the controller takes of an ACK of these packets.
    pub(super) fn note_round_trip(&mut self, acked: &[PacketState]) {
        if let Some(newest) = acked.iter().map(PacketState::send_time).max() {
            self.longest_rtt = self.longest_rtt.max(self.now.since(newest));
        }
    }

    pub(super) fn count_acked(&mut self, packets: &[PacketState]) {
        let bytes: u64 = packets.iter().map(PacketState::size).sum();
        self.acked_bytes += bytes;
        if !packets.is_empty() {
            self.longest_silence = self.longest_silence();
            self.last_ack = self.now;
        }
        let triples = self.config.start == fullpipe_cc::Start::RapidStart;
        let growth = if triples { 2 * bytes } else { bytes };
        self.raise_bound(self.window_bound.saturating_add(growth));
        self.raise_bound(self.highest_floor());
        if self.conserves_packets() {
            self.raise_bound(self.cc.inflight().saturating_add(bytes));
        }
    }

    pub(super) fn count_late(&mut self, packets: &[PacketState]) {
        self.count_acked(packets);
        self.late_bytes += packets.iter().map(PacketState::size).sum::<u64>();
    }

    pub(super) fn count_lost(&mut self, packets: Vec<PacketState>) {
        self.lost_bytes += packets.iter().map(PacketState::size).sum::<u64>();
        self.lost.extend(packets);
    }

    pub(super) fn lose(&mut self, count: usize) {
        let count = count.min(self.outstanding.len());
        let packets: Vec<PacketState> = self.outstanding.drain(..count).collect();
        self.report(&[], packets);
    }

    /// Loses all that is outstanding and fires the retransmission timer.
    pub(crate) fn time_out(&mut self) {
        let packets = core::mem::take(&mut self.outstanding);
        self.batch(|ack| {
            ack.timeout();
            packets.iter().for_each(|p| ack.lost(p));
        });
        self.count_lost(packets);
        self.raise_bound(self.cc.inflight().saturating_add(self.smss));
        self.last = Last::Timeout;
    }

    /// All packets that were lost, to be reported as arrived, or the last one.
    pub(super) fn take_late(&mut self, all: bool) -> Vec<PacketState> {
        let from = if all { 0 } else { self.lost.len().saturating_sub(1) };
        self.lost.split_off(from)
    }

    fn find_losses_spurious(&mut self) {
        let packets = core::mem::take(&mut self.lost);
        if packets.is_empty() {
            return;
        }
        self.note_round_trip(&packets);
        self.batch(|ack| packets.iter().for_each(|p| ack.acked_after_loss(p)));
        self.count_late(&packets);
        self.cc.on_spurious_loss(self.now);
    }

    /// C.SMSS becomes `smss` bytes.
    pub(crate) fn change_mtu(&mut self, smss: u32) {
        self.config.smss = smss;
        self.smss = u64::from(smss);
        self.cc.on_mtu_update(self.now, smss, self.config.initial_cwnd);
        self.raise_bound(self.cc.initial_cwnd().max(self.highest_floor()));
    }

    pub(super) fn change_path(&mut self, migrates: bool) {
        self.leave_path();
        if migrates {
            self.cc.on_migration(self.now, self.now.as_nanos(), &self.config);
            self.begin_path();
        } else {
            self.cc.forget_flight();
        }
    }

    /// What is under way belongs to an earlier path.
    pub(super) fn leave_path(&mut self) {
        self.old.append(&mut self.outstanding);
        self.old.append(&mut self.lost);
        self.acked.clear();
    }

    /// The books begin anew.
    pub(super) fn begin_path(&mut self) {
        self.resynced = false;
        (self.sent_bytes, self.acked_bytes) = (0, 0);
        (self.late_bytes, self.lost_bytes) = (0, 0);
        self.raise_bound(self.cc.cwnd().max(self.highest_floor()));
    }

    fn resync(&mut self, value: u8) {
        let truth: u64 = self.outstanding.iter().map(PacketState::size).sum();
        let told = match value % 4 {
            _ if self.legal => truth,
            0 => 0,
            1 => u64::MAX,
            2 => truth / 2,
            _ => truth + u64::from(value),
        };
        self.resynced |= told != truth;
        self.batch(|ack| ack.resync_inflight(told));
    }

    fn discard(&mut self, which: u8) {
        if !self.outstanding.is_empty() {
            let packet = self.outstanding.remove(usize::from(which) % self.outstanding.len());
            self.cc.on_discarded(&packet);
        }
    }

    fn misbehave(&mut self, what: u8, which: u8) {
        let pick = |from: &[PacketState]| match from.len() {
            0 => None,
            len => Some(from[usize::from(which) % len]),
        };
        match what % 8 {
            // A packet is told of twice. Debug builds assert against it, until C.inflight was
            // overwritten: from then on it is no longer known what is in flight.
            0 | 1 => {
                let packet = pick(if what.is_multiple_of(2) { &self.acked } else { &self.lost });
                if let Some(p) = packet.filter(|_| !cfg!(debug_assertions) || self.resynced) {
                    self.batch(|ack| if which < 128 { ack.acked(&p) } else { ack.lost(&p) });
                    if which < 128 {
                        self.count_acked(&[p]);
                        self.last = Last::Ack;
                    }
                }
            }
            2 => _ = self.send(u32::MAX >> (which % 16)),
            3 => self.now = self.now - Duration::from_nanos(1 << (which % 50)),
            4 => self.batch(|ack| (0..which).for_each(|_| ack.ce(u64::MAX >> (which % 64)))),
            5 => {
                if let Some(p) = pick(&self.outstanding) {
                    self.outstanding.retain(|o| *o != p);
                    let rtt = Duration::from_nanos(u64::MAX >> (which % 64));
                    self.batch(|ack| {
                        ack.acked(&p);
                        ack.ce(u64::MAX);
                        ack.rtt(RttSample::Exact(rtt));
                    });
                    self.count_acked(&[p]);
                    self.last = Last::Ack;
                }
            }
            6 => self.cc.on_spurious_loss(self.now),
            // More than the window and the pacer allow, at once.
            _ => (0..which).for_each(|_| _ = self.send(65_536)),
        }
    }

    fn raise_bound(&mut self, to: u64) {
        self.window_bound = self.window_bound.max(to);
    }

    pub(super) fn is_bbr(&self) -> bool {
        self.cc.algorithm().name().starts_with("bbr")
    }

    /// BBRv1, as Linux has it, follows C.inflight in the first round of a recovery, under its floor
    /// and over its window.
    pub(crate) fn conserves_packets(&self) -> bool {
        self.cc.algorithm().name().starts_with("bbr1")
    }

    /// The most that [`Self::floor`] may be: bbr-swift's follows the receiver's waits.
    fn highest_floor(&self) -> u64 {
        if self.cc.algorithm().name() == "bbr-swift" {
            10 * self.smss
        } else {
            self.floor().max(2 * self.smss)
        }
    }

    /// BBR.MinPipeCwnd, which is one packet at least in bbr-swift, or RFC 9002's kMinimumWindow. Of
    /// TCP one packet stays after a timeout (RFC 5681 section 3.1).
    pub(super) fn floor(&self) -> u64 {
        match self.cc.algorithm().name() {
            "bbr-swift" => self.smss,
            _ if self.is_bbr() => 4 * self.smss,
            _ if self.config.transport == Transport::Tcp => self.smss,
            _ => 2 * self.smss,
        }
    }
}
