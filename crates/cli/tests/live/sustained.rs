//! Attacks of one host that go on for as long as `ATTACK=120s` says, beside an honest client of
//! another one: it is served each time, memory does not grow, and nothing is left of the attack.

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullpipe_testkit::until;
use nix::sys::stat::Mode;
use noq_proto::VarInt;
use noq_proto::congestion::CubicConfig;
use socket2::{Domain, Socket, Type};

use crate::attacks::serve;
use crate::common::{Serve, fullpipe, run, scrape, text, write_file};
use crate::raw::{RawClient, config_with};
use crate::soak::time_in;

/// The attacker's address; the honest client has 127.0.0.1.
const ATTACKER: &str = "127.0.1.2";
/// An attack's duration, unless it is said.
const SHORT: Duration = Duration::from_secs(20);
/// What the allocator's arenas keep of a busy time, in bytes.
const ARENAS: u64 = 4_000_000;

/// The server that is attacked.
#[derive(Clone)]
struct Target {
    quic: SocketAddr,
    tcp: SocketAddr,
    over: Arc<AtomicBool>,
    /// The attacks that only cost the server time have this part of their rate: 1 of so many.
    part: u32,
}

/// Attacks until it is over, and says how often something came of it.
type Attack = fn(&Target) -> usize;

impl Target {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn connect(&self, set: impl FnOnce(&mut noq_proto::TransportConfig)) -> RawClient {
        let mut client = RawClient::from(ATTACKER, self.quic, config_with(b"hq-interop", set));
        client.drive_until(Duration::from_secs(5), |client| client.connected);
        client.drive(Duration::from_millis(20));
        client
    }
}

/// A connection over TCP that has this address here.
pub(crate) fn connected_from(address: &str, to: SocketAddr) -> Option<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    let from: SocketAddr = format!("{address}:0").parse().expect("an address");
    socket.bind(&from.into()).ok()?;
    socket.connect(&to.into()).ok()?;
    Some(TcpStream::from(socket))
}

/// A FIFO whose reader reads nothing.
pub(crate) fn unread_fifo(path: &Path) -> File {
    nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR).expect("a FIFO");
    let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
    File::options().read(true).custom_flags(nonblocking).open(path).expect("it opens")
}

/// Serves three files behind a limit on descriptors, and attacks for a while.
fn attacked(args: &[&str], honest_url: impl Fn(&Serve) -> String, attack: Attack) {
    let wanted = time_in("ATTACK").unwrap_or(SHORT);
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("large"), 1_000_000);
    write_file(&www.join("small"), 6);
    let fifo = dir.path().join("fifo");
    let _reader = unread_fifo(&fifo);
    let common = [
        "--metrics=127.0.0.1:0",
        "--tcp=127.0.0.1:0",
        "--idle-timeout=5s",
        "--stall-timeout=2s",
        "--access-log",
        text(&fifo),
    ];
    let server = serve(&www, &dir.path().join("log"), 400, &[&common, args].concat());
    let url = honest_url(&server);
    let served = || {
        let insecure = url.starts_with("https").then_some("--insecure");
        let args: Vec<&str> = ["get", &url, "-o", "-"].into_iter().chain(insecure).collect();
        let said = run(fullpipe(dir.path(), &args));
        assert_eq!((said.code, said.stdout.len()), (Some(0), 6), "{}", said.stderr);
    };
    served();
    let before = settled(&server);
    let (quic, tcp) = (server.address, tcp_of(&server));
    let target = Target { quic, tcp, over: Arc::default(), part: 1 };
    let attacker = std::thread::spawn({
        let target = target.clone();
        move || attack(&target)
    });
    let (begin, mut times, mut first, mut most) = (Instant::now(), 0, 0, 0);
    while begin.elapsed() < wanted {
        served();
        times += 1;
        let now = server.resident();
        // What the attack costs at all is there by then.
        if begin.elapsed() < wanted / 2 {
            first = first.max(now);
        }
        most = most.max(now);
        // Sleeps: the pause of the honest client.
        std::thread::sleep(Duration::from_millis(200));
    }
    target.over.store(true, Ordering::Relaxed);
    assert!(attacker.join().expect("no panic") > 0, "nothing was attacked");
    println!("served {times} times; {first} bytes in the first half, {most} at most");
    assert!(most <= first + first / 5 + ARENAS, "{first} bytes, then {most}");
    until("no descriptor is left", || settled(&server) <= before);
}

/// Descriptors once all connections are over.
fn settled(server: &Serve) -> usize {
    until("all connections are over", || {
        let (_, body) = scrape(server.metrics(), "/metrics");
        body.lines().any(|line| line == "fullpipe_connections 0")
    });
    server.descriptors()
}

fn over_quic(server: &Serve) -> String {
    server.url("/small")
}

pub(crate) fn tcp_of(server: &Serve) -> SocketAddr {
    let after = server.line.split("tcp://").nth(1).expect("it is announced");
    after.split(' ').next().and_then(|address| address.parse().ok()).expect("an address")
}

/// Connections with as many requests as they may have and no credit, but for one stream that gets
/// some now and then.
fn hold_files(target: &Target) -> usize {
    let mut asked = 0;
    while target.goes_on() {
        let mut clients: Vec<RawClient> = (0..11)
            .map(|_| {
                target.connect(|transport| {
                    transport.stream_receive_window(VarInt::from_u32(40));
                })
            })
            .collect();
        let mut fed = Vec::new();
        for client in &mut clients {
            fed.push(client.request(b"GET /large\r\n", true));
            while client.request(b"GET /large\r\n", true).is_some() {
                asked += 1;
            }
        }
        let end = Instant::now() + Duration::from_secs(6);
        while target.goes_on() && Instant::now() < end {
            for (client, fed) in clients.iter_mut().zip(&fed) {
                client.drive(Duration::from_millis(2));
                // That it was reset is no concern.
                let _read = fed.map(|fed| client.read(fed));
            }
            // Sleeps: the rate of the credit.
            std::thread::sleep(Duration::from_millis(300));
        }
    }
    asked
}

