//! The page of the figures in a real browser: Chromium, without a window.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

use fullpipe_figures::{FIGURES, page, run_all};
use fullpipe_judge::peers::{
    Installed, Missing, PeerPath, PeerRun, PeersReport, SenderRuns, render,
};
use fullpipe_lab::{BackendChoice, RunOptions, run_point};
use fullpipe_report::output::{self, ScenarioReport};
use fullpipe_report::plan::Plan;
use fullpipe_scenario::Edition;
use serde_json::Value;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Panels of lines, bands of states and of words, bars, and a logarithmic axis.
const FIGURES_SHOWN: [&str; 4] = ["fig2", "fig4", "tuning", "aggregation"];

/// In front of everything else on the page: it hears of every error.
const LISTEN: &str = "<script>window.heard = [];
addEventListener('error', (e) => heard.push(String(e.message)));
addEventListener('unhandledrejection', (e) => heard.push(String(e.reason)));
for (const kind of ['error', 'warn']) {
  const say = console[kind];
  console[kind] = (...words) => { heard.push(kind + ': ' + words.join(' ')); say(...words); };
}</script>";

/// Behind everything else: what is to be seen, once everything is drawn.
const LOOK: &str = "<script>(function look() {
  if (!document.body.dataset.drawn) return setTimeout(look, 20);
  const shown = (svg) => svg.getBoundingClientRect().width > 0;
  const plots = Array.from(document.querySelectorAll('.plot')).map((plot) => {
    const svgs = Array.from(plot.querySelectorAll('svg')).filter(shown);
    const svg = svgs[0], box = svg.getBoundingClientRect();
    const values = JSON.parse(plot.querySelector('script').textContent);
    const pixels = Object.values(values.places)[Object.keys(values.places).findIndex(
      (size) => plot.querySelector('.' + size).contains(svg))][0].pixels;
    const scale = box.width / svg.viewBox.baseVal.width;
    const point = { clientX: box.left + scale * (pixels[0] + pixels[2]) / 2,
      clientY: box.top + scale * (pixels[1] + pixels[3]) / 2 };
    svg.dispatchEvent(new PointerEvent('pointermove', point));
    const tip = document.getElementById('tip'), said = tip.hidden ? 0 : tip.children.length;
    svg.dispatchEvent(new PointerEvent('pointerleave', point));
    return {
      id: plot.id, shown: svgs.length, said, wanted: values.panels[0].lines.filter((l) => l.name).length,
      lines: svg.querySelectorAll('polyline, rect, line').length,
      width: box.width,
      ink: getComputedStyle(svg.querySelector('text')).fill,
      letter: parseFloat(getComputedStyle(svg.querySelector('text')).fontSize) * scale,
      outside: Array.from(svg.querySelectorAll('text')).filter((t) => {
        const b = t.getBoundingClientRect();
        return b.width > 0 && (b.left < box.left - 1 || b.right > box.right + 1);
      }).map((t) => t.textContent.trim()),
    };
  });
  const press = (key) => {
    document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    return document.activeElement.id;
  };
  const keys = [press('j'), press('j'), press('k')];
  const facts = { heard, plots, keys, inner: innerWidth, page: getComputedStyle(document.body).backgroundColor,
    wide: document.documentElement.scrollWidth - innerWidth };
  parent.postMessage(JSON.stringify(facts), '*');
})();</script>";

/// A window cannot be as narrow as a telephone; a frame in it can.
fn write_frame(file: &Path, width: u32) -> PathBuf {
    let text = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\"><body>\
         <iframe src=\"file://{}\" width={width} height=900 style=\"border:0\"></iframe><script>\
         addEventListener('message', (e) => {{ const out = document.createElement('pre'); out.id = 'facts'; \
         out.textContent = e.data; document.body.replaceChildren(out); }});</script>",
        file.display()
    );
    let frame = file.with_extension(format!("{width}.html"));
    std::fs::write(&frame, text).expect("a file");
    frame
}

/// The first that is there.
fn browser() -> &'static str {
    let found = NAMES.into_iter().find(|name| fullpipe_testkit::program(name).is_some());
    found.expect("the test names Need::Chromium")
}

