//! A flow that other programs make: the templates of its two commands.

use std::net::Ipv4Addr;
use std::path::Path;

use super::error::Wrong;
use super::needs::Setting;
use super::schema::{Document, FlowSender, FlowTable};
use crate::suggest::did_you_mean;

/// The places that a template may have.
const PLACES: [&str; 4] = ["server", "client", "port", "duration"];

/// A flow's programs as they stand in a file.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramTable {
    /// The one that waits for the other.
    server: Option<String>,
    /// The one that begins.
    client: Option<String>,
    #[serde(default)]
    sends: Sends,
}

/// The program that sends the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sends {
    /// The one that begins.
    #[default]
    Client,
    /// The one that waits for the other.
    Server,
}

/// Two commands whose packets are a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramFlow {
    /// Words of the server's command; none without a server.
    server: Vec<String>,
    client: Vec<String>,
    /// The program that sends.
    pub sends: Sends,
    /// Its name in the file, where it has one.
    name: Option<String>,
    /// The field that has it.
    pub(super) field: String,
}

/// Values for the places of a template.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// The server's address.
    pub server: Ipv4Addr,
    /// The client's address.
    pub client: Ipv4Addr,
    /// The server's port.
    pub port: u16,
    /// Whole seconds that the flow has, rounded up.
    pub duration_s: u64,
}

impl ProgramFlow {
    /// The programs of a flow; nothing where it is one of ours.
    pub(super) fn of(doc: &Document, flow: &FlowTable, field: &str) -> Result<Option<Self>, Wrong> {
        let (table, name, its_field) = match (&flow.program, flow.cc.as_ref().or(doc.cc.as_ref())) {
            (Some(table), _) => (table, None, format!("{field}.program")),
            (None, Some(FlowSender::Program(name))) => {
                let Some(table) = doc.program.get(name) else {
                    let meant = did_you_mean(name, doc.program.keys().map(String::as_str));
                    let why = format!(
                        "there is no [program.{0}] in the file; write one, with its client and its server{meant}",
                        name.escape_debug()
                    );
                    let of_flow = flow.cc.is_some();
                    let field = if of_flow { format!("{field}.cc") } else { "cc".to_owned() };
                    return Err(Wrong::new(field, why));
                };
                (table, Some(name.clone()), format!("program.{name}"))
            }
            _ => return Ok(None),
        };
        Self::of_table(flow, table, field, its_field, doc.duration().is_some())
            .map(|program| Some(Self { name, ..program }))
    }

    /// The commands of a table, for a flow that has nothing that programs decide for themselves.
    fn of_table(
        flow: &FlowTable,
        program: &ProgramTable,
        field: &str,
        its_field: String,
        has_end: bool,
    ) -> Result<Self, Wrong> {
        let others = [
            ("cc", flow.cc.is_some() && flow.program.is_some()),
            ("app", flow.app.is_some()),
            ("transport", flow.transport.is_some()),
            ("route", flow.route.is_some()),
        ];
        let other = others.into_iter().find(|(_, is)| *is).map(|(name, _)| name);
        let setting = || Setting::ALL.iter().find(|setting| setting.is_in(flow));
        if let Some(name) = other.or_else(|| setting().map(|setting| setting.name())) {
            let why =
                "a program decides this for itself; leave it out, and write it into the command";
            return Err(Wrong::new(format!("{field}.{name}"), why));
        }
        let Some(client) = &program.client else {
            let why = "no client; write client = \"iperf3 -c {server} -p {port} -t {duration}\"";
            return Err(Wrong::new(its_field, why));
        };
        let server = program.server.as_deref();
        if server.is_none() && program.sends == Sends::Server {
            let why = "no server that could send; write server = \"COMMAND\"";
            return Err(Wrong::new(its_field, why));
        }
        let words = |text: &str, name: &str| {
            words(text, has_end).map_err(|why| Wrong::new(format!("{its_field}.{name}"), why))
        };
        Ok(Self {
            server: server.map_or(Ok(Vec::new()), |text| words(text, "server"))?,
            client: words(client, "client")?,
            sends: program.sends,
            name: None,
            field: its_field,
        })
    }

    /// The words of the server's command; none without a server.
    pub fn server(&self, values: Values) -> Vec<String> {
        self.server.iter().map(|word| filled(word, values)).collect()
    }

