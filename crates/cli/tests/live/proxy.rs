//! `fullpipe proxy` between sockets of the kernel's, and between curl, iperf3 and their servers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_testkit::{PATIENCE, in_namespace, until};
use serde_json::Value;
use socket2::{Domain, SockRef, Socket, Type};

use crate::common::{Running, Said, first_line, fullpipe, run, text, write_file};

fullpipe_testkit::tests! {
    []
        the_end_of_each_direction_is_passed_on_by_itself,
        a_reset_is_passed_on_both_ways,
        connections_beyond_the_limit_and_without_a_target_are_reset,
        what_is_on_its_way_ends_after_ctrl_c,
        a_second_ctrl_c_resets,
        a_client_that_leaves_before_there_is_a_connection_keeps_no_place;
    [Ip] both_sides_have_the_kernels_algorithm;
    long []
        a_reset_is_passed_on_past_data_that_nobody_takes,
        a_side_that_takes_nothing_stops_the_other;
    long timed [Root] an_address_that_drops_everything_leaves_time_for_the_next;
    [Root, Tun, Ip] it_ends_with_its_device;
    long [Root, Tun, Ip] what_our_tcp_has_to_deliver_is_delivered_after_ctrl_c;
    [Root, Tun, Ip, Curl] curl_gets_a_file_past_our_tcp;
    [Root, Tun, Ip, Iperf3] iperf3_goes_past_our_tcp;
}

/// A proxy, once it listens.
struct Proxy {
    process: Running,
    address: SocketAddr,
}

impl Proxy {
    fn start(args: &[&str]) -> Self {
        Self::of(&mut fullpipe(Path::new("/"), &[&["proxy", "--json"], args].concat()))
    }

    fn of(command: &mut Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Running(command.spawn().expect("the command starts"));
        let line = first_line(&mut process);
        let address = line.split(' ').nth(2).and_then(|word| word.parse().ok());
        Self { process, address: address.expect(&line) }
    }

    /// From a free port of loopback to a listener.
    fn to(listener: &TcpListener, args: &[&str]) -> Self {
        let to = listener.local_addr().expect("a listener").to_string();
        Self::start(&[&["--listen", "127.0.0.1:0", "--to", &to], args].concat())
    }

    /// A connection at both of its ends, from the client and at the target.
    fn connect(&self, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.address).expect("it listens");
        let (server, _) = listener.accept().expect("the proxy connects");
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        }
        // A byte each way: only then the proxy knows that it is connected.
        for (mut from, mut to) in [(&client, &server), (&server, &client)] {
            from.write_all(b"x").expect("there is room");
            to.read_exact(&mut [0]).expect("it goes on");
        }
        (client, server)
    }

    /// The results, after Ctrl-C.
    fn results(mut self) -> Value {
        self.process.interrupt();
        self.end()
    }

    fn end(&mut self) -> Value {
        assert_eq!(self.process.end().code(), Some(0), "{}", self.process.stderr());
        let mut json = String::new();
        let stdout = self.process.0.stdout.as_mut().expect("stdout is a pipe");
        stdout.read_to_string(&mut json).expect("text");
        serde_json::from_str(&json).expect(&json)
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

/// Resets a connection.
fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket");
}

