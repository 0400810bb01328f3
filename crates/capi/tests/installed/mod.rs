//! The library as a C project has it.
#![allow(dead_code, reason = "each binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

/// The ways to link with the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linkage {
    Static,
    Shared,
}

/// The library, installed into a directory of its own by `install.sh`.
pub(crate) struct Installed(tempfile::TempDir);

impl Installed {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Cargo puts the library of the package beside the test's program.
        let test = env::current_exe().expect("this program");
        let built = test.parent().expect("its directory");
        let install = Command::new(root().join("install.sh")).arg(dir.path()).arg(built).output();
        succeeded(install.expect("install.sh runs"));
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles `source` and returns the program.
    pub(crate) fn compile(&self, source: &str, linkage: Linkage) -> PathBuf {
        let source = root().join(source);
        let name = source.file_stem().expect("a file").to_str().expect("UTF-8");
        let program = self.path().join(format!("{name}-{linkage:?}"));
        let lib = self.path().join("lib");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2", "-I"]);
        cc.arg(self.path().join("include")).arg(&source);
        match linkage {
            Linkage::Static => {
                cc.arg(lib.join("libfullpipe.a")).args(self.private_libraries());
            }
            Linkage::Shared => {
                cc.arg("-L").arg(&lib).arg("-lfullpipe");
                cc.arg(format!("-Wl,-rpath,{}", lib.display()));
            }
        }
        succeeded(
            cc.arg("-o").arg(&program).output().expect("cc, which rustc links with, is here"),
        );
        program
    }

    /// The libraries that fullpipe.pc names for static programs.
    fn private_libraries(&self) -> Vec<String> {
        let pc = fs::read_to_string(self.path().join("lib/pkgconfig/fullpipe.pc")).expect("a file");
        let line = pc.lines().find_map(|line| line.strip_prefix("Libs.private:"));
        line.expect("Libs.private").split_whitespace().map(str::to_owned).collect()
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The output of a program that succeeded.
pub(crate) fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs `program` with its standard input from a file.
pub(crate) fn run(program: &Path, args: &[&str], input: Option<&Path>) -> Output {
    let stdin = input.map_or(Stdio::null(), |path| fs::File::open(path).expect("a file").into());
    Command::new(program).args(args).stdin(stdin).output().expect("the program runs")
}
