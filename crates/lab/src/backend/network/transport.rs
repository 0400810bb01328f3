//! Interface of a stack in the network.

use std::fmt::Debug;
use std::hash::Hash;

use fullpipe_cc::{BandwidthProbe, Duration, Instant, Rate};
use fullpipe_path::Ecn;
use fullpipe_report::observe::FlowSample;
use fullpipe_traffic::{SenderStats, SentPacket};

/// The ends of a flow.
pub(in crate::backend) const SENDER: usize = 0;
pub(in crate::backend) const RECEIVER: usize = 1;

/// The time at which data counts as written if its application always has some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) enum Stamp {
    /// The data leaves: the application writes just when a packet can leave.
    AtDeparture,
    /// The buffer takes the data: the application fills the buffer.
    InBuffer,
    /// The application has the data.
    ByApplication,
    /// Never: nobody asks how old it is.
    Never,
}

/// The sender's end of a connection, as its application sees it.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Seen {
    pub(in crate::backend) is_established: bool,
    /// Both ends know that it is over.
    pub(in crate::backend) is_over: bool,
    /// Bytes that were written and have not left yet. Zero where a stack does not say.
    pub(in crate::backend) unsent: u64,
    /// Bytes that it takes now.
    pub(in crate::backend) writable: u64,
    pub(in crate::backend) rtt: RttSample,
}

/// The newest round trip, and the number of them so far.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::backend) struct RttSample {
    pub(in crate::backend) newest: Option<Duration>,
    pub(in crate::backend) count: u64,
}

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) enum Read {
    /// So many bytes, one or more.
    Data(u64),
    /// None now.
    Nothing,
    /// The end of the data, or of the connection.
    End,
}

/// A packet that leaves.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Departure {
    /// Its size on the wire.
    pub(in crate::backend) wire_bytes: u32,
    pub(in crate::backend) ecn: Ecn,
    /// A number by which queues tell the connections of a flow apart.
    pub(in crate::backend) connection: u32,
}

/// Both ends of the connections of one flow. The sender opens them.
pub(in crate::backend) trait Transport {
    /// Names a connection at one of its ends.
    type Handle: Copy + Eq + Hash + Debug;

    /// Application bytes of a full packet.
    fn segment(&self) -> u64;
    /// The time at which data counts as written if its application always has some.
    fn stamp(&self) -> Stamp;
    /// True if an application that always has data is to write whole segments.
    fn writes_segments(&self) -> bool;

    /// The sender opens a connection; `None` if it can have no more.
    fn connect(&mut self, now: Instant) -> Option<Self::Handle>;
    /// The receiver accepts one, with the sender's name of it.
    fn accept(&mut self) -> Option<(Self::Handle, Option<Self::Handle>)>;
    /// A connection at one end of which there is news.
    fn next_changed(&mut self, end: usize) -> Option<Self::Handle>;
    /// The sender's end; `None` if there is no such connection.
    fn look(&self, handle: Self::Handle) -> Option<Seen>;
    /// Writes up to so many zeros: the number that was taken.
    fn write(&mut self, now: Instant, end: usize, handle: Self::Handle, bytes: u64) -> u64;
    /// The application has so many bytes that the transport has not taken: after each write, and
    /// when that changes without one.
    fn has_unsent(&mut self, _handle: Self::Handle, _bytes: u64) {}
    /// Reads what is there, and throws it away.
    fn read(&mut self, end: usize, handle: Self::Handle) -> Read;
    /// The sender has written everything.
    fn close(&mut self, now: Instant, handle: Self::Handle);
    /// The application at one end forgets a connection.
    fn release(&mut self, now: Instant, end: usize, handle: Self::Handle);

    /// An end takes a packet in, which arrived at its host `in_host` ago.
    fn receive(&mut self, now: Instant, end: usize, in_host: Duration, packet: &mut [u8], ecn: Ecn);
    /// The time of [`Self::poll_at`] has come, or an earlier one.
    fn on_timer(&mut self, now: Instant, end: usize);
    fn poll_at(&self, end: usize) -> Option<Instant>;
    /// Writes the next packet that may leave now into `out`.
    fn transmit(&mut self, now: Instant, end: usize, out: &mut Vec<u8>) -> Option<Departure>;

    /// The counters of all the sender's connections so far.
    fn stats(&mut self) -> SenderStats;
    /// The newest packet with data.
    fn newest_packet(&self) -> Option<SentPacket>;
    /// Congestion control and round trips of a connection, at the sender.
    fn sample(&self, handle: Self::Handle) -> Option<FlowSample>;
    /// Asks the sender's controller whether the path carries this rate; `None` from a controller
    /// that is none of ours.
    fn probe_bandwidth(
        &mut self,
        now: Instant,
        handle: Self::Handle,
        target: Rate,
    ) -> Option<BandwidthProbe>;
}
