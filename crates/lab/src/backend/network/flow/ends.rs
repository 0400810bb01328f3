//! Events of a flow of a real stack: packets arrive, timers fire, applications act.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::Ecn;
use fullpipe_report::observe::FlowSample;
use fullpipe_sim::{Arrived, Ends, Host, Io, Timer, World};
use fullpipe_traffic::{Application, MediaStats, SenderStats, Tally};

use super::Flow;
use crate::backend::network::parcel::Parcel;
use crate::backend::network::transport::{RECEIVER, SENDER, Transport};
use crate::backend::virtual_time::Observed;

/// Buffers of packets that a flow keeps for its next ones. There may be thousands of flows.
const MAX_SPARE: usize = 64;

impl<T: Transport> Ends for Flow<T> {
    type Data = Parcel;
    type Answer = Parcel;

    fn on_data(&mut self, io: &mut Io<'_, Self>, arrived: Instant, data: Parcel, ecn: Ecn) {
        self.receive(io.now(), RECEIVER, arrived, data.bytes, ecn);
        self.pump(io, RECEIVER);
        self.arm_application(io);
    }

    /// The sender's host answers when it gets to it.
    fn on_answer(&mut self, io: &mut Io<'_, Self>, answer: Parcel, ecn: Ecn) {
        let now = io.now();
        self.receive(now, SENDER, now, answer.bytes, ecn);
        self.work(io, SENDER);
        self.arm_application(io);
        let at = self.jitter.after(now);
        if at > now {
            io.arm(Timer::Sender, at);
        } else {
            self.pump(io, SENDER);
        }
    }

    fn on_sender_timer(&mut self, io: &mut Io<'_, Self>) {
        self.on_timer(io, SENDER);
    }

    fn on_receiver_timer(&mut self, io: &mut Io<'_, Self>) {
        self.on_timer(io, RECEIVER);
    }

    /// All connections are the stack's own.
    fn on_application(&mut self, io: &mut Io<'_, Self>) -> Option<Self> {
        self.on_wake(io.now());
        self.pump(io, SENDER);
        self.pump(io, RECEIVER);
        self.arm_application(io);
        None
    }

    fn host(&mut self) -> Option<&mut Host<Arrived<Self>>> {
        self.host.as_deref_mut()
    }

    fn received(&self) -> u64 {
        self.received
    }

    fn start(&self) -> Instant {
        self.start
    }

    fn end(&self) -> Option<Instant> {
        self.end
    }
}

impl<T: Transport> Flow<T> {
    /// One of the ends takes a packet in that arrived at its host at `arrived`.
    fn receive(
        &mut self,
        now: Instant,
        end: usize,
        arrived: Instant,
        mut packet: Vec<u8>,
        ecn: Ecn,
    ) {
        self.transport.receive(now, end, now.since(arrived), &mut packet, ecn);
        if self.spare.len() < MAX_SPARE {
            self.spare.push(packet);
        }
    }

    fn on_timer(&mut self, io: &mut Io<'_, Self>, end: usize) {
        self.transport.on_timer(io.now(), end);
        self.pump(io, end);
        self.arm_application(io);
    }

    fn arm_application(&self, io: &mut Io<'_, Self>) {
        if let Some(at) = self.wakes() {
            io.arm(Timer::Application, at);
        }
    }

    /// Lets one end work and send all that may leave, and arms its timer for the rest.
    pub(in crate::backend) fn pump(&mut self, io: &mut Io<'_, Self>, end: usize) {
        let (now, flow) = (io.now(), io.flow());
        loop {
            self.work(io, end);
            let mut packet = self.spare.pop().unwrap_or_default();
            let Some(departure) = self.transport.transmit(now, end, &mut packet) else {
                self.spare.push(packet);
                break;
            };
            let parcel = Parcel::new(flow, departure.connection, packet);
            let send = if end == SENDER { Io::send_data } else { Io::send_answer };
            send(io, departure.wire_bytes, departure.ecn, parcel);
        }
        let at = self.transport.poll_at(end);
        if end == SENDER {
            io.set(Timer::Sender, at.map(|at| self.jitter.after(at)));
        } else {
            io.set(Timer::Receiver, at);
        }
    }
}

impl<T: Transport> Observed for Flow<T> {
    fn latest_rtt(&self) -> Option<Duration> {
        self.transport.look(self.newest()?)?.rtt.newest
    }

    /// The model and the round trips are those of the newest connection.
    fn sample(&mut self) -> FlowSample {
        FlowSample {
            received: self.received,
            rtt: self.latest_rtt(),
            sender: self.transport.stats(),
            newest_packet: self.transport.newest_packet(),
            ..self.newest().and_then(|newest| self.transport.sample(newest)).unwrap_or_default()
        }
    }

    fn completion_ns(&self) -> Option<&Tally> {
        self.completion_ns.as_ref()
    }

    fn media(&self, now: Instant) -> Option<MediaStats> {
        self.traffic.media_stats(now)
    }

    fn sent(world: &mut World<Self>, flow: usize) -> SenderStats {
        world.flow_mut(flow).transport.stats()
    }

    fn incomplete(world: &World<Self>, flow: usize) -> Option<u64> {
        let flow = world.flow(flow);
        flow.completion_ns.as_ref()?;
        let open = match flow.traffic.application() {
            Application::Media(_) => flow.traffic.frames_under_way() as usize,
            Application::RequestResponse { .. } => usize::from(flow.traffic.asked().is_some()),
            _ => flow.connections.iter().flatten().filter(|c| c.end.is_none()).count(),
        };
        Some(flow.failed + open as u64)
    }
}
