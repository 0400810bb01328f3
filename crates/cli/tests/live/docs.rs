//! Runs what README and the guide show and sends real packets.

use crate::documents::run_all;

fn every_command_of_the_readme_with_real_packets_runs() {
    run_all("README.md", true);
}

fn every_command_of_the_guide_with_real_packets_runs() {
    run_all("docs/guide.md", true);
}

fullpipe_testkit::tests! {
    long [] every_command_of_the_readme_with_real_packets_runs,
        every_command_of_the_guide_with_real_packets_runs;
}
