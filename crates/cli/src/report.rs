//! `fullpipe report`: kept results as a page, as lines of values and as drawings.

use std::fs;
use std::path::{Path, PathBuf};

use fullpipe_interop::InteropReport;
use fullpipe_judge::peers::{self, PeersReport};
use fullpipe_judge::program::judge::{self, Judged};
use fullpipe_judge::program::{self, ProgramResult};
use fullpipe_lab::kept;
use fullpipe_report::output::plot::Drawing;
use fullpipe_report::output::{self, SCHEMA_VERSION, ScenarioReport, page, table};

use crate::failure::Failure;
use crate::pictures::{self, Pictures};
use crate::print;

/// The file of the page without --report.
const REPORT: &str = "fullpipe-report.html";

/// Make a page, CSV or drawings of results that were kept
///
/// Runs nothing. A path is a directory of fullpipe sweep, one that is still at work too, or of
/// fullpipe run --out, or a file with what run, compare, judge, link, peers or interop printed with
/// --json. Several of scenarios become one page.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directories and files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The file of the page [default: fullpipe-report.html, without --csv, --svg and --series-csv]
    #[arg(long, short = 'r', value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print a line of values for each run, check or direction
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    pictures: Pictures,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe run scenarios/quickstart.toml --out quickstart
  fullpipe report quickstart --svg drawings --series-csv series.csv
  fullpipe report quickstart --csv
  sudo fullpipe judge --json -- iperf3 -c {host} -t 100 > judge.json; fullpipe report judge.json -r judge.html";

/// Kept results.
enum Kept {
    Scenarios(Vec<ScenarioReport>),
    Verdict { judged: Box<Judged>, runs: Vec<ProgramResult> },
    Link(Box<ProgramResult>),
    Peers(Box<PeersReport>),
    Interop(Box<InteropReport>),
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let report = match (&args.report, args.csv || args.pictures.is_any()) {
        (Some(file), _) => Some(file.clone()),
        (None, false) => Some(PathBuf::from(REPORT)),
        (None, true) => None,
    };
    if let Some(file) = &report {
        page::check_replaceable(file).map_err(Failure::bad_input)?;
    }
    let kept = read(&args.paths)?;
    // What cannot be drawn is said before anything is written.
    if args.pictures.is_any() {
        kept.check_series(&args.pictures)?;
        args.pictures.check()?;
    }
    if let Some(file) = &report {
        page::write_text(file, &kept.page(file)?).map_err(Failure::run)?;
    }
    args.pictures.write_svg(|| kept.drawings())?;
    args.pictures.write_series(|file| match &kept {
        Kept::Scenarios(all) => output::write_series_csv(all, file),
        Kept::Link(result) => program::write_series_csv(result, file),
        Kept::Verdict { .. } | Kept::Peers(_) | Kept::Interop(_) => Ok(()),
    })?;
    if args.csv {
        return print(&kept.csv());
    }
    match &report {
        Some(file) => print(&format!("report: {}\n", file.display())),
        None => Ok(()),
    }
}

/// All paths together, which are scenarios, or one of something else.
fn read(paths: &[PathBuf]) -> Result<Kept, Failure> {
    let mut all = Vec::new();
    for path in paths {
        match read_one(path)? {
            Kept::Scenarios(scenarios) => all.extend(scenarios),
            other if paths.len() == 1 => return Ok(other),
            _ => {
                return Err(Failure::bad_input(format!(
                    "{}: it is not of scenarios, and has a page of its own; give it alone",
                    path.display()
                )));
            }
        }
    }
    match all.iter().all(|scenario| scenario.runs.is_empty()) {
        true => Err(Failure::bad_input("no run is over yet")),
        false => Ok(Kept::Scenarios(all)),
    }
}

