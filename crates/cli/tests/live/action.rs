//! The script that the action for CI runs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use fullpipe_testkit::until;

/// In place of the time that the script gives to what it starts in the background: until that says
/// that it is there, or until bash has seen its end.
const SLEEP: &str = r#"#!/bin/sh
until [ -e there ] || { [ -e gone ] && ! kill -0 "$(cat gone)" 2>/dev/null; }; do
    command -p sleep 0.01
done
"#;

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("a mode");
}

/// The script in a directory of its own, with a program in place of fullpipe that notes its
/// arguments and ends with a code.
fn script(dir: &Path, code: u8, variables: &[(&str, &str)]) -> Output {
    let stub = dir.join("stub");
    let text = format!(
        "#!/bin/sh\nfor word; do echo \"$word\"; done > arguments\necho '{{\"schema_version\": 1}}'\n\
         echo the last line >&2\nexit {code}\n"
    );
    program(&stub, &text);
    std::fs::create_dir_all(dir.join("bin")).expect("a directory");
    program(&dir.join("bin/sleep"), SLEEP);
    let path = std::env::var("PATH").expect("text");
    let mut command = Command::new("bash");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.arg(root.join("scripts/judge-in-ci.sh")).current_dir(dir);
    command.env("FULLPIPE", &stub).env("PATH", format!("{}/bin:{path}", dir.display()));
    command.env_remove("GITHUB_STEP_SUMMARY").envs(variables.iter().copied());
    command.output().expect("bash runs")
}

fn arguments(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("arguments")).expect("it was started");
    text.lines().map(str::to_owned).collect()
}

fn the_script_runs_judge_and_keeps_its_exit_code_and_its_results() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("before.json"), "{}").expect("a file");
    let line = "client https://localhost:{port}/file";
    for code in [0, 1, 2] {
        let summary = dir.path().join("summary.md");
        let said = script(
            dir.path(),
            code,
            &[
                ("JUDGE_COMMAND", line),
                ("JUDGE_UDP", "0=127.0.0.1:4433"),
                ("JUDGE_BASELINE", "before.json"),
                (
                    "JUDGE_BACKGROUND",
                    "echo $$ > background.pid; touch there; exec tail -f /dev/null",
                ),
                ("GITHUB_STEP_SUMMARY", summary.to_str().expect("text")),
            ],
        );
        assert_eq!(said.status.code(), Some(code.into()), "{said:?}");
        let expected = [
            "judge",
            "--json",
            "--junit",
            "fullpipe-judge/judge.xml",
            "--quick",
            "--baseline",
            "before.json",
            "--udp",
            "0=127.0.0.1:4433",
            "--",
            "sh",
            "-c",
            line,
        ];
        assert_eq!(arguments(dir.path()), expected);
        let json = std::fs::read_to_string(dir.path().join("fullpipe-judge/judge.json"));
        assert!(json.expect("a file").contains("schema_version"));
        let summary = std::fs::read_to_string(summary).expect("a summary");
        assert!(
            summary.contains(&format!("exit code {code}")) && summary.contains("the last line")
        );
        let pid = std::fs::read_to_string(dir.path().join("background.pid")).expect("it ran");
        let stat = format!("/proc/{}/stat", pid.trim());
        until("the end of what ran in the background", || {
            // One that was killed may be somebody's to reap for a moment.
            std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "))
        });
        std::fs::remove_file(dir.path().join("there")).expect("it is there");
    }
}

fn a_baseline_that_is_not_there_is_no_error_and_bad_input_is_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let good = [("JUDGE_COMMAND", "x"), ("JUDGE_BASELINE", "none.json"), ("JUDGE_QUICK", "false")];
    let said = script(dir.path(), 0, &[&good[..], &[("JUDGE_UDP", "0=127.0.0.1:9")]].concat());
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("no baseline at none.json"));
    let arguments = arguments(dir.path());
    assert!(!arguments.iter().any(|word| word == "--baseline" || word == "--quick"));
    for (variables, part) in [
        (&[][..], "JUDGE_COMMAND"),
        (&[("JUDGE_COMMAND", "x"), ("JUDGE_UDP", "a"), ("JUDGE_SERVER", "b")], "one of them"),
        (&[("JUDGE_COMMAND", "x"), ("JUDGE_QUICK", "yes")], "true or false"),
        (&[("JUDGE_COMMAND", "x"), ("FULLPIPE", "/no/such")], "/no/such"),
        (
            &[
                ("JUDGE_COMMAND", "x"),
                ("JUDGE_UDP", "a"),
                ("JUDGE_BACKGROUND", "echo gone; echo $$ > pid; mv pid gone; exit 3"),
            ],
            "last output: gone",
        ),
    ] {
        let said = script(dir.path(), 0, variables);
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(2), "{variables:?}: {error}");
        assert!(error.contains(part), "{variables:?} should tell {part}: {error}");
    }
}

fullpipe_testkit::tests! {
    [Bash] the_script_runs_judge_and_keeps_its_exit_code_and_its_results,
        a_baseline_that_is_not_there_is_no_error_and_bad_input_is_one;
}
