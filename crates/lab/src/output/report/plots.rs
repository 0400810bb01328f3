//! The plots of one scenario: five panels over one time axis, an algorithm's lines always in the
//! same colour.

use plotly::Plot;
use plotly::common::{Anchor, DashType, Font, Line, Mode, Orientation, Title};
use plotly::configuration::DisplayModeBar;
use plotly::layout::{
    Annotation, Axis, HoverMode, ItemSizing, Legend, Margin, RangeMode, Shape, ShapeLine, ShapeType,
};
use plotly::{Configuration, Layout, Scatter};

use crate::output::results::{AlgorithmResult, ScenarioRecord, ScenarioResults, Series};

/// Colours that people with any common colour blindness can tell apart (Okabe and Ito).
const COLOURS: [(&str, &str); 7] = [
    ("bbr3", "#0072b2"),
    ("cubic", "#d55e00"),
    ("reno", "#009e73"),
    ("noq:bbr3", "#56b4e9"),
    ("noq:cubic", "#e69f00"),
    ("noq:newreno", "#cc79a7"),
    ("noq:reno", "#cc79a7"),
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
pub(super) fn colour(cc: &str) -> &'static str {
    COLOURS.iter().find(|(name, _)| *name == cc).map_or(OTHER_COLOUR, |(_, c)| c)
}

