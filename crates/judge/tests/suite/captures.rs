//! Stories of captures whose senders and paths are known: made under a virtual clock by the TCP in
//! user space.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, Once};
use std::thread;

use fullpipe_cc::{Algorithm, CustomAlgorithm};
use fullpipe_judge::capture::{Choice, Place, Story};
use fullpipe_judge::program::judge::{
    Judged, Kind, Limits, Looks, ReferenceSender, TestPath, Views, simulate, test_paths,
};

use crate::captured::{At, Transfer, capture};
use crate::planted;

static STOP: AtomicBool = AtomicBool::new(false);

/// A capture in a directory that is gone when this is.
struct Captured {
    _dir: tempfile::TempDir,
    file: PathBuf,
}

fn captured(transfer: &Transfer, test_path: &str) -> Captured {
    let path = TestPath::named(test_path).expect("a test path").path(false).expect("a path");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.pcap");
    capture(transfer, &path, &file);
    Captured { _dir: dir, file }
}

fn read(file: &Path) -> Story {
    Story::of_capture(file, &Choice::Largest).expect("a story")
}

fn story(transfer: &Transfer, test_path: &str) -> Story {
    read(&captured(transfer, test_path).file)
}

fn custom(name: &str) -> Algorithm {
    let found: Option<&&'static CustomAlgorithm> = planted::ALL.iter().find(|a| a.name == name);
    Algorithm::Custom(found.expect("a planted one"))
}

pub(crate) fn defects(story: &Story) -> Vec<&str> {
    story.verdict.defects.iter().map(|d| d.name.as_str()).collect()
}

/// Works through a list on two threads.
pub(crate) fn each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(one) =
                    all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    work(one);
                }
            });
        }
    });
}

/// The looks of a sender by what it does on paths that are known.
fn with_the_path(flow: &str) -> Looks {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| fullpipe_adapter::register_algorithms(&planted::ALL));
    // No figure is graded here.
    static NONE: LazyLock<Limits> =
        LazyLock::new(|| Limits::simulate(&[], &STOP, |_| ()).expect("nobody stops it"));
    let sender = ReferenceSender::new("x", &format!("{flow}\ntransport = \"tcp\""));
    let view = |test_path| simulate(test_path, &sender, 1, &STOP).expect("a test path");
    let views: Views =
        test_paths(true).iter().map(|test_path| (test_path.name, view(test_path))).collect();
    Judged::of(&views, &BTreeMap::new(), &NONE).looks
}

/// The kind, the time between two ProbeRTTs and the answer to a loss are the same, as far as both
/// are known; so is whether it paces.
fn agree(a: Looks, b: Looks) -> Result<(), String> {
    let near = |a: Option<f64>, b: Option<f64>, by: f64| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= by,
        _ => true,
    };
    let is_same = match (a.kind, b.kind) {
        (Kind::BbrLike { probe_rtt_s: a }, Kind::BbrLike { probe_rtt_s: b }) => near(a, b, 1.0),
        (Kind::LossBased { decrease: a }, Kind::LossBased { decrease: b }) => near(a, b, 0.12),
        (Kind::FixedRate { .. }, Kind::FixedRate { .. }) => true,
        (Kind::FixedWindow { packets: a }, Kind::FixedWindow { packets: b }) => {
            (a - b).abs() < 0.1 * b
        }
        _ => false,
    };
    let is_paced_alike = a.paced.is_none() || b.paced.is_none() || a.paced == b.paced;
    (is_same && is_paced_alike).then_some(()).ok_or(format!("'{a}', and with the path '{b}'"))
}

