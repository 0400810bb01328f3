//! Each crate that may be published has what its page in a registry needs, and each that may not
//! says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::Table;

use crate::documents::root;

fn manifest_in(dir: &Path) -> Table {
    let manifest = fs::read_to_string(dir.join("Cargo.toml")).expect("a manifest");
    manifest.parse().expect("TOML")
}

/// The directories and manifests of the crates that may be published.
fn published_crates() -> Vec<(PathBuf, Table)> {
    let mut published = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let dir = entry.expect("an entry").path();
        let manifest = manifest_in(&dir);
        if manifest["package"].get("publish").and_then(|value| value.as_bool()) != Some(false) {
            published.push((dir, manifest));
        }
    }
    published
}

#[test]
fn each_published_crate_is_complete() {
    let mut published = Vec::new();
    for (dir, manifest) in published_crates() {
        let package = manifest["package"].as_table().expect("a package");
        let name = package["name"].as_str().expect("a name");
        for field in ["description", "documentation", "license", "rust-version"] {
            assert!(package.contains_key(field), "{name}: no {field}");
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let values = package.get(field).and_then(|value| value.as_array());
            let count = values.map_or(0, Vec::len);
            assert!((1..=most).contains(&count), "{name}: {count} {field}");
        }
        for file in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
            assert!(!text.is_empty(), "{name}: no {file}");
        }
        let features = manifest.get("features").and_then(|value| value.as_table());
        let defaults = features.and_then(|all| all.get("default")?.as_array());
        let is_hidden = |feature: &str| {
            let is_default = |value: &toml::Value| value.as_str() == Some(feature);
            feature != "default" && !defaults.is_some_and(|all| all.iter().any(is_default))
        };
        if features.is_some_and(|all| all.keys().any(|feature| is_hidden(feature))) {
            let docs = package.get("metadata").and_then(|metadata| metadata.get("docs"));
            let all = docs.and_then(|docs| docs.get("rs")?.get("all-features")?.as_bool());
            assert_eq!(all, Some(true), "{name}: docs.rs would not show what is off by default");
        }
        let own = manifest.get("dependencies").and_then(|value| value.as_table());
        let own = own.into_iter().flat_map(Table::keys).filter(|name| name.starts_with("fullpipe"));
        published.push((name.to_owned(), own.cloned().collect::<Vec<_>>()));
    }
    assert!(published.iter().any(|(name, _)| name == "fullpipe-cc"), "{published:?}");
    for (name, needed) in &published {
        let missing = needed.iter().find(|needed| !published.iter().any(|(it, _)| it == *needed));
        assert!(missing.is_none(), "{name} needs {missing:?}, which is not published");
    }
}

/// A row names crates and the oldest Rust that each of them needs.
#[test]
fn the_table_of_rust_versions_is_that_of_the_manifests() {
    let page = fs::read_to_string(root().join("docs/library.md")).expect("docs/library.md");
    let table = page.split("## Versions of Rust").nth(1).expect("its section");
    let workspace = manifest_in(&root());
    for (_, manifest) in published_crates() {
        let name = manifest["package"]["name"].as_str().expect("a name");
        let own = manifest["package"]["rust-version"].as_str();
        let common = || workspace["workspace"]["package"]["rust-version"].as_str();
        let version = own.or_else(common).expect("a version");
        let row = table.lines().find(|line| line.contains(&format!("`{name}`")));
        let row = row.unwrap_or_else(|| panic!("docs/library.md: no row for {name}"));
        assert!(row.contains(&format!(" | {version} | ")), "{name} needs {version}: {row}");
    }
}

/// An application that takes an adapter takes its stack along, and little else: no server, no
/// client, no lab. The model of a path takes the units and no congestion control.
#[test]
fn a_library_takes_few_crates_along() {
    let manifest = root().join("Cargo.toml");
    for (library, all, most_ours) in
        [("fullpipe-noq", 30..=70, 4), ("fullpipe-quinn", 30..=70, 4), ("fullpipe-path", 3..=15, 2)]
    {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"])
            .args(["--package", library, "--manifest-path"])
            .arg(&manifest)
            .output()
            .expect("cargo");
        let tree = String::from_utf8(tree.stdout).expect("names of crates");
        let crates: BTreeSet<&str> = tree.lines().collect();
        assert!(all.contains(&crates.len()), "{library}: {}: {tree}", crates.len());
        let ours =
            crates.iter().filter(|name| name.starts_with("fullpipe-") && !name.contains("(*)"));
        assert!(ours.count() <= most_ours, "{library}: {tree}");
    }
}