fn is_reset(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// Bytes that repeat nowhere.
fn data(bytes: u32) -> Vec<u8> {
    (0..bytes / 4).flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect()
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it goes on");
    all
}

/// The target answers after it has read everything, when the client's direction has ended.
fn the_end_of_each_direction_is_passed_on_by_itself() {
    let listener = listener();
    let proxy = Proxy::to(&listener, &[]);
    let (up, down) = (data(5_000_000), data(3_000_000));
    let (mut client, mut server) = proxy.connect(&listener);
    let writer = thread::spawn({
        let (mut client, up) = (client.try_clone().expect("a socket"), up.clone());
        move || {
            client.write_all(&up).expect("it goes on");
            client.shutdown(Shutdown::Write).expect("it is open");
        }
    });
    assert!(read_all(&mut server) == up);
    writer.join().expect("no panic");
    let answer = thread::spawn({
        let down = down.clone();
        move || server.write_all(&down).expect("it goes on")
    });
    assert!(read_all(&mut client) == down);
    answer.join().expect("no panic");
    // The other way about: the target ends first.
    let (mut client, mut server) = proxy.connect(&listener);
    server.write_all(b"all").expect("there is room");
    server.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(read_all(&mut client), b"all");
    client.write_all(b"thanks").expect("its direction is open");
    drop(client);
    assert_eq!(read_all(&mut server), b"thanks");
    let results = proxy.results();
    let figures = ["connections", "reset", "bytes_to_target", "bytes_to_clients"]
        .map(|name| results[name].as_u64().expect(name));
    assert_eq!(figures, [2, 0, 5_000_008, 3_000_005], "{results}");
}

fn a_reset_is_passed_on_both_ways() {
    let listener = listener();
    let proxy = Proxy::to(&listener, &[]);
    let (client, mut server) = proxy.connect(&listener);
    reset(client);
    assert!(is_reset(&mut server));
    let (mut client, server) = proxy.connect(&listener);
    reset(server);
    assert!(is_reset(&mut client));
    // After the end of the other direction.
    let (mut client, mut server) = proxy.connect(&listener);
    client.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(server.read(&mut [0; 1]).expect("it goes on"), 0);
    reset(server);
    assert!(is_reset(&mut client));
    assert_eq!(proxy.results()["reset"].as_u64(), Some(3));
}

/// Writes until nothing more is taken; the bytes.
fn fill(stream: &mut TcpStream) -> usize {
    // An absence has no event: nothing is taken for a second.
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a socket");
    let (chunk, mut written) = (vec![0; 1 << 20], 0);
    loop {
        match stream.write(&chunk) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return written,
            Err(error) => panic!("{error}"),
        }
        assert!(written < 1 << 30, "somebody keeps all of it");
    }
}

fn a_reset_is_passed_on_past_data_that_nobody_takes() {
    let listener = listener();
    let proxy = Proxy::to(&listener, &[]);
    let (mut client, mut server) = proxy.connect(&listener);
    fill(&mut client);
    reset(client);
    until("the target's connection is reset", || {
        server.take_error().expect("a socket").is_some() || is_reset(&mut server)
    });
}

fn a_side_that_takes_nothing_stops_the_other() {
    let listener = listener();
    let proxy = Proxy::to(&listener, &[]);
    let (mut client, mut server) = proxy.connect(&listener);
    let before = resident(&proxy);
    let written = fill(&mut client);
    let grown = resident(&proxy).saturating_sub(before);
    assert!(grown < 2 << 20, "{grown} bytes for {written}");
    // And all of it is there.
    let reader = thread::spawn(move || read_all(&mut server).len());
    client.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(reader.join().expect("no panic"), written);
}

/// Bytes of the process in memory, without those of files.
fn resident(proxy: &Proxy) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", proxy.process.0.id()));
    let status = status.expect("Linux has /proc");
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a size");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") * 1024
}

fn connections_beyond_the_limit_and_without_a_target_are_reset() {
    let listener = listener();
    let proxy = Proxy::to(&listener, &["--max-connections", "1"]);
    let first = proxy.connect(&listener);
    let mut second = TcpStream::connect(proxy.address).expect("it listens");
    assert!(is_reset(&mut second));
    drop(first);
    let results = proxy.results();
    let counted = ["connections", "most_open", "refused", "unreachable"];
    let counted = |results: &Value| counted.map(|name| results[name].as_u64().expect(name));
    assert_eq!(counted(&results), [1, 1, 1, 0], "{results}");
    let nobody = self::listener().local_addr().expect("a listener").to_string();
    let proxy = Proxy::start(&["--listen", "127.0.0.1:0", "--to", &nobody]);
    let mut client = TcpStream::connect(proxy.address).expect("it listens");
    assert!(is_reset(&mut client));
    let results = proxy.results();
    assert_eq!(counted(&results), [1, 1, 0, 1], "{results}");
}

/// True if a socket listens at an address of loopback.
fn listens(at: SocketAddr) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").expect("Linux has /proc");
    let listening = format!(":{:04X} 00000000:0000 0A ", at.port());
    sockets.lines().any(|line| line.contains(&listening))
}

