//! One flow: its two ends, and what its application does when.

mod ends;

use fullpipe_cc::{Duration, Instant, Snapshot};
use fullpipe_path::Ecn;
use fullpipe_traffic::{Action, MediaStats, Reading, SenderStats, SentPacket, Tally, Traffic};

use crate::config::FlowConfig;
use crate::host::Host;
use crate::packet::Data;
use crate::random::Jitter;
use crate::receiver::Receiver;
use crate::sender::Sender;

/// Time after which the first packet of a handshake is sent again.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The most doublings of a request's timeout.
const MAX_BACKOFF: u32 = 10;

/// An application's next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Nothing,
    /// Look whether something can be sent.
    Send,
    /// Begin the connection.
    Handshake,
    /// The receiver's application asks the sender's for the answer of this number.
    Request(u64),
    /// A new connection of its kind.
    Connect,
}

/// The seeds of what a flow draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeds {
    pub(crate) starts: u64,
    pub(crate) jitter: u64,
    pub(crate) receiver: u64,
}

/// A request of the receiver's application that may have been lost: no part of its answer has come.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The time of the next retransmission.
    resend: Instant,
    timeouts: u32,
}

/// The handshake of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handshake {
    /// Its first packet was sent then, so many times in all, and is sent again at the last time.
    Asked(Instant, u32, Instant),
    Done,
}

/// A flow of a simulation.
///
/// The order in memory is that of use: with a thousand flows each is in no cache when something
/// happens to it, and each line of it that is touched takes longer than what is done there. So what
/// each packet needs stands together, from the first field to the controller, and what few flows
/// have is boxed.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flow {
    // For each packet that arrives.
    /// Application bytes that its receiver, or those of its short connections, read.
    pub(crate) received: u64,
    /// The receiver's host, if it takes time.
    pub(crate) host: Option<Box<Host<(Data, Ecn)>>>,
    /// True if it matters to the application that it reads.
    heeds_reading: bool,
    /// The configuration's.
    pub(crate) ecn: Ecn,
    /// The size of an ACK on the wire.
    pub(crate) ack_bytes: u32,
    pub(crate) start: Instant,
    end: Option<Instant>,
    pub(crate) receiver: Receiver,
    // For each packet that leaves.
    /// Bytes of a packet on the wire that congestion control does not count.
    pub(crate) header_bytes: u32,
    /// The delay of its sender's host.
    pub(crate) jitter: Jitter,
    pub(crate) sender: Sender,
    // For what happens now and then.
    pub(crate) config: FlowConfig,
    /// Statistics of its short connections that have ended.
    pub(crate) over: SenderStats,
    traffic: Traffic,
    handshake: Option<Handshake>,
    request: Option<Request>,
    /// Requests that the receiver made, and that the sender answered.
    requests: u64,
    answers: u64,
    /// Completion times of answers or connections.
    pub(crate) completion_ns: Option<Box<Tally>>,
}

impl Flow {
    pub(crate) fn new(config: FlowConfig, seeds: Seeds) -> Self {
        let start = Instant::default() + config.start;
        let stop = config.stop.map(|stop| Instant::default() + stop);
        let sender = Sender::new(&config, start);
        Self {
            ecn: config.ecn,
            heeds_reading: config.application.heeds_reading(),
            config,
            header_bytes: config.header_bytes(),
            ack_bytes: config.ack_bytes(),
            start,
            sender,
            receiver: Receiver::new(&config),
            host: (config.receiver_delay > Duration::ZERO)
                .then(|| Box::new(Host::new(config.receiver_delay, seeds.receiver))),
            over: SenderStats::default(),
            received: 0,
            end: None,
            traffic: Traffic::new(config.application, start, stop, seeds.starts),
            handshake: (!config.handshake).then_some(Handshake::Done),
            jitter: Jitter::new(config.jitter, seeds.jitter),
            request: None,
            requests: 0,
            answers: 0,
            completion_ns: config.application.completes().then(|| Box::new(Tally::new())),
        }
    }

    /// The current state of the congestion control. Each connection of [`Application::ShortFlows`]
    /// has its own; this then shows a controller that never sent.
    ///
    /// [`Application::ShortFlows`]: fullpipe_traffic::Application::ShortFlows
    pub fn snapshot(&self) -> Snapshot {
        self.sender.snapshot()
    }

