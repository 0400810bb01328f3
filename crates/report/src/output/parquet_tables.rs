//! The tables of a directory of results; docs/results.md tells their columns to people.

use std::path::Path;
use std::sync::Arc;

use super::parquet::{bytes, write_table};
use super::store::{StoreError, write_whole};
use crate::metrics::{Figures, Level, Metric, RunResult};
use crate::observe::SeriesRow;
use crate::plan::Plan;

/// A column; a cell may be empty.
#[derive(Clone, PartialEq, Debug)]
pub enum Cells {
    /// UTF-8. Cells that are alike share their text.
    Text(Vec<Option<Arc<str>>>),
    /// Double precision.
    Real(Vec<Option<f64>>),
    /// 64 bits with a sign.
    Whole(Vec<Option<i64>>),
}

impl Cells {
    /// A cell as text; an empty one is no text.
    pub(crate) fn text_of(&self, row: usize) -> String {
        fn show<T: ToString>(cells: &[Option<T>], row: usize) -> String {
            cells.get(row).and_then(Option::as_ref).map_or(String::new(), T::to_string)
        }
        match self {
            Self::Text(cells) => show(cells, row),
            Self::Real(cells) => show(cells, row),
            Self::Whole(cells) => show(cells, row),
        }
    }
}

/// Named columns of one length.
pub type Columns = Vec<(String, Cells)>;

/// Table of results.
#[derive(Clone, PartialEq, Debug)]
pub struct Table {
    /// Its name, that of its file without `.parquet`.
    pub name: &'static str,
    /// Its columns.
    pub columns: Columns,
}

impl Table {
    /// The table as the bytes of a Parquet file, those that [`write()`] puts into one.
    ///
    /// # Errors
    /// Parquet cannot hold it, or this build is without Parquet.
    pub fn parquet(&self) -> std::io::Result<Vec<u8>> {
        bytes(&self.columns)
    }
}

/// The tables of a plan's runs: `summary`, `flows`, `links` and `series`, the last without rows
/// when no time series was recorded.
pub fn tables(plan: &Plan, outcomes: &[RunResult]) -> [Table; 4] {
    [
        Table { name: "summary", columns: summary(plan, outcomes) },
        Table { name: "flows", columns: flows(plan, outcomes) },
        Table { name: "links", columns: links(plan, outcomes) },
        Table { name: "series", columns: series_columns(outcomes) },
    ]
}

/// Writes what the runs of a plan came to into a directory, which is made when it is not there:
/// `summary.parquet`, `flows.parquet`, `links.parquet`, `series.parquet` when a time series was
/// recorded, and `scenario.toml`.
///
/// # Errors
/// The file that cannot be written, and why: it may be that this build is without Parquet.
pub fn write(dir: &Path, plan: &Plan, outcomes: &[RunResult]) -> Result<(), StoreError> {
    std::fs::create_dir_all(dir).map_err(StoreError::at(dir))?;
    write_scenario(dir, plan)?;
    let has_series = outcomes.iter().any(|o| !o.series.is_empty());
    for table in tables(plan, outcomes).iter().filter(|t| t.name != "series" || has_series) {
        write_table(&dir.join(format!("{}.parquet", table.name)), &table.columns)?;
    }
    Ok(())
}

/// The text of the plan, so that the results say what they are of.
///
/// # Errors
/// The file cannot be written.
pub fn write_scenario(dir: &Path, plan: &Plan) -> Result<(), StoreError> {
    use std::io::Write;
    write_whole(&dir.join("scenario.toml"), |file| file.write_all(plan.text.as_bytes()))
}

/// Rows of a table, and how a column is made of them.
struct Rows<'a, R> {
    rows: Vec<(&'a RunResult, R)>,
    columns: Columns,
}

