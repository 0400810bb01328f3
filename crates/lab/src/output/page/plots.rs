//! The plots of a scenario: five panels over one time axis, an algorithm's lines always in the
//! same colour.

use plotly::Plot;
use plotly::common::{Anchor, DashType, Font, Line, Mode, Orientation, Title};
use plotly::configuration::DisplayModeBar;
use plotly::layout::{
    Annotation, Axis, HoverMode, ItemSizing, Legend, Margin, RangeMode, Shape, ShapeLine, ShapeType,
};
use plotly::{Configuration, Layout, Scatter};

use super::ScenarioReport;
use crate::metrics::RunResult;
use crate::output::table;

/// Colours that people with any common colour blindness can tell apart (Okabe and Ito).
const COLOURS: [(&str, &str); 10] = [
    ("bbr3", "#0072b2"),
    ("bbr3-linux", "#0072b2"),
    ("cubic", "#d55e00"),
    ("reno", "#009e73"),
    ("noq:bbr3", "#56b4e9"),
    ("noq:cubic", "#e69f00"),
    ("noq:reno", "#cc79a7"),
    ("linux:bbr", "#56b4e9"),
    ("linux:cubic", "#e69f00"),
    ("linux:reno", "#cc79a7"),
];

/// For an algorithm that has no colour of its own.
const OTHER_COLOUR: &str = "#808080";

/// The time over which the plot of goodput takes the mean: single rows show how packets came in
/// bursts more than how fast they came.
const GOODPUT_MEAN_S: f64 = 0.1;

/// Beyond this many flows, lines of their own cannot be told apart.
const MAX_FLOW_LINES: usize = 8;

const HEIGHT_PX: usize = 1250;

/// A panel.
struct Panel {
    /// Name of its y axis.
    axis: &'static str,
    title: &'static str,
    /// The band it takes, from the bottom at 0 to the top at 1.
    band: [f64; 2],
    /// Where the axis ends at most, in multiples of the path's rate: a start that overshoots is
    /// not to press everything after it flat.
    rates: Option<f64>,
}

/// From top to bottom.
const PANELS: [Panel; 5] = [
    Panel {
        axis: "y",
        title: "<b>Goodput</b>, Mbit/s, mean over 100 ms. Dotted: the path's rate",
        band: [0.84, 0.985],
        rates: Some(1.5),
    },
    Panel {
        axis: "y2",
        title: "<b>Round trip</b>, ms. Dotted: without a queue",
        band: [0.63, 0.775],
        rates: None,
    },
    Panel {
        axis: "y3",
        title: "<b>Queue at the bottleneck</b>, ms",
        band: [0.42, 0.565],
        rates: None,
    },
    Panel {
        axis: "y4",
        title: "<b>Congestion window</b>, kB. Dotted: what is in flight, where the sender says it",
        band: [0.21, 0.355],
        rates: None,
    },
    Panel {
        axis: "y5",
        title: "<b>Pacing rate</b>, Mbit/s. Dotted: the path's rate",
        band: [0.0, 0.145],
        rates: Some(2.0),
    },
];

/// The colour of an algorithm, the same in every report.
fn colour(cc: &str) -> &'static str {
    COLOURS.iter().find(|(name, _)| *name == cc).map_or(OTHER_COLOUR, |(_, c)| c)
}

/// Plots of runs that belong together: the same path, with different algorithms.
pub(super) struct Section {
    /// What the runs have in common, beside the scenario.
    pub(super) title: String,
    pub(super) plot: Plot,
}

/// More plots than these are not looked at, and make the page slow.
const MAX_SECTIONS: usize = 12;

/// A point of the grid without its algorithms, and its runs.
type Group<'a> = (Vec<(String, String)>, Vec<&'a RunResult>);

/// A section for each point of the grid without its algorithms.
pub(super) fn sections(report: &ScenarioReport) -> Vec<Section> {
    let common = |run: &RunResult| {
        run.at.iter().filter(|(axis, _)| axis != "cc").cloned().collect::<Vec<_>>()
    };
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in report.runs.iter().filter(|run| !run.series.is_empty()) {
        let key = common(run);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((key, vec![run])),
        }
    }
    let groups = groups.into_iter().take(MAX_SECTIONS);
    groups.map(|(at, runs)| Section { title: table::place(&at, ""), plot: plot(&runs) }).collect()
}

fn plot(runs: &[&RunResult]) -> Plot {
    let mut plot = Plot::new();
    // The page carries the script once for all plots.
    plot.use_cdn_js();
    let lines: Vec<Columns> = runs.iter().map(|run| Columns::of(run)).collect();
    for columns in &lines {
        add_lines(&mut plot, columns);
    }
    plot.set_layout(layout(runs, &lines));
    plot.set_configuration(
        Configuration::new().responsive(true).display_mode_bar(DisplayModeBar::False),
    );
    plot
}

