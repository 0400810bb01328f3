use fullpipe_path::Ecn;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpProtocol, IpRepr, Ipv4Address, TcpControl, TcpRepr, TcpSeqNumber, TcpTimestampRepr,
    UDP_HEADER_LEN, UdpPacket, UdpRepr,
};

use super::*;

const FLOW_PORT: u16 = 5000;
const DATA: usize = 1000;
const ACK: usize = 0;

fn wire() -> Wire {
    Wire::new(&WireConfig { ports: vec![FLOW_PORT], burst_gap: Duration::from_micros(100) })
}

fn at(ms: u64) -> Instant {
    Instant::default() + Duration::from_millis(ms)
}

fn ip(protocol: IpProtocol, length: usize) -> (IpRepr, Vec<u8>) {
    let (server, client) = (Ipv4Address::new(198, 18, 0, 1), Ipv4Address::new(198, 18, 0, 2));
    let ip = IpRepr::new(server.into(), client.into(), protocol, length, 64);
    let mut packet = vec![0; ip.buffer_len()];
    ip.emit(&mut packet, &ChecksumCapabilities::default());
    (ip, packet)
}

/// A segment with its sequence number, length, timestamp and echo, from the flow's port or to it.
fn tcp(from_flow: bool, number: u32, bytes: usize, stamp: u32, echo: u32) -> Vec<u8> {
    let payload = vec![7; bytes];
    let (src_port, dst_port) = if from_flow { (FLOW_PORT, 40_000) } else { (40_000, FLOW_PORT) };
    let tcp = TcpRepr {
        src_port,
        dst_port,
        control: TcpControl::None,
        seq_number: TcpSeqNumber(number.cast_signed()),
        ack_number: Some(TcpSeqNumber(0)),
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: Some(TcpTimestampRepr { tsval: stamp, tsecr: echo }),
        payload: &payload,
    };
    let (ip, mut packet) = ip(IpProtocol::Tcp, tcp.buffer_len());
    let mut segment = TcpPacket::new_unchecked(&mut packet[ip.header_len()..]);
    let none = ChecksumCapabilities::ignored();
    tcp.emit(&mut segment, &ip.src_addr(), &ip.dst_addr(), &none);
    packet
}

fn udp(bytes: usize) -> Vec<u8> {
    let (ip, mut packet) = ip(IpProtocol::Udp, UDP_HEADER_LEN + bytes);
    let udp = UdpRepr { src_port: FLOW_PORT, dst_port: 40_000 };
    udp.emit(
        &mut UdpPacket::new_unchecked(&mut packet[ip.header_len()..]),
        &ip.src_addr(),
        &ip.dst_addr(),
        bytes,
        |_| (),
        &ChecksumCapabilities::ignored(),
    );
    packet
}

fn arrival(at: Instant, queued: Duration, payload: Vec<u8>) -> Delivered<Vec<u8>> {
    let (wire_bytes, ecn) = (payload.len() as u32, Ecn::NotEct);
    Delivered { at, queued, left_queue: at, wire_bytes, ecn, corrupted: false, payload }
}

fn arrive(wire: &mut Wire, way: usize, ms: u64, packet: Vec<u8>) {
    wire.delivered(way, &arrival(at(ms), Duration::from_millis(3), packet));
}