fn open(browser: &str, dir: &Path, file: &Path, flags: &[&str]) -> Output {
    let fixed =
        ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"];
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let mut command = Command::new(browser);
    command.args(fixed).arg(profile).arg("--virtual-time-budget=20000");
    // Nothing that a page of its own could want is anywhere but here.
    command.args(["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]);
    command.args(flags).arg(format!("file://{}", file.display()));
    command.output().expect("it starts")
}

/// The page as the browser sees it.
fn facts(browser: &str, dir: &Path, file: &Path, flags: &[&str]) -> Value {
    let mut all = vec!["--dump-dom"];
    all.extend(flags);
    let said = open(browser, dir, file, &all);
    let dom = String::from_utf8_lossy(&said.stdout).into_owned();
    let (_, rest) = dom.split_once("<pre id=\"facts\">").unwrap_or_else(|| {
        panic!("the page was not drawn to its end: {}", String::from_utf8_lossy(&said.stderr))
    });
    let (json, _) = rest.split_once("</pre>").expect("an end");
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&json).expect("JSON")
}

fn write_page(dir: &Path) -> PathBuf {
    let figures: Vec<_> = FIGURES.iter().filter(|f| FIGURES_SHOWN.contains(&f.name)).collect();
    let stop = AtomicBool::new(false);
    let results =
        run_all(&figures, BackendChoice::SIM, false, 2, &stop, |_| ()).expect("sound files");
    let text = page::render(&results, BackendChoice::SIM).expect("a page");
    let text = text.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    let file = dir.join("figures.html");
    std::fs::write(&file, text.replacen("</body>", &format!("{LOOK}</body>"), 1)).expect("a file");
    file
}

/// A report on eight flows of two algorithms: small plots too.
fn write_report(dir: &Path) -> PathBuf {
    let text = "cc = [\"bbr3\", \"cubic\"]\nduration = \"3s\"\nexpect = [\"jain >= 0.5\"]\n\
                path = { rate = \"20mbit\", rtt = \"40ms\" }\nflow = [{ count = 8 }]\n";
    let plan = Plan::parse(text, "x.toml", "x", Path::new(""), Edition::default()).expect("sound");
    let options = RunOptions { rows: Some(200), ..RunOptions::default() };
    let stop = AtomicBool::new(false);
    let mut report = ScenarioReport::of(&plan, None, None);
    for i in 0..plan.grid.runs.len() {
        report.runs.push(run_point(&plan, i, &options, &stop, &mut |_| ()).expect("it runs"));
    }
    let text = output::page::render(&[report]).expect("a page");
    let text = text.replacen("<head>", &format!("<head>{LISTEN}"), 1);
    let file = dir.join("report.html");
    std::fs::write(&file, text.replacen("</body>", &format!("{LOOK}</body>"), 1)).expect("a file");
    file
}

fn a_browser_shows_every_plot_wide_and_narrow_in_light_and_dark_without_an_error() {
    let browser = browser();
    let dir = tempfile::tempdir().expect("a directory");
    let figures = write_page(dir.path());
    let report = write_report(dir.path());
    let mut inks = Vec::new();
    for (file, names) in [(&figures, &FIGURES_SHOWN[..]), (&report, &[])] {
        for (width, scheme) in [(1400, "1"), (1400, "0"), (420, "1"), (420, "0")] {
            let paper = if scheme == "1" { "rgb(255, 255, 255)" } else { "rgb(13, 17, 23)" };
            let setting = format!("--blink-settings=preferredColorScheme={scheme}");
            let file = write_frame(file, width);
            let facts = facts(browser, dir.path(), &file, &[&setting, "--window-size=1500,1000"]);
            assert_eq!(facts["inner"], width, "{facts}");
            assert_eq!(facts["heard"], serde_json::json!([]), "{facts}");
            assert_eq!(facts["page"], paper);
            assert!(
                facts["wide"].as_f64().expect("a number") <= 0.0,
                "it scrolls sideways: {facts}"
            );
            let plots = facts["plots"].as_array().expect("plots");
            if names.is_empty() {
                assert!(plots.len() > 10, "a plot of all, and one of each flow: {}", plots.len());
            } else {
                assert_eq!(facts["keys"], serde_json::json!(["fig2", "fig4", "fig2"]), "j, j, k");
                assert_eq!(plots.len(), names.len());
            }
            for plot in plots {
                assert_eq!(plot["shown"], 1, "one of the widths: {plot}");
                assert!(plot["said"].as_u64() > Some(1), "pointing at it says values: {plot}");
                assert!(plot["letter"].as_f64() > Some(9.0), "it can be read: {plot}");
                assert_eq!(plot["outside"], serde_json::json!([]), "all words are inside: {plot}");
                let least = if names.is_empty() { 200.0 } else { 0.6 * f64::from(width) };
                assert!(plot["width"].as_f64() > Some(least), "{plot}");
            }
            inks.push(plots[0]["ink"].as_str().expect("a colour").to_owned());
        }
    }
    assert_ne!(inks[0], inks[1], "what is drawn follows the page");
}

/// The parts of a page of tables that are to be seen.
const LOOK_AT_TABLES: &str = "<script>addEventListener('load', () => {
  const rows = (table) => Array.from(table.querySelectorAll('tbody tr'));
  const bars = Array.from(document.querySelectorAll('#all td.bar'));
  const facts = { heard, inner: innerWidth, page: getComputedStyle(document.body).backgroundColor,
    wide: document.documentElement.scrollWidth - innerWidth,
    tables: Array.from(document.querySelectorAll('table')).map((table) => ({
      rows: rows(table).length, cells: rows(table).map((row) => row.cells.length), columns: Array.from(
        table.tHead.rows[0].cells).reduce((sum, cell) => sum + cell.colSpan, 0) })),
    bars: bars.length, drawn: bars.filter((bar) => getComputedStyle(bar).backgroundImage.includes('gradient')).length,
    letter: Math.min(...Array.from(document.querySelectorAll('td')).map(
      (cell) => parseFloat(getComputedStyle(cell).fontSize))),
    text: document.body.innerText };
  parent.postMessage(JSON.stringify(facts), '*');
});</script>";

