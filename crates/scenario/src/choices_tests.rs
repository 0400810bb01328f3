//! A file that names two alternatives is refused, and a variant replaces what it names.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::select;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::document_tests::{flow, path};
use super::{Edition, FileError, ScenarioFile, tree};
use crate::document::Document;

/// Each queue discipline and each application with what it needs.
const QUEUES: [&str; 7] = [
    "tail_drop = {}",
    "step = { mark_above = \"9pkts\" }",
    "codel = { ecn = true }",
    "fq_codel = { queues = 16 }",
    "pie = {}",
    "red = { min = \"0.2bdp\", max = \"0.6bdp\" }",
    "dualpi2 = {}",
];
const APPS: [&str; 7] = [
    "bulk = {}",
    "bytes = \"1MB\"",
    "rate_limited = { rate = \"5mbit\" }",
    "on_off = { on = \"1s\", off = \"2s\" }",
    "request_response = { response = \"8MB\", think = \"1s\" }",
    "short_flows = { bytes = \"100kB\", every = \"200ms\" }",
    "media = { bitrate = \"4mbit\" }",
];
const SHAPES: [&str; 5] = [
    "dumbbell = { pairs = 2 }",
    "parking_lot = { hops = 2 }",
    "incast = { senders = 2 }",
    "leaf_spine = { leaves = 2, spines = 2, hosts = 2 }",
    "fat_tree = { k = 4 }",
];
const ELEMENTS: [&str; 7] = [
    "loss = \"1%\"",
    "delay = \"5ms\"",
    "jitter = \"2ms\"",
    "jitter_steps = [{ at = \"0s\", jitter = \"2ms\" }]",
    "duplication = \"1%\"",
    "policer = { rate = \"9mbit\", bucket = \"90kB\" }",
    "bottleneck = { rate = \"9mbit\", buffer = \"90kB\" }",
];

/// Places of a file where one of several things stands.
const PLACES: [(&[&str], &str, &str); 6] = [
    (&QUEUES, "path = { rate = \"10mbit\", rtt = \"40ms\", buffer = \"1bdp\", queue = { @ } }", ""),
    (
        &QUEUES,
        "path = { rate = \"10mbit\", rtt = \"40ms\", buffer = \"1bdp\", down = [{ bottleneck = { rate = \"9mbit\", buffer = \"9pkts\", queue = { @ } } }] }",
        "",
    ),
    (
        &QUEUES,
        "link = [{ rate = \"10mbit\", delay = \"4ms\", buffer = \"1bdp\", queue = { @ } }]",
        "path = { rtt = \"40ms\" }",
    ),
    (&APPS, "flow = [{ app = { @ } }]", BASE),
    (
        &SHAPES,
        "network = { edge = { rate = \"1gbit\", delay = \"1ms\", buffer = \"90pkts\" }, core = { rate = \"1gbit\", delay = \"1ms\", buffer = \"90pkts\" }, @ }",
        "",
    ),
    (
        &ELEMENTS,
        "path = { rate = \"10mbit\", rtt = \"40ms\", buffer = \"1bdp\", up = [{ @ }] }",
        "",
    ),
];

const BASE: &str = "path = { rate = \"10mbit\", rtt = \"40ms\", buffer = \"1bdp\" }";

fn parse(text: &str) -> Result<ScenarioFile, FileError> {
    ScenarioFile::parse(text, "x.toml", "x", Path::new(""), Edition::default())
}

/// The document of the file's last run.
fn last(text: &str) -> Document {
    let file = parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    file.grid.runs.last().expect("a run").document.clone()
}

fn tree_of(document: &Document) -> toml::Table {
    toml::Table::try_from(document).expect("a table")
}

