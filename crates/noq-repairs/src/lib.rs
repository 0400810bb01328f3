#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod aging;
mod amplification;
mod filter;
mod layer;
mod preferred;
mod version;
pub mod wire;

pub use amplification::{Guard, Peer};
pub use layer::{Layer, Layered, PacketKeys};
pub use preferred::client::Move;
pub use preferred::server::all_in_one;
pub use preferred::{NoPreferredAddress, PreferredAddress};
pub use version::{
    ClientCrypto, Handshake, Moved, Notes, QuicVersions, ServerCrypto, UnknownVersions,
    client_socket, retry_tag,
};