impl<'a, R> Rows<'a, R> {
    fn new(rows: Vec<(&'a RunResult, R)>) -> Self {
        let repeats = rows.iter().any(|(run, _)| run.repetition > 0);
        let rows = Self { rows, columns: Vec::new() }.whole("run", |o, _| Some(o.run as u64));
        match repeats {
            true => rows.whole("repetition", |o, _| Some(o.repetition as u64)),
            false => rows,
        }
    }

    fn text(self, name: &str, cell: impl Fn(&'a RunResult, &R) -> Option<&'a str>) -> Self {
        // Most cells of a column are alike, and share their text.
        let mut last: Option<Arc<str>> = None;
        let cells = self.rows.iter().map(|(outcome, row)| {
            let text = cell(outcome, row)?;
            if last.as_deref() != Some(text) {
                last = Some(text.into());
            }
            last.clone()
        });
        let column = Cells::Text(cells.collect());
        self.with(name, column)
    }

    fn real(self, name: &str, cell: impl Fn(&'a RunResult, &R) -> Option<f64>) -> Self {
        let column = Cells::Real(self.rows.iter().map(|(o, row)| cell(o, row)).collect());
        self.with(name, column)
    }

    fn whole(self, name: &str, cell: impl Fn(&'a RunResult, &R) -> Option<u64>) -> Self {
        // Nothing here reaches 2^63.
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let cells = self.rows.iter().map(|(o, row)| cell(o, row).map(signed));
        let column = Cells::Whole(cells.collect());
        self.with(name, column)
    }

    fn with(mut self, name: &str, column: Cells) -> Self {
        self.columns.push((name.to_owned(), column));
        self
    }

    /// The axes of the grid, but for those that are columns already.
    fn axes(mut self, plan: &Plan) -> Self {
        for (i, axis) in plan.grid.axes.iter().enumerate() {
            if self.columns.iter().all(|(name, _)| name != axis) {
                self = self.text(axis, |o, _| value_of(&plan.grid.axes, i, o));
            }
        }
        self
    }

    fn metrics(mut self, level: Level, figures: impl Fn(&'a RunResult, &R) -> &'a Figures) -> Self {
        for metric in Metric::of(level) {
            let name = metric.to_string();
            self = self.real(&name, |o, row| figures(o, row).get(&name).copied().flatten());
        }
        self
    }
}

fn value_of<'a>(axes: &[String], axis: usize, outcome: &'a RunResult) -> Option<&'a str> {
    let place = outcome.at.iter().find(|(name, _)| *name == axes[axis]);
    place.map(|(_, value)| value.as_str())
}

fn summary(plan: &Plan, outcomes: &[RunResult]) -> Columns {
    Rows::new(outcomes.iter().map(|o| (o, ())).collect())
        .text("scenario", |o, ()| Some(&o.scenario))
        .whole("seed", |o, ()| Some(o.seed))
        .axes(plan)
        .metrics(Level::Run, |o, ()| &o.metrics)
        .columns
}

fn flows(plan: &Plan, outcomes: &[RunResult]) -> Columns {
    let flows = outcomes.iter().flat_map(|o| (0..o.flows.len()).map(move |i| (o, i)));
    Rows::new(flows.collect())
        .whole("flow", |_, i| Some(*i as u64))
        .text("name", |o, i| Some(&o.flows[*i].name))
        .text("cc", |o, i| Some(&o.flows[*i].cc))
        .real("start_s", |o, i| Some(o.flows[*i].start_s))
        .real("end_s", |o, i| Some(o.flows[*i].end_s))
        .axes(plan)
        .metrics(Level::Flow, |o, i| &o.flows[*i].metrics)
        .columns
}

fn links(plan: &Plan, outcomes: &[RunResult]) -> Columns {
    let links = outcomes.iter().flat_map(|o| (0..o.links.len()).map(move |i| (o, i)));
    Rows::new(links.collect())
        .whole("link", |_, i| Some(*i as u64))
        .axes(plan)
        .metrics(Level::Link, |o, i| &o.links[*i])
        .columns
}

/// The series of the runs: a row for each flow and each interval.
pub(crate) fn series_columns(outcomes: &[RunResult]) -> Columns {
    let rows = outcomes.iter().flat_map(|o| o.series.iter().map(move |row| (o, row)));
    let rows: Rows<'_, &SeriesRow> = Rows::new(rows.collect());
    rows.whole("flow", |_, r| Some(r.flow as u64))
        .real("t_s", |_, r| Some(r.t_s))
        .real("goodput_mbps", |_, r| Some(r.goodput_mbps))
        .real("capacity_mbps", |_, r| r.capacity_mbps)
        .real("rtt_ms", |_, r| r.rtt_ms)
        .real("srtt_ms", |_, r| r.srtt_ms)
        .real("queue_ms", |_, r| Some(r.queue_ms))
        .whole("cwnd_bytes", |_, r| Some(r.cwnd_bytes))
        .whole("inflight_bytes", |_, r| r.inflight_bytes)
        .real("pacing_mbps", |_, r| r.pacing_mbps)
        .text("state", |_, r| r.state.as_deref())
        .whole("rounds", |_, r| r.rounds)
        .real("max_bw_mbps", |_, r| r.max_bw_mbps)
        .real("min_rtt_ms", |_, r| r.min_rtt_ms)
        .real("pacing_gain", |_, r| r.pacing_gain)
        .real("cwnd_gain", |_, r| r.cwnd_gain)
        .real("bw_shortterm_mbps", |_, r| r.bw_shortterm_mbps)
        .whole("inflight_shortterm_bytes", |_, r| r.inflight_shortterm_bytes)
        .whole("inflight_longterm_bytes", |_, r| r.inflight_longterm_bytes)
        .whole("extra_acked_bytes", |_, r| r.extra_acked_bytes)
        .whole("full_bw_count", |_, r| r.full_bw_count.map(u64::from))
        .whole("is_app_limited", |_, r| r.is_app_limited.map(u64::from))
        .columns
}
