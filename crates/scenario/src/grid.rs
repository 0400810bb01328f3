//! A scenario file as the grid of its runs.
//!
//! A file is read as a tree whose values know their lines. Fields with lists make a grid. Each
//! point of the grid becomes a tree of its own, is read by serde, and is checked by building it,
//! before the first of them runs.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use fullpipe_cc::Algorithm;
use fullpipe_traffic::{Stream, stream_seed};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::build::{self, Scenario};
use super::error::{FileError, Wrong};
use super::input::{MAX_FILE_BYTES, Traces, read_text};
use super::tree::{self, GridAxis};
use super::unused::Settings;
use super::{MAX_NAME, MAX_RUNS, schema};
use crate::over::{Clock, Over, Stack};
use crate::suggest::{did_you_mean, nearest};
use crate::units::{Buffer, show_bytes};

/// The options that choose among fields that a file has twice, for other lengths and other stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edition {
    /// Those of its table `full`: the published length.
    pub full: bool,
    /// Stack, clock and link, before those of the file. In real time, the table of the stack
    /// counts: of noq that is `over_noq`.
    pub over: Over,
}

/// The runs of a scenario, and what they differ in.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The fields with lists, in the order of the file.
    pub axes: Vec<String>,
    /// One for each point; a file without lists has one.
    pub runs: Vec<Run>,
}

/// One point of the grid.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its place in the grid: axis and value.
    pub at: Vec<(String, String)>,
    document: schema::Document,
    traces: Arc<Traces>,
    scenario: Arc<Scenario>,
}

impl Grid {
    /// The trace files that its runs read, by the names that the scenario has for them.
    pub fn trace_files(&self) -> Vec<String> {
        self.runs.first().map(|run| run.traces.files()).unwrap_or_default()
    }

    /// SHA-256 of what its runs are made of: the text, and the traces that it names.
    pub fn fingerprint(&self, text: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(text);
        if let Some(run) = self.runs.first() {
            run.traces.digest(&mut hash);
        }
        hex(&hash.finalize())
    }
}

/// Bytes as two digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Run {
    /// The scenario that this point describes.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The same with the seed of a repetition; the first has that of the file.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn repetition(&self, number: u64) -> Result<Cow<'_, Scenario>, Wrong> {
        if number == 0 {
            return Ok(Cow::Borrowed(&self.scenario));
        }
        let mut document = self.document.clone();
        // As many bits as a file may have, so that the seed of a result can be written there.
        document.seed = Some(stream_seed(document.seed(), Stream::Repetition, number) >> 33);
        build::scenario(&document, &self.traces).map(Cow::Owned)
    }
}

/// A scenario file that was read, before its expectations are.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Its name.
    pub name: String,
    /// Its description for people.
    pub about: Option<String>,
    /// The file's text.
    pub text: String,
    /// Stack, clock and link of the options, or else of the file.
    pub over: Over,
    /// The runs.
    pub grid: Grid,
    /// Parts that are shorter than published, in words, unless the full length was asked for.
    pub shortened: Option<String>,
    /// The entries of `expect`.
    pub expected: Vec<Expected>,
}

/// An entry of `expect`: a text, or a table with the text and why it is known not to be met.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The expectation as it was written.
    pub text: String,
    /// The reason for which it is known not to be met.
    pub known_failure: Option<String>,
}

