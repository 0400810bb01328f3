//! `fullpipe link --udp`: QUIC through a relay, without root.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use fullpipe_testkit::{PATIENCE, inconclusive};

use crate::common::{
    Running, Serve, anybodys, as_nobody, captured, counts, fullpipe, names, run, serve, sha256,
    text, write_file,
};
use crate::link::{figure, json};

fullpipe_testkit::tests! {
    []
        a_relay_without_a_command_runs_until_ctrl_c,
        a_download_survives_a_new_port,
        a_connection_begins_with_what_an_earlier_one_had,
        a_capture_shows_what_was_lost,
        bad_addresses_are_refused;
    [SecondLoopback] clients_are_kept_apart;
    [Tcpdump] tcpdump_reads_a_capture;
    long [SecondLoopback] a_download_survives_a_new_address;
    long timed [] two_clients_share_the_path_and_each_gets_its_own;
}

/// Two files, a server that serves them, and a copy of the command, all where anybody may read and
/// write.
struct Place {
    dir: tempfile::TempDir,
    server: Serve,
    own: PathBuf,
}

fn place(bytes: usize) -> Place {
    place_with(bytes, &[])
}

/// With these switches of the server.
fn place_with(bytes: usize, switches: &[&str]) -> Place {
    let dir = tempfile::tempdir().expect("a directory");
    let own = anybodys(dir.path());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("a mode");
    let www = dir.path().join("www");
    std::fs::create_dir(&www).expect("a directory");
    write_file(&www.join("a"), bytes);
    write_file(&www.join("b"), bytes);
    let server = serve(&www, switches);
    Place { dir, server, own }
}

impl Place {
    /// `fullpipe link` towards the server with a command.
    fn link(&self, line: &str, command: &[&str]) -> Command {
        let mut link = Command::new(&self.own);
        link.args(["link", "--udp", &format!("0={}", self.server.address)]);
        link.args(line.split_whitespace()).arg("--json");
        if !command.is_empty() {
            link.arg("--").args(command);
        }
        link.current_dir(self.dir.path()).stdin(Stdio::null());
        as_nobody(link)
    }

    fn has(&self, name: &str, of: &str) -> bool {
        sha256(&self.dir.path().join(name)) == sha256(&self.dir.path().join("www").join(of))
    }
}

/// The address of a relay, which it tells on standard error.
pub(crate) fn address_of(relay: &mut Running) -> SocketAddr {
    let mut line = String::new();
    BufReader::new(relay.0.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    line.split(' ').find_map(|word| word.parse().ok()).expect(&line)
}

fn two_clients_share_the_path_and_each_gets_its_own() {
    let place = place(3_000_000);
    let get = |name: &str| {
        format!("{} get https://localhost:{{port}}/{name} --insecure", place.own.display())
    };
    let script = format!("{} & {}; wait", get("a"), get("b"));
    let said = run(place.link("--rate 20mbit --rtt 20ms --buffer 4bdp", &["sh", "-c", &script]));
    let result = json(&said);
    counts(&result["emulator"]);
    assert!(place.has("a", "a") && place.has("b", "b"), "{}", said.stderr);
    assert_eq!(result["relay"]["clients"], 2, "{result}");
    let down = &result["down"];
    // A datagram of 1472 bytes is 1500 with its headers.
    let goodput = figure(&down["metrics"]["goodput_mbps"]);
    assert!((17.0..20.0 * 1472.0 / 1500.0).contains(&goodput), "{goodput}");
    assert!(figure(&down["payload_bytes"]) > 6e6, "{down}");
    assert!(figure(&down["metrics"]["queue_ms.max"]) <= 80.0, "four BDP are 80 ms: {down}");
    assert!(figure(&result["emulator"]["lateness_us"]["p99"]) > 0.0, "{result}");
}

fn a_relay_without_a_command_runs_until_ctrl_c() {
    let place = place(10);
    let child = place.link("--rtt 30ms", &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut relay = Running(child.expect("the command starts"));
    let url = format!("https://localhost:{}/a", address_of(&mut relay).port());
    let out = place.dir.path().join("got");
    let get = ["get", &url, "--insecure", "-o", text(&out)];
    assert_eq!(run(fullpipe(Path::new("/"), &get)).code, Some(0));
    assert!(place.has("got", "a"));
    relay.interrupt();
    assert_eq!(relay.end().code(), Some(0));
    let mut stdout = String::new();
    relay.0.stdout.take().expect("a pipe").read_to_string(&mut stdout).expect("text");
    let object: serde_json::Value = serde_json::from_str(&stdout).expect("one object");
    let result = &object["link"];
    assert_eq!((&result["relay"]["clients"], &result["interrupted"]), (&1.into(), &false.into()));
    assert!(result["ended"].is_null(), "{result}");
}

/// The largest congestion window in each qlog of a server.
fn largest_windows(qlogs: &Path) -> Vec<u64> {
    names(qlogs)
        .iter()
        .map(|name| {
            let log = std::fs::read_to_string(qlogs.join(name)).expect("a file");
            let windows = log.split("\"congestion_window\":").skip(1).map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                rest[..end].parse().expect("a number")
            });
            windows.max().expect("a window")
        })
        .collect()
}

