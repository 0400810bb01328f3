//! The path of a scenario file for other flows than its own.

use std::path::{Path, PathBuf};

use fullpipe_scenario::{Edition, FileError, Over};

use super::Plan;

/// The tables of a scenario file that make its path: `path`, `link` and `cross`.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkText {
    /// The scenario's name.
    pub name: String,
    /// These tables.
    pub tables: toml::Table,
    /// Folder in which its traces are looked for.
    pub dir: PathBuf,
    /// Seeds of everything random: one, or those of the file's list.
    pub seeds: Vec<u64>,
    /// Duration of the scenario, as the file has it; nothing where it has none, or several.
    pub duration: Option<String>,
    /// Stack, clock and link that the file names.
    pub over: Over,
}

/// The fields of a file that are of its path.
const OF_THE_PATH: [&str; 3] = ["path", "link", "cross"];

/// The seed, which a variant may have beside them.
const SEED: &str = "seed";

impl NetworkText {
    /// Reads a file and checks all that it holds; its flows and expectations are left out.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn load(file: &Path) -> Result<Self, FileError> {
        let plan = Plan::load(file, Edition::default())?;
        let dir = file.parent().unwrap_or(Path::new(""));
        // What is a plan is a table.
        let all: toml::Table = plan.text.parse().unwrap_or_default();
        for field in ["node", "network"] {
            if all.contains_key(field) {
                return Err(FileError {
                    file: file.display().to_string(),
                    line: None,
                    field: field.to_owned(),
                    message: "its nodes belong to its own flows; write a path or a chain of links"
                        .to_owned(),
                });
            }
        }
        let mut tables = part(&all, &OF_THE_PATH);
        let variants = all.get("variant").and_then(|list| list.as_array());
        let variants = variants.map_or(Vec::new(), |variants| variants_of_the_path(variants));
        if !variants.is_empty() {
            tables.insert("variant".to_owned(), variants.into());
        }
        let seeds = match all.get(SEED) {
            None => vec![1],
            Some(toml::Value::Array(list)) => list.iter().filter_map(seed).collect(),
            Some(one) => seed(one).into_iter().collect(),
        };
        let duration = all.get("duration").and_then(toml::Value::as_str);
        Ok(Self {
            name: plan.name,
            tables,
            dir: dir.to_owned(),
            seeds,
            duration: duration.filter(|text| *text != "until_done").map(str::to_owned),
            over: plan.over,
        })
    }

    /// The seed, where there is one.
    ///
    /// # Errors
    /// The file has a list of them, and so several paths.
    pub fn seed(&self) -> Result<u64, String> {
        match self.seeds.as_slice() {
            [seed] => Ok(*seed),
            list => Err(format!(
                "its list of {} seeds makes as many paths; write one seed in place of the list",
                list.len()
            )),
        }
    }
}

/// These fields of a table.
fn part(of: &toml::Table, fields: &[&str]) -> toml::Table {
    let found = fields.iter().filter_map(|name| of.get_key_value(*name));
    found.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn seed(value: &toml::Value) -> Option<u64> {
    value.as_integer().and_then(|seed| u64::try_from(seed).ok())
}

/// The paths of the variants, each once: a variant that names none has the file's own.
fn variants_of_the_path(variants: &[toml::Value]) -> Vec<toml::Value> {
    let mut paths: Vec<toml::Table> = Vec::new();
    let mut kept: Vec<toml::Value> = Vec::new();
    for variant in variants.iter().filter_map(toml::Value::as_table) {
        let path = part(variant, &["path", "link", "cross", SEED]);
        if paths.contains(&path) {
            continue;
        }
        let named = part(variant, &["name"]).into_iter().chain(path.clone());
        kept.push(named.collect::<toml::Table>().into());
        paths.push(path);
    }
    // Variants of flows alone are all on the file's path.
    if paths.iter().all(toml::Table::is_empty) { Vec::new() } else { kept }
}
