//! A page of one run: the table, and the rates, the queues and the losses of both directions.

use std::fmt::Write;

use super::{ProgramResult, ProgramSample, table};
use fullpipe_lab::output::page::{self, escape};
use fullpipe_lab::output::plot::{Drawing, Line, Panel, PlotError};
use fullpipe_lab::output::table::number;

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
    page::html_table(&mut page, &table(result));
    let both = |name: &str, unit: &str, value: fn(&ProgramSample) -> [f64; 2]| {
        let way = |way: usize| {
            result.series.iter().map(|row| (row.at_s, value(row)[way])).collect::<Vec<_>>()
        };
        Panel::new(name, "time, s", unit)
            .with(Line::new("to the command", way(0)))
            .with(Line::new("from the command", way(1)))
    };
    let drawing = Drawing::of(vec![
        both("Delivered", "Mbit/s", |row| row.mbps),
        both("Queueing delay", "ms", |row| row.queue_ms),
        both("Lost", "packets", |row| row.lost.map(|lost| lost as f64)),
    ]);
    page::plot(&mut page, "path", &drawing)?;
    page.push_str(&page::foot(", fullpipe link"));
    Ok(page)
}
