//! One transfer in captures of many kinds: behind other headers, cut, seen twice, on several
//! interfaces, and with a clock that is set. All of them tell one story.

use std::fs;
use std::path::Path;

use fullpipe_cc::Algorithm;
use fullpipe_judge::capture::{Choice, Place, Story};
use fullpipe_judge::program::judge::TestPath;
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use crate::captured::{At, Transfer, capture};

/// A packet of a file, from its IP header on.
#[derive(Clone, Debug)]
struct Captured {
    at_ns: u64,
    interface: u32,
    bytes: Vec<u8>,
    length: u32,
}

impl Captured {
    /// The sender is 10.0.0.1.
    fn is_data_way(&self) -> bool {
        self.bytes[15] == 1
    }

    /// The same with another length on the wire.
    fn with_length(&self, length: u32) -> Self {
        Self { length: length.min(60_000), ..self.clone() }
    }

    /// Later, on an interface, and with so many hops less.
    fn copied(&self, later_ns: u64, interface: u32, hops: u8) -> Self {
        let mut copy = self.clone();
        copy.at_ns += later_ns;
        copy.interface = interface;
        copy.bytes[8] -= hops;
        copy
    }
}

/// The packets at one end of a transfer, with identifications or without.
fn packets(at: At, test_path: &str, seconds: u64, has_ids: bool) -> Vec<Captured> {
    let path = TestPath::named(test_path).expect("a test path").path(false).expect("a path");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.pcap");
    capture(&Transfer { at, ..Transfer::of(Algorithm::BBR3, seconds) }, &path, &file);
    let bytes = fs::read(&file).expect("bytes");
    let mut reader = PcapReader::new(bytes.as_slice()).expect("a pcap");
    let mut all = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("a packet");
        let mut bytes = packet.data.into_owned();
        let id = if has_ids { id_of(&bytes) } else { 0 };
        bytes[4..6].copy_from_slice(&id.to_be_bytes());
        all.push(Captured {
            at_ns: packet.timestamp.as_nanos() as u64,
            interface: 0,
            bytes,
            length: packet.orig_len,
        });
    }
    all
}

/// An identification that a packet keeps on its way, and that the same data sent later has not.
fn id_of(bytes: &[u8]) -> u16 {
    // Numbers, flags, window and time stamps, without the marks of the IP header.
    let parts = bytes[24..36].chunks(2).chain(bytes[40..].chunks(2).take(8));
    let sum = parts.fold(7_u32, |sum, part| {
        sum.wrapping_mul(31).wrapping_add(part.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
    });
    (sum ^ sum >> 16) as u16 | 1
}

/// A pcapng of this link type, each packet with a header before it and cut to so many bytes.
fn written(
    file: &Path,
    link: u32,
    packets: &[Captured],
    snap: usize,
    header: impl Fn(&Captured) -> Vec<u8>,
) {
    let mut writer = PcapNgWriter::new(Vec::new()).expect("a head");
    let interfaces = packets.iter().map(|p| p.interface).max().unwrap_or(0) + 1;
    for _ in 0..interfaces {
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::from(link),
            snaplen: 0,
            options: vec![InterfaceDescriptionOption::IfTsResol(9)],
        };
        writer.write_pcapng_block(interface).expect("an interface");
    }
    for packet in packets {
        let mut data = header(packet);
        let original_len = (data.len() as u32).saturating_add(packet.length);
        data.extend_from_slice(&packet.bytes);
        data.truncate(snap);
        let block = EnhancedPacketBlock {
            interface_id: packet.interface,
            timestamp: std::time::Duration::from_nanos(packet.at_ns),
            original_len,
            data: data.into(),
            options: Vec::new(),
        };
        writer.write_pcapng_block(block).expect("written");
    }
    fs::write(file, writer.into_inner()).expect("written");
}

const RAW: u32 = 101;
const ETHERNET: u32 = 1;

fn told(
    link: u32,
    packets: &[Captured],
    snap: usize,
    header: impl Fn(&Captured) -> Vec<u8>,
) -> Result<Story, String> {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.pcapng");
    written(&file, link, packets, snap, header);
    Story::of_capture(&file, &Choice::Largest).map_err(|error| error.to_string())
}

fn story(packets: &[Captured]) -> Story {
    told(RAW, packets, usize::MAX, |_| Vec::new()).expect("a story")
}

