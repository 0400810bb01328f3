//! Does nothing. Without it Cargo takes no features from the build dependencies, which are there so
//! that the command's workspace and this one build the same crates.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
