//! Gives the shared library its name on ELF systems: before 1.0, each minor version is another
//! interface.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if ["linux", "android", "freebsd", "netbsd", "openbsd", "dragonfly"].contains(&&*target) {
        let part = |name: &str| env::var(name).unwrap_or_default();
        let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfullpipe.so.{major}.{minor}");
    }
}
