//! The size of a controller and of a packet's state, with the algorithms that are on:
//!
//! ```text
//! cargo run --release -p fullpipe-cc --no-default-features --features reno --example size
//! ```

use fullpipe_cc::{Algorithm, Controller, PacketState};

fn main() {
    let controller = size_of::<Controller>();
    println!("{controller} bytes of controller with {}", Algorithm::NAMES.join(", "));
    println!("{} bytes of state with each packet", size_of::<PacketState>());
}