    /// The words of the client's command.
    pub fn client(&self, values: Values) -> Vec<String> {
        self.client.iter().map(|word| filled(word, values)).collect()
    }

    /// The files to run.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        [self.server.first(), self.client.first()].into_iter().flatten().map(String::as_str)
    }

    /// Its name in the file, or that of the program that sends.
    pub fn name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let words = match self.sends {
            Sends::Client => &self.client,
            Sends::Server => &self.server,
        };
        let file = words.first().map_or("", String::as_str);
        Path::new(file).file_name().map_or(file.to_owned(), |n| n.to_string_lossy().into_owned())
    }
}

/// The words of a command, as a shell takes them apart, if all places in them are known.
fn words(text: &str, has_end: bool) -> Result<Vec<String>, String> {
    let words: Vec<String> = shlex::split(text)
        .ok_or("a quote is not closed; write as many as there are words in quotes")?;
    if words.first().is_none_or(String::is_empty) {
        return Err("no command; write one like iperf3 -c {server} -p {port}".to_owned());
    }
    let places: Vec<&str> = words.iter().flat_map(|word| places(word)).map(|p| p.1).collect();
    if let Some(unknown) = places.iter().find(|name| !PLACES.contains(name)) {
        let meant = did_you_mean(unknown, PLACES);
        let known = PLACES.map(|name| format!("{{{name}}}")).join(", ");
        return Err(format!("{{{unknown}}} is unknown; there are {known}{meant}"));
    }
    if !places.contains(&"port") {
        let why = "no {port}, by which the link knows the flow's packets; write it where the command takes its port";
        return Err(why.to_owned());
    }
    if places.contains(&"duration") && !has_end {
        return Err("{duration} needs a duration of the run; write one like 10s".to_owned());
    }
    Ok(words)
}

/// The places in a word: where each begins, and its name. Braces around anything but a small word
/// are left as they are, and so is what a shell replaces.
fn places(word: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in word.match_indices('{') {
        let name = word[at + 1..].split_once('}').map_or("", |(name, _)| name);
        let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if is_word && !word[..at].ends_with('$') {
            found.push((at, name));
        }
    }
    found
}

fn filled(word: &str, values: Values) -> String {
    let (mut out, mut rest) = (String::new(), 0);
    for (at, name) in places(word) {
        out.push_str(&word[rest..at]);
        out.push_str(&match name {
            "server" => values.server.to_string(),
            "client" => values.client.to_string(),
            "port" => values.port.to_string(),
            _ => values.duration_s.to_string(),
        });
        rest = at + name.len() + 2;
    }
    out + &word[rest..]
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values = Values {
        server: Ipv4Addr::new(198, 18, 0, 2),
        client: Ipv4Addr::new(198, 18, 0, 1),
        port: 5003,
        duration_s: 10,
    };

    #[test]
    fn places_are_filled_and_other_braces_stay() {
        for (word, expected) in [
            ("{server}:{port}", "198.18.0.2:5003"),
            (
                "https://{server}:{port}/{duration}s?{client}",
                "https://198.18.0.2:5003/10s?198.18.0.1",
            ),
            ("{\"a\": {port}}", "{\"a\": 5003}"),
            ("${port} {} { port } {PORT} {", "${port} {} { port } {PORT} {"),
        ] {
            assert_eq!(filled(word, VALUES), expected);
        }
    }

    #[test]
    fn a_command_is_taken_apart_as_by_a_shell() {
        let found = words("sh -c 'sleep 1; nc {server} {port}' \"a b\"", true);
        let found = found.expect("a good one");
        assert_eq!(found, ["sh", "-c", "sleep 1; nc {server} {port}", "a b"]);
    }

    #[test]
    fn what_is_wrong_with_a_template_is_said_with_what_would_be_right() {
        for (text, has_end, part) in [
            ("iperf3 -c {sever} -p {port}", true, "did you mean server"),
            ("iperf3 -c {server}", true, "no {port}"),
            ("iperf3 'a {port}", true, "quote"),
            ("", true, "no command"),
            ("'' {port}", true, "no command"),
            ("x {port} {duration}", false, "{duration} needs"),
        ] {
            let why = words(text, has_end).expect_err(text);
            assert!(why.contains(part) && !why.contains('\n'), "{text}: {why}");
        }
    }
}
