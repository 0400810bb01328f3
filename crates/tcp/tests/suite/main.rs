//! Tests that need no clock, no port and no rights: everything in virtual time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../ethernet/mod.rs"]
mod ethernet;
#[path = "../flood/mod.rs"]
mod flood;
#[path = "../input/mod.rs"]
mod input;
#[path = "../soup/mod.rs"]
mod soup;
#[path = "../two_ends/mod.rs"]
mod two_ends;

mod adversary;
mod clock;
mod fuzz;
mod interface;
mod losses;
mod networks;
mod offload;
mod pair;
mod path_mtu;
mod paths;
mod segments;
mod smoltcp;
mod strangers;
