//! Stories of captures of QUIC whose packets are opened: of noq under a virtual clock, beside its
//! own logs.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fullpipe_cc::Instant;
use fullpipe_judge::capture::{Choice, Place, Story};
use fullpipe_judge::program::judge::TestPath;

use crate::captured::{At, Pcap};
use crate::qlogs::{self, noq};
use crate::world::{self, Peer};

/// The secrets of connections as lines of a key log.
#[derive(Debug, Default)]
struct Secrets(Mutex<String>);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl rustls::KeyLog for Secrets {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut text = self.0.lock().expect("nobody panics");
        writeln!(text, "{label} {} {}", hex(client_random), hex(secret)).expect("text");
    }
}

/// An end whose datagrams are kept in both directions.
struct Tapped<P> {
    peer: P,
    pcap: Option<Pcap>,
    /// Last bytes of its address and of the other one's.
    ends: [u8; 2],
    /// The most datagrams of one size that are captured as one.
    together: usize,
}

impl<P> Tapped<P> {
    fn note(&mut self, now: Instant, [from, to]: [u8; 2], datagram: &[u8]) {
        let Some(pcap) = &mut self.pcap else { return };
        let length = (datagram.len() as u16 + 28).to_be_bytes();
        let udp_length = (datagram.len() as u16 + 8).to_be_bytes();
        let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend([10, 0, 0, from, 10, 0, 0, to]);
        packet.extend([0x10, from, 0x10, to, udp_length[0], udp_length[1], 0, 0]);
        packet.extend(datagram);
        pcap.note(now, &packet);
    }
}

impl<P: Peer> Peer for Tapped<P> {
    fn take_in(&mut self, now: Instant, datagram: &[u8]) {
        let [own, other] = self.ends;
        self.note(now, [other, own], datagram);
        self.peer.take_in(now, datagram);
    }

    fn next_timer(&mut self) -> Option<Instant> {
        self.peer.next_timer()
    }

    fn work(&mut self, now: Instant) {
        self.peer.work(now);
    }

    fn send(&mut self, now: Instant, out: &mut Vec<Vec<u8>>) {
        let first = out.len();
        self.peer.send(now, out);
        let mut rest = &out[first..];
        while let Some(one) = rest.first() {
            let alike = rest.iter().take_while(|other| other.len() == one.len()).count();
            let (joined, others) = rest.split_at(alike.min(self.together));
            self.note(now, self.ends, &joined.concat());
            rest = others;
        }
    }
}

/// A transfer from the server to the client with its capture, its secrets and the server's log.
struct Captured {
    dir: tempfile::TempDir,
    pcap: PathBuf,
    keys: PathBuf,
    qlog: PathBuf,
}

/// A transfer from a server to its client that is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) test_path: &'static str,
    pub(crate) seconds: u64,
    /// The end where it is captured.
    pub(crate) at: At,
    /// So many bytes of each packet.
    pub(crate) snap: usize,
    /// The most datagrams of one size that are captured as one.
    pub(crate) together: usize,
}

impl Default for Kept {
    fn default() -> Self {
        Self { test_path: "loss 1 %", seconds: 4, at: At::Sender, snap: 65_535, together: 1 }
    }
}

/// The files of its packets and of its secrets in a directory.
pub(crate) fn keep<P: Peer>(kept: Kept, dir: &Path, pair: impl FnOnce() -> (P, P)) -> [PathBuf; 2] {
    let Kept { test_path, seconds, at, snap, together } = kept;
    let secrets = Arc::new(Secrets::default());
    world::KEY_LOG.set(secrets.clone());
    let (server, client) = pair();
    let (pcap, keys) = (dir.join("x.pcap"), dir.join("keys"));
    let tap = |is_its| (at == is_its).then(|| Pcap::create(&pcap, snap));
    let server = Tapped { peer: server, pcap: tap(At::Sender), ends: [1, 2], together };
    let client = Tapped { peer: client, pcap: tap(At::Receiver), ends: [2, 1], together };
    let path = TestPath::named(test_path).expect("a test path").path(false).expect("a path");
    drop(world::run(&path, seconds, (server, client)));
    fs::write(&keys, &*secrets.0.lock().expect("nobody panics")).expect("written");
    [pcap, keys]
}

fn captured(kept: Kept) -> Captured {
    let dir = tempfile::tempdir().expect("a directory");
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).expect("a directory");
    qlogs::log_into(&logs);
    let [pcap, keys] = keep(kept, dir.path(), || noq::pair("bbr3"));
    let is_servers = |f: &PathBuf| f.to_string_lossy().contains("server");
    let files = fs::read_dir(&logs).expect("logs").map(|f| f.expect("a file").path());
    let qlog = files.into_iter().find(is_servers).expect("the server's log");
    Captured { dir, pcap, keys, qlog }
}

pub(crate) fn opened(pcap: &Path, keys: &Path) -> Story {
    Story::of_capture_with_keys(pcap, &Choice::Largest, keys).expect("a story")
}

fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b.abs()
}

