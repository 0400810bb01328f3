//! The BBRs of noq and quinn, which take the same events as ours.
//!
//! Each is called as its own transport calls it, through the trait object that the transport keeps:
//! before a packet the window (and in noq the metrics, twice), then the packet; for an ACK each
//! packet, then its end. What the transports do beside that is in no figure: their pacers and their
//! smoothed RTT are private to them, where ours are part of the controller.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use rcgen::{CertificateParams, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::trace::{PACKET, RTT, Subject};

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 2);
/// Long enough for the acknowledgements after a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

fn identity() -> (CertificateDer<'static>, PrivatePkcs8KeyDer<'static>, Arc<RootCertStore>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    (certificate.into(), key.serialize_der().into(), Arc::new(roots))
}

/// The two stacks have one ancestor, and differ where the arguments say so.
macro_rules! stack {
    (
        $proto:ident,
        endpoint: |$server:ident| $endpoint:expr,
        handle: |$on:ident, $now:ident, $from:ident, $data:ident, $reply:ident| $handle:expr,
        one: $one:expr,
    ) => {
        use $proto::congestion::{Controller, ControllerFactory};
        use $proto::{
            ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
            RttEstimator, ServerConfig, TransportConfig,
        };

        use super::*;

        /// Keeps the newest round-trip estimate that it is shown.
        #[derive(Clone, Default)]
        struct Spy(Arc<Mutex<Option<RttEstimator>>>);

        impl ControllerFactory for Spy {
            fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
                Box::new(Self::clone(&self))
            }
        }

        struct PeerEnd {
            endpoint: Endpoint,
            connection: Option<(ConnectionHandle, Connection)>,
            remote: SocketAddr,
        }

        impl PeerEnd {
            fn take_in(&mut self, now: Instant, datagram: &[u8]) {
                let mut reply = Vec::new();
                let ($on, $now, $from, $data, $reply) =
                    (&mut self.endpoint, now, self.remote, datagram.into(), &mut reply);
                match $handle {
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        let accepted = self.endpoint.accept(incoming, now, &mut reply, None);
                        self.connection = accepted.ok();
                    }
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        let (_, connection) = self.connection.as_mut().expect("a connection");
                        connection.handle_event(event);
                    }
                    _ => {}
                }
            }

            fn send(&mut self, now: Instant) -> Vec<Vec<u8>> {
                let mut sent = Vec::new();
                let Some((handle, connection)) = &mut self.connection else { return sent };
                connection.handle_timeout(now);
                while let Some(event) = connection.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(*handle, event) {
                        connection.handle_event(event);
                    }
                }
                while let Some(event) = connection.poll() {
                    drop(event);
                }
                let mut datagram = Vec::new();
                while connection.poll_transmit(now, $one, &mut datagram).is_some() {
                    sent.push(core::mem::take(&mut datagram));
                }
                sent
            }
        }

        /// The round-trip estimate of a real connection over a path of [`RTT`]: nobody but the
        /// stack itself can make one.
        fn estimate(start: Instant) -> RttEstimator {
            let (certificate, key, roots) = identity();
            let spy = Spy::default();
            let mut transport = TransportConfig::default();
            transport.congestion_controller_factory(Arc::new(spy.clone()));
            let server = ServerConfig::with_single_cert(vec![certificate], key.into());
            let mut client = ClientConfig::with_root_certificates(roots).expect("a client");
            client.transport_config(Arc::new(transport));
            let new = |$server: Option<Arc<ServerConfig>>| $endpoint;
            let mut client_endpoint = new(None);
            let connection =
                client_endpoint.connect(start, client, SERVER, "localhost").expect("a connection");
            let mut client =
                PeerEnd { endpoint: client_endpoint, connection: Some(connection), remote: SERVER };
            let server = new(Some(Arc::new(server.expect("a server"))));
            let mut server = PeerEnd { endpoint: server, connection: None, remote: CLIENT };
            let half = Duration::from(RTT) / 2;
            let mut wire: Vec<(Instant, bool, Vec<u8>)> = Vec::new();
            let mut now = start;
            while now < start + HANDSHAKE_TIME {
                for (_, to_server, datagram) in wire.extract_if(.., |(at, ..)| *at <= now) {
                    let side = if to_server { &mut server } else { &mut client };
                    side.take_in(now, &datagram);
                }
                wire.extend(client.send(now).into_iter().map(|d| (now + half, true, d)));
                wire.extend(server.send(now).into_iter().map(|d| (now + half, false, d)));
                now += STEP;
            }
            let estimate = spy.0.lock().expect("no panic").expect("an ACK after the first");
            assert_eq!(estimate.min(), Duration::from(RTT), "the estimate of this path");
            estimate
        }

        /// A controller with the estimate that it is shown.
        pub struct Peer {
            controller: Box<dyn Controller>,
            rtt: RttEstimator,
            start: Instant,
        }

        impl Peer {
            fn of(factory: Arc<dyn ControllerFactory>) -> Self {
                let start = Instant::now();
                Self {
                    controller: factory.build(start, PACKET as u16),
                    rtt: estimate(start),
                    start,
                }
            }

            fn at(&self, now: fullpipe_cc::Instant) -> Instant {
                self.start + Duration::from_nanos(now.as_nanos())
            }
        }
    };
}