/// The figures, the verdict and the place are the same.
fn is_same(name: &str, a: &Story, b: &Story) {
    assert_eq!((a.place, a.sender), (b.place, b.sender), "{name}: {}", b.text());
    assert_eq!(a.verdict, b.verdict, "{name}: {}", b.text());
    assert_eq!(a.figures, b.figures, "{name}: {}", b.text());
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    let mut header = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    header.extend(ethertype.to_be_bytes());
    header
}

/// An outer header of IPv4 before so many bytes.
fn ipv4(protocol: u8, length: u32) -> Vec<u8> {
    let total = (length as u16 + 20).to_be_bytes();
    let mut header = vec![0x45, 0, total[0], total[1], 0, 9, 0x40, 0, 64, protocol, 0, 0];
    header.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    header
}

fn ipv6(protocol: u8, length: u32) -> Vec<u8> {
    let length = (length as u16).to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64];
    header.extend([1; 32]);
    header
}

fn udp(port: u16, length: u32) -> Vec<u8> {
    let fields = [50_000, port, length as u16 + 8, 0];
    fields.iter().flat_map(|field| field.to_be_bytes()).collect()
}

/// The header of a packet in a file of a link type.
type Variant = (&'static str, u32, fn(&Captured) -> Vec<u8>);

const VARIANTS: [Variant; 30] = [
    ("Ethernet", ETHERNET, |_| ethernet(0x0800)),
    ("a tag", ETHERNET, |_| [ethernet(0x8100), vec![0, 1, 8, 0]].concat()),
    ("tags of two kinds", ETHERNET, |_| {
        [ethernet(0x9100), vec![0, 1, 0x81, 0, 0, 2, 8, 0]].concat()
    }),
    ("three tags", ETHERNET, |_| {
        [ethernet(0x88A8), vec![0, 1, 0x91, 0, 0, 2, 0x81, 0, 0, 3, 8, 0]].concat()
    }),
    ("LLC", ETHERNET, |p| {
        [ethernet(p.length.min(1500) as u16), vec![0xAA, 0xAA, 3, 0, 0, 0, 8, 0]].concat()
    }),
    ("PPPoE", ETHERNET, |p| {
        let length = (p.length as u16 + 2).to_be_bytes();
        [ethernet(0x8864), vec![0x11, 0, 0, 7, length[0], length[1], 0, 0x21]].concat()
    }),
    ("MPLS", ETHERNET, |_| [ethernet(0x8847), vec![0, 1, 0, 64, 0, 1, 1, 64]].concat()),
    ("a pseudowire", ETHERNET, |_| {
        [ethernet(0x8847), vec![0, 1, 1, 64, 0, 0, 0, 0], ethernet(0x0800)].concat()
    }),
    ("GRE", ETHERNET, |p| [ethernet(0x0800), ipv4(47, p.length + 4), vec![0, 0, 8, 0]].concat()),
    ("GRE with a key", ETHERNET, |p| {
        [ethernet(0x0800), ipv4(47, p.length + 8), vec![0x20, 0, 8, 0, 0, 0, 0, 1]].concat()
    }),
    ("a mirrored port", ETHERNET, |p| {
        let gre = vec![0x10, 0, 0x88, 0xBE, 0, 0, 0, 1, 0x10, 0, 0, 0, 0, 0, 0, 0];
        [ethernet(0x0800), ipv4(47, p.length + 30), gre, ethernet(0x0800)].concat()
    }),
    ("IPv4 in IPv4", ETHERNET, |p| [ethernet(0x0800), ipv4(4, p.length)].concat()),
    ("IPv4 in IPv6", ETHERNET, |p| [ethernet(0x86DD), ipv6(4, p.length)].concat()),
    ("an extension of IPv6", ETHERNET, |p| {
        [ethernet(0x86DD), ipv6(60, p.length + 8), vec![4, 0, 1, 4, 0, 0, 0, 0]].concat()
    }),
    ("VXLAN", ETHERNET, |p| {
        let vxlan = [udp(4789, p.length + 22), vec![8, 0, 0, 0, 0, 0, 7, 0]].concat();
        [ethernet(0x0800), ipv4(17, p.length + 30), vxlan, ethernet(0x0800)].concat()
    }),
    ("VXLAN with a policy", ETHERNET, |p| {
        let vxlan = [udp(4789, p.length + 22), vec![0x88, 0, 0, 7, 0, 0, 7, 0]].concat();
        [ethernet(0x0800), ipv4(17, p.length + 30), vxlan, ethernet(0x0800)].concat()
    }),
    ("Geneve", ETHERNET, |p| {
        let geneve = [udp(6081, p.length + 12), vec![1, 0, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0]].concat();
        [ethernet(0x0800), ipv4(17, p.length + 20), geneve].concat()
    }),
    ("GTP-U", ETHERNET, |p| {
        let gtp = [udp(2152, p.length + 8), vec![0x30, 0xFF, 0, 0, 0, 0, 0, 7]].concat();
        [ethernet(0x0800), ipv4(17, p.length + 16), gtp].concat()
    }),
    ("GTP-U of 5G", ETHERNET, |p| {
        let more = vec![0x34, 0xFF, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0x85, 1, 0x10, 9, 0];
        [ethernet(0x0800), ipv4(17, p.length + 24), udp(2152, p.length + 16), more].concat()
    }),
    ("GTP-U with a number", ETHERNET, |p| {
        let gtp = [udp(2152, p.length + 12), vec![0x32, 0xFF, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0x85]];
        [ethernet(0x0800), ipv4(17, p.length + 20), gtp.concat()].concat()
    }),
    ("two tunnels", ETHERNET, |p| {
        let gre = [ipv4(47, p.length + 24), vec![0, 0, 8, 0]].concat();
        [ethernet(0x0800), gre, ipv4(4, p.length)].concat()
    }),
    ("cooked", 113, |_| vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0]),
    ("cooked with a tag", 113, |_| {
        vec![0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0, 0, 1, 8, 0]
    }),
    ("cooked, the newer", 276, |_| {
        vec![8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0]
    }),
    ("loopback", 0, |_| vec![2, 0, 0, 0]),
    ("PPP", 9, |_| vec![0xFF, 3, 0, 0x21]),
    ("PPP that is compressed", 9, |_| vec![0x21]),
    ("Apple's", 258, |_| {
        let mut header = vec![0; 108];
        (header[0], header[4], header[8]) = (108, 1, 12);
        header
    }),
    ("a filter's log", 239, |p| {
        let length = (p.length as u16 + 4).to_le_bytes();
        vec![2, 0, 0, 0, 5, 0, 10, 0, 0, 0, 0, 0, length[0], length[1], 9, 0]
    }),
    ("Wi-Fi", 127, |_| {
        let mut header = vec![0, 0, 8, 0, 0, 0, 0, 0, 0x88, 1];
        header.resize(8 + 26, 0);
        header.extend([0xAA, 0xAA, 3, 0, 0, 0, 8, 0]);
        header
    }),
];

