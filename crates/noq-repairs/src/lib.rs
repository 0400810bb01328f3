#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod amplification;
mod expiring_map;
mod filter;
mod l4s;
mod layer;
mod preferred;
mod sockets;
mod version;
pub mod wire;

pub use amplification::{AmplificationLimit, Peer};
pub use l4s::l4s_client;
pub use layer::on_handshake;
pub use preferred::client::PreferredAddressMigration;
pub use preferred::server::client_address;
pub use preferred::{NoPreferredAddress, PreferredAddress};
pub use sockets::{client_socket, server_socket};
pub use version::{
    ClientCrypto, Handshake, NegotiationTable, QuicVersions, ServerCrypto, UnknownVersions,
    UpgradedServers, retry_tag,
};