    /// How often the first packet of its handshake was sent, until an answer has come.
    pub fn handshake_tries(&self) -> Option<u32> {
        match self.handshake {
            Some(Handshake::Asked(_, tries, _)) => Some(tries),
            _ => None,
        }
    }

    /// True if the receiver's window is full, or nearly, and there is data for it.
    pub fn fills_window(&self) -> bool {
        self.sender.fills_window()
    }

    /// Statistics of the sender so far. Connections of [`Application::ShortFlows`] count when they
    /// are over; [`Sim::sender_stats`](crate::Sim::sender_stats) counts those that are open too.
    ///
    /// [`Application::ShortFlows`]: fullpipe_traffic::Application::ShortFlows
    pub fn stats(&self) -> SenderStats {
        let mut stats = self.sender.stats;
        stats.add(self.over);
        stats
    }

    /// The ECN codepoint of the packets that leave now: the configuration's, but none if the field
    /// is changed on the way (RFC 9000 section 13.4.2).
    pub fn ecn(&self) -> Ecn {
        if self.sender.has_no_ecn() { Ecn::NotEct } else { self.ecn }
    }

    /// The same of the very next packet: none as well while the sender asks whether the field is
    /// changed.
    #[inline]
    pub(crate) fn codepoint(&self) -> Ecn {
        if self.sender.is_without_ecn() { Ecn::NotEct } else { self.ecn }
    }

    /// The packet that was sent last. Those of the connections of [`Application::ShortFlows`] are
    /// not looked at.
    ///
    /// [`Application::ShortFlows`]: fullpipe_traffic::Application::ShortFlows
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

    /// Its start time.
    pub fn start(&self) -> Instant {
        self.start
    }

    /// The time at which the receiver had all bytes of [`Application::Bytes`]; `None` before, and
    /// for all others.
    ///
    /// [`Application::Bytes`]: fullpipe_traffic::Application::Bytes
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Nanoseconds from a request to the last byte of its answer
    /// ([`Application::RequestResponse`]), from a connection's start to its last byte
    /// ([`Application::ShortFlows`]), or from a frame's capture to its last byte
    /// ([`Application::Media`]).
    ///
    /// [`Application::Media`]: fullpipe_traffic::Application::Media
    /// [`Application::RequestResponse`]: fullpipe_traffic::Application::RequestResponse
    /// [`Application::ShortFlows`]: fullpipe_traffic::Application::ShortFlows
    pub fn completion_ns(&self) -> Option<&Tally> {
        self.completion_ns.as_deref()
    }

    /// Counters of [`Application::Media`], with the part of a stall that lasts `now`.
    ///
    /// [`Application::Media`]: fullpipe_traffic::Application::Media
    pub fn media_stats(&self, now: Instant) -> Option<MediaStats> {
        self.traffic.media_stats(now)
    }

    /// Frames of `Application::Media` that were made and have not arrived.
    pub(crate) fn frames_under_way(&self) -> u64 {
        self.traffic.frames_under_way()
    }

