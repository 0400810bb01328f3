//! The call of clang, for the build and for the test that compares objects of two folders.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Each object with its source.
pub(super) const OBJECTS: [(&str, &str); 3] =
    [("bbr3", "c/bbr3.bpf.c"), ("bbr3x", "c/bbr3.bpf.c"), ("use", "c/use.bpf.c")];

/// Makes `NAME.bpf.o` in a directory. Its bytes do not depend on where the sources, the headers and
/// the object are: the program of a package is compared with that of the command.
pub(super) fn compile(
    name: &str,
    source: &str,
    root: &Path,
    headers: &Path,
    out: &Path,
) -> Result<(), String> {
    let clang = clang()?;
    let shown_as = |directory: &Path, name: &str| {
        let mut option = OsString::from("-ffile-prefix-map=");
        option.push(directory);
        option.push("=");
        option.push(name);
        option
    };
    // The registers that BPF_PROG() takes its arguments from are the same on every machine.
    let output = Command::new(&clang)
        .current_dir(root)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-D__TARGET_ARCH_x86"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args([shown_as(root, "fullpipe-bpf"), shown_as(headers, "libbpf")])
        .arg(format!("-D{}", name.to_uppercase()))
        .arg("-I")
        .arg(headers)
        .args(["-c", source, "-o"])
        .arg(out.join(format!("{name}.bpf.o")))
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
