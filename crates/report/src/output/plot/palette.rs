//! The colours of everything that is drawn. Each has a shade for light paper and one for a dark
//! page, with a contrast of at least 3. People with any common colour blindness tell any two of
//! them apart, and no two are equally light, so that greys differ as well. Tests calculate this.

use std::fmt::Write as _;

/// A colour of lines.
struct Colour {
    /// The name of its variable in the page's style.
    name: &'static str,
    /// On white, in files as well.
    light: &'static str,
    /// On a dark page.
    dark: &'static str,
}

/// In the hues of Okabe and Ito, and two more. `web/src/style.css` has the same.
const PALETTE: [Colour; 10] = [
    Colour { name: "blue", light: BLUE, dark: "#0980c6" },
    Colour { name: "orange", light: ORANGE, dark: "#dc640a" },
    Colour { name: "green", light: GREEN, dark: "#99ffd5" },
    Colour { name: "pink", light: PINK, dark: "#d476ab" },
    Colour { name: "amber", light: AMBER, dark: "#ffc368" },
    Colour { name: "sky", light: SKY, dark: "#2dbcfe" },
    Colour { name: "yellow", light: YELLOW, dark: "#ece03e" },
    Colour { name: "grey", light: GREY, dark: "#bfbfbf" },
    Colour { name: "wine", light: WINE, dark: "#b04978" },
    Colour { name: "forest", light: FOREST, dark: "#5bb56c" },
];

const BLUE: &str = "#026299";
const ORANGE: &str = "#af4c00";
const GREEN: &str = "#048762";
const PINK: &str = "#c16499";
const AMBER: &str = "#402a01";
const SKY: &str = "#013e58";
const YELLOW: &str = "#9b9400";
/// Of what has no colour of its own, too.
const GREY: &str = "#454545";
const WINE: &str = "#4c002a";
const FOREST: &str = "#015e25";

/// Algorithms have the same colour everywhere. Two share one where they never stand beside each
/// other.
const COLOURS: [(&str, &str); 28] = [
    ("bbr3", BLUE),
    ("bbr1", GREEN),
    ("cubic", ORANGE),
    ("reno", PINK),
    ("bbr3-linux", SKY),
    ("bbr3x", WINE),
    ("bbr3x-linux", AMBER),
    ("bbr-swift", YELLOW),
    ("prague", FOREST),
    ("noq:bbr3", SKY),
    ("noq:cubic", AMBER),
    ("noq:reno", GREEN),
    ("quinn:bbr", SKY),
    ("quinn:cubic", AMBER),
    ("quinn:reno", GREEN),
    ("s2n:bbr", SKY),
    ("s2n:cubic", AMBER),
    ("linux:bbr", GREEN),
    ("linux:cubic", AMBER),
    ("linux:reno", PINK),
    ("bbr3-linux with ECN", GREEN),
    ("cubic with ECN", ORANGE),
    ("measured", BLUE),
    ("published", GREY),
    ("retransmitted", BLUE),
    ("RTT", BLUE),
    ("inflight", GREEN),
    ("delivery rate", ORANGE),
];

/// Of flows that are told apart by their number.
const FLOWS: [&str; 7] = [BLUE, ORANGE, GREEN, PINK, AMBER, SKY, WINE];

/// Of a sender's states, behind the lines: areas so faint that these are as light as they can be.
pub(crate) const STATES: [(&str, &str); 8] = [
    ("Startup", "#e69f00"),
    ("Drain", "#cc79a7"),
    ("ProbeBW_DOWN", "#56b4e9"),
    ("ProbeBW_CRUISE", "#999999"),
    ("ProbeBW_REFILL", "#f0e442"),
    ("ProbeBW_UP", "#d55e00"),
    ("ProbeBW", "#999999"),
    ("ProbeRTT", "#009e73"),
];

