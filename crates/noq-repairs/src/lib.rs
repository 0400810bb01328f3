#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod aging;
mod amplification;
mod filter;
mod layer;
mod preferred;
mod sockets;
mod version;
pub mod wire;

pub use amplification::{Guard, Peer};
pub use layer::on_handshake;
pub use preferred::client::Move;
pub use preferred::{NoPreferredAddress, PreferredAddress};
pub use sockets::{client_socket, server_socket};
pub use version::{
    ClientCrypto, Handshake, Moved, Notes, QuicVersions, ServerCrypto, UnknownVersions, retry_tag,
};
