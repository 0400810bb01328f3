//! The action for CI, the script that it runs, and the command have the same inputs and options.

use std::path::Path;

use crate::common::{fullpipe, run};

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The script reads the variables that the action sets, and the command has the options that the
/// script passes on.
#[test]
fn the_action_the_script_and_the_command_fit_together() {
    let (action, script) = (read("action.yml"), read("scripts/judge-in-ci.sh"));
    let inputs: Vec<&str> =
        action.split("${{ inputs.").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    assert_eq!(inputs.len(), 7, "{inputs:?}");
    for input in inputs {
        assert!(action.contains(&format!("\n  {input}:\n")), "{input} is declared");
        assert!(script.contains(&format!("JUDGE_{}", input.to_uppercase())), "{input} is read");
        assert!(read("docs/ci.md").contains(&format!("`{input}`")), "{input} is in docs/ci.md");
    }
    let help = run(fullpipe(Path::new("."), &["judge", "--help"])).stdout;
    let help = String::from_utf8(help).expect("UTF-8");
    for option in ["--json", "--junit", "--quick", "--baseline", "--udp", "--server"] {
        assert!(script.contains(option) && help.contains(option), "{option}");
    }
}
