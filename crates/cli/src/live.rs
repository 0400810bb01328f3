//! Progress of a run, on stderr: on a terminal a bar with the goodput of each flow and the queue
//! as sparklines, anywhere else a line at the start, one now and then, and one at the end.

use std::io::{IsTerminal, stderr};
use std::time::Instant;

use fullpipe_lab::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::heartbeat::PATIENCE;
use crate::say;

/// The bar counts in thousandths of the run, whatever the run is counted in.
const WHOLE: u64 = 1000;

/// Ticks that a sparkline shows: five seconds of a run in real time.
const WIDTH: usize = 50;

/// More flows than these are shown as their sum.
const MAX_FLOWS: usize = 8;

const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The display of one run.
pub(crate) struct Live {
    name: String,
    /// Noun of the things that are counted.
    things: &'static str,
    silent: bool,
    bar: Option<ProgressBar>,
    /// Mbit/s of each flow, or of all, and last the queue in milliseconds.
    lines: Vec<Vec<f64>>,
    /// Megabits that all flows received so far, and at which second of the run.
    received: (f64, f64),
    begun: Instant,
    spoken: Instant,
}

impl Live {
    /// A run that begins now; `amount` is how much there is of it.
    pub(crate) fn start(name: String, amount: &str) -> Self {
        let live = Self::quiet(name, false);
        match &live.bar {
            Some(bar) => bar.set_message(amount.to_owned()),
            None => say(&format!("{}: running, {amount}", live.name)),
        }
        live
    }

    /// The same for a run that may well be over at once: nothing is said of its start. With
    /// `silent`, nothing is said at all.
    pub(crate) fn quiet(name: String, silent: bool) -> Self {
        let bar = (!silent && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(WHOLE);
            // A constant that every run on a terminal shows; a plain bar is no worse than none.
            if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(name.clone());
            bar
        });
        let now = Instant::now();
        let (lines, received) = (Vec::new(), (0.0, 0.0));
        Self { name, things: "runs", silent, bar, lines, received, begun: now, spoken: now }
    }

    /// It is run number `number` of so many.
    pub(crate) fn is_one_of(&self, number: usize, all: usize) {
        if let Some(bar) = self.bar.as_ref().filter(|_| all > 1) {
            bar.set_prefix(format!("{number} of {all}: {}", self.name));
        }
    }

    /// Several `things` at a time.
    pub(crate) fn of_many(name: &str, things: &'static str, all: usize, silent: bool) -> Self {
        let live = Self { things, ..Self::quiet(name.to_owned(), silent) };
        if let Some(bar) = &live.bar {
            bar.set_message(format!("0 of {all} {things}"));
        }
        live
    }

    /// So many of them are over.
    pub(crate) fn over(&mut self, done: usize, all: usize) {
        let things = self.things;
        match &self.bar {
            Some(bar) => {
                bar.set_position((done as u64 * WHOLE) / all.max(1) as u64);
                bar.set_message(format!("{done} of {all} {things}"));
            }
            None if !self.silent && self.spoken.elapsed() >= PATIENCE => {
                say(&format!("{}: {done} of {all} {things} are over", self.name));
                self.spoken = Instant::now();
            }
            None => {}
        }
    }

    pub(crate) fn tick(&mut self, tick: &Progress) {
        let elapsed_s = tick.elapsed.as_nanos() as f64 / 1e9;
        let Some(bar) = &self.bar else {
            if !self.silent && self.spoken.elapsed() >= PATIENCE {
                let percent = tick.done * 100.0;
                say(&match elapsed_s {
                    0.0 => format!("{}: connecting", self.name),
                    _ => format!("{}: {percent:.0} % done, {elapsed_s:.1} s", self.name),
                });
                self.spoken = Instant::now();
            }
            return;
        };
        if elapsed_s == 0.0 {
            bar.set_message("connecting");
            return;
        }
        bar.set_position((tick.done * WHOLE as f64) as u64);
        remember(&mut self.lines, tick);
        let (megabits, then) = &mut self.received;
        *megabits += tick.flow_bps.iter().sum::<u64>() as f64 / 1e6 * (elapsed_s - *then);
        *then = elapsed_s;
        let average = *megabits / elapsed_s;
        let time = times(elapsed_s, tick.done, self.begun.elapsed().as_secs_f64());
        let path = path(tick);
        let lines = draw(&self.lines);
        bar.set_message(format!("{time}\n  {average:.1} Mbit/s on average{path}{lines}"));
    }

    /// The run is over, or was given up: what was drawn goes, and `said` takes its place.
    pub(crate) fn end(self, said: Option<&str>) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(said) = said {
            say(&format!("{}: {said}", self.name));
        }
    }
}

