//! The kernel's TCP with the kernel program in the command.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use fullpipe_testkit::{skip, until};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

use crate::common::{Running, fullpipe, run};
use crate::link::names_of;
use crate::over_tcp::{arguments, counted, tcp};

fullpipe_testkit::tests! {
    long [Root, Tun, Kernel]
        ctrl_c_takes_it_out,
        clean_puts_back_the_default_that_a_killed_load_changed,
        what_cannot_be_loaded_or_measured_is_told_in_one_line,
        status_shows_a_connection_and_compare_takes_what_is_loaded;
    long timed [Root, Tun, Kernel] bbr3_runs_beside_the_kernels_own_and_is_gone_afterwards;
}

fn in_the_kernel() -> Vec<String> {
    let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.expect("Linux has it").split_whitespace().map(str::to_owned).collect()
}

/// Skips the test where the kernel takes no program of this kind.
fn must_load() {
    let said = tcp("--cc bbr3 --rate 10mbit --rtt 1ms --buffer 9pkts --bytes 1kB --json");
    if said.stderr.contains("no congestion control from BPF") {
        skip(said.stderr.trim());
    }
}

fn bbr3_runs_beside_the_kernels_own_and_is_gone_afterwards() {
    must_load();
    // Room for the queue of Startup: after a loss Drain may be over before the next row.
    let line = "--cc bbr3,linux:reno --rate 20mbit --rtt 20ms --buffer 4bdp --duration 3s --json";
    let said = tcp(line);
    let object = counted(&said);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(said.stderr.contains("over linux bbr3 is bbr3-linux"), "{}", said.stderr);
    let [ours, reno] = [0, 1].map(|i| &object["scenarios"][0]["runs"][i]);
    let cc = |run: &serde_json::Value| run["flows"][0]["cc"].clone();
    assert_eq!((cc(ours), cc(reno)), ("bbr3-linux".into(), "linux:reno".into()));
    let goodput = ours["metrics"]["goodput_mbps"].as_f64().expect("a number");
    assert!(goodput > 10.0 && goodput < 20.0, "{goodput}");
    let rows = ours["series"].as_array().expect("a series");
    let states: Vec<_> = rows.iter().map(|row| row["state"].clone()).collect();
    for state in ["Startup", "Drain", "ProbeBW_CRUISE"] {
        assert!(states.contains(&state.into()), "{state} of {states:?}");
    }
    assert_eq!(left_over(), [""; 0]);
}

/// The algorithms that processes that are gone left in the kernel. Other tests' processes have
/// theirs there.
fn left_over() -> Vec<String> {
    let is_gone = |name: &String| {
        let process = name.strip_prefix("bbr3_").and_then(|rest| rest.split('_').next());
        process.is_some_and(|process| !Path::new("/proc").join(process).exists())
    };
    let gone: Vec<String> = in_the_kernel().into_iter().filter(is_gone).collect();
    // One may have ended, and taken its own along, between the two looks.
    in_the_kernel().into_iter().filter(|name| gone.contains(name)).collect()
}

fn ctrl_c_takes_it_out() {
    must_load();
    let line = arguments("--cc bbr3-linux --rate 20mbit --rtt 10ms --duration 60s --json");
    let mut command = fullpipe(Path::new("/"), &line);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut process = Running(child.expect("the command starts"));
    let name = format!("bbr3_{}_0", process.0.id());
    until(&name, || in_the_kernel().contains(&name));
    process.interrupt();
    process.end();
    assert!(!in_the_kernel().contains(&name), "{:?}", in_the_kernel());
    assert_eq!(names_of(process.0.id()), [""; 0]);
}

