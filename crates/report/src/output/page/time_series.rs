//! Time series of runs as drawings: panels over one time axis, an algorithm's lines always in the
//! same colour.

use crate::metrics::RunResult;
use crate::observe::SeriesRow;
use crate::output::ScenarioReport;
use crate::output::plot::{Band, Drawing, Kind, Line, Panel, STATES, colour_of_flow};
use crate::output::table;

/// The time over which the plot of goodput takes the mean: single rows show how packets came in
/// bursts more than how fast they came.
const GOODPUT_MEAN_S: f64 = 0.1;

/// Beyond this many lines in a panel they cannot be told apart: then each flow has a small plot.
const MAX_LINES: usize = 6;

/// More small plots than these are not looked at.
const MAX_SMALL: usize = 24;

/// More plots than these are not looked at, and make the page large.
const MAX_GROUPS: usize = 12;

/// The axis of a rate ends at most here, in multiples of the path's rate: a start that overshoots
/// is not to press everything after it flat.
const MOST_RATES: f64 = 2.0;

const TIME: &str = "Time, s";

/// Runs that belong together: the same path, with different algorithms.
pub(super) struct Group {
    /// Common properties of the runs, beside the scenario.
    pub(super) title: String,
    /// Note on omitted parts of the drawing, if any.
    pub(super) note: Option<String>,
    pub(super) drawing: Drawing,
    /// A drawing for each flow, where they are too many for one.
    pub(super) flows: Vec<Drawing>,
}

/// A point of the grid without its algorithms, and its runs.
type PointRuns<'a> = (Vec<(String, String)>, Vec<&'a RunResult>);

/// A group for each point of the grid without its algorithms.
pub(super) fn groups(report: &ScenarioReport) -> Vec<Group> {
    let common = |run: &RunResult| {
        run.at.iter().filter(|(axis, _)| axis != "cc").cloned().collect::<Vec<_>>()
    };
    let mut places: Vec<PointRuns<'_>> = Vec::new();
    for run in report.runs.iter().filter(|run| !run.series.is_empty() && run.repetition == 0) {
        let key = common(run);
        match places.iter_mut().find(|(known, _)| *known == key) {
            Some((_, runs)) => runs.push(run),
            None => places.push((key, vec![run])),
        }
    }
    let all = places.len();
    let shown = places.iter().take(MAX_GROUPS);
    let mut groups: Vec<Group> =
        shown.map(|(at, runs)| group(table::place(at, ""), runs)).collect();
    if let Some(last) = groups.last_mut().filter(|_| all > MAX_GROUPS) {
        let note = format!("The first {MAX_GROUPS} of {all} points of the grid are drawn.");
        last.note = Some(match &last.note {
            Some(other) => format!("{other} {note}"),
            None => note,
        });
    }
    groups
}

/// Something that has lines of its own: a flow, or all flows of a run together.
struct TimeSeries<'a> {
    name: String,
    colour: String,
    run: &'a RunResult,
    /// Nothing: all flows together.
    flow: Option<usize>,
}

fn group(title: String, runs: &[&RunResult]) -> Group {
    let each = each_flow(runs);
    let is_crowd = each.len() > MAX_LINES;
    let all = if is_crowd { whole_runs(runs) } else { each_flow(runs) };
    let (bands, whose) = states(&all);
    let drawing = Drawing::of(panels(runs, &all, &bands));
    let mut notes = Vec::new();
    if let Some(whose) = whose {
        notes.push(format!("Behind the lines: the state of {whose}."));
    }
    let mut flows = Vec::new();
    if is_crowd {
        notes.push(
            "Lines are sums over all flows, round trips their mean; below, each flow.".into(),
        );
        flows = small(runs, &each);
        if each.len() > flows.len() {
            notes.push(format!("The first {} of {} flows have a plot.", flows.len(), each.len()));
        }
    }
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    Group { title, note, drawing, flows }
}

