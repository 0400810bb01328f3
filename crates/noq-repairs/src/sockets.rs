//! The filters of each end's socket, in their order.

use std::net::SocketAddr;

use noq::AsyncUdpSocket;

use crate::filter::chain;
use crate::preferred::server::all_in_one;
use crate::version::client_filter;
use crate::{AmplificationLimit, NegotiationTable, PreferredAddressMigration, QuicVersions};

/// A server's socket, with those of its preferred addresses. `guard` and `notes` are those of its
/// connections; without a guard noq's limits alone hold.
pub fn server_socket(
    own: Box<dyn AsyncUdpSocket>,
    preferred: Vec<(SocketAddr, Box<dyn AsyncUdpSocket>)>,
    guard: Option<&AmplificationLimit>,
    notes: &NegotiationTable,
    versions: QuicVersions,
) -> Box<dyn AsyncUdpSocket> {
    // The guard takes version 2 for version 1. What it counts has its length on the wire: only the
    // header of a Retry is changed below it.
    let filters = [guard.map(AmplificationLimit::filter), notes.filter(versions)];
    chain(all_in_one(own, preferred), filters.into_iter().flatten().collect())
}

/// A client's socket. `moving` is the move of its only connection.
pub fn client_socket(
    socket: Box<dyn AsyncUdpSocket>,
    versions: QuicVersions,
    moving: Option<&PreferredAddressMigration>,
) -> Box<dyn AsyncUdpSocket> {
    // A probe is made of a packet as noq makes it, and its header is short.
    let filters = [Some(client_filter(versions)), moving.map(PreferredAddressMigration::filter)];
    chain(socket, filters.into_iter().flatten().collect())
}
