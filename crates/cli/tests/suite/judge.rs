//! Input that `fullpipe judge` refuses before it runs anything.

use std::path::Path;

use crate::common::{fullpipe, run};

#[test]
fn a_baseline_that_is_none_is_bad_input() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let said = run(fullpipe(Path::new("/"), &["judge", "--baseline", file, "--", "true"]));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("no JSON of fullpipe judge"), "{}", said.stderr);
}
