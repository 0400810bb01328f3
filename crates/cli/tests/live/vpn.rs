//! `crates/tcp/vpn`: a WireGuard tunnel between TCP in user space and the kernel's
//! behind a TUN device, over a link that loses packets.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fullpipe_testkit::{in_namespace, until};
use serde_json::Value;

use crate::common::{Running, Said, first_line, fullpipe, run, text, write_file};

fullpipe_testkit::tests! {
    long [Root, Tun, Ip, Curl] curl_gets_a_file_through_the_tunnel;
    long timed [Root, Tun, Ip, Iperf3] bbr3_carries_several_times_what_the_kernels_cubic_does;
}

/// The program, which is no member of the workspace: built beside the command's folder.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let command = Path::new(env!("CARGO_BIN_EXE_fullpipe"));
        let target = command.ancestors().nth(2).expect("target/release/fullpipe").join("vpn");
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../tcp/vpn/Cargo.toml");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--release", "--locked", "--quiet", "--manifest-path", manifest]);
        // Quicker to build, and fast enough here.
        build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
        let built = build.arg("--target-dir").arg(&target).status().expect("cargo runs");
        assert!(built.success(), "{manifest} does not compile");
        target.join("release/vpn")
    })
}

/// The address of the end in user space.
const INSIDE: &str = "10.7.0.1";

/// Both ends of a tunnel over a link of 20 Mbit/s and 40 ms that loses one packet of a hundred. The
/// end in user space passes connections to port 80 of [`INSIDE`] on to a port of this machine.
fn tunnel(dir: &Path, port: &str) -> [Running; 3] {
    let key = |name: &str| {
        let mut make = Command::new(program());
        make.arg("key").arg(dir.join(name));
        let said = Said::of(make);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        String::from_utf8(said.stdout).expect("text").trim().to_owned()
    };
    let (server, client) = (key("server"), key("client"));
    let spawn = |mut command: Command| {
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Running(child.expect("the command starts"))
    };
    let end = |role: &str, key: &str, peer: &str, more: &[&str]| {
        let mut command = Command::new(program());
        command.args([role, "--key", text(&dir.join(key)), "--peer", peer]).args(more);
        spawn(command)
    };
    let way = format!("80=127.0.0.1:{port}");
    let user = ["--listen", "127.0.0.1:51820", "--address", INSIDE, "--serve", &way];
    let device = ["--endpoint", "127.0.0.1:51821", "--address", "10.7.0.2/24"];
    let link = ["link", "--udp", "127.0.0.1:51821=127.0.0.1:51820", "--rate", "20mbit"];
    let link = [&link[..], &["--rtt", "40ms", "--loss", "1%", "--quiet"]].concat();
    let all = [
        end("user", "server", &client, &user),
        spawn(fullpipe(dir, &link)),
        end("device", "client", &server, &device),
    ];
    until("the tunnel carries a connection", || TcpStream::connect((INSIDE, 80)).is_ok());
    all
}

fn curl_gets_a_file_through_the_tunnel() {
    program();
    in_namespace(|| {
        let dir = tempfile::tempdir().expect("a directory");
        write_file(&dir.path().join("file"), 2_000_000);
        let mut serve = fullpipe(dir.path(), &["serve", ".", "--listen", "127.0.0.1:0"]);
        serve.args(["--tcp", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut serve = Running(serve.spawn().expect("the command starts"));
        let line = first_line(&mut serve);
        let port = line.split("tcp://127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        let _tunnel = tunnel(dir.path(), port.expect(&line));
        let body = dir.path().join("body");
        let mut curl = Command::new("curl");
        curl.args(["-s", "-S", "-f", "--max-time", "60", "-o", text(&body)]);
        curl.arg(format!("http://{INSIDE}/file"));
        let said = run(curl);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let [got, file] = ["body", "file"].map(|name| std::fs::read(dir.path().join(name)));
        assert!(got.expect("a file") == file.expect("a file"));
    });
}

/// The end in user space sends with bbr3, the kernel with cubic, through the same tunnel.
fn bbr3_carries_several_times_what_the_kernels_cubic_does() {
    program();
    in_namespace(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut server = Command::new("iperf3");
        server.args(["-s", "-p", "5201"]).stdout(Stdio::null()).stderr(Stdio::null());
        let _server = Running(server.spawn().expect("the test names Need::Iperf3"));
        until("iperf3 listens", || TcpStream::connect("127.0.0.1:5201").is_ok());
        let _tunnel = tunnel(dir.path(), "5201");
        let mbps = |more: &[&str]| {
            let mut client = Command::new("iperf3");
            client.args(["-c", INSIDE, "-p", "80", "-t", "8", "-J"]).args(more);
            let said = run(client);
            let json: Value = serde_json::from_slice(&said.stdout).expect(&said.stderr);
            let rate = json.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64);
            rate.expect("a rate") / 1e6
        };
        let (bbr3, cubic) = (mbps(&["-R"]), mbps(&["-C", "cubic"]));
        println!("bbr3 {bbr3:.1} Mbit/s, the kernel's cubic {cubic:.1} Mbit/s");
        assert!(bbr3 > 12.0 && bbr3 > 2.0 * cubic, "{bbr3} and {cubic}");
    });
}
