//! The loader of the packages and their files. scripts/deb-in-qemu.sh installs Debian's.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PAGE: &str = include_str!("../../debian/fullpipe-bbr3.8");
const OPTIONS: &str = include_str!("../../debian/fullpipe-bbr3.default");

fn loader(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fullpipe-bbr3")).args(args).output().expect("it starts")
}

#[test]
fn the_manual_page_and_the_conffile_have_what_the_loader_takes() {
    let help = |args: &[&str]| String::from_utf8(loader(args).stdout).expect("UTF-8");
    let page = PAGE.replace('\\', "");
    let commands = help(&["--help"]);
    for command in ["load", "status", "metrics", "use", "unload", "check"] {
        assert!(commands.contains(&format!("\n  {command} ")), "{commands}");
        assert!(page.contains(&format!("\n.B {command}")), "{command}");
    }
    let used = help(&["use", "--help"]);
    for option in ["--cgroup", "--port", "--off"] {
        assert!(used.contains(option) && page.contains(option), "{option}");
    }
    let load = help(&["load", "--help"]);
    let options = load.split_whitespace().filter(|word| word.starts_with("--"));
    let mut options: Vec<_> = options.filter(|option| *option != "--help").collect();
    options.sort_unstable();
    // The text of one option may name another.
    options.dedup();
    assert_eq!(
        options,
        ["--amended", "--default", "--low-latency-ecn", "--max-connections", "--name"]
    );
    for option in options {
        assert!(page.contains(option), "the page lacks {option}");
        // A name of its own is for who loads it by hand, and ALGORITHM says what is amended.
        let is_by_hand = ["--name", "--amended"].contains(&option);
        assert!(is_by_hand || OPTIONS.contains(option), "the conffile lacks {option}");
    }
}

/// The texts between `before` and `after` in a recipe.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split(after).next())
}

#[test]
fn the_recipes_for_other_distributions_name_files_that_there_are() {
    let crate_ = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_.join("../..");
    let manifest = fs::read_to_string(crate_.join("Cargo.toml")).expect("it is there");
    let rpm = manifest.split("[package.metadata.generate-rpm]").nth(1).expect("a recipe");
    let mut files = 0;
    for file in between(rpm, "{ source = \"", "\"").chain(between(rpm, "_script = \"", "\"")) {
        files += 1;
        assert!(file.starts_with("target/") || crate_.join(file).exists(), "{file}");
    }
    let arch = fs::read_to_string(crate_.join("arch/PKGBUILD")).expect("it is there");
    for file in arch.split_whitespace().filter(|word| word.starts_with("crates/bpf/")) {
        files += 1;
        assert!(root.join(file).exists(), "{file}");
    }
    assert_eq!(files, 12, "six files and three scripts, and three files");
    let version = concat!("\npkgver=", env!("CARGO_PKG_VERSION"), "\n");
    assert!(arch.contains(version), "{version}");
    let scripts = between(rpm, "_script = \"", "\"");
    for script in scripts.chain(["arch/PKGBUILD", "arch/fullpipe-bbr3.install"]) {
        let checked = Command::new("bash").arg("-n").arg(crate_.join(script)).output();
        let checked = checked.expect("test.sh needs bash as well");
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success(), "{script}: {said}");
    }
}

/// Every connection would be Reno.
const ZERO: &[&str] = &["load", "--max-connections", "0"];

/// Algorithms that there are not, and a name for two.
const LOADS: [&[&str]; 3] =
    [&["load", "bbr2"], &["load", "bbr3", "bbr3x", "--name", "b"], &["load", "bbr3", "--amended"]];

/// Ports that there are not, and words that are missing.
const USES: [&[&str]; 4] = [
    &["use", "bbr3", "--cgroup", "/", "--port", "0"],
    &["use", "bbr3", "--cgroup", "/", "--port", "80,x"],
    &["use", "--off", "--cgroup", "/", "--port", "80"],
    &["use", "--cgroup", "/"],
];

#[test]
fn bad_input_is_one_line() {
    let no_cgroup: &[&str] = &["use", "reno", "--cgroup", "/proc"];
    let loads = [&["nonsense"][..], &["load", "--nonsense"], &["load", "--name", "a b"], ZERO, &[]];
    for args in loads.into_iter().chain(LOADS).chain(USES).chain([no_cgroup]) {
        let output = loader(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(args.is_empty() || said.lines().count() == 1, "{args:?}: {said}");
    }
}
