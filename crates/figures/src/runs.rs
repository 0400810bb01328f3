//! The runs of a figure's scenario file, for those who draw them.

use fullpipe_report::expect::Verdict;
use fullpipe_report::metrics::RunResult;
use fullpipe_report::observe::SeriesRow;
use fullpipe_report::output::plot::{Band, CellTable, Kind, Line};

/// Results of a scenario file's runs, in the order of its grid.
pub(super) struct FileRuns {
    /// The scenario's name, and what it says of itself.
    pub(super) name: String,
    pub(super) about: String,
    /// Path of its file in the sources.
    pub(super) file: &'static str,
    pub(super) runs: Vec<RunResult>,
    pub(super) verdicts: Vec<Verdict>,
}

impl FileRuns {
    /// The first run that has all of these values, whatever its axes are.
    pub(super) fn run(&self, values: &[&str]) -> Option<FigureRun<'_>> {
        self.runs(values).next()
    }

    /// All runs that have these values, in the order of the grid.
    pub(super) fn runs<'a>(&'a self, values: &[&str]) -> std::vec::IntoIter<FigureRun<'a>> {
        let has = |run: &RunResult| {
            values.iter().all(|value| run.at.iter().any(|(_, here)| here == value))
        };
        self.runs.iter().filter(|run| has(run)).map(FigureRun).collect::<Vec<_>>().into_iter()
    }

    /// The values of an axis, each once, in their order.
    pub(super) fn values(&self, axis: &str) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::new();
        for (_, value) in self.runs.iter().flat_map(|r| &r.at).filter(|(name, _)| name == axis) {
            if !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        values
    }
}

impl FileRuns {
    /// A line for each value of one axis, over those of another.
    pub(super) fn lines(
        &self,
        each: &str,
        over: &str,
        value: impl Fn(FigureRun<'_>) -> f64,
    ) -> Vec<Line> {
        let line = |name: &str| {
            let points = self.runs(&[name]).map(|run| (number(run.at(over)), value(run)));
            Line::new(name, points).kind(Kind::Marked)
        };
        self.values(each).into_iter().map(line).collect()
    }

    /// A row for each value of one axis, and in it a cell for each value of another, of the runs
    /// that have the values `of` too.
    pub(super) fn table(
        &self,
        rows: &str,
        columns: &str,
        corner: &str,
        of: &[&str],
        cell: impl Fn(FigureRun<'_>) -> String,
    ) -> CellTable {
        let names = self.values(columns);
        let header: Vec<&str> = std::iter::once(corner).chain(names.iter().copied()).collect();
        let mut table = CellTable::new(&header);
        for row in self.values(rows) {
            let runs = self.runs(of).filter(|run| run.at(rows) == row);
            table.row(std::iter::once(row.to_owned()).chain(runs.map(&cell)));
        }
        table
    }
}

/// The number that a value of an axis begins with.
pub(super) fn number(value: &str) -> f64 {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value[..end].parse().unwrap_or(f64::NAN)
}

/// One run.
#[derive(Clone, Copy)]
pub(super) struct FigureRun<'a>(pub(super) &'a RunResult);

impl<'a> FigureRun<'a> {
    /// Its value on an axis; empty where it has none.
    pub(super) fn at(self, axis: &str) -> &'a str {
        let place = self.0.at.iter().find(|(name, _)| name == axis);
        place.map_or("", |(_, value)| value.as_str())
    }

    /// A figure of the whole run; not a number where there is none.
    pub(super) fn figure(self, name: &str) -> f64 {
        self.0.metrics.get(name).copied().flatten().unwrap_or(f64::NAN)
    }

    /// The same of a flow.
    pub(super) fn of_flow(self, flow: usize, name: &str) -> f64 {
        let flow = self.0.flows.get(flow);
        flow.and_then(|f| f.metrics.get(name).copied().flatten()).unwrap_or(f64::NAN)
    }

    /// The rows of a flow.
    pub(super) fn rows(self, flow: usize) -> impl Iterator<Item = &'a SeriesRow> + Clone {
        self.0.series.iter().filter(move |row| row.flow == flow)
    }

    /// A line over time.
    pub(super) fn line(self, flow: usize, of: impl Fn(&SeriesRow) -> f64) -> Vec<(f64, f64)> {
        self.rows(flow).map(|row| (row.t_s, of(row))).collect()
    }

    /// A flow's goodput in Mbit/s as a mean over `window` seconds, one point for each.
    pub(super) fn goodput_line(self, flow: usize, window: f64) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64, f64)> = Vec::new();
        for row in self.rows(flow) {
            let end = ((row.t_s / window - 1e-9).floor() + 1.0) * window;
            match points.last_mut() {
                Some((t, sum, n)) if *t == end => {
                    *sum += row.goodput_mbps;
                    *n += 1.0;
                }
                _ => points.push((end, row.goodput_mbps, 1.0)),
            }
        }
        points.into_iter().map(|(t, sum, n)| (t, sum / n)).collect()
    }

    /// Megabytes that a flow's receiver has read, over time, to the end of the run.
    pub(super) fn read_line(self, flow: usize) -> Vec<(f64, f64)> {
        let (mut before_s, mut megabytes) = (0.0, 0.0);
        let mut points = vec![(0.0, 0.0)];
        for row in self.rows(flow) {
            megabytes += row.goodput_mbps * (row.t_s - before_s) / 8.0;
            before_s = row.t_s;
            points.push((row.t_s, megabytes));
        }
        points.push((self.figure("elapsed_s"), self.of_flow(flow, "completed_bytes") / 1e6));
        points
    }

    /// From `from` on, in seconds, until its flows have converged on a path of this round trip.
    pub(super) fn convergence_s(self, from: f64, rtt_s: f64) -> Option<f64> {
        self.0.convergence_s(from, rtt_s)
    }

    pub(super) fn end(self) -> f64 {
        self.0.series.last().map_or(0.0, |row| row.t_s)
    }

    /// The stays of a flow in its states.
    pub(super) fn bands(self, flow: usize) -> Vec<Band> {
        let mut bands: Vec<Band> = Vec::new();
        for row in self.rows(flow) {
            match bands.last_mut() {
                Some(last) if Some(last.label.as_str()) == row.state.as_deref() => {
                    last.to = row.t_s
                }
                last => {
                    if let Some(last) = last {
                        last.to = row.t_s;
                    }
                    let label = row.state.as_deref().unwrap_or_default().to_owned();
                    bands.push(Band { from: row.t_s, to: row.t_s, label });
                }
            }
        }
        bands
    }
}

/// The mean of values, 0 of none.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, n) = values.into_iter().fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
    if n == 0.0 { 0.0 } else { sum / n }
}

/// The largest of values.
pub(super) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}
