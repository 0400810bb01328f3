//! Each crate that may be published has what its page in a registry needs, and each that may not
//! says so.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use toml::Table;

#[test]
fn each_published_crate_is_complete() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut published = Vec::new();
    for entry in fs::read_dir(&crates).expect("crates") {
        let dir = entry.expect("an entry").path();
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).expect("a manifest");
        let manifest: Table = manifest.parse().expect("TOML");
        let package = manifest["package"].as_table().expect("a package");
        if package.get("publish").and_then(|value| value.as_bool()) == Some(false) {
            continue;
        }
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

/// An application that takes an adapter takes its stack along, and little else: no server, no
/// client, no lab.
#[test]
fn an_adapter_takes_few_crates_along() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    for adapter in ["fullpipe-noq", "fullpipe-quinn"] {
        let tree = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "none"])
            .args(["--package", adapter, "--manifest-path"])
            .arg(&manifest)
            .output()
            .expect("cargo");
        let tree = String::from_utf8(tree.stdout).expect("names of crates");
        let crates: BTreeSet<&str> = tree.lines().collect();
        assert!((30..=70).contains(&crates.len()), "{adapter}: {}: {tree}", crates.len());
        let ours =
            crates.iter().filter(|name| name.starts_with("fullpipe-") && !name.contains("(*)"));
        assert!(ours.count() <= 4, "{adapter}: {tree}");
    }
}
