//! The runs of a figure's scenario file, for those who draw them.

use crate::experiment::{Outcome, SeriesRow};

use super::drawing::Band;

/// What the runs of a scenario file came to, in the order of its grid.
pub(super) struct Plays {
    pub(super) runs: Vec<Outcome>,
}

impl Plays {
    /// The first run that has all of these values, whatever its axes are.
    pub(super) fn run(&self, values: &[&str]) -> Option<Play<'_>> {
        self.runs(values).next()
    }

    /// All runs that have these values, in the order of the grid.
    pub(super) fn runs<'a>(&'a self, values: &[&str]) -> std::vec::IntoIter<Play<'a>> {
        let has =
            |run: &Outcome| values.iter().all(|value| run.at.iter().any(|(_, here)| here == value));
        self.runs.iter().filter(|run| has(run)).map(Play).collect::<Vec<_>>().into_iter()
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

/// The number that a value of an axis begins with.
pub(super) fn number(value: &str) -> f64 {
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value[..end].parse().unwrap_or(f64::NAN)
}

/// One run.
#[derive(Clone, Copy)]
pub(super) struct Play<'a>(pub(super) &'a Outcome);

impl<'a> Play<'a> {
    /// Its value on an axis; empty where it has none.
    pub(super) fn at(self, axis: &str) -> &'a str {
        let place = self.0.at.iter().find(|(name, _)| name == axis);
        place.map_or("", |(_, value)| value.as_str())
    }

    /// A figure of the whole run; not a number where there is none.
    pub(super) fn figure(self, name: &str) -> f64 {
        self.0.metrics.get(name).copied().flatten().unwrap_or(f64::NAN)
    }

    /// The rows of a flow.
    pub(super) fn rows(self, flow: usize) -> impl Iterator<Item = &'a SeriesRow> + Clone {
        self.0.series.iter().filter(move |row| row.flow == flow)
    }

    /// A line over time.
    pub(super) fn line(self, flow: usize, of: impl Fn(&SeriesRow) -> f64) -> Vec<(f64, f64)> {
        self.rows(flow).map(|row| (row.t_s, of(row))).collect()
    }

    pub(super) fn end(self) -> f64 {
        self.0.series.last().map_or(0.0, |row| row.t_s)
    }

    /// The stays of a flow in its states.
    pub(super) fn bands(self, flow: usize) -> Vec<Band> {
        let mut bands: Vec<Band> = Vec::new();
        for row in self.rows(flow) {
            match bands.last_mut() {
                Some(last) if last.label == row.state => last.to = row.t_s,
                last => {
                    if let Some(last) = last {
                        last.to = row.t_s;
                    }
                    let label = row.state.clone().into_owned();
                    bands.push(Band { from: row.t_s, to: row.t_s, label });
                }
            }
        }
        bands
    }
}
