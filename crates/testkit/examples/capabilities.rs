//! Prints the capabilities of this machine for which tests ask: `cargo run --release -p
//! fullpipe-testkit --example capabilities`.

fn main() {
    for need in fullpipe_testkit::Need::ALL {
        match need.probe() {
            Ok(()) => println!("{need}: yes"),
            Err(why) => println!("{need}: {why}"),
        }
    }
}
