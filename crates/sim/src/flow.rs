//! One flow: its two ends, and what its application does when.

use fullpipe_cc::{Duration, Instant, Snapshot};
use hdrhistogram::Histogram;

use crate::config::{Application, FlowConfig, Route};
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::tally::Tally;

/// What the sender did. Bytes are as congestion control counts them: QUIC's datagrams without IP and
/// UDP, TCP's payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Packets sent.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that the sender marked lost.
    pub lost_packets: u64,
    /// Their bytes.
    pub lost_bytes: u64,
}

impl SenderStats {
    pub(crate) fn add(&mut self, other: Self) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.lost_packets += other.lost_packets;
        self.lost_bytes += other.lost_bytes;
    }
}

/// A packet as it left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentPacket {
    /// Its number; the first has 0.
    pub number: u64,
    /// Its bytes, as in [`SenderStats`].
    pub bytes: u32,
    /// When.
    pub sent: Instant,
}

/// What an application wants next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Nothing,
    /// Look whether something can be sent.
    Send,
    /// The receiver's application asks the sender's for an answer.
    Request,
    /// A new connection of its kind.
    Connect,
}

/// A flow of a simulation.
#[derive(Debug)]
pub struct Flow {
    pub(crate) config: FlowConfig,
    pub(crate) route: Route,
    /// What a packet on the wire has beyond what congestion control counts; and an ACK in all.
    pub(crate) header_bytes: u32,
    pub(crate) ack_bytes: u32,
    pub(crate) start: Instant,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// For a connection of [`Application::ShortFlows`]: the flow that it belongs to.
    pub(crate) parent: Option<u32>,
    /// What its short connections, already over, came to.
    pub(crate) over: SenderStats,
    /// Application bytes that its receiver, or those of its short connections, read.
    pub(crate) received: u64,
    end: Option<Instant>,
    /// When the application does its next step.
    pub(crate) wakes: Option<Instant>,
    is_on: bool,
    /// The offset at which the answer at hand ends, and when it was asked for.
    answer: (u64, Instant),
    /// How long answers took, or connections.
    pub(crate) completion_ns: Option<Tally>,
}

impl Flow {
    pub(crate) fn new(config: FlowConfig, route: Route, start: Instant) -> Self {
        let completes = matches!(
            config.application,
            Application::RequestResponse { .. } | Application::ShortFlows { .. }
        );
        Self {
            config,
            route,
            header_bytes: config.header_bytes(),
            ack_bytes: config.ack_bytes(),
            start,
            sender: Sender::new(&config, start),
            receiver: Receiver::new(&config),
            parent: None,
            over: SenderStats::default(),
            received: 0,
            end: None,
            wakes: Some(start),
            is_on: false,
            answer: (0, start),
            completion_ns: completes.then(Tally::new),
        }
    }

    /// What the congestion control believes now. The connections of [`Application::ShortFlows`] have
    /// theirs to themselves; what this shows then is a controller that never sent.
    pub fn snapshot(&self) -> Snapshot {
        self.sender.snapshot()
    }

    /// What the sender did so far. Connections of [`Application::ShortFlows`] count when they are
    /// over.
    pub fn stats(&self) -> SenderStats {
        let mut stats = self.sender.stats;
        stats.add(self.over);
        stats
    }

    /// The packet that was sent last. Those of the connections of [`Application::ShortFlows`] are not
    /// looked at.
    pub fn newest_packet(&self) -> Option<SentPacket> {
        self.sender.newest_packet()
    }

    /// The newest round-trip sample.
    pub fn latest_rtt(&self) -> Option<Duration> {
        self.sender.latest_rtt()
    }

    /// Application bytes that the receiver read, in order, so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// When it started.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// When the receiver had all bytes of [`Application::Bytes`]; `None` before, and for all others.
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Nanoseconds from a request to the last byte of its answer ([`Application::RequestResponse`]),
    /// or from a connection's start to its last byte ([`Application::ShortFlows`]).
    pub fn completion_ns(&self) -> Option<Histogram<u64>> {
        self.completion_ns.as_ref().map(Tally::histogram)
    }

    /// Whether its application has fallen silent for good.
    fn has_stopped(&self, now: Instant) -> bool {
        self.config.stop.is_some_and(|stop| now >= Instant::default() + stop)
    }

    /// The application's next step, at its time; `pause` is the time until the next connection.
    pub(crate) fn on_wake(
        &mut self,
        now: Instant,
        pause: impl FnOnce(Duration) -> Duration,
    ) -> Wish {
        let is_first = now == self.start;
        self.wakes = None;
        if self.has_stopped(now) {
            self.sender.pause();
            return Wish::Nothing;
        }
        let wish = match self.config.application {
            Application::Bulk => {
                self.sender.resume(now);
                Wish::Send
            }
            Application::Bytes(bytes) => {
                self.sender.write(now, bytes);
                Wish::Send
            }
            Application::RateLimited { rate, write_bytes } => {
                self.sender.write(now, write_bytes);
                self.wakes = Some(now + rate.time_for(write_bytes));
                Wish::Send
            }
            Application::OnOff { on, off } => {
                self.is_on = !self.is_on;
                if self.is_on {
                    self.sender.resume(now);
                } else {
                    self.sender.pause();
                }
                self.wakes = Some(now + if self.is_on { on } else { off });
                Wish::Send
            }
            Application::RequestResponse { response_bytes, .. } => {
                self.answer = (self.received + response_bytes, now);
                Wish::Request
            }
            Application::ShortFlows { mean_interval, .. } => {
                self.wakes = Some(now + pause(mean_interval));
                if is_first { Wish::Nothing } else { Wish::Connect }
            }
        };
        if let Some(stop) = self.config.stop {
            let stop = Instant::default() + stop;
            self.wakes = Some(self.wakes.map_or(stop, |at| at.min(stop)));
        }
        wish
    }

    /// The sender's application hears of a request.
    pub(crate) fn on_request(&mut self, now: Instant) {
        if let Application::RequestResponse { response_bytes, .. } = self.config.application {
            self.sender.write(now, response_bytes);
        }
    }

    /// The receiver's application read on; when it wants to do something because of that.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant) -> Option<Instant> {
        self.received = self.receiver.readable;
        match self.config.application {
            Application::Bytes(all) if self.received >= all && self.end.is_none() => {
                self.end = Some(now);
            }
            Application::RequestResponse { think, .. }
                if self.received >= self.answer.0 && self.wakes.is_none() =>
            {
                self.wakes = Some(now + think);
                if let Some(times) = &mut self.completion_ns {
                    times.record(now.since(self.answer.1).as_nanos());
                }
                return self.wakes;
            }
            _ => {}
        }
        None
    }
}