impl ScenarioFile {
    /// Reads a file and checks all that it holds, but for its expectations.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(path: &Path, edition: Edition) -> Result<Self, FileError> {
        let file = path.display().to_string();
        let read = std::fs::File::open(path).and_then(|f| read_text(f, MAX_FILE_BYTES));
        let text = read.map_err(|error| FileError {
            file: file.clone(),
            line: None,
            field: String::new(),
            message: match error.kind() {
                std::io::ErrorKind::NotFound => format!("{error}{}", near(path)),
                _ => error.to_string(),
            },
        })?;
        let stem = path.file_stem().map_or(file.clone(), |s| s.to_string_lossy().into_owned());
        let dir = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        Self::parse(&text, &file, &stem, &dir, edition)
    }

    /// Reads a text as a file of this name would be; traces are looked for in `dir`.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(
        text: &str,
        file: &str,
        stem: &str,
        dir: &Path,
        edition: Edition,
    ) -> Result<Self, FileError> {
        let source = Source { text, file };
        let mut root = DeTable::parse(text).map_err(|e| source.of_toml(&e, &DeTable::new()))?;
        let named = named(root.get_ref()).map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let over = edition.over.or(named);
        let shortened = choose_edition(root.get_mut(), edition.full, over)
            .map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let expected = expected(root.get_ref()).map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let points = points(root.get_ref()).map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let (axes, names) = short_names(&points);
        let traces = Arc::new(Traces::of(dir));
        let mut settings = Settings::default();
        let mut bytes = 0;
        let mut runs = Vec::with_capacity(points.iter().map(Points::len).sum());
        for part in &points {
            for i in 0..part.len() {
                let (tree, at) = part.point(i);
                let at = at.into_iter().map(|(path, value)| (names(&path), value)).collect();
                let document = read(&source, &tree)?;
                let built = build::scenario(&document, &traces);
                let scenario = Arc::new(built.map_err(|w| source.of_wrong(&w, &tree))?);
                bytes += scenario.bytes();
                if bytes > MAX_BYTES {
                    return Err(source.of_wrong(&too_large(), root.get_ref()));
                }
                settings.note(&document);
                runs.push(Run { at, document, traces: traces.clone(), scenario });
            }
        }
        if let Some(wrong) = settings.unused() {
            return Err(source.of_wrong(&wrong, root.get_ref()));
        }
        let about = runs.first().and_then(|run| run.document.about.clone());
        let name = runs.first().and_then(|run| run.document.name.clone());
        let name = name.unwrap_or_else(|| stem.to_owned());
        let text = text.to_owned();
        let grid = Grid { axes, runs };
        Ok(Self { name, about, text, over, grid, shortened, expected })
    }
}

/// The hint at another file of nearly that name in the same directory, or at an algorithm.
fn near(path: &Path) -> String {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(dir) else { return String::new() };
    let names: Vec<String> = entries
        .flatten()
        .take(1000)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    let wrong = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(name) = nearest(&wrong, names.iter().map(String::as_str)) {
        return format!("; did you mean {}?", path.with_file_name(name).display());
    }
    match wrong.parse::<Algorithm>() {
        Ok(_) => format!("; it is an algorithm, as in --cc {wrong}"),
        Err(_) => String::new(),
    }
}

/// The error in a field of a text that was read before, with the field's line.
pub fn locate(text: &str, file: &str, wrong: &Wrong) -> FileError {
    // It was parsed before; without a tree the error only lacks its line.
    let tree = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    Source { text, file }.of_wrong(wrong, &tree)
}

fn read(source: &Source<'_>, tree: &DeTable<'_>) -> Result<schema::Document, FileError> {
    let whole = Spanned::new(0..source.text.len(), tree.clone());
    schema::Document::deserialize(Deserializer::from(whole)).map_err(|e| source.of_toml(&e, tree))
}

/// The fields of a file that are in no other table.
const AT_THE_TOP: [&str; 9] =
    ["about", "duration", "expect", "interval", "seed", "full", "stack", "clock", "real_link"];

/// serde's message about a name that it does not know, with what may have been meant.
fn with_hint(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let Some(name) = quoted.next().filter(|_| is_unknown) else { return message.to_owned() };
    let known: Vec<&str> = quoted.collect();
    if AT_THE_TOP.contains(&name) && !known.contains(&name) {
        return format!(
            "'{name}' is a field of the file, and this is a table in it; write it above the first line in [ ]"
        );
    }
    let hint = did_you_mean(name, known.iter().copied());
    if !hint.is_empty() && known.len() > LONG_LIST {
        let kind = message.split('`').next().unwrap_or_default();
        return format!("{kind}`{name}`{hint}");
    }
    format!("{message}{hint}")
}

