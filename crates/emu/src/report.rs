//! The report of a link after its run.

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::{Arrival, Count, PathStats};
use hdrhistogram::Histogram;

use crate::capture::CaptureReport;

/// The lateness at p99 above which a run is not to be trusted: a fortieth of the RTT of the
/// default scenario, and eight packets' time at 100 Mbit/s. What a sender measures is then more the
/// machine than the path.
pub const LATENESS_BOUND: Duration = Duration::from_millis(1);

/// The lateness at p99.9 above which a run is not to be trusted: the machine stood still. Rare as
/// it is, it reaches every maximum that a sender keeps: the ACKs of 5 ms come at once, and a rate
/// sample of 40 ms is an eighth too high.
pub const STALL_BOUND: Duration = Duration::from_millis(5);

/// Source of the arrival times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalTime {
    /// The kernel's stamp: exact, however late the thread read the packet.
    Kernel,
    /// The thread's clock after it read the packet.
    Read,
}

/// Conditions of the run on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostReport {
    /// Source of the arrival times.
    pub arrival_time: ArrivalTime,
    /// The receive buffer of the link's socket towards the clients, as the kernel reports it. Each
    /// flow's socket towards the target asked for the same. Of a TUN link the most that the queue
    /// of a device holds: much less where packets come one by one.
    pub receive_buffer_bytes: usize,
    /// True if the thread ran in the real-time class SCHED_FIFO.
    pub realtime: bool,
    /// True if packets that the kernel drops on the link's sockets can be counted here.
    pub sees_kernel_drops: bool,
}

/// One direction of a run.
#[derive(Clone, Debug)]
pub struct DirectionReport {
    /// Counters of the path.
    pub stats: PathStats,
    /// Queueing delay in nanoseconds of every packet that left, three significant digits, at most a
    /// minute.
    pub queue_delay: Histogram<u64>,
    /// Bytes delivered behind the headers of IP and of TCP or UDP.
    pub payload_bytes: u64,
    /// The rate of these between the moments by which one quarter and three quarters of them had
    /// been delivered: without handshake, start and end. Nothing where that took less than a tenth
    /// of a second.
    pub middle_half: Option<Rate>,
    /// Packets delivered with changed bits.
    pub corrupted_packets: u64,
    /// Packets that left the path and that the system refused to send.
    pub send_failures: Count,
    /// The packets that entered the path, when asked for, in their order.
    pub arrivals: Vec<Arrival>,
}

/// A whole run of a link.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// From the target to the clients.
    pub downlink: DirectionReport,
    /// From the clients to the target.
    pub uplink: DirectionReport,
    /// In nanoseconds, of every packet in both directions, three significant digits, at most a
    /// minute: when it was sent minus when the model let it go.
    pub lateness: Histogram<u64>,
    /// Number of clients.
    pub flows: usize,
    /// Packets of clients beyond [`MAX_FLOWS`](crate::MAX_FLOWS), or for which the system gave no
    /// socket, or that a device handed over at once and that cannot be told apart. They never
    /// entered the path.
    pub refused: Count,
    /// Number of packets of which the system says that nobody is there: that no socket of the target
    /// was (ICMP port unreachable), or that no way leads to the target or to a client. A server that
    /// starts late or ends early causes them; they do not affect trust in the link. A client's
    /// socket that is not there is not reported.
    pub unreachable: u64,
    /// Number of packets that may have waited for longer than [`STALL_BOUND`] in the queue of a TUN
    /// device before the link read them, when their time begins. The bound is of the time for which
    /// the device was not empty, so a packet of these may have waited for less. None of a relay.
    pub waited: u64,
    /// Datagrams that the kernel dropped on the link's own sockets before the model saw them, as
    /// far as [`HostReport::sees_kernel_drops`]. A burst that came as one GSO send counts once.
    pub kernel_drops: u64,
    /// Datagrams that the link delivered and that the kernel dropped because the socket of the
    /// client or of the target was full: the program under test was too slow to read, or had no
    /// processor. What left together and was dropped together counts once. Linux only; seen while
    /// the socket is open, by [`Emulator::sample`] a few times a second and by
    /// [`Emulator::finish`].
    ///
    /// [`Emulator::sample`]: crate::Emulator::sample
    /// [`Emulator::finish`]: crate::Emulator::finish
    pub endpoint_drops: u64,
    /// The file of the packets, when asked for.
    pub capture: Option<CaptureReport>,
    /// Time of the first packet that came, in either direction, since the link's start.
    pub began: Duration,
    /// Time from the first packet that came, in either direction, to the last that left.
    pub active: Duration,
    /// Duration of the model's run.
    pub ran: Duration,
    /// Processor time of the link's thread.
    pub cpu: Duration,
    /// Conditions of the run on this machine.
    pub host: HostReport,
    /// True if the result can be taken for that of the path described. False when the p99 of the
    /// lateness is over [`LATENESS_BOUND`] or its p99.9 over [`STALL_BOUND`], when more than 1 % of
    /// the packets [waited](Self::waited), or when a packet was lost outside the model.
    pub trusted: bool,
    /// The reason why the run is not to be trusted, in a sentence.
    pub warning: Option<String>,
}

/// Milliseconds for a sentence: no more digits than were measured.
fn millis(d: Duration) -> String {
    format!("{:.1}ms", d.as_nanos() as f64 / 1e6)
}

