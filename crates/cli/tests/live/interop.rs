//! The script that makes the command an endpoint of the QUIC interop runner, both ends of it on
//! loopback; and `fullpipe interop`, which runs the runner's cases over their paths.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fullpipe_testkit::skip;

use crate::common::{
    Running, Said, certificate, first_line, fullpipe, names, run, sha256, text, write_file,
};
use crate::relay::address_of;

fullpipe_testkit::tests! {
    [Root, Tun, Bash]
        a_peer_that_does_not_do_what_a_case_asks_for_fails_it_and_what_it_wrote_is_kept;
    [Bash] a_case_that_is_not_there_ends_with_127;
    long [Bash]
        each_case_ends_with_equal_files_over_the_connections_that_it_asks_for,
        two_thousand_files_come_over_one_connection;
    long [Bash, SecondLoopback] the_client_moves_to_the_preferred_address;
    long timed [Root, Tun, Bash]
        a_client_that_offers_version_2_is_moved_to_it_in_its_own_case_alone,
        handshake,
        retry,
        resumption,
        zerortt,
        http3,
        ecn,
        v2;
    long timed [Root, Tun, Bash, Ipv6] ipv6;
    long [Root, Tun, Bash] a_case_that_a_peer_has_not_is_no_failure;
    long timed [Root, Tun, Bash]
        transfer,
        longrtt,
        chacha20,
        multiplexing,
        blackhole,
        keyupdate,
        amplificationlimit,
        handshakeloss,
        transferloss,
        handshakecorruption,
        transfercorruption,
        rebind_port,
        rebind_addr,
        connectionmigration;
}

fn endpoint(role: &str, case: &str) -> Command {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(own.join("../../interop/run_endpoint.sh"));
    command.env("FULLPIPE", env!("CARGO_BIN_EXE_fullpipe")).env("ROLE", role).env("TESTCASE", case);
    command.env("PREFERRED_ADDRESS", "127.0.0.2:0");
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
        self.run_over(None, case)
    }

    /// The same over a link with this RTT, or on loopback.
    fn run_over(&self, rtt: Option<&str>, case: &str) -> Vec<String> {
        let mut server = endpoint("server", case);
        server.env("WWW", &self.www).env("CERTS", self.dir.path()).env("LISTEN", "127.0.0.1:0");
        server.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Running(server.spawn().expect("bash starts"));
        let line = first_line(&mut server);
        let port = line.split([' ', ',']).find_map(|word| word.strip_prefix("127.0.0.1:"));
        let port: u16 = port.expect(&line).parse().expect("a port");
        let mut relay = rtt.map(|rtt| relay(port, rtt));
        let port = relay.as_mut().map_or(port, |relay| address_of(relay).port());
        let url = |name: &String| format!("https://localhost:{port}/{name}");
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

/// A link to a port on loopback.
fn relay(port: u16, rtt: &str) -> Running {
    let udp = format!("0=127.0.0.1:{port}");
    let mut link = fullpipe(Path::new("/"), &["link", "--udp", &udp, "--rtt", rtt, "--json"]);
    let child = link.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    Running(child.expect("the command starts"))
}

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
        let has = |logs: &[String], text: &str| logs.iter().any(|log| log.contains(text));
        let early = r#""packet_type":"0RTT""#;
        // On loopback the handshake may be over before the first request is made.
        let logs = place.run_over((case == "zerortt").then_some("300ms"), case);
        assert_eq!(logs.len(), connections, "{case}");
        let any = |text: &str| has(&logs, text);
        assert_eq!(any(early), case == "zerortt", "{case}");
        assert!(!logs.iter().any(|log| has_moved(log)), "{case}");
        assert_eq!(any(r#""retry_source_connection_id":""#), case == "retry", "{case}");
    }
}

/// True if a client has retired the connection ID of the path that it left.
fn has_moved(log: &str) -> bool {
    let retired = r#""frame_type":"retire_connection_id""#;
    log.lines().any(|line| line.contains("packet_sent") && line.contains(retired))
}

/// Long enough that it does not end before the client has moved.
fn the_client_moves_to_the_preferred_address() {
    let logs = place(&[("a", 50_000_000)]).run("connectionmigration");
    assert!(logs.len() == 1 && has_moved(&logs[0]), "{} connections", logs.len());
}

fn two_thousand_files_come_over_one_connection() {
    let files: Vec<String> = (0..2000).map(|i| format!("f{i}")).collect();
    let sizes: Vec<(&str, usize)> = files.iter().map(|name| (name.as_str(), 32)).collect();
    assert_eq!(place(&sizes).run("multiplexing").len(), 1);
}

fn a_case_that_is_not_there_ends_with_127() {
    for role in ["server", "client"] {
        assert_eq!(run(endpoint(role, "nonsense")).code, Some(127), "{role}");
    }
    assert_eq!(run(endpoint("router", "transfer")).code, Some(2));
}

/// Runs `fullpipe interop` with words of which a no-break space is a space.
fn interop_said(dir: &Path, line: &str) -> Said {
    let words: Vec<String> = line
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| word.replace('\u{a0}', " "))
        .collect();
    let arguments: Vec<&str> =
        ["interop", "--json"].into_iter().chain(words.iter().map(String::as_str)).collect();
    run(fullpipe(dir, &arguments))
}

