//! Bursts for a device that cuts them, and segments that a device has merged.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{Link, PathConfig, Probability, QueueLimit};
use fullpipe_tcp::{Config, Endpoint, Error, wire};

use crate::common::{App, MS, Net, byte, cut, ends};

/// Everything that both ends of a transfer over a path know at its end.
#[derive(PartialEq, Debug)]
struct Outcome {
    now: Instant,
    delivered: u64,
    queued: Vec<u64>,
    sent: [(u64, u64, u64); 2],
}

fn transfer(virtio: bool, algorithm: Algorithm, loss: f64, carries: usize) -> (Outcome, u64) {
    let path = |seed| {
        PathConfig::from(Link {
            rate: Some(Rate::from_bits_per_sec(200_000_000)),
            queue: QueueLimit::Bytes(1_000_000),
            delay: MS.times(10),
            loss: Probability::new(loss).expect("a probability"),
            seed,
        })
    };
    let config = Config { algorithm, ..Config::default() };
    let apps = [App::writer(0, 20_000_000), App::writer(1, 3_000_000)];
    let mut net = Net::new([path(1), path(2)], [config; 2], apps);
    (net.virtio, net.carries, net.tells) = (virtio, carries, true);
    // A host that looks now and then has more to send at once.
    net.granularity = MS;
    assert!(net.run(Instant::default() + Duration::from_secs(60)), "{:?}", net.apps);
    let sent = [0, 1].map(|i| {
        let handle = net.apps[i].handle.expect("a connection");
        let info = net.ends[i].connection(handle).expect("it is kept").info();
        (info.segs_out, info.bytes_sent, info.total_retrans)
    });
    (Outcome { now: net.now, delivered: net.delivered, queued: net.queued, sent }, net.frames)
}

/// Cut into packets, bursts are what leaves without them, packet by packet and at the same times.
#[test]
fn a_burst_is_the_packets_that_would_have_left() {
    for (algorithm, loss) in [
        (Algorithm::BBR3, 0.0),
        (Algorithm::BBR3, 0.01),
        (Algorithm::BBR3X, 0.001),
        (Algorithm::CUBIC, 0.001),
    ] {
        let (plain, packets) = transfer(false, algorithm, loss, 1500);
        let (bursts, frames) = transfer(true, algorithm, loss, 1500);
        assert!(plain == bursts, "{algorithm:?}, loss {loss}: {:?} {:?}", plain.sent, bursts.sent);
        assert!(2 * frames < packets, "{frames} frames for {packets} packets");
    }
}

/// A router says so while bursts are on their way.
#[test]
fn a_path_with_smaller_packets_gets_bursts_of_them() {
    let (outcome, frames) = transfer(true, Algorithm::BBR3, 0.0, 1300);
    let packets: u64 = outcome.sent.iter().map(|(packets, ..)| packets).sum();
    assert!(2 * frames < packets, "{frames} frames for {packets} packets");
}

/// Two ends on a wire that carries whole frames.
fn exchange(
    ends: &mut [Endpoint; 2],
    now: &mut Instant,
    mut work: impl FnMut(&mut [Endpoint; 2], Instant) -> bool,
) {
    let mut frame = Vec::new();
    while work(ends, *now) {
        while let Some(i) = (0..2).find(|&i| ends[i].transmit_virtio(*now, &mut frame)) {
            ends[1 - i].receive_virtio(*now, &frame);
        }
        *now = ends.iter().filter_map(Endpoint::poll_at).min().unwrap_or(*now).max(*now) + MS;
        ends.iter_mut().for_each(|end| end.on_timer(*now));
        assert!(*now < Instant::default() + Duration::from_secs(60));
    }
}

/// As from the kernel of the same machine: up to 64 KiB a segment, and no checksum.
#[test]
fn merged_segments_are_taken_as_one() {
    const BYTES: u64 = 5_000_000;
    let [local, remote] = ends();
    let mut both = [Endpoint::new([1; 16], 10), Endpoint::new([2; 16], 10)];
    let listener = both[1].listen(remote, 8, &Config::default()).expect("nobody listens");
    let mut now = Instant::default();
    let client = both[0].connect(now, local, remote, &Config::default()).expect("it is free");
    let (mut written, mut read, mut server) = (0, 0, None);
    let mut chunk = vec![0; 100_000];
    exchange(&mut both, &mut now, |ends, now| {
        let room = ends[0].connection(client).map_or(0, |c| c.writable());
        let count = chunk.len().min(room).min((BYTES - written) as usize);
        for (i, b) in chunk[..count].iter_mut().enumerate() {
            *b = byte(0, written + i as u64);
        }
        if count > 0 {
            written += ends[0].write(now, client, &chunk[..count]).expect("there is room") as u64;
        }
        server = server.or_else(|| ends[1].accept(listener));
        let Some(server) = server else { return true };
        loop {
            match ends[1].read(server, &mut chunk) {
                Err(Error::WouldBlock) => return read < BYTES,
                count => {
                    for got in &chunk[..count.expect("it goes on")] {
                        assert_eq!(*got, byte(0, read));
                        read += 1;
                    }
                }
            }
        }
    });
    let info = both[1].connection(server.expect("it connected")).expect("it is kept").info();
    assert!(info.segs_in < BYTES / 20_000, "{} segments", info.segs_in);
}