    /// True if an answer of `Application::RequestResponse` was asked for and is not complete.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.traffic.asked().is_some()
    }

    /// The time of the application's next step, or of a retransmission for it.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        let resend = match self.handshake {
            Some(Handshake::Asked(_, _, resend)) => Some(resend),
            _ => self.request.map(|request| request.resend),
        };
        let step = self.traffic.wakes();
        step.map_or(resend, |at| Some(resend.map_or(at, |resend| resend.min(at))))
    }

    /// The application's next step, or a retransmission, at its time.
    pub(crate) fn on_wake(&mut self, now: Instant) -> Wish {
        if self.config.application.heeds_sender() {
            self.tell_of_sender(now);
        }
        match self.traffic.on_time(now) {
            Action::Nothing => return self.resend(now),
            Action::Connect if self.config.application.has_many_connections() => {
                return Wish::Connect;
            }
            Action::Connect if self.handshake.is_none() => return self.ask_for_connection(now),
            Action::Connect => {
                self.traffic.on_connected(now);
                return self.on_wake(now);
            }
            Action::Write { bytes, .. } => self.sender.write(now, bytes),
            Action::Resume => self.sender.resume(now),
            Action::Pause => self.sender.pause(),
            Action::Request => {
                let resend = now + self.sender.request_timeout();
                self.request = Some(Request { resend, timeouts: 0 });
                self.requests += 1;
                return Wish::Request(self.requests - 1);
            }
            Action::Stop => {
                // A handshake that was never answered is not tried again either.
                (self.handshake, self.request) = (Some(Handshake::Done), None);
                self.sender.pause();
                return Wish::Nothing;
            }
        }
        Wish::Send
    }

    /// Tells the application how the sender is, and asks there for the probe that it wants.
    #[cold]
    fn tell_of_sender(&mut self, now: Instant) {
        self.traffic.on_sender(self.sender.view());
        if let Some(target) = self.traffic.wanted_rate(now) {
            self.traffic.on_probe(now, self.sender.probe_bandwidth(now, target));
        }
    }

    /// Begins the connection. The first packet is sent again after a second, and then after twice
    /// the time (RFC 6298 section 2.1, RFC 9002 section 6.2.2).
    fn ask_for_connection(&mut self, now: Instant) -> Wish {
        let (first, times) = match self.handshake {
            Some(Handshake::Asked(first, times, _)) => (first, times),
            _ => (now, 0),
        };
        let wait = INITIAL_TIMEOUT.times(1 << times.min(MAX_BACKOFF));
        self.handshake = Some(Handshake::Asked(first, times + 1, now + wait));
        Wish::Handshake
    }

    /// The other side's part of the handshake arrived; whether that is news. A round trip of a
    /// packet that was sent once is the first sample.
    pub(crate) fn on_connected(&mut self, now: Instant) -> bool {
        let Some(Handshake::Asked(first, times, _)) = self.handshake else { return false };
        self.handshake = Some(Handshake::Done);
        self.traffic.on_connected(now);
        self.sender.connect(&self.config, now, (times == 1).then(|| now.since(first)));
        true
    }

    /// Sends again what got no answer in time: the handshake's first packet, or the request at hand
    /// when no part of its answer came within the sender's timeout, which doubles each time (RFC
    /// 9002 section 6.2.1, RFC 6298 section 5.5).
    fn resend(&mut self, now: Instant) -> Wish {
        if let Some(Handshake::Asked(_, _, resend)) = self.handshake {
            return if resend <= now { self.ask_for_connection(now) } else { Wish::Nothing };
        }
        let timeout = self.sender.request_timeout();
        let Some(request) = self.request.as_mut().filter(|request| request.resend <= now) else {
            return Wish::Nothing;
        };
        request.timeouts = (request.timeouts + 1).min(MAX_BACKOFF);
        request.resend = now + timeout.times(1 << request.timeouts);
        Wish::Request(self.requests - 1)
    }

    /// The sender's application hears of a request; of one that was sent twice only the first
    /// counts.
    pub(crate) fn on_request(&mut self, now: Instant, number: u64) {
        if number == self.answers
            && let Action::Write { bytes, .. } = self.traffic.on_request(now)
        {
            self.answers += 1;
            self.sender.write(now, bytes);
        }
    }

    /// The receiver's application read on, from a packet with data that was written at `written`;
    /// when it wants to do something because of that.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Instant, written: Instant) -> Option<Instant> {
        self.received = self.receiver.readable;
        if !self.heeds_reading {
            return None;
        }
        match self.traffic.on_read(now, self.received) {
            Reading::More => {
                if self.traffic.asked().is_some_and(|asked| written >= asked) {
                    self.request = None;
                }
                None
            }
            Reading::All => {
                self.end = Some(now);
                None
            }
            Reading::Frame(time) => {
                if let Some(times) = &mut self.completion_ns {
                    times.record(time.as_nanos());
                    while let Reading::Frame(time) = self.traffic.on_read(now, self.received) {
                        times.record(time.as_nanos());
                    }
                }
                None
            }
            Reading::Answer(time) => {
                if let Some(times) = &mut self.completion_ns {
                    times.record(time.as_nanos());
                }
                self.request = None;
                self.traffic.wakes()
            }
        }
    }
}