/// Senders that the table of the judge calls healthy: no capture of them shows a defect, and the
/// verdict without the path is that with it.
#[test]
fn a_verdict_without_the_path_agrees_with_one_with_it() {
    let all = [
        ("cc = \"bbr3\"", Algorithm::BBR3, true),
        ("cc = \"bbr3x\"", Algorithm::BBR3X, true),
        ("cc = \"bbr3-linux\"", Algorithm::BBR3_LINUX, true),
        ("cc = \"bbr1\"", Algorithm::BBR1, true),
        ("cc = \"cubic\"", Algorithm::CUBIC, true),
        ("cc = \"reno\"", Algorithm::RENO, true),
        ("cc = \"cubic\"\npaced = false", Algorithm::CUBIC, false),
    ];
    each(&all, |(flow, algorithm, paced)| {
        let transfer = Transfer { paced: *paced, ..Transfer::of(*algorithm, 22) };
        let story = story(&transfer, "clean");
        let text = story.text();
        assert_eq!(story.place, Place::Sender, "{flow}: {text}");
        if let Err(why) = agree(story.verdict.looks, with_the_path(flow)) {
            panic!("{flow}: {why}:\n{text}");
        }
        assert_eq!(story.verdict.looks.paced, Some(*paced), "{flow}: {text}");
        assert!(defects(&story).is_empty(), "{flow}: {text}");
        assert!(story.verdict.suspicions.is_empty(), "{flow}: {text}");
    });
}

/// Figures that the path gives, from either end.
#[test]
fn both_ends_tell_the_same_story() {
    for algorithm in [Algorithm::BBR3, Algorithm::CUBIC] {
        let [a, b] = [At::Sender, At::Receiver].map(|at| {
            let transfer = Transfer { at, ..Transfer::of(algorithm, 16) };
            story(&transfer, "clean")
        });
        assert_eq!([a.place, b.place], [Place::Sender, Place::Receiver]);
        let near = |of: fn(&Story) -> Option<f64>, by: f64| {
            let (a, b) = (of(&a).expect("the sender's"), of(&b).expect("the receiver's"));
            assert!((a - b).abs() <= by * a.max(b), "{a} and {b}");
        };
        near(|s| Some(s.figures.goodput_mbps), 0.01);
        near(|s| Some(s.figures.rtt_ms?.min), 0.03);
        near(|s| Some(s.figures.rtt_ms?.p50), 0.05);
        near(|s| Some(s.figures.inflight_bytes?.p50), 0.05);
        near(|s| Some(s.figures.resent_packets? as f64), 0.01);
        let [at_sender, at_receiver] = [&a, &b].map(|s| s.verdict.looks);
        assert_eq!(at_receiver.paced, None, "the path spaces the packets");
        agree(at_sender, at_receiver).expect("one sender");
        let says = |s: &Story| s.verdict.cannot_tell.iter().any(|u| u.what == "pacing and bursts");
        assert_eq!([says(&a), says(&b)], [false, true]);
        // A path of 20 Mbit/s and 40 ms.
        let f = a.figures;
        assert!((19.0..19.5).contains(&f.peak_mbps), "{}", f.peak_mbps);
        let rtt = f.rtt_ms.expect("round trips");
        assert!((40.0..41.5).contains(&rtt.min), "{rtt:?}");
    }
}

/// Senders with a defect each, and the path on which it shows.
#[test]
fn defects_are_proved_without_the_path() {
    let all = [
        ("no-pacing", "no pacing", "clean", 14),
        ("long-probe-rtt", "ProbeRTT lasts too long", "clean", 14),
        ("reset-at-loss", "window reset at each loss", "loss 0.1 %", 10),
        ("deaf", "does not react to losses", "shallow", 6),
        ("min-rtt-zero", "window of a few packets", "clean", 6),
    ];
    each(&all, |(name, defect, test_path, seconds)| {
        let story = story(&Transfer::of(custom(name), *seconds), test_path);
        assert_eq!(defects(&story), [*defect], "{name}: {}", story.text());
    });
}

/// A finding that something else would explain as well is suspected, and no defect.
#[test]
fn what_the_application_may_have_done_is_no_defect() {
    let story = story(&Transfer::of(custom("endless-drain"), 8), "clean");
    assert!(defects(&story).is_empty(), "{}", story.text());
    let names: Vec<&str> = story.verdict.suspicions.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["Drain does not end"], "{}", story.text());
}