/// Careful Resume. The path holds 1.25 MB, and a file of 60 kB lets a window that begins at ten
/// packets grow to 75 kB.
fn a_connection_begins_with_what_an_earlier_one_had() {
    let qlogs = tempfile::tempdir().expect("a directory");
    for (known, switches) in [(false, &[][..]), (true, &["--careful-resume", "60min"])] {
        let qlog = qlogs.path().join(known.to_string());
        let mut place = place_with(4_000_000, &[&["--qlog", text(&qlog)], switches].concat());
        write_file(&place.dir.path().join("www/small"), 60_000);
        let get = |name: &str| {
            let own = place.own.display();
            format!("{own} get https://localhost:{{port}}/{name} --insecure")
        };
        let script = format!("{} && {}", get("a"), get("small"));
        let line = "--rate 50mbit --rtt 200ms --buffer 2bdp";
        let said = run(place.link(line, &["sh", "-c", &script]));
        assert!(place.has("a", "a") && place.has("small", "small"), "{}", said.stderr);
        place.server.process.interrupt();
        place.server.process.end();
        let windows = largest_windows(&qlog);
        assert_eq!(windows.len(), 2, "{windows:?}");
        let of_the_small_file = windows.iter().min().expect("two");
        assert_eq!(*of_the_small_file > 200_000, known, "{windows:?}");
    }
}

/// A router that forgets: the server sees the connection come from elsewhere, and it goes on.
fn a_download_survives_a_new_port() {
    survives("--rebind", 1);
}

/// A move to another network.
fn a_download_survives_a_new_address() {
    survives("--rebind-address", 3);
}

fn survives(option: &str, expected_addresses: usize) {
    let place = place(3_000_000);
    let own = text(&place.own);
    let get = [own, "get", "https://localhost:{port}/a", "--insecure"];
    let line = format!("--rate 10mbit --rtt 20ms {option} 700ms,1500ms --pcap moved.pcapng");
    let said = run(place.link(&line, &get));
    let result = json(&said);
    assert!(place.has("a", "a"), "{}", said.stderr);
    assert!(figure(&result["elapsed_s"]) > 2.0, "both times came: {result}");
    assert_eq!(result["relay"]["clients"], 1);
    // At the server's end the client has had three ports, and as many addresses as it should.
    let packets = captured(&place.dir.path().join("moved.pcapng"));
    let port = place.server.address.port().to_be_bytes();
    let to_server = packets.iter().filter(|(end, _, data)| *end == 1 && data[22..24] == port);
    let from: BTreeSet<_> =
        to_server.map(|(_, _, data)| (data[12..16].to_vec(), data[20..22].to_vec())).collect();
    let addresses: BTreeSet<_> = from.iter().map(|(ip, _)| ip).collect();
    assert_eq!((from.len(), addresses.len()), (3, expected_addresses), "{option}: {from:?}");
}