/// The colour of an algorithm, of a quantity, or of `flow 0` and so on; grey of anything else.
pub(crate) fn colour(name: &str) -> &'static str {
    let number = || name.strip_prefix("flow ")?.parse::<usize>().ok();
    let known = COLOURS.iter().find(|(n, _)| *n == name).map(|(_, colour)| *colour);
    known.or_else(|| number().map(|n| FLOWS[n % FLOWS.len()])).unwrap_or(GREY)
}

/// The colour as the page's style knows it: it follows the light or dark scheme.
pub(crate) fn on_page(colour: &str) -> String {
    let known = PALETTE.iter().find(|c| c.light == colour);
    known.map_or_else(|| colour.to_owned(), |c| format!("var(--{})", c.name))
}

/// A drawing whose lines follow the light or dark scheme.
pub(crate) fn picture_on_page(svg: &str) -> String {
    PALETTE.iter().fold(svg.to_owned(), |svg, c| {
        svg.replace(&format!("\"{}\"", c.light.to_uppercase()), &format!("\"var(--{})\"", c.name))
    })
}

/// The variables of the page's style. What is printed is on white.
pub(crate) fn style() -> String {
    let all = |shade: fn(&Colour) -> &str| {
        PALETTE.iter().fold(String::new(), |mut out, c| {
            let _ = write!(out, " --{}: {};", c.name, shade(c));
            out
        })
    };
    format!(
        ":root {{{} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{} }} }}\n",
        all(|c| c.light),
        all(|c| c.dark)
    )
}