/// A small window of the receiver hides the sender's algorithm, and that is said.
#[test]
fn a_window_of_the_receiver_is_not_congestion_control() {
    let transfer = Transfer { receive_buffer: 64 << 10, ..Transfer::of(Algorithm::CUBIC, 6) };
    let story = story(&transfer, "clean");
    assert_eq!(story.verdict.looks.kind, Kind::Unknown, "{}", story.text());
    assert!(defects(&story).is_empty(), "{}", story.text());
    let why = story.verdict.cannot_tell.iter().find(|u| u.what == "kind of algorithm");
    assert!(why.expect("a reason").why.contains("the receiver's window"), "{}", story.text());
    let share = story.figures.window_limited_share.expect("known");
    assert!(share > 0.8, "{}", story.text());
}

/// Without the handshake nothing says how large the receiver's window is: one volume in flight may
/// be that window.
#[test]
fn without_the_handshake_a_window_may_be_the_receivers() {
    let transfer = Transfer { receive_buffer: 64 << 10, ..Transfer::of(Algorithm::CUBIC, 6) };
    let one = captured(&transfer, "clean");
    let bytes = fs::read(&one.file).expect("bytes");
    let behind = (0..3).fold(24, |at, _| {
        let length: [u8; 4] = bytes[at + 8..at + 12].try_into().expect("four bytes");
        at + 16 + u32::from_be_bytes(length) as usize
    });
    fs::write(&one.file, [&bytes[..24], &bytes[behind..]].concat()).expect("written");
    let story = read(&one.file);
    assert_eq!(story.verdict.looks.kind, Kind::Unknown, "{}", story.text());
    let why = story.verdict.cannot_tell.iter().find(|u| u.what == "kind of algorithm");
    assert!(why.expect("a reason").why.contains("or the receiver's"), "{}", story.text());
    assert!(story.verdict.suspicions.is_empty(), "{}", story.text());
}

/// Random loss is no congestion to one of them, and is to the other.
#[test]
fn losses_are_counted_and_their_answer_tells_the_kind() {
    for (algorithm, is_bbr) in [(Algorithm::BBR3, true), (Algorithm::CUBIC, false)] {
        for at in [At::Sender, At::Receiver] {
            let transfer = Transfer { at, ..Transfer::of(algorithm, 8) };
            let story = story(&transfer, "loss 1 %");
            let share = story.figures.resent_share.expect("losses");
            assert!((0.005..0.016).contains(&share), "{share}: {}", story.text());
            let kind = story.verdict.looks.kind;
            assert_eq!(matches!(kind, Kind::BbrLike { .. }), is_bbr, "{}", story.text());
            assert_eq!(matches!(kind, Kind::LossBased { .. }), !is_bbr, "{}", story.text());
        }
    }
}

fn error(bytes: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x");
    fs::write(&file, bytes).expect("written");
    let found = Story::of_capture(&file, &Choice::Largest);
    found.expect_err("no capture").to_string()
}

#[test]
fn a_capture_that_is_cut_is_used_up_to_there() {
    let whole = captured(&Transfer::of(Algorithm::BBR3, 4), "clean");
    let bytes = fs::read(&whole.file).expect("bytes");
    let cut = whole.file.with_extension("cut");
    fs::write(&cut, &bytes[..bytes.len() / 2 + 7]).expect("written");
    let story = read(&cut);
    let said = story.remarks.join("\n");
    assert!(said.contains("ends inside a packet; it is used up to there"), "{said}");
    assert!(story.figures.duration_s < 3.0);
    // A length that no packet has.
    let mut broken = bytes.clone();
    broken[bytes.len() / 2..].fill(0xFF);
    fs::write(&cut, &broken).expect("written");
    assert!(!read(&cut).remarks.is_empty());
    for n in [0, 3, 20, 24, 30] {
        assert!(error(&bytes[..n]).lines().count() == 1, "{n}");
    }
}

