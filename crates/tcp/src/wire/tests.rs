use super::*;

fn ends(v6: bool) -> (SocketAddr, SocketAddr) {
    let address = |last: u16| -> IpAddr {
        match v6 {
            true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into(),
            false => Ipv4Addr::new(10, 0, 0, last as u8).into(),
        }
    };
    (SocketAddr::new(address(1), 4000), SocketAddr::new(address(2), 80))
}

#[test]
fn what_is_written_is_read() {
    let header = Header {
        seq: u32::MAX,
        ack: Some(7),
        control: Control::Psh,
        ae: true,
        ece: true,
        window: 65_535,
        sack: [Some((9, 12)), Some((20, 30)), None],
        timestamp: Some(Timestamp { value: 5, echo: 6 }),
        ecn: Ecn::Ect0,
        ..Header::default()
    };
    for (v6, fragments) in [(false, None), (false, Some(0x1234)), (true, None)] {
        let (from, to) = ends(v6);
        let mut out = Vec::new();
        let header = Header { fragments, ..header };
        write(&mut out, from, to, &header, [b"ab", b"cde"]);
        let read =
            Segment { from, to, header, payload: b"abcde", packets: 1, in_host: Duration::ZERO };
        assert_eq!(parse(&out), Some(read));
        for byte in 0..out.len() {
            let mut damaged = out.clone();
            damaged[byte] ^= 0x10;
            let same = parse(&damaged);
            // IPv6 protects neither the traffic class nor the flow label and hop limit.
            assert!(same.is_none() || v6 && (byte < 4 || byte == 7), "byte {byte}: {same:?}");
        }
    }
}

#[test]
fn a_fragment_and_a_short_packet_are_not_read() {
    let (from, to) = ends(false);
    let mut out = Vec::new();
    write(&mut out, from, to, &Header::default(), [b"abc", b""]);
    for bytes in 0..out.len() {
        assert_eq!(parse(&out[..bytes]), None, "{bytes} bytes");
    }
    let mut packet = Ipv4Packet::new_unchecked(&mut out);
    packet.set_more_frags(true);
    packet.fill_checksum();
    assert_eq!(parse(&out), None);
}