fn what_is_on_its_way_ends_after_ctrl_c() {
    let listener = listener();
    let mut proxy = Proxy::to(&listener, &["--shutdown-timeout", "60s"]);
    let (mut client, mut server) = proxy.connect(&listener);
    proxy.process.interrupt();
    until("it takes no new connections", || !listens(proxy.address));
    client.write_all(b"late").expect("it goes on");
    client.shutdown(Shutdown::Write).expect("it is open");
    assert_eq!(read_all(&mut server), b"late");
    drop(server);
    assert_eq!(read_all(&mut client), b"");
    let results = proxy.end();
    assert_eq!(results["reset"].as_u64(), Some(0), "{results}");
    assert_eq!(results["bytes_to_target"].as_u64(), Some(5), "{results}");
}

fn a_second_ctrl_c_resets() {
    let listener = listener();
    let mut proxy = Proxy::to(&listener, &["--shutdown-timeout", "60s"]);
    let (mut client, mut server) = proxy.connect(&listener);
    proxy.process.interrupt();
    until("it takes no new connections", || !listens(proxy.address));
    proxy.process.interrupt();
    assert!(is_reset(&mut client) && is_reset(&mut server));
    assert_eq!(proxy.end()["reset"].as_u64(), Some(1));
}

/// A listener that drops what asks for a connection, and the connections that fill its queue.
fn black_hole(at: SocketAddr) -> (Socket, Vec<Socket>) {
    let domain = Domain::for_address(at);
    let socket = || Socket::new(domain, Type::STREAM, None).expect("a socket");
    let listener = socket();
    listener.bind(&at.into()).expect("a free port");
    listener.listen(0).expect("a socket");
    let at = listener.local_addr().expect("it is bound");
    let mut held = Vec::new();
    loop {
        let client = socket();
        let refused = client.connect_timeout(&at, Duration::from_millis(300)).is_err();
        held.push(client);
        if refused {
            return (listener, held);
        }
    }
}

fn an_address_that_drops_everything_leaves_time_for_the_next() {
    let hosts = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&hosts, "127.0.0.1 two.test\n127.0.0.2 two.test\n").expect("it is written");
    let (hole, _held) = black_hole(([127, 0, 0, 1], 0).into());
    let port = hole.local_addr().expect("bound").as_socket().expect("an address").port();
    let listener = TcpListener::bind(("127.0.0.2", port)).expect("nobody has it");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind $0 /etc/hosts && exec \"$@\""]);
    command.arg(hosts.path()).args([env!("CARGO_BIN_EXE_fullpipe"), "proxy", "--json"]);
    command.args(["--listen", "127.0.0.1:0", "--to", &format!("two.test:{port}")]);
    let proxy = Proxy::of(command.args(["--connect-timeout", "6s"]));
    let begun = Instant::now();
    proxy.connect(&listener);
    // At the end of all the time a connection on this machine would still be made, at once.
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