/// Names that an error still lists beside the one that was probably meant.
const LONG_LIST: usize = 16;

/// The disciplines that have no usual values.
const QUEUES_WITH_FIELDS: &str = "; write { red = { min = \"0.2bdp\", max = \"0.6bdp\" } } or { step = { mark_above = \"5ms\" } }";

/// The size that stands where a discipline's name is expected.
fn size_as_queue(message: &str) -> Option<&str> {
    let name = message.strip_prefix("unknown variant `")?.split('`').next()?;
    name.parse::<Buffer>().is_ok().then_some(name)
}

/// A file's text, for those who say where something stands in it.
struct Source<'a> {
    text: &'a str,
    file: &'a str,
}

impl Source<'_> {
    fn of_toml(&self, error: &toml::de::Error, tree: &DeTable<'_>) -> FileError {
        let at = error.span().map(|span| span.start);
        let field = at.map_or(String::new(), |at| tree::field_at(tree, at));
        let mut message = with_hint(error.message());
        if message.starts_with("missing field") && field.ends_with("queue") {
            message.push_str(QUEUES_WITH_FIELDS);
        }
        if let Some(size) = size_as_queue(error.message()).filter(|_| field.ends_with("queue")) {
            message = format!("'{size}' is the size of a queue; write buffer = \"{size}\"");
        }
        FileError {
            file: self.file.to_owned(),
            line: at.map(|at| tree::line_at(self.text, at)),
            field,
            message,
        }
    }

    fn of_wrong(&self, wrong: &Wrong, tree: &DeTable<'_>) -> FileError {
        let at = tree::place_of(tree, &wrong.field);
        FileError {
            file: self.file.to_owned(),
            line: at.map(|at| tree::line_at(self.text, at.start)),
            field: wrong.field.clone(),
            message: wrong.message.clone(),
        }
    }
}

/// The tables whose fields count over one stack in real time alone.
const STACK_TABLES: [(Stack, &str); 2] = [(Stack::Noq, "over_noq"), (Stack::Linux, "over_linux")];

/// The stacks for which a text has a table: those over which it says what of it runs in real time.
pub fn stacks_with_tables(text: &str) -> Vec<Stack> {
    let root = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    let has = |(_, table): &(Stack, &str)| root.contains_key(*table);
    STACK_TABLES.into_iter().filter(has).map(|(stack, _)| stack).collect()
}

/// Stack, clock and link that a file names.
fn named(root: &DeTable<'_>) -> Result<Over, Wrong> {
    fn field<T: FromStr<Err: ToString>>(
        root: &DeTable<'_>,
        name: &str,
    ) -> Result<Option<T>, Wrong> {
        let Some(value) = root.get(name) else { return Ok(None) };
        let text = value.get_ref().as_str().ok_or_else(|| {
            Wrong::new(name, format!("no name; a file has one {name}, and no list of them"))
        })?;
        text.parse().map(Some).map_err(|error: T::Err| Wrong::new(name, error.to_string()))
    }
    Ok(Over {
        stack: field(root, "stack")?,
        clock: field(root, "clock")?,
        link: field(root, "real_link")?,
    })
}

/// Refuses a stack, a clock and a link in a table: all runs of a file have the same.
fn no_choice_in(table: &DeTable<'_>, name: &str) -> Result<(), Wrong> {
    match ["stack", "clock", "real_link"].into_iter().find(|field| table.contains_key(*field)) {
        None => Ok(()),
        Some(field) => Err(Wrong::new(
            format!("{name}.{field}"),
            format!(
                "a file has one {field} for all of its runs; write it above the first line in [ ]"
            ),
        )),
    }
}

