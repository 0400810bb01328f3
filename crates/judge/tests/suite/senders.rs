//! Captures of senders over QUIC that are opened with keys: the kind of each, and the defect of
//! those that have one.

use fullpipe_judge::capture::Story;
use fullpipe_judge::program::judge::Kind;

use crate::captures::{defects, each};
use crate::keys::{Kept, keep, opened};
use crate::qlogs::{log_into, noq};
use crate::quinn;

fn story(test_path: &'static str, seconds: u64, sender: &str) -> Story {
    let dir = tempfile::tempdir().expect("a directory");
    log_into(dir.path());
    let kept = Kept { test_path, seconds, ..Kept::default() };
    let [pcap, keys] = match sender.split_once(':') {
        Some(("quinn", cc)) => keep(kept, dir.path(), || quinn::pair(cc)),
        _ => keep(kept, dir.path(), || noq::pair(sender)),
    };
    opened(&pcap, &keys)
}

/// A sender, its path and the seconds on it; the kind in a word, whether it paces, and its defects.
type Row = (&'static str, &'static str, u64, &'static str, Option<bool>, &'static [&'static str]);

#[test]
fn the_kind_and_the_defect_of_each_sender_are_told() {
    let all: [Row; 9] = [
        ("bbr3", "loss 1 %", 4, "BBR", Some(true), &[]),
        ("bbr3x", "loss 1 %", 4, "BBR", Some(true), &[]),
        ("noq:bbr3", "loss 1 %", 4, "BBR", Some(true), &[]),
        ("noq:cubic", "loss 1 %", 5, "loss-based", Some(true), &[]),
        // What it computes for a pacing rate nobody enforces.
        ("quinn:bbr", "loss 1 %", 5, "BBR", Some(false), &["no pacing"]),
        ("quinn:cubic", "loss 1 %", 5, "loss-based", None, &[]),
        ("reset-at-loss", "loss 0.1 %", 10, "BBR", Some(true), &["window reset at each loss"]),
        ("deaf", "shallow", 6, "fixed rate", Some(true), &["does not react to losses"]),
        ("long-probe-rtt", "clean", 14, "BBR", Some(true), &["ProbeRTT lasts too long"]),
    ];
    each(&all, |(sender, test_path, seconds, kind, paced, expected)| {
        let story = story(test_path, *seconds, sender);
        let text = format!("{sender}: {}", story.text());
        let looks = story.verdict.looks;
        let found = match looks.kind {
            Kind::BbrLike { .. } => "BBR",
            Kind::LossBased { .. } => "loss-based",
            Kind::FixedRate { .. } => "fixed rate",
            _ => "another",
        };
        assert_eq!(
            (found, looks.paced, &defects(&story)[..]),
            (*kind, *paced, *expected),
            "{text}"
        );
        // What needs a path that is known is not judged.
        assert!(text.contains("cannot tell: too much headroom after a loss"), "{text}");
    });
}
