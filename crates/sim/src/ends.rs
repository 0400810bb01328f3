//! The ends of a flow, as the world asks them.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::Ecn;
use fullpipe_traffic::{FlowTallies, Tally};

use crate::host::Host;
use crate::network::{CrossPacket, Network, Packet};

/// A packet at a receiver's host, and its ECN codepoint.
pub type Arrived<E> = (<E as Ends>::Data, Ecn);

/// The timers of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// The sender's.
    Sender,
    /// The receiver's host gets to a packet.
    Host,
    /// The receiver's.
    Receiver,
    /// The next step of an application.
    Application,
}

impl Timer {
    pub(crate) const ALL: [Self; 4] = [Self::Sender, Self::Host, Self::Receiver, Self::Application];

    /// The number of a flow's timer.
    #[inline]
    pub(crate) const fn of(self, flow: u32) -> usize {
        flow as usize * Self::ALL.len() + self as usize
    }
}

/// Both ends of a flow, sans-IO: sender and receiver, and the applications there.
pub trait Ends: Sized {
    /// A packet that the sender sends.
    type Data: Packet + From<CrossPacket>;
    /// A packet that the receiver answers with.
    type Answer: Packet;

    /// The receiver takes a packet in that arrived at its host at `arrived`.
    fn on_data(&mut self, io: &mut Io<'_, Self>, arrived: Instant, data: Self::Data, ecn: Ecn);

    /// A packet is at the sender.
    fn on_answer(&mut self, io: &mut Io<'_, Self>, answer: Self::Answer, ecn: Ecn);

    /// The sender's timer is due. It stays so until [`Io::set`] is called for it, which this has to
    /// do: there is one for each packet, and it is not cleared first.
    fn on_sender_timer(&mut self, io: &mut Io<'_, Self>);

    /// The receiver's timer was due.
    fn on_receiver_timer(&mut self, io: &mut Io<'_, Self>);

    /// The application's time has come: a further connection with ends of its own, if it opens one.
    fn on_application(&mut self, io: &mut Io<'_, Self>) -> Option<Self>;

    /// The receiver's host, if it takes time.
    fn host(&mut self) -> Option<&mut Host<Arrived<Self>>>;

    /// Application bytes that the receiver read.
    fn received(&self) -> u64;

    /// Its start.
    fn start(&self) -> Instant;

    /// The time at which the receiver had everything.
    fn end(&self) -> Option<Instant>;

    /// The receiver of a connection of this flow read so many bytes; `took` is the time from the
    /// connection's start to its last byte, if that is among them.
    fn on_connection_read(&mut self, _bytes: u64, _took: Option<Duration>) {}

    /// True for a connection whose ends both know that all has arrived.
    fn is_over(&self) -> bool {
        false
    }

    /// A connection of this flow is over.
    fn retire(&mut self, _connection: &Self) {}
}

/// The world as the ends of a flow have it: the time, their timers, the network.
#[derive(Debug)]
pub struct Io<'a, E: Ends> {
    pub(crate) network: &'a mut Network<E::Data, E::Answer>,
    pub(crate) flow: u32,
    /// The flow of the configuration.
    pub(crate) parent: usize,
    pub(crate) rtt_ns: &'a mut FlowTallies,
    pub(crate) latency_ns: &'a mut FlowTallies,
}

impl<E: Ends> Io<'_, E> {
    /// The virtual time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.network.now()
    }

    /// The number that these ends have in their packets.
    #[inline]
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// The number of connections so far that have ends of their own.
    pub fn connections(&self) -> usize {
        self.network.connections()
    }

    /// The sender sends.
    #[inline]
    pub fn send_data(&mut self, wire_bytes: u32, ecn: Ecn, data: E::Data) {
        self.network.send_data(wire_bytes, ecn, data);
    }

    /// The receiver sends.
    #[inline]
    pub fn send_answer(&mut self, wire_bytes: u32, ecn: Ecn, answer: E::Answer) {
        self.network.send_answer(wire_bytes, ecn, answer);
    }

    /// A timer fires at `at`, or earlier if it is set to an earlier time already.
    #[inline]
    pub fn arm(&mut self, timer: Timer, at: Instant) {
        self.network.arm(timer.of(self.flow), at);
    }

    /// A timer fires at `at`, or never.
    #[inline]
    pub fn set(&mut self, timer: Timer, at: Option<Instant>) {
        self.network.set(timer.of(self.flow), at);
    }

    /// Round trips of the flow, in nanoseconds.
    #[inline]
    pub fn rtt_ns(&mut self) -> &mut Tally {
        self.rtt_ns.of(self.parent)
    }

    /// Latencies of the flow's applications, in nanoseconds.
    #[inline]
    pub fn latency_ns(&mut self) -> &mut Tally {
        self.latency_ns.of(self.parent)
    }
}