/// Lays the tables of the edition upon the file, and takes those of the others away. Says what is
/// shorter than published.
fn choose_edition(
    root: &mut DeTable<'_>,
    is_full: bool,
    over: Over,
) -> Result<Option<String>, Wrong> {
    let mut take = |name: &str| match root.remove(name).map(Spanned::into_inner) {
        None => Ok(DeTable::new()),
        Some(DeValue::Table(table)) => Ok(table),
        Some(_) => Err(Wrong::new(name, format!("no table; write [{name}] before its fields"))),
    };
    let full = take("full")?;
    no_choice_in(&full, "full")?;
    let mut own = DeTable::new();
    for (stack, name) in STACK_TABLES {
        let table = take(name)?;
        no_choice_in(&table, name)?;
        if over.stack() == stack && over.clock() == Clock::Real {
            own = table;
        }
    }
    let mut published = tree::below(root, &own);
    tree::overlay(root, &own);
    if is_full {
        tree::overlay(root, &full);
    } else {
        tree::overlay(&mut published, &full);
    }
    let differences = tree::differences(root, &published);
    Ok((!differences.is_empty()).then(|| differences.join(", ")))
}

fn expected(root: &DeTable<'_>) -> Result<Vec<Expected>, Wrong> {
    let Some(value) = root.get("expect") else { return Ok(Vec::new()) };
    let wrong = || Wrong::new("expect", "no list of texts; write [\"queue_ms.p95 <= 10\"]");
    let items = value.get_ref().as_array().ok_or_else(wrong)?;
    let each = items.iter().enumerate().map(|(i, item)| match item.get_ref() {
        DeValue::String(text) => Ok(Expected { text: text.to_string(), known_failure: None }),
        DeValue::Table(table) => known_failure(table).ok_or_else(|| {
            let why = "no known failure; write { that = \"jain >= 0.9\", known_failure = \"the reason\" }";
            Wrong::new(format!("expect[{i}]"), why)
        }),
        _ => Err(wrong()),
    });
    each.collect()
}

/// Nothing where the table has other fields than the two, or an empty reason.
fn known_failure(table: &DeTable<'_>) -> Option<Expected> {
    let text = |name: &str| table.get(name)?.get_ref().as_str().map(str::to_owned);
    let (that, reason) = (text("that")?, text("known_failure")?);
    (table.len() == 2 && !reason.trim().is_empty())
        .then_some(Expected { text: that, known_failure: Some(reason) })
}

/// A tree with lists, and the grid that they make; several when there are variants.
struct Points<'i> {
    tree: DeTable<'i>,
    axes: Vec<GridAxis<'i>>,
    variant: Option<String>,
}

impl<'i> Points<'i> {
    fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// The point number `i`: the first list changes slowest.
    fn point(&self, i: usize) -> (DeTable<'i>, Vec<(String, String)>) {
        let mut tree = self.tree.clone();
        let mut at = Vec::with_capacity(self.axes.len() + 1);
        at.extend(self.variant.clone().map(|name| ("variant".to_owned(), name)));
        let mut step = self.len();
        for axis in &self.axes {
            step /= axis.values.len();
            let pick = i / step % axis.values.len();
            axis.choose(&mut tree, pick);
            at.push((axis.path.clone(), axis.values[pick].clone()));
        }
        (tree, at)
    }
}

