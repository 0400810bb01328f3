//! The path of a scenario file for other flows than its own.

use std::path::{Path, PathBuf};

use super::Plan;
use crate::scenario::{Edition, FileError};

/// The tables of a scenario file that make its path: `path`, `link` and `cross`.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkText {
    /// The scenario's name.
    pub name: String,
    /// These tables as TOML.
    pub tables: String,
    /// Folder in which its traces are looked for.
    pub dir: PathBuf,
    /// Seed of everything random.
    pub seed: u64,
    /// Duration of the scenario, as the file has it; nothing where it has none, or several.
    pub duration: Option<String>,
}

/// The fields of a file that are of its path. A variant may have them too.
const OF_THE_PATH: [&str; 3] = ["path", "link", "cross"];

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
        let part = |of: &toml::Table| {
            let fields = OF_THE_PATH
                .into_iter()
                .filter_map(|name| of.get(name).map(|value| (name.to_owned(), value.clone())));
            fields.collect::<toml::Table>()
        };
        let mut tables = part(&all);
        let variants = all.get("variant").and_then(|list| list.as_array()).into_iter().flatten();
        let variants: Vec<toml::Value> = variants
            .filter_map(|variant| {
                let variant = variant.as_table()?;
                let mut kept = part(variant);
                let is_other = !kept.is_empty();
                kept.extend(variant.get_key_value("name").map(|(k, v)| (k.clone(), v.clone())));
                is_other.then_some(kept.into())
            })
            .collect();
        if !variants.is_empty() {
            tables.insert("variant".to_owned(), variants.into());
        }
        let seed = all.get("seed").and_then(toml::Value::as_integer);
        let duration = all.get("duration").and_then(toml::Value::as_str);
        Ok(Self {
            name: plan.name,
            tables: toml::to_string(&tables).unwrap_or_default(),
            dir: dir.to_owned(),
            seed: seed.and_then(|seed| u64::try_from(seed).ok()).unwrap_or(1),
            duration: duration.filter(|text| *text != "until_done").map(str::to_owned),
        })
    }
}
