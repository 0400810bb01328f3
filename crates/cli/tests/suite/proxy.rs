//! Input that `fullpipe proxy` refuses.

use std::path::Path;

use crate::common::{fullpipe, run};

#[test]
fn bad_input_gets_one_line() {
    let to = ["--to", "127.0.0.1:1"];
    let here = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"];
    let tun = ["--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--tun", "fpnone0"];
    for (args, reason) in [
        (&[][..], "--listen"),
        (&to, "--listen"),
        (&["--listen", "127.0.0.1:0"], "--to"),
        (&["--listen", "here", "--to", "127.0.0.1:1"], "an IP address and a port"),
        (&["--listen", "192.0.2.1:1", "--to", "127.0.0.1:1"], "cannot listen on 192.0.2.1:1"),
        (&["--listen", "127.0.0.1:0", "--to", "127.0.0.1"], "no HOST:PORT"),
        (&["--listen", "127.0.0.1:0", "--to", "127.0.0.1:0"], "nobody has port 0"),
        (&[&here[..], &["--cc", "linux:none"]].concat(), "this kernel has no linux:none"),
        (&[&here[..], &["--cc", "noq:bbr3"]].concat(), "noq:bbr3 is not in this kernel"),
        (&[&here[..], &["--cc", "nothing"]].concat(), "nothing"),
        (&[&here[..], &["--max-connections", "0"]].concat(), "from 1 to 1000000"),
        (&[&here[..], &["--buffer", "1B"]].concat(), "from 64KiB to 1GiB"),
        (&[&here[..], &["--max-memory", "1kB"]].concat(), "1MiB at the least"),
        (&[&here[..], &["--unsent", "0B"]].concat(), "from 1B to 1GiB"),
        (&[&here[..], &["--connect-timeout", "0s"]].concat(), "more than 0"),
        (&[&here[..], &["--from", "10.9.0.2"]].concat(), "--tun"),
        (&tun, "an address and a port of its own"),
        (&[&tun[..], &["--from", "10.9.0.2"]].concat(), "there is no device fpnone0"),
        (
            &[&tun[..], &["--from", "10.9.0.2", "--cc", "linux:bbr"]].concat(),
            "not there over --tun",
        ),
    ] {
        let said = run(fullpipe(Path::new("/"), &[&["proxy"], args].concat()));
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(reason), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
    }
}