#[test]
fn headers_of_links_and_tunnels_change_nothing() {
    let packets = packets(At::Sender, "loss 1 %", 4, true);
    let plain = story(&packets);
    assert!(plain.figures.resent_packets > Some(20), "{}", plain.text());
    crate::captures::each(&VARIANTS, |(name, link, header)| {
        let story =
            told(*link, &packets, usize::MAX, header).unwrap_or_else(|e| panic!("{name}: {e}"));
        is_same(name, &plain, &story);
        assert_eq!(story.remarks, plain.remarks, "{name}");
    });
}

/// The fixed header of TCP has its numbers. Options are cut: time stamps, and the window's scale.
#[test]
fn packets_that_are_cut_in_their_options_are_told() {
    let packets = packets(At::Sender, "loss 1 %", 8, true);
    let plain = story(&packets);
    for snap in [54, 60, 64] {
        let cut = told(ETHERNET, &packets, snap, |_| ethernet(0x0800)).expect("a story");
        assert_eq!(cut.verdict.looks, plain.verdict.looks, "{snap}: {}", cut.text());
        assert_eq!(cut.verdict.defects, plain.verdict.defects, "{snap}: {}", cut.text());
        assert_eq!(cut.figures.resent_packets, plain.figures.resent_packets, "{snap}");
        let is_open = |u: &&fullpipe_judge::capture::Unknown| {
            u.why.contains("options of the handshake are cut")
        };
        let is_scale_cut = cut.verdict.cannot_tell.iter().any(|u| is_open(&u));
        assert_eq!(is_scale_cut, snap < 64, "{snap}: {}", cut.text());
    }
    let error = told(ETHERNET, &packets, 50, |_| ethernet(0x0800)).expect_err("no story");
    assert!(error.contains("cut inside their headers; capture 128 bytes"), "{error}");
}