/// noq's controller as a subject.
pub mod noq {
    stack!(
        noq_proto,
        endpoint: |server| Endpoint::new(Arc::new(EndpointConfig::default()), server, false),
        handle: |endpoint, now, from, data, reply| {
            endpoint.handle(now, noq_proto::FourTuple::new(from, None), None, data, reply)
        },
        one: std::num::NonZeroUsize::MIN,
    );

    impl std::fmt::Debug for Spy {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Spy")
        }
    }

    impl Controller for Spy {
        fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: u64, _: bool, rtt: &RttEstimator) {
            *self.0.lock().expect("no panic") = Some(*rtt);
        }
        fn on_congestion_event(
            &mut self,
            _: Instant,
            _: Instant,
            _: bool,
            _: bool,
            _: u64,
            _: u64,
        ) {
        }
        fn on_mtu_update(&mut self, _: u16) {}
        fn window(&self) -> u64 {
            1 << 20
        }
        fn clone_box(&self) -> Box<dyn Controller> {
            Box::new(self.clone())
        }
        fn initial_window(&self) -> u64 {
            1 << 20
        }
        fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
            self
        }
    }

    impl Peer {
        /// noq's BBRv3.
        pub fn bbr3() -> Self {
            Self::of(Arc::new(noq_proto::congestion::Bbr3Config::default()))
        }
    }

    impl Subject for Peer {
        type Time = Instant;
        type Packet = ();

        fn time(&self, now: fullpipe_cc::Instant) -> Instant {
            self.at(now)
        }

        #[inline(always)]
        fn send(&mut self, now: Instant, number: u64) {
            black_box(self.controller.metrics());
            black_box(self.controller.window());
            black_box(self.controller.metrics());
            self.controller.on_packet_sent(now, PACKET as u16, number);
            self.controller.on_sent(now, PACKET.into(), number);
        }

        #[inline(always)]
        fn ack(&mut self, now: Instant, first: u64, packets: &[(Instant, ()); 2], inflight: u64) {
            let bytes = PACKET.into();
            self.controller.on_ack(now, packets[0].0, bytes, first, false, &self.rtt);
            self.controller.on_ack(now, packets[1].0, bytes, first + 1, false, &self.rtt);
            self.controller.on_end_acks(now, inflight, false, Some(first + 1));
        }

        fn lose(&mut self, now: Instant, number: u64, (sent, ()): (Instant, ())) {
            self.controller.on_packet_lost(PACKET as u16, number, now);
            self.controller.on_congestion_event(now, sent, false, false, PACKET.into(), number);
        }

        fn estimate(&self) -> Option<Rate> {
            self.controller.metrics().bandwidth_estimate.map(Rate::from_bits_per_sec)
        }
    }
}

/// quinn's controller as a subject.
pub mod quinn {
    stack!(
        quinn_proto,
        endpoint: |server| Endpoint::new(Arc::new(EndpointConfig::default()), server, false, None),
        handle: |endpoint, now, from, data, reply| {
            endpoint.handle(now, from, None, None, data, reply)
        },
        one: 1,
    );

    impl Controller for Spy {
        fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, rtt: &RttEstimator) {
            *self.0.lock().expect("no panic") = Some(*rtt);
        }
        fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}
        fn on_mtu_update(&mut self, _: u16) {}
        fn window(&self) -> u64 {
            1 << 20
        }
        fn clone_box(&self) -> Box<dyn Controller> {
            Box::new(self.clone())
        }
        fn initial_window(&self) -> u64 {
            1 << 20
        }
        fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
            self
        }
    }

    impl Peer {
        /// quinn's BBR, which is version 1.
        pub fn bbr() -> Self {
            Self::of(Arc::new(quinn_proto::congestion::BbrConfig::default()))
        }
    }

    impl Subject for Peer {
        type Time = Instant;
        type Packet = ();

        fn time(&self, now: fullpipe_cc::Instant) -> Instant {
            self.at(now)
        }

        #[inline(always)]
        fn send(&mut self, now: Instant, number: u64) {
            black_box(self.controller.window());
            black_box(self.controller.window());
            self.controller.on_sent(now, PACKET.into(), number);
        }

        #[inline(always)]
        fn ack(&mut self, now: Instant, first: u64, packets: &[(Instant, ()); 2], inflight: u64) {
            let bytes = PACKET.into();
            self.controller.on_ack(now, packets[0].0, bytes, false, &self.rtt);
            self.controller.on_ack(now, packets[1].0, bytes, false, &self.rtt);
            self.controller.on_end_acks(now, inflight, false, Some(first + 1));
        }

        fn lose(&mut self, now: Instant, _: u64, (sent, ()): (Instant, ())) {
            self.controller.on_congestion_event(now, sent, false, PACKET.into());
        }

        // The pacing rate, in which its estimate shows.
        fn estimate(&self) -> Option<Rate> {
            self.controller.metrics().pacing_rate.map(Rate::from_bits_per_sec)
        }
    }
}
