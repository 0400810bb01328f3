//! `serve` and `get` over TCP: the kernel's, and ours behind a TUN device in a network namespace of
//! the test's own.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fullpipe_testkit::{in_namespace, until};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};

use crate::common::{Said, Serve, fullpipe, names, run, scrape, serve, sha256, text, write_file};

fullpipe_testkit::tests! {
    []
        get_fetches_files_over_the_kernels_tcp,
        a_file_that_is_cut_off_is_an_error,
        connections_beyond_the_limit_are_closed,
        the_kernel_holds_little_of_an_answer_that_nobody_takes,
        the_soft_limit_of_descriptors_is_raised,
        what_cannot_be_is_one_line;
    long []
        who_takes_nothing_or_sends_nothing_is_cut_off,
        an_answer_on_its_way_arrives_when_the_server_ends;
    [Root, Tun, Ip] get_fetches_files_over_our_tcp;
    long [Root, Tun, Ip] an_answer_of_our_tcp_on_its_way_arrives_when_the_server_ends;
    long [Curl] curl_gets_files_from_the_kernels_tcp;
    long [Root, Tun, Ip, Curl] curl_gets_files_from_our_tcp;
    long [Root, Tun, Ip, Ipv6, Curl] curl_gets_files_from_our_tcp_over_ipv6;
}

/// The address at which a server listens over TCP.
fn tcp(serve: &Serve) -> SocketAddr {
    let rest = serve.line.split("tcp://").nth(1).expect("it is announced");
    rest.split(' ').next().expect("an address").parse().expect("an address")
}

fn get(dir: &Path, args: &[&str]) -> Said {
    run(fullpipe(dir, &[&["get"], args].concat()))
}

/// Files of some sizes below a directory, and a link that leaves it.
fn files() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, bytes) in [("empty", 0), ("small", 100), ("large", 20_000_000)] {
        write_file(&dir.path().join(name), bytes);
    }
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("out")).expect("a link");
    dir
}

/// The body that curl gets from a server, and the status that it prints.
fn curl(url: &str, args: &[&str]) -> (Vec<u8>, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let body = dir.path().join("body");
    let output = Command::new("curl")
        .args(["-s", "-S", "--max-time", "60", "--path-as-is", "-o", text(&body)])
        .args(["-w", "%{http_code}"])
        .args(args)
        .arg(url)
        .output()
        .expect("curl runs");
    assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
    let status = String::from_utf8(output.stdout).expect("text");
    (std::fs::read(body).unwrap_or_default(), status)
}

/// The same answers as over HTTP/3, from any TCP.
fn answers_curl(dir: &Path, at: SocketAddr) {
    let large = std::fs::read(dir.join("large")).expect("a file");
    let url = |path: &str| format!("http://{at}{path}");
    assert!(curl(&url("/large"), &[]) == (large.clone(), "200".to_owned()));
    assert_eq!(curl(&url("/empty"), &[]), (Vec::new(), "200".to_owned()));
    let part = curl(&url("/large"), &["-r", "1000000-1000099"]);
    assert_eq!(part, (large[1_000_000..1_000_100].to_vec(), "206".to_owned()));
    assert_eq!(curl(&url("/large"), &["-r", "30000000-"]).1, "416");
    assert_eq!(curl(&url("/large"), &["-I"]).1, "200");
    assert_eq!(curl(&url("/large"), &["-d", "x"]).1, "405");
    assert_eq!(curl(&url("/none"), &[]).1, "404");
    for outside in ["/out", "/../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/"] {
        assert_eq!(curl(&url(outside), &[]), (Vec::new(), "403".to_owned()), "{outside}");
    }
    let long = format!("x: {}", "y".repeat(9000));
    assert_eq!(curl(&url("/small"), &["-H", &long]).1, "431");
}

/// Bytes that the kernel holds of what one end has written, sent or not.
fn held(end: SocketAddr, peer: SocketAddr) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("Linux has it");
    let name = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => {
            format!("{:08X}:{:04X}", u32::from_ne_bytes(v4.ip().octets()), v4.port())
        }
        SocketAddr::V6(_) => panic!("{address} is in another table"),
    };
    let ends = format!(" {} {} ", name(end), name(peer));
    let line = table.lines().find(|line| line.contains(&ends)).expect("a connection");
    let queues = line.split_whitespace().nth(4).expect("the queues");
    u64::from_str_radix(queues.split(':').next().unwrap_or(queues), 16).expect("a number")
}

/// TCP_NOTSENT_LOWAT is 256 KiB; the kernel's send buffer alone grows to megabytes.
fn the_kernel_holds_little_of_an_answer_that_nobody_takes() {
    let dir = files();
    let serve = serve(dir.path(), &["--tcp", "127.0.0.1:0"]);
    let client = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // So that little is under way.
    client.set_recv_buffer_size(16 << 10).expect("a size");
    client.connect(&tcp(&serve).into()).expect("a listener");
    let address = client.local_addr().ok().and_then(|address| address.as_socket());
    let held = || held(tcp(&serve), address.expect("an address"));
    client.send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").expect("a request");
    until("the answer is written", || held() >= 256 << 10);
    // Sleeps: that no more of it is written has no event.
    std::thread::sleep(Duration::from_millis(300));
    assert!(held() < 512 << 10, "{} bytes", held());
}

