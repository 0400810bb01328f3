//! TCP without an operating system: two endpoints on one Cortex-M4, a poll loop, and a link in
//! memory that loses one packet of a hundred. Each end sends a megabyte under bbr3 and compares the
//! SHA-256 of what arrived.
//!
//! `cargo run --release` in this folder runs it under QEMU (`qemu-system-arm`), which prints what
//! it prints and ends with its exit code. On a board the device's receive and send functions take
//! the place of [`Link`].
#![no_std]
#![no_main]

extern crate alloc;

mod clock;
mod link;
mod memory;
mod side;

use alloc::vec::Vec;
use core::panic::PanicInfo;

use cortex_m::asm;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use fullpipe_cc::{Algorithm, Duration, Instant};
use fullpipe_tcp::{Config, Endpoint, Error};

use clock::Clock;
use link::Link;
use side::Side;

/// Bytes that each end sends.
const BYTES: usize = 1_000_000;
/// The transfer has failed if it takes longer.
const LIMIT: Duration = Duration::from_secs(60);

/// Buffers of a board: a few packets beyond what the link holds.
fn config() -> Config {
    Config {
        algorithm: Algorithm::BBR3,
        send_buffer: 32 << 10,
        receive_buffer: 32 << 10,
        ..Config::default()
    }
}

#[entry]
fn main() -> ! {
    memory::start_heap();
    let done = match cortex_m::Peripherals::take() {
        Some(peripherals) => exchange(&mut Clock::start(peripherals.SYST)),
        None => Err("the peripherals are taken"),
    };
    match done {
        Ok(()) => debug::exit(debug::EXIT_SUCCESS),
        Err(error) => {
            hprintln!("failed: {}", error);
            debug::exit(debug::EXIT_FAILURE);
        }
    }
    loop {
        asm::wfi();
    }
}

/// The poll loop. Where strangers are, the keys have to be random and secret.
fn exchange(clock: &mut Clock) -> Result<(), &'static str> {
    let (client, server) = (([10, 0, 0, 1], 0).into(), ([10, 0, 0, 2], 80).into());
    let mut ends = [Endpoint::new([1; 16], 2), Endpoint::new([2; 16], 2)];
    let listener = ends[1].listen(server, 1, &config()).map_err(name)?;
    let handle = ends[0].connect(clock.now(), client, server, &config()).map_err(name)?;
    let mut sides = [Side::new(Some(handle)), Side::new(None)];
    let mut links = [Link::default(), Link::default()];
    let mut packet = Vec::new();
    let mut idle = Duration::ZERO;
    let mut connections = 0;
    loop {
        let now = clock.now();
        for (i, end) in ends.iter_mut().enumerate() {
            while let Some(packet) = links[1 - i].receive(now) {
                end.receive(now, &packet);
            }
            end.on_timer(now);
            if i == 1 && sides[1].handle.is_none() {
                sides[1].handle = end.accept(listener);
            }
            sides[i].act(now, end).map_err(name)?;
            while end.transmit(now, &mut packet) {
                links[i].send(now, &packet);
            }
        }
        connections = connections.max(ends[0].memory() + ends[1].memory());
        if sides.iter().all(Side::is_done) {
            break;
        }
        if now > Instant::default() + LIMIT {
            return Err("it takes too long");
        }
        // A board sleeps until a packet or the clock interrupts it.
        let times =
            ends.iter().filter_map(Endpoint::poll_at).chain(links.iter().filter_map(Link::next));
        if times.min().is_none_or(|at| at > clock.now()) {
            let before = clock.now();
            asm::wfi();
            idle = idle + clock.now().since(before);
        }
    }
    let took = clock.now().since(Instant::default());
    let milliseconds = |time: Duration| time.as_nanos() / 1_000_000;
    hprintln!(
        "{} bytes each way in {} ms, {} ms of them idle",
        BYTES,
        milliseconds(took),
        milliseconds(idle)
    );
    hprintln!(
        "{} packets of {} lost",
        links[0].lost + links[1].lost,
        links[0].sent + links[1].sent
    );
    hprintln!(
        "at most {} bytes of heap, {} of them the connections', and {} bytes of stack",
        memory::heap_peak(),
        connections,
        memory::stack_peak()
    );
    if sides[0].agrees_with(&sides[1]) && sides[1].agrees_with(&sides[0]) {
        hprintln!("the hashes are equal");
        Ok(())
    } else {
        Err("the hashes differ")
    }
}

fn name(error: Error) -> &'static str {
    match error {
        Error::TimedOut => "the connection timed out",
        Error::Reset => "the connection was reset",
        _ => "the endpoint refused",
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        asm::wfi();
    }
}