fn a_capture_shows_what_was_lost() {
    let place = place(200_000);
    let own = text(&place.own);
    let get = [own, "get", "https://localhost:{port}/a", "--insecure"];
    let keys = place.dir.path().join("keys");
    let mut link = place.link("--rate 20mbit --rtt 200ms --loss 5% --pcap both.pcapng", &get);
    link.env("SSLKEYLOGFILE", &keys);
    let said = run(link);
    let result = json(&said);
    let packets = captured(&place.dir.path().join("both.pcapng"));
    let lost = ["down", "up"].map(|way| result[way]["lost_packets"]["random_loss"].as_u64());
    let lost: u64 = lost.into_iter().flatten().sum();
    let sent = figure(&result["up"]["sent_packets"]) + figure(&result["down"]["sent_packets"]);
    assert!(lost > 0, "5 % of {sent}");
    assert_eq!(packets.len() as f64, 2.0 * sent - lost as f64);
    // From the server at its own end: UDP over IPv4, from its port.
    let port = place.server.address.port().to_be_bytes();
    let from_server = packets.iter().filter(|(end, _, data)| *end == 1 && data[20..22] == port);
    assert_eq!(from_server.count() as u64, result["down"]["sent_packets"].as_u64().expect("some"));
    // The secrets of the client open them: what was lost is seen then, and how long it took.
    let judge = ["judge", "--json", "--pcap", "both.pcapng"];
    let story = |args: &[&str]| {
        let said = run(fullpipe(place.dir.path(), args));
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        serde_json::from_slice::<serde_json::Value>(&said.stdout).expect("JSON")
    };
    let closed = story(&judge);
    assert!(closed["figures"]["resent_packets"].is_null(), "{closed}");
    let opened = story(&[&judge[..], &["--keys", text(&keys)]].concat());
    assert_eq!(opened["protocol"], "QUIC");
    if opened["place"] == "between" {
        inconclusive(format!("the server answered late: {}", opened["place_because"]));
    }
    assert_eq!(opened["place"], "sender", "{}", opened["place_because"]);
    let figures = &opened["figures"];
    assert!(figures["resent_packets"].as_u64().is_some_and(|n| n > 0), "{figures}");
    assert!(figures["rtt_ms"]["min"].as_f64().is_some_and(|ms| ms >= 200.0), "{figures}");
    assert!(figures["acks"].as_u64().is_some_and(|n| n > 5), "{figures}");
}

/// libpcap, which is stricter than the crate that wrote the file.
fn tcpdump_reads_a_capture() {
    let place = place(20_000);
    let own = text(&place.own);
    let get = [own, "get", "https://localhost:{port}/a", "--insecure"];
    let result = json(&run(place.link("--rate 20mbit --pcap both.pcapng", &get)));
    let file = place.dir.path().join("both.pcapng");
    let read = Command::new("tcpdump").args(["-nr", text(&file), "udp"]).output();
    let read = read.expect("tcpdump runs");
    let lines = String::from_utf8_lossy(&read.stdout).lines().count();
    let said = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(lines > 20, "{said}");
    assert_eq!(result["pcap"]["written"].as_u64(), Some(lines as u64), "{said}");
}

/// Datagrams of any client come back to it and to no other, in both directions and at another
/// address than loopback's first.
fn clients_are_kept_apart() {
    let echo = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = echo.local_addr().expect("an address");
    thread::spawn(move || {
        let mut data = [0; 100];
        while let Ok((bytes, from)) = echo.recv_from(&mut data) {
            let _ = echo.send_to(&data[..bytes], from);
        }
    });
    let udp = format!("127.0.0.2:0={target}");
    let mut link = fullpipe(Path::new("/"), &["link", "--udp", &udp, "--rtt", "10ms", "--json"]);
    let child = link.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut relay = Running(child.expect("the command starts"));
    let address = address_of(&mut relay);
    assert_eq!(address.ip().to_string(), "127.0.0.2");
    let clients: Vec<_> =
        (0..20).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    for (i, client) in clients.iter().enumerate() {
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        client.send_to(&[i as u8], address).expect("it is taken");
    }
    for (i, client) in clients.iter().enumerate() {
        let mut data = [0; 100];
        let (bytes, from) = client.recv_from(&mut data).expect("an answer");
        assert_eq!((&data[..bytes], from), (&[i as u8][..], address));
    }
    relay.interrupt();
    assert_eq!(relay.end().code(), Some(0));
}

fn bad_addresses_are_refused() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = format!("{}=127.0.0.1:9", taken.local_addr().expect("an address"));
    for (udp, parts) in [
        ("5000", &["LISTEN=SERVER", "127.0.0.1:5000"][..]),
        ("5000=127.0.0.1", &["LISTEN=SERVER"]),
        ("here=127.0.0.1:9", &["'here'", "LISTEN=SERVER"]),
        ("0=127.0.0.1:0", &["server's port is 0"]),
        ("0=[::1]:9", &["two families"]),
        ("192.0.2.77:0=127.0.0.1:9", &["192.0.2.77"]),
        (&taken, &["in use"]),
    ] {
        let said = run(fullpipe(Path::new("/"), &["link", "--udp", udp, "--quiet"]));
        assert_eq!(said.code, Some(2), "{udp}: {}", said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{udp}: {}", said.stderr);
        for part in parts {
            assert!(said.stderr.contains(part), "{udp} should tell {part}: {}", said.stderr);
        }
    }
}
