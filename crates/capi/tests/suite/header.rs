//! The header in the repository is the one that cbindgen makes of the sources.
//!
//! The header is committed, so that neither a C project nor `cargo build` needs cbindgen, and a
//! change of the interface is a change that a reviewer sees.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let version = concat!("#define FULLPIPE_VERSION \"", env!("CARGO_PKG_VERSION"), "\"");
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_after_include(format!("\n// The version of this header.\n{version}"))
        .with_src(root.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().expect("bindings").write(&mut made);
    let made = String::from_utf8(made).expect("UTF-8");

    let header = root.join("include/fullpipe.h");
    if env::var_os("FULLPIPE_WRITE_HEADER").is_some() {
        fs::write(&header, &made).expect("the header is written");
    }
    let there = fs::read_to_string(&header).expect("include/fullpipe.h");
    assert!(there == made, "include/fullpipe.h is old: cbindgen.toml says how to make it");
}