fn a_client_that_leaves_before_there_is_a_connection_keeps_no_place() {
    let (hole, _held) = black_hole(([127, 0, 0, 1], 0).into());
    let to = hole.local_addr().expect("it is bound").as_socket().expect("an address").to_string();
    let args = ["--listen", "127.0.0.1:0", "--to", &to, "--max-connections", "1"];
    let proxy = Proxy::start(&[&args[..], &["--connect-timeout", "600s"]].concat());
    reset(TcpStream::connect(proxy.address).expect("it listens"));
    until("the next one has a place", || {
        let mut client = TcpStream::connect(proxy.address).expect("it listens");
        client.set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
        client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
}

fn it_ends_with_its_device() {
    in_namespace(|| {
        let listener = listener();
        let to = listener.local_addr().expect("a listener").to_string();
        for side in SIDES {
            let mut proxy = Proxy::start(&[side, &["--to", &to]].concat());
            let device = &side[3][..3];
            let gone = Command::new("ip").args(["link", "delete", device]).status();
            assert!(gone.expect("the test names Need::Ip").success());
            assert_eq!(proxy.process.end().code(), Some(1), "{}", proxy.process.stderr());
        }
    });
}

/// Both directions have ended, and the client reads what is on its way later than in a second.
fn what_our_tcp_has_to_deliver_is_delivered_after_ctrl_c() {
    in_namespace(|| {
        let listener = listener();
        let to = listener.local_addr().expect("a listener").to_string();
        let mut proxy = Proxy::start(&[SIDES[0], &["--to", &to]].concat());
        let (mut client, mut server) = proxy.connect(&listener);
        let all = data(400_000);
        server.write_all(&all).expect("it is taken");
        server.shutdown(Shutdown::Write).expect("it is open");
        client.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(read_all(&mut server), b"");
        proxy.process.interrupt();
        // Sleeps: the client takes nothing for longer than a goodbye.
        thread::sleep(Duration::from_secs(3));
        assert!(read_all(&mut client) == all);
        assert_eq!(proxy.end()["reset"].as_u64(), Some(0));
    });
}

fn both_sides_have_the_kernels_algorithm() {
    let listener = listener();
    let proxy = Proxy::to(&listener, &["--cc", "linux:reno"]);
    let (client, _server) = proxy.connect(&listener);
    let ports = [proxy.address.port(), listener.local_addr().expect("a listener").port()];
    let filters = [
        format!("sport = :{} and dport = :{}", ports[0], client.local_addr().expect("open").port()),
        format!("dport = :{}", ports[1]),
    ];
    for filter in filters {
        let sockets = Said::of({
            let mut ss = Command::new("ss");
            ss.args(["-tin", &filter]);
            ss
        });
        let text = String::from_utf8_lossy(&sockets.stdout).into_owned();
        assert!(text.split_whitespace().any(|word| word == "reno"), "{filter}: {text}");
    }
}

/// The proxy's own TCP on the side of the client, and on that of the target.
const SIDES: [&[&str]; 2] = [
    &["--listen", "198.18.9.2:8080", "--tun", "fp0=198.18.9.1/24"],
    &["--listen", "127.0.0.1:0", "--tun", "fp1=198.18.8.1/24", "--from", "198.18.8.2"],
];

/// Addresses of a server of all addresses, as the two of [`SIDES`] reach it.
const SERVERS: [&str; 2] = ["127.0.0.1", "198.18.8.1"];

fn curl_gets_a_file_past_our_tcp() {
    in_namespace(|| {
        let dir = tempfile::tempdir().expect("a directory");
        write_file(&dir.path().join("large"), 20_000_000);
        let whole = std::fs::read(dir.path().join("large")).expect("a file");
        let mut serve = fullpipe(dir.path(), &["serve", ".", "--listen", "127.0.0.1:0"]);
        serve.args(["--tcp", "0.0.0.0:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut serve = Running(serve.spawn().expect("the command starts"));
        let line = first_line(&mut serve);
        let port = line.split("tcp://0.0.0.0:").nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.expect(&line);
        for (side, server) in SIDES.into_iter().zip(SERVERS) {
            let to = format!("{server}:{port}");
            let proxy = Proxy::start(&[side, &["--to", &to, "--cc", "bbr3x"]].concat());
            let body = dir.path().join("body");
            let mut curl = Command::new("curl");
            curl.args(["-s", "-S", "-f", "--max-time", "60", "-o", text(&body)]);
            curl.arg(format!("http://{}/large", proxy.address));
            let said = run(curl);
            assert_eq!(said.code, Some(0), "{side:?}: {}", said.stderr);
            assert!(std::fs::read(&body).expect("a file") == whole, "{side:?}");
            let results = proxy.results();
            assert_eq!(results["connections"].as_u64(), Some(1), "{results}");
            assert!(results["bytes_to_clients"].as_u64() > Some(20_000_000), "{results}");
        }
    });
}

fn iperf3_goes_past_our_tcp() {
    in_namespace(|| {
        let mut server = Command::new("iperf3");
        server.args(["-s", "-p", "5201"]).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = Running(server.spawn().expect("the test names Need::Iperf3"));
        until("iperf3 listens", || TcpStream::connect("127.0.0.1:5201").is_ok());
        for (side, server) in SIDES.into_iter().zip(SERVERS) {
            let proxy = Proxy::start(&[side, &["--to", &format!("{server}:5201")]].concat());
            for direction in [&[][..], &["-R"]] {
                let mut client = Command::new("iperf3");
                client.args(["-c", &proxy.address.ip().to_string()]);
                client.args(["-p", &proxy.address.port().to_string(), "-n", "50M", "-J"]);
                let said = run({
                    client.args(direction);
                    client
                });
                let json: Value = serde_json::from_slice(&said.stdout).expect(&said.stderr);
                let bytes = json.pointer("/end/sum_received/bytes").and_then(Value::as_u64);
                // iperf3 ends by another connection, which overtakes the last data of the sender's.
                assert!(bytes >= Some(20_000_000), "{side:?} {direction:?}: {json}");
            }
            let results = proxy.results();
            assert_eq!(results["connections"].as_u64(), Some(4), "{results}");
        }
    });
}
