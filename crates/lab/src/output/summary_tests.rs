use super::*;
use crate::output::sample;

#[test]
fn the_table_is_aligned_and_has_a_row_for_each_result() {
    let text = table(&sample::two_scenarios()).to_text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 + 4, "{text}");
    let end_of = |line: &str, what: &str| line.find(what).map(|i| i + what.len()).expect(what);
    let goodput = end_of(lines[0], "goodput");
    assert_eq!(end_of(lines[1], "Mbit/s"), goodput, "{text}");
    for line in &lines[2..] {
        assert_eq!(line.as_bytes().get(goodput), Some(&b' '), "{text}");
        assert_ne!(line.as_bytes().get(goodput - 1), Some(&b' '), "{text}");
        assert_eq!(line.len(), lines[2].len(), "{text}");
    }
    assert!(lines.iter().all(|l| l.trim_end().len() == l.len()));
    assert!(lines[2].starts_with("100mbit 40ms 6bdp     bbr3"), "{text}");
    assert!(lines[4].starts_with("100mbit 40ms 1bdp 1%  bbr3"), "{text}");
    assert!(!text.contains("jain"));
}

#[test]
fn several_flows_have_their_fairness_in_the_table() {
    let mut s = sample::two_scenarios();
    s[0].scenario.flows = 2;
    let text = table(&s).to_text();
    assert!(text.lines().next().is_some_and(|l| l.ends_with("jain")), "{text}");
    assert!(text.contains("100mbit 40ms 6bdp 2 flows"), "{text}");
}

#[test]
fn a_result_that_was_stopped_or_is_not_trusted_says_so() {
    let mut s = sample::two_scenarios();
    s[0].results[0].interrupted = true;
    let emulator = s[1].results[1].emulator.as_mut().expect("an emulator");
    emulator.trusted = false;
    emulator.warning = Some("the link was late".to_owned());
    let text = table(&s).to_text();
    assert!(text.contains("bbr3 (stopped)") && text.contains("cubic (!)"), "{text}");
    assert_eq!(warnings(&s), ["cubic on 100mbit 40ms 1bdp 1%: the link was late"]);
}

#[test]
fn a_scenario_reads_as_a_sentence_and_as_its_command() {
    let s = &sample::two_scenarios()[1].scenario;
    assert_eq!(
        in_words(s),
        "100 Mbit/s, 40 ms round trip, a buffer of 1bdp (500kB, 40 ms at that rate), 1% random \
         loss; one flow for 10 s; real QUIC packets over an emulated link inside the process, \
         seed 1."
    );
    assert_eq!(
        command(s),
        "fullpipe compare --over quic --cc bbr3,cubic --rate 100mbit --rtt 40ms --buffer 1bdp \
         --loss 1% --duration 10s --seed 1"
    );
    for (over, link, words, flag) in [
        ("quic", "tun", "packets over an emulated link between two", "--over quic --link tun --cc"),
        ("tcp", "tun", "TCP over an emulated link between two", "--over tcp --cc"),
        ("tcp", "netem", "TCP over its netem between two", "--over tcp --link netem --cc"),
    ] {
        let (over, link) = (over.to_owned(), Some(link.to_owned()));
        let s = ScenarioRecord { over, link, ..s.clone() };
        assert!(in_words(&s).contains(words), "{}", in_words(&s));
        assert!(command(&s).contains(flag), "{}", command(&s));
    }
}
