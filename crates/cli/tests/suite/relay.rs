//! Input that `fullpipe link --udp` refuses before it takes a port.

use std::path::Path;

use crate::common::{fullpipe, run};

#[test]
fn a_server_elsewhere_sees_one_address_alone() {
    let line = ["link", "--udp", "0.0.0.0:0=192.0.2.1:443", "--rebind-address", "1s", "--", "true"];
    let said = run(fullpipe(Path::new("/"), &line));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("one address"), "{}", said.stderr);
    let line = ["link", "--udp", "0=127.0.0.1:9", "--", "echo", "{host6}"];
    let said = run(fullpipe(Path::new("/"), &line));
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("{host6}"), "{}", said.stderr);
}