#[test]
fn an_opened_capture_tells_what_the_senders_log_tells() {
    let Captured { dir, pcap, keys, qlog } = captured(Kept::default());
    let closed = Story::of_capture(&pcap, &Choice::Largest).expect("a story");
    assert_eq!(closed.figures.resent_packets, None);
    assert!(closed.text().contains("--keys"), "{}", closed.text());
    let story = opened(&pcap, &keys);
    let log = Story::of_qlog(&qlog, &Choice::Largest).expect("a story");
    let text = format!("{}\n{}", story.text(), log.text());
    assert_eq!((story.protocol, story.place), ("QUIC", Place::Sender));
    assert_eq!(story.verdict.looks.kind, log.verdict.looks.kind, "{text}");
    // At which moment its first acknowledgement leaves, a log does not say.
    assert_eq!(story.verdict.looks.paced, Some(true), "{text}");
    assert_ne!(log.verdict.looks.paced, Some(false), "{text}");
    assert_eq!(story.verdict.defects, log.verdict.defects, "{text}");
    let (a, b) = (&story.figures, &log.figures);
    assert_eq!((a.sent_packets, a.acks), (b.sent_packets, b.acks), "{text}");
    assert!(near(a.goodput_mbps, b.goodput_mbps, 0.01), "{text}");
    // Packets that were taken for lost and arrived are no losses here.
    let lost = |f: &fullpipe_judge::capture::Figures| f.resent_packets.expect("losses") as f64;
    assert!(near(lost(a), lost(b), 0.05) && lost(a) > 20.0, "{text}");
    let rtt = |f: &fullpipe_judge::capture::Figures| f.rtt_ms.expect("round trips");
    assert!(near(rtt(a).min, rtt(b).min, 0.01) && near(rtt(a).p50, rtt(b).p50, 0.01), "{text}");
    let inflight = |f: &fullpipe_judge::capture::Figures| f.inflight_bytes.expect("known").p50;
    assert!(near(inflight(a), inflight(b), 0.1), "{text}");

    // Secrets of somebody else, none, and no capture of whole packets.
    let error = |pcap: &Path, keys: &Path| {
        let error = Story::of_capture_with_keys(pcap, &Choice::Largest, keys).expect_err("none");
        let error = error.to_string();
        assert!(error.lines().count() == 1, "{error}");
        error
    };
    let text = fs::read_to_string(&keys).expect("text");
    let other = dir.path().join("other");
    let random = text.split(' ').nth(1).expect("a random").to_owned();
    fs::write(&other, text.replace(&random, &"00".repeat(32))).expect("written");
    assert!(error(&pcap, &other).contains("no secret of this connection"));
    fs::write(&other, "nothing\n").expect("written");
    assert!(error(&pcap, &other).contains("SSLKEYLOGFILE"));
    assert!(error(&pcap, &dir.path().join("none")).contains("none: "));
    assert!(error(&keys, &keys).contains("neither pcap nor pcapng"));
}

#[test]
fn an_opened_capture_of_the_receiver_tells_the_losses() {
    let Captured { dir: _dir, pcap, keys, qlog } =
        captured(Kept { at: At::Receiver, ..Kept::default() });
    let story = opened(&pcap, &keys);
    let log = Story::of_qlog(&qlog, &Choice::Largest).expect("a story");
    let text = format!("{}\n{}", story.text(), log.text());
    assert_eq!(story.place, Place::Receiver, "{text}");
    let (a, b) = (&story.figures, &log.figures);
    assert!(near(a.goodput_mbps, b.goodput_mbps, 0.02), "{text}");
    let (lost, logged) = (a.resent_packets.expect("known"), b.resent_packets.expect("known"));
    // noq leaves out a few numbers, and more of them the longer it sends.
    assert!((logged..logged + 12).contains(&lost), "{text}");
    assert!(story.remarks.join("\n").contains("may leave out a few"), "{text}");
    assert_eq!((a.rtt_ms, a.inflight_bytes), (None, None), "{text}");
    assert!(story.text().contains("cannot tell: round trips and data in flight"), "{text}");
}

/// A host hands datagrams that it sends at once to the network as one, which is captured.
#[test]
fn datagrams_that_leave_together_are_told_apart() {
    let Captured { dir: _dir, pcap, keys, qlog } =
        captured(Kept { together: 10, ..Kept::default() });
    let (story, log) = (opened(&pcap, &keys), Story::of_qlog(&qlog, &Choice::Largest));
    let log = log.expect("a story");
    let (a, b) = (&story.figures, &log.figures);
    assert!(story.flows[0].packets + 1000 < a.sent_packets + a.acks, "{}", story.text());
    assert_eq!((a.sent_packets, a.acks), (b.sent_packets, b.acks), "{}", story.text());
    assert_eq!(a.resent_packets, b.resent_packets, "{}", story.text());
    assert!(story.remarks.is_empty(), "{:?}", story.remarks);
}

#[test]
fn packets_that_are_cut_cannot_be_opened() {
    let Captured { dir: _dir, pcap, keys, .. } = captured(Kept { snap: 96, ..Kept::default() });
    let error = Story::of_capture_with_keys(&pcap, &Choice::Largest, &keys).expect_err("cut");
    assert!(error.to_string().contains("tcpdump -s 0"), "{error}");
}
