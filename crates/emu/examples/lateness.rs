//! Measures the link's lateness on this machine: datagrams of 1452 bytes at 95 % of a rate for some
//! seconds.
//!
//! `cargo run --release -p fullpipe-emu --example lateness -- [MBIT_PER_SECOND] [SECONDS]`

use std::error::Error;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_emu::{Emulator, EmulatorConfig, Link, QueueLimit};

const PAYLOAD: usize = 1452;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mbit: u64 = args.next().as_deref().unwrap_or("100").parse()?;
    let seconds: u64 = args.next().as_deref().unwrap_or("5").parse()?;

    let server = UdpSocket::bind("127.0.0.1:0")?;
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    let half = fullpipe_cc::Duration::from_millis(20);
    let link = Emulator::start(EmulatorConfig {
        uplink: Link { delay: half, ..Link::default() }.into(),
        downlink: Link {
            rate: Some(rate),
            delay: half,
            queue: QueueLimit::Bytes(rate.bytes_in(half.times(2))),
            ..Link::default()
        }
        .into(),
        ..EmulatorConfig::new(server.local_addr()?)
    })?;

    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.send_to(b"hello", link.addr())?;
    let (_, peer) = server.recv_from(&mut [0; 64])?;
    let reader = thread::spawn(move || {
        // Ends a while after the last packet.
        let _ = client.set_read_timeout(Some(Duration::from_secs(1)));
        let mut packets = 0u64;
        while client.recv(&mut [0; 2048]).is_ok() {
            packets += 1;
        }
        packets
    });
    blast(
        &server,
        peer,
        Duration::from_secs_f64(8.0 * PAYLOAD as f64 / (mbit as f64 * 0.95e6)),
        seconds,
    )?;
    // The client's socket is still open: had it been full, this look would see it.
    link.sample();
    let received = reader.join().map_err(|_| "the reader panicked")?;

    let report = link.finish()?;
    let us = |q: f64| report.lateness_at(q).as_nanos() as f64 / 1e3;
    let sent = report.downlink.stats.arrived.packets;
    println!("{sent} packets sent, {received} received, {:?}", report.host);
    println!(
        "late by: p50 {:.1} us, p90 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.1} us",
        us(0.5),
        us(0.9),
        us(0.99),
        us(0.999),
        us(1.0)
    );
    let busy = report.cpu.as_nanos() as f64 / report.ran.as_nanos() as f64;
    println!("the link used {:.1} % of a core; {} kernel drops", busy * 100.0, report.kernel_drops);
    println!("{}", report.warning.as_deref().unwrap_or("the result can be trusted"));
    Ok(())
}

/// Sends a packet every `interval`, sleeping in between and catching up after a late wake.
fn blast(
    server: &UdpSocket,
    peer: std::net::SocketAddr,
    interval: Duration,
    seconds: u64,
) -> std::io::Result<()> {
    let start = Instant::now();
    let mut next = start;
    while start.elapsed() < Duration::from_secs(seconds) {
        while next <= Instant::now() {
            server.send_to(&[0; PAYLOAD], peer)?;
            next += interval;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