impl LinkReport {
    /// The lateness at `quantile`, from 0 to 1.
    pub fn lateness_at(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.lateness.value_at_quantile(quantile))
    }

    /// Decides [`Self::trusted`].
    pub(crate) fn judge(mut self) -> Self {
        let late = self.lateness_at(0.99);
        let failures = self.downlink.send_failures.packets + self.uplink.send_failures.packets;
        let mut reasons = Vec::new();
        if late > LATENESS_BOUND {
            reasons.push(format!(
                "packets left {} late at p99 and the bound is {LATENESS_BOUND}: the machine was \
                 too busy",
                millis(late)
            ));
        }
        let stalled = self.lateness_at(0.999);
        if stalled > STALL_BOUND {
            reasons.push(format!(
                "packets left {} late at p99.9 and the bound is {STALL_BOUND}: the machine stood \
                 still now and then",
                millis(stalled)
            ));
        }
        let arrived = self.downlink.stats.arrived.packets + self.uplink.stats.arrived.packets;
        if self.waited > arrived / 100 {
            reasons.push(format!(
                "{} packets may have waited for more than {STALL_BOUND} before the link read \
                 them: it could not keep up",
                self.waited
            ));
        }
        if self.kernel_drops > 0 {
            reasons.push(format!(
                "the kernel dropped {} datagrams before the link saw them: its receive buffer of \
                 at most {} bytes was full",
                self.kernel_drops, self.host.receive_buffer_bytes
            ));
        }
        if self.endpoint_drops > 0 {
            reasons.push(format!(
                "the endpoints' own sockets were full and dropped {} datagrams that the link had \
                 delivered",
                self.endpoint_drops
            ));
        }
        if failures > 0 {
            reasons.push(format!("the system refused to send {failures} packets"));
        }
        if self.refused.packets > 0 {
            reasons.push(format!("the link refused {} packets", self.refused.packets));
        }
        self.trusted = reasons.is_empty();
        self.warning = (!self.trusted).then(|| reasons.join("; "));
        self
    }
}

/// A histogram of nanoseconds up to a minute; longer counts as a minute.
#[derive(Debug)]
pub(crate) struct Nanos(Histogram<u64>);

impl Nanos {
    const LONGEST: u64 = 60_000_000_000;

    pub(crate) fn new() -> Self {
        // The bounds are constants and within those that hdrhistogram takes.
        #[expect(clippy::expect_used, reason = "constants, covered by every test of the crate")]
        Self(Histogram::new_with_bounds(1, Self::LONGEST, 3).expect("1 ns to 60 s in 3 digits"))
    }

    pub(crate) fn record(&mut self, d: Duration) {
        self.0.saturating_record(d.as_nanos());
    }

    pub(crate) fn histogram(&self) -> &Histogram<u64> {
        &self.0
    }

    pub(crate) fn into_inner(self) -> Histogram<u64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run without a packet, on a machine on which all is well.
    fn good() -> LinkReport {
        let direction = DirectionReport {
            stats: PathStats::default(),
            queue_delay: Nanos::new().into_inner(),
            payload_bytes: 0,
            middle_half: None,
            corrupted_packets: 0,
            send_failures: Count::default(),
            arrivals: Vec::new(),
        };
        LinkReport {
            downlink: direction.clone(),
            uplink: direction,
            lateness: Nanos::new().into_inner(),
            flows: 1,
            refused: Count::default(),
            unreachable: 0,
            waited: 0,
            kernel_drops: 0,
            endpoint_drops: 0,
            capture: None,
            began: Duration::ZERO,
            active: Duration::ZERO,
            ran: Duration::ZERO,
            cpu: Duration::ZERO,
            host: HostReport {
                arrival_time: ArrivalTime::Kernel,
                receive_buffer_bytes: 1_000_000,
                realtime: false,
                sees_kernel_drops: true,
            },
            trusted: false,
            warning: None,
        }
    }

    #[test]
    fn a_report_says_why_it_is_not_to_be_trusted() {
        let judged = |change: &dyn Fn(&mut LinkReport)| {
            let mut report = good();
            change(&mut report);
            let report = report.judge();
            assert_eq!(report.trusted, report.warning.is_none());
            report.warning.unwrap_or_default()
        };
        assert_eq!(judged(&|_| ()), "");
        let late = |nanos: u64, n: u64| {
            move |r: &mut LinkReport| {
                r.lateness.record_n(10_000, 1000 - n).expect("in range");
                r.lateness.record_n(nanos, n).expect("in range");
            }
        };
        assert_eq!(judged(&late(4_000_000, 10)), "", "1 % late is the bound");
        assert!(judged(&late(4_000_000, 11)).starts_with("packets left 4"));
        assert_eq!(judged(&late(900_000, 1000)), "");
        assert_eq!(judged(&late(20_000_000, 1)), "", "0.1 % is the bound");
        assert!(judged(&late(20_000_000, 2)).contains("stood still"));
        let waited = |n: u64| {
            move |r: &mut LinkReport| {
                (r.uplink.stats.arrived.packets, r.downlink.stats.arrived.packets) = (400, 600);
                r.waited = n;
            }
        };
        assert_eq!(judged(&waited(10)), "", "1 % is the bound");
        assert!(judged(&waited(11)).contains("11 packets may have waited for more than 5ms"));
        assert!(judged(&|r| r.kernel_drops = 3).contains("the kernel dropped 3 datagrams"));
        assert!(judged(&|r| r.endpoint_drops = 4).contains("dropped 4 datagrams"));
        let one = Count { packets: 1, bytes: 1 };
        assert!(judged(&|r| r.uplink.send_failures = one).contains("refused to send 1 packets"));
        assert!(judged(&|r| r.refused = one).contains("the link refused 1 packets"));
        assert_eq!(judged(&|r| r.unreachable = 1), "");
    }
}
