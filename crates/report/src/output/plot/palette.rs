//! The colours of everything that is drawn: Okabe and Ito's, which people with any common colour
//! blindness can tell apart.

const BLUE: &str = "#0072b2";
const ORANGE: &str = "#d55e00";
const GREEN: &str = "#009e73";
const PINK: &str = "#cc79a7";
const AMBER: &str = "#e69f00";
const SKY: &str = "#56b4e9";
const YELLOW: &str = "#f0e442";
const GREY: &str = "#999999";

/// Of what has no colour of its own.
const OTHER: &str = "#888888";

/// Algorithms have the same colour everywhere. Two share one where they never stand beside each
/// other.
const COLOURS: [(&str, &str); 28] = [
    ("bbr3", BLUE),
    ("bbr1", GREEN),
    ("cubic", ORANGE),
    ("reno", PINK),
    ("bbr3-linux", SKY),
    ("bbr3x", "#882255"),
    ("bbr3x-linux", AMBER),
    ("bbr-swift", YELLOW),
    ("prague", "#117733"),
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
const FLOWS: [&str; 7] = [BLUE, ORANGE, GREEN, PINK, AMBER, SKY, GREY];

/// Of a sender's states, behind the lines.
pub(crate) const STATES: [(&str, &str); 8] = [
    ("Startup", AMBER),
    ("Drain", PINK),
    ("ProbeBW_DOWN", SKY),
    ("ProbeBW_CRUISE", GREY),
    ("ProbeBW_REFILL", YELLOW),
    ("ProbeBW_UP", ORANGE),
    ("ProbeBW", GREY),
    ("ProbeRTT", GREEN),
];

/// The colour of an algorithm, of a quantity, or of `flow 0` and so on; grey of anything else.
pub(crate) fn colour(name: &str) -> &'static str {
    let number = || name.strip_prefix("flow ")?.parse::<usize>().ok();
    let known = COLOURS.iter().find(|(n, _)| *n == name).map(|(_, colour)| *colour);
    known.or_else(|| number().map(|n| FLOWS[n % FLOWS.len()])).unwrap_or(OTHER)
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
        assert_eq!(colour("s2n:bbr2"), OTHER);
        assert_eq!((colour("flow 1"), colour("flow 8")), (ORANGE, ORANGE));
    }
}
