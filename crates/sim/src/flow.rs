//! One flow: its two ends, and what its application does when.

use std::collections::VecDeque;

use fullpipe_cc::{Duration, Instant, Snapshot};
use fullpipe_path::{Ecn, Exponential};

use crate::config::{Application, Direction, FlowConfig, Route};
use crate::packet::Data;
use crate::random::Jitter;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::tally::Tally;

/// Statistics of a sender. Bytes are as congestion control counts them: QUIC's datagrams without IP
/// and UDP, TCP's payload.
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
    /// Adds the counters of another connection.
    pub fn add(&mut self, other: Self) {
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
    /// Its departure time.
    pub sent: Instant,
}

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

/// Packets that have arrived at the receiver's host, and that it has not got to.
#[derive(Debug)]
pub(crate) struct Host {
    delay: Jitter,
    /// Each with its arrival time and the time at which the host gets to it.
    held: VecDeque<(Instant, Instant, Data, Ecn)>,
}

impl Host {
    /// Takes a packet in; the time at which the host gets to it: not before the one ahead of it.
    pub(crate) fn hold(&mut self, now: Instant, data: Data, ecn: Ecn) -> Instant {
        let ahead = self.held.back().map_or(now, |(_, due, ..)| *due);
        let due = self.delay.after(now).max(ahead);
        self.held.push_back((now, due, data, ecn));
        due
    }

    /// The time at which the host gets to its next packet.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.front().map(|(_, due, ..)| *due)
    }

    /// The next packet that the host has got to, with its arrival time.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(Instant, Data, Ecn)> {
        self.due().filter(|due| *due <= now)?;
        let (arrived, _, data, ecn) = self.held.pop_front()?;
        Some((arrived, data, ecn))
    }
}

/// The request at hand of [`Application::RequestResponse`], at the receiver.
#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    /// The offset at which its answer ends.
    until: u64,
    /// The time of the application's request.
    asked: Instant,
    /// The time of the next retransmission; `None` once a part of the answer shows that the request
    /// arrived.
    resend: Option<Instant>,
    timeouts: u32,
}

/// The handshake of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Handshake {
    /// Its first packet was sent then, so many times in all, and is sent again at the last time.
    Asked(Instant, u32, Instant),
    Done,
}

/// The uplink as a flow's first link: no link has this index.
pub(crate) const UPLINK: usize = usize::MAX;

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
    pub(crate) receiver: Receiver,
    /// Application bytes that its receiver, or those of its short connections, read.
    pub(crate) received: u64,
    /// The receiver's host, if it takes time.
    pub(crate) host: Option<Box<Host>>,
    /// True if it matters to the application that it reads.
    heeds_reading: bool,
    /// The configuration's, if the controller answers marks.
    pub(crate) ecn: Ecn,
    /// The size of an ACK on the wire.
    pub(crate) ack_bytes: u32,
    pub(crate) start: Instant,
    end: Option<Instant>,
    /// For a connection of [`Application::ShortFlows`]: the flow that it belongs to.
    pub(crate) parent: Option<u32>,
    // For each packet that leaves.
    /// Bytes of a packet on the wire that congestion control does not count.
    pub(crate) header_bytes: u32,
    /// The configuration's.
    pub(crate) extra_rtt: Duration,
    /// The links of its data. The first is [`UPLINK`] for one that goes up.
    pub(crate) route: Route,
    /// The delay of its sender's host.
    pub(crate) jitter: Jitter,
    pub(crate) sender: Sender,
    // For what happens now and then.
    pub(crate) config: FlowConfig,
    /// Statistics of its short connections that have ended.
    pub(crate) over: SenderStats,
    /// The time of the application's next step.
    pub(crate) wakes: Option<Instant>,
    is_on: bool,
    handshake: Option<Handshake>,
    request: Option<Request>,
    /// Requests that the receiver made, and that the sender answered.
    requests: u64,
    answers: u64,
    /// The random process that starts short connections.
    chance: Exponential,
    /// Completion times of answers or connections.
    pub(crate) completion_ns: Option<Box<Tally>>,
}

impl Flow {
    pub(crate) fn new(config: FlowConfig, route: Route, start: Instant, seeds: Seeds) -> Self {
        let completes = matches!(
            config.application,
            Application::RequestResponse { .. } | Application::ShortFlows { .. }
        );
        let sender = Sender::new(&config, start);
        Self {
            ecn: if sender.wants_ecn() { config.ecn } else { Ecn::NotEct },
            extra_rtt: config.extra_rtt,
            heeds_reading: matches!(
                config.application,
                Application::Bytes(_) | Application::RequestResponse { .. }
            ),
            config,
            route: match config.direction {
                Direction::Down => route,
                Direction::Up => Route { first: UPLINK, ..route },
            },
            header_bytes: config.header_bytes(),
            ack_bytes: config.ack_bytes(),
            start,
            sender,
            receiver: Receiver::new(&config),
            host: (config.receiver_delay > Duration::ZERO).then(|| {
                let delay = Jitter::new(config.receiver_delay, seeds.receiver);
                Box::new(Host { delay, held: VecDeque::new() })
            }),
            parent: None,
            over: SenderStats::default(),
            received: 0,
            end: None,
            wakes: Some(start),
            is_on: false,
            handshake: (!config.handshake).then_some(Handshake::Done),
            jitter: Jitter::new(config.jitter, seeds.jitter),
            request: None,
            requests: 0,
            answers: 0,
            chance: Exponential::new(seeds.starts),
            completion_ns: completes.then(|| Box::new(Tally::new())),
        }
    }

    /// The current state of the congestion control. Each connection of [`Application::ShortFlows`]
    /// has its own; this then shows a controller that never sent.
    pub fn snapshot(&self) -> Snapshot {
        self.sender.snapshot()
    }