/// The plots of one scenario.
pub(super) fn plot(results: &ScenarioResults) -> Plot {
    let mut plot = Plot::new();
    // The page carries the script once for all plots.
    plot.use_cdn_js();
    for r in &results.results {
        add_lines(&mut plot, r);
    }
    plot.set_layout(layout(results));
    plot.set_configuration(
        Configuration::new().responsive(true).display_mode_bar(DisplayModeBar::False),
    );
    plot
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

fn add_lines(plot: &mut Plot, r: &AlgorithmResult) {
    let s = &r.series;
    let style = |name, y_axis| Style {
        cc: &r.cc,
        name,
        y_axis,
        width: 1.6,
        dash: DashType::Solid,
        opacity: 1.0,
        legend: false,
    };
    let goodput = Style { legend: true, ..style(&r.cc, "y") };
    line(plot, s, smooth(&s.t_s, &s.goodput_bps), goodput);
    for flow in r.flows.iter().take(MAX_FLOW_LINES) {
        if flow.series_goodput_bps.len() == s.t_s.len() && r.flows.len() <= MAX_FLOW_LINES {
            let thin = Style { width: 1.0, opacity: 0.7, ..style("one flow", "y") };
            line(plot, s, smooth(&s.t_s, &flow.series_goodput_bps), thin);
        }
    }
    line(plot, s, s.rtt_ms.clone(), style(&r.cc, "y2"));
    line(plot, s, s.queue_ms.iter().copied().map(Some).collect(), style(&r.cc, "y3"));
    let kilobytes = |b: u64| Some(b as f64 / 1e3);
    let cwnd: Vec<_> = s.cwnd_bytes.iter().map(|&b| kilobytes(b)).collect();
    with_states(plot, s, cwnd, style(&r.cc, "y4"));
    let inflight = s.inflight_bytes.iter().map(|b| b.and_then(kilobytes)).collect();
    let dotted = Style { dash: DashType::Dot, width: 1.2, ..style("inflight", "y4") };
    line(plot, s, inflight, dotted);
    let pacing = s.pacing_bps.iter().map(|b| b.map(|b| b as f64 / 1e6)).collect();
    line(plot, s, pacing, style(&r.cc, "y5"));
}

fn scatter(s: &Series, y: Vec<Option<f64>>, style: Style<'_>) -> Box<Scatter<f64, Option<f64>>> {
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

fn line(plot: &mut Plot, s: &Series, y: Vec<Option<f64>>, style: Style<'_>) {
    if y.iter().any(Option::is_some) {
        plot.add_trace(scatter(s, y, style).hover_template("%{y:.1f}"));
    }
}

/// A line that tells the algorithm's state under the pointer.
fn with_states(plot: &mut Plot, s: &Series, y: Vec<Option<f64>>, style: Style<'_>) {
    let states = s.state.iter().map(|st| st.clone().unwrap_or_default()).collect();
    let trace = scatter(s, y, style).text_array(states).hover_template("%{y:.1f} %{text}");
    plot.add_trace(trace);
}

/// Mbit/s as a mean over the [`GOODPUT_MEAN_S`] before each row.
fn smooth(t_s: &[f64], bps: &[u64]) -> Vec<Option<f64>> {
    let mut first = 0;
    let mut out = Vec::with_capacity(bps.len());
    for i in 0..bps.len() {
        while t_s[i] - t_s[first] > GOODPUT_MEAN_S + 1e-6 {
            first += 1;
        }
        // Row k is the rate from k - 1 to k, so that the window holds the rows after `first`.
        let bits: f64 = (first + 1..=i).map(|k| bps[k] as f64 * (t_s[k] - t_s[k - 1])).sum();
        let time = t_s[i] - t_s[first];
        out.push((time > 0.0).then(|| bits / time / 1e6));
    }
    out
}

fn layout(results: &ScenarioResults) -> Layout {
    let scenario = &results.scenario;
    let y = |i: usize| y_axis(&PANELS[i], results);
    let ends = results.results.iter().filter_map(|r| r.series.t_s.last());
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
        .shapes(limits(scenario))
}

fn y_axis(panel: &Panel, results: &ScenarioResults) -> Axis {
    let axis = Axis::new().domain(&panel.band).range_mode(RangeMode::ToZero).zero_line(false);
    let Some(most) = panel.rates.map(|n| n * results.scenario.rate_bps as f64) else {
        return axis;
    };
    let highest = |r: &AlgorithmResult| match panel.axis {
        "y" => smooth(&r.series.t_s, &r.series.goodput_bps)
            .into_iter()
            .flatten()
            .fold(0.0, |a: f64, mbit| a.max(mbit * 1e6)),
        _ => r.series.pacing_bps.iter().flatten().max().map_or(0.0, |&b| b as f64),
    };
    if results.results.iter().any(|r| highest(r) > most) {
        axis.range(vec![0.0, most / 1e6])
    } else {
        axis
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
fn limits(s: &ScenarioRecord) -> Vec<Shape> {
    let rate = s.rate_bps as f64 / 1e6;
    [("y", rate), ("y2", s.rtt_ms), ("y5", rate)]
        .map(|(axis, at)| {
            let dotted = ShapeLine::new().color("#888888").width(1.0).dash(DashType::Dot);
            Shape::new()
                .shape_type(ShapeType::Line)
                .x_ref("paper")
                .x0(0.0)
                .x1(1.0)
                .y_ref(axis)
                .y0(at)
                .y1(at)
                .line(dotted)
        })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_keeps_every_bit() {
        let t: Vec<f64> = (0..100).map(|i| f64::from(i) * 0.02).collect();
        let bursts: Vec<u64> = (0..100).map(|i| if i % 5 == 0 { 50_000_000 } else { 0 }).collect();
        let mean = smooth(&t, &bursts);
        assert_eq!(mean[0], None);
        assert!(mean[10..].iter().all(|m| (m.unwrap_or(0.0) - 10.0).abs() < 1e-6), "{mean:?}");
    }

    #[test]
    fn colours_are_fixed_and_told_apart() {
        for (i, (name, c)) in COLOURS.iter().enumerate() {
            assert_eq!(colour(name), *c);
            let same = COLOURS[..i].iter().filter(|(_, other)| other == c).count();
            assert!(same == 0 || *name == "noq:reno");
        }
        assert_eq!(colour("s2n:bbr2"), OTHER_COLOUR);
    }
}
