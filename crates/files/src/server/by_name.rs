//! Congestion control by the name that a client calls the server by. noq makes the controller
//! before it reads the ClientHello, so this one becomes the chosen one then, before anything that
//! counts was sent.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fullpipe_noq_repairs::{Handshake, on_handshake};
use noq::crypto::{self, Session};
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

type Factory = Arc<dyn ControllerFactory + Send + Sync>;
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
                Box::new(Late {
                    by_name: (*self).clone(),
                    now,
                    mtu,
                    usual,
                    chosen: OnceLock::new(),
                })
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

impl Late {
    fn current(&self) -> &dyn Controller {
        match self.by_name.chosen() {
            Some(factory) => {
                &**self.chosen.get_or_init(|| factory.clone().build(self.now, self.mtu))
            }
            None => &*self.usual,
        }
    }

    fn current_mut(&mut self) -> &mut dyn Controller {
        self.current();
        match self.chosen.get_mut() {
            Some(chosen) => &mut **chosen,
            None => &mut *self.usual,
        }
    }
}

impl Controller for Late {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.current_mut().on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.current_mut().on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.current_mut().on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.current_mut().on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_acked: Option<u64>,
    ) {
        self.current_mut().on_end_acks(now, in_flight, app_limited, largest_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        let current = self.current_mut();
        current.on_congestion_event(now, sent, is_persistent, is_ecn, lost_bytes, largest_lost);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.current_mut().on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.current_mut().on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.current_mut().on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_ack_delay: Duration) {
        self.current_mut().on_ack_frequency_update(threshold, max_ack_delay);
    }

    fn window(&self) -> u64 {
        self.current().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.current().metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        self.current().clone_box()
    }

    fn initial_window(&self) -> u64 {
        self.current().initial_window()
    }

    fn into_any(mut self: Box<Self>) -> Box<dyn Any> {
        self.current();
        match self.chosen.take() {
            Some(chosen) => chosen.into_any(),
            None => self.usual.into_any(),
        }
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Late").field(&self.current()).finish()
    }
}

impl fmt::Debug for ByName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByName")
    }
}
