//! What happens to the ends of a flow: packets arrive, timers fire, applications act.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Ecn, IPV4_UDP_HEADER_BYTES};
use fullpipe_traffic::{Application, Stream, stream_seed};

use super::{Flow, Seeds, Wish};
use crate::REQUEST_BYTES;
use crate::config::FlowConfig;
use crate::ends::{Arrived, Ends, Io, Timer};
use crate::host::Host;
use crate::packet::{Answer, Chunk, Data, Up};

impl Ends for Flow {
    type Data = Data;
    type Answer = Answer;

    #[inline]
    fn on_data(&mut self, io: &mut Io<'_, Self>, arrived: Instant, data: Data, ecn: Ecn) {
        let now = io.now();
        if data.chunk().id == Chunk::HANDSHAKE.id {
            return self.answer(io, self.config.handshake_bytes(), Up::Handshake);
        }
        let sender = &self.sender;
        let rtt = || sender.smoothed_rtt();
        let latency = io.latency_ns();
        let ack = self.receiver.on_packet((now, arrived), &data, ecn, rtt, |_, written| {
            latency.record(now.since(written).as_nanos());
        });
        let wakes = self.on_read(now, data.chunk().written);
        match ack {
            Some(ack) => self.answer(io, self.ack_bytes, Up::Ack(ack)),
            None => self.arm_receiver(io),
        }
        if let Some(at) = wakes {
            io.arm(Timer::Application, at);
        }
    }

    #[inline]
    fn on_answer(&mut self, io: &mut Io<'_, Self>, answer: Answer, _ecn: Ecn) {
        let now = io.now();
        match answer.up {
            Up::Request(number) => self.on_request(now, number),
            Up::Handshake => {
                if self.on_connected(now) {
                    if let Some(rtt) = self.sender.latest_rtt() {
                        io.rtt_ns().record(rtt.as_nanos());
                    }
                    // It has one connection, which is this.
                    let _ = self.on_application(io);
                }
                return;
            }
            Up::Ack(ack) => {
                if let Some(rtt) = self.sender.on_ack(now, &ack, &mut self.receiver) {
                    io.rtt_ns().record(rtt.as_nanos());
                }
            }
        }
        // The host sends what it may when it gets to it.
        let at = self.jitter.after(now);
        if at > now {
            io.arm(Timer::Sender, at);
        } else {
            self.pump(io);
        }
    }

    #[inline]
    fn on_sender_timer(&mut self, io: &mut Io<'_, Self>) {
        let next = self.send(io, true);
        io.set(Timer::Sender, next);
    }

    /// The receiver sends the ACK that it has held back for long enough.
    fn on_receiver_timer(&mut self, io: &mut Io<'_, Self>) {
        let now = io.now();
        if self.receiver.deadline().is_some_and(|due| due <= now) {
            let ack = self.receiver.acknowledge(now);
            self.answer(io, self.ack_bytes, Up::Ack(ack));
        }
        self.arm_receiver(io);
    }

    fn on_application(&mut self, io: &mut Io<'_, Self>) -> Option<Self> {
        let now = io.now();
        match self.wakes()? {
            at if at > now => {
                io.arm(Timer::Application, at);
                return None;
            }
            _ => {}
        }
        let wish = self.on_wake(now);
        if let Some(at) = self.wakes() {
            io.arm(Timer::Application, at);
        }
        match wish {
            Wish::Nothing => {}
            Wish::Send => self.pump(io),
            Wish::Request(number) => {
                self.answer(io, REQUEST_BYTES + IPV4_UDP_HEADER_BYTES, Up::Request(number));
            }
            Wish::Handshake => {
                let data = Data::new(io.flow(), 0, now, Chunk::HANDSHAKE);
                io.send_data(self.config.handshake_bytes(), Ecn::NotEct, data);
            }
            Wish::Connect => return self.connection(now, io.connections() as u64),
        }
        None
    }

    #[inline]
    fn host(&mut self) -> Option<&mut Host<Arrived<Self>>> {
        self.host.as_deref_mut()
    }

    #[inline]
    fn received(&self) -> u64 {
        self.received
    }

    #[inline]
    fn start(&self) -> Instant {
        self.start
    }

    #[inline]
    fn end(&self) -> Option<Instant> {
        self.end
    }

    fn on_connection_read(&mut self, bytes: u64, took: Option<Duration>) {
        self.received += bytes;
        if let (Some(took), Some(times)) = (took, &mut self.completion_ns) {
            times.record(took.as_nanos());
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some() && self.sender.is_idle()
    }

    fn retire(&mut self, connection: &Self) {
        self.over.add(connection.sender.stats);
    }
}

impl Flow {
    /// Sends from the receiver to the sender.
    #[inline]
    fn answer(&self, io: &mut Io<'_, Self>, wire_bytes: u32, up: Up) {
        let flow = io.flow();
        io.send_answer(wire_bytes, Ecn::NotEct, Answer { flow, up });
    }

    #[inline]
    fn arm_receiver(&self, io: &mut Io<'_, Self>) {
        if let Some(at) = self.receiver.deadline() {
            io.arm(Timer::Receiver, at);
        }
    }

    /// The application has nothing more to send until it writes again.
    pub fn pause(&mut self) {
        self.sender.pause();
    }

    /// The application writes `bytes`.
    pub fn write(&mut self, io: &mut Io<'_, Self>, bytes: u64) {
        self.sender.write(io.now(), bytes);
        self.pump(io);
    }

    /// The application has data without an end again.
    pub fn resume(&mut self, io: &mut Io<'_, Self>) {
        self.sender.resume(io.now());
        self.pump(io);
    }

    /// Sends what may leave, and arms the timer for the rest.
    #[inline]
    fn pump(&mut self, io: &mut Io<'_, Self>) {
        if let Some(at) = self.send(io, false) {
            io.arm(Timer::Sender, at);
        }
    }

    /// Sends what may leave, after a probe that leaves whatever window and pacer say, if `is_timer`
    /// and one is due; returns when to look again.
    #[inline]
    fn send(&mut self, io: &mut Io<'_, Self>, is_timer: bool) -> Option<Instant> {
        let (now, flow) = (io.now(), io.flow());
        let probe = is_timer && self.sender.on_timer(now);
        let (more, ecn) = (self.header_bytes, self.codepoint());
        let deadline = self.sender.pump(now, probe, |pn, chunk, bytes| {
            io.send_data(bytes + more, ecn, Data::new(flow, pn, now, chunk));
        });
        deadline.map(|at| self.jitter.after(at))
    }

    /// The next connection of [`Application::ShortFlows`], `number` of all.
    fn connection(&self, now: Instant, number: u64) -> Option<Self> {
        let Application::ShortFlows { bytes, .. } = self.config.application else { return None };
        let mut config = FlowConfig {
            application: Application::Bytes(bytes),
            start: now.since(Instant::default()),
            stop: None,
            ..self.config
        };
        config.cc.seed = stream_seed(config.cc.seed, Stream::Connection, number);
        let jitter = stream_seed(config.cc.seed, Stream::Jitter, 0);
        let receiver = stream_seed(config.cc.seed, Stream::Receiver, 0);
        Some(Self::new(config, Seeds { starts: 0, jitter, receiver }))
    }
}
