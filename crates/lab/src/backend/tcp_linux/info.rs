//! TCP_INFO: what the kernel knows of a connection.

use std::io;
use std::os::fd::AsFd;

use fullpipe_cc::{Duration, Rate};
use fullpipe_report::observe::FlowSample;
use fullpipe_traffic::SenderStats;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetStruct;
use nix::{getsockopt_impl, libc, sockopt_impl};

/// `struct tcp_info` of `linux/tcp.h` as far as Linux 4.19 has it. The kernel fills in as much as
/// is asked for, so a longer struct of a later kernel is the same one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(unreachable_pub, reason = "the macro's trait has it in its interface")]
pub struct TcpInfo {
    small: [u8; 8],
    rto_us: u32,
    ato_us: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last: [u32; 4],
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate: u64,
    max_pacing_rate: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    /// In, and out.
    data_segs: [u32; 2],
    delivery_rate: u64,
    busy_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    delivered: [u32; 2],
    bytes_sent: u64,
    bytes_retrans: u64,
}

sockopt_impl!(
    /// Its socket option.
    Info,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    TcpInfo,
    GetStruct<TcpInfo>
);

/// Segments that a connection of the kernel's TCP has sent again, by TCP_INFO.
///
/// # Errors
/// The system refuses the question.
pub fn retransmitted_segments(stream: &impl AsFd) -> io::Result<u64> {
    Ok(TcpInfo::of(stream)?.total_retrans.into())
}

impl TcpInfo {
    pub(super) fn of(stream: &impl AsFd) -> io::Result<Self> {
        Ok(getsockopt(stream, Info)?)
    }

    /// True if the other end has everything that was written.
    pub(super) fn is_all_acknowledged(&self) -> bool {
        self.unacked == 0 && self.notsent_bytes == 0
    }

    /// A connection before its first round trip says nothing.
    pub(super) fn sample(&self) -> Option<FlowSample> {
        let segments = |n: u32| u64::from(n) * u64::from(self.snd_mss);
        // What is in flight by the kernel's own definition (tcp_packets_in_flight).
        let inflight = (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost);
        let srtt = Duration::from_micros(u64::from(self.rtt_us));
        (self.rtt_us > 0).then(|| FlowSample {
            // The kernel tells no single round trips.
            rtt: Some(srtt),
            srtt: Some(srtt),
            cwnd: segments(self.snd_cwnd),
            inflight: Some(segments(inflight)),
            // An algorithm that does not pace has no rate, or an infinite one.
            pacing: (1..u64::MAX / 8)
                .contains(&self.pacing_rate)
                .then(|| Rate::from_bytes_per_sec(self.pacing_rate)),
            delivery: Some(Rate::from_bytes_per_sec(self.delivery_rate)),
            sender: SenderStats {
                sent_packets: u64::from(self.data_segs[1]),
                sent_bytes: self.bytes_sent,
                lost_packets: u64::from(self.total_retrans),
                lost_bytes: self.bytes_retrans,
            },
            ..FlowSample::default()
        })
    }
}
