//! Programs that others wrote on the kernel's TCP, unchanged, with this crate at the other end.

use std::fs;
use std::process::{Command, Stdio};

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Stack, TcpListener, TcpStream};
use fullpipe_testkit::{Ended, Running, until};
use tokio::io::copy_bidirectional;
use tokio::runtime::Runtime;

use crate::namespace::{in_namespace, kernel, ours, start};

/// Starts a server in this namespace, and waits until it listens.
fn server(name: &str, args: &[&str], port: u16) -> Running {
    let child = Command::new(name).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut server = Running(child.expect("the test names it"));
    until(&format!("{name} listens"), || {
        let ended = server.0.try_wait().expect("a child");
        assert!(ended.is_none(), "{name}: {ended:?}");
        has_socket(port, &[LISTEN])
    });
    server
}

/// States as `/proc/net/tcp` has them.
const ESTABLISHED: &str = "01";
const CLOSE_WAIT: &str = "08";
const LISTEN: &str = "0A";

/// True if a socket of this namespace, of IPv4 or IPv6, has this port and one of these states.
fn has_socket(port: u16, states: &[&str]) -> bool {
    let end = format!(":{port:04X}");
    let is_one = |line: &str| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1), fields.nth(1));
        state.is_some_and(|state| states.contains(&state))
            && local.is_some_and(|local| local.ends_with(&end))
    };
    ["tcp", "tcp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        table.is_ok_and(|table| table.lines().any(is_one))
    })
}

/// Every connection to this end's port goes on to the same port of the kernel's, over a second one
/// of ours: a client and a server of the kernel's each have this crate at the other end.
fn relay(runtime: &Runtime, stack: &Stack, port: u16) {
    let stack = stack.clone();
    let config = Config { nagle: false, ..Config::default() };
    let listener = runtime
        .block_on(async { TcpListener::bind(&stack, ours(port), 16, &config) })
        .expect("a listener");
    runtime.spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let stack = stack.clone();
            tokio::spawn(async move {
                let connected = TcpStream::connect(&stack, ours(0), kernel(port), &config).await;
                let mut server = connected.expect("the server listens");
                // A client may go in the middle of an answer.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
}

/// The client measures in both directions, over one connection and over four.
fn iperf3_measures() {
    in_namespace(|device| {
        let _server = server("iperf3", &["-s", "-p", "5201"], 5201);
        let (runtime, stack) = start(device);
        relay(&runtime, &stack, 5201);
        let host = ours(0).ip().to_string();
        for more in [&["-n", "50M"][..], &["-n", "50M", "-R"], &["-n", "20M", "-P", "4", "--bidir"]]
        {
            // Each client is gone before the server has heard of its end.
            until("the server is free", || {
                !has_socket(5201, &[ESTABLISHED, CLOSE_WAIT]) && has_socket(5201, &[LISTEN])
            });
            let mut client = Command::new("iperf3");
            client.args(["-c", &host, "-J"]).args(more);
            let ended = Ended::of(client);
            let text = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.code == Some(0) && !text.contains("\"error\""), "{more:?}: {text}");
        }
    });
}

/// curl fetches files that nginx serves, some of them over one connection.
fn nginx_serves() {
    in_namespace(|device| {
        let dir = tempfile::tempdir().expect("a directory");
        let file: Vec<u8> =
            (0..8_000_000_u32).flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
        fs::write(dir.path().join("file"), &file).expect("a file");
        let place = dir.path().display();
        let config = format!(
            "daemon off; master_process off; pid {place}/pid; error_log {place}/log;\n\
             events {{}}\n\
             http {{ access_log off; client_body_temp_path {place}; proxy_temp_path {place};\n\
             fastcgi_temp_path {place}; uwsgi_temp_path {place}; scgi_temp_path {place};\n\
             server {{ listen {}; root {place}; }} }}\n",
            kernel(8080)
        );
        let path = dir.path().join("nginx.conf");
        fs::write(&path, config).expect("a file");
        let args = ["-c", path.to_str().expect("UTF-8")];
        let _server = server("nginx", &args, 8080);
        let (runtime, stack) = start(device);
        relay(&runtime, &stack, 8080);
        let url = format!("http://{}/file", ours(8080));
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "60", &url, &url]);
        let ended = Ended::of(curl);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stdout == [&file[..], &file[..]].concat(), "{} bytes", ended.stdout.len());
    });
}

fullpipe_testkit::tests! {
    long [Root, Tun, Ip, Iperf3] iperf3_measures;
    long [Root, Tun, Ip, Nginx, Curl] nginx_serves;
}
