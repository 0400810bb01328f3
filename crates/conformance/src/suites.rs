//! Suites of conditions that others published, as scenario files with expectations.

use std::path::Path;

use fullpipe_report::plan::Plan;
use fullpipe_scenario::{Cc, Edition, FileError};

/// Scenario files with the conditions of one source.
#[derive(Debug)]
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// Origin of the conditions, in a line.
    pub source: &'static str,
    /// The algorithm that is held to them.
    pub subject: &'static str,
    /// The page about it.
    pub page: &'static str,
    /// Its scenario files.
    pub files: &'static [SuiteFile],
}

/// A scenario file that is in the program.
#[derive(Clone, Copy, Debug)]
pub struct SuiteFile {
    /// Its path in the sources.
    pub path: &'static str,
    /// Its name without folder and ending.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! files {
    ($folder:literal: $($name:literal)*) => {
        &[$(SuiteFile {
            path: concat!("scenarios/", $folder, "/", $name, ".toml"),
            name: $name,
            text: include_str!(concat!("../../../scenarios/", $folder, "/", $name, ".toml")),
        }),*]
    };
}

/// The suites beside the draft's own cases.
pub static SUITES: &[Suite] = &[
    Suite {
        name: "quiche-bbr3",
        source: "Google QUICHE, bbr3_simulator_test.cc",
        subject: "bbr3",
        page: "docs/quiche-bbr3.md",
        files: files!("suites/quiche-bbr3": "startup" "drain" "transfer" "bandwidth-steps" "pauses" "senders"),
    },
    Suite {
        name: "linux-v3",
        source: "a running Linux 6.12.117 with BBRv3, for bbr3-linux",
        subject: "bbr3-linux",
        page: "docs/accuracy.md",
        files: files!("suites/linux-v3": "0.1bdp" "1bdp" "6bdp" "1mbit" "2mbit" "application-limited"
            "beside-cubic" "four-flows" "jitter" "loss-0.1" "loss-1" "loss-2" "loss-3" "steps" "two-flows"),
    },
    Suite {
        name: "c4",
        source: "the C4 project's tests (draft-huitema-ccwg-c4-test), for bbr3x",
        subject: "bbr3x",
        page: "docs/c4.md",
        files: files!("suites/c4": "c4_after_c4" "c4_alone" "c4_alone_200" "c4_before_c4" "c4_blackhole" "c4_drop_and_back" "c4_low_and_up" "c4_media" "c4_media10" "c4_media_600fr" "c4_media_short_long" "c4_media_wb" "c4_media_wf" "c4_media_ws" "c4_satellite" "c4_short_long" "c4_vs_bbr" "c4_vs_bbr_lg" "c4_vs_bbr_lg2" "c4_vs_c4" "c4_vs_c4_lg" "c4_vs_c4_lg2" "c4_vs_cubic" "c4_vs_cubic_lg" "c4_vs_cubic_lg2" "c4_wifi_bad" "c4_wifi_bad_bbr" "c4_wifi_bad_c4" "c4_wifi_bad_cubic" "c4_wifi_fade" "c4_wifi_suspension"),
    },
    Suite {
        name: "reports",
        source: "public reports of BBR's faults",
        subject: "bbr3x",
        page: "docs/results.md",
        files: files!("reports": "late-host" "live-frames" "receive-window" "reordering" "request-response"),
    },
];

/// Changes of a suite's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// The algorithm in place of the suite's.
    pub cc: Option<Cc>,
    /// Stack, clock and length.
    pub edition: Edition,
}

impl Suite {
    /// A file as a plan.
    ///
    /// # Errors
    /// The changes make no sense for it.
    pub fn plan(&self, file: &SuiteFile, changes: &Changes) -> Result<Plan, FileError> {
        let text = match changes.cc {
            None => file.text.to_owned(),
            Some(cc) => swapped(file.text, self.subject, &cc.to_string()),
        };
        // The file has no directory here: it names no other file.
        Plan::parse(&text, file.path, file.name, Path::new(""), changes.edition)
    }
}

/// The text with two names in each other's place: each stays once in a list of algorithms, and what
/// is expected of one is expected of the other.
fn swapped(text: &str, one: &str, other: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_:#.".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_name) {
        let (between, from) = rest.split_at(start);
        let (word, behind) = from.split_at(from.find(|c| !is_of_name(c)).unwrap_or(from.len()));
        out.push_str(between);
        out.push_str(match word {
            word if word == one => other,
            word if word == other => one,
            word => word,
        });
        rest = behind;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of a suite's folder that is not in the program would not be run.
    #[test]
    fn each_file_of_a_suites_folder_is_in_the_program() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for suite in SUITES {
            let folder = Path::new(suite.files[0].path).parent().expect("a folder");
            let entries = std::fs::read_dir(root.join(folder)).expect("a folder");
            let mut there: Vec<String> = entries
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
                .filter(|name| name.ends_with(".toml"))
                .collect();
            let mut known: Vec<String> =
                suite.files.iter().map(|file| format!("{}.toml", file.name)).collect();
            there.sort();
            known.sort();
            assert_eq!(there, known, "{}", suite.name);
            assert!(root.join(suite.page).is_file(), "{}", suite.page);
        }
    }

    /// Each file of each suite, also with an algorithm that its lists have.
    #[test]
    fn another_algorithm_takes_the_place_of_the_suites() {
        for suite in SUITES {
            for cc in ["cubic", "bbr1", suite.subject, "noq:bbr3"] {
                let changes = Changes { cc: cc.parse().ok(), ..Changes::default() };
                for file in suite.files {
                    let plan = suite.plan(file, &changes);
                    let plan = plan.unwrap_or_else(|error| panic!("{cc}: {error}"));
                    let has = |run: &fullpipe_scenario::Run| {
                        let mut flows = run.scenario().flows.iter();
                        flows.any(|flow| flow.algorithm().starts_with(cc))
                    };
                    assert!(plan.grid.runs.iter().any(has), "{cc}: {}", file.path);
                }
            }
        }
    }

    #[test]
    fn names_are_swapped_and_not_parts_of_them() {
        let text = "cc = [\"bbr3\", \"bbr3x\"]\n\"a[bbr3] <= a[bbr3x]\" # bbr3-linux";
        let swapped_text = "cc = [\"bbr3x\", \"bbr3\"]\n\"a[bbr3x] <= a[bbr3]\" # bbr3-linux";
        assert_eq!(swapped(text, "bbr3", "bbr3x"), swapped_text);
    }
}
