//! Both implementations side by side: every event is told to both, and after every event both must
//! believe the same.

use fullpipe_cc::{
    Algorithm, Amendment, Amendments, Bbr3xLinuxOptions, Config, Controller, Duration, Instant,
    PacketState, Rate, RttSample, SendDecision, Snapshot, Transport,
};

use super::model::{self, VIEW};
use super::native::{self, Native};

/// The start of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) smss: u32,
    /// In packets.
    pub(crate) initial_cwnd: u64,
    pub(crate) seed: u64,
    pub(crate) ecn: bool,
    pub(crate) now: u64,
    /// In bytes per second.
    pub(crate) max_pacing_rate: Option<u64>,
    /// The amendments that `bbr3x-linux` is without; `None` for `bbr3-linux`.
    pub(crate) without: Option<Amendments>,
}

impl Start {
    pub(crate) fn initial_cwnd_in_bytes(&self) -> u64 {
        self.initial_cwnd * u64::from(self.smss)
    }
}

/// A packet, as either side keeps it.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    rust: PacketState,
    c: native::Packet,
}

/// The round-trip sample of an ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Rtt {
    /// The time since the newest packet was sent.
    #[default]
    Own,
    /// In us.
    Exact(u64),
    /// There is none: every packet was sent twice, and timestamps do not say which of the two
    /// arrived.
    Ambiguous,
}

/// The news of one ACK or loss timer.
#[derive(Default)]
pub(crate) struct Ack {
    pub(crate) acked: Vec<Packet>,
    pub(crate) lost: Vec<Packet>,
    pub(crate) acked_after_loss: Vec<Packet>,
    pub(crate) ce: u64,
    pub(crate) rtt: Rtt,
    /// The retransmission timer fired. C is told of it after the losses.
    pub(crate) timeout: bool,
}

/// The two do not believe the same.
pub(crate) struct Difference(pub(crate) String);

pub(crate) struct Twins {
    rust: Controller,
    c: native::Flow,
    config: Config,
    events: u64,
}

impl Twins {
    /// `broken` is on in Rust and off in C.
    pub(crate) fn new(native: &Native, start: &Start, broken: Option<Amendment>) -> Self {
        let without = start.without.unwrap_or_default();
        let config = Config {
            smss: start.smss,
            initial_cwnd: Some(start.initial_cwnd_in_bytes()),
            max_pacing_rate: start.max_pacing_rate.map(Rate::from_bytes_per_sec),
            transport: Transport::Tcp,
            ecn: start.ecn,
            ..Config::new(start.seed)
        };
        let now = Instant::from_nanos(start.now);
        let is_amended = start.without.is_some();
        let amended = Algorithm::Bbr3xLinux(Bbr3xLinuxOptions::new().without(without));
        let algorithm = if is_amended { amended } else { Algorithm::BBR3_LINUX };
        let rust = Controller::new(algorithm, config, now);
        let is_on = |amendment: &Amendment| {
            is_amended && !without.contains(*amendment) && broken != Some(*amendment)
        };
        let bits = Amendment::ALL.iter().enumerate().filter(|(_, amendment)| is_on(amendment));
        let amendments = bits.map(|(bit, _)| 1 << bit).sum();
        let c = native.flow(start, amendments);
        Self { rust, c, config, events: 0 }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.rust.snapshot()
    }

    /// Compares every variable.
    pub(crate) fn compare(&mut self, event: &str) -> Result<(), Difference> {
        self.events += 1;
        let (rust, c) = (model::view(&self.rust.snapshot()), self.c.view());
        if rust == c {
            return Ok(());
        }
        let rows = VIEW.iter().zip(rust.iter().zip(&c)).filter(|(_, (rust, c))| rust != c);
        let rows: Vec<String> =
            rows.map(|(name, (rust, c))| format!("{name}: {rust} in Rust, {c} in C")).collect();
        Err(Difference(format!("event {} ({event}): {}", self.events, rows.join("; "))))
    }

    /// The pacer is Rust's alone: TCP has its own.
    pub(crate) fn can_send(&mut self, now: u64) -> SendDecision {
        let send = self.rust.can_send(Instant::from_nanos(now));
        if send == SendDecision::CwndLimited {
            self.c.cwnd_limited();
        }
        send
    }

    pub(crate) fn sent(&mut self, now: u64, size: u32) -> Result<Packet, Difference> {
        let packet = Packet {
            rust: self.rust.on_sent(Instant::from_nanos(now), size),
            c: self.c.sent(now, size.into()),
        };
        self.compare("sent").map(|()| packet)
    }

    pub(crate) fn ack(&mut self, now: u64, ack: &Ack) -> Result<(), Difference> {
        let mut batch = self.rust.ack(Instant::from_nanos(now));
        self.c.ack();
        for packet in &ack.acked {
            batch.acked(&packet.rust);
            self.c.acked(&packet.c, false);
        }
        for packet in &ack.lost {
            batch.lost(&packet.rust);
            self.c.lost(&packet.c);
        }
        for packet in &ack.acked_after_loss {
            batch.acked_after_loss(&packet.rust);
            self.c.acked(&packet.c, true);
        }
        batch.ce(ack.ce);
        self.c.ce(ack.ce);
        match ack.rtt {
            Rtt::Exact(us) => {
                let rtt = Duration::from_micros(us);
                batch.rtt(RttSample::Exact(rtt));
                self.c.rtt(rtt.as_nanos());
            }
            Rtt::Ambiguous => {
                batch.rtt(RttSample::Ambiguous);
                self.c.no_rtt();
            }
            Rtt::Own => {}
        }
        if ack.timeout {
            batch.timeout();
        }
        batch.finish();
        self.c.finish(now);
        if ack.timeout {
            self.c.rto(now);
        }
        self.compare("ack")
    }

    pub(crate) fn app_limited(&mut self) -> Result<(), Difference> {
        self.rust.on_app_limited();
        self.c.app_limited();
        self.compare("app-limited")
    }

    pub(crate) fn spurious_loss(&mut self, now: u64) -> Result<(), Difference> {
        self.rust.on_spurious_loss(Instant::from_nanos(now));
        self.c.spurious_loss();
        self.compare("spurious loss")
    }

    pub(crate) fn discarded(&mut self, packet: &Packet) -> Result<(), Difference> {
        self.rust.on_discarded(&packet.rust);
        self.c.discarded(&packet.c);
        self.compare("discarded")
    }

    pub(crate) fn forget_flight(&mut self) -> Result<(), Difference> {
        self.rust.forget_flight();
        self.c.forget_flight();
        self.compare("flight forgotten")
    }

    pub(crate) fn smss(&mut self, now: u64, smss: u32) -> Result<(), Difference> {
        self.rust.on_mtu_update(Instant::from_nanos(now), smss, self.config.initial_cwnd);
        self.c.smss(smss.into(), self.rust.initial_cwnd());
        self.compare("smss")
    }
}
