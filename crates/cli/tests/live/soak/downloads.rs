//! Honest clients, over links that lose, reorder and double packets, and that give them other
//! ports.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fullpipe_cc::Rate;
use fullpipe_emu::{Emulator, EmulatorConfig, PathConfig, QueueLimit, Rebinding, Rebound};
use fullpipe_files::noq::Endpoint;
use fullpipe_files::{
    Alpn, Client, ClientError, ClientOptions, Connector, QuicVersions, TransportSettings, Verify,
};
use fullpipe_path::{ElementConfig, LossConfig, Probability, Selection};

use super::{Soak, count};

/// The files.
pub(crate) const SIZES: [usize; 12] =
    [0, 1, 32, 1199, 1200, 10_000, 65_521, 100_000, 300_000, 1_000_000, 3_000_000, 20_000_000];
/// Those that honest clients ask for; the last is for those that read nothing.
const ASKED: usize = SIZES.len() - 1;
/// Time for which a link is the one for new connections.
const LINK: Duration = Duration::from_secs(20);
/// Sockets of the clients of a link; several connections share each.
const SOCKETS: usize = 50;

/// A link and the sockets of its clients.
struct Way {
    link: Emulator,
    endpoints: Vec<Endpoint>,
}

/// The state that the clients share.
struct Shared {
    soak: Arc<Soak>,
    files: Vec<Vec<u8>>,
    connectors: Vec<Connector>,
    way: Mutex<Arc<Way>>,
}

pub(crate) struct Downloads {
    runtime: tokio::runtime::Runtime,
    clients: Vec<tokio::task::JoinHandle<()>>,
    links: JoinHandle<()>,
}

fn share(percent: f64) -> Probability {
    Probability::new(percent / 100.0).expect("a probability")
}

/// 20 ms of round trip, 100 Mbit/s towards the clients, and all that goes wrong on a path.
fn link(server: SocketAddr) -> Emulator {
    let wrong = |seed, rate: Option<u64>| {
        let mut row = vec![
            ElementConfig::Loss(LossConfig::from(share(1.0))),
            ElementConfig::Duplication(share(1.0)),
            ElementConfig::Reordering {
                packets: Selection::Random(share(1.0)),
                delay: fullpipe_cc::Duration::from_millis(3),
            },
        ];
        if let Some(rate) = rate {
            let rate = Rate::from_bits_per_sec(rate);
            let queue = QueueLimit::Bytes(500_000);
            row.push(ElementConfig::Bottleneck { rate: rate.into(), queue: queue.into() });
        }
        row.push(ElementConfig::Delay(fullpipe_cc::Duration::from_millis(10)));
        PathConfig { row, seed }
    };
    let seconds = fullpipe_cc::Duration::from_secs;
    // Every client moves to another port, and to another address.
    let rebind = [(5, Rebound::Port), (10, Rebound::Address), (15, Rebound::Port)]
        .map(|(at, what)| Rebinding { at: seconds(at), what });
    let config = EmulatorConfig {
        uplink: wrong(1, None),
        downlink: wrong(2, Some(100_000_000)),
        rebind: rebind.to_vec(),
        // The machine is full of clients; the link's lateness is nobody's concern here.
        realtime: false,
        ..EmulatorConfig::new(server)
    };
    Emulator::start(config).expect("a link")
}