/// A checksum counts unless the device says that it need not.
#[test]
fn a_damaged_packet_is_refused_unless_the_device_has_checked_it() {
    let [local, remote] = ends();
    for (flags, is_taken) in [(0, false), (1, true), (2, true)] {
        let mut end = Endpoint::new([1; 16], 10);
        end.listen(remote, 8, &Config::default()).expect("nobody listens");
        let header = wire::Header {
            control: wire::Control::Syn,
            mss: Some(1460),
            window: 1000,
            ..wire::Header::default()
        };
        let mut packet = Vec::new();
        let local = std::net::SocketAddr::new(local.ip(), 4000);
        wire::write(&mut packet, local, remote, &header, [&[], &[]]);
        // The checksum itself.
        packet[36] ^= 1;
        let mut frame = vec![flags, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        frame.extend(packet);
        end.receive_virtio(Instant::default(), &frame);
        assert_eq!(end.transmit(Instant::default(), &mut frame), is_taken, "flags {flags}");
    }
    // Less than a header is nothing.
    Endpoint::new([1; 16], 10).receive_virtio(Instant::default(), &[1; 9]);
}

/// The header says what VIRTIO 1.3 section 5.1.6 wants of a packet to cut.
#[test]
fn the_header_of_a_burst_fits_its_packet() {
    for addresses in [ends(), ["[fd00::1]:0", "[fd00::2]:80"].map(|a| a.parse().expect("one"))] {
        let [local, remote] = addresses;
        let mut both = [Endpoint::new([1; 16], 10), Endpoint::new([2; 16], 10)];
        both[1].listen(remote, 8, &Config::default()).expect("nobody listens");
        let mut now = Instant::default();
        let config = Config { nagle: false, ..Config::default() };
        let client = both[0].connect(now, local, remote, &config).expect("it is free");
        exchange(&mut both, &mut now, |ends, _| {
            !ends[0].connection(client).is_some_and(|c| c.state().is_synchronized())
        });
        both[0].write(now, client, &[7; 7_000]).expect("there is room");
        let mut frame = Vec::new();
        assert!(both[0].transmit_virtio(now, &mut frame));
        let field = |at: usize| usize::from(u16::from_ne_bytes([frame[at], frame[at + 1]]));
        let (ip, packet) = if local.is_ipv4() { (20, 1) } else { (40, 4) };
        assert_eq!((frame[0], frame[1]), (1, packet));
        // With timestamps a segment has 12 bytes of options.
        let headers = ip + 32;
        assert_eq!([field(2), field(4), field(6), field(8)], [headers, 1500 - headers, ip, 16]);
        let packets = cut(&frame);
        assert!(packets.len() > 2, "{} packets", packets.len());
        let whole: usize = packets.iter().map(|p| p.len() - headers).sum();
        assert_eq!([whole, frame.len() - 10 - headers], [7_000; 2]);
        for (i, packet) in packets.iter().enumerate() {
            let segment = wire::parse(packet).expect("its checksums are right");
            // Nothing follows the last one.
            let is_pushed = segment.header.control == wire::Control::Psh;
            assert_eq!(is_pushed, i + 1 == packets.len());
            let is_full = packet.len() == 1500;
            assert!(is_full || i + 1 == packets.len(), "packet {i}: {} bytes", packet.len());
            assert!(segment.payload.iter().all(|byte| *byte == 7));
        }
    }
}

/// Both ends, connected, with nothing under way: the endpoints, the client and the server.
fn connected(config: &Config) -> ([Endpoint; 2], fullpipe_tcp::Handle, Instant) {
    let [local, remote] = ends();
    let mut both = [Endpoint::new([1; 16], 10), Endpoint::new([2; 16], 10)];
    both[1].listen(remote, 8, config).expect("a port");
    let mut now = Instant::default();
    let client = both[0].connect(now, local, remote, config).expect("a port");
    exchange(&mut both, &mut now, |ends, _| {
        !ends[0].connection(client).is_some_and(|c| c.state().is_synchronized())
    });
    let mut frame = Vec::new();
    while let Some(i) = (0..2).find(|&i| both[i].transmit_virtio(now, &mut frame)) {
        both[1 - i].receive_virtio(now, &frame);
    }
    (both, client, now)
}

#[test]
fn counters_count_the_segments_of_bursts() {
    let (mut both, client, now) = connected(&Config::default());
    let before = [both[0].counters().segments_out, both[1].counters().segments_in];
    both[0].write(now, client, &[7; 7_000]).expect("room");
    let (mut frame, mut frames) = (Vec::new(), 0);
    while both[0].transmit_virtio(now, &mut frame) {
        frames += 1;
        both[1].receive_virtio(now, &frame);
    }
    let after = [both[0].counters().segments_out, both[1].counters().segments_in];
    let [out, taken] = [after[0] - before[0], after[1] - before[1]];
    // The rest waits for an ACK (Nagle).
    assert_eq!((frames, out, taken), (1, 4, 4));
    both[0].abort(client);
    while both[0].transmit_virtio(now, &mut frame) {
        both[1].receive_virtio(now, &frame);
    }
    assert_eq!(both[1].counters().resets_in, 1);
    both[1].receive_virtio(now, &[0; 9]);
    assert_eq!(both[1].counters().packets_unread, 1);
}

/// Each packet that a device has merged was marked (RFC 9768 section 3.2).
#[test]
fn marks_of_merged_segments_count_each() {
    let config = Config {
        ecn: true,
        accurate_ecn: true,
        algorithm: Algorithm::BBR3,
        nagle: false,
        ..Config::default()
    };
    let told = [1, 4].map(|packets: usize| {
        let (mut both, client, now) = connected(&config);
        both[0].write(now, client, &vec![7; packets * 1_400]).expect("room");
        let mut frame = Vec::new();
        while let Some(i) = (0..2).find(|&i| both[i].transmit_virtio(now, &mut frame)) {
            if i == 0 {
                wire::set_ce(&mut frame[10..]);
            }
            both[1 - i].receive_virtio(now, &frame);
        }
        both[0].connection(client).expect("open").info().delivered_ce
    });
    assert!(told[0] >= 1 && told[1] >= 3, "{told:?}");
}

/// The flag CWR is a bit of the count of marked packets (RFC 9768 section 3.2.2). A device that
/// clears it from the second packet on, as RFC 3168 section 6.1.2 has it, would tell other counts.
#[test]
fn bursts_go_on_after_a_mark_where_the_device_keeps_the_flag() {
    for offload_keeps_cwr in [false, true] {
        let config = Config {
            ecn: true,
            accurate_ecn: true,
            algorithm: Algorithm::BBR3,
            nagle: false,
            offload_keeps_cwr,
            ..Config::default()
        };
        let (mut both, client, mut now) = connected(&config);
        let server = both[1].next_changed().expect("it is new");
        let mut frame = Vec::new();
        for marks in 1..=8_u64 {
            // Credit of the pacer.
            now += MS;
            // Not all of them: that would be no router (section 3.2.2.3).
            for is_marked in [true, false] {
                both[1].write(now, server, b"x").expect("room");
                while both[1].transmit_virtio(now, &mut frame) {
                    if is_marked {
                        wire::set_ce(&mut frame[10..]);
                    }
                    both[0].receive_virtio(now, &frame);
                }
            }
            both[0].write(now, client, &[7; 4 * 1448]).expect("room");
            let mut frames = Vec::new();
            while both[0].transmit_virtio(now, &mut frame) {
                both[1].receive_virtio(now, &frame);
                frames.push(frame.clone());
            }
            let has_cwr = (5 + marks) & 2 != 0;
            let is_burst = frames.iter().any(|frame| frame[0] == 1);
            assert_eq!(is_burst, !has_cwr || offload_keeps_cwr, "{marks} marks");
            for frame in &frames {
                // VIRTIO_NET_HDR_GSO_ECN.
                assert_eq!(frame[1] & 0x80 != 0, has_cwr && frame[0] == 1, "{marks} marks");
                for packet in cut(frame) {
                    let header = wire::parse(&packet).expect("its checksums are right").header;
                    assert_eq!(u64::from(header.flags()), (5 + marks) % 8);
                }
            }
            while both[1].transmit_virtio(now, &mut frame) {
                both[0].receive_virtio(now, &frame);
            }
            let told = both[1].connection(server).expect("open").info().delivered_ce;
            assert_eq!(told, marks);
        }
    }
}

/// Nothing is counted without a limit: what was counted before is forgotten with it.
#[test]
fn a_memory_limit_that_was_lifted_counts_anew() {
    let (mut both, client, mut now) = connected(&Config::default());
    both[0].set_memory_limit(1_000_000);
    both[0].write(now, client, &[7; 500_000]).expect("room");
    both[0].set_memory_limit(usize::MAX);
    both[0].abort(client);
    both[0].release(now, client);
    let mut packet = Vec::new();
    while both[0].transmit(now, &mut packet) {
        both[1].receive(now, &packet);
    }
    let [local, remote] = ends();
    let client = both[0].connect(now, local, remote, &Config::default()).expect("a port");
    exchange(&mut both, &mut now, |ends, _| {
        !ends[0].connection(client).is_some_and(|c| c.state().is_synchronized())
    });
    both[0].set_memory_limit(1_000_000);
    let taken = both[0].write(now, client, &[7; 300_000]).expect("room");
    assert!(taken > 100_000, "{taken} bytes, and nothing was held");
}