/// The round trip and the loss of a run so far.
fn path(tick: &Progress) -> String {
    let rtt = tick.rtt.map(|rtt| format!(", RTT {:.1} ms", rtt.as_nanos() as f64 / 1e6));
    format!("{}, {:.2} % lost", rtt.unwrap_or_default(), tick.loss_rate * 100.0)
}

/// Progress of the run, its length, and the time that is left.
fn times(elapsed_s: f64, done: f64, spent_s: f64) -> String {
    if done <= 0.0 {
        return format!("{elapsed_s:.1} s");
    }
    let left_s = spent_s * (1.0 - done) / done;
    format!("{elapsed_s:.1} of {:.1} s, {left_s:.0} s to go", elapsed_s / done)
}

fn remember(lines: &mut Vec<Vec<f64>>, tick: &Progress) {
    let mbit = |bps: u64| bps as f64 / 1e6;
    let mut values: Vec<f64> = match tick.flow_bps.len() {
        n if n > MAX_FLOWS => vec![mbit(tick.flow_bps.iter().sum())],
        _ => tick.flow_bps.iter().map(|bps| mbit(*bps)).collect(),
    };
    values.push(tick.queue.as_nanos() as f64 / 1e6);
    lines.resize_with(values.len(), Vec::new);
    for (line, value) in lines.iter_mut().zip(values) {
        line.push(value);
        let old = line.len().saturating_sub(WIDTH);
        line.drain(..old);
    }
}

/// A line for each flow, all of one scale, and one for the queue.
fn draw(lines: &[Vec<f64>]) -> String {
    let Some((queue, flows)) = lines.split_last() else { return String::new() };
    let most = |lines: &[Vec<f64>]| lines.iter().flatten().copied().fold(0.0, f64::max);
    let mut text = String::new();
    for (i, flow) in flows.iter().enumerate() {
        let name = if flows.len() == 1 { "goodput".to_owned() } else { format!("flow {i}") };
        text.push_str(&line(&name, flow, most(flows), "Mbit/s"));
    }
    text.push_str(&line("queue", queue, most(std::slice::from_ref(queue)), "ms"));
    text
}

fn line(name: &str, values: &[f64], most: f64, unit: &str) -> String {
    let last = values.last().copied().unwrap_or(0.0);
    format!("\n  {name:<8} {:<WIDTH$} {last:8.1} {unit}", sparkline(values, most))
}

/// A block for each value, of eight heights; a full one is `most`.
fn sparkline(values: &[f64], most: f64) -> String {
    let top = HEIGHTS.len() - 1;
    let block = |value: &f64| {
        let height = if most > 0.0 { value / most * top as f64 } else { 0.0 };
        HEIGHTS[(height.round() as usize).min(top)]
    };
    values.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_a_full_block_and_nothing_the_lowest() {
        assert_eq!(sparkline(&[0.0, 7.0, 3.5, 14.0], 14.0), "▁▅▃█");
        assert_eq!(sparkline(&[0.0, 0.0], 0.0), "▁▁");
        assert_eq!(sparkline(&[], 1.0), "");
    }

    #[test]
    fn times_are_of_the_run_and_what_is_left_is_of_the_clock() {
        assert_eq!(times(2.5, 0.25, 1.0), "2.5 of 10.0 s, 3 s to go");
        assert_eq!(times(10.0, 1.0, 4.0), "10.0 of 10.0 s, 0 s to go");
        assert_eq!(times(2.5, 0.0, 1.0), "2.5 s");
    }

    #[test]
    fn flows_have_a_line_each_unless_they_are_many() {
        let tick = |flows: usize| Progress {
            elapsed: fullpipe_cc::Duration::from_secs(1),
            done: 0.5,
            flow_bps: vec![8_000_000; flows],
            queue: fullpipe_cc::Duration::from_millis(20),
            rtt: Some(fullpipe_cc::Duration::from_micros(41_230)),
            loss_rate: 0.0123,
        };
        assert_eq!(path(&tick(1)), ", RTT 41.2 ms, 1.23 % lost");
        assert_eq!(path(&Progress { rtt: None, ..tick(1) }), ", 1.23 % lost");
        for (flows, names) in [
            (1, vec!["goodput", "queue"]),
            (3, vec!["flow 0", "flow 1", "flow 2", "queue"]),
            (9, vec!["goodput", "queue"]),
        ] {
            let mut lines = Vec::new();
            for _ in 0..WIDTH + 5 {
                remember(&mut lines, &tick(flows));
            }
            let text = draw(&lines);
            let drawn: Vec<&str> = text.lines().skip(1).map(|l| l[2..10].trim_end()).collect();
            assert_eq!(drawn, names);
            assert!(text.lines().skip(1).all(|l| l.matches('█').count() == WIDTH), "{text}");
            let sum = if flows > MAX_FLOWS { "72.0 Mbit/s" } else { " 8.0 Mbit/s" };
            assert!(text.contains(sum) && text.ends_with("20.0 ms"), "{text}");
        }
    }
}