/// A mirrored port, a bridge with `-i any`, and a router have each packet several times. What TCP
/// sends again is there as before.
#[test]
fn a_packet_that_was_captured_twice_is_sent_once() {
    for has_ids in [true, false] {
        let packets = packets(At::Sender, "loss 1 %", 6, has_ids);
        let plain = story(&packets);
        assert!(plain.figures.resent_packets > Some(20), "{}", plain.text());
        let several = |copies: &[(u64, u32, u8)]| -> Vec<Captured> {
            let all = packets.iter().flat_map(|p| {
                copies
                    .iter()
                    .map(move |(later, interface, hops)| p.copied(*later, *interface, *hops))
            });
            let mut all: Vec<Captured> = all.collect();
            all.sort_by_key(|p| p.at_ns);
            all
        };
        for (name, copies, says) in [
            ("a mirrored port", &[(0, 0, 0), (0, 0, 0)][..], "captured twice"),
            ("a bridge", &[(0, 0, 0), (0, 1, 0), (0, 2, 0)], "captured up to 3 times"),
        ] {
            let copied = story(&several(copies));
            is_same(name, &plain, &copied);
            assert!(copied.remarks.iter().any(|r| r.contains(says)), "{:?}", copied.remarks);
        }
        // The copies are later: those of acknowledgements are told.
        for (name, copies) in [
            ("a mirrored port", &[(0, 0, 0), (3000, 0, 0)][..]),
            ("a bridge", &[(0, 0, 0), (2000, 1, 0), (5000, 2, 0)]),
            ("a router", &[(0, 0, 0), (30_000, 0, 1)]),
        ] {
            let copied = story(&several(copies));
            let (a, b) = (&plain.figures, &copied.figures);
            assert_eq!(
                (a.sent_packets, a.resent_packets),
                (b.sent_packets, b.resent_packets),
                "{name}"
            );
            assert_eq!((a.acks, a.needless_packets), (b.acks, b.needless_packets), "{name}");
            assert_eq!(plain.verdict.looks, copied.verdict.looks, "{name}: {}", copied.text());
            assert_eq!(plain.verdict.defects, copied.verdict.defects, "{name}: {}", copied.text());
            assert!(copied.remarks.iter().any(|r| r.contains("captured")), "{:?}", copied.remarks);
        }
    }
}

/// The captures of both ends in one file: the sender's is told, also where its packets have lost
/// hops on their way to the other one, and where that one's clock is late.
#[test]
fn of_both_ends_in_a_file_the_sender_is_told() {
    for has_ids in [true, false] {
        let leaves = packets(At::Sender, "loss 1 %", 6, has_ids);
        let arrives = packets(At::Receiver, "loss 1 %", 6, has_ids);
        let plain = story(&leaves);
        for (name, interface, hops, early_ns, is_sorted) in [
            ("one interface", 0, 0, 0, true),
            ("two interfaces", 1, 0, 0, true),
            ("hops between them", 0, 5, 0, true),
            ("another clock", 0, 5, 300_000_000, true),
            ("one behind the other", 1, 0, 0, false),
            ("one behind the other, on one interface", 0, 5, 0, false),
        ] {
            let mut both = leaves.clone();
            both.extend(arrives.iter().map(|p| {
                // What comes from the receiver has more hops left there.
                let mut p = p.copied(0, interface, if p.is_data_way() { hops } else { 0 });
                p.at_ns -= early_ns;
                p
            }));
            both.iter_mut().take(leaves.len()).filter(|p| !p.is_data_way()).for_each(|p| {
                p.bytes[8] -= hops;
            });
            if is_sorted {
                both.sort_by_key(|p| p.at_ns);
            }
            let told = story(&both);
            assert_eq!(told.place, Place::Sender, "{name}: {}", told.text());
            assert_eq!(told.verdict, plain.verdict, "{name}: {}", told.text());
            let (a, b) = (&plain.figures, &told.figures);
            assert_eq!(
                (a.sent_packets, a.resent_packets),
                (b.sent_packets, b.resent_packets),
                "{name}"
            );
            let least = [a, b].map(|f| f.rtt_ms.expect("round trips").min);
            assert!((least[0] - least[1]).abs() < 0.1, "{name}: {least:?}");
        }
    }
}

