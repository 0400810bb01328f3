//! flent's logs, whose series stand beside each other.

use std::fmt::Write as _;

use serde_json::Value;

use super::logs::AsTable;
use super::table::MAX_ROWS;
use super::{Columns, TraceFileError, TraceOptions, wrong};

/// Series that are taken: the first one that has values. Rates are in Mbit/s.
const RATES: [&str; 4] = ["TCP download sum", "TCP download", "TCP upload sum", "TCP upload"];
const RTTS: [&str; 2] = ["Ping (ms) ICMP", "Ping (ms) avg"];

/// The name of the column of times.
const TIME: &str = "time_s";

/// A series: its name and its values.
type Series<'a> = (&'a str, &'a Value);

/// A name as the table has it.
fn column(name: &str) -> String {
    name.replace(['"', '\n', '\r'], " ").trim().to_owned()
}

/// The columns that are meant, by their names in the table, and the series that they need.
fn chosen<'a>(
    all: &[Series<'a>],
    options: &TraceOptions,
) -> Result<(Columns, Vec<Series<'a>>), TraceFileError> {
    let list = || {
        let names = all.iter().take(40).map(|(name, _)| format!("'{}'", name.escape_debug()));
        names.collect::<Vec<_>>().join(", ")
    };
    let mut columns = options.columns.clone();
    if options.interval.is_none() && columns.time.is_none() {
        columns.time = Some(TIME.to_owned());
    }
    let mut series = Vec::new();
    if options.columns == Columns::default() {
        let mut first = |wanted: &[&str]| {
            let has_values = |(_, values): &&(&str, &Value)| {
                values.as_array().is_some_and(|values| values.iter().any(Value::is_number))
            };
            let named = |name: &&str| all.iter().find(|(other, _)| other == name);
            let found = wanted.iter().filter_map(named).find(has_values)?;
            series.push(*found);
            Some(column(found.0))
        };
        columns.rate = if options.delays_alone { None } else { first(&RATES) };
        columns.rtt = first(&RTTS);
        if series.is_empty() {
            return wrong(format!(
                "it is of flent, and of its series none is known as a rate or an RTT: {}; write columns = {{ time = \
                 \"{TIME}\", rate = \"…\" }}",
                list()
            ));
        }
        return Ok((columns, series));
    }
    let Columns { time, rate, rtt, delay, loss } = &mut columns;
    for wanted in [time, rate, rtt, delay, loss].into_iter().flatten() {
        let by_name = all.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        // By number the times are the first.
        let number = wanted.parse::<usize>().ok().filter(|_| by_name.is_none());
        if wanted == TIME || number == Some(1) {
            TIME.clone_into(wanted);
            continue;
        }
        let by_number = number.and_then(|number| all.get(number.checked_sub(2)?));
        let Some(found) = by_name.or(by_number) else {
            return wrong(format!(
                "it is of flent, and has no series '{}'; its series are {}",
                wanted.escape_debug(),
                list()
            ));
        };
        *wanted = column(found.0);
        series.push(*found);
    }
    Ok((columns, series))
}

/// A log as a table of the series that are meant.
pub(super) fn table(log: &Value, options: &TraceOptions) -> Result<AsTable, TraceFileError> {
    let times = log["x_values"].as_array().map_or(&[][..], Vec::as_slice);
    if times.len() > MAX_ROWS {
        return wrong(format!("it is of flent, and has more than {MAX_ROWS} rows"));
    }
    let results = log["results"].as_object();
    let all: Vec<Series<'_>> =
        results.into_iter().flatten().map(|(name, values)| (name.as_str(), values)).collect();
    let (columns, series) = chosen(&all, options)?;
    let mut text = TIME.to_owned();
    for (name, _) in &series {
        let _ = write!(text, ",\"{}\"", column(name));
    }
    for (i, time) in times.iter().enumerate() {
        let _ = write!(text, "\n{time}");
        for (_, values) in &series {
            text.push(',');
            if let Some(value) = values.get(i).filter(|value| value.is_number()) {
                let _ = write!(text, "{value}");
            }
        }
    }
    text.push('\n');
    Ok(AsTable { program: "flent", text, options: TraceOptions { columns, ..options.clone() } })
}