#[test]
fn files_of_other_kinds_are_refused_in_a_line() {
    for (bytes, says) in [
        (&b""[..], "it is empty"),
        (b"{\"qlog_version\": \"0.3\"}", "--qlog"),
        (b"time,mbps\n0,1\n", "neither pcap nor pcapng"),
        (b"\xD4\xC3\xB2\xA1\x02", "ends inside its first header"),
    ] {
        let error = error(bytes);
        assert!(error.contains(says) && error.lines().count() == 1, "{error}");
    }
    let error = Story::of_capture(Path::new("/dev/null"), &Choice::Largest).expect_err("none");
    assert!(error.to_string().contains("no regular file"), "{error}");
}

/// A flow is chosen by its number, or by one or both of its ends.
#[test]
fn a_flow_is_chosen_by_its_ends() {
    let one = captured(&Transfer::of(Algorithm::CUBIC, 1), "clean");
    let choose = |text: &str| Story::of_capture(&one.file, &text.parse().expect("a choice"));
    for text in ["1", "10.0.0.2:80"] {
        let story = choose(text).expect(text);
        assert_eq!(story.receiver, Some("10.0.0.2:80".parse().expect("one")));
    }
    for text in ["2", "10.0.0.3:80", "10.0.0.2:80-10.0.0.2:80"] {
        let error = choose(text).expect_err(text).to_string();
        assert!(error.contains("no such flow"), "{error}");
    }
    for text in ["0", "x", "10.0.0.2", "10.0.0.2:80-x"] {
        assert!(text.parse::<Choice>().expect_err(text).contains("write its number"));
    }
}

/// The same packets as a pcapng of one interface, with times in microseconds.
fn as_pcapng(pcap: &[u8]) -> Vec<u8> {
    as_interfaces(&[(pcap, 0)])
}

/// The packets of each file on an interface of its own, the port of its sender and the sequence
/// numbers of its data larger by so much.
fn as_interfaces(files: &[(&[u8], u32)]) -> Vec<u8> {
    use pcap_file::pcap::PcapReader;
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    let mut writer = PcapNgWriter::new(Vec::new()).expect("a head");
    for _ in files {
        let interface = InterfaceDescriptionBlock {
            linktype: pcap_file::DataLink::RAW,
            snaplen: 0,
            options: Vec::new(),
        };
        writer.write_pcapng_block(interface).expect("an interface");
    }
    for (interface_id, (pcap, later)) in (0..).zip(files) {
        let mut reader = PcapReader::new(*pcap).expect("a pcap");
        while let Some(packet) = reader.next_packet() {
            let packet = packet.expect("a packet");
            let mut data = packet.data.into_owned();
            // The sender is 10.0.0.1, and the numbers follow IPv4's header and the ports.
            let (port, at) = if data[15] == 1 { (20, 24) } else { (22, 28) };
            data[port + 1] = data[port + 1].wrapping_add((*later).min(1) as u8);
            let number = u32::from_be_bytes(data[at..at + 4].try_into().expect("four bytes"));
            data[at..at + 4].copy_from_slice(&number.wrapping_add(*later).to_be_bytes());
            let block = EnhancedPacketBlock {
                interface_id,
                // The library writes nanoseconds; without an option they are read as microseconds.
                timestamp: packet.timestamp / 1000,
                original_len: packet.orig_len,
                data: data.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).expect("written");
        }
    }
    writer.into_inner()
}

#[test]
fn a_pcapng_tells_what_a_pcap_does() {
    let one = captured(&Transfer::of(Algorithm::CUBIC, 3), "clean");
    let a = read(&one.file);
    let other = one.file.with_extension("pcapng");
    fs::write(&other, as_pcapng(&fs::read(&one.file).expect("bytes"))).expect("written");
    let b = read(&other);
    assert_eq!(a.figures.sent_packets, b.figures.sent_packets);
    assert!((a.figures.duration_s - b.figures.duration_s).abs() < 1e-5);
    assert!((a.figures.goodput_mbps - b.figures.goodput_mbps).abs() < 1e-3);
    assert_eq!(a.verdict.looks, b.verdict.looks);
}

