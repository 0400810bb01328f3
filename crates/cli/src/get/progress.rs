//! The progress on a terminal.

use std::io::{IsTerminal, stdout};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};

const REDRAW: Duration = Duration::from_millis(100);

/// hq-interop tells no length beforehand, so this is what has come and how fast. indicatif shows it
/// on a terminal only; on one that shows the file itself it would be in the way.
pub(super) fn progress_bar(to_stdout: bool) -> ProgressBar {
    let draw = if to_stdout && stdout().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(out, "{:.1} Mbit/s", state.per_sec() * 8e-6);
    };
    let style = ProgressStyle::default_spinner().with_key("mbit", rate);
    let style = style.template("{spinner} {decimal_bytes} in {elapsed}, {mbit}");
    let bar = ProgressBar::with_draw_target(None, draw).with_finish(ProgressFinish::AndClear);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(REDRAW);
    bar
}
