//! Suggestion of the intended name for an unknown one.

/// So alike two names are at least that one may be meant by the other: 1 is the same.
const ALIKE: f64 = 0.8;

/// The name that is most like a wrong one, if one is.
pub fn nearest<'a>(wrong: &str, all: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer texts are no slips of the pen, and take long to compare.
    if wrong.is_empty() || wrong.len() > 100 {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let alike = |name: &str| strsim::jaro_winkler(&wrong, &name.to_lowercase());
    let all = all.into_iter().map(|name| (alike(name), name));
    // Of two that are as like, the first.
    let best = all.filter(|(alike, _)| *alike > ALIKE).reduce(|a, b| if b.0 > a.0 { b } else { a });
    best.map(|(_, name)| name)
}

/// The same as a part of a sentence, `; did you mean bbr3?`, or nothing.
pub fn did_you_mean<'a>(wrong: &str, all: impl IntoIterator<Item = &'a str>) -> String {
    nearest(wrong, all).map_or(String::new(), |name| format!("; did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_seen_and_another_word_is_not() {
        let names = ["goodput_mbps", "jain", "utilization", "rtt_ms.p50", "bbr3", "bbr1", "cubic"];
        for (wrong, meant) in [
            ("goodput_mbp", Some("goodput_mbps")),
            ("utilisation", Some("utilization")),
            ("bbr", Some("bbr3")),
            ("BBR3", Some("bbr3")),
            ("cubik", Some("cubic")),
            ("", None),
            ("westwood", None),
        ] {
            assert_eq!(nearest(wrong, names), meant, "{wrong}");
        }
        assert_eq!(nearest(&"bbr3".repeat(1000), names), None);
    }
}
