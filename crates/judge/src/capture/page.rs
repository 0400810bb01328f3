//! The story as a page, with plots of the flow over time.

use super::Story;
use fullpipe_report::output::page::{self, escape};
use fullpipe_report::output::plot::{Drawing, Line, Panel, PlotError};

/// A page with the text, and the rate, the data in flight, the round trips and what was sent again
/// over time.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(story: &Story) -> Result<String, PlotError> {
    let mut page = page::head("The story of a flow");
    let looks = escape(&story.verdict.looks_like);
    page.push_str(&format!("<h1>The story of a flow</h1>\n<p>It looks like {looks}.</p>\n"));
    for defect in &story.verdict.defects {
        let [name, about] = [&defect.name, &defect.about].map(|text| escape(text));
        page.push_str(&format!("<p><strong>{name}</strong>: {about}</p>\n"));
    }
    page::plot(&mut page, "course", &drawing(story))?;
    page.push_str(&format!("<pre>{}</pre>\n", escape(&story.text())));
    page.push_str(&page::foot(", fullpipe judge"));
    Ok(page)
}

fn drawing(story: &Story) -> Drawing {
    let series = &story.figures.series;
    let at = |i: usize| (i as f64 + 0.5) * series.step_s;
    let all = |values: &[f64]| -> Vec<(f64, f64)> {
        values.iter().enumerate().map(|(i, value)| (at(i), *value)).collect()
    };
    let known = |values: &[Option<f64>], factor: f64| -> Vec<(f64, f64)> {
        let known = values.iter().enumerate().filter_map(|(i, v)| Some((at(i), (*v)? * factor)));
        known.collect()
    };
    let panel = |title: &str, unit: &str, name: &str, points: Vec<(f64, f64)>| {
        (!points.is_empty())
            .then(|| Panel::new(title, "time, s", unit).with(Line::new(name, points)))
    };
    let per_packet = 1.0 / story.figures.packet_bytes;
    let panels = [
        panel("Rate", "Mbit/s", "rate", all(&series.rate_mbps)),
        panel("In flight", "packets", "in flight", known(&series.inflight_bytes, per_packet)),
        panel("Round trip", "ms", "round trip", known(&series.rtt_ms, 1.0)),
        panel("Sent again", "bytes", "sent again", all(&series.resent_bytes)),
    ];
    Drawing::of(panels.into_iter().flatten().collect())
}