fn curl_gets_files_from_the_kernels_tcp() {
    let dir = files();
    let serve = serve(dir.path(), &["--tcp", "127.0.0.1:0", "--threads", "3"]);
    answers_curl(dir.path(), tcp(&serve));
}

fn curl_gets_files_from_our_tcp() {
    in_namespace(|| {
        let dir = files();
        let tun = ["--tcp", "198.18.9.2:80", "--tun", "fp0=198.18.9.1/24", "--cc", "bbr3"];
        let serve = serve(dir.path(), &tun);
        assert!(serve.line.contains(" and tcp://198.18.9.2:80 (bbr3 over fp0)"), "{}", serve.line);
        answers_curl(dir.path(), tcp(&serve));
    });
}

fn curl_gets_files_from_our_tcp_over_ipv6() {
    in_namespace(|| {
        let dir = files();
        let serve = serve(dir.path(), &["--tcp", "[fd00:9::2]:80", "--tun", "fp0=fd00:9::1/64"]);
        until("the kernel has looked for others with its address", || has_address("fp0"));
        assert_eq!(curl(&format!("http://{}/small", tcp(&serve)), &[]).0.len(), 100);
    });
}

/// True if a device has a global IPv6 address that is no longer tentative (`IFA_F_TENTATIVE`).
fn has_address(device: &str) -> bool {
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").expect("Linux has it");
    table.lines().any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, scope, flags, name] = columns[..] else { return false };
        let flags = u32::from_str_radix(flags, 16).expect("a number");
        name == device && scope == "00" && flags & 0x40 == 0
    })
}

fn get_fetches_files_over_the_kernels_tcp() {
    let dir = files();
    let to = tempfile::tempdir().expect("a directory");
    let serve = serve(dir.path(), &["--tcp", "127.0.0.1:0", "--threads", "3"]);
    let url = |path: &str| format!("tcp://{}{path}", tcp(&serve));
    let said = get(to.path(), &[&url("/large"), &url("/small"), &url("/empty")]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for name in ["large", "small", "empty"] {
        assert_eq!(sha256(&to.path().join(name)), sha256(&dir.path().join(name)), "{name}");
    }
    let said = get(to.path(), &[&url("/small"), "-o", "-"]);
    assert_eq!(said.stdout, std::fs::read(dir.path().join("small")).expect("a file"));
    let said = get(to.path(), &[&url("/none")]);
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.contains("status 404"), "{}", said.stderr);
    assert_eq!(names(to.path()), ["empty", "large", "small"]);
}

fn get_fetches_files_over_our_tcp() {
    in_namespace(|| {
        let dir = files();
        let to = tempfile::tempdir().expect("a directory");
        // The server has the kernel's TCP, and the address of the device that the client makes.
        let add = Command::new("ip").args(["addr", "add", "198.18.9.1/32", "dev", "lo"]).status();
        assert!(add.expect("ip runs").success());
        let serve = serve(dir.path(), &["--tcp", "198.18.9.1:8080"]);
        let url = |path: &str| format!("tcp://{}{path}", tcp(&serve));
        let tun = ["--tun", "fp0=198.18.9.3/24", "--from", "198.18.9.2"];
        let said = get(to.path(), &[&[&*url("/large"), &*url("/small")], &tun[..]].concat());
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        for name in ["large", "small"] {
            assert_eq!(sha256(&to.path().join(name)), sha256(&dir.path().join(name)), "{name}");
        }
        let nobody = "tcp://198.18.9.1:81/x";
        let said = get(to.path(), &[&[nobody], &tun[..]].concat());
        assert_eq!(said.code, Some(1));
        assert!(said.stderr.contains("connection was refused"), "{}", said.stderr);
    });
}

fn an_answer_on_its_way_arrives_when_the_server_ends() {
    arrives_when_the_server_ends(&["--tcp", "127.0.0.1:0"]);
}

fn an_answer_of_our_tcp_on_its_way_arrives_when_the_server_ends() {
    in_namespace(|| {
        let tun = ["--tcp", "198.18.9.2:80", "--tun", "fp0=198.18.9.1/24"];
        arrives_when_the_server_ends(&tun);
    });
}

/// SIGTERM: what is on its way arrives, and there is no new connection.
fn arrives_when_the_server_ends(args: &[&str]) {
    let dir = files();
    let mut serve = serve(dir.path(), args);
    let mut stream = TcpStream::connect(tcp(&serve)).expect("a connection");
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").expect("a request");
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
    serve.process.signal(Signal::SIGTERM);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("all of it");
    assert!(rest.len() > 20_000_000, "{} bytes", rest.len());
    assert!(serve.process.end().success());
}

