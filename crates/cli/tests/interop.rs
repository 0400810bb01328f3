//! The script that makes the command an endpoint of the QUIC interop runner, both ends of it on loopback.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Running, certificate, first_line, names, run, sha256, write_file};

fn endpoint(role: &str, case: &str) -> Command {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(own.join("../../interop/run_endpoint.sh"));
    command.env("FULLPIPE", env!("CARGO_BIN_EXE_fullpipe")).env("ROLE", role).env("TESTCASE", case);
    for variable in ["RUST_LOG", "SERVER_PARAMS", "CLIENT_PARAMS", "QLOGDIR", "SSLKEYLOGFILE"] {
        command.env_remove(variable);
    }
    command
}

struct Place {
    dir: tempfile::TempDir,
    www: PathBuf,
}

fn place(files: &[(&str, usize)]) -> Place {
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    for (name, bytes) in files {
        write_file(&www.join(name), *bytes);
    }
    let (_, key) = certificate(dir.path());
    std::fs::rename(key, dir.path().join("priv.key")).expect("it is there");
    Place { dir, www }
}

impl Place {
    /// Runs a case, and gives the qlogs of the client's connections.
    fn run(&self, case: &str) -> Vec<String> {
        let mut server = endpoint("server", case);
        server.env("WWW", &self.www).env("CERTS", self.dir.path()).env("LISTEN", "127.0.0.1:0");
        server.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Running(server.spawn().expect("bash starts"));
        let line = first_line(&mut server);
        let port = line.split([' ', ',']).find_map(|word| word.strip_prefix("127.0.0.1:"));
        let url = |name: &String| format!("https://localhost:{}/{name}", port.expect(&line));
        let (downloads, qlogs) = (self.dir.path().join("downloads"), self.dir.path().join("qlogs"));
        let files = names(&self.www);
        let mut client = endpoint("client", case);
        client.env("DOWNLOADS", &downloads).env("QLOGDIR", &qlogs);
        client.env("REQUESTS", files.iter().map(url).collect::<Vec<_>>().join(" "));
        let said = run(client);
        assert_eq!(said.code, Some(0), "{case}: {}", said.stderr);
        assert_eq!(names(&downloads), files, "{case}");
        for name in &files {
            let (got, given) = (downloads.join(name), self.www.join(name));
            assert_eq!(sha256(&got), sha256(&given), "{case} {name}");
        }
        let read = |name: &String| std::fs::read_to_string(qlogs.join(name)).expect("a file");
        let logs = names(&qlogs).iter().map(read).collect();
        std::fs::remove_dir_all(&downloads).expect("it is there");
        std::fs::remove_dir_all(&qlogs).expect("it is there");
        logs
    }
}

#[test]
fn each_case_ends_with_equal_files_over_the_connections_that_it_asks_for() {
    let place = place(&[("a", 1000), ("b", 200_000), ("c", 500_000)]);
    for (case, connections) in [
        ("handshake", 1),
        ("transfer", 1),
        ("chacha20", 1),
        ("http3", 1),
        ("keyupdate", 1),
        ("resumption", 2),
        ("zerortt", 2),
        ("retry", 1),
        ("v2", 1),
        ("multiconnect", 3),
    ] {
        let logs = place.run(case);
        assert_eq!(logs.len(), connections, "{case}");
        let any = |text: &str| logs.iter().any(|log| log.contains(text));
        assert_eq!(any(r#""packet_type":"0RTT""#), case == "zerortt", "{case}");
        assert_eq!(any(r#""retry_source_connection_id":""#), case == "retry", "{case}");
    }
}

#[test]
fn two_thousand_files_come_over_one_connection() {
    let files: Vec<String> = (0..2000).map(|i| format!("f{i}")).collect();
    let sizes: Vec<(&str, usize)> = files.iter().map(|name| (name.as_str(), 32)).collect();
    assert_eq!(place(&sizes).run("multiplexing").len(), 1);
}

#[test]
fn a_case_that_is_not_there_ends_with_127() {
    for case in ["connectionmigration", "nonsense"] {
        for role in ["server", "client"] {
            assert_eq!(run(endpoint(role, case)).code, Some(127), "{role} {case}");
        }
    }
    assert_eq!(run(endpoint("router", "transfer")).code, Some(2));
}