/// A file with both ends has the flow twice, and the sender's end tells more. Another flow of about
/// as many bytes is not the same one.
#[test]
fn a_flow_is_at_two_interfaces_if_its_packets_are() {
    let transfer = |at, seconds| Transfer { at, ..Transfer::of(Algorithm::BBR3, seconds) };
    let arrives = captured(&transfer(At::Receiver, 11), "clean");
    let leaves = captured(&transfer(At::Sender, 10), "clean");
    let [arrives_bytes, leaves_bytes] =
        [&arrives, &leaves].map(|one| fs::read(&one.file).expect("bytes"));
    let file = arrives.file.with_extension("pcapng");
    for (later, place) in [(0, Place::Sender), (1 << 30, Place::Receiver)] {
        let files: [(&[u8], u32); 2] = [(&arrives_bytes, 0), (&leaves_bytes, later)];
        fs::write(&file, as_interfaces(&files)).expect("written");
        assert_eq!(read(&file).place, place, "{later}");
    }
}

#[test]
fn blocks_that_are_damaged_are_left_out() {
    let one = captured(&Transfer::of(Algorithm::CUBIC, 1), "clean");
    let pcapng = as_pcapng(&fs::read(&one.file).expect("bytes"));
    let at_block = |at: usize| {
        let field = |at: usize| u32::from_ne_bytes(pcapng[at..at + 4].try_into().expect("four"));
        (field(at), field(at + 4) as usize)
    };
    // The tenth packet says that it is longer than its block.
    let (mut at, mut packets) = (0, 0);
    while packets < 10 {
        let (kind, length) = at_block(at);
        packets += usize::from(kind == 6);
        at += length;
    }
    let mut damaged = pcapng.clone();
    damaged[at + 20..at + 24].copy_from_slice(&50_000_u32.to_ne_bytes());
    let file = one.file.with_extension("pcapng");
    fs::write(&file, &damaged).expect("written");
    let (story, whole) = (read(&file), read(&one.file));
    let packets = |story: &Story| story.flows[0].packets;
    assert_eq!(packets(&story), packets(&whole) - 1);
    let said = story.remarks.join("\n");
    assert!(said.contains("blocks that are damaged are left out"), "{said}");
}

/// Bytes of a file that somebody changed: told or refused, and never a panic.
#[test]
fn damaged_files_are_told_or_refused() {
    let one = captured(&Transfer { seconds: 1, ..Transfer::of(Algorithm::BBR3, 1) }, "clean");
    let pcap = fs::read(&one.file).expect("bytes");
    let short = &pcap[..pcap.len().min(20_000)];
    let files = [short.to_vec(), as_pcapng(&pcap[..whole_packets(short)])];
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let place = one.file.with_extension("damaged");
    let mut told = 0;
    for n in 0..120 {
        let mut bytes = files[n % files.len()].clone();
        for _ in 0..1 + draw(8) {
            let at = draw(bytes.len());
            bytes[at] = draw(256) as u8;
        }
        // The first packets as often as all others together.
        let at = draw(400);
        bytes[at] = draw(256) as u8;
        fs::write(&place, &bytes).expect("written");
        if let Ok(story) = Story::of_capture(&place, &Choice::Largest) {
            assert!(!story.text().is_empty() && serde_json::to_string(&story).is_ok());
            told += 1;
        }
    }
    assert!(told > 30, "{told}");
}

/// The end of the last whole packet of a pcap.
fn whole_packets(pcap: &[u8]) -> usize {
    let mut at = 24;
    loop {
        let Some(length) = pcap.get(at + 8..at + 12) else { return at };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        if at + 16 + length > pcap.len() {
            return at;
        }
        at += 16 + length;
    }
}
