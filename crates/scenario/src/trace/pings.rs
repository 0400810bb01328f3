//! The lines of `ping -D` and `fping -D`, as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::lines::Lines;
use super::logs::{AsTable, in_quotes};
use super::table::MAX_ROWS;
use super::{TraceFileError, TraceOptions, wrong};

/// Lost packets whose late answer is still waited for: ping has so many numbers.
const WAITED_FOR: usize = 1 << 16;

/// An answer, or the notice that there was none.
struct Answer<'a> {
    program: &'static str,
    /// The host that answered, or that fping asked, where the line names it.
    host: Option<&'a str>,
    /// Seconds since 1970, where the line has them.
    time: Option<&'a str>,
    sequence: u64,
    /// Milliseconds.
    rtt: Option<&'a str>,
    is_lost: bool,
}

/// The digits at the beginning of a text, and what else a number has.
fn digits<'a>(text: &'a str, and: &[char]) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit() && !and.contains(&c));
    &text[..end.unwrap_or(text.len())]
}

/// A number with a point or, as some languages write it, a comma.
fn number(text: &str) -> Option<f64> {
    text.replace(',', ".").parse().ok().filter(|value: &f64| value.is_finite())
}

/// The address in the first brackets of a text, else its first word.
fn address(text: &str) -> &str {
    let in_brackets = text.split_once(')').and_then(|(before, _)| before.rsplit_once('('));
    in_brackets.map_or_else(|| text.split_whitespace().next().unwrap_or(""), |(_, inner)| inner)
}

impl<'a> Answer<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let stamped = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        let (time, rest) = stamped.map_or((None, line), |(time, rest)| (Some(time), rest));
        if let Some((before, after)) = rest.split_once("icmp_seq=") {
            let sequence = digits(after, &[]);
            // Neither says that a packet was lost, nor when the first answer came.
            let is_other = ["Redirect", "Source Quench", "(DUP!)"];
            if sequence.is_empty() || is_other.iter().any(|other| after.contains(other)) {
                return None;
            }
            let from = before.split_once("bytes from ").map(|(_, host)| host.trim_end());
            let rtt = after.split_once("time=").map(|(_, rtt)| digits(rtt, &['.', ',']));
            return Some(Self {
                program: "ping",
                host: from.map(|host| address(host.strip_suffix(':').unwrap_or(host))),
                time,
                sequence: sequence.parse().unwrap_or(u64::MAX),
                rtt,
                // Short packets have no room for a time.
                is_lost: from.is_none() && rtt.is_none(),
            });
        }
        let (host, answer) = rest.split_once(" : [")?;
        let (sequence, answer) = answer.split_once("], ")?;
        let rtt = answer.split_once(" bytes, ").map(|(_, rtt)| digits(rtt, &['.', ',']));
        let is_lost = rtt.is_none();
        (!is_lost || answer.starts_with("timed out")).then_some(Self {
            program: "fping",
            host: Some(host.trim()),
            time,
            sequence: sequence.trim().parse().ok()?,
            rtt,
            is_lost,
        })
    }
}

/// True if a file with this first line is the output of ping or fping.
pub(super) fn is_first(line: &str) -> bool {
    line.starts_with("PING ") || line.contains("icmp_seq=") || Answer::of(line).is_some()
}

/// The rows so far.
#[derive(Default)]
struct Rows {
    text: String,
    count: usize,
    program: &'static str,
    /// The host that answers.
    host: Option<String>,
    /// The host that the first line of a run names.
    asked: Option<String>,
    /// The last time, and the highest number of this run. Numbers go on where ping's begin again.
    last: Option<(f64, i64)>,
    /// Lost packets by their numbers, with the places of their rows in the text.
    lost: BTreeMap<i64, usize>,
}

impl Rows {
    /// The next run, whose numbers begin anew.
    fn begin(&mut self) {
        self.last = None;
        self.lost.clear();
    }

