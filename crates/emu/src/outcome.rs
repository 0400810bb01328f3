//! Results of a link that its thread measures, and corruption, for every kind of link.

use fullpipe_cc::{Duration, Instant};
use fullpipe_path::{Count, PathStats};
use nix::time::{ClockId, clock_gettime};

use crate::DirectionReport;
use crate::report::Nanos;

/// Bytes of a datagram in which one is changed: QUIC's header and the first of what it protects.
const CORRUPTIBLE_BYTES: u64 = 50;

/// Queueing delays, payload and send failures of the packets that left a path.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) queue_delay: Nanos,
    pub(crate) payload_bytes: u64,
    pub(crate) corrupted: u64,
    pub(crate) send_failures: Count,
}

impl Outcome {
    pub(crate) fn new() -> Self {
        Self {
            queue_delay: Nanos::new(),
            payload_bytes: 0,
            corrupted: 0,
            send_failures: Count::default(),
        }
    }

    pub(crate) fn report(self, stats: PathStats) -> DirectionReport {
        DirectionReport {
            stats,
            queue_delay: self.queue_delay.into_inner(),
            payload_bytes: self.payload_bytes,
            corrupted_packets: self.corrupted,
            send_failures: self.send_failures,
        }
    }
}

/// Time from the first packet that came to the last that left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Active {
    from: Option<Instant>,
    to: Instant,
}

impl Active {
    /// A packet came.
    pub(crate) fn begin(&mut self, at: Instant) {
        self.from.get_or_insert(at);
    }

    /// A packet left.
    pub(crate) fn extend_to(&mut self, at: Instant) {
        self.to = self.to.max(at);
    }

    pub(crate) fn lasted(self) -> Duration {
        self.from.map_or(Duration::ZERO, |from| self.to.since(from))
    }
}

/// Position of the byte that is changed in a datagram of this length after so many others.
pub(crate) fn corrupt_position(length: usize, before: u64) -> usize {
    (before % CORRUPTIBLE_BYTES.min(length.max(1) as u64)) as usize
}

/// Changes one byte at the beginning of a datagram, each time another one. The kernel sends it with a right
/// checksum, so only the endpoint can find it.
pub(crate) fn corrupt(datagram: &mut [u8], before: u64) {
    let position = corrupt_position(datagram.len(), before);
    if let Some(byte) = datagram.get_mut(position) {
        *byte = !*byte;
    }
}

/// Processor time that this thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(Duration::ZERO, |t| std::time::Duration::from(t).into())
}
