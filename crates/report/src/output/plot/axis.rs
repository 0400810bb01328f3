//! Marks of an axis, and their labels.

use super::Scale;

/// An axis: from where to where, in the units in which it is drawn, and its marks.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PlotAxis {
    scale: Scale,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) marks: Vec<f64>,
    /// Names shown at the marks instead of numbers.
    names: Vec<String>,
}

/// Steps between two marks, in powers of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

impl PlotAxis {
    /// An axis for these values with about so many marks; one that counts evenly begins at 0 with
    /// `zero`.
    pub(super) fn of(
        scale: Scale,
        values: impl Iterator<Item = f64>,
        zero: bool,
        marks: usize,
    ) -> Self {
        let drawn = values.map(|v| place(scale, v)).filter(|v| v.is_finite());
        let (least, most) =
            drawn.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        let (mut from, mut to) = if least <= most { (least, most) } else { (0.0, 1.0) };
        if scale == Scale::Linear && zero {
            (from, to) = (from.min(0.0), to.max(0.0));
        }
        if to - from <= f64::EPSILON * to.abs() {
            to = from + 1.0;
        }
        let room = 0.04 * (to - from);
        if zero || scale == Scale::Log {
            to += room;
        }
        if scale == Scale::Log {
            from -= room;
        }
        Self::between(scale, from, to, marks)
    }

    /// An axis that counts evenly from 0 to there.
    pub(super) fn until(to: f64, marks: usize) -> Self {
        Self::between(Scale::Linear, 0.0, to, marks)
    }

    fn between(scale: Scale, from: f64, to: f64, marks: usize) -> Self {
        let step = match scale {
            Scale::Linear => step((to - from) / marks.max(1) as f64),
            Scale::Log => ((to - from) / marks.max(1) as f64).ceil().max(1.0),
        };
        let first = (from / step - 1e-9).ceil();
        let count = ((to / step + 1e-9).floor() - first).max(-1.0) as usize + 1;
        let marks = (0..count).map(|i| (first + i as f64) * step).collect();
        Self { scale, from, to, marks, names: Vec::new() }
    }

    /// An axis with a name at each mark, for bars.
    pub(super) fn of_names(names: Vec<String>) -> Self {
        let marks: Vec<f64> = (0..names.len()).map(|i| i as f64).collect();
        let to = marks.last().map_or(0.0, |last| *last) + 0.6;
        Self { scale: Scale::Linear, from: -0.6, to, marks, names }
    }

    /// The place of a value; not a number where it has none.
    pub(super) fn place(&self, value: f64) -> f64 {
        place(self.scale, value)
    }

    /// Label of a mark.
    pub(super) fn label(&self, mark: f64) -> String {
        if let Some(name) = self.names.get(mark.round() as usize) {
            return name.clone();
        }
        let value = if self.scale == Scale::Log { 10f64.powf(mark) } else { mark };
        match value.abs() {
            a if a < 1e-12 => "0".to_owned(),
            a if (1e-4..1e6).contains(&a) => {
                // Six decimals are more than a step of four marks leaves; those that say nothing
                // go.
                let text = format!("{value:.6}");
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            _ => format!("{value:.0e}"),
        }
    }
}

fn place(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Log if value > 0.0 => value.log10(),
        Scale::Log => f64::NAN,
    }
}

/// The step of 1, 2 or 5 times a power of ten that is nearest to this.
fn step(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.log10().floor());
    let distance = |step: &f64| (step / wanted).ln().abs();
    let steps = STEPS.map(|s| s * power).into_iter();
    steps.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &PlotAxis) -> Vec<String> {
        axis.marks.iter().map(|m| axis.label(*m)).collect()
    }

    #[test]
    fn marks_are_round_numbers_inside_the_axis() {
        for (values, zero, expected) in [
            (vec![0.0, 60.0], true, vec!["0", "20", "40", "60"]),
            (vec![3.0, 9.2], true, vec!["0", "5"]),
            (vec![19.2, 19.9], false, vec!["19.2", "19.4", "19.6", "19.8"]),
            (vec![0.1, 0.35], false, vec!["0.1", "0.2", "0.3"]),
            (vec![f64::NAN], false, vec!["0", "0.5", "1"]),
            (vec![5.0], false, vec!["5", "5.5", "6"]),
        ] {
            let axis = PlotAxis::of(Scale::Linear, values.iter().copied(), zero, 3);
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert!(axis.marks.iter().all(|m| (axis.from - 1e-9..=axis.to + 1e-9).contains(m)));
            assert_eq!(labels(&axis), expected, "{values:?}");
        }
    }

    #[test]
    fn an_axis_by_powers_of_ten_has_these_as_marks() {
        let axis = PlotAxis::of(Scale::Log, [0.001, 0.0, 50.0].into_iter(), true, 6);
        assert_eq!(labels(&axis), ["0.001", "0.01", "0.1", "1", "10"]);
        assert!(axis.place(0.0).is_nan() && (axis.place(100.0) - 2.0).abs() < 1e-12);
    }
}