/// The series of a run as columns. Volumes and rates are sums over the flows, the round trip is their mean,
/// and the state is the first flow's.
struct Columns {
    cc: String,
    t_s: Vec<f64>,
    goodput_mbps: Vec<f64>,
    flows_mbps: Vec<Vec<f64>>,
    rtt_ms: Vec<Option<f64>>,
    queue_ms: Vec<Option<f64>>,
    cwnd_kb: Vec<Option<f64>>,
    inflight_kb: Vec<Option<f64>>,
    pacing_mbps: Vec<Option<f64>>,
    state: Vec<String>,
}

impl Columns {
    fn of(run: &RunResult) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for flow in &run.flows {
            if !names.contains(&flow.cc.as_str()) {
                names.push(&flow.cc);
            }
        }
        let flows = run.flows.len();
        let mut columns = Self {
            cc: names.join(", "),
            t_s: Vec::new(),
            goodput_mbps: Vec::new(),
            flows_mbps: vec![
                Vec::new();
                if flows > 1 && flows <= MAX_FLOW_LINES { flows } else { 0 }
            ],
            rtt_ms: Vec::new(),
            queue_ms: Vec::new(),
            cwnd_kb: Vec::new(),
            inflight_kb: Vec::new(),
            pacing_mbps: Vec::new(),
            state: Vec::new(),
        };
        for rows in run.series.chunk_by(|a, b| a.t_s == b.t_s) {
            let Some(first) = rows.first() else { continue };
            columns.t_s.push(first.t_s);
            columns.goodput_mbps.push(rows.iter().map(|r| r.goodput_mbps).sum());
            for (i, flow) in columns.flows_mbps.iter_mut().enumerate() {
                flow.push(rows.iter().find(|r| r.flow == i).map_or(0.0, |r| r.goodput_mbps));
            }
            let rtts: Vec<f64> = rows.iter().filter_map(|r| r.rtt_ms).collect();
            let mean = rtts.iter().sum::<f64>() / rtts.len() as f64;
            columns.rtt_ms.push((!rtts.is_empty()).then_some(mean));
            columns.queue_ms.push(Some(first.queue_ms));
            let kilobytes = |bytes: u64| bytes as f64 / 1e3;
            columns.cwnd_kb.push(Some(rows.iter().map(|r| kilobytes(r.cwnd_bytes)).sum()));
            columns.inflight_kb.push(rows.iter().map(|r| r.inflight_bytes.map(kilobytes)).sum());
            columns.pacing_mbps.push(rows.iter().map(|r| r.pacing_mbps).sum());
            columns.state.push(first.state.as_deref().unwrap_or_default().to_owned());
        }
        columns
    }
}

/// One line of a panel, without its data.
struct Style<'a> {
    cc: &'a str,
    name: &'a str,
    y_axis: &'a str,
    width: f64,
    dash: DashType,
    opacity: f64,
    legend: bool,
}

fn add_lines(plot: &mut Plot, s: &Columns) {
    let style = |name, y_axis| Style {
        cc: &s.cc,
        name,
        y_axis,
        width: 1.6,
        dash: DashType::Solid,
        opacity: 1.0,
        legend: false,
    };
    let goodput = Style { legend: true, ..style(&s.cc, "y") };
    line(plot, s, smooth(&s.t_s, &s.goodput_mbps), goodput);
    for flow in &s.flows_mbps {
        let thin = Style { width: 1.0, opacity: 0.7, ..style("one flow", "y") };
        line(plot, s, smooth(&s.t_s, flow), thin);
    }
    line(plot, s, s.rtt_ms.clone(), style(&s.cc, "y2"));
    line(plot, s, s.queue_ms.clone(), style(&s.cc, "y3"));
    let cwnd = scatter(s, s.cwnd_kb.clone(), style(&s.cc, "y4"));
    plot.add_trace(cwnd.text_array(s.state.clone()).hover_template("%{y:.1f} %{text}"));
    let dotted = Style { dash: DashType::Dot, width: 1.2, ..style("inflight", "y4") };
    line(plot, s, s.inflight_kb.clone(), dotted);
    line(plot, s, s.pacing_mbps.clone(), style(&s.cc, "y5"));
}

fn scatter(s: &Columns, y: Vec<Option<f64>>, style: Style<'_>) -> Box<Scatter<f64, Option<f64>>> {
    let colour = colour(style.cc);
    Scatter::new(s.t_s.clone(), y)
        .mode(Mode::Lines)
        .name(style.name)
        .legend_group(style.cc)
        .show_legend(style.legend)
        .opacity(style.opacity)
        .x_axis("x")
        .y_axis(style.y_axis)
        .line(Line::new().color(colour).width(style.width).dash(style.dash))
}

fn line(plot: &mut Plot, s: &Columns, y: Vec<Option<f64>>, style: Style<'_>) {
    if y.iter().any(Option::is_some) {
        plot.add_trace(scatter(s, y, style).hover_template("%{y:.1f}"));
    }
}

