//! The clients of a link, as its target sees them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The client behind each address from which the link sends to its target. An address is known
/// before the first packet leaves from it, and stays known after the client has got another.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    by_address: Arc<Mutex<HashMap<SocketAddr, SocketAddr>>>,
}

impl Clients {
    /// The client that the target sees under this address; `None` for an address that is not the
    /// link's.
    pub fn behind(&self, address: SocketAddr) -> Option<SocketAddr> {
        self.by_address().get(&address).copied()
    }

    pub(crate) fn add(&self, client: SocketAddr, address: SocketAddr) {
        self.by_address().insert(address, client);
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<SocketAddr, SocketAddr>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
