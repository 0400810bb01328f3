use super::*;
use crate::output::sample;

#[test]
fn the_page_is_complete_and_needs_nothing_beside_it() {
    let page = render(&sample::two_scenarios()).expect("a page");
    assert_eq!(page.matches("* plotly.js v").count(), 1, "the script stands there once");
    assert_eq!(page.matches("Plotly.newPlot(\"plot-").count(), 2, "a plot for each scenario");
    assert!(!page.contains("<script src") && !page.contains("<link"));
    assert!(!page.contains("MathJax-script"));
    assert!(page.contains("id=\"plot-0\"") && page.contains("id=\"plot-1\""));
    for (name, _) in DEFINITIONS {
        assert!(page.contains(&format!("<dt>{name}</dt>")), "{name}");
    }
    assert!(page.contains("8 µs at p50, 120 µs at p99, 400 µs at p99.9, trusted"));
    assert!(page.len() < 6_000_000, "{}", page.len());
}

#[test]
fn nothing_from_a_result_becomes_markup() {
    let mut s = sample::two_scenarios();
    let evil = "</script><script>alert('x')</script>&";
    s[0].results[0].cc = evil.to_owned();
    s[0].scenario.cc[0] = evil.to_owned();
    s[0].scenario.buffer = evil.to_owned();
    s[0].results[0].series.state[0] = Some(evil.to_owned());
    let emulator = s[0].results[0].emulator.as_mut().expect("an emulator");
    emulator.warning = Some(evil.to_owned());
    let page = render(&s).expect("a page");
    assert!(!page.contains("<script>alert"), "markup got through");
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;"));
}

#[test]
fn a_result_that_is_not_trusted_says_so_at_the_top() {
    let mut s = sample::two_scenarios();
    let emulator = s[0].results[0].emulator.as_mut().expect("an emulator");
    emulator.trusted = false;
    emulator.warning = Some("the link was late".to_owned());
    s[1].interrupted = true;
    let page = render(&s).expect("a page");
    let warning = page.find("Not to be trusted: bbr3").expect("a warning");
    assert!(warning < page.find("<section>").expect("a section"));
    assert!(page.contains("Stopped before its time"));
}

#[test]
fn the_file_is_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("report.html");
    std::fs::write(&path, "old").expect("an old report");
    check_writable(&path).expect("writable");
    write(&path, &sample::two_scenarios()).expect("written");
    assert!(std::fs::read_to_string(&path).expect("read").ends_with("</html>\n"));
    let left = std::fs::read_dir(dir.path()).expect("list").count();
    assert_eq!(left, 1, "something was left beside the report");
}

#[test]
fn a_path_that_cannot_be_written_is_known_before() {
    let dir = tempfile::tempdir().expect("a directory");
    for bad in [
        dir.path().to_owned(),
        dir.path().join("no/such/report.html"),
        PathBuf::from("/dev/null"),
        PathBuf::from("/"),
        PathBuf::from(""),
        PathBuf::from("/proc/report.html"),
    ] {
        let error = check_writable(&bad).expect_err(&bad.display().to_string()).to_string();
        assert!(!error.contains('\n') && error.starts_with("cannot write the report"), "{error}");
    }
}
