//! Running and watching `fullpipe serve`, and what `fullpipe get` can be asked for beyond one file.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use fullpipe_testkit::{line_of, until_some};

use crate::common::{
    Running, Serve, certificate, fullpipe, names, run, scrape, serve, serve_logging, serve_with,
    sha256, text, write_file,
};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use socket2::{Domain, Socket, Type};

/// The address of the kernel's TCP in the line that announces a server.
fn tcp(line: &str) -> SocketAddr {
    let address = line.split("tcp://").nth(1).and_then(|rest| rest.split(' ').next());
    address.and_then(|address| address.parse().ok()).expect(line)
}

/// A directory to serve, with files of these sizes that are named after them.
fn www(sizes: &[usize]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for bytes in sizes {
        write_file(&dir.path().join(bytes.to_string()), *bytes);
    }
    dir
}

fn get(dir: &Path, server: &Serve, path: &str, args: &[&str]) -> crate::common::Said {
    let mut command = fullpipe(dir, &["get", &server.url(path), "-o", "-", "--insecure"]);
    command.args(args);
    run(command)
}

/// A download that stands still after its first bytes, until its stdout is read.
fn slow_get(dir: &Path, server: &Serve, path: &str) -> Running {
    let mut command = fullpipe(dir, &["get", &server.url(path), "-o", "-", "--insecure"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running(command.spawn().expect("the command starts"));
    running.0.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("a byte");
    running
}

/// The line of the log that says that SIGTERM was taken.
const ENDING: &str = "no new requests; what is on its way may end";

fn sigterm_lets_an_answer_end_and_takes_no_new_client() {
    let dir = www(&[30_000_000]);
    let log = dir.path().join("log");
    // Each answer is on a thread of its own.
    let mut server =
        serve_logging(dir.path(), &log, &["--threads", "3", "--shutdown-timeout", "60s"]);
    let slow: Vec<Running> = (0..3).map(|_| slow_get(dir.path(), &server, "/30000000")).collect();
    server.process.signal(Signal::SIGTERM);
    line_of(&log, ENDING);
    let refused = get(dir.path(), &server, "/30000000", &["--connect-timeout", "2s"]);
    assert_eq!((refused.code, refused.stdout.len()), (Some(1), 0), "{}", refused.stderr);
    for mut slow in slow {
        assert!(server.process.0.try_wait().expect("a child").is_none(), "an answer is on its way");
        let mut rest = Vec::new();
        slow.0.stdout.as_mut().expect("a pipe").read_to_end(&mut rest).expect("the rest");
        assert_eq!(rest.len(), 30_000_000 - 1);
        assert_eq!(slow.end().code(), Some(0));
    }
    assert_eq!(server.process.end().code(), Some(0));
}

fn sigterm_waits_no_longer_than_it_should_and_a_second_signal_ends_it_at_once() {
    let dir = www(&[30_000_000]);
    let log = dir.path().join("log");
    for (timeout, twice) in [("300ms", false), ("10min", true)] {
        let mut server = serve_logging(dir.path(), &log, &["--shutdown-timeout", timeout]);
        let mut slow = slow_get(dir.path(), &server, "/30000000");
        let start = Instant::now();
        server.process.signal(Signal::SIGTERM);
        if twice {
            line_of(&log, ENDING);
            server.process.signal(Signal::SIGTERM);
        }
        assert_eq!(server.process.end().code(), Some(0));
        assert!(start.elapsed() < Duration::from_secs(5), "{timeout}: {:?}", start.elapsed());
        std::io::copy(slow.0.stdout.as_mut().expect("a pipe"), &mut std::io::sink()).expect("text");
        assert_eq!(slow.end().code(), Some(1), "half a file is a failure");
    }
}

fn a_reader_of_the_log_that_takes_nothing_stops_no_server() {
    const REQUESTS: usize = 300;
    let dir = www(&[1000]);
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    // The least: twenty lines fill it.
    fcntl(writer.as_fd(), FcntlArg::F_SETPIPE_SZ(4096)).expect("a size");
    let log = Stdio::from(OwnedFd::from(writer));
    let mut server = serve_with(dir.path(), &["--tcp", "127.0.0.1:0"], log);
    let mut stream = TcpStream::connect(tcp(&server.line)).expect("a listener");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    for number in 0..REQUESTS {
        stream.write_all(b"GET /1000 HTTP/1.1\r\nhost: x\r\n\r\n").expect("a request");
        let mut all = 0;
        while all < 1000 {
            let bytes = stream.read(&mut [0; 4096]).unwrap_or(0);
            assert!(bytes > 0, "no answer to request {number}");
            all += bytes;
        }
    }
    assert_eq!(get(dir.path(), &server, "/1000", &[]).stdout.len(), 1000);
    drop(stream);
    let begun = Instant::now();
    server.process.signal(Signal::SIGTERM);
    assert_eq!(server.process.end().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("text");
    assert!(text.contains("GET /1000"), "{text}");
}

fn sighup_reads_the_certificate_again() {
    let dir = www(&[1000]);
    let (cert, key) = certificate(dir.path());
    let log = dir.path().join("log");
    let args = ["--cert", text(&cert), "--key", text(&key)];
    let server = serve_logging(dir.path(), &log, &args);
    let old = dir.path().join("old.pem");
    std::fs::copy(&cert, &old).expect("a copy");
    let fetched = |ca: &Path| {
        let ca = ["get", &server.url("/1000"), "-o", "-", "--ca", text(ca)];
        let said = run(fullpipe(dir.path(), &ca));
        eprintln!("{}", said.stderr);
        said.code
    };
    assert_eq!(fetched(&old), Some(0));
    certificate(dir.path());
    assert_eq!(fetched(&old), Some(0), "nobody told the server");
    server.process.signal(Signal::SIGHUP);
    line_of(&log, "SIGHUP: new connections get the certificate");
    assert_eq!((fetched(&old), fetched(&cert)), (Some(1), Some(0)));
    // A pair that does not fit changes nothing.
    std::fs::write(&key, "no key").expect("a file");
    server.process.signal(Signal::SIGHUP);
    line_of(&log, "the certificate stays as it was");
    assert_eq!(fetched(&cert), Some(0));
}

fn the_access_log_has_a_line_of_json_for_each_request_and_is_opened_again() {
    let dir = www(&[1000]);
    let (log, access, old) =
        (dir.path().join("log"), dir.path().join("access"), dir.path().join("old"));
    let mut server = serve_logging(dir.path(), &log, &["--access-log", text(&access)]);
    let lines = |path: &Path, count: usize| {
        let text = until_some("the lines are written", || {
            std::fs::read_to_string(path).ok().filter(|text| text.lines().count() >= count)
        });
        let parse = |line: &str| serde_json::from_str(line).expect("JSON");
        let lines: Vec<serde_json::Value> = text.lines().map(parse).collect();
        assert_eq!(lines.len(), count);
        lines
    };
    assert_eq!(get(dir.path(), &server, "/1000?q=%1b", &[]).stdout.len(), 1000);
    let first = &lines(&access, 1)[0];
    let authority = format!("localhost:{}", server.address.port());
    for (field, value) in [
        ("version", "HTTP/3".into()),
        ("method", "GET".into()),
        ("authority", serde_json::Value::from(authority)),
        ("path", "/1000?q=%1b".into()),
        ("status", 200.into()),
        ("body_bytes", 1000.into()),
        ("complete", true.into()),
    ] {
        assert_eq!(first[field], value, "{first}");
    }
    assert!(first["duration_s"].as_f64().is_some_and(|time| time > 0.0), "{first}");
    assert!(first["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{first}");
    assert!(first["address"].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")));
    std::fs::rename(&access, &old).expect("another name");
    server.process.signal(Signal::SIGHUP);
    line_of(&log, "SIGHUP: the access log goes on");
    assert_eq!(get(dir.path(), &server, "/none", &[]).code, Some(1));
    assert_eq!(lines(&access, 1)[0]["status"], 404);
    assert_eq!(lines(&old, 1).len(), 1, "the old one stays as it was");
    // What is on its way to the disk gets there before the end.
    assert_eq!(get(dir.path(), &server, "/1000", &[]).stdout.len(), 1000);
    server.process.signal(Signal::SIGTERM);
    assert_eq!(server.process.end().code(), Some(0));
    assert_eq!(lines(&access, 2)[1]["status"], 200);
    let no = fullpipe(dir.path(), &["serve", ".", "--access-log", "none/access"]);
    let said = run(no);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{}", said.stderr);
}

fn an_access_log_in_a_fifo_needs_a_reader() {
    let dir = www(&[1000]);
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
    let mut command = fullpipe(dir.path(), &["serve", ".", "--access-log", text(&fifo)]);
    command.args(["--listen", "127.0.0.1:0"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut alone = Running(child.expect("the command starts"));
    let code = until_some("it ends", || alone.0.try_wait().expect("a child")).code();
    let mut said = String::new();
    alone.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert_eq!((code, said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("no reader"), "{said}");
    let options = std::fs::File::options().read(true).write(true).open(&fifo);
    let mut reader = options.expect("the FIFO");
    let server = serve(dir.path(), &["--access-log", text(&fifo)]);
    assert_eq!(get(dir.path(), &server, "/1000", &[]).stdout.len(), 1000);
    let mut line = [0; 9];
    reader.read_exact(&mut line).expect("a line");
    assert_eq!(&line, b"{\"time\":\"");
}

fn the_counters_of_prometheus_count() {
    let dir = www(&[70_000]);
    let server = serve(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let address = server.metrics();
    assert_eq!(get(dir.path(), &server, "/70000", &[]).stdout.len(), 70_000);
    assert_eq!(get(dir.path(), &server, "/none", &[]).code, Some(1));
    // A connection lasts a little longer than its client.
    let body = until_some("the connections are over", || {
        let (status, body) = scrape(address, "/metrics");
        assert_eq!(status, "HTTP/1.1 200 OK");
        body.contains("fullpipe_connections 0\n").then_some(body)
    });
    for line in [
        "fullpipe_connections 0",
        "fullpipe_answers 0",
        "fullpipe_connections_admitted_total 2",
        "fullpipe_requests_complete_total 1",
        "fullpipe_requests_refused_total 1",
        "fullpipe_body_bytes_total 70000",
        "# TYPE fullpipe_body_bytes counter",
        "# EOF",
    ] {
        assert!(body.lines().any(|l| l == line), "{line:?} is not in\n{body}");
    }
    let packets = body.lines().find_map(|l| l.strip_prefix("fullpipe_packets_sent_total "));
    assert!(packets.expect(&body).parse::<u64>().expect("a number") > 50, "{body}");
    assert!(scrape(address, "/").0.contains("404"));
}

fn half_requests_of_one_address_keep_no_scraper_waiting() {
    let dir = www(&[1]);
    let server = serve(dir.path(), &["--metrics", "127.0.0.1:0"]);
    let address = server.metrics();
    let half = |_| {
        let from = SocketAddr::from(([127, 0, 0, 2], 0));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&from.into()).expect("an address");
        socket.connect(&address.into()).expect("a listener");
        // One that has no place may be closed already.
        let _ = socket.send(b"GET /metrics HTTP/1.1\r\n");
        socket
    };
    let halves: Vec<Socket> = (0..40).map(half).collect();
    let begun = Instant::now();
    assert_eq!(scrape(address, "/metrics").0, "HTTP/1.1 200 OK");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    drop(halves);
}

fn the_clients_of_a_network_and_those_of_a_name_have_a_congestion_control_of_their_own() {
    let dir = www(&[1000]);
    let log = |rules: &[&str]| {
        let mut command = fullpipe(dir.path(), &["serve", ".", "-l", "127.0.0.1:0"]);
        command.args(rules.iter().flat_map(|rule| ["--cc-for", rule]));
        command.env("RUST_LOG", "fullpipe_files=debug");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Running(command.spawn().expect("the command starts"));
        let line = crate::common::first_line(&mut process);
        let address = line.split([' ', ',']).find_map(|word| word.parse().ok());
        let mut server = Serve { address: address.expect(&line), process, line };
        assert_eq!(get(dir.path(), &server, "/1000", &[]).stdout.len(), 1000);
        server.process.interrupt();
        server.process.end();
        server.process.stderr()
    };
    let both = |first, second| log(&[first, second]);
    assert!(log(&["127.0.0.0/8=cubic"]).contains("congestion=cubic"));
    assert!(!log(&["192.0.2.0/24=cubic"]).contains("congestion=cubic"));
    // `get` calls it localhost.
    assert!(log(&["LocalHost=cubic"]).contains("congestion=cubic"));
    assert!(!log(&["example.org=cubic"]).contains("congestion=cubic"));
    assert!(both("localhost=reno", "127.0.0.0/8=cubic").contains("congestion=reno"));
    assert!(both("127.0.0.0/8=cubic", "localhost=reno").contains("congestion=cubic"));
}

fn both_ends_can_be_kept_to_a_cipher() {
    let dir = www(&[1000]);
    let server = serve(dir.path(), &["--ciphers", "chacha20"]);
    for (cipher, code) in [("any", 0), ("chacha20", 0), ("aes128", 1)] {
        let said = get(dir.path(), &server, "/1000", &["--ciphers", cipher]);
        assert_eq!(said.code, Some(code), "{cipher}: {}", said.stderr);
    }
}

fn each_connection_leaves_a_qlog_at_both_ends() {
    let dir = www(&[1000]);
    let (ours, theirs) = (dir.path().join("client"), dir.path().join("server"));
    let mut server = serve(dir.path(), &["--qlog", text(&theirs)]);
    assert_eq!(get(dir.path(), &server, "/1000", &["--qlog", text(&ours)]).code, Some(0));
    server.process.interrupt();
    server.process.end();
    for (directory, side) in [(ours, "-client.sqlog"), (theirs, "-server.sqlog")] {
        let names = names(&directory);
        assert!(names.len() == 1 && names[0].ends_with(side), "{names:?}");
        let log = std::fs::read_to_string(directory.join(&names[0])).expect("a file");
        assert!(log.contains("packet_sent") && log.contains("packet_received"), "{log}");
    }
}

struct Downloads {
    dir: tempfile::TempDir,
    www: PathBuf,
    qlogs: PathBuf,
}

fn downloads(sizes: &[usize]) -> Downloads {
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    for bytes in sizes {
        write_file(&www.join(bytes.to_string()), *bytes);
    }
    let qlogs = dir.path().join("qlogs");
    Downloads { www, qlogs, dir }
}

impl Downloads {
    fn get(&self, server: &Serve, sizes: &[usize], args: &[&str]) -> crate::common::Said {
        let urls: Vec<String> =
            sizes.iter().map(|bytes| server.url(&format!("/{bytes}"))).collect();
        let mut command = fullpipe(self.dir.path(), &["get", "--insecure", "--output-dir", "here"]);
        command.args(urls).args(args).args(["--qlog", text(&self.qlogs)]);
        run(command)
    }

    /// Connections that left a qlog, and whether one sent 0-RTT packets.
    fn connections(&self) -> (usize, bool) {
        let logs = names(&self.qlogs);
        let log = |name: &String| std::fs::read_to_string(self.qlogs.join(name)).expect("a file");
        (logs.len(), logs.iter().any(|name| log(name).contains(r#""packet_type":"0RTT""#)))
    }

    fn are_equal(&self, sizes: &[usize]) {
        let here = self.dir.path().join("here");
        assert_eq!(names(&here).len(), sizes.len());
        for bytes in sizes {
            let name = bytes.to_string();
            assert_eq!(sha256(&here.join(&name)), sha256(&self.www.join(&name)), "{name}");
        }
        std::fs::remove_dir_all(here).expect("it is there");
        std::fs::remove_dir_all(&self.qlogs).expect("it is there");
    }
}

fn several_files_come_over_one_connection_or_over_one_each() {
    let sizes: Vec<usize> = (0..150).map(|i| i * 997).collect();
    let downloads = downloads(&sizes);
    let server = serve(&downloads.www, &["--early-data"]);
    for (args, connections) in [
        (&[][..], 1),
        (&["--parallel"], 150),
        (&["--resume"], 2),
        (&["--resume", "--alpn", "hq-interop"], 2),
        (&["--key-update"], 1),
    ] {
        let said = downloads.get(&server, &sizes, args);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), sizes.len(), "{args:?}: {}", said.stderr);
        assert_eq!(downloads.connections(), (connections, false), "{args:?}");
        downloads.are_equal(&sizes);
    }
}

/// Over a path of 100 ms, since on loopback a handshake may be over before the first request is
/// made.
fn a_request_comes_with_the_first_packets_of_a_session_that_is_resumed() {
    let sizes = [1000, 2000, 3000];
    let downloads = downloads(&sizes);
    let server = serve(&downloads.www, &["--early-data"]);
    for args in [&["--alpn", "h3"], &["--alpn", "hq-interop"]] {
        let relay = format!("0={}", server.address);
        let mut command = fullpipe(
            downloads.dir.path(),
            &["link", "--udp", &relay, "--rtt", "100ms", "--rate", "50mbit", "--"],
        );
        command.args([env!("CARGO_BIN_EXE_fullpipe"), "get", "--insecure", "--output-dir", "here"]);
        command.args(sizes.map(|bytes| format!("https://localhost:{{port}}/{bytes}")));
        command.args(["--resume", "--early-data", "--qlog", text(&downloads.qlogs)]).args(args);
        let said = run(command);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.stderr);
        assert_eq!(downloads.connections(), (2, true), "{args:?}");
        downloads.are_equal(&sizes);
    }
}

fn without_session_tickets_nothing_is_resumed() {
    let downloads = downloads(&[1000, 2000]);
    let server = serve(&downloads.www, &["--no-resumption"]);
    let said = downloads.get(
        &server,
        &[1000, 2000],
        &["--resume", "--early-data", "--alpn", "hq-interop"],
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert_eq!(downloads.connections(), (2, false));
    downloads.are_equal(&[1000, 2000]);
}

fn a_file_that_is_missing_does_not_keep_the_others() {
    let downloads = downloads(&[1000, 2000]);
    let server = serve(&downloads.www, &[]);
    let said = downloads.get(&server, &[1000, 77, 2000], &[]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("cannot fetch /77"), "{}", said.stderr);
    downloads.are_equal(&[1000, 2000]);
}

fullpipe_testkit::tests! {
    [] sigterm_lets_an_answer_end_and_takes_no_new_client,
        an_access_log_in_a_fifo_needs_a_reader,
        sighup_reads_the_certificate_again,
        the_access_log_has_a_line_of_json_for_each_request_and_is_opened_again,
        the_counters_of_prometheus_count,
        the_clients_of_a_network_and_those_of_a_name_have_a_congestion_control_of_their_own,
        both_ends_can_be_kept_to_a_cipher,
        each_connection_leaves_a_qlog_at_both_ends,
        several_files_come_over_one_connection_or_over_one_each,
        a_request_comes_with_the_first_packets_of_a_session_that_is_resumed,
        without_session_tickets_nothing_is_resumed,
        a_file_that_is_missing_does_not_keep_the_others;
    timed []
        a_reader_of_the_log_that_takes_nothing_stops_no_server,
        half_requests_of_one_address_keep_no_scraper_waiting,
        sigterm_waits_no_longer_than_it_should_and_a_second_signal_ends_it_at_once;
}