/// A page of three senders, of which one failed on a path, with names that are no HTML.
fn write_peers(dir: &Path) -> PathBuf {
    let names = ["linux:bbr", "<b>odd</b>:cubic", "tquic:copa"];
    let stop = AtomicBool::new(false);
    let result = |path: &str, copies: u64| {
        let text = format!(
            "cc = \"cubic\"\nduration = \"3s\"\npath = {{ {path} }}\nflow = [{{ count = {copies} }}]\n"
        );
        let plan = Plan::parse(&text, "x.toml", "x", Path::new(""), Edition::default());
        let plan = plan.expect("sound");
        run_point(&plan, 0, &RunOptions::default(), &stop, &mut |_| ()).expect("it runs")
    };
    let paths = [
        ("clean", "rate = \"20mbit\", rtt = \"40ms\""),
        ("slow", "rate = \"2mbit\", rtt = \"40ms\""),
    ];
    let path =
        |(name, path): (&str, &str)| PeerPath { name: name.to_owned(), path: path.to_owned() };
    let mut report = PeersReport::new(paths.map(path).into(), 3.0);
    for (i, name) in names.into_iter().enumerate() {
        let stack = Installed {
            name: name.to_owned(),
            version: Some("1.0".to_owned()),
            says: "<i>1.0</i>".to_owned(),
            date: None,
        };
        let run = |((name, path), copies): ((&str, &str), u64)| {
            let fails = i == 2 && name == "slow";
            let result = (!fails).then(|| result(path, copies));
            let error = fails.then(|| "sent nothing".to_owned());
            PeerRun { path: name.to_owned(), copies, result, error, before: None }
        };
        let runs = paths.map(|path| (path, 1)).into_iter().chain([(paths[0], 2)]).map(run);
        report.senders.push(SenderRuns {
            name: name.to_owned(),
            stack,
            runs: runs.collect(),
            verdict: None,
        });
    }
    let missing = Missing { name: "picoquic".to_owned(), reason: "needs python3.12".to_owned() };
    report.missing.push(missing);
    let text = render(&report).replacen("<head>", &format!("<head>{LISTEN}"), 1);
    let file = dir.join("peers.html");
    std::fs::write(&file, text.replacen("</body>", &format!("{LOOK_AT_TABLES}</body>"), 1))
        .expect("a file");
    file
}

fn a_browser_shows_the_table_of_stacks() {
    let browser = browser();
    let dir = tempfile::tempdir().expect("a directory");
    let file = write_peers(dir.path());
    for (width, scheme) in [(1400, "1"), (1400, "0"), (420, "1"), (420, "0")] {
        let frame = write_frame(&file, width);
        let setting = format!("--blink-settings=preferredColorScheme={scheme}");
        let facts = facts(browser, dir.path(), &frame, &[&setting, "--window-size=1500,1000"]);
        assert_eq!(facts["heard"], serde_json::json!([]), "{facts}");
        let paper = if scheme == "1" { "rgb(255, 255, 255)" } else { "rgb(13, 17, 23)" };
        assert_eq!((&facts["inner"], &facts["page"]), (&width.into(), &paper.into()));
        assert!(facts["wide"].as_f64().expect("a number") <= 0.0, "it scrolls sideways: {facts}");
        assert!(facts["letter"].as_f64() > Some(9.0), "it can be read: {facts}");
        // All paths, each path, and the versions.
        let tables = facts["tables"].as_array().expect("tables");
        assert_eq!(tables.len(), 4, "{facts}");
        for table in tables {
            assert_eq!(table["rows"], 3, "{facts}");
            let cells = table["cells"].as_array().expect("cells");
            assert!(cells.iter().all(|n| *n == table["columns"]), "a row has all columns: {table}");
        }
        assert_eq!((&facts["bars"], &facts["drawn"]), (&6.into(), &6.into()), "{facts}");
        let text = facts["text"].as_str().expect("text");
        for part in [
            "<b>odd</b>:cubic",
            "<i>1.0</i>",
            "picoquic needs python3.12",
            "tquic:copa on slow failed: sent nothing",
        ] {
            assert!(text.contains(part), "no '{part}' in {text}");
        }
    }
}

fn a_browser_prints_the_page() {
    let browser = browser();
    let dir = tempfile::tempdir().expect("a directory");
    let file = write_page(dir.path());
    // Printed is what stands there, and that is not to be the facts.
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::write(&file, text.replace(LOOK, "")).expect("a file");
    let pdf = dir.path().join("figures.pdf");
    open(browser, dir.path(), &file, &[&format!("--print-to-pdf={}", pdf.display())]);
    let printed = std::fs::read(&pdf).expect("a file");
    assert!(printed.starts_with(b"%PDF") && printed.len() > 50_000, "{} bytes", printed.len());
}

fullpipe_testkit::tests! {
    long [Chromium]
        a_browser_shows_every_plot_wide_and_narrow_in_light_and_dark_without_an_error,
        a_browser_shows_the_table_of_stacks,
        a_browser_prints_the_page;
}
