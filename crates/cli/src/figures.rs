//! `fullpipe figures`: the figures of the papers.

use std::path::PathBuf;
use std::time::Instant;

use fullpipe_figures::{FIGURES, Figure, FigureResult, News, page, run_all};
use fullpipe_lab::BackendChoice;
use fullpipe_report::output::page as files;
use fullpipe_scenario::suggest::did_you_mean;
use serde::Serialize;

use crate::failure::Failure;
use crate::heartbeat::PATIENCE;
use crate::interrupt::Interrupt;
use crate::over_args::StackArgs;
use crate::{print, say};

/// Reproduce the figures of the papers, and say of each whether it was seen
///
/// Runs the experiments of the BBR papers, slides and test suites in the simulator, with all cores,
/// and says for each what had to be seen and what was. Without names there is a list.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The figures to run, like fig3 or coexist
    #[arg(value_name = "NAME", value_parser = find, conflicts_with = "all")]
    names: Vec<&'static Figure>,
    /// Run all figures
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    stack: StackArgs,
    /// Run the longest tables at their published length too
    #[arg(long)]
    full: bool,
    /// Write the page with all plots into this directory: figures.html
    #[arg(long, short = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write a picture of each figure into this directory: NAME.svg
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe figures
  fullpipe figures fig3 coexist
  fullpipe figures --all --out figures";

#[derive(Serialize)]
struct Results {
    figures: Vec<FigureResult>,
    /// True if it was stopped: the figures are those that were finished.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

/// The list that is printed when no figure is named.
#[derive(Serialize)]
struct List {
    figures: Vec<ListedFigure>,
}

#[derive(Serialize)]
struct ListedFigure {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    over_noq: bool,
}

fn find(name: &str) -> Result<&'static Figure, String> {
    FIGURES.iter().find(|f| f.name == name).ok_or_else(|| {
        let names: Vec<_> = FIGURES.iter().map(|f| f.name).collect();
        let meant = did_you_mean(name, names.iter().copied());
        format!("there is no such figure; there are {}{meant}", names.join(", "))
    })
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let backend = args.stack.choose()?;
    let figures = chosen(args, backend)?;
    if figures.is_empty() {
        return if args.json {
            print_json(&List { figures: FIGURES.iter().map(entry).collect() })
        } else {
            print(&list())
        };
    }
    for (dir, file) in [(&args.out, page::FILE), (&args.svg, "fig1.svg")] {
        let Some(dir) = dir else { continue };
        std::fs::create_dir_all(dir).map_err(|e| {
            Failure::bad_input(format!("cannot make the directory {}: {e}", dir.display()))
        })?;
        let check = match file {
            page::FILE => files::check_replaceable,
            _ => files::check_writable,
        };
        check(&dir.join(file)).map_err(Failure::bad_input)?;
    }
    let stop = Interrupt::install()?.flag();
    let mut written = Ok(());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut spoken = Instant::now();
    let results = run_all(&figures, backend, args.full, jobs, &stop, |news| match news {
        News::Figure(result) if !args.json && written.is_ok() => {
            written = print(&line(result));
            spoken = Instant::now();
        }
        News::Runs { done, all } if spoken.elapsed() >= PATIENCE => {
            say(&format!("{done} of {all} runs are over"));
            spoken = Instant::now();
        }
        _ => {}
    });
    let results = results.map_err(Failure::run)?;
    written?;
    let interrupted = results.len() < figures.len();
    if let Some(dir) = args.out.as_ref().filter(|_| !results.is_empty()) {
        page::write(dir, &results, backend).map_err(Failure::run)?;
        say(&format!("page: {}", dir.join(page::FILE).display()));
    }
    if let Some(dir) = args.svg.as_ref().filter(|_| !results.is_empty()) {
        let names = page::write_pictures(dir, &results).map_err(Failure::run)?;
        say(&format!("pictures: {} in {}", names.join(", "), dir.display()));
    }
    let changed: Vec<&str> = results.iter().filter(|r| !r.as_known).map(|r| r.name).collect();
    let changed = (!changed.is_empty()).then(|| changed.join(", "));
    let (seen, known) = results.iter().fold((0, 0), |(seen, known), r| {
        (seen + usize::from(r.seen), known + usize::from(!r.seen && r.as_known))
    });
    if args.json {
        print_json(&Results { figures: results, interrupted })?;
    } else {
        print(&format!("{seen} of {} seen, {known} known not to be\n", figures.len()))?;
    }
    if interrupted {
        return Err(Failure::Interrupted("interrupted; these are the figures so far".into()));
    }
    match changed {
        None => Ok(()),
        Some(names) => Err(Failure::run(format!("not what the files say is known: {names}"))),
    }
}

/// The figures that were asked for, which the backend can run; with --all, all that it can.
fn chosen(args: &Args, backend: BackendChoice) -> Result<Vec<&'static Figure>, Failure> {
    let all = || FIGURES.iter().filter(move |f| f.runs_over(backend));
    if args.all {
        return Ok(all().collect());
    }
    let Some(figure) = args.names.iter().find(|f| !f.runs_over(backend)) else {
        return Ok(args.names.clone());
    };
    let names: Vec<_> = all().map(|f| f.name).collect();
    let there = match names.join(", ") {
        none if none.is_empty() => "no figure does".to_owned(),
        names => format!("there are {names}"),
    };
    Err(Failure::bad_input(format!("{} does not run over {backend}; {there}", figure.name)))
}

fn print_json(object: &impl Serialize) -> Result<(), Failure> {
    print(&format!("{}\n", serde_json::to_string(object).map_err(Failure::run)?))
}

fn entry(figure: &Figure) -> ListedFigure {
    let Figure { name, title, source, .. } = *figure;
    ListedFigure { name, title, source, over_noq: figure.runs_over(BackendChoice::NOQ_REAL) }
}

fn list() -> String {
    let real = |f: &Figure| match f.runs_over(BackendChoice::NOQ_REAL) {
        true => "; over noq in real time too",
        false => "",
    };
    let each =
        FIGURES.iter().map(|f| format!("{:<12} {} ({}{})\n", f.name, f.title, f.source, real(f)));
    let list: String = each.collect();
    format!("{list}fullpipe figures NAME... runs some of them, --all all\n")
}

fn line(r: &FigureResult) -> String {
    let verdict = match (r.seen, r.as_known) {
        (true, true) => "seen    ",
        (false, true) => "known   ",
        (true, false) => "NOW SEEN",
        (false, false) => "NOT SEEN",
    };
    let shorter = r.shortened.as_ref().map_or_else(String::new, |s| format!(" [shortened: {s}]"));
    let indent = " ".repeat(14);
    format!(
        "{verdict} {}: {}{shorter}\n{indent}target: {}\n{indent}{}\n",
        r.name, r.figure, r.target, r.detail
    )
}
