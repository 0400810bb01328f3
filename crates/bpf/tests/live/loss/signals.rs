//! Signals of TCP, and the program's conclusions from them.

use std::net::SocketAddrV4;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use fullpipe_testkit::until;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, socket,
};

use super::bench::{Bench, LinkOf, sleep_ms};

/// Without timestamps, an ACK of a packet that was sent twice has no round-trip time. Where there
/// is loss, most filters see such ACKs before the time is over in which another sample has to come.
fn without_timestamps_min_rtt_follows_a_path_that_became_longer() {
    let link = LinkOf { mbit: 20, rtt_ms: 20, queue_bytes: 150_000, loss: 0.01 };
    let bench = Bench::start("stamps", &link);
    bench.set("/proc/sys/net/ipv4/tcp_timestamps", "0");
    let flow = bench.flow();
    until("the filter has its first value", || {
        let state = flow.state();
        state.state.starts_with("ProbeBW") && state.min_rtt.is_some_and(|rtt| rtt < 40_000_000)
    });
    flow.lengthen(fullpipe_cc::Duration::from_millis(40));
    // The filter is 10 s long, and ProbeRTT comes every 5 s.
    let begun = Instant::now();
    until("min_rtt is that of the longer path", || {
        flow.state().min_rtt.is_some_and(|rtt| rtt >= 58_000_000)
    });
    let took = begun.elapsed();
    println!("after {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// The last packets of a response have few after them that would show their loss: a timer of TCP
/// finds it, or a probe that TCP sends after a while.
fn losses_of_small_responses_are_heard() {
    for amended in [false, true] {
        let link = LinkOf { mbit: 100, rtt_ms: 30, queue_bytes: 500_000, loss: 0.03 };
        let bench = Bench::of("small", amended, &link);
        let flow = bench.quiet_flow();
        let by_probe = || bench.counter("TcpExt", "TCPLossProbeRecovery");
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && (flow.state().losses < 20 || by_probe() < 2) {
            flow.respond(8_600);
        }
        let state = flow.state();
        let (lost_again, by_probe) = (bench.counter("TcpExt", "TCPLostRetransmit"), by_probe());
        println!(
            "{lost_again} retransmissions lost, {by_probe} losses repaired by a probe; {state:?}"
        );
        assert!(state.losses > 10 && by_probe > 0, "{state:?}");
        let not_found = u64::from(state.losses_not_found);
        assert!(not_found <= lost_again + u64::from(state.losses) / 10, "{state:?}");
        assert_eq!(u64::from(state.tail_losses), by_probe, "{state:?}");
        // Between responses nothing is in flight.
        assert!(state.restarts > 10, "{state:?}");
        // The application was the limit of all that was sent. A loss that is not found, as of a
        // retransmission that was lost as well, is reported without saying so.
        if not_found == 0 {
            assert!(state.inflight_longterm.is_none_or(|bytes| bytes > 8_600), "{state:?}");
        }
    }
}

/// An answer after a pause is no aggregate: of the answers before it nothing is left in extra_acked.
fn answers_with_pauses_between_them_leave_the_window() {
    for amended in [false, true] {
        let link = LinkOf { mbit: 100, rtt_ms: 4, queue_bytes: 500_000, loss: 0.0 };
        let bench = Bench::of("pauses", amended, &link);
        let flow = bench.quiet_flow();
        flow.respond(25_000_000);
        assert!(flow.state().state.starts_with("ProbeBW"), "{:?}", flow.state());
        let (end, mut most) = (Instant::now() + Duration::from_secs(5), 0);
        while Instant::now() < end {
            flow.respond(200_000);
            most = most.max(flow.state().cwnd);
            // Sleeps: the pause.
            sleep_ms(20);
        }
        let state = flow.state();
        let bdp = link.mbit * 125 * link.rtt_ms;
        println!("at most {most} bytes on a BDP of {bdp}; {state:?}");
        assert!(state.restarts > 30, "{state:?}");
        assert!(most <= 4 * bdp, "{most} bytes on a BDP of {bdp}: {state:?}");
    }
}

/// Sends the message of a router whose next link takes smaller packets (RFC 1191 section 4), about
/// a packet of the flow. TCP then sends again what was too large; no timer expired.
fn shorten_packets(bench: &Bench, mtu: u16) {
    let (family, kind, none) = (AddressFamily::Inet, SockType::Raw, SockFlag::empty());
    let raw = |protocol| bench.link.client().enter(|| socket(family, kind, none, protocol));
    let (packets, says) = (raw(SockProtocol::Tcp), raw(SockProtocol::Icmp));
    let (packets, says) =
        (packets.expect("inside").expect("root"), says.expect("inside").expect("root"));
    let mut packet = [0; 2_048];
    recv(packets.as_raw_fd(), &mut packet, MsgFlags::empty()).expect("the flow sends");
    // One that is still in flight when this arrives: 100 kB after the one that was seen.
    let seq = u32::from_be_bytes(packet[24..28].try_into().expect("four")).wrapping_add(100_000);
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(&packet[..28]);
    let words = message.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    let to = SockaddrIn::from(SocketAddrV4::new(bench.link.server_address(), 0));
    sendto(says.as_raw_fd(), &message, &to, MsgFlags::empty()).expect("it is sent");
}

fn a_smaller_path_mtu_leaves_the_window() {
    let link = LinkOf { mbit: 50, rtt_ms: 40, queue_bytes: 250_000, loss: 0.0 };
    let bench = Bench::start("mtu", &link);
    let flow = bench.flow();
    until("CRUISE", || flow.state().state == "ProbeBW_CRUISE");
    let (before, timeouts) = (flow.state(), bench.counter("TcpExt", "TCPTimeouts"));
    shorten_packets(&bench, 1_000);
    until("the packets are smaller", || flow.state().smss < 1_000);
    let end = Instant::now() + Duration::from_millis(200);
    let mut least = flow.state().cwnd;
    while Instant::now() < end {
        least = least.min(flow.state().cwnd);
    }
    println!("cwnd before {}, at least {least}; {:?}", before.cwnd, flow.state());
    assert_eq!(bench.counter("TcpExt", "TCPTimeouts"), timeouts);
    assert!(least >= before.cwnd / 2, "of {}: {least}", before.cwnd);
}

/// TCP has kept the shortest round trip of the time before, and shows others that Startup is over.
fn a_flow_that_switches_to_it_has_its_min_rtt_and_later_an_ssthresh() {
    let link = LinkOf { mbit: 50, rtt_ms: 40, queue_bytes: 250_000, loss: 0.0 };
    let bench = Bench::start("switch", &link);
    let flow = bench.flow();
    flow.choose("reno");
    until("it sends", || flow.received() > 100_000);
    flow.choose(&bench.name);
    let first = flow.state();
    let min_rtt = first.min_rtt.expect("TCP knows one");
    assert!((39_000_000..60_000_000).contains(&min_rtt), "{first:?}");
    assert_eq!(flow.ssthresh(), 0x7fff_ffff, "it is in Startup");
    until("Startup is over", || flow.state().state.starts_with("ProbeBW"));
    // A BDP is 172 packets.
    let ssthresh = flow.ssthresh();
    assert!((50..1_000).contains(&ssthresh), "{ssthresh} packets");
}

fullpipe_testkit::tests! {
    long timed [Root, Kernel, Tun] losses_of_small_responses_are_heard,
    answers_with_pauses_between_them_leave_the_window,
    a_smaller_path_mtu_leaves_the_window,
    a_flow_that_switches_to_it_has_its_min_rtt_and_later_an_ssthresh, without_timestamps_min_rtt_follows_a_path_that_became_longer;
}
