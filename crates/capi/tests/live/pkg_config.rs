//! The flags that pkg-config has for the installed library.

use std::process::Command;

use crate::installed::{Installed, root, succeeded};

fn pkg_config_finds_the_library() {
    let installed = Installed::new();
    let pkg_config = |args: &[&str]| {
        let path = installed.path().join("lib/pkgconfig");
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", path).args(args).arg("fullpipe");
        succeeded(command.output().expect("the test names Need::PkgConfig"))
    };
    assert_eq!(pkg_config(&["--modversion"]).trim(), env!("CARGO_PKG_VERSION"));
    let program = installed.path().join("program");
    let flags = pkg_config(&["--cflags", "--libs"]);
    let mut cc = Command::new("cc");
    cc.arg(root().join("examples/sender.c")).args(flags.split_whitespace()).arg("-o").arg(&program);
    succeeded(cc.output().expect("cc runs"));
    let mut sender = Command::new(&program);
    sender.env("LD_LIBRARY_PATH", installed.path().join("lib"));
    succeeded(sender.output().expect("the program runs"));
}

fullpipe_testkit::tests! {
    [Cc, PkgConfig] pkg_config_finds_the_library;
}