fn read_one(path: &Path) -> Result<Kept, Failure> {
    if path.is_dir() {
        return kept::read_dir(path).map(Kept::Scenarios).map_err(Failure::bad_input);
    }
    let wrong = |why: String| Failure::bad_input(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let no_json = |e: serde_json::Error| {
        wrong(format!("no JSON of fullpipe: {e}; write what a command printed with --json"))
    };
    let mut object: serde_json::Value = serde_json::from_str(&text).map_err(no_json)?;
    match object.get("schema_version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(other) => {
            return Err(wrong(format!(
                "its schema_version is {other}, and this program's {SCHEMA_VERSION}; record it again"
            )));
        }
        None => return Err(wrong("no JSON of fullpipe: it has no schema_version".to_owned())),
    }
    let mut field = |name: &str| object.get_mut(name).map(serde_json::Value::take);
    if field("scenarios").is_some() {
        return kept::read_object(&text, path).map(Kept::Scenarios).map_err(Failure::bad_input);
    }
    if let Some(link) = field("link") {
        return serde_json::from_value(link).map(Kept::Link).map_err(no_json);
    }
    if let Some(peers) = field("peers") {
        return serde_json::from_value(peers).map(Kept::Peers).map_err(no_json);
    }
    if let Some(interop) = field("interop") {
        return serde_json::from_value(interop).map(Kept::Interop).map_err(no_json);
    }
    if let (Some(runs), Some(_)) = (field("runs"), field("looks_like")) {
        let runs = serde_json::from_value(runs).map_err(no_json)?;
        let judged = serde_json::from_str(&text).map_err(no_json)?;
        return Ok(Kept::Verdict { judged, runs });
    }
    Err(wrong(
        "no results that have a page; write what run, compare, judge, link, peers run or interop printed with --json"
            .to_owned(),
    ))
}

impl Kept {
    /// The page that is to be in a file.
    fn page(&self, file: &Path) -> Result<String, Failure> {
        match self {
            Self::Scenarios(all) => page::render(all).map_err(Failure::run),
            Self::Verdict { judged, runs } => {
                judge::page_of_runs(judged, runs).map_err(Failure::run)
            }
            Self::Link(result) => program::page(result).map_err(Failure::run),
            Self::Peers(report) => Ok(peers::render(report)),
            Self::Interop(report) => {
                let place = std::path::absolute(file).map_err(Failure::run)?;
                let dir = place.parent().unwrap_or(Path::new("/"));
                Ok(fullpipe_interop::render(report, dir))
            }
        }
    }

    fn csv(&self) -> String {
        let titled =
            |title: &str, table: &table::Table| format!("# {title}\n{}", output::csv_of(table));
        match self {
            Self::Scenarios(all) => output::csv(all),
            Self::Verdict { judged, .. } => output::csv_of(&judge::table(judged)),
            Self::Link(result) => output::csv_of(&program::table(result)),
            Self::Interop(report) => output::csv_of(&fullpipe_interop::table(report)),
            Self::Peers(report) => {
                peers::tables(report).iter().map(|(title, table)| titled(title, table)).collect()
            }
        }
    }

    /// The drawings with their names.
    fn drawings(&self) -> Vec<(String, Drawing)> {
        match self {
            Self::Scenarios(all) => pictures::drawings(all),
            Self::Verdict { runs, .. } => judge::drawings_of_runs(runs),
            Self::Link(result) => vec![(result.path.clone(), program::drawing(result))],
            Self::Peers(_) | Self::Interop(_) => Vec::new(),
        }
    }

    /// Checks that there is what the options ask for.
    fn check_series(&self, asked: &Pictures) -> Result<(), Failure> {
        let rows = match self {
            Self::Scenarios(all) => all.iter().flat_map(|s| &s.runs).map(|r| r.series.len()).sum(),
            Self::Link(result) => result.series.len(),
            Self::Verdict { .. } | Self::Peers(_) | Self::Interop(_) => 0,
        };
        let option = match asked {
            Pictures { svg: Some(_), .. } if self.drawings().is_empty() => "--svg",
            Pictures { series_csv: Some(_), .. } if rows == 0 => "--series-csv",
            _ => return Ok(()),
        };
        Err(Failure::bad_input(format!(
            "{option}: nothing over time was recorded; a sweep needs an interval in its file for that"
        )))
    }
}
