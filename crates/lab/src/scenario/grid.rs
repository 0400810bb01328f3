//! A scenario file as the grid of its runs.
//!
//! A file is read as a tree whose values know their lines. Fields with lists make a grid. Each point of
//! the grid becomes a tree of its own, is read by serde, and is checked by building it, before the first
//! of them runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::build::{self, Scenario};
use super::error::{FileError, Wrong};
use super::tree::{self, Axis};
use super::{MAX_RUNS, schema};

/// Which of the fields that a file says twice count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edition {
    /// Those of its table `full`: the published length.
    pub full: bool,
    /// Those of the backend's table: of `quic` that is `over_quic`. `None` is the simulator, which has none.
    pub backend: Option<&'static str>,
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
    dir: Arc<Path>,
}

impl Run {
    /// The scenario that this point describes.
    pub(crate) fn scenario(&self) -> Result<Scenario, Wrong> {
        build::scenario(&self.document, &self.dir)
    }
}

/// A scenario file that was read, before its expectations are.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// What it is called.
    pub name: String,
    /// What it says of itself to people.
    pub about: Option<String>,
    /// The file's text.
    pub text: String,
    /// The runs.
    pub grid: Grid,
    /// What is shorter than published, in words, unless it was asked for in full.
    pub shortened: Option<String>,
    /// The texts of `expect`.
    pub expected: Vec<String>,
}

impl ScenarioFile {
    /// Reads a file and checks all that it holds, but for its expectations.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(path: &Path, edition: Edition) -> Result<Self, FileError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| FileError {
            file: file.clone(),
            line: None,
            field: String::new(),
            message: error.to_string(),
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
        let shortened = choose_edition(root.get_mut(), edition)
            .map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let expected = expected(root.get_ref()).map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let points = points(root.get_ref()).map_err(|w| source.of_wrong(&w, root.get_ref()))?;
        let (axes, names) = short_names(&points);
        let dir: Arc<Path> = dir.into();
        let mut runs = Vec::with_capacity(points.iter().map(Points::len).sum());
        for part in &points {
            for i in 0..part.len() {
                let (tree, at) = part.point(i);
                let at = at.into_iter().map(|(path, value)| (names(&path), value)).collect();
                let document = read(&source, &tree)?;
                let run = Run { at, document, dir: dir.clone() };
                run.scenario().map_err(|w| source.of_wrong(&w, &tree))?;
                runs.push(run);
            }
        }
        let about = runs.first().and_then(|run| run.document.about.clone());
        let name = runs.first().and_then(|run| run.document.name.clone());
        let name = name.unwrap_or_else(|| stem.to_owned());
        let text = text.to_owned();
        Ok(Self { name, about, text, grid: Grid { axes, runs }, shortened, expected })
    }
}

/// What is wrong with a field of a text that was read before, with the field's line.
pub(crate) fn locate(text: &str, file: &str, wrong: &Wrong) -> FileError {
    // It was parsed before; without a tree the error only lacks its line.
    let tree = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    Source { text, file }.of_wrong(wrong, &tree)
}

fn read(source: &Source<'_>, tree: &DeTable<'_>) -> Result<schema::Document, FileError> {
    let whole = Spanned::new(0..source.text.len(), tree.clone());
    schema::Document::deserialize(Deserializer::from(whole)).map_err(|e| source.of_toml(&e, tree))
}

/// A file's text, for those who say where something stands in it.
struct Source<'a> {
    text: &'a str,
    file: &'a str,
}