/// The algorithms of a run's flows, each once.
fn algorithms(run: &RunResult) -> String {
    let mut names: Vec<&str> = Vec::new();
    for flow in &run.flows {
        if !names.contains(&flow.cc.as_str()) {
            names.push(&flow.cc);
        }
    }
    names.join(", ")
}

fn whole_runs<'a>(runs: &[&'a RunResult]) -> Vec<TimeSeries<'a>> {
    let series = |run: &&'a RunResult| {
        let name = algorithms(run);
        TimeSeries { colour: name.clone(), name, run, flow: None }
    };
    runs.iter().map(series).collect()
}

/// A flow has its algorithm's colour where nobody else in the group has that, and else one of its
/// own.
fn each_flow<'a>(runs: &[&'a RunResult]) -> Vec<TimeSeries<'a>> {
    let mut all = Vec::new();
    for run in runs {
        for (i, flow) in run.flows.iter().enumerate() {
            let alike = run.flows.iter().filter(|f| f.name == flow.name).count();
            let mut name = flow.name.clone();
            if flow.name != flow.cc {
                name = format!("{name} ({})", flow.cc);
            }
            if alike > 1 {
                name = format!("{name} #{i}");
            }
            if runs.len() > 1 && run.flows.len() > 1 {
                name = format!("{}: {name}", table::place(&run.at, ""));
            }
            let colour = flow.cc.clone();
            all.push(TimeSeries { name, colour, run, flow: Some(i) });
        }
    }
    let colours: Vec<String> = all.iter().map(|series| series.colour.clone()).collect();
    let is_clear = (1..colours.len()).all(|i| !colours[..i].contains(&colours[i]));
    if !is_clear {
        for (i, series) in all.iter_mut().enumerate() {
            series.colour = colour_of_flow(i);
        }
    }
    all
}

/// The states of the first time series that has any which are drawn, and its name.
fn states(all: &[TimeSeries<'_>]) -> (Vec<Band>, Option<String>) {
    let is_state = |row: &&SeriesRow| {
        row.state.as_deref().is_some_and(|state| STATES.iter().any(|(name, _)| *name == state))
    };
    for series in all {
        let flow = series.flow.unwrap_or(0);
        let rows = || series.run.series.iter().filter(move |row| row.flow == flow);
        if !rows().any(|row| is_state(&row)) {
            continue;
        }
        let mut bands: Vec<Band> = Vec::new();
        for row in rows() {
            let label = row.state.as_deref().unwrap_or_default();
            match bands.last_mut() {
                Some(last) if last.label == label => last.to = row.t_s,
                last => {
                    let from = last.map_or(row.t_s, |last| {
                        last.to = row.t_s;
                        last.to
                    });
                    bands.push(Band { from, to: row.t_s, label: label.to_owned() });
                }
            }
        }
        let name = match series.flow {
            Some(_) => series.name.clone(),
            None => format!("the first flow of {}", series.name),
        };
        return (bands, Some(name));
    }
    (Vec::new(), None)
}

/// A moment of a time series: volumes and rates are sums over its flows, round trips their mean.
struct Moment {
    t_s: f64,
    goodput: f64,
    rtt: f64,
    queue: f64,
    cwnd: f64,
    inflight: f64,
    pacing: f64,
}

impl TimeSeries<'_> {
    fn moments(&self) -> Vec<Moment> {
        let is_ours = |row: &&SeriesRow| self.flow.is_none_or(|flow| row.flow == flow);
        let each = self.run.series.chunk_by(|a, b| a.t_s == b.t_s).filter_map(|rows| {
            let rows: Vec<&SeriesRow> = rows.iter().filter(is_ours).collect();
            let first = rows.first()?;
            let sum = |value: fn(&SeriesRow) -> Option<f64>| -> f64 {
                rows.iter().map(|row| value(row)).sum::<Option<f64>>().unwrap_or(f64::NAN)
            };
            let rtts: Vec<f64> = rows.iter().filter_map(|row| row.rtt_ms.or(row.srtt_ms)).collect();
            Some(Moment {
                t_s: first.t_s,
                goodput: sum(|row| Some(row.goodput_mbps)),
                rtt: rtts.iter().sum::<f64>() / rtts.len() as f64,
                queue: first.queue_ms,
                // A program's is not known.
                cwnd: sum(|row| (row.cwnd_bytes > 0).then_some(row.cwnd_bytes as f64 / 1e3)),
                inflight: sum(|row| row.inflight_bytes.map(|n| n as f64 / 1e3)),
                pacing: sum(|row| row.pacing_mbps),
            })
        });
        each.collect()
    }
}