    fn line(&mut self, line: &str) -> Result<(), TraceFileError> {
        if let Some(asked) = line.strip_prefix("PING ") {
            self.begin();
            return is_one("ping", &mut self.asked, address(asked));
        }
        if line.contains(" : xmt/rcv/%loss = ") {
            self.begin();
        }
        let Some(answer) = Answer::of(line) else { return Ok(()) };
        let Answer { program, sequence, is_lost, .. } = answer;
        let Some(time) = answer.time else {
            return wrong(format!("{program} without times; write those with {program} -D"));
        };
        let Some(at) = number(time) else {
            return wrong(format!(
                "'{}' is no time in seconds since 1970; write those with {program} -D alone",
                time.escape_debug()
            ));
        };
        let rtt = match answer.rtt.map(|rtt| (rtt, number(rtt))) {
            Some((text, None)) => {
                return wrong(format!("\"{text}\" is no number, and should be an RTT"));
            }
            Some((_, Some(rtt))) => rtt.to_string(),
            None => String::new(),
        };
        if let Some(host) = answer.host {
            is_one(program, &mut self.host, host)?;
        }
        self.program = program;
        let sequence = match (program, self.last) {
            ("ping", _) if sequence > u64::from(u16::MAX) => {
                return wrong(format!("an icmp_seq of {sequence}, and the last one is 65535"));
            }
            // The nearest of those that are the same in 16 bits.
            ("ping", Some((_, highest))) => {
                highest + i64::from((sequence as u16).wrapping_sub(highest as u16) as i16)
            }
            _ => i64::try_from(sequence).unwrap_or(i64::MAX),
        };
        let (before, highest) = self.last.unwrap_or((at, sequence - 1));
        if sequence <= highest {
            // A second notice says nothing new.
            if is_lost {
                return Ok(());
            }
            if let Some(place) = self.lost.remove(&sequence) {
                // It came late: its row becomes a comment.
                self.text.replace_range(place..=place, "#");
                self.count -= 1;
            }
        }
        // Between two answers what has no line was lost.
        let missing = (sequence - 1).saturating_sub(highest).max(0);
        if usize::try_from(missing).is_ok_and(|missing| self.count + missing > MAX_ROWS) {
            return too_many();
        }
        for i in 1..=missing {
            let part = i as f64 / (missing + 1) as f64;
            self.lose(highest + i, (before + (at - before) * part).min(at));
        }
        if is_lost {
            self.lose(sequence, at);
        } else {
            let _ = writeln!(self.text, "{at},{rtt},0");
            self.count += 1;
        }
        self.last = Some((at, highest.max(sequence)));
        if self.count > MAX_ROWS { too_many() } else { Ok(()) }
    }

    fn lose(&mut self, sequence: i64, at: f64) {
        self.lost.insert(sequence, self.text.len());
        if self.lost.len() > WAITED_FOR {
            self.lost.pop_first();
        }
        let _ = writeln!(self.text, "{at},,1");
        self.count += 1;
    }
}

fn too_many<T>() -> Result<T, TraceFileError> {
    wrong(format!("more than {MAX_ROWS} rows; write a shorter one"))
}

/// Refuses another host than the first one, and names the command that keeps that one.
fn is_one(program: &str, first: &mut Option<String>, host: &str) -> Result<(), TraceFileError> {
    let first = first.get_or_insert_with(|| host.to_owned());
    if first == host {
        return Ok(());
    }
    let pattern = first.replace('.', "\\.");
    let pattern = match program {
        "ping" => format!("[ (]{pattern}(\\)|: icmp)"),
        _ => format!("(^|] ){pattern} +: "),
    };
    wrong(format!(
        "answers of two hosts, which are two paths; keep one: grep -E {}",
        in_quotes(&pattern)
    ))
}

/// The rows of a file whose first line was just read.
pub(super) fn table(
    lines: &mut Lines,
    line: &mut String,
    options: &TraceOptions,
) -> Result<AsTable, TraceFileError> {
    let text = "time_s,rtt_ms,loss\n".to_owned();
    let mut rows = Rows { text, ..Rows::default() };
    loop {
        let error = |e: TraceFileError| TraceFileError(format!("line {}: {e}", lines.number()));
        rows.line(line.trim()).map_err(error)?;
        if !lines.next(line)? {
            break;
        }
    }
    if rows.count == 0 {
        return wrong("it is of ping, and has no answer");
    }
    Ok(AsTable { program: rows.program, text: rows.text, options: options.clone() })
}
