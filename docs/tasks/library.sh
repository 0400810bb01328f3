#!/bin/sh
# BBRv3 for a transport of your own: a new project with the crate of a checkout.
# Run it as sh CHECKOUT/docs/tasks/library.sh in an empty directory.
set -eu
checkout=$(cd "$(dirname "$0")/../.." && pwd)
cargo init --quiet --name sender
cat >>Cargo.toml <<TOML
fullpipe-cc = { path = "$checkout/crates/cc" }
TOML
cat >src/main.rs <<'RUST'
use fullpipe_cc::{Algorithm, Config, Controller, Duration, Instant, SendDecision};

/// A path of 20 Mbit/s and 40 ms: each packet is acknowledged 40 ms after it could leave.
fn main() {
    let (rtt, per_packet) = (Duration::from_millis(40), Duration::from_micros(480));
    let mut now = Instant::from_nanos(0);
    let mut cc = Controller::new(Algorithm::BBR3, Config::new(17), now);
    let (mut free, mut flying) = (now, std::collections::VecDeque::new());
    while now < Instant::from_nanos(3_000_000_000) {
        let wake = match cc.can_send(now) {
            SendDecision::Now { quantum } => {
                for _ in 0..(quantum / 1200).max(1) {
                    let packet = cc.on_sent(now, 1200);
                    free = free.max(now) + per_packet;
                    flying.push_back((free + rtt, packet));
                }
                continue;
            }
            SendDecision::At(time) => time,
            SendDecision::CwndLimited => Instant::from_nanos(u64::MAX),
        };
        let arrives = flying.front().map_or(wake, |(time, _)| *time);
        now = arrives.min(wake);
        if arrives <= now
            && let Some((_, packet)) = flying.pop_front()
        {
            let mut ack = cc.ack(now);
            ack.acked(&packet);
            ack.finish();
        }
    }
    let model = cc.snapshot().bbr.expect("BBR has a model");
    println!("{:.1} Mbit/s", model.max_bw.as_bits_per_sec() as f64 / 1e6);
}
RUST
cargo run --quiet
