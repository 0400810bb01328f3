//! Congestion control by the name that a client calls the server by. noq makes the controller
//! before it reads the ClientHello, so this one becomes the chosen one then, before anything that
//! counts was sent.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use fullpipe_noq_repairs::{Handshake, on_handshake};
use noq::crypto::{self, Session};
use noq_proto::congestion::{Controller, ControllerFactory};

use super::configs::Factory;
use super::controller::{Around, Wrapped};

/// The controllers for a server name.
type Choice = Arc<dyn Fn(Option<&str>) -> Option<Factory> + Send + Sync>;

/// One connection's choice, between its TLS and its controllers.
#[derive(Clone)]
pub(super) struct ByName {
    choice: Choice,
    /// For a name without a choice, and until the name is known.
    usual: Factory,
    chosen: Arc<OnceLock<Option<Factory>>>,
}

impl ByName {
    pub(super) fn new(usual: Factory, choice: Choice) -> Self {
        Self { choice, usual, chosen: Arc::default() }
    }

    /// The server's TLS for this connection.
    pub(super) fn watch(
        &self,
        tls: Arc<dyn crypto::ServerConfig>,
    ) -> Arc<dyn crypto::ServerConfig> {
        let by_name = self.clone();
        on_handshake(tls, move |session| by_name.read(session))
    }

    fn read(&self, session: &dyn Session) {
        if self.chosen.get().is_some() {
            return;
        }
        let data = session.handshake_data().and_then(|data| data.downcast::<Handshake>().ok());
        if let Some(data) = data {
            self.chosen.get_or_init(|| (self.choice)(data.server_name.as_deref()));
        }
    }

    fn chosen(&self) -> Option<&Factory> {
        self.chosen.get()?.as_ref()
    }
}

impl ControllerFactory for ByName {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        match self.chosen() {
            Some(factory) => factory.clone().build(now, mtu),
            None => {
                let usual = self.usual.clone().build(now, mtu);
                let (by_name, chosen) = ((*self).clone(), OnceLock::new());
                Box::new(Wrapped(Late { by_name, now, mtu, usual, chosen }))
            }
        }
    }
}

/// The usual controller until there is a chosen one.
struct Late {
    by_name: ByName,
    now: Instant,
    mtu: u16,
    usual: Box<dyn Controller>,
    chosen: OnceLock<Box<dyn Controller>>,
}

impl Around for Late {
    fn inner(&self) -> &dyn Controller {
        match self.by_name.chosen() {
            Some(factory) => {
                &**self.chosen.get_or_init(|| factory.clone().build(self.now, self.mtu))
            }
            None => &*self.usual,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        self.inner();
        match self.chosen.get_mut() {
            Some(chosen) => &mut **chosen,
            None => &mut *self.usual,
        }
    }

    fn into_inner(mut self) -> Box<dyn Controller> {
        self.inner();
        self.chosen.take().unwrap_or(self.usual)
    }

    fn mtu(&mut self, bytes: u16) {
        self.mtu = bytes;
    }
}

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByName")
    }
}
