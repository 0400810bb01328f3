//! With the feature `kernel`: compiles `c/bbr3.bpf.c` into the objects that the program carries,
//! `bbr3` and `bbr3x`, and `c/use.bpf.c` into `use`.

mod compile;

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    if let Err(reason) = objects() {
        println!("cargo::error={reason}");
    }
}

fn objects() -> Result<(), String> {
    let directory = |name| {
        env::var_os(name).map(PathBuf::from).ok_or_else(|| format!("cargo does not set {name}"))
    };
    // The headers of the libbpf that is linked: a distribution's may be older than what is used
    // here.
    let (root, headers) = (directory("CARGO_MANIFEST_DIR")?, directory("DEP_BPF_INCLUDE")?);
    for (name, source) in compile::OBJECTS {
        compile::compile(name, source, &root, &headers, &directory("OUT_DIR")?)?;
    }
    // For the test that compiles them elsewhere.
    println!("cargo::rustc-env=FULLPIPE_BPF_HEADERS={}", headers.display());
    Ok(())
}
