//! A page of one run: the table, and the rates, the queues and the losses of both directions.

use std::fmt::Write as _;
use std::io;

use super::{ProgramResult, ProgramSample, table};
use fullpipe_report::output::page::{self, escape};
use fullpipe_report::output::plot::{Drawing, Kind, Line, Panel, PlotError};
use fullpipe_report::output::table::number;

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(result: &ProgramResult) -> Result<String, PlotError> {
    let command = match result.command.as_slice() {
        [] => "a relay".to_owned(),
        words => words.join(" "),
    };
    let mut page = page::head(&format!("{command} on a path"));
    let [path, command] = [&result.path, &command].map(|text| escape(text));
    // Text is written to text without fail.
    let _ = writeln!(page, "<h1>{path}</h1>");
    let ended =
        result.ended.map_or_else(String::new, |e| format!(" It ended with {}.", e.in_words()));
    let seconds = number(result.elapsed_s);
    let _ = writeln!(page, "<p><code>{command}</code>, {seconds} s.{ended}</p>");
    if let Some(warning) = &result.emulator.warning {
        let warning = escape(warning);
        let _ = writeln!(page, "<p><strong>Not to be trusted: {warning}</strong></p>");
    }
    page::html_table(&mut page, "Both directions", &table(result));
    page::plot(&mut page, "path", &drawing(result))?;
    page.push_str(&page::foot(", fullpipe link"));
    Ok(page)
}

/// Writes the series of both directions: a line of names, then a line for each interval. `down` is
/// what the command received, `up` what it sent. RFC 4180.
///
/// # Errors
/// `out` cannot be written to.
pub fn write_series_csv(result: &ProgramResult, mut out: impl io::Write) -> io::Result<()> {
    let columns = ["mbps", "capacity_mbps", "queue_ms", "lost_packets"];
    let names = ["down", "up"].iter().flat_map(|way| columns.map(|name| format!("{name}.{way}")));
    writeln!(out, "t_s,{}", names.collect::<Vec<_>>().join(","))?;
    for row in &result.series {
        write!(out, "{}", row.at_s)?;
        for way in 0..2 {
            let capacity = row.capacity_mbps[way].map_or(String::new(), |mbps| mbps.to_string());
            let (mbps, queue_ms, lost) = (row.mbps[way], row.queue_ms[way], row.lost[way]);
            write!(out, ",{mbps},{capacity},{queue_ms},{lost}")?;
        }
        writeln!(out)?;
    }
    out.flush()
}

/// The plots of that page: rates, queues and losses of both directions.
pub fn drawing(result: &ProgramResult) -> Drawing {
    let both = |name: &str, unit: &str, value: fn(&ProgramSample) -> [f64; 2]| {
        let way = |way: usize| {
            result.series.iter().map(|row| (row.at_s, value(row)[way])).collect::<Vec<_>>()
        };
        Panel::new(name, "time, s", unit)
            .with(Line::new("to the command", way(0)))
            .with(Line::new("from the command", way(1)))
    };
    let mut delivered = both("Delivered", "Mbit/s", |row| row.mbps);
    // Behind the rates: what the path could carry, where that changes or the two are not the same.
    let capacity = |way: usize| -> Vec<(f64, f64)> {
        let mut from = 0.0;
        let each = result.series.iter().filter_map(|row| {
            // A row's is that of the time before it.
            let begin = std::mem::replace(&mut from, row.at_s);
            Some((begin, row.capacity_mbps[way]?))
        });
        let each: Vec<(f64, f64)> = each.collect();
        each.iter().copied().chain(each.last().map(|last| (from, last.1))).collect()
    };
    let [down, up] = [0, 1].map(capacity);
    let line = |name: &str, points: Vec<(f64, f64)>, kind| {
        (!points.is_empty()).then(|| Line::new(name, points).colour("published").kind(kind))
    };
    let is_other = down != up;
    delivered.lines.splice(0..0, line("capacity to the command", down, Kind::Area));
    delivered
        .lines
        .extend(line("capacity from the command", up, Kind::Dashed).filter(|_| is_other));
    Drawing::of(vec![
        delivered,
        both("Queueing delay", "ms", |row| row.queue_ms),
        both("Lost", "packets", |row| row.lost.map(|lost| lost as f64)),
    ])
}