/// The name under which [`colour`] knows a flow by its number.
pub(crate) fn colour_of_flow(number: usize) -> String {
    format!("flow {number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_fixed_and_algorithms_of_one_backend_are_told_apart() {
        for (i, (name, c)) in COLOURS.iter().enumerate() {
            assert_eq!(colour(name), *c);
            assert!(COLOURS[..i].iter().all(|(other, _)| other != name), "{name} is named twice");
        }
        for together in [
            &["bbr3", "bbr1", "cubic", "reno", "bbr3-linux", "bbr3x", "bbr-swift", "prague"][..],
            &["bbr3", "cubic", "noq:bbr3", "noq:cubic", "noq:reno"],
            &["bbr3", "cubic", "quinn:bbr", "quinn:cubic", "quinn:reno"],
            &["bbr3", "cubic", "s2n:bbr", "s2n:cubic"],
            &["bbr3", "cubic", "linux:bbr", "linux:cubic", "linux:reno"],
        ] {
            for (i, name) in together.iter().enumerate() {
                let same = together[..i].iter().find(|other| colour(other) == colour(name));
                assert_eq!(same, None, "{name}");
            }
        }
        assert_eq!(colour("s2n:bbr2"), GREY);
        assert_eq!((colour("flow 1"), colour("flow 8")), (ORANGE, ORANGE));
    }

    /// The paper of reports in `page/style.css`, and that of the browser page.
    const LIGHT: [&str; 2] = ["#ffffff", "#fbfbfa"];
    const DARK: [&str; 3] = ["#0d1117", "#14171a", "#1c2024"];

    /// Red, green and blue, linear, from 0 to 1.
    fn linear(colour: &str) -> [f64; 3] {
        let part = |i: usize| {
            let byte = u8::from_str_radix(&colour[i..i + 2], 16).expect("two digits");
            let value = f64::from(byte) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        [part(1), part(3), part(5)]
    }

    fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn luminance(linear: [f64; 3]) -> f64 {
        dot([0.2126, 0.7152, 0.0722], linear)
    }

    /// The contrast ratio of WCAG 2.2.
    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(linear(a)) + 0.05, luminance(linear(b)) + 0.05);
        a.max(b) / a.min(b)
    }

    /// CIE L*a*b* under D65.
    fn lab(linear: [f64; 3]) -> [f64; 3] {
        let f = |t: f64| {
            if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 }
        };
        let x = f(dot([0.4124564, 0.3575761, 0.1804375], linear) / 0.95047);
        let y = f(dot([0.2126729, 0.7151522, 0.0721750], linear));
        let z = f(dot([0.0193339, 0.1191920, 0.9503041], linear) / 1.08883);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Colours as people see them without one kind of cones: Machado, Oliveira and Fernandes, "A
    /// Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1.
    const BLINDNESS: [(&str, [[f64; 3]; 3]); 4] = [
        ("none", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "protanopia",
            [
                [0.152286, 1.052583, -0.204868],
                [0.114503, 0.786281, 0.099216],
                [-0.003882, -0.048116, 1.051998],
            ],
        ),
        (
            "deuteranopia",
            [
                [0.367322, 0.860646, -0.227968],
                [0.280085, 0.672501, 0.047413],
                [-0.011820, 0.042940, 0.968881],
            ],
        ),
        (
            "tritanopia",
            [
                [1.255528, -0.076749, -0.178779],
                [-0.078411, 0.930809, 0.147602],
                [0.004733, 0.691367, 0.303900],
            ],
        ),
    ];

    #[test]
    fn each_line_is_seen_on_light_and_dark_paper() {
        for c in &PALETTE {
            let shades = LIGHT.map(|paper| (c.light, paper));
            for (shade, paper) in shades.into_iter().chain(DARK.map(|paper| (c.dark, paper))) {
                let ratio = contrast(shade, paper);
                assert!(ratio >= 3.0, "{} {shade} on {paper}: {ratio:.2}", c.name);
            }
        }
    }

    #[test]
    fn the_papers_of_the_tests_are_those_of_the_styles() {
        let styles =
            [include_str!("../page/style.css"), include_str!("../../../../../web/src/style.css")];
        let has = |colour: &str| {
            styles.iter().any(|style| style.contains(&format!(": {colour};")))
                || colour == "#ffffff" && styles[0].contains("--page: #fff;")
        };
        LIGHT.into_iter().chain(DARK).for_each(|paper| assert!(has(paper), "{paper}"));
        // The browser page is drawn in the same colours.
        for c in &PALETTE {
            for shade in [c.light, c.dark] {
                assert!(styles[1].contains(&format!("--{}: {shade};", c.name)), "{}", c.name);
            }
        }
    }

    #[test]
    fn colours_are_told_apart_with_any_colour_blindness_and_as_greys() {
        for shade in [(|c: &Colour| c.light) as fn(&Colour) -> &'static str, |c| c.dark] {
            for (i, a) in PALETTE.iter().enumerate() {
                for b in &PALETTE[..i] {
                    let pair = [a, b].map(|c| linear(shade(c)));
                    let lightness = pair.map(|c| lab(c)[0]);
                    let apart = (lightness[0] - lightness[1]).abs();
                    assert!(apart >= 4.0, "{} and {} as greys: {apart:.1}", a.name, b.name);
                    for (kind, matrix) in BLINDNESS {
                        let [a_seen, b_seen] =
                            pair.map(|c| lab(matrix.map(|row| dot(row, c).clamp(0.0, 1.0))));
                        let parts = a_seen.iter().zip(b_seen).map(|(a, b)| (a - b).powi(2));
                        let apart = parts.sum::<f64>().sqrt();
                        assert!(apart >= 12.0, "{} and {}, {kind}: {apart:.1}", a.name, b.name);
                    }
                }
            }
        }
    }

    #[test]
    fn a_line_on_the_page_follows_the_scheme() {
        let svg = format!("<polyline stroke=\"{}\"/>", colour("bbr3").to_uppercase());
        assert_eq!(picture_on_page(&svg), "<polyline stroke=\"var(--blue)\"/>");
        assert_eq!(on_page(colour("bbr3")), "var(--blue)");
        let style = style();
        for c in &PALETTE {
            assert_eq!(style.matches(&format!("--{}: #", c.name)).count(), 2, "{style}");
        }
    }
}