/// In namespaces of its own, for the machine's default is to stay what it is.
fn clean_puts_back_the_default_that_a_killed_load_changed() {
    must_load();
    let name = format!("d{}", std::process::id());
    let script = format!(
        "mount -t tmpfs tmpfs /run && cd /proc/sys/net/ipv4 && echo reno > tcp_congestion_control || exit
         $0 kernel load --default --name {name} > /dev/null 2>&1 &
         for i in $(seq 600); do grep -q {name} tcp_congestion_control && break; sleep 0.1; done
         kill -KILL $!; wait
         for i in $(seq 600); do grep -q {name} tcp_available_congestion_control || break; sleep 0.1; done
         cat tcp_congestion_control; $0 clean; cat tcp_congestion_control; $0 clean; ls /run"
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--net", "sh", "-c", &script, env!("CARGO_BIN_EXE_fullpipe")]);
    let said = shell.output().expect("util-linux is everywhere");
    let back = format!("put back reno as the default of new connections: {name} is gone");
    let lines = [&name, &*back, "reno", "nothing was left"];
    assert_eq!(String::from_utf8_lossy(&said.stdout).lines().collect::<Vec<_>>(), lines);
}

fn what_cannot_be_loaded_or_measured_is_told_in_one_line() {
    must_load();
    for (line, code, says) in [
        ("load --name a\nb", 2, r"`a\nb` is no name"),
        ("load --name reno", 1, "has a congestion control reno already"),
        ("load bbr3 bbr3x --name b", 2, "--name is the name of one"),
        ("use reno --cgroup /proc", 2, "/proc is no directory of a cgroup of version 2"),
        ("use --off --cgroup /proc", 2, "/proc is no directory of a cgroup of version 2"),
        ("figures --duration 0s", 2, "--duration must be greater than 0"),
    ] {
        let line: Vec<&str> = std::iter::once("kernel").chain(line.split(' ')).collect();
        let said = run(fullpipe(Path::new("/"), &line));
        assert!(said.stderr.contains(says), "{line:?}: {}", said.stderr);
        assert_eq!((said.code, said.stderr.lines().count()), (Some(code), 1), "{line:?}");
    }
}

/// In a mount namespace, whose BPF file system is its own.
fn status_shows_a_connection_and_compare_takes_what_is_loaded() {
    must_load();
    let name = format!("b{}", std::process::id());
    let script = format!(
        "mount -t bpf bpf /sys/fs/bpf && $0 kernel load --pin --name {name} || exit
         while read _; do $0 kernel status; echo .; done; $0 kernel unload && $0 kernel status"
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_fullpipe")]);
    let child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut shell = Running(child.expect("util-linux is everywhere"));
    let mut said = BufReader::new(shell.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert_eq!(line, format!("{name} is in the kernel\n"));

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    let mut stream = TcpStream::connect(address).expect("it listens");
    setsockopt(&stream, TcpCongestion, &name.clone().into()).expect("the name is known");
    stream.write_all(&[0; 100_000]).expect("it is sent");
    let mut received = [0; 100_000];
    listener.accept().expect("it is there").0.read_exact(&mut received).expect("it arrives");

    let over_tcp = tcp(&format!("--cc linux:{name} --rate 20mbit --bytes 100kB --json"));
    assert_eq!(over_tcp.code, Some(0), "{}", over_tcp.stderr);
    let mut pipe = shell.0.stdin.take().expect("a pipe");
    let mut status = String::new();
    // Those of the run close in the background.
    until("one connection is left", || {
        status.clear();
        pipe.write_all(b"\n").expect("it reads");
        while !status.ends_with("\n.\n") {
            assert_ne!(said.read_line(&mut status).expect("text"), 0, "{status}");
        }
        let starts = format!("{name}: 1 connection of at most ");
        status.lines().any(|line| line.starts_with(&starts))
    });
    drop(pipe);
    let mut end = String::new();
    said.read_to_string(&mut end).expect("text");
    // Others may have programs in the kernel as well.
    let own = format!("{name}: ");
    let connection = status.lines().skip_while(|line| !line.starts_with(&own)).nth(1);
    let connection = connection.expect("a line of it");
    // The connection goes on, and keeps the program.
    let unloaded = end.lines().next().expect("what unload said");
    let kept = end.lines().find(|line| line.starts_with(&own)).expect("it is in the list");
    let ends = format!("  {} -> {address} ", stream.local_addr().expect("one"));
    assert!(connection.starts_with(&ends), "{connection}");
    for part in ["cwnd:", "pacing_rate:", "max_bw:", "min_rtt:0.", "delivered:", " netns:"] {
        assert!(connection.contains(part), "{part} is not in {connection}");
    }
    assert_eq!(unloaded, format!("{name} is out of the kernel"));
    assert!(kept.starts_with(&format!("{name}: 1 connection of at most ")), "{kept}");
    assert!(kept.ends_with(", unloaded: they keep it until they close"), "{kept}");
    assert!(!in_the_kernel().contains(&name));
}
