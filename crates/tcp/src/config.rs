//! Configuration of connections, and the errors that they end with.

use fullpipe_cc::{Algorithm, Duration};

/// A connection's settings.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The congestion control.
    pub algorithm: Algorithm,
    /// Its settings. The connection itself fills in the segment size, the seed, the transport,
    /// whether there are selective ACKs, and the round trip of the handshake.
    pub congestion: fullpipe_cc::Config,
    /// Most bytes that were written and are not acknowledged. The list of the segments that are
    /// under way takes up half as much at most.
    pub send_buffer: usize,
    /// Most bytes that were written and never sent, at least 1. Linux: TCP_NOTSENT_LOWAT. For a
    /// peer that takes nothing they are 64 KiB at most.
    pub unsent: usize,
    /// Most bytes that arrived and were not read; the window is what is left of it. At least 1.
    /// Linux: the third number of tcp_rmem.
    pub receive_buffer: usize,
    /// The same for a connection that begins: it grows to four times what the application reads in
    /// a round trip. With [`receive_buffer`](Self::receive_buffer) or more it does not grow. Linux:
    /// the second number of tcp_rmem.
    pub initial_receive_buffer: usize,
    /// Largest IP packet in bytes. At least 576 (RFC 9293 section 3.7.1).
    pub mtu: u16,
    /// True to look for the largest packet that the path carries: by the ICMP messages of routers,
    /// and by probes after packets of the full size have vanished (RFC 8899). False to let routers
    /// cut packets that are too large (IPv4).
    pub mtu_discovery: bool,
    /// Longest delay of an ACK: at most 500 ms (RFC 9293 section 3.8.6.3).
    pub ack_delay: Duration,
    /// Full segments after which an ACK is sent without a delay: 1 acknowledges each. More than 2
    /// is against RFC 9293 section 3.8.6.3.
    pub ack_every: u32,
    /// Segments that are acknowledged one by one when a connection starts, so that the peer's
    /// window grows: Linux's quick ACKs.
    pub quick_acks: u32,
    /// The least that the variance's part of the retransmission timeout may be. RFC 6298 section
    /// 2.4 has a timeout of a second at least; this default is Linux's.
    pub rto_min: Duration,
    /// Time without an answer after which the connection ends (RFC 9293 section 3.8.3, R2).
    pub user_timeout: Duration,
    /// The same for a connection whose handshake is not over, if it is shorter. RFC 9293 section
    /// 3.8.3 has three minutes at least.
    pub connect_timeout: Duration,
    /// Idle time before a probe asks whether the peer is still there, at least a second; `None` for
    /// never. Linux: TCP_KEEPIDLE.
    pub keep_alive: Option<Duration>,
    /// Time between two such probes, at least a second; `None` for 75 seconds, or the idle time if
    /// that is shorter. Linux: TCP_KEEPINTVL.
    pub keep_alive_interval: Option<Duration>,
    /// Probes without an answer after which the connection ends. Linux: TCP_KEEPCNT.
    pub keep_alive_probes: u32,
    /// Duration of TIME-WAIT: two segment lifetimes. RFC 9293 section 3.4.2 has four minutes, Linux
    /// one.
    pub time_wait: Duration,
    /// True if small segments wait while others are unacknowledged (Nagle's algorithm, RFC 9293
    /// section 3.7.4).
    pub nagle: bool,
    /// True to offer or accept selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// True to offer or accept timestamps (RFC 7323).
    pub timestamps: bool,
    /// True to offer or accept window scaling (RFC 7323).
    pub window_scaling: bool,
    /// True to offer or accept ECN (RFC 3168). Packets are marked as capable of it where the
    /// algorithm answers marks.
    pub ecn: bool,
    /// True to offer or accept feedback that counts marked packets where there is ECN (RFC 9768).
    /// With it and [`fullpipe_cc::Config::ecn`] packets leave as those of L4S (ECT(1), RFC 9331).
    pub accurate_ecn: bool,
    /// True to offer or accept that ACKs tell for how long the receiver's host was busy and for how
    /// long it held the ACK back ([`wire::ReceiverDelay`](crate::wire::ReceiverDelay)), which the
    /// congestion control of a sender hears: `bbr-swift` takes both out of the round trip. It is an
    /// experimental option whose identifier is private (RFC 6994), of 12 bytes in each ACK of new
    /// data, and 8 in a SYN: for ends that know of each other. Its time in the host begins where
    /// [`Endpoint::receive_after`](crate::Endpoint::receive_after) says.
    pub receiver_delay: bool,
    /// True to open with data where that is possible (TCP Fast Open, RFC 7413): a connection writes
    /// before its handshake is over, and what fits into the SYN leaves with it once a cookie of the
    /// server's is known; a listener gives cookies, and connections that have one can be accepted,
    /// read and written when their SYN has come.
    ///
    /// A network that doubles a SYN, or delays one, may bring its data to the application twice
    /// (RFC 7413 section 2.1): it is for requests that may be repeated.
    pub fast_open: bool,
    /// Connections of a listener that began with data and whose handshakes are not over, at most;
    /// beyond that they open as without it (RFC 7413 section 5.1). Linux: TCP_FASTOPEN.
    pub fast_open_pending: usize,
    /// True if the device that cuts bursts into packets leaves the flag CWR in each of them
    /// ([`Endpoint::transmit_virtio`](crate::Endpoint::transmit_virtio)). It counts with
    /// [`accurate_ecn`](Self::accurate_ecn) alone, where the flag is a bit of the count that every
    /// packet tells (RFC 9768 section 3.2.2). Linux cuts as RFC 3168 wants it and clears the flag
    /// from the second packet on, which would be another count: there packets leave one by one
    /// while the bit is set, for two marked packets of four that came.
    pub offload_keeps_cwr: bool,
}

