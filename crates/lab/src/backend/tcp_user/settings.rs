//! A scenario's flow as settings of fullpipe-tcp.

use fullpipe_cc::{Algorithm, Duration, Transport};
use fullpipe_sim::{FlowConfig, IPV4_TCP_HEADER_BYTES, ReceiveWindow};
use fullpipe_tcp::Config;

/// The largest window that the wire can tell (RFC 7323 section 2.2): a buffer without a limit.
const UNLIMITED: usize = 1 << 30;

/// Connections in TIME-WAIT last for so long: nothing here is older than that.
const TIME_WAIT: Duration = Duration::from_secs(1);

/// The flow over TCP: what it leaves at QUIC's usual becomes TCP's.
pub(in crate::backend) fn over_tcp(flow: &FlowConfig) -> FlowConfig {
    if flow.cc.transport == Transport::Tcp {
        return *flow;
    }
    let seed = flow.cc.seed;
    let (quic, tcp) =
        (FlowConfig::bulk(flow.algorithm, seed), FlowConfig::tcp_bulk(flow.algorithm, seed));
    let mut over = *flow;
    over.cc.transport = Transport::Tcp;
    if flow.cc.smss == quic.cc.smss {
        over.cc.smss = tcp.cc.smss;
    }
    if flow.acks.max_delay == quic.acks.max_delay {
        over.acks.max_delay = tcp.acks.max_delay;
    }
    if flow.acks.quick == quic.acks.quick {
        over.acks.quick = tcp.acks.quick;
    }
    over
}

/// Both ends of a flow that is over TCP.
pub(in crate::backend) fn of_flow(flow: &FlowConfig) -> Config {
    let bytes = |n: u64| usize::try_from(n).unwrap_or(UNLIMITED).clamp(1, UNLIMITED);
    let (initial, largest) = match flow.receive_window {
        ReceiveWindow::Unlimited => (UNLIMITED, UNLIMITED),
        ReceiveWindow::Fixed(n) => (bytes(n), bytes(n)),
        ReceiveWindow::Auto { initial, max } => (bytes(initial), bytes(max)),
    };
    Config {
        algorithm: flow.algorithm,
        congestion: flow.cc,
        send_buffer: flow.send_buffer.map_or(UNLIMITED, bytes),
        receive_buffer: largest,
        initial_receive_buffer: initial,
        mtu: u16::try_from(flow.cc.smss + IPV4_TCP_HEADER_BYTES).unwrap_or(u16::MAX),
        ack_delay: flow.acks.max_delay,
        ack_every: flow.acks.every,
        quick_acks: flow.acks.quick,
        rto_min: flow.tcp.rto_min,
        time_wait: TIME_WAIT,
        nagle: false,
        ecn: flow.ecn != fullpipe_path::Ecn::NotEct,
        // Of L4S: each mark has to be known.
        accurate_ecn: flow.cc.ecn,
        // Nobody else uses it, and it takes a part of each ACK.
        receiver_delay: matches!(flow.algorithm, Algorithm::BbrSwift(_)),
        ..Config::default()
    }
}
