//! The other end is a second implementation of QUIC and of hq-interop: aioquic.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Running, certificate, first_line, fullpipe, run, serve, sha256, text, write_file};

/// A Python that has aioquic: what `FULLPIPE_PYTHON` names, or that of `.venv` at the top.
fn python(script: &str) -> Command {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("FULLPIPE_PYTHON")
        .map_or_else(|| own.join("../../.venv/bin/python"), PathBuf::from);
    let found = Command::new(&python)
        .args(["-c", "import aioquic"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    assert!(
        found,
        "{python:?} has no aioquic. ./test.sh makes .venv and installs it there; or set \
         FULLPIPE_PYTHON to a Python with crates/cli/tests/aioquic/requirements.txt"
    );
    let mut command = Command::new(python);
    command.arg(own.join("tests/aioquic").join(script));
    command
}

struct Place {
    _dir: tempfile::TempDir,
    www: PathBuf,
    here: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().expect("a directory");
    let (www, here) = (dir.path().join("www"), dir.path().join("here"));
    std::fs::create_dir(&www).expect("a directory");
    std::fs::create_dir(&here).expect("a directory");
    let (certificate, key) = certificate(dir.path());
    for (name, bytes) in [("empty", 0), ("small", 1), ("large", 5_000_000)] {
        write_file(&www.join(name), bytes);
    }
    Place { _dir: dir, www, here, certificate, key }
}

#[test]
fn get_fetches_from_an_aioquic_server() {
    let place = place();
    let mut command = python("server.py");
    command.args([&place.www, &place.certificate, &place.key]).stdout(Stdio::piped());
    let mut server = Running(command.spawn().expect("Python starts"));
    let port = first_line(&mut server);
    for name in ["empty", "small", "large"] {
        let url = format!("https://localhost:{}/{name}", port.trim());
        let ca = ["--ca", text(&place.certificate)];
        let said = run(fullpipe(&place.here, &["get", &url, ca[0], ca[1]]));
        assert_eq!(said.code, Some(0), "{name}: {}", said.stderr);
        assert_eq!(sha256(&place.here.join(name)), sha256(&place.www.join(name)), "{name}");
    }
}

#[test]
fn serve_serves_an_aioquic_client() {
    let place = place();
    for cc in ["bbr3", "cubic", "reno"] {
        let (cert, key) = (text(&place.certificate), text(&place.key));
        let server = serve(&place.www, &["--cert", cert, "--key", key, "--cc", cc]);
        let mut command = python("client.py");
        command.args([&server.address.port().to_string(), cert, text(&place.here)]);
        command.args(["/empty", "/small", "/large", "/missing", "/../cert.pem"]);
        let said = run(command);
        assert_eq!(said.code, Some(0), "{cc}: {}", said.stderr);
        let expected = "/empty wrote empty\n/small wrote small\n/large wrote large\n\
                        /missing reset 404\n/../cert.pem reset 403\n";
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{cc}");
        for name in ["empty", "small", "large"] {
            let got = place.here.join(name);
            assert_eq!(sha256(&got), sha256(&place.www.join(name)), "{cc} {name}");
            std::fs::remove_file(got).expect("it is there");
        }
    }
}