    /// Statistics of the sender so far. Connections of [`Application::ShortFlows`] count when they
    /// are over; [`Sim::sender_stats`](crate::Sim::sender_stats) counts those that are open too.
    pub fn stats(&self) -> SenderStats {
        let mut stats = self.sender.stats;
        stats.add(self.over);
        stats
    }

    /// The packet that was sent last. Those of the connections of [`Application::ShortFlows`] are
    /// not looked at.
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
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Nanoseconds from a request to the last byte of its answer
    /// ([`Application::RequestResponse`]), or from a connection's start to its last byte
    /// ([`Application::ShortFlows`]).
    pub fn completion_ns(&self) -> Option<&Tally> {
        self.completion_ns.as_deref()
    }

    /// True if an answer of [`Application::RequestResponse`] was asked for and is not complete.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.request.is_some()
    }

    /// True if its application has fallen silent for good.
    fn has_stopped(&self, now: Instant) -> bool {
        self.config.stop.is_some_and(|stop| now >= Instant::default() + stop)
    }

    /// The time of the application's next step, or of a request's retransmission.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        let resend = match self.handshake {
            Some(Handshake::Asked(_, _, resend)) => Some(resend),
            _ => self.request.and_then(|request| request.resend),
        };
        self.wakes.map_or(resend, |at| Some(resend.map_or(at, |resend| resend.min(at))))
    }

    /// The application's next step, at its time.
    pub(crate) fn on_wake(&mut self, now: Instant) -> Wish {
        if self.has_stopped(now) {
            // A handshake that was never answered is not tried again either.
            self.handshake = Some(Handshake::Done);
            (self.wakes, self.request) = (None, None);
            self.sender.pause();
            return Wish::Nothing;
        }
        if !matches!(self.config.application, Application::ShortFlows { .. })
            && let Some(wish) = self.connect(now)
        {
            return wish;
        }
        if let Some(again) = self.resend(now) {
            return again;
        }
        let is_first = now == self.start;
        self.wakes = None;
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
            Application::RequestResponse { .. } if self.request.is_some() => Wish::Nothing,
            Application::RequestResponse { response_bytes, .. } => {
                let request = Request {
                    number: self.requests,
                    until: self.received + response_bytes,
                    asked: now,
                    resend: Some(now + self.sender.request_timeout()),
                    timeouts: 0,
                };
                self.request = Some(request);
                self.requests += 1;
                Wish::Request(request.number)
            }
            Application::ShortFlows { mean_interval, .. } => {
                self.wakes = Some(now + self.chance.draw(mean_interval));
                if is_first { Wish::Nothing } else { Wish::Connect }
            }
        };
        if let Some(stop) = self.config.stop {
            let stop = Instant::default() + stop;
            self.wakes = Some(self.wakes.map_or(stop, |at| at.min(stop)));
        }
        wish
    }

    /// Begins the connection, or waits until it is there. The first packet is sent again after a
    /// second, and then after twice the time (RFC 6298 section 2.1, RFC 9002 section 6.2.2).
    fn connect(&mut self, now: Instant) -> Option<Wish> {
        let (first, times) = match self.handshake {
            Some(Handshake::Done) => return None,
            None => (now, 0),
            Some(Handshake::Asked(_, _, resend)) if resend > now => return Some(Wish::Nothing),
            Some(Handshake::Asked(first, times, _)) => (first, times),
        };
        let wait = INITIAL_TIMEOUT.times(1 << times.min(MAX_BACKOFF));
        self.handshake = Some(Handshake::Asked(first, times + 1, now + wait));
        self.wakes = self.config.stop.map(|stop| Instant::default() + stop);
        Some(Wish::Handshake)
    }

    /// The other side's part of the handshake arrived; whether that is news. A round trip of a
    /// packet that was sent once is the first sample.
    pub(crate) fn on_connected(&mut self, now: Instant) -> bool {
        let Some(Handshake::Asked(first, times, _)) = self.handshake else { return false };
        self.handshake = Some(Handshake::Done);
        self.wakes = Some(now);
        self.sender.connect(&self.config, now, (times == 1).then(|| now.since(first)));
        true
    }

    /// Sends the request at hand again when no part of its answer came within the sender's timeout,
    /// which doubles each time (RFC 9002 section 6.2.1, RFC 6298 section 5.5).
    fn resend(&mut self, now: Instant) -> Option<Wish> {
        let timeout = self.sender.request_timeout();
        let request = self.request.as_mut().filter(|r| r.resend.is_some_and(|at| at <= now))?;
        request.timeouts = (request.timeouts + 1).min(MAX_BACKOFF);
        request.resend = Some(now + timeout.times(1 << request.timeouts));
        Some(Wish::Request(request.number))
    }

    /// The sender's application hears of a request; of one that was sent twice only the first
    /// counts.
    pub(crate) fn on_request(&mut self, now: Instant, number: u64) {
        if let Application::RequestResponse { response_bytes, .. } = self.config.application
            && number == self.answers
        {
            self.answers += 1;
            self.sender.write(now, response_bytes);
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
        match self.config.application {
            Application::Bytes(all) if self.received >= all && self.end.is_none() => {
                self.end = Some(now);
            }
            Application::RequestResponse { think, .. } => {
                let request = self.request.as_mut()?;
                if self.received >= request.until {
                    let next = now + think;
                    if let Some(times) = &mut self.completion_ns {
                        times.record(now.since(request.asked).as_nanos());
                    }
                    self.request = None;
                    self.wakes = Some(self.wakes.map_or(next, |stop| stop.min(next)));
                    return self.wakes;
                }
                if written >= request.asked {
                    request.resend = None;
                }
            }
            _ => {}
        }
        None
    }
}
