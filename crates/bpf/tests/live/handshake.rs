//! Connections that have the algorithm before their handshake.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_bpf::kernel::{Options, Usage};
use fullpipe_testkit::until;
use nix::sched::CloneFlags;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getsockopt, listen,
    setsockopt, socket,
};

use crate::kernel::{apart, options};
use crate::own::{load, name_of};

/// The way in which connections get the algorithm before their handshake.
enum Chosen {
    /// By setsockopt() on both sockets before they connect or listen.
    Socket,
    /// As the default of the namespace.
    Default,
    /// By the route to the other end.
    Route,
}

fn socket_of(name: &str, chosen: &Chosen) -> OwnedFd {
    let (family, kind) = (AddressFamily::Inet, SockType::Stream);
    let fd = socket(family, kind, SockFlag::empty(), None).expect("a socket");
    if matches!(chosen, Chosen::Socket) {
        setsockopt(&fd, TcpCongestion, &OsString::from(name)).expect("the name is known");
    }
    fd
}

/// One whose handshake fails: nobody has bound the port, which is not among those that the kernel
/// gives.
fn refused_connection(name: &str, chosen: &Chosen) {
    let nobody = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1));
    let sender = socket_of(name, chosen);
    connect(sender.as_raw_fd(), &nobody).expect_err("nobody listens");
}

/// One connection over loopback that takes `name` before its handshake, and ends.
fn short_connection(name: &str, chosen: &Chosen) {
    let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let listener = socket_of(name, chosen);
    bind(listener.as_raw_fd(), &SockaddrIn::from(any)).expect("a port");
    listen(&listener, Backlog::new(1).expect("small")).expect("it listens");
    let listener = TcpListener::from(listener);
    let sender = socket_of(name, chosen);
    let address = match listener.local_addr().expect("it has one") {
        std::net::SocketAddr::V4(address) => address,
        other => panic!("{other}"),
    };
    connect(sender.as_raw_fd(), &SockaddrIn::from(address)).expect("it listens");
    let (mut sender, (mut receiver, _)) =
        (TcpStream::from(sender), listener.accept().expect("it connects"));
    for stream in [&sender, &receiver] {
        let has = getsockopt(stream, TcpCongestion).expect("it has one");
        assert_eq!(has.to_string_lossy().trim_end_matches('\0'), name);
    }
    sender.write_all(&[1; 50_000]).expect("it is sent");
    drop(sender);
    let mut all = Vec::new();
    receiver.read_to_end(&mut all).expect("it arrives");
    assert_eq!(all.len(), 50_000);
}

/// Of an outgoing connection TCP asks for the algorithm's answer to the SYN-ACK before it is
/// started.
fn a_connection_that_chose_before_its_handshake_gives_its_place_back() {
    apart(CloneFlags::CLONE_NEWNET, || {
        run("ip", &["link", "set", "lo", "up"]);
        for (chosen, test) in
            [(Chosen::Socket, "early"), (Chosen::Default, "early2"), (Chosen::Route, "early3")]
        {
            let name = &*name_of(test);
            let options = options(name);
            let loaded = load(&Options { default: matches!(chosen, Chosen::Default), ..options });
            if matches!(chosen, Chosen::Route) {
                let route =
                    ["route", "replace", "local", "127.0.0.1", "dev", "lo", "table", "local"];
                if !succeeds("ip", &[&route[..], &["congctl", name]].concat()) {
                    println!("not tried: a route's algorithm, which this ip cannot set");
                    continue;
                }
            }
            for _ in 0..20 {
                short_connection(name, &chosen);
            }
            refused_connection(name, &chosen);
            // The last of them end when the kernel gets to it.
            until("all places are free", || {
                let usage = loaded.usage().expect("root reads it");
                usage.connections == loaded.connections().expect("root reads them").len() as u32
            });
        }
    });
}

/// Connections a second of the test below.
const OPENS_PER_SECOND: u32 = 200;

/// A server that opens many short connections: `OPENS_SECONDS` says for how long.
fn many_active_opens_leave_no_place_taken() {
    let seconds = std::env::var("OPENS_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    apart(CloneFlags::CLONE_NEWNET, move || {
        run("ip", &["link", "set", "lo", "up"]);
        let name = &*name_of("opens");
        let loaded = load(&options(name));
        let begun = Instant::now();
        let opens = OPENS_PER_SECOND * seconds;
        for number in 0..opens {
            short_connection(name, &Chosen::Socket);
            let due = begun + Duration::from_secs(1) * number / OPENS_PER_SECOND;
            // Sleeps: the rate of the opens.
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let took = begun.elapsed();
        until("all places are free", || loaded.usage().expect("root reads it") == Usage::default());
        println!("{opens} connections in {took:.1?}: {:?}", loaded.usage());
    });
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let output = std::process::Command::new(program).args(args).output().expect(program);
    output.status.success()
}

pub(crate) fn run(program: &str, args: &[&str]) {
    assert!(succeeds(program, args), "{program} {args:?}");
}

fullpipe_testkit::tests! {
    long [Root, Kernel, Ip] a_connection_that_chose_before_its_handshake_gives_its_place_back,
        many_active_opens_leave_no_place_taken;
}
