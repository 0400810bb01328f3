//! With the feature `kernel`: compiles `c/bbr3.bpf.c` into the objects that the program carries,
//! `bbr3` and `bbr3x`, and `c/use.bpf.c` into `use`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    for (name, source) in
        [("bbr3", "c/bbr3.bpf.c"), ("bbr3x", "c/bbr3.bpf.c"), ("use", "c/use.bpf.c")]
    {
        if let Err(reason) = compile(name, source) {
            println!("cargo::error={reason}");
        }
    }
}

fn compile(name: &str, source: &str) -> Result<(), String> {
    let directory = |name| {
        env::var_os(name).map(PathBuf::from).ok_or_else(|| format!("cargo does not set {name}"))
    };
    let object = directory("OUT_DIR")?.join(format!("{name}.bpf.o"));
    // The headers of the libbpf that is linked: a distribution's may be older than what is used
    // here.
    let headers = directory("DEP_BPF_INCLUDE")?;
    let clang = clang()?;
    // The registers that BPF_PROG() takes its arguments from are the same on every machine.
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-D__TARGET_ARCH_x86"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .arg(format!("-D{}", name.to_uppercase()))
        .arg("-I")
        .arg(&headers)
        .args(["-c", source, "-o"])
        .arg(&object)
        .output()
        .map_err(|error| format!("{clang}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).replace('\n', " | ");
    Err(format!("{clang} cannot compile {source}: {said}"))
}

/// The first compiler that is there; older ones than 17 are not tried on purpose.
fn clang() -> Result<String, String> {
    if let Ok(clang) = env::var("CLANG") {
        return Ok(clang);
    }
    let names = ["clang-19", "clang-20", "clang-18", "clang-17", "clang"];
    let found = names.into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    found.map(str::to_owned).ok_or_else(|| {
        "the feature `kernel` needs clang 17 or later (Debian: clang-19), libelf and zlib with headers"
            .to_owned()
    })
}
