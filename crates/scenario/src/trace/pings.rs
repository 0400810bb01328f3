//! The lines of `ping -D` and `fping -D`, as tables.

use std::fmt::Write as _;

use super::lines::Lines;
use super::logs::AsTable;
use super::table::MAX_ROWS;
use super::{TraceFileError, TraceOptions, wrong};

/// An answer, or the notice that there was none.
struct Answer<'a> {
    program: &'static str,
    /// The host that was asked, where the line names it.
    host: &'a str,
    /// Seconds since 1970, where the line has them.
    time: Option<&'a str>,
    sequence: u64,
    /// Milliseconds.
    rtt: Option<&'a str>,
}

/// The digits, and the point among them, at the beginning of a text.
fn number(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse::<f64>().ok().map(|_| &text[..end])
}

impl<'a> Answer<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let stamped = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        let (time, rest) = match stamped {
            Some((time, rest)) => (Some(number(time)?), rest),
            None => (None, line),
        };
        if let Some((_, sequence)) = rest.split_once("icmp_seq=") {
            let rtt = sequence.split_once("time=").and_then(|(_, rtt)| number(rtt));
            let sequence = number(sequence)?.parse().ok()?;
            return Some(Self { program: "ping", host: "", time, sequence, rtt });
        }
        let (host, answer) = rest.split_once(" : [")?;
        let (sequence, answer) = answer.split_once("], ")?;
        let rtt = answer.split_once(" bytes, ").and_then(|(_, rtt)| number(rtt));
        let is_answer = rtt.is_some() || answer.starts_with("timed out");
        is_answer.then_some(Self {
            program: "fping",
            host: host.trim(),
            time,
            sequence: sequence.parse().ok()?,
            rtt,
        })
    }
}

fn too_many<T>() -> Result<T, TraceFileError> {
    wrong(format!("more than {MAX_ROWS} rows; write a shorter one"))
}

/// True if a file with this first line is the output of ping or fping.
pub(super) fn is_first(line: &str) -> bool {
    line.starts_with("PING ") || Answer::of(line).is_some()
}

/// The rows of a file whose first line was just read.
pub(super) fn table(
    lines: &mut Lines,
    line: &mut String,
    options: &TraceOptions,
) -> Result<AsTable, TraceFileError> {
    let mut text = "time_s,rtt_ms,loss\n".to_owned();
    let (mut program, mut host) = ("ping", String::new());
    let mut last: Option<(f64, u64)> = None;
    let mut rows = 0;
    loop {
        if let Some(answer) = Answer::of(line.trim()) {
            let Some(time) = answer.time else {
                return wrong(format!(
                    "line {}: {program} without times; write those with {program} -D",
                    lines.number(),
                    program = answer.program
                ));
            };
            if last.is_some() && host != answer.host {
                return wrong(format!(
                    "line {}: answers of two hosts, which are two paths; keep one: grep -F '{host} :'",
                    lines.number(),
                    host = host.escape_debug()
                ));
            }
            answer.host.clone_into(&mut host);
            program = answer.program;
            let at: f64 = time.parse().unwrap_or_default();
            let sequence = answer.sequence;
            if let Some((before, highest)) = last {
                // Between two answers what has no line was lost.
                let missing = sequence.saturating_sub(highest + 1);
                rows += usize::try_from(missing).unwrap_or(usize::MAX).min(MAX_ROWS + 1);
                if rows > MAX_ROWS {
                    return too_many();
                }
                for i in 1..=missing {
                    let part = i as f64 / (missing + 1) as f64;
                    let _ = writeln!(text, "{:.6},,1", before + (at - before) * part);
                }
            }
            let lost = u8::from(answer.rtt.is_none());
            let _ = writeln!(text, "{time},{},{lost}", answer.rtt.unwrap_or_default());
            rows += 1;
            // ping's numbers begin again after 65535; a late answer is no such beginning.
            let highest = last.map_or(sequence, |(_, highest)| match highest {
                highest if highest > sequence + 32_768 => sequence,
                highest => highest.max(sequence),
            });
            last = Some((at, highest));
        }
        if rows > MAX_ROWS {
            return too_many();
        }
        if !lines.next(line)? {
            break;
        }
    }
    if last.is_none() {
        return wrong("it is of ping, and has no answer");
    }
    Ok(AsTable { program, text, options: options.clone() })
}
