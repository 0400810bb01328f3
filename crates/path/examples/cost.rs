//! Instructions that a packet costs on the plain row, loss, bottleneck and delay, at full load:
//!
//! ```text
//! cargo build --release -p fullpipe-path --example cost
//! for n in 100000 200000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/cost $n
//! done
//! ```
//!
//! The difference of the two figures after `Collected`, divided by 100000, is the cost of one
//! packet: its `send`, its `poll`, and the two `next_event` that a clock's holder asks for
//! meanwhile. It was 266 with Rust 1.95, this program's own lines included.

use std::error::Error;

use fullpipe_path::{Event, Link, Path, Probability, QueueLimit};
use fullpipe_units::{Duration, Instant, Rate};

/// As large as what a simulator keeps of a packet.
type Payload = [u64; 4];

fn main() -> Result<(), Box<dyn Error>> {
    let packets: u64 = std::env::args().nth(1).as_deref().unwrap_or("100000").parse()?;
    let rate = Rate::from_bits_per_sec(100_000_000);
    let link = Link {
        rate: Some(rate),
        delay: Duration::from_millis(20),
        queue: QueueLimit::Packets(340),
        loss: Probability::new(1e-4)?,
        seed: 1,
    };
    let mut path: Path<Payload> = Path::new(&link.into())?;
    let gap = rate.time_for(1_500);
    let (mut now, mut sum) = (Instant::from_nanos(1), 0);
    for i in 0..packets {
        now += gap;
        while let Some(at) = path.next_event().filter(|at| *at <= now) {
            if let Some(Event::Delivered(d)) = path.poll(at) {
                sum += d.payload[0];
            }
        }
        let _ = path.send(now, 1_500, [i; 4]);
    }
    println!("{sum} {:?}", path.stats().dropped());
    Ok(())
}
