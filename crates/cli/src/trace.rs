//! `fullpipe trace`: what is understood of a trace file.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _, stdout};
use std::str::FromStr as _;

use fullpipe_report::output::SCHEMA_VERSION;
use fullpipe_report::output::table::number;
use fullpipe_scenario::document::TraceField;
use fullpipe_scenario::trace::{Spread, Summary, Trace};

use crate::failure::Failure;
use crate::print;
use crate::trace_args::ReadingArgs;

/// Show what is understood of a trace file, or convert it
///
/// A trace is a file in Mahimahi's format (a time in milliseconds a line), a table with a rate, a
/// round-trip time, a one-way delay or a loss over time, which is CSV or columns between tabs,
/// semicolons or spaces, or a log: JSON of iperf3, irtt, RIPE Atlas, ndt7, speedtest-cli, speedtest
/// or flent, and the lines of ping -D or fping -D. It may be text, gzip or zstd. --trace and the
/// field trace of a scenario file take the same files.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The file, lte or wifi, or the table of a scenario file that says how to read it, '{ file =
    /// "x.csv", interval = "10ms" }'
    #[arg(id = "trace", value_name = "FILE", value_parser = TraceField::from_str)]
    file: TraceField,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Write the trace to stdout in another format: mahimahi (its rate alone) or csv
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    to: Option<Format>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  fullpipe trace drive.csv
  fullpipe trace drive.csv.gz --to mahimahi > drive.trace
  fullpipe trace '{ file = \"irtt.csv\", interval = \"10ms\" }'
  fullpipe trace '{ file = \"x.csv\", columns = { time = \"ts\", rate = \"dl\" }, time_unit = \"ms\" }' --json
  fullpipe trace drive.csv --rate-unit kbit/s --time-format '%m/%d/%Y %I:%M %p'
  fullpipe trace rates.csv --delay-trace delays.csv
  fullpipe trace iperf3.json
  fullpipe trace lte --to csv";

/// A format to convert to.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Mahimahi,
    Csv,
}

/// The object of --json.
#[derive(serde::Serialize)]
struct Report<'a> {
    schema_version: u32,
    trace: &'a Summary,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let name = args.file.file.rsplit('/').next().unwrap_or(&args.file.file);
    let name: String = name.escape_debug().collect();
    let trace = args.reading.on(&args.file).read();
    let trace = trace.map_err(|why| Failure::bad_input(format!("{name}: {why}")))?;
    if let Some(format) = args.to {
        return convert(&trace, format);
    }
    let summary = trace.summary();
    if args.json {
        let object = Report { schema_version: SCHEMA_VERSION, trace: &summary };
        return print(&format!("{}\n", serde_json::to_string(&object).map_err(Failure::run)?));
    }
    print(&in_words(&name, &summary))
}

fn convert(trace: &Trace, format: Format) -> Result<(), Failure> {
    if matches!(format, Format::Mahimahi) && trace.rate.is_none() {
        return Err(Failure::bad_input(
            "it has no rate, and Mahimahi's format has nothing else; write --to csv",
        ));
    }
    let mut out = BufWriter::new(stdout().lock());
    let written = match format {
        Format::Mahimahi => trace.write_mahimahi(&mut out),
        Format::Csv => trace.write_csv(&mut out),
    };
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::InvalidInput => Err(Failure::bad_input(e)),
        // Whoever closed it has read enough.
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to stdout: {e}")))
        }
        _ => Ok(()),
    }
}

fn in_words(name: &str, s: &Summary) -> String {
    let mut out = String::new();
    let packed = s.compression.map_or(String::new(), |how| format!(" in {how}"));
    let each = s.step_s.map_or(String::new(), |step| format!(", a row each {step} s"));
    let what = match s.format {
        "mahimahi" => format!("Mahimahi's format{packed}, {} packets", s.rows),
        _ => {
            let log = s.program.map_or(String::new(), |program| format!("a log of {program}, "));
            format!("{log}a table{packed} of {} rows{each}", s.rows)
        }
    };
    let end = if s.repeats { "begins again" } else { "its last row holds for ever" };
    let _ = writeln!(out, "{name}: {what}, {} s long; {end}", s.duration_s);
    let list = |out: &mut String, what: &str, names: &[String]| {
        if !names.is_empty() {
            let _ = writeln!(out, "{what}: {}", names.join(", "));
        }
    };
    list(&mut out, "columns", &s.columns);
    let unused: Vec<String> =
        s.unused_columns.iter().map(|name| name.escape_debug().to_string()).collect();
    list(&mut out, "not read", &unused);
    let _ = writeln!(
        out,
        "\n{:<12}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "", "mean", "min", "p5", "p50", "p95", "max"
    );
    row(&mut out, "rate Mbit/s", s.rate_mbps, 1.0);
    row(&mut out, "rtt ms", s.rtt_ms, 1.0);
    row(&mut out, "loss %", s.loss, 100.0);
    if let Some(share) = s.outage_share.filter(|share| *share > 0.0) {
        let _ = writeln!(out, "the rate is 0 for {} % of the time", number(100.0 * share));
    }
    if let (1.., Some(longest)) = (s.gaps, s.longest_gap_s) {
        let count = if s.gaps == 1 { "1 gap".to_owned() } else { format!("{} gaps", s.gaps) };
        let _ = writeln!(
            out,
            "{count} of more than three rows, the longest {longest} s, in which the row before holds"
        );
    }
    if s.missing_cells > 0 {
        let _ =
            writeln!(out, "{} cells without a value; there the row before holds", s.missing_cells);
    }
    if s.other_rows > 0 {
        let _ = writeln!(out, "{} rows of another kind, which are not read", s.other_rows);
    }
    if s.repeated_times > 0 {
        let _ = writeln!(
            out,
            "{} rows at the time of the row before, which they replace",
            s.repeated_times
        );
    }
    plot(&mut out, "Mbit/s", s.rate_course_mbps.as_deref());
    plot(&mut out, "RTT ms", s.rtt_course_ms.as_deref());
    out
}

fn row(out: &mut String, name: &str, spread: Option<Spread>, factor: f64) {
    let Some(s) = spread else { return };
    let _ = write!(out, "{name:<12}");
    for value in [s.mean, s.min, s.p5, s.p50, s.p95, s.max] {
        let _ = write!(out, "{:>9}", number(factor * value));
    }
    out.push('\n');
}

/// Rows of a plot, of eight steps each.
const ROWS: usize = 6;
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn plot(out: &mut String, unit: &str, values: Option<&[f64]>) {
    let Some(values) = values else { return };
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    out.push('\n');
    let eighths = |value: f64| (value / most * (8 * ROWS) as f64).round() as usize;
    for line in (0..ROWS).rev() {
        let label = match line {
            0 => "0".to_owned(),
            line if line + 1 == ROWS => number(most),
            _ => String::new(),
        };
        let blocks: String = values
            .iter()
            .map(|value| BLOCKS[eighths(*value).saturating_sub(8 * line).min(8)])
            .collect();
        let _ = writeln!(out, "{label:>9} |{}", blocks.trim_end());
    }
    let _ = writeln!(out, "{unit:>9} +{}", "-".repeat(values.len()));
}