/// A tap has an interface for each direction, and a bond divides a flow among its interfaces.
#[test]
fn interfaces_are_one_place() {
    let packets = packets(At::Sender, "loss 1 %", 4, true);
    let plain = story(&packets);
    let on = |interface: fn(usize, &Captured) -> u32| -> Vec<Captured> {
        let with = packets.iter().enumerate();
        with.map(|(i, p)| p.copied(0, interface(i, p), 0)).collect()
    };
    is_same("a tap", &plain, &story(&on(|_, p| u32::from(p.is_data_way()))));
    is_same("a bond", &plain, &story(&on(|i, _| (i % 3) as u32)));
}

/// A clock that is set back makes two parts, and nothing is told across its step.
#[test]
fn a_clock_that_is_set_back_is_said() {
    let mut packets = packets(At::Sender, "clean", 8, true);
    let at = packets.len() / 3;
    packets.iter_mut().skip(at).for_each(|p| p.at_ns -= 2_000_000_000);
    let stepped = story(&packets);
    let said = stepped.remarks.join("\n");
    assert!(said.contains("the clock of the capture was set back by 2.00 s"), "{said}");
    assert!(!said.contains("dropped packets"), "{said}");
    let alone = story(&packets[at..]);
    is_same("the longer part", &alone, &stepped);
}

/// A file is refused with what is in it.
#[test]
fn what_is_not_opened_is_named() {
    let packets = packets(At::Sender, "clean", 1, true);
    let some = &packets[..12];
    for (link, header, says) in [
        (147, &[][..], "12 packets of link type 147 (USER0)"),
        (ETHERNET, &[0; 12], "12 packets of EtherType 0x4500"),
        (
            RAW,
            &[0x45, 0, 0, 40, 0, 0, 0, 0, 64, 50, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2],
            "12 packets of IP protocol 50 (ESP)",
        ),
        (9, &[0xC0, 0x21], "12 packets of PPP's protocol 0xc021"),
        (RAW, &[0; 4], "12 packets with damaged headers"),
    ] {
        let error = told(link, some, usize::MAX, |_| header.to_vec()).expect_err("no story");
        let all = format!("no packet of TCP or UDP can be opened in it, but {says}");
        assert_eq!(error, all);
    }
    // Many tags, one behind the other.
    let tags = [ethernet(0x8100), [0, 1, 0x81, 0].repeat(40), vec![0, 1, 8, 0]].concat();
    let error = told(ETHERNET, some, usize::MAX, |_| tags.clone()).expect_err("no story");
    assert!(error.contains("12 packets of more than"), "{error}");
}

/// Headers that somebody changed: told or refused, and never a panic. `CAPTURE_ROUNDS` asks for
/// more than a few of each kind.
#[test]
fn damaged_headers_are_told_or_refused() {
    let rounds = std::env::var("CAPTURE_ROUNDS").map_or(8, |n| n.parse().expect("a number"));
    let mut packets = packets(At::Sender, "loss 1 %", 1, true);
    packets.truncate(120);
    let kinds: Vec<(usize, &Variant)> = VARIANTS.iter().enumerate().collect();
    crate::captures::each(&kinds, |(n, (name, link, header))| {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("x.pcapng");
        let mut state = *n as u64 + 1;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut told = 0;
        for _ in 0..rounds {
            let mut damaged = packets.clone();
            for _ in 0..1 + draw(20) {
                let (at, byte) = (draw(damaged.len()), draw(256) as u8);
                let packet = &mut damaged[at];
                match draw(6) {
                    0 => packet.at_ns = packet.at_ns.wrapping_add(1 << draw(62)),
                    1 => packet.length = 1 << draw(32),
                    2 => packet.bytes.truncate(draw(96)),
                    _ => {
                        let at = draw(packet.bytes.len().max(1));
                        packet.bytes.get_mut(at).into_iter().for_each(|b| *b = byte);
                    }
                }
            }
            let (at, byte) = (draw(64), draw(256) as u8);
            let is_whole = draw(2) == 0;
            written(&file, *link, &damaged, 200, |packet| {
                let mut header = header(&packets[0].with_length(packet.length));
                if !is_whole {
                    header.get_mut(at).into_iter().for_each(|b| *b = byte);
                }
                header
            });
            match Story::of_capture(&file, &Choice::Largest) {
                Ok(story) => {
                    assert!(!story.text().is_empty(), "{name}");
                    told += 1;
                }
                Err(error) => assert_eq!(error.to_string().lines().count(), 1, "{name}: {error}"),
            }
        }
        assert!(told * 4 >= rounds, "{name}: {told} of {rounds}");
    });
}
