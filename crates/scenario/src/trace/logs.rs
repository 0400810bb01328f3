//! Logs in JSON of programs that measure, as tables.

use std::fmt::Write as _;

use serde_json::{Deserializer, Value};

use super::{TraceFileError, TraceOptions, flent, units::RateUnit, wrong};

/// A table made of a log: the program, and its text as CSV.
pub(super) struct AsTable {
    pub(super) program: &'static str,
    pub(super) text: String,
    pub(super) options: TraceOptions,
}

/// The place of a value in a row, as a JSON pointer.
type Place = &'static str;

/// A column of rates in a log.
#[derive(Clone, Copy)]
enum Rates {
    BitsPerSecond(Place),
    BytesPerSecond(Place),
    /// Bytes since the beginning.
    Total(Place),
}

/// A column of losses in a log.
#[derive(Clone, Copy)]
enum Losses {
    None,
    Percent(Place),
    /// `"false"`, or a text that says which way.
    Lost(Place),
    /// Packets that arrived, of how many.
    Arrived(Place, Place),
}

/// A log: how it is known, and where its rows and values are.
struct Log {
    program: &'static str,
    /// Values that the first document has.
    has: &'static [Place],
    /// The list of rows in a document, each of which is one itself if there is none.
    rows: Place,
    /// Rows that count: those with these texts, numbers or truths.
    only: &'static [(Place, &'static str)],
    /// The time, and its column's name.
    time: (Place, &'static str),
    rate: Option<Rates>,
    /// The round-trip time, and its column's name.
    rtt: Option<(Place, &'static str)>,
    loss: Losses,
    /// Values that all rows share, so that they are of one path.
    same: &'static [Place],
}

const LOGS: [Log; 8] = [
    Log {
        program: "iperf3 -J",
        has: &["/start/version", "/intervals"],
        rows: "/intervals",
        only: &[("/sum/omitted", "false")],
        time: ("/sum/start", "time_s"),
        rate: Some(Rates::BitsPerSecond("/sum/bits_per_second")),
        rtt: Some(("/streams/0/rtt", "rtt_us")),
        loss: Losses::Percent("/sum/lost_percent"),
        same: &[],
    },
    Log {
        program: "iperf3 --json-stream",
        has: &["/event", "/data"],
        rows: "",
        only: &[("/event", "interval"), ("/data/sum/omitted", "false")],
        time: ("/data/sum/start", "time_s"),
        rate: Some(Rates::BitsPerSecond("/data/sum/bits_per_second")),
        rtt: Some(("/data/streams/0/rtt", "rtt_us")),
        loss: Losses::Percent("/data/sum/lost_percent"),
        same: &[],
    },
    Log {
        program: "irtt",
        has: &["/version/irtt", "/round_trips"],
        rows: "/round_trips",
        only: &[],
        time: ("/timestamps/client/send/monotonic", "time_ns"),
        rate: None,
        rtt: Some(("/delay/rtt", "rtt_ns")),
        loss: Losses::Lost("/lost"),
        same: &[],
    },
    Log {
        program: "RIPE Atlas ping",
        has: &["/prb_id", "/sent", "/rcvd", "/timestamp"],
        rows: "",
        only: &[],
        time: ("/timestamp", "time_s"),
        rate: None,
        rtt: Some(("/avg", "rtt_ms")),
        loss: Losses::Arrived("/rcvd", "/sent"),
        same: &["/prb_id", "/msm_id", "/dst_addr"],
    },
    Log {
        program: "ndt7-client -format json",
        has: &["/Key", "/Value"],
        rows: "",
        only: &[("/Key", "measurement"), ("/Value/Test", "download"), ("/Value/Origin", "client")],
        time: ("/Value/AppInfo/ElapsedTime", "time_us"),
        rate: Some(Rates::Total("/Value/AppInfo/NumBytes")),
        rtt: None,
        loss: Losses::None,
        same: &[],
    },
    Log {
        program: "ndt7",
        has: &["/Download/ServerMeasurements"],
        rows: "/Download/ServerMeasurements",
        only: &[],
        time: ("/TCPInfo/ElapsedTime", "time_us"),
        rate: Some(Rates::Total("/TCPInfo/BytesAcked")),
        rtt: Some(("/TCPInfo/RTT", "rtt_us")),
        loss: Losses::None,
        same: &[],
    },
    Log {
        program: "speedtest -f json",
        has: &["/timestamp", "/ping/latency", "/download/bandwidth"],
        rows: "",
        only: &[],
        time: ("/timestamp", "time"),
        rate: Some(Rates::BytesPerSecond("/download/bandwidth")),
        rtt: Some(("/ping/latency", "rtt_ms")),
        loss: Losses::Percent("/packetLoss"),
        same: &[],
    },
    Log {
        program: "speedtest-cli --json",
        has: &["/timestamp", "/ping", "/download", "/server"],
        rows: "",
        only: &[],
        time: ("/timestamp", "time"),
        rate: Some(Rates::BitsPerSecond("/download")),
        rtt: Some(("/ping", "rtt_ms")),
        loss: Losses::None,
        same: &[],
    },
];

/// The most bytes of memory that the values of a log may take.
const MAX_MEMORY: usize = 256 << 20;

/// Bytes of memory that a text in JSON takes at most, about: many times its own where it has many
/// small values.
fn memory(text: &[u8]) -> usize {
    let of = |byte: &u8| match byte {
        b'{' => 400,
        b'[' => 300,
        b',' => 160,
        _ => 1,
    };
    text.iter().map(of).sum()
}

/// A text in the quotes of a shell, on one line; what would end them is a question mark.
pub(super) fn in_quotes(text: &str) -> String {
    let shown = |c: char| if c.is_control() || c == '\'' { '?' } else { c };
    format!("'{}'", text.chars().map(shown).collect::<String>())
}

/// A log in JSON as a table.
pub(super) fn table(text: &[u8], options: &TraceOptions) -> Result<AsTable, TraceFileError> {
    if memory(text) > MAX_MEMORY {
        return wrong(format!(
            "JSON whose values take more than {} MB of memory; make a table of it, as with jq and its @csv",
            MAX_MEMORY >> 20
        ));
    }
    let documents: Result<Vec<Value>, _> = Deserializer::from_slice(text).into_iter().collect();
    let documents = match documents {
        Ok(documents) => documents,
        Err(e) => return wrong(format!("it begins as JSON and is none: {e}; write a whole log")),
    };
    // A list of documents is as good as one behind the other.
    let documents: Vec<Value> = documents
        .into_iter()
        .flat_map(|document| match document {
            Value::Array(all) => all,
            one => vec![one],
        })
        .collect();
    let has = |place: &&str| documents.first().is_some_and(|first| first.pointer(place).is_some());
    if ["/x_values", "/results"].iter().all(has) {
        if documents.len() > 1 {
            return wrong("it is of flent, and has several logs; write a file for each");
        }
        return flent::table(&documents[0], options);
    }
    let Some(log) = LOGS.iter().find(|log| log.has.iter().all(has)) else {
        let known: Vec<&str> = LOGS.iter().map(|log| log.program).collect();
        return wrong(format!(
            "it is JSON of no program that is known here ({}, flent); make a table of it, as with jq -r \
             '[\"time_s\",\"mbps\"], (.[] | [.time, .rate]) | @csv'",
            known.join(", ")
        ));
    };
    let mut rows: Vec<&Value> = Vec::new();
    for document in &documents {
        match log.rows {
            "" => rows.push(document),
            place => {
                rows.extend(document.pointer(place).and_then(Value::as_array).into_iter().flatten())
            }
        }
    }
    log.table(&rows, options)
}

/// A value as the text of a cell; nothing for one that is not there.
fn cell(row: &Value, place: &str) -> String {
    match row.pointer(place) {
        Some(Value::String(text)) if !text.contains(['"', '\n', '\r', ',']) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(truth)) => truth.to_string(),
        _ => String::new(),
    }
}

