//! Captures of senders of L4S: healthy ones are told as such, and the defects of others by name.

use std::fs::File;
use std::path::Path;

use fullpipe_cc::{
    Algorithm, Config, Congestion, CongestionControl, Conn, CustomAlgorithm, CustomControl,
    Instant, PacketState, RateSample, Snapshot, built_in,
};
use fullpipe_judge::capture::{Choice, Story};
use fullpipe_judge::program::judge::{Kind, TestPath};
use pcap_file::pcap::{PcapReader, PcapWriter};

use crate::captured::{At, Transfer, capture};
use crate::captures::{defects, each};

/// Something that is done to Prague.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    /// Marks are not heard.
    Deaf,
    /// The window is halved once a round trip with a mark.
    Halves,
}

#[derive(Debug)]
struct Broken {
    bug: Bug,
    inner: Box<dyn CustomControl>,
    halved: Instant,
}

impl Broken {
    fn made(bug: Bug, conn: &mut Conn, now: Instant, config: &Config) -> Box<dyn CustomControl> {
        Box::new(Self { bug, inner: built_in(Algorithm::PRAGUE, conn, now, config), halved: now })
    }
}

impl Clone for Broken {
    fn clone(&self) -> Self {
        Self { inner: (*self.inner).clone_box(), ..*self }
    }
}

impl CongestionControl for Broken {
    fn on_enter_recovery(&mut self, conn: &mut Conn) {
        self.inner.on_enter_recovery(conn);
    }
    fn on_exit_recovery(&mut self, conn: &mut Conn) {
        self.inner.on_exit_recovery(conn);
    }
    fn on_packet_lost(&mut self, conn: &Conn, packet: &PacketState) {
        self.inner.on_packet_lost(conn, packet);
    }
    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        let is_marked = congestion.marks.is_some();
        if self.bug == Bug::Deaf && is_marked && !congestion.has_losses {
            return;
        }
        self.inner.on_congestion(conn, congestion);
        let rtt = conn.min_rtt().unwrap_or_default();
        if self.bug == Bug::Halves && is_marked && congestion.now.since(self.halved) > rtt {
            self.halved = congestion.now;
            conn.set_cwnd((conn.cwnd() / 2).max(2 * conn.smss()));
        }
    }
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        self.inner.on_ack(conn, rs);
    }
    fn on_rto(&mut self, conn: &mut Conn) {
        self.inner.on_rto(conn);
    }
    fn on_idle(&mut self, conn: &mut Conn, cwnd: u64) {
        self.inner.on_idle(conn, cwnd);
    }
    fn on_spurious_loss(&mut self, conn: &mut Conn) {
        self.inner.on_spurious_loss(conn);
    }
    fn on_mtu_update(&mut self, conn: &mut Conn) {
        self.inner.on_mtu_update(conn);
    }
    fn snapshot(&self, conn: &Conn) -> Snapshot {
        self.inner.snapshot(conn)
    }
}

static DEAF: CustomAlgorithm = CustomAlgorithm {
    name: "deaf-prague",
    new: &|conn, now, config| Broken::made(Bug::Deaf, conn, now, config),
};
static HALVES: CustomAlgorithm = CustomAlgorithm {
    name: "halving-prague",
    new: &|conn, now, config| Broken::made(Bug::Halves, conn, now, config),
};

const STEP: &str = "queue = { step = { mark_above = \"1ms\" } }";
const DUALPI2: &str = "queue = \"dualpi2\"";
const CODEL: &str = "queue = { codel = { ecn = true } }";

/// The parts of a transfer that are in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    All,
    /// Without the SYNs, which say how marks are told.
    BehindTheHandshake,
}

fn cut(from: &Path, to: &Path) {
    let mut reader = PcapReader::new(File::open(from).expect("a file")).expect("a capture");
    let to = File::create(to).expect("a file");
    let mut writer = PcapWriter::with_header(to, reader.header()).expect("written");
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet.expect("a packet");
        // The flags of TCP behind a header of IPv4 without options.
        if packet.data[20 + 13] & 0x02 == 0 {
            writer.write_raw_packet(&packet).expect("written");
        }
    }
}

fn story(transfer: &Transfer, queue: &str, rtt: &str) -> Story {
    story_of(Part::All, transfer, queue, rtt)
}

fn story_of(part: Part, transfer: &Transfer, queue: &str, rtt: &str) -> Story {
    let tables =
        format!("[path]\nrate = \"20mbit\"\nrtt = \"{rtt}\"\nbuffer = \"3bdp\"\n{queue}\n");
    let path = TestPath::given(String::new(), tables, Path::new(""), 1, transfer.seconds);
    let path = path.path(false).expect("a path");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.pcap");
    capture(transfer, &path, &file);
    let file = match part {
        Part::All => file,
        Part::BehindTheHandshake => {
            let rest = dir.path().join("rest.pcap");
            cut(&file, &rest);
            rest
        }
    };
    Story::of_capture(&file, &Choice::Largest).expect("a story")
}

fn l4s(algorithm: Algorithm, seconds: u64) -> Transfer {
    Transfer { is_l4s: true, ..Transfer::of(algorithm, seconds) }
}

fn suspicions(story: &Story) -> Vec<&str> {
    story.verdict.suspicions.iter().map(|s| s.name.as_str()).collect()
}

