use super::super::Scale;
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
    let text = render(&drawing, Format::PAPER).expect("a picture").svg;
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
    let text = render(&empty, Format::PAPER).expect("a picture").svg;
    assert!(roxmltree::Document::parse(&text).is_ok(), "{text}");
}

#[test]
fn what_is_above_the_end_of_an_axis_lies_on_it() {
    let high = Line::new("a", [(0.0, 5.0), (1.0, 500.0), (2.0, 5.0)]);
    let panel = Panel { most: Some(10.0), ..Panel::new("Cut", "Time, s", "ms").with(high) };
    let picture = render(&Drawing::of(vec![panel]), Format::WIDE).expect("a picture");
    let place = &picture.places[0];
    assert_eq!(place.y, [0.0, 10.0]);
    let svg = roxmltree::Document::parse(&picture.svg).expect("XML");
    let line = svg.descendants().filter(|n| n.has_tag_name("polyline"));
    let line = line.filter_map(|n| n.attribute("points")).find(|p| p.split(' ').count() == 4);
    let heights: Vec<i32> = line
        .expect("three points")
        .split_whitespace()
        .filter_map(|point| point.split_once(',')?.1.parse().ok())
        .collect();
    assert_eq!(heights[1], place.pixels[1], "the highest is at the top: {heights:?}");
    assert!(heights[0] > heights[1] && heights[0] < place.pixels[3]);
}

#[test]
fn fewer_points_keep_the_highest_and_the_lowest() {
    let x: Vec<f64> = (0..10_000).map(f64::from).collect();
    let y: Vec<f64> = x.iter().map(|x| if *x == 777.0 { 99.0 } else { (x % 7.0) - 3.0 }).collect();
    let (xs, ys) = thin(&x, &y, 300);
    assert!(xs.len() <= 300 && xs.len() == ys.len(), "{}", xs.len());
    assert!(ys.contains(&99.0) && ys.contains(&-3.0) && xs.is_sorted());
}
