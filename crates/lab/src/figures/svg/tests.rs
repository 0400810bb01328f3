use super::super::drawing::Scale;
use super::*;

fn points(n: u32) -> Vec<(f64, f64)> {
    (0..n).map(|i| (f64::from(i), f64::from(i % 7))).collect()
}

/// Everything that a drawing can hold.
fn drawing() -> Drawing {
    let band = |from: f64, to: f64, label: &str| Band { from, to, label: label.to_owned() };
    let mut bars = Panel::new("Bars", "path", "ms")
        .with(Line::new("median", [(0.0, 4.0), (1.0, 9.0)]).kind(Kind::Bars).colour("bbr3"))
        .with(Line::new("p95", [(0.0, 8.0), (1.0, f64::NAN)]).kind(Kind::Bars).colour("cubic"));
    bars.names = vec!["3G <slow>".to_owned(), "cable".to_owned()];
    Drawing::of(vec![
        Panel::new("Rate & more", "Time, s", "Mbit/s")
            .with(Line::new("bbr3", points(5000)))
            .with(Line::new("steps", points(9)).kind(Kind::Steps).colour("cubic"))
            .bands(vec![band(0.0, 9.0, "Startup"), band(9.0, 99.0, "ProbeRTT")]),
        Panel::new("Gain", "Time, s", "")
            .with(Line::new("gain", points(9)).colour("bbr1"))
            .bands(vec![band(0.0, 2500.0, "1.25"), band(2500.0, 5000.0, "0.75")]),
        Panel::new("Loss", "Loss, %", "Mbit/s")
            .scales(Scale::Log, Scale::Log)
            .with(Line::new("reno", [(0.001, 90.0), (0.0, 0.0), (50.0, 0.1)]).kind(Kind::Marked))
            .with(Line::new("limit", [(0.001, 100.0), (50.0, 50.0)]).kind(Kind::Dashed)),
        bars,
    ])
}

#[test]
fn a_picture_is_well_formed_and_has_each_line_axis_and_band() {
    let drawing = drawing();
    let text = render(&drawing).expect("a picture");
    let svg = roxmltree::Document::parse(&text).expect("XML");
    let nodes = |tag: &str| svg.descendants().filter(|n| n.has_tag_name(tag)).collect::<Vec<_>>();
    let words: Vec<String> =
        nodes("text").iter().map(|n| n.text().unwrap_or_default().trim().to_owned()).collect();
    let has = |word: &str| assert!(words.iter().any(|w| w == word), "{word:?} in {words:?}");
    for panel in &drawing.panels {
        has(&panel.title);
        has(&panel.x);
        panel.lines.iter().for_each(|l| has(&l.name));
        panel.names.iter().for_each(|n| has(n));
    }
    for word in ["Mbit/s", "ms", "Startup", "ProbeRTT", "1.25", "0.75", "0.001", "10", "100"] {
        has(word);
    }
    // Each line in its colour, apart from its key in the legend.
    let drawn = |tag: &str, key: &str, colour: &str| {
        let is_it = |n: &&roxmltree::Node<'_, '_>| {
            n.attribute(key).is_some_and(|c| c.eq_ignore_ascii_case(colour))
        };
        nodes(tag).iter().filter(is_it).count()
    };
    for name in ["bbr3", "cubic", "bbr1", "reno"] {
        assert!(drawn("polyline", "stroke", colour(name)) > 1, "{name}");
    }
    assert_eq!(nodes("circle").len(), 2, "a mark for each point that has a place");
    assert_eq!(drawn("rect", "fill", colour("bbr3")), 1 + 2, "a key and two bars");
    assert_eq!(drawn("rect", "fill", colour("cubic")), 1 + 1, "a bar without a value is none");
    assert!(text.len() < 300_000, "{} bytes", text.len());
}

#[test]
fn a_panel_without_a_value_is_drawn_too() {
    let empty = Drawing::of(vec![Panel::new("Nothing", "Time, s", "ms").with(Line::new("a", []))]);
    let text = render(&empty).expect("a picture");
    assert!(roxmltree::Document::parse(&text).is_ok(), "{text}");
}

#[test]
fn each_figure_that_draws_has_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let named = ["fig2", "tuning"];
    let figures: Vec<_> =
        super::super::FIGURES.iter().filter(|f| named.contains(&f.name)).collect();
    let results = super::super::run_all(
        &figures,
        crate::backend::BackendChoice::SIM,
        false,
        1,
        &stop,
        |_| (),
    );
    let mut results = results.expect("sound files");
    let empty = FigureResult { drawing: Drawing::default(), name: "empty", ..results[0].clone() };
    results.push(empty);
    assert_eq!(write(dir.path(), &results).expect("written"), ["fig2.svg", "tuning.svg"]);
    for result in &results[..2] {
        let text = std::fs::read_to_string(dir.path().join(format!("{}.svg", result.name)));
        let text = text.expect("a file");
        assert!(roxmltree::Document::parse(&text).is_ok(), "{}", result.name);
        for line in result.drawing.panels.iter().flat_map(|p| &p.lines) {
            let name = line.name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            assert!(text.contains(&name), "{} in {}", line.name, result.name);
        }
    }
}
