//! Senders in the simulator on the same paths: ours, from which the limits come, and any other
//! that a name stands for.

use std::sync::atomic::AtomicBool;

use super::test_path::{Competitor, TestPath};
use super::view::View;
use crate::program::ProgramPath;
use crate::program::packet_log::{MOST_PACKETS, WireRecord};
use fullpipe_lab::backend::RunError;
use fullpipe_lab::run::arrivals;

/// A sender of the simulator: its name, and the fields of its flow in a scenario file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReferenceSender {
    /// Its name in results.
    pub name: String,
    /// The fields of its `[[flow]]`.
    pub flow: String,
}

impl ReferenceSender {
    /// A sender of these fields.
    pub fn new(name: &str, flow: &str) -> Self {
        Self { name: name.to_owned(), flow: flow.to_owned() }
    }

    /// The senders that limits come from: ours over QUIC, and in the flavours of Linux's TCP.
    pub fn ours() -> Vec<Self> {
        OURS.iter().map(|(name, flow)| Self::new(name, flow)).collect()
    }
}

/// Linux paces no CUBIC as long as nobody asks it to.
const OURS: [(&str, &str); 8] = [
    ("bbr3", "cc = \"bbr3\""),
    ("bbr3x", "cc = \"bbr3x\""),
    ("bbr1", "cc = \"bbr1\""),
    ("cubic", "cc = \"cubic\""),
    ("reno", "cc = \"reno\""),
    ("tcp bbr3", "cc = \"bbr3-linux\"\ntransport = \"tcp\""),
    ("tcp bbr", "cc = \"bbr1\"\ntransport = \"tcp\""),
    ("tcp cubic", CUBIC),
];

/// The flow of CUBIC beside which a sender runs.
const CUBIC: &str = "cc = \"cubic\"\ntransport = \"tcp\"\npaced = false";

/// The view of a sender on a path.
///
/// # Errors
/// The sender's fields are wrong, or `stop` was set.
pub fn simulate(
    test_path: &TestPath,
    sender: &ReferenceSender,
    seed: u64,
    stop: &AtomicBool,
) -> Result<View, RunError> {
    let direction = if test_path.is_up() { "direction = \"up\"\n" } else { "" };
    let flow = format!("[[flow]]\n{}\n{direction}", sender.flow);
    let flows = match test_path.company {
        Competitor::Alone => flow,
        Competitor::Itself => format!("{flow}count = 2\n"),
        Competitor::Cubic => format!("{flow}[[flow]]\n{CUBIC}\n"),
    };
    let plan = test_path.plan(&flows, seed).map_err(RunError::Scenario)?;
    let path = ProgramPath::of(&plan, false).map_err(RunError::Scenario)?;
    let [down, up] = arrivals(&plan, MOST_PACKETS, stop)?;
    let record = WireRecord::of(&path.down, &path.up, [&down, &up]);
    Ok(View::of(&record, &path, test_path.span_s as f64, None))
}