fn points<'i>(root: &DeTable<'i>) -> Result<Vec<Points<'i>>, Wrong> {
    let mut base = root.clone();
    // It is read once for all points.
    base.remove("expect");
    let Some(variants) = base.remove("variant") else {
        let axes = tree::take_axes(&mut base)?;
        let points = vec![Points { tree: base, axes, variant: None }];
        Size::default().add(&points[0])?;
        return Ok(points);
    };
    let wrong = || Wrong::new("variant", "no list of tables; write [[variant]] before each");
    let variants = variants.get_ref().as_array().ok_or_else(wrong)?.clone();
    if variants.is_empty() {
        let why = "an empty list makes no run; write [[variant]] tables, or leave it out";
        return Err(Wrong::new("variant", why));
    }
    let mut points: Vec<Points<'i>> = Vec::with_capacity(variants.len());
    let mut size = Size::default();
    for (i, variant) in variants.iter().enumerate() {
        let DeValue::Table(mut changes) = variant.get_ref().clone() else { return Err(wrong()) };
        let name = changes.remove("name");
        let name = name.as_ref().and_then(|n| n.get_ref().as_str()).ok_or_else(|| {
            Wrong::new(format!("variant[{i}]"), "no name; write name = \"deep buffer\"")
        })?;
        if name.chars().count() > MAX_NAME {
            let why = format!("longer than {MAX_NAME} characters; write a shorter one");
            return Err(Wrong::new(format!("variant[{i}].name"), why));
        }
        if points.iter().any(|p| p.variant.as_deref() == Some(name)) {
            let why = format!("'{}' is named twice", name.escape_debug());
            return Err(Wrong::new(format!("variant[{i}].name"), why));
        }
        if changes.contains_key("expect") {
            let why = "of the whole file; write it at the top, with [VALUE] behind what it means";
            return Err(Wrong::new(format!("variant[{i}].expect"), why));
        }
        no_choice_in(&changes, &format!("variant[{i}]"))?;
        let mut tree = base.clone();
        tree::overlay(&mut tree, &changes);
        let axes = tree::take_axes(&mut tree)?;
        let these = Points { tree, axes, variant: Some(name.to_owned()) };
        // Each variant holds a copy of the file's tree, so the size is checked before the next one
        // is made.
        size.add(&these)?;
        points.push(these);
    }
    Ok(points)
}

/// The most tables of all runs together: each run has its own copy of the file's.
const MAX_TABLES: usize = 1_000_000;

/// The most memory of the scenarios of all runs together.
const MAX_BYTES: usize = 500_000_000;

fn too_large() -> Wrong {
    let why = format!(
        "its runs have more flows, links and routes together than fit in {}; shorten a list, or write \
         fewer flows or a smaller network",
        show_bytes(MAX_BYTES as u64)
    );
    Wrong::new("", why)
}

/// Size of the grid so far.
#[derive(Default)]
struct Size {
    runs: usize,
    tables: usize,
}

impl Size {
    /// # Errors
    /// With these points the grid is too large.
    fn add(&mut self, points: &Points<'_>) -> Result<(), Wrong> {
        self.runs = self.runs.saturating_add(points.len());
        self.tables =
            self.tables.saturating_add(points.len().saturating_mul(tree::tables(&points.tree)));
        if self.runs > MAX_RUNS {
            let why =
                format!("the variants make {} runs or more, the most is {MAX_RUNS}", self.runs);
            return Err(Wrong::new("variant", why));
        }
        if self.tables > MAX_TABLES {
            let why = format!(
                "its runs have {} tables or more together, the most is {MAX_TABLES}; shorten a list, or \
                 write count in place of [[flow]] tables that are alike",
                self.tables
            );
            return Err(Wrong::new("", why));
        }
        Ok(())
    }
}

/// The axes by the last word of their path where that is clear, and what does that to a path.
fn short_names(points: &[Points<'_>]) -> (Vec<String>, impl Fn(&str) -> String + use<>) {
    let mut paths: Vec<String> = Vec::new();
    for axis in points.iter().flat_map(|p| &p.axes) {
        if !paths.contains(&axis.path) {
            paths.push(axis.path.clone());
        }
    }
    let last = |path: &str| path.rsplit('.').next().unwrap_or(path).to_owned();
    let all = paths.clone();
    let short = move |path: &str| {
        let is_clear = all.iter().filter(|p| last(p) == last(path)).count() <= 1;
        if is_clear { last(path) } else { path.to_owned() }
    };
    let mut names: Vec<String> = paths.iter().map(|p| short(p)).collect();
    if points.iter().any(|p| p.variant.is_some()) {
        names.insert(0, "variant".to_owned());
    }
    (names, short)
}

#[cfg(test)]
#[path = "choices_tests.rs"]
mod choices_tests;
#[cfg(test)]
#[path = "document_tests.rs"]
mod document_tests;