#[test]
fn a_segment_that_is_sent_again_is_a_retransmission_and_counts_once_where_it_arrives_twice() {
    let mut wire = wire();
    // Over the end of the sequence numbers.
    let first = u32::MAX - 1500;
    let number = |i: u32| first.wrapping_add(i * DATA as u32);
    for i in 0..4 {
        wire.sent(0, at(u64::from(i)), &tcp(true, number(i), DATA, i, 0));
    }
    wire.dropped(0, &tcp(true, number(1), DATA, 1, 0));
    for i in [0, 2, 3] {
        arrive(&mut wire, 0, 50, tcp(true, number(i), DATA, i, 0));
    }
    assert_eq!(wire.sample(0, 0).payload_bytes, 3000);
    wire.sent(0, at(60), &tcp(true, number(1), 2 * DATA, 60, 0));
    arrive(&mut wire, 0, 80, tcp(true, number(1), 2 * DATA, 60, 0));
    let seen = wire.sample(0, 0);
    assert_eq!(seen.payload_bytes, 4000, "the second half of it had arrived");
    assert_eq!((seen.retransmitted.packets, seen.retransmitted.bytes), (1, 2000));
    assert_eq!((seen.sent.packets, seen.dropped.packets, seen.delivered.packets), (5, 1, 4));
    assert_eq!((seen.first, seen.newest), (Some(at(0)), Some(at(80))));
    let distributions = wire.distributions(0, 0).expect("a watched flow");
    assert_eq!(
        (distributions.queue_delay_ns.len(), distributions.queue_delay_ns.max() / 1_000_000),
        (4, 3)
    );
}

#[test]
fn a_round_trip_is_from_a_timestamp_to_its_first_echo() {
    let mut wire = wire();
    wire.sent(0, at(10), &tcp(true, 1, DATA, 100, 0));
    // The same millisecond of the sender's clock.
    wire.sent(0, at(11), &tcp(true, 1001, DATA, 100, 0));
    wire.sent(0, at(12), &tcp(true, 2001, DATA, 102, 0));
    arrive(&mut wire, 1, 50, tcp(false, 1, ACK, 5, 100));
    assert_eq!(wire.sample(0, 0).srtt, Some(Duration::from_millis(40)));
    arrive(&mut wire, 1, 90, tcp(false, 1, ACK, 6, 100));
    assert_eq!(wire.sample(0, 0).srtt, Some(Duration::from_millis(40)), "echoed again");
    arrive(&mut wire, 1, 100, tcp(false, 1, ACK, 6, 102));
    assert_eq!(wire.sample(0, 0).srtt, Some(Duration::from_millis(46)), "an eighth of 88");
    assert_eq!(wire.sample(0, 1).srtt, None, "the other way sent no data");
}

#[test]
fn a_burst_counts_once_it_is_over_and_acks_are_in_none() {
    let mut wire = wire();
    let start = at(1);
    for us in [0, 90, 180, 1000, 2000, 2050, 3000] {
        wire.sent(0, start + Duration::from_micros(us), &udp(DATA));
        wire.sent(0, start + Duration::from_micros(us), &udp(30));
    }
    let bursts = wire.distributions(0, 0).expect("a watched flow").burst_packets;
    assert_eq!((bursts.len(), bursts.min(), bursts.max()), (3, 1, 3));
}

#[test]
fn packets_of_other_ports_and_what_is_no_packet_are_nobodys() {
    let mut wire = Wire::new(&WireConfig { ports: vec![1], burst_gap: Duration::ZERO });
    let mut cut = tcp(true, 1, DATA, 1, 1);
    cut.truncate(30);
    for packet in [udp(DATA), tcp(true, 1, DATA, 1, 1), cut, vec![], vec![0x45; 20]] {
        wire.sent(0, at(1), &packet);
        wire.dropped(0, &packet);
        arrive(&mut wire, 0, 1, packet);
    }
    assert_eq!(wire.sample(0, 0), WireSample::default());
    assert!(wire.distributions(1, 0).is_none() && wire.sample(7, 1) == WireSample::default());
}

#[test]
fn ranges_join_and_count_each_byte_once() {
    let mut ranges = Ranges { until: 10, beyond: BTreeMap::new() };
    for (start, end, fresh) in [
        (20, 30, 10),
        (40, 50, 10),
        (25, 45, 10),
        (0, 10, 0),
        (5, 12, 2),
        (12, 20, 8),
        (12, 60, 10),
        (60, 60, 0),
    ] {
        assert_eq!(ranges.insert(start, end), fresh, "{start}..{end}");
    }
    assert_eq!((ranges.until, ranges.beyond.len()), (60, 0));
}