impl Shared {
    /// A link with sockets of its own. Needs the runtime around it.
    fn new_way(soak: &Soak, connector: &Connector) -> Arc<Way> {
        let endpoints = (0..SOCKETS).map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            connector.endpoint(socket).expect("an endpoint")
        });
        Arc::new(Way { link: link(soak.server), endpoints: endpoints.collect() })
    }

    fn way(&self) -> Arc<Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Downloads {
    pub(crate) fn start(soak: Arc<Soak>, dir: &Path, clients: usize) -> Self {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let files = SIZES[..ASKED]
            .iter()
            .map(|bytes| std::fs::read(dir.join(bytes.to_string())).expect("a file"));
        // All endpoints translate version 2, whatever the connection over them speaks.
        let connector = |alpn, versions| {
            // As `fullpipe get` has it: a client that only receives hears nothing at its new port
            // until it sends something.
            let transport = TransportSettings {
                keep_alive: Some(fullpipe_cc::Duration::from_secs(2)),
                initial_rtt: Some(fullpipe_cc::Duration::from_millis(100)),
                ..TransportSettings::default()
            };
            let options = ClientOptions { alpn, versions, transport, ..ClientOptions::default() };
            Connector::new(&Verify::Insecure, options).expect("TLS")
        };
        let connectors = vec![
            connector(Alpn::H3, QuicVersions::V1AndV2),
            connector(Alpn::HqInterop, QuicVersions::V1AndV2),
            connector(Alpn::H3, QuicVersions::V1),
            connector(Alpn::HqInterop, QuicVersions::V1),
        ];
        let _inside = runtime.enter();
        let way = Mutex::new(Shared::new_way(&soak, &connectors[0]));
        let shared = Arc::new(Shared { soak, files: files.collect(), connectors, way });
        let clients =
            (0..clients).map(|number| runtime.spawn(run(shared.clone(), number as u64))).collect();
        let handle = runtime.handle().clone();
        let links = std::thread::spawn(move || {
            let _inside = handle.enter();
            while shared.soak.goes_on() {
                shared.soak.pause(LINK);
                let way = Shared::new_way(&shared.soak, &shared.connectors[0]);
                *shared.way.lock().unwrap_or_else(PoisonError::into_inner) = way;
            }
        });
        Self { runtime, clients, links }
    }

    /// Waits until every client has what it asked for last.
    pub(crate) fn finish(self) {
        for client in self.clients {
            self.runtime.block_on(client).expect("a client has its files");
        }
        self.links.join().expect("the links end well");
    }
}

fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    (*state >> 33) as usize
}

/// A client that connects, asks for some files, and is gone, over and over.
async fn run(shared: Arc<Shared>, number: u64) {
    let mut state = number + 1;
    while shared.soak.goes_on() {
        let way = shared.way();
        let connector = &shared.connectors[next(&mut state) % shared.connectors.len()];
        let endpoint = &way.endpoints[next(&mut state) % SOCKETS];
        // A few connections over one link; then perhaps the next one.
        let client = connector.connect_over(endpoint, way.link.addr(), "localhost").await;
        let Ok(client) = client else {
            count(&shared.soak.unconfirmed);
            continue;
        };
        for _ in 0..1 + next(&mut state) % 5 {
            // The larger, the rarer.
            let file = (next(&mut state) % ASKED).min(next(&mut state) % ASKED);
            if let Err(error) = download(&shared, &client, file).await {
                println!("a client's {} bytes: {error}", SIZES[file]);
                let stats = client.connection().stats();
                // An address must not change before the handshake is confirmed (RFC 9000 section
                // 9): that connection is lost.
                let was_confirmed = stats.frame_rx.handshake_done > 0;
                let counter =
                    if was_confirmed { &shared.soak.again } else { &shared.soak.unconfirmed };
                count(counter);
                break;
            }
            if next(&mut state).is_multiple_of(4) {
                // Sleeps: a client's pause between its files.
                tokio::time::sleep(Duration::from_millis((next(&mut state) % 2000) as u64)).await;
            }
        }
        // Half of them say goodbye; the others only stop.
        if next(&mut state).is_multiple_of(2) {
            client.connection().close(0_u32.into(), b"");
        }
    }
}

async fn download(shared: &Shared, client: &Client, file: usize) -> Result<(), ClientError> {
    let right = &shared.files[file];
    let (mut response, mut at) = (client.get(&format!("/{}", SIZES[file])).await?, 0);
    let begin = Instant::now();
    while let Some(chunk) = response.chunk().await? {
        let same = right.get(at..at + chunk.len()).is_some_and(|part| part == &chunk[..]);
        assert!(same, "byte {at} of {} is another one", right.len());
        at += chunk.len();
    }
    assert_eq!(at, right.len(), "half a file, after {:?}", begin.elapsed());
    count(&shared.soak.files);
    shared.soak.bytes.fetch_add(at as u64, std::sync::atomic::Ordering::Relaxed);
    Ok(())
}