impl Log {
    fn table(&self, rows: &[&Value], options: &TraceOptions) -> Result<AsTable, TraceFileError> {
        let program = self.program;
        let counts = |row: &&&Value| {
            let is = |(place, text): &(&str, &str)| {
                row.pointer(place).is_none() || cell(row, place) == *text
            };
            self.only.iter().all(is) && row.pointer(self.time.0).is_some()
        };
        let mut rows: Vec<&Value> = rows.iter().filter(counts).copied().collect();
        if rows.is_empty() {
            return wrong(format!("it is of {program}, and has no rows with times and values"));
        }
        for place in self.same {
            let mut values = rows.iter().filter_map(|row| row.pointer(place));
            let Some(own) = values.next() else { continue };
            if values.any(|value| value != own) {
                let name = &place[1..];
                let keep = in_quotes(&format!("[flatten[] | select(.{name} == {own})]"));
                return wrong(format!(
                    "it is of {program}, and its rows differ in {name}, so that they are not of one path; keep one: \
                     jq -s {keep}"
                ));
            }
        }
        let time = |row: &&Value| row.pointer(self.time.0).and_then(Value::as_f64);
        if !self.same.is_empty() {
            // Results come in the order in which they were collected.
            rows.sort_by_key(|row| row.pointer(self.time.0).and_then(Value::as_u64));
        } else if !rows.iter().filter_map(time).is_sorted() {
            return wrong(format!(
                "it is of {program}, and its times begin again, as those of several runs do; write a file for each"
            ));
        }
        let mut names = vec![self.time.1];
        names.extend(self.rate.map(|rate| match rate {
            Rates::BitsPerSecond(_) => "bits_per_second",
            Rates::BytesPerSecond(_) => "bytes_per_second",
            Rates::Total(_) => "bytes",
        }));
        names.extend(self.rtt.map(|(_, name)| name));
        names.extend(match self.loss {
            Losses::None => None,
            Losses::Percent(_) => Some("loss_percent"),
            Losses::Lost(_) | Losses::Arrived(..) => Some("loss"),
        });
        let mut text = names.join(",");
        let (mut total, mut options): (Option<f64>, _) = (None, options.clone());
        for row in rows {
            let _ = write!(text, "\n{}", cell(row, self.time.0));
            if let Some(rate) = self.rate {
                let _ = match rate {
                    Rates::BitsPerSecond(place) | Rates::BytesPerSecond(place) => {
                        write!(text, ",{}", cell(row, place))
                    }
                    Rates::Total(place) => {
                        let now = row.pointer(place).and_then(Value::as_f64);
                        let since = now.zip(total).map(|(now, before)| (now - before).to_string());
                        total = now.or(total);
                        options.rate_unit.get_or_insert(RateUnit::BytesPerRow);
                        write!(text, ",{}", since.unwrap_or_default())
                    }
                };
            }
            let loss = self.loss(row);
            if let Some((place, _)) = self.rtt {
                // What never came back has no round-trip time; some programs write -1.
                let rtt = cell(row, place);
                let is_lost = matches!(self.loss, Losses::Lost(_)) && loss.as_deref() == Some("1");
                let is_there = !rtt.starts_with('-') && !is_lost;
                let _ = write!(text, ",{}", if is_there { rtt.as_str() } else { "" });
            }
            if let Some(loss) = loss {
                let _ = write!(text, ",{loss}");
            }
        }
        text.push('\n');
        Ok(AsTable { program, text, options })
    }

    /// The cell of the loss, if the log has such a column.
    fn loss(&self, row: &Value) -> Option<String> {
        Some(match self.loss {
            Losses::None => return None,
            Losses::Percent(place) => cell(row, place),
            Losses::Lost(place) => match cell(row, place).as_str() {
                "" => String::new(),
                "false" => "0".to_owned(),
                _ => "1".to_owned(),
            },
            Losses::Arrived(arrived, sent) => {
                let number = |place| row.pointer(place).and_then(Value::as_f64);
                let share = number(arrived).zip(number(sent).filter(|sent| *sent > 0.0));
                share.map_or(String::new(), |(arrived, sent)| {
                    (1.0 - arrived / sent).max(0.0).to_string()
                })
            }
        })
    }
}
