//! The page of the figures in a real browser, where there is one: Chromium, without a window.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;

use fullpipe_lab::BackendChoice;
use fullpipe_lab::figures::{FIGURES, page, run_all};
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
  const plots = Array.from(document.querySelectorAll('.plot')).map((plot) => ({
    id: plot.id,
    wanted: plot.data.length,
    lines: Array.from(plot.querySelectorAll('.trace path.js-line, .trace .bars path, .trace .points path'))
      .filter((p) => (p.getAttribute('d') || '').length > 8)
      .map((p) => p.closest('.trace')).filter((t, i, all) => all.indexOf(t) === i).length,
    bands: plot.layout.shapes.length,
    shapes: plot.querySelectorAll('.shapelayer path').length,
    width: plot.getBoundingClientRect().width,
    ink: plot.querySelector('.xtick text').style.fill,
    outside: Array.from(plot.querySelectorAll('text')).filter((t) => {
      const box = t.getBoundingClientRect(), whole = plot.getBoundingClientRect();
      return box.width > 0 && (box.left < whole.left - 1 || box.right > whole.right + 1);
    }).map((t) => t.textContent),
  }));
  const press = (key) => {
    document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    return document.activeElement.id;
  };
  const keys = [press('j'), press('j'), press('k')];
  const facts = { heard, plots, keys, page: getComputedStyle(document.body).backgroundColor,
    wide: document.documentElement.scrollWidth - innerWidth };
  const out = document.createElement('pre');
  out.id = 'facts';
  out.textContent = JSON.stringify(facts);
  document.body.replaceChildren(out);
})();</script>";

/// The first browser that starts.
fn browser() -> Option<&'static str> {
    NAMES.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|said| said.status.success())
    })
}

fn open(browser: &str, dir: &Path, file: &Path, flags: &[&str]) -> Output {
    let fixed =
        ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"];
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    let mut command = Command::new(browser);
    command
        .args(fixed)
        .arg(profile)
        .args(["--virtual-time-budget=20000", "--window-size=1180,900"]);
    // Nothing that a page of its own could want is anywhere but here.
    command.args(["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]);
    command.args(flags).arg(format!("file://{}", file.display()));
    command.output().expect("it starts")
}

/// What the browser sees on the page.
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

#[test]
fn a_browser_draws_every_plot_in_light_and_dark_without_an_error() {
    let Some(browser) = browser() else {
        println!("skipped: there is no browser; install one, as with apt-get install chromium");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let file = write_page(dir.path());
    let mut inks = Vec::new();
    for (scheme, paper) in [("1", "rgb(255, 255, 255)"), ("0", "rgb(13, 17, 23)")] {
        let setting = format!("--blink-settings=preferredColorScheme={scheme}");
        let facts = facts(browser, dir.path(), &file, &[&setting]);
        assert_eq!(facts["heard"], serde_json::json!([]), "{facts}");
        assert_eq!(facts["page"], paper);
        assert!(facts["wide"].as_f64().expect("a number") <= 0.0, "it scrolls sideways: {facts}");
        assert_eq!(facts["keys"], serde_json::json!(["fig2", "fig4", "fig2"]), "j, j, k");
        let plots = facts["plots"].as_array().expect("plots");
        assert_eq!(plots.len(), FIGURES_SHOWN.len());
        for plot in plots {
            assert!(plot["width"].as_f64().expect("a number") > 900.0, "{plot}");
            assert_eq!(plot["lines"], plot["wanted"], "each line has its path: {plot}");
            assert_eq!(plot["shapes"], plot["bands"], "each band is there: {plot}");
            assert_eq!(plot["outside"], serde_json::json!([]), "all words are inside: {plot}");
        }
        inks.push(plots[0]["ink"].as_str().expect("a colour").to_owned());
    }
    assert_ne!(inks[0], inks[1], "what is drawn follows the page");
}

#[test]
fn a_browser_prints_the_page() {
    let Some(browser) = browser() else { return println!("skipped: there is no browser") };
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