/// The document of a file with these changes.
fn overlaid(base: &toml::Table, changes: &toml::Table) -> toml::Table {
    let (base, changes) = (base.to_string(), changes.to_string());
    let read = |text| DeTable::parse(text).expect("TOML").into_inner();
    let mut all = read(&base);
    tree::overlay(&mut all, &read(&changes));
    let document = Document::deserialize(Deserializer::from(Spanned::new(0..0, all)));
    tree_of(&document.expect("a document"))
}

/// True if a value is the other one, or a table with all that the other one has.
fn holds(all: &toml::Value, part: &toml::Value) -> bool {
    match (all, part) {
        (toml::Value::Table(all), toml::Value::Table(part)) => {
            part.iter().all(|(name, value)| all.get(name).is_some_and(|all| holds(all, value)))
        }
        (all, part) => all == part,
    }
}

proptest! {
    #[test]
    fn two_alternatives_are_refused(
        (place, first, second) in (select(&PLACES[..]), any::<usize>(), any::<usize>()),
    ) {
        let (alternatives, text, rest) = place;
        let (first, second) = (first % alternatives.len(), second % alternatives.len());
        let file = |inside: &str| format!("cc = \"bbr3\"\n{}\n{rest}", text.replace('@', inside));
        if first != second {
            let both = format!("{}, {}", alternatives[first], alternatives[second]);
            let error = parse(&file(&both)).expect_err(&both);
            // A shape alone has no flows between its nodes, which is another error.
            match parse(&file(alternatives[first])) {
                Err(one) if alternatives[0] == SHAPES[0] => {
                    prop_assert_ne!(one.to_string(), error.to_string());
                }
                one => prop_assert!(one.is_ok(), "{:?}", one.err()),
            }
        }
    }

    #[test]
    fn a_variant_has_its_alternative_alone(first in 0..7_usize, second in 0..7_usize) {
        for (alternatives, field) in [(QUEUES, "path.queue"), (APPS, "flow")] {
            let value = |i: usize| match field {
                "flow" => format!("flow = [{{ app = {{ {} }} }}]", alternatives[i]),
                _ => format!("path.queue = {{ {} }}", alternatives[i]),
            };
            let file = format!(
                "cc = \"cubic\"\n{}\npath.rate = \"10mbit\"\npath.rtt = \"40ms\"\npath.buffer = \"1bdp\"\n[[variant]]\nname = \"v\"\n{}",
                value(first), value(second),
            );
            let document = tree_of(&last(&file));
            let choice = match field {
                "flow" => &document["flow"][0]["app"],
                _ => &document["path"]["queue"],
            };
            let names: Vec<&str> = choice.as_table().expect("a table").keys().map(String::as_str).collect();
            let wanted = alternatives[second].split(' ').next().expect("a name");
            prop_assert_eq!(names, [wanted]);
        }
    }

    /// A field of the path or a list of flows that a variant names is as it has it, and what it
    /// does not name is the file's.
    #[test]
    fn a_variant_replaces_what_it_names(
        base in path(), over in path(), flows in proptest::collection::vec(flow(), 1..3),
    ) {
        let base = tree_of(&Document { path: Some(base), ..Document::default() });
        let over = tree_of(&Document { path: Some(over), flow: flows, ..Document::default() });
        let merged = overlaid(&base, &over);
        for (name, value) in &over {
            match (name.as_str(), value) {
                ("path", toml::Value::Table(path)) => {
                    for (field, value) in path {
                        let has = &merged["path"][field];
                        prop_assert!(holds(has, value), "{}: {} of {}", field, value, has);
                        if let ("queue", Some(queue), Some(own)) = (field.as_str(), has.as_table(), value.as_table()) {
                            prop_assert!(queue.keys().eq(own.keys()), "{}", has);
                        }
                    }
                    let old = base["path"].as_table().expect("a table");
                    for (field, value) in old.iter().filter(|(f, _)| !path.contains_key(*f)) {
                        prop_assert_eq!(&merged["path"][field], value);
                    }
                }
                _ => prop_assert_eq!(&merged[name], value),
            }
        }
    }
}
