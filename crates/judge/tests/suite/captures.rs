//! Stories of captures whose senders and paths are known.

use std::path::Path;

use fullpipe_cc::Algorithm;
use fullpipe_judge::capture::{Choice, Story};
use fullpipe_judge::program::judge::Course;

use crate::captured::{At, Transfer, capture};
use crate::planted;

fn story(transfer: &Transfer, course: &str) -> Story {
    let path = Course::named(course).expect("a course").path(false).expect("a path");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("x.pcap");
    capture(transfer, &path, &file);
    Story::of_capture(Path::new(&file), &Choice::Largest).expect("a story")
}

fn custom(name: &str) -> Algorithm {
    let found = planted::ALL.iter().find(|a| a.name == name);
    Algorithm::Custom(found.expect("a planted one"))
}

#[test]
fn try_them() {
    let _ = At::Receiver;
    for (name, transfer, course) in [
        ("bbr3", Transfer::of(Algorithm::Bbr3, 22), "clean"),
        ("bbr3x", Transfer::of(Algorithm::Bbr3x, 22), "clean"),
        ("bbr1", Transfer::of(Algorithm::Bbr1, 22), "clean"),
        ("cubic", Transfer::of(Algorithm::Cubic, 22), "clean"),
        ("reno", Transfer::of(Algorithm::Reno, 22), "clean"),
        ("cubic unpaced", Transfer { paced: false, ..Transfer::of(Algorithm::Cubic, 22) }, "clean"),
        ("no-pacing", Transfer::of(custom("no-pacing"), 22), "clean"),
        ("long-probe-rtt", Transfer::of(custom("long-probe-rtt"), 22), "clean"),
        ("reset-at-loss", Transfer::of(custom("reset-at-loss"), 10), "loss 0.1 %"),
        ("deaf", Transfer::of(custom("deaf"), 10), "shallow"),
        ("fixed-window", Transfer::of(custom("fixed-window"), 10), "shallow"),
        ("bbr3 loss", Transfer::of(Algorithm::Bbr3, 10), "loss 1 %"),
        ("cubic loss", Transfer::of(Algorithm::Cubic, 10), "loss 1 %"),
        ("endless-drain", Transfer::of(custom("endless-drain"), 10), "clean"),
        ("min-rtt-zero", Transfer::of(custom("min-rtt-zero"), 10), "clean"),
        (
            "receiver bbr3",
            Transfer { at: At::Receiver, ..Transfer::of(Algorithm::Bbr3, 22) },
            "clean",
        ),
        (
            "receiver cubic",
            Transfer { at: At::Receiver, ..Transfer::of(Algorithm::Cubic, 22) },
            "clean",
        ),
    ] {
        let t = std::time::Instant::now();
        let s = story(&transfer, course);
        println!("=== {name} {:?}\n{}", t.elapsed(), s.text());
    }
}
