//! Properties that must hold for a flow after each event.

use fullpipe_cc::{Algorithm, Duration, PacketState, Rate, ResumePhase, SendDecision};

use super::flow::{Flow, Last};

/// A property that must hold after each event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Property {
    /// C.cwnd >= the algorithm's floor.
    WindowFloor,
    /// C.cwnd <= what the acknowledged bytes can have made of it.
    WindowBound,
    /// C.pacing_rate > 0.
    PacingRate,
    /// One SMSS <= C.send_quantum <= max(64 KiB, two SMSS).
    SendQuantum,
    /// C.delivered and C.lost are what was reported, and no more than was sent.
    Volumes,
    /// C.inflight is the sum of what is outstanding.
    Inflight,
    /// A wait that `can_send` demands ends, and then a packet may leave.
    Departure,
    /// An estimate of the rate is one that may be sent, and saved parameters are of a path that
    /// carried them.
    Answers,
}

impl Property {
    /// Those that hold whatever the transport does.
    pub(crate) const ALWAYS: [Self; 6] = [
        Self::WindowFloor,
        Self::WindowBound,
        Self::PacingRate,
        Self::SendQuantum,
        Self::Departure,
        Self::Answers,
    ];

    /// Those that hold if the transport keeps the rules.
    pub(crate) const ALL: [Self; 8] = [
        Self::WindowFloor,
        Self::WindowBound,
        Self::PacingRate,
        Self::SendQuantum,
        Self::Departure,
        Self::Answers,
        Self::Volumes,
        Self::Inflight,
    ];
}

impl Flow {
    /// Panics when `property` does not hold.
    pub(crate) fn check(&self, property: Property) {
        match property {
            Property::WindowFloor => self.check_floor(),
            Property::WindowBound => self.check_bound(),
            Property::PacingRate => {
                assert_ne!(self.cc.pacing_rate(), Some(Rate::ZERO), "a pacing rate of 0: {self:?}");
            }
            Property::SendQuantum => {
                let quantum = self.cc.send_quantum();
                let most = 65_536.max(2 * self.smss);
                assert!((self.smss..=most).contains(&quantum), "quantum {quantum}, most {most}");
            }
            Property::Volumes => self.check_volumes(),
            Property::Inflight => {
                let sum: u64 = self.outstanding.iter().map(PacketState::size).sum();
                assert_eq!(self.cc.inflight(), sum, "C.inflight and what is outstanding");
            }
            Property::Departure => self.check_departure(),
            Property::Answers => self.check_answers(),
        }
    }

    /// After a timeout BBR's window is one SMSS above what is in flight (the draft's OnEnterRTO),
    /// and stays low until the next ACK. A configured initial window may be lower than the floor
    /// until something is acknowledged. A transport that once told a wrong C.inflight may have any
    /// in flight: a jump of Careful Resume that ends in the timeout leaves what the path carried.
    fn check_floor(&self) {
        let (cwnd, initial) = (self.cc.cwnd(), self.cc.initial_cwnd());
        let least = match self.last {
            _ if self.conserves_packets() => self.smss,
            Last::Ack if self.is_bbr() => self.floor(),
            Last::Timeout if self.resynced => 1,
            Last::Timeout
                if self.cc.algorithm().name().starts_with("bbr3")
                    || self.cc.algorithm().name() == "bbr-swift" =>
            {
                self.cc.inflight().saturating_add(self.smss)
            }
            _ if self.is_bbr() => 1,
            _ => self.floor().min(initial),
        };
        assert!(cwnd >= least, "window {cwnd}, floor {least}, after {:?}: {self:?}", self.last);
    }

    /// No algorithm adds more to its window on an ACK than the ACK acknowledged: slow start and BBR
    /// add just that; Reno's and Prague's SMSS * acked / cwnd, CUBIC's W_est and its (target -
    /// cwnd) / cwnd * acked with target <= 1.5 cwnd add less, as cwnd >= SMSS. Rapid Start adds
    /// twice what was acknowledged. Undoing a reduction restores an earlier window, which was under
    /// the bound of its time. What else raises the window: the floor, the initial window of a new
    /// SMSS, BBR's C.inflight + SMSS on a timeout, and BBRv1's packet conservation.
    fn check_bound(&self) {
        if !matches!(self.cc.algorithm(), Algorithm::Fixed(_)) {
            let (cwnd, bound) = (self.cc.cwnd(), self.window_bound);
            assert!(cwnd <= bound, "window {cwnd}, bound {bound}: {self:?}");
        }
    }

    /// A packet that arrives after it was marked lost is in both volumes: without these the sum is
    /// at most what was sent. CE marks are in neither.
    fn check_volumes(&self) {
        let s = self.cc.snapshot();
        assert_eq!(s.delivered, self.acked_bytes, "C.delivered");
        assert_eq!(s.lost, self.lost_bytes, "C.lost");
        let once = s.delivered + s.lost - self.late_bytes;
        assert!(once <= self.sent_bytes, "{once} of {} sent", self.sent_bytes);
    }

    fn check_answers(&self) {
        if let Some(estimate) = self.cc.send_rate_estimate() {
            let most = self.config.max_pacing_rate.unwrap_or(Rate::MAX);
            assert!(
                estimate > Rate::ZERO && estimate <= most,
                "an estimate of {estimate}: {self:?}"
            );
        }
        if let Some(saved) = self.cc.saved_parameters() {
            assert!(saved.cwnd > 0 && saved.rtt > Duration::ZERO, "{saved:?}: {self:?}");
            let phase = self.cc.resume_phase();
            let is_known = matches!(phase, None | Some(ResumePhase::Reconnaissance));
            assert!(is_known, "{saved:?} are not validated in {phase:?}: {self:?}");
        }
    }

    /// Asked on a copy, because the question itself notes a full window.
    fn check_departure(&self) {
        let mut cc = self.cc.clone();
        match cc.can_send(self.now) {
            SendDecision::Now { quantum } => assert!(quantum >= self.smss, "quantum {quantum}"),
            // The last instant of the clock has no future.
            SendDecision::At(t) if t.as_nanos() == u64::MAX => {}
            SendDecision::At(t) => {
                assert!(t > self.now, "wait until {t:?}, and it is {:?}", self.now);
                let then = cc.can_send(t);
                assert!(matches!(then, SendDecision::Now { .. }), "at the time given: {then:?}");
            }
            SendDecision::CwndLimited => {
                let full = self.cc.inflight().saturating_add(self.smss) > self.cc.cwnd();
                assert!(full, "no room said, and there is");
            }
        }
    }
}