fn object(said: &Said) -> serde_json::Value {
    let object: Result<serde_json::Value, _> = serde_json::from_slice(&said.stdout);
    object.unwrap_or_else(|_| panic!("no object: {}", said.stderr))["interop"].clone()
}

/// Names of cases with their grades, of all runs.
fn grades(report: &serde_json::Value) -> Vec<(String, String)> {
    let cells = report["cells"].as_array().expect("cells").iter();
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    cells
        .flat_map(|cell| {
            let runs = cell["runs"].as_array().expect("runs").iter();
            runs.map(|run| (text(&cell["case"]), text(&run["grade"])))
        })
        .collect()
}

/// Runs a case between our own ends.
fn pass(case: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let said = interop_said(dir.path(), &format!("--peers fullpipe --cases {case}"));
    assert_eq!(grades(&object(&said)), [(case.to_owned(), "passed".to_owned())], "{}", said.stderr);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
}

macro_rules! cases {
    ($($name:ident: $case:literal),+ $(,)?) => {
        $(fn $name() {
            pass($case);
        })+
    };
}

cases! {
    handshake: "handshake",
    retry: "retry",
    resumption: "resumption",
    zerortt: "zerortt",
    http3: "http3",
    ecn: "ecn",
    v2: "v2",
    ipv6: "ipv6",
}

macro_rules! long_cases {
    ($($name:ident: $case:literal),+ $(,)?) => {
        $(fn $name() {
            if std::env::var_os("INTEROP_ALL").is_none() {
                skip("the cases take minutes: INTEROP_ALL=1 runs them");
            }
            pass($case);
        })+
    };
}

long_cases! {
    transfer: "transfer",
    longrtt: "longrtt",
    chacha20: "chacha20",
    multiplexing: "multiplexing",
    blackhole: "blackhole",
    keyupdate: "keyupdate",
    amplificationlimit: "amplificationlimit",
    handshakeloss: "handshakeloss",
    transferloss: "transferloss",
    handshakecorruption: "handshakecorruption",
    transfercorruption: "transfercorruption",
    rebind_port: "rebind-port",
    rebind_addr: "rebind-addr",
    connectionmigration: "connectionmigration",
}

/// A command that is an end as ours, changed; it is a file of this folder.
fn changed_end(dir: &Path, from: &str, to: &str) -> String {
    let script = include_str!("../../../../interop/run_endpoint.sh");
    assert!(script.contains(from), "{from}");
    std::fs::write(dir.join("end.sh"), script.replace(from, to)).expect("a file");
    let (own, script) = (env!("CARGO_BIN_EXE_fullpipe"), dir.join("end.sh"));
    format!("--command=mine=env\u{a0}FULLPIPE={own}\u{a0}bash\u{a0}{}", text(&script))
}

fn a_peer_that_does_not_do_what_a_case_asks_for_fails_it_and_what_it_wrote_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    // A server that sends no Retry, and files that are equal all the same.
    let command = changed_end(dir.path(), "args+=(--retry-above 0)", "true");
    let line = format!(
        "{command} --roles server --cases retry,handshake --output logs --report page.html"
    );
    let said = interop_said(dir.path(), &line);
    let report = object(&said);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let expected = [("handshake", "passed"), ("retry", "failed")];
    assert_eq!(grades(&report), expected.map(|(case, grade)| (case.to_owned(), grade.to_owned())));
    let run = &report["cells"][1]["runs"][0];
    assert!(run["notes"].to_string().contains("the server sent no Retry"), "{run}");
    let logs = dir.path().join("logs/mine-server/retry/1");
    assert_eq!(run["logs"].as_str(), Some(text(&logs)));
    for file in ["server/output.txt", "client/keys.log", "link/server.pcapng", "link/client.pcapng"]
    {
        assert!(logs.join(file).is_file(), "{file}");
    }
    assert!(
        !dir.path().join("logs/mine-server/handshake").exists(),
        "a run that passed is not kept"
    );
    let page = std::fs::read_to_string(dir.path().join("page.html")).expect("a page");
    assert!(page.contains("href=\"logs/mine-server/retry/1/link/server.pcapng\""), "{page}");
}

/// In every case but v2 the runner wants version 1, whatever else the client offers.
fn a_client_that_offers_version_2_is_moved_to_it_in_its_own_case_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let always = "args+=(--insecure --quic-versions v1,v2";
    let command = changed_end(dir.path(), "args+=(--insecure", always);
    let line = format!("{command} --roles client --cases handshake,retry");
    let said = interop_said(dir.path(), &line);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(grades(&object(&said)).iter().all(|(_, grade)| grade == "passed"), "{}", said.stderr);
}

fn a_case_that_a_peer_has_not_is_no_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let command = changed_end(dir.path(), "    retry)", "    never)");
    let said = interop_said(dir.path(), &format!("{command} --cases retry"));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let grades = grades(&object(&said));
    assert!(
        grades.len() == 2 && grades.iter().all(|(_, grade)| grade == "unsupported"),
        "{grades:?}"
    );
}
