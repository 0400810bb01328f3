//! Runs what README and the guide show and sends real packets.

use std::process::Command;

use crate::common::run;
use crate::documents::{root, run_all};

fn every_command_of_the_readme_with_real_packets_runs() {
    run_all("README.md", true);
}

fn every_command_of_the_guide_with_real_packets_runs() {
    run_all("docs/guide.md", true);
}

/// A project of one's own, compiled in an empty directory.
fn the_task_about_the_library_runs_in_an_empty_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut shell = Command::new("sh");
    shell.arg(root().join("docs/tasks/library.sh")).current_dir(&dir);
    let said = run(shell);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(said.stdout, b"20.0 Mbit/s\n", "the model's bandwidth");
}

fullpipe_testkit::tests! {
    long [] every_command_of_the_readme_with_real_packets_runs,
        every_command_of_the_guide_with_real_packets_runs,
        the_task_about_the_library_runs_in_an_empty_directory;
}
