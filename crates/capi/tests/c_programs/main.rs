//! C programs against the installed library, static and shared: the example, and one that replays a trace.

mod replay;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

/// The ways to link with the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Linkage {
    Static,
    Shared,
}

/// The library, installed into a directory of its own by `install.sh`.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        // Cargo puts the library of the package beside the test's program.
        let test = env::current_exe().expect("this program");
        let built = test.parent().expect("its directory");
        let install = Command::new(root().join("install.sh")).arg(dir.path()).arg(built).output();
        succeeded(install.expect("install.sh runs"));
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles `source` and returns the program.
    fn compile(&self, source: &str, linkage: Linkage) -> PathBuf {
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The output of a program that succeeded.
fn succeeded(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs `program` with its standard input from a file.
fn run(program: &Path, args: &[&str], input: Option<&Path>) -> Output {
    let stdin = input.map_or(Stdio::null(), |path| fs::File::open(path).expect("a file").into());
    Command::new(program).args(args).stdin(stdin).output().expect("the program runs")
}

#[test]
fn the_example_fills_its_link_with_each_library() {
    let installed = Installed::new();
    let mut said = Vec::new();
    for linkage in [Linkage::Static, Linkage::Shared] {
        let program = installed.compile("examples/sender.c", linkage);
        let line = succeeded(run(&program, &["bbr3"], None));
        let rate = line.strip_prefix("bbr3: ").and_then(|line| line.split(' ').next());
        let rate: f64 = rate.expect("a rate").parse().expect("a number");
        assert!((90.0..100.0).contains(&rate), "{line}");
        said.push(line);

        let refused = run(&program, &["bbr9"], None);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2));
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.ends_with("there are bbr3 bbr3x bbr3-linux bbr3x-linux bbr1 cubic reno\n"),
            "{error}"
        );
    }
    assert_eq!(said[0], said[1]);
}

#[test]
fn a_trace_gives_the_same_decisions_in_c_and_in_rust() {
    let installed = Installed::new();
    let programs =
        [Linkage::Static, Linkage::Shared].map(|way| installed.compile("tests/replay.c", way));
    for algorithm in fullpipe_cc::Algorithm::NAMES {
        let trace = replay::record(algorithm);
        assert!(trace.events.lines().count() > 5_000, "{algorithm}: a short trace");
        for kind in replay::KINDS {
            assert!(trace.events.contains(kind), "{algorithm}: the trace has no '{kind}'");
        }
        let file = installed.path().join("trace");
        fs::write(&file, &trace.events).expect("a file");
        for program in &programs {
            let said = succeeded(run(program, &[], Some(&file)));
            let lines = said.lines().zip(trace.decisions.lines()).zip(trace.events.lines());
            for (number, ((c, rust), event)) in lines.enumerate() {
                assert_eq!(c, rust, "{algorithm}, line {}: {event}", number + 1);
            }
            assert_eq!(said.len(), trace.decisions.len(), "{algorithm}: a line is missing");
        }
    }
}

#[test]
fn pkg_config_finds_the_library() {
    let installed = Installed::new();
    let pkg_config = |args: &[&str]| {
        let path = installed.path().join("lib/pkgconfig");
        Command::new("pkg-config").env("PKG_CONFIG_PATH", path).args(args).arg("fullpipe").output()
    };
    let Ok(version) = pkg_config(&["--modversion"]) else {
        println!("skipped: there is no pkg-config here");
        return;
    };
    assert_eq!(succeeded(version).trim(), env!("CARGO_PKG_VERSION"));
    let program = installed.path().join("program");
    let flags = succeeded(pkg_config(&["--cflags", "--libs"]).expect("pkg-config runs"));
    let mut cc = Command::new("cc");
    cc.arg(root().join("examples/sender.c")).args(flags.split_whitespace()).arg("-o").arg(&program);
    succeeded(cc.output().expect("cc runs"));
    let mut sender = Command::new(&program);
    sender.env("LD_LIBRARY_PATH", installed.path().join("lib"));
    succeeded(sender.output().expect("the program runs"));
}