/// Mbit/s as a mean over the [`GOODPUT_MEAN_S`] before each row.
fn smooth(t_s: &[f64], mbps: &[f64]) -> Vec<Option<f64>> {
    let mut first = 0;
    let mut out = Vec::with_capacity(mbps.len());
    for i in 0..mbps.len() {
        while t_s[i] - t_s[first] > GOODPUT_MEAN_S + 1e-6 {
            first += 1;
        }
        // Row k is the rate from k - 1 to k, so that the window holds the rows after `first`.
        let bits: f64 = (first + 1..=i).map(|k| mbps[k] * (t_s[k] - t_s[k - 1])).sum();
        let time = t_s[i] - t_s[first];
        out.push((time > 0.0).then(|| bits / time));
    }
    out
}

fn layout(runs: &[&RunResult], lines: &[Columns]) -> Layout {
    let rate = runs.iter().find_map(|run| run.rate_mbps);
    let y = |i: usize| y_axis(&PANELS[i], rate, lines);
    let ends = lines.iter().filter_map(|line| line.t_s.last());
    let x = Axis::new()
        .anchor("y5")
        .range(vec![0.0, ends.fold(0.0, |a: f64, &b| a.max(b))])
        .title(Title::with_text("seconds since the first request"))
        .show_spikes(true)
        .spike_thickness(1)
        .zero_line(false);
    Layout::new()
        .height(HEIGHT_PX)
        .auto_size(true)
        .font(Font::new().family("system-ui, sans-serif").size(12))
        .margin(Margin::new().left(50).right(20).top(40).bottom(50))
        .hover_mode(HoverMode::XUnified)
        .paper_background_color("rgba(0,0,0,0)")
        .plot_background_color("rgba(0,0,0,0)")
        .legend(
            Legend::new()
                .orientation(Orientation::Horizontal)
                .item_sizing(ItemSizing::Constant)
                .x(1.0)
                .x_anchor(Anchor::Right)
                .y(1.005)
                .y_anchor(Anchor::Bottom),
        )
        .x_axis(x)
        .y_axis(y(0))
        .y_axis2(y(1))
        .y_axis3(y(2))
        .y_axis4(y(3))
        .y_axis5(y(4))
        .annotations(PANELS.iter().map(panel_title).collect())
        .shapes(limits(rate, runs.first().map(|run| run.empty_rtt_ms)))
}

fn y_axis(panel: &Panel, rate: Option<f64>, lines: &[Columns]) -> Axis {
    let axis = Axis::new().domain(&panel.band).range_mode(RangeMode::ToZero).zero_line(false);
    let Some(most) = panel.rates.zip(rate).map(|(n, rate)| n * rate) else { return axis };
    let highest = |line: &Columns| {
        let values = match panel.axis {
            "y" => smooth(&line.t_s, &line.goodput_mbps),
            _ => line.pacing_mbps.clone(),
        };
        values.into_iter().flatten().fold(0.0, f64::max)
    };
    match lines.iter().any(|line| highest(line) > most) {
        true => axis.range(vec![0.0, most]),
        false => axis,
    }
}

/// Above the panel and level, where it is read more easily than along the axis.
fn panel_title(panel: &Panel) -> Annotation {
    Annotation::new()
        .text(panel.title)
        .show_arrow(false)
        .x_ref("paper")
        .x(0.0)
        .x_anchor(Anchor::Left)
        .y_ref("paper")
        .y(panel.band[1] + 0.004)
        .y_anchor(Anchor::Bottom)
        .font(Font::new().size(13))
}

/// What the path allows, as dotted lines: its rate, and its round trip without a queue.
fn limits(rate_mbps: Option<f64>, rtt_ms: Option<f64>) -> Vec<Shape> {
    let all = [("y", rate_mbps), ("y2", rtt_ms), ("y5", rate_mbps)];
    all.into_iter()
        .filter_map(|(axis, at)| {
            let dotted = ShapeLine::new().color("#888888").width(1.0).dash(DashType::Dot);
            let shape = Shape::new().shape_type(ShapeType::Line).x_ref("paper").x0(0.0).x1(1.0);
            at.map(|at| shape.y_ref(axis).y0(at).y1(at).line(dotted))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_keeps_every_bit() {
        let t: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.02).collect();
        let bursts: Vec<f64> = (0..100).map(|i| if i % 5 == 0 { 50.0 } else { 0.0 }).collect();
        let mean = smooth(&t, &bursts);
        assert_eq!(mean[0], None);
        assert!(mean[10..].iter().all(|m| (m.unwrap_or(0.0) - 10.0).abs() < 1e-6), "{mean:?}");
    }

    #[test]
    fn colours_are_fixed_and_told_apart() {
        for (i, (name, c)) in COLOURS.iter().enumerate() {
            assert_eq!(colour(name), *c);
            let same = COLOURS[..i].iter().filter(|(_, other)| other == c).count();
            // Flavours of one algorithm, and algorithms that never run on one backend together.
            assert!(same == 0 || name.contains(':') || *name == "bbr3-linux", "{name}");
        }
        assert_eq!(colour("s2n:bbr2"), OTHER_COLOUR);
    }
}