/// From both ends, behind queues of L4S and one that is none.
#[test]
fn healthy_senders_of_l4s_cause_no_alarm() {
    let mut all = Vec::new();
    for queue in [STEP, DUALPI2, CODEL] {
        for (rtt, at) in [("10ms", At::Sender), ("40ms", At::Sender), ("40ms", At::Receiver)] {
            all.push((Algorithm::PRAGUE, queue, rtt, at));
            all.push((Algorithm::BBR3, queue, rtt, at));
        }
    }
    each(&all, |(algorithm, queue, rtt, at)| {
        let story = story(&Transfer { at: *at, ..l4s(*algorithm, 16) }, queue, rtt);
        let text = format!("{algorithm:?} {queue} {rtt}: {}", story.text());
        assert_eq!(defects(&story), [""; 0], "{text}");
        assert_eq!(suspicions(&story), [""; 0], "{text}");
        assert!(story.figures.ect1_share.is_some_and(|share| share > 0.99), "{text}");
        let kind = story.verdict.looks.kind;
        let is_right = match algorithm {
            Algorithm::Prague(_) => matches!(kind, Kind::Scalable { .. }),
            _ => matches!(kind, Kind::BbrLike { .. }),
        };
        assert!(is_right, "{text}");
    });
}

fn reason<'a>(story: &'a Story, what: &str) -> Option<&'a str> {
    story.verdict.cannot_tell.iter().find(|u| u.what == what).map(|u| u.why.as_str())
}

/// Marks that are not in the file hold the window and the rate all the same.
#[test]
fn marks_that_are_not_told_cause_no_alarm() {
    let mut all = Vec::new();
    for queue in [STEP, DUALPI2, CODEL] {
        for rtt in ["10ms", "40ms"] {
            all.extend([Algorithm::PRAGUE, Algorithm::BBR3].map(|a| (a, queue, rtt)));
        }
    }
    each(&all, |(algorithm, queue, rtt)| {
        let story = story_of(Part::BehindTheHandshake, &l4s(*algorithm, 16), queue, rtt);
        let text = format!("{algorithm:?} {queue} {rtt}: {}", story.text());
        assert_eq!(defects(&story), [""; 0], "{text}");
        assert_eq!(suspicions(&story), [""; 0], "{text}");
        match (algorithm, story.verdict.looks.kind) {
            (Algorithm::Bbr3(_), kind) => assert!(matches!(kind, Kind::BbrLike { .. }), "{text}"),
            (_, kind) => {
                assert_eq!(kind, Kind::Unknown, "{text}");
                let why = reason(&story, "answers to marks");
                assert!(why.is_some_and(|why| why.contains("handshake")), "{text}");
            }
        }
    });
}

/// A BBR that answers to marks shows in its ProbeRTT, which a short capture does not have.
#[test]
fn a_short_capture_does_not_tell_bbr_from_prague() {
    let mut all = Vec::new();
    for queue in [STEP, DUALPI2] {
        for rtt in ["10ms", "40ms", "100ms"] {
            all.extend([3, 5, 7, 8, 9, 11].map(|seconds| (queue, rtt, seconds)));
        }
    }
    each(&all, |(queue, rtt, seconds)| {
        let story = story(&l4s(Algorithm::BBR3, *seconds), queue, rtt);
        let text = format!("{queue} {rtt} {seconds} s: {}", story.text());
        match story.verdict.looks.kind {
            Kind::Unknown => {
                let why = reason(&story, "kind of algorithm");
                assert!(why.is_some_and(|why| why.contains("12 s")), "{text}");
            }
            kind => assert!(matches!(kind, Kind::BbrLike { .. }), "{text}"),
        }
        assert_eq!((defects(&story), suspicions(&story)), (vec![], vec![]), "{text}");
    });
}

/// The count of the receiver is that of the marks which arrive there.
#[test]
fn both_ends_count_the_same_marks() {
    for queue in [STEP, DUALPI2] {
        let [told, seen] = [At::Sender, At::Receiver].map(|at| {
            let story = story(&Transfer { at, ..l4s(Algorithm::PRAGUE, 8) }, queue, "40ms");
            story.figures.marked_packets
        });
        assert!(seen > 100 && told <= seen && told + 20 >= seen, "{queue}: {told} of {seen}");
    }
}

#[test]
fn defects_of_prague_are_found_by_name() {
    let all = [
        (&DEAF, STEP, "does not react to marks"),
        (&HALVES, STEP, "halves at each mark of L4S"),
        (&HALVES, DUALPI2, "halves at each mark of L4S"),
    ];
    each(&all, |(algorithm, queue, defect)| {
        for at in [At::Sender, At::Receiver] {
            let transfer = Transfer { at, ..l4s(Algorithm::Custom(algorithm), 16) };
            let story = story(&transfer, queue, "40ms");
            assert_eq!(defects(&story), [*defect], "{queue}: {}", story.text());
        }
    });
}

/// Other explanations are possible: the queue may be one of L4S that marks late.
#[test]
fn a_scalable_answer_to_a_classic_queue_is_suspected() {
    let transfer = Transfer { has_fallback: false, ..l4s(Algorithm::PRAGUE, 24) };
    let story = story(&transfer, CODEL, "40ms");
    assert!(defects(&story).is_empty(), "{}", story.text());
    assert_eq!(suspicions(&story), ["answers a classic queue as one of L4S"], "{}", story.text());
}

/// Packets that are ECT(1), without any mark, say nothing of what the sender does at marks.
#[test]
fn without_marks_nothing_is_said_of_their_answers() {
    let story = story(&l4s(Algorithm::PRAGUE, 8), "", "40ms");
    let why = reason(&story, "answers to marks");
    assert!(why.is_some_and(|why| why.contains("no marks")), "{}", story.text());
    assert!(!matches!(story.verdict.looks.kind, Kind::Scalable { .. }), "{}", story.text());
    assert!(defects(&story).is_empty(), "{}", story.text());
}