fn line(series: &TimeSeries<'_>, moments: &[Moment], value: fn(&Moment) -> f64) -> Option<Line> {
    let points: Vec<(f64, f64)> = moments.iter().map(|m| (m.t_s, value(m))).collect();
    let has_any = points.iter().any(|(_, y)| y.is_finite());
    has_any.then(|| Line::new(&series.name, points).colour(&series.colour))
}

/// The mean over the [`GOODPUT_MEAN_S`] before each moment.
fn goodput(series: &TimeSeries<'_>, moments: &[Moment]) -> Line {
    let t_s: Vec<f64> = moments.iter().map(|m| m.t_s).collect();
    let mbps: Vec<f64> = moments.iter().map(|m| m.goodput).collect();
    let points = t_s.iter().copied().zip(smooth(&t_s, &mbps));
    Line::new(&series.name, points).colour(&series.colour)
}

fn panels(runs: &[&RunResult], all: &[TimeSeries<'_>], bands: &[Band]) -> Vec<Panel> {
    let rate = runs.iter().find_map(|run| run.rate_mbps);
    let rtt = runs.first().map(|run| run.empty_rtt_ms);
    let panel = |title: &str, unit: &str| Panel::new(title, TIME, unit).bands(bands.to_vec());
    let mut panels = [
        panel("Goodput, mean over 100 ms", "Mbit/s"),
        panel("Round trip", "ms"),
        panel("Queue at the first link", "ms"),
        panel("Congestion window", "kB"),
        panel("In flight", "kB"),
        panel("Pacing rate", "Mbit/s"),
    ];
    let mut queues: Vec<*const RunResult> = Vec::new();
    for series in all {
        let moments = series.moments();
        panels[0].lines.push(goodput(series, &moments));
        panels[1].lines.extend(line(series, &moments, |m| m.rtt));
        // Flows of one run see the same queue.
        if !queues.contains(&std::ptr::from_ref(series.run)) {
            queues.push(series.run);
            panels[2].lines.extend(line(series, &moments, |m| m.queue));
        }
        panels[3].lines.extend(line(series, &moments, |m| m.cwnd));
        panels[4].lines.extend(line(series, &moments, |m| m.inflight));
        panels[5].lines.extend(line(series, &moments, |m| m.pacing));
    }
    let changes = rate.is_none().then(|| runs.iter().find_map(|run| capacity(run))).flatten();
    if let Some(line) = changes {
        let most = line.y.iter().copied().fold(0.0, f64::max);
        for i in [0, 5] {
            if panels[i].lines.is_empty() {
                continue;
            }
            cut(&mut panels[i], Some(MOST_RATES * most));
            // Behind the lines.
            panels[i].lines.insert(0, line.clone());
        }
    }
    for (i, what, level) in
        [(0, "the path's rate", rate), (1, "without a queue", rtt), (5, "the path's rate", rate)]
    {
        let panel = &mut panels[i];
        if let Some(level) = level {
            cut(panel, if i == 1 { None } else { Some(MOST_RATES * level) });
            let ends = panel.lines.iter().filter_map(|line| line.x.last());
            let end = ends.fold(0.0, |a: f64, b| a.max(*b));
            let points = [(0.0, level), (end, level)];
            panel.lines.push(Line::new(what, points).colour("published").kind(Kind::Dashed));
        }
    }
    panels.into_iter().filter(|panel| !panel.lines.is_empty()).collect()
}

/// The capacity of the first link over time, as the first flow there has it.
fn capacity(run: &RunResult) -> Option<Line> {
    let mut rows = run.series.chunk_by(|a, b| a.t_s == b.t_s).filter_map(|rows| rows.first());
    let mut from = 0.0;
    let mut points = Vec::new();
    let mut last = None;
    for row in &mut rows {
        // A row's is that of the time before it.
        points.push((from, row.capacity_mbps?));
        from = row.t_s;
        last = row.capacity_mbps;
    }
    points.push((from, last?));
    Some(Line::new("the path's capacity", points).colour("published").kind(Kind::Area))
}

/// Ends the vertical axis at `most` where values go beyond, and says so.
fn cut(panel: &mut Panel, most: Option<f64>) {
    let values = panel.lines.iter().flat_map(|line| &line.y).copied().filter(|y| y.is_finite());
    let highest = values.fold(0.0, f64::max);
    if let Some(most) = most.filter(|most| highest > *most) {
        panel.most = Some(most);
        panel.title = format!(
            "{}; cut off at {}, the highest is {}",
            panel.title,
            table::number(most),
            table::number(highest)
        );
    }
}

/// The goodput of each flow, all on the same axes.
fn small(runs: &[&RunResult], all: &[TimeSeries<'_>]) -> Vec<Drawing> {
    let most = runs.iter().find_map(|run| run.rate_mbps);
    let shown: Vec<&TimeSeries<'_>> = all.iter().take(MAX_SMALL).collect();
    let lines: Vec<Line> = shown.iter().map(|c| goodput(c, &c.moments())).collect();
    let highest = lines.iter().flat_map(|line| &line.y).filter(|y| y.is_finite());
    let highest = highest.fold(0.0, |a: f64, b| a.max(*b));
    let end = lines.iter().filter_map(|line| line.x.last()).fold(0.0, |a: f64, b| a.max(*b));
    let top = most.map_or(highest, |most| most.min(highest)).max(1e-3);
    let drawing = |line: Line| {
        let mut panel = Panel::new(&line.name.clone(), TIME, "Mbit/s");
        panel.lines = vec![line];
        cut(&mut panel, Some(top));
        panel.most = Some(top);
        // A line without a value gives all of them the same time axis.
        panel.lines.push(Line::new("", [(0.0, f64::NAN), (end, f64::NAN)]));
        Drawing::of(vec![panel])
    };
    lines.into_iter().map(drawing).collect()
}

/// Mbit/s as a mean over the [`GOODPUT_MEAN_S`] before each row.
fn smooth(t_s: &[f64], mbps: &[f64]) -> Vec<f64> {
    let mut first = 0;
    let mut out = Vec::with_capacity(mbps.len());
    for i in 0..mbps.len() {
        while t_s[i] - t_s[first] > GOODPUT_MEAN_S + 1e-6 {
            first += 1;
        }
        // Row k is the rate from k - 1 to k, so that the window holds the rows after `first`.
        let bits: f64 = (first + 1..=i).map(|k| mbps[k] * (t_s[k] - t_s[k - 1])).sum();
        let time = t_s[i] - t_s[first];
        // Rows that are further apart are means over more than that already.
        let far = i > 0 && t_s[i] - t_s[i - 1] > GOODPUT_MEAN_S + 1e-6;
        out.push(if far {
            mbps[i]
        } else if time > 0.0 {
            bits / time
        } else {
            f64::NAN
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_keeps_every_bit() {
        let t: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.02).collect();
        let bursts: Vec<f64> = (0..100).map(|i| if i % 5 == 0 { 50.0 } else { 0.0 }).collect();
        let mean = smooth(&t, &bursts);
        assert!(mean[0].is_nan());
        assert!(mean[10..].iter().all(|m| (m - 10.0).abs() < 1e-6), "{mean:?}");
        let rare: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(
            smooth(&rare, &rare)[1..],
            rare[1..],
            "rows a second apart are drawn as they are"
        );
    }
}
