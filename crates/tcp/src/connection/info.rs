//! The state and counters that a connection tells.

use fullpipe_cc::{BandwidthProbe, Duration, Instant, Rate, Snapshot};

use super::{Connection, State};
use crate::endpoint::Totals;

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) segs_out: u64,
    pub(super) data_segs_out: u64,
    pub(super) bytes_sent: u64,
    pub(super) segs_in: u64,
    pub(super) bytes_acked: u64,
    pub(super) bytes_received: u64,
    pub(super) bytes_retrans: u64,
    pub(super) total_retrans: u64,
    pub(super) dsack_dups: u64,
    pub(super) delivered_ce: u64,
    pub(super) timeouts: u64,
    /// Data for which there was no memory.
    pub(super) data_dropped: u64,
}

/// A connection's state, by the names of Linux's TCP_INFO where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Info {
    /// The state.
    pub state: State,
    /// SRTT, after the first sample.
    pub rtt: Option<Duration>,
    /// RTTVAR, after the first sample.
    pub rttvar: Option<Duration>,
    /// The newest sample of the round trip: that of the newest segment of an ACK.
    pub latest_rtt: Option<Duration>,
    /// Number of these samples: one for the handshake, and one for each ACK that gives one.
    pub rtt_samples: u64,
    /// The shortest round trip.
    pub min_rtt: Option<Duration>,
    /// The retransmission timeout with its doublings.
    pub rto: Duration,
    /// The number of times that the timeout was doubled since an ACK advanced.
    pub backoff: u32,
    /// Bytes of data in a full segment.
    pub snd_mss: u32,
    /// The congestion window in bytes; Linux counts segments.
    pub snd_cwnd: u64,
    /// The window of the peer in bytes.
    pub snd_wnd: u64,
    /// The window that this end has told the peer, in bytes.
    pub rcv_wnd: u64,
    /// Segments that were sent and are not acknowledged at all.
    pub unacked: u64,
    /// Segments that are selectively acknowledged.
    pub sacked: u64,
    /// Bytes that are lost and not sent again; Linux counts segments.
    pub lost_bytes: u64,
    /// Bytes that were written and never sent.
    pub notsent_bytes: u64,
    /// Segments that were sent again.
    pub total_retrans: u64,
    /// Bytes that were sent again.
    pub bytes_retrans: u64,
    /// Bytes that the peer has acknowledged in order.
    pub bytes_acked: u64,
    /// Bytes that have arrived in order.
    pub bytes_received: u64,
    /// Segments that left, and that arrived and were acceptable.
    pub segs_out: u64,
    /// See [`Self::segs_out`].
    pub segs_in: u64,
    /// Segments with data that left, each time that they did.
    pub data_segs_out: u64,
    /// Bytes of data in these.
    pub bytes_sent: u64,
    /// DSACKs of the peer.
    pub dsack_dups: u64,
    /// Marked packets of which the peer told; with classic ECN, windows of data with one.
    pub delivered_ce: u64,
    /// Firings of the retransmission timer.
    pub timeouts: u64,
    /// True if SACK, timestamps, window scaling and ECN are in use.
    pub sack: bool,
    /// See [`Self::sack`].
    pub timestamps: bool,
    /// See [`Self::sack`].
    pub wscale: bool,
    /// See [`Self::sack`].
    pub ecn: bool,
    /// True if ECN's feedback counts packets (RFC 9768).
    pub accurate_ecn: bool,
    /// True if both ends tell of the receiver's part of round trips
    /// ([`Config::receiver_delay`](crate::Config::receiver_delay)).
    pub receiver_delay: bool,
    /// True if data of a SYN was taken (RFC 7413): by the peer, which said so in its SYN-ACK, or by
    /// this end. Linux: TCPI_OPT_SYN_DATA.
    pub syn_data: bool,
}

impl Connection {
    /// The state and the counters.
    pub fn info(&self) -> Info {
        let Counts {
            segs_out,
            data_segs_out,
            bytes_sent,
            segs_in,
            bytes_acked,
            bytes_received,
            bytes_retrans,
            total_retrans,
            dsack_dups,
            delivered_ce,
            timeouts,
            data_dropped: _,
        } = self.counts;
        Info {
            state: self.state,
            rtt: self.rtt.smoothed(),
            rttvar: self.rtt.variation(),
            latest_rtt: self.rtt.newest().0,
            rtt_samples: self.rtt.newest().1,
            min_rtt: self.rtt.min(),
            rto: self.rtt.timeout(),
            backoff: self.rtt.backoff(),
            snd_mss: self.options.payload(),
            snd_cwnd: self.cc.cwnd(),
            snd_wnd: self.send.edge.saturating_sub(self.send.una),
            rcv_wnd: self.receive.edge().saturating_sub(self.receive.next()),
            unacked: self.flight.open() as u64,
            sacked: self.flight.sacked() as u64,
            lost_bytes: self.flight.lost_bytes(),
            notsent_bytes: self.unsent() as u64,
            total_retrans,
            bytes_retrans,
            bytes_acked,
            bytes_received,
            segs_out,
            segs_in,
            data_segs_out,
            bytes_sent,
            dsack_dups,
            delivered_ce,
            timeouts,
            sack: self.options.sack,
            timestamps: self.options.timestamps,
            wscale: self.options.window_scaling,
            ecn: self.options.ecn,
            accurate_ecn: self.options.accurate_ecn,
            receiver_delay: self.options.receiver_delay,
            syn_data: self.opening.has_data(),
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            retransmitted: self.counts.total_retrans,
            timeouts: self.counts.timeouts,
            data_dropped: self.counts.data_dropped,
        }
    }

    /// [`Info::latest_rtt`] and [`Info::rtt_samples`], for whoever asks after each packet.
    pub fn newest_rtt(&self) -> (Option<Duration>, u64) {
        self.rtt.newest()
    }

    /// The model of the congestion control.
    pub fn congestion(&self) -> Snapshot {
        self.cc.snapshot()
    }

    /// Asks whether the path carries `target`, for an application that would send more than
    /// [`Snapshot::send_rate_estimate`] of [`Self::congestion`]: see
    /// [`fullpipe_cc::Controller::probe_bandwidth`]. A probe begins with the next ACK.
    pub fn probe_bandwidth(&mut self, now: Instant, target: Rate) -> BandwidthProbe {
        self.cc.probe_bandwidth(now, target)
    }

    /// Bytes of memory that the buffers and lists of this connection take up.
    pub fn memory(&self) -> usize {
        self.data.memory() + self.receive.memory() + self.flight.memory() + self.acks.memory()
    }
}