/// Clients that take nothing, send nothing, or half a request, do not stay.
fn who_takes_nothing_or_sends_nothing_is_cut_off() {
    let dir = files();
    let limits = ["--stall-timeout", "1s", "--idle-timeout", "1s", "--request-timeout", "1s"];
    let args = [&["--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0"], &limits[..]].concat();
    let serve = serve(dir.path(), &args);
    let connect = |request: &str| {
        let mut stream = TcpStream::connect(tcp(&serve)).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        stream
    };
    let large = "GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    let streams = [connect(large), connect("GET /lar"), connect(""), connect(&large[..30])];
    let says = |line: &str| scrape(serve.metrics(), "/metrics").1.contains(line);
    until("all of them came", || says("fullpipe_connections_admitted_total 4\n"));
    until("all of them are gone", || says("fullpipe_connections 0\n"));
    drop(streams);
}

/// A file that is cut off while it is sent is no whole file.
fn a_file_that_is_cut_off_is_an_error() {
    let dir = files();
    let serve = serve(dir.path(), &["--tcp", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(tcp(&serve)).expect("a connection");
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n").expect("a request");
    stream.read_exact(&mut [0; 1000]).expect("an answer");
    write_file(&dir.path().join("large"), 1000);
    let mut rest = Vec::new();
    // The end, or a reset.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 19_000_000, "{} bytes", rest.len());
}

fn connections_beyond_the_limit_are_closed() {
    let dir = files();
    let serve = serve(dir.path(), &["--tcp", "127.0.0.1:0", "--max-tcp-connections", "1"]);
    let mut first = TcpStream::connect(tcp(&serve)).expect("a connection");
    first.write_all(b"GET /small HTTP/1.1\r\nhost: x\r\n\r\n").expect("a request");
    first.read_exact(&mut [0; 12]).expect("an answer");
    let mut second = TcpStream::connect(tcp(&serve)).expect("a connection");
    assert!(matches!(second.read(&mut [0; 1]), Ok(0) | Err(_)));
    // QUIC has places of its own.
    let said = run(fullpipe(dir.path(), &["get", &serve.url("/small"), "-o", "-", "--insecure"]));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    first.shutdown(Shutdown::Both).expect("open");
}

/// The soft limit of open descriptors of a process.
#[cfg(target_os = "linux")]
fn soft_limit(process: u32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).expect("a process");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    line.split_whitespace().nth(3).and_then(|soft| soft.parse().ok()).expect("a number")
}

#[cfg(target_os = "linux")]
fn the_soft_limit_of_descriptors_is_raised() {
    let dir = files();
    let script = r#"ulimit -S -n 100; exec "$0" "$@""#;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_fullpipe"), "serve", "."]);
    command.args(["--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--threads", "3"]);
    command.current_dir(dir.path());
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.stdout(std::process::Stdio::piped());
    let mut process = crate::common::Running(command.spawn().expect("a shell"));
    crate::common::first_line(&mut process);
    // 1024 files, as many connections over TCP, four of each thread beside the main one, and 64
    // others.
    let raised = soft_limit(process.0.id());
    let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
        .expect("a limit");
    assert_eq!(raised, hard.min(2120));
}

#[cfg(not(target_os = "linux"))]
fn the_soft_limit_of_descriptors_is_raised() {}

fn what_cannot_be_is_one_line() {
    let dir = files();
    for (args, reason) in [
        (&["serve", ".", "--tun", "fp0"][..], "--tcp"),
        (&["serve", ".", "--tcp", "127.0.0.1"], "an IP address and a port"),
        (&["serve", ".", "--careful-resume", "60min", "--cc", "noq:bbr3"], "not for noq:bbr3"),
        (&["serve", ".", "--tcp", "10.0.0.2:0", "--tun", "fp0=10.0.0.1/24"], "a port of its own"),
        (&["serve", ".", "--tcp", "10.0.0.2:80", "--tun", "a/b"], "no name of a device"),
        (&["serve", ".", "--tcp", "10.0.0.2:80", "--tun", "fpnone0"], "there is no device fpnone0"),
        (
            &["serve", ".", "--tcp", "10.0.0.2:80", "--tun", "fp0", "--cc", "noq:cubic"],
            "noq:cubic is noq's",
        ),
        (&["get", "tcp://127.0.0.1/x"], "no port"),
        (&["get", "tcp://127.0.0.1:1/x", "--insecure"], "--insecure is for https://"),
        (
            &["get", "https://127.0.0.1:1/x", "--tun", "fp0", "--from", "10.0.0.2"],
            "--tun is for tcp",
        ),
        (&["get", "tcp://127.0.0.1:1/x", "--tun", "fp0"], "--from"),
    ] {
        let args =
            [args, if args[0] == "serve" { &["--listen", "127.0.0.1:0"] } else { &[] }].concat();
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.stderr);
        assert!(said.stderr.contains(reason), "{args:?}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{args:?}: {}", said.stderr);
    }
    let said = run(fullpipe(dir.path(), &["get", "tcp://127.0.0.1:1/x"]));
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("cannot connect to 127.0.0.1:1"), "{}", said.stderr);
}
