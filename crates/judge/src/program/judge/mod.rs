//! Verdicts on a sender from the wire alone, beside our own senders on the same paths.
//!
//! A command runs on each of the [`TEST_PATHS`], and the link keeps what entered it. From that come a
//! [`View`] for each path, a figure for each check, the kind of algorithm and the names of
//! defects: pure functions, the same for a program and for a sender of the simulator. Our own
//! senders run on the same paths in the simulator, and their figures are what the command's are
//! held against.

mod check;
mod defect;
mod kind;
mod reference;
mod report;
mod test_path;
mod verdict;
mod view;

use std::collections::BTreeMap;

pub use defect::Defect;
pub(crate) use kind::is_flat;
pub use kind::{Kind, Looks};
pub use reference::{ReferenceSender, simulate};
pub use report::{drawings_of_runs, junit, page, page_of_runs, table, text};
pub use test_path::{Competitor, GIVEN, TEST_PATHS, TestPath};
pub use verdict::{Grade, Judged, Judgement, Limits, test_paths};
pub use view::View;
pub(crate) use view::{at_quantile, burst_quantile};

/// The view of each path, by the path's name.
pub type Views = BTreeMap<&'static str, View>;
