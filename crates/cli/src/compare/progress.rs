//! How a run is going: a bar on a terminal, two lines anywhere else. Both on stderr.

use std::io::{IsTerminal, stderr};

use fullpipe_lab::results::AlgorithmResult;
use fullpipe_lab::{Amount, Scenario, Tick, units};
use indicatif::{ProgressBar, ProgressStyle};

use crate::say;

/// The bar counts in thousandths of the run, whatever the run is counted in.
const WHOLE: u64 = 1000;

/// The display of one run.
pub(super) struct Progress {
    name: String,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn start(name: String, scenario: &Scenario) -> Self {
        let amount = match scenario.amount {
            Amount::Duration(d) => units::show_duration(d),
            Amount::Bytes(n) => units::show_bytes(n),
        };
        if !stderr().is_terminal() {
            say(&format!("{name}: running, {amount}"));
            return Self { name, bar: None };
        }
        let bar = ProgressBar::new(WHOLE);
        // A constant that every run on a terminal shows; a plain bar is no worse than none.
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(name.clone());
        bar.set_message(amount);
        Self { name, bar: Some(bar) }
    }

    pub(super) fn tick(&mut self, tick: Tick) {
        let Some(bar) = &self.bar else { return };
        bar.set_position((tick.done * WHOLE as f64) as u64);
        bar.set_message(format!(
            "{:.1} s  {:.1} Mbit/s  queue {:.1} ms",
            tick.elapsed.as_nanos() as f64 / 1e9,
            tick.flow_bps.iter().sum::<u64>() as f64 / 1e6,
            tick.queue.as_nanos() as f64 / 1e6
        ));
    }

    pub(super) fn finish(self, result: &AlgorithmResult) {
        self.give_up();
        let mbit = result.goodput_bps as f64 / 1e6;
        let p95 = result.queue_ms.p95;
        say(&format!("{}: {mbit:.1} Mbit/s, queue p95 {p95:.1} ms", self.name));
    }

    pub(super) fn give_up(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