impl Source<'_> {
    fn of_toml(&self, error: &toml::de::Error, tree: &DeTable<'_>) -> FileError {
        let at = error.span().map(|span| span.start);
        FileError {
            file: self.file.to_owned(),
            line: at.map(|at| tree::line_at(self.text, at)),
            field: at.map_or(String::new(), |at| tree::field_at(tree, at)),
            message: error.message().to_owned(),
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

/// The tables whose fields count over one backend alone.
const BACKEND_TABLES: [(&str, &str); 2] = [("quic", "over_quic"), ("tcp", "over_tcp")];

/// The backends for which a text has a table: those over which it says what of it runs.
pub(crate) fn backends_with_tables(text: &str) -> Vec<&'static str> {
    let root = DeTable::parse(text).map(Spanned::into_inner).unwrap_or_default();
    let has = |(_, table): &(&str, &str)| root.contains_key(*table);
    BACKEND_TABLES.into_iter().filter(has).map(|(backend, _)| backend).collect()
}

/// Lays the tables of the edition upon the file, and takes those of the others away. Says what is
/// shorter than published.
fn choose_edition(root: &mut DeTable<'_>, edition: Edition) -> Result<Option<String>, Wrong> {
    let mut take = |name: &str| match root.remove(name).map(Spanned::into_inner) {
        None => Ok(DeTable::new()),
        Some(DeValue::Table(table)) => Ok(table),
        Some(_) => Err(Wrong::new(name, format!("no table; write [{name}] before its fields"))),
    };
    let full = take("full")?;
    let mut own = DeTable::new();
    for (backend, name) in BACKEND_TABLES {
        let table = take(name)?;
        if edition.backend == Some(backend) {
            own = table;
        }
    }
    let mut published = tree::below(root, &own);
    tree::overlay(root, &own);
    if edition.full {
        tree::overlay(root, &full);
    } else {
        tree::overlay(&mut published, &full);
    }
    let differences = tree::differences(root, &published);
    Ok((!differences.is_empty()).then(|| differences.join(", ")))
}

/// The texts of `expect`.
fn expected(root: &DeTable<'_>) -> Result<Vec<String>, Wrong> {
    let Some(value) = root.get("expect") else { return Ok(Vec::new()) };
    let wrong = || Wrong::new("expect", "no list of texts; write [\"queue_ms.p95 <= 10\"]");
    let items = value.get_ref().as_array().ok_or_else(wrong)?;
    items.iter().map(|v| v.get_ref().as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

/// A tree with lists, and the grid that they make; several when there are variants.
struct Points<'i> {
    tree: DeTable<'i>,
    axes: Vec<Axis>,
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
            tree::choose(&mut tree, &axis.path, pick);
            at.push((axis.path.clone(), axis.values[pick].clone()));
        }
        (tree, at)
    }
}

fn points<'i>(root: &DeTable<'i>) -> Result<Vec<Points<'i>>, Wrong> {
    let mut base = root.clone();
    let Some(variants) = base.remove("variant") else {
        let axes = tree::axes(&base)?;
        return Ok(vec![Points { tree: base, axes, variant: None }]);
    };
    let wrong = || Wrong::new("variant", "no list of tables; write [[variant]] before each");
    let variants = variants.get_ref().as_array().ok_or_else(wrong)?.clone();
    let mut points: Vec<Points<'i>> = Vec::with_capacity(variants.len());
    for (i, variant) in variants.iter().enumerate() {
        let DeValue::Table(mut changes) = variant.get_ref().clone() else { return Err(wrong()) };
        let name = changes.remove("name");
        let name = name.as_ref().and_then(|n| n.get_ref().as_str()).ok_or_else(|| {
            Wrong::new(format!("variant[{i}]"), "no name; write name = \"deep buffer\"")
        })?;
        if points.iter().any(|p| p.variant.as_deref() == Some(name)) {
            let why = format!("'{}' is named twice", name.escape_debug());
            return Err(Wrong::new(format!("variant[{i}].name"), why));
        }
        let mut tree = base.clone();
        tree::overlay(&mut tree, &changes);
        let axes = tree::axes(&tree)?;
        points.push(Points { tree, axes, variant: Some(name.to_owned()) });
    }
    let runs: usize = points.iter().map(Points::len).sum();
    if runs > MAX_RUNS {
        let why = format!("the variants make {runs} runs, the most is {MAX_RUNS}");
        return Err(Wrong::new("variant", why));
    }
    Ok(points)
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