/// Connections that send PINGs, hear nothing, and so acknowledge nothing.
fn acknowledge_nothing(target: &Target) -> usize {
    let mut connected = 0;
    while target.goes_on() {
        let mut clients: Vec<RawClient> = (0..24 / target.part)
            .map(|_| {
                target.connect(|transport| {
                    let mut never_full = CubicConfig::default();
                    never_full.initial_window(1 << 40);
                    transport
                        .congestion_controller_factory(Arc::new(never_full))
                        .max_idle_timeout(None);
                })
            })
            .collect();
        connected += clients.iter().filter(|client| client.connected).count();
        let end = Instant::now() + Duration::from_secs(5);
        while target.goes_on() && Instant::now() < end {
            for client in &mut clients {
                client.connection.ping();
                client.transmit();
            }
            // Sleeps: the rate of the attack.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    connected
}

/// Connections over TCP that begin a request, as many as there may be.
fn take_places(target: &Target) -> usize {
    let mut taken = 0;
    let open = || {
        let mut stream = connected_from(ATTACKER, target.tcp)?;
        stream.write_all(b"GET /small HTTP/1.1\r\nhost: ").ok()?;
        Some(stream)
    };
    while target.goes_on() {
        let all: Vec<TcpStream> = (0..512).filter_map(|_| open()).collect();
        taken += all.len();
        let end = Instant::now() + Duration::from_secs(2);
        while target.goes_on() && Instant::now() < end {
            // Sleeps: for so long the attack holds what it has.
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(all);
    }
    taken
}

/// Requests as long as they may be, with bytes that the access log escapes.
fn fill_log(target: &Target) -> usize {
    let mut asked = 0;
    let path = [&b"GET /"[..], &[1; 7900], b"\r\n"].concat();
    while target.goes_on() {
        let mut client = target.connect(|_| ());
        let end = Instant::now() + Duration::from_secs(3);
        while target.goes_on() && Instant::now() < end && client.lost.is_none() {
            while client.request(&path, true).is_some() {
                asked += 1;
            }
            client.drive(Duration::from_millis(5));
            // Sleeps: the rate of the attack.
            std::thread::sleep((target.part - 1) * Duration::from_millis(5));
        }
        client.close(b"");
        client.transmit();
    }
    asked
}

/// All of them at once, until `over`, with a part of the rate that would fill a processor.
pub(crate) fn start(
    quic: SocketAddr,
    tcp: SocketAddr,
    over: &Arc<AtomicBool>,
) -> Vec<JoinHandle<()>> {
    let all: [Attack; 4] = [hold_files, acknowledge_nothing, take_places, fill_log];
    all.map(|attack| {
        let target = Target { quic, tcp, over: over.clone(), part: 24 };
        std::thread::spawn(move || assert!(attack(&target) > 0, "nothing was attacked"))
    })
    .into()
}

fn files_are_left_for_others() {
    attacked(&["--max-files=64"], over_quic, hold_files);
}

fn packets_without_an_ack_are_bounded() {
    attacked(&[], over_quic, acknowledge_nothing);
}

fn places_of_tcp_are_left_for_others() {
    attacked(&[], |server| format!("tcp://{}/small", tcp_of(server)), take_places);
}

fn the_access_log_is_bounded() {
    attacked(&[], over_quic, fill_log);
}

/// They hold no descriptor: nothing bounds their sum but the connections, and what each costs.
fn answers_without_a_body_that_nobody_reads_cost_little_memory() {
    const CLIENTS: u64 = 12;
    let dir = tempfile::tempdir().expect("a directory");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    let server = serve(&www, &dir.path().join("log"), 400, &["--metrics=127.0.0.1:0"]);
    write_file(&www.join("f"), 1);
    // SETTINGS on a control stream, and HEADERS of a HEAD: names of QPACK's static table.
    let settings = [0, 4, 0];
    let request =
        [&[1, 19, 0, 0, 0xd2, 0xd7, 0x51, 2][..], b"/f", &[0x50, 9], b"localhost"].concat();
    // What the server's own streams need, and less than an answer.
    let client = || {
        let config = config_with(b"h3", |transport| {
            transport.stream_receive_window(VarInt::from_u32(40));
        });
        let mut client = RawClient::from(ATTACKER, server.address, config);
        client.drive_until(Duration::from_secs(5), |client| client.connected);
        let control = client.open_uni();
        settings.into_iter().for_each(|byte| client.byte(control, byte));
        client
    };
    let first = client();
    let before = server.resident();
    let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| client()).collect();
    for client in &mut clients {
        while client.request(&request, true).is_some() {}
    }
    until("all requests are being answered", || {
        clients.iter_mut().for_each(|client| client.drive(Duration::from_millis(2)));
        let (_, body) = scrape(server.metrics(), "/metrics");
        body.lines().any(|line| line == format!("fullpipe_answers {}", CLIENTS * 100))
    });
    let each = server.resident().saturating_sub(before) / CLIENTS;
    println!("{each} bytes a connection");
    assert!(each <= 1_600_000, "{each} bytes a connection");
    drop((first, clients));
}

fullpipe_testkit::tests! {
    long [SecondLoopback] files_are_left_for_others,
        packets_without_an_ack_are_bounded,
        places_of_tcp_are_left_for_others,
        the_access_log_is_bounded,
        answers_without_a_body_that_nobody_reads_cost_little_memory;
}
