//! Input that `fullpipe perf` refuses.

use std::path::Path;

use crate::common::{fullpipe, run};

#[test]
fn bad_input_gets_one_line() {
    let said = |args: &[&str]| run(fullpipe(Path::new("/"), &[&["perf"], args].concat()));
    for args in [
        &[][..],
        &["--server", "here"],
        &["--server", "127.0.0.1:0", "--client", "127.0.0.1:1"],
        &["--server", "127.0.0.1:0", "--bytes", "1MB"],
        &["--server", "192.0.2.1:1"],
        &["--client", "127.0.0.1:1", "--bytes", "0B"],
        &["--client", "127.0.0.1:1", "--duration", "0s"],
        &["--client", "127.0.0.1:1", "--interval", "1ms"],
        &["--client", "127.0.0.1:1", "--unsent", "0B"],
        &["--client", "127.0.0.1:1", "--cc", "bbr3"],
        &["--client", "127.0.0.1:1", "--cc", "linux:none"],
        &["--client", "127.0.0.1:1", "--tun", "fp0=10.9.0.1/24"],
        &["--client", "nowhere"],
    ] {
        let said = said(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
    }
}
