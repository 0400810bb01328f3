//! A reliable sender over UDP, on loopback: the calls that a transport makes, in their order.
//!
//! ```text
//! cargo run --release -p fullpipe-cc --example udp_sender -- 50000000 bbr3
//! ```
//!
//! Each packet has a number, and the receiver sends back the number of each packet that arrives. A
//! packet is lost when one that was sent three packets later is acknowledged; its part of the data
//! is sent again in a new packet.

#![allow(dead_code, reason = "a test includes this file and calls `transfer`")]

use std::collections::{BTreeMap, VecDeque};
use std::net::UdpSocket;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration as Wait;
use std::{env, error, io, process, thread, time};

use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, PacketState, SendDecision};

const PACKET: usize = 1200;
/// A packet's number and its part of the data.
const HEADER: usize = 16;
/// Without an ACK for so long, all packets in flight are lost.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Sends `parts` packets full of data to a receiver of its own; returns the controller and the
/// bytes a second.
pub(crate) fn transfer(algorithm: Algorithm, parts: u64) -> io::Result<(Controller, f64)> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(receiver.local_addr()?)?;
    receiver.connect(socket.local_addr()?)?;
    thread::spawn(move || echo(&receiver));
    let (acks, inbox) = mpsc::channel();
    let ack_socket = socket.try_clone()?;
    thread::spawn(move || {
        let mut number = [0; 8];
        while ack_socket.recv(&mut number).is_ok_and(|size| size == 8)
            && acks.send(u64::from_be_bytes(number)).is_ok()
        {}
    });

    let start = time::Instant::now();
    let clock = || Instant::from_nanos(start.elapsed().as_nanos() as u64);
    let seed = start.elapsed().as_nanos() as u64 ^ u64::from(process::id());
    let mut cc = Controller::new(algorithm, Config::new(seed), clock());
    let mut unsent: VecDeque<u64> = (0..parts).collect();
    let mut flight: BTreeMap<u64, (PacketState, u64)> = BTreeMap::new();
    let (mut next, mut last_news) = (0, clock());
    let mut packet = [0; PACKET];

    while !unsent.is_empty() || !flight.is_empty() {
        // Send while window and pacer allow it.
        let mut wake = last_news + TIMEOUT;
        while let Some(part) = unsent.front().copied() {
            let now = clock();
            match cc.can_send(now) {
                SendDecision::Now { .. } => {}
                SendDecision::At(at) => {
                    wake = wake.min(at);
                    break;
                }
                SendDecision::CwndLimited => break,
            }
            packet[..8].copy_from_slice(&u64::to_be_bytes(next));
            packet[8..HEADER].copy_from_slice(&part.to_be_bytes());
            socket.send(&packet)?;
            if flight.is_empty() {
                last_news = now;
            }
            flight.insert(next, (cc.on_sent(now, PACKET as u32), part));
            unsent.pop_front();
            next += 1;
        }
        if unsent.is_empty() {
            cc.on_app_limited();
        }

        // Wait for an ACK or the pacer, then report all ACKs that are there in one batch.
        let wait = Wait::from_nanos(wake.since(clock()).as_nanos());
        let first = match inbox.recv_timeout(wait) {
            Ok(number) => Some(number),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        let now = clock();
        let mut ack = cc.ack(now);
        let mut newest = None;
        for number in first.into_iter().chain(inbox.try_iter()) {
            if let Some((state, _)) = flight.remove(&number) {
                ack.acked(&state);
                newest = newest.max(Some(number));
                last_news = now;
            }
        }
        let is_timeout = !flight.is_empty() && now >= last_news + TIMEOUT;
        let lost_below =
            if is_timeout { next } else { newest.map_or(0, |newest| newest.saturating_sub(2)) };
        let behind = flight.split_off(&lost_below);
        for (state, part) in std::mem::replace(&mut flight, behind).into_values() {
            ack.lost(&state);
            unsent.push_front(part);
        }
        if is_timeout {
            ack.timeout();
            last_news = now;
        }
        ack.finish();
    }
    let bytes = (parts as usize * (PACKET - HEADER)) as f64;
    Ok((cc, bytes / start.elapsed().as_secs_f64()))
}

/// The receiver: sends back the number of each packet.
fn echo(socket: &UdpSocket) {
    let mut packet = [0; PACKET];
    while socket.recv(&mut packet).is_ok_and(|size| size >= HEADER)
        && socket.send(&packet[..8]).is_ok()
    {}
}

fn main() {
    if let Err(error) = run() {
        eprintln!("udp_sender: {error}");
        process::exit(2);
    }
}

fn run() -> Result<(), Box<dyn error::Error>> {
    let mut args = env::args().skip(1);
    let bytes: usize = args.next().as_deref().unwrap_or("50000000").parse()?;
    let algorithm: Algorithm = args.next().as_deref().unwrap_or("bbr3").parse()?;
    let (cc, rate) = transfer(algorithm, bytes.div_ceil(PACKET - HEADER) as u64)?;
    let snapshot = cc.snapshot();
    println!(
        "{algorithm}: {:.0} Mbit/s, smoothed RTT {}, {} of {} bytes lost",
        rate * 8e-6,
        snapshot.srtt.unwrap_or_default(),
        snapshot.lost,
        snapshot.delivered + snapshot.lost,
    );
    Ok(())
}