impl Default for Config {
    /// BBRv3, 4 MiB and up to 6 MiB of buffer, an MTU of 1500; ECN, Fast Open and the
    /// receiver's delay off, all else on.
    fn default() -> Self {
        Self {
            algorithm: Algorithm::BBR3,
            congestion: fullpipe_cc::Config::new(0),
            send_buffer: 4 << 20,
            unsent: usize::MAX,
            receive_buffer: 6 << 20,
            initial_receive_buffer: 128 << 10,
            mtu: 1500,
            mtu_discovery: true,
            ack_delay: Duration::from_millis(40),
            ack_every: 2,
            quick_acks: 16,
            rto_min: Duration::from_millis(200),
            user_timeout: Duration::from_secs(180),
            connect_timeout: Duration::from_secs(180),
            keep_alive: None,
            keep_alive_interval: None,
            keep_alive_probes: 9,
            time_wait: Duration::from_secs(60),
            nagle: true,
            sack: true,
            timestamps: true,
            window_scaling: true,
            ecn: false,
            accurate_ecn: false,
            receiver_delay: false,
            fast_open: false,
            fast_open_pending: 16,
            offload_keeps_cwr: false,
        }
    }
}

impl Config {
    /// The window of a SYN, which is not scaled (RFC 7323 section 2.2).
    pub(crate) fn first_window(&self) -> u16 {
        let buffer = self.initial_receive_buffer.min(self.receive_buffer);
        u16::try_from(buffer).unwrap_or(u16::MAX)
    }
}

/// The reason for which something is not possible, or for which a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to read, or no room to write.
    #[error("it would have to wait")]
    WouldBlock,
    /// The peer answered a SYN with a reset, or its host said that nobody is at the port.
    #[error("the connection was refused")]
    Refused,
    /// The peer reset the connection.
    #[error("the connection was reset by the peer")]
    Reset,
    /// This end reset the connection.
    #[error("the connection was aborted")]
    Aborted,
    /// The peer did not answer for [`Config::user_timeout`] or [`Config::connect_timeout`], and no
    /// router said why.
    #[error("the connection timed out")]
    TimedOut,
    /// A router said that there is no way to the peer's network, and the peer did not answer.
    #[error("the network is unreachable")]
    NetworkUnreachable,
    /// A router said that there is no way to the peer, and the peer did not answer.
    #[error("the host is unreachable")]
    HostUnreachable,
    /// This end has been closed for writing, or there is no such connection.
    #[error("the connection is closed")]
    Closed,
    /// The address has a listener or a connection already.
    #[error("the address is in use")]
    InUse,
    /// There are as many connections as the endpoint may have.
    #[error("there are too many connections")]
    TooMany,
    /// The two ends are of different address families, or one has no port.
    #[error("the address is not one to connect to")]
    Address,
}
