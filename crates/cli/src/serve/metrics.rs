//! The server's counters in Prometheus' text format, over HTTP on a port of its own.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fullpipe_files::{ClientPlaces, Server, ServerStats};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};

use crate::failure::Failure;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Scrapers at one time, a quarter of them from one address; further ones are closed, because those
/// that wait would keep others waiting.
const CONNECTIONS: usize = 32;
/// Longest time for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for a whole connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after the system gave no connection, for want of descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// A listener for scrapers, as long as the runtime runs.
pub(super) struct Metrics {
    address: SocketAddr,
}

impl Metrics {
    /// Listens on `address`; port 0 takes a free one.
    pub(super) async fn start(address: SocketAddr, server: Arc<Server>) -> Result<Self, Failure> {
        let cannot =
            |error| Failure::bad_input(format!("cannot give metrics on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let mut registry = Registry::with_prefix("fullpipe");
        registry.register_collector(Box::new(Counters(server)));
        tokio::spawn(accept(listener, Arc::new(registry)));
        Ok(Self { address })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

async fn accept(listener: TcpListener, registry: Arc<Registry>) {
    let places = ClientPlaces::new(CONNECTIONS);
    loop {
        let (stream, scraper) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "no connection for metrics");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.take(scraper.ip()) else { continue };
        let registry = registry.clone();
        tokio::spawn(async move {
            let _place = place;
            let served = tokio::time::timeout(CONNECTION_TIMEOUT, converse(stream, &registry));
            if let Ok(Err(error)) = served.await {
                tracing::debug!(%error, "a scraper's connection");
            }
        });
    }
}

async fn converse(stream: TcpStream, registry: &Registry) -> hyper::Result<()> {
    let service = service_fn(async |request| Ok::<_, Infallible>(answer(&request, registry)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut body = String::new();
            match text::encode(&mut body, registry) {
                Ok(()) => (StatusCode::OK, CONTENT_TYPE, body),
                Err(error) => {
                    (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error}\n"))
                }
            }
        }
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET it\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "it is at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// Reads the server's counters at each scrape.
struct Counters(Arc<Server>);

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counters")
    }
}

impl Collector for Counters {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        for (name, help, value) in gauges(&stats) {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, value) in counters(&stats) {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

type Row = (&'static str, &'static str, u64);

fn gauges(stats: &ServerStats) -> [Row; 5] {
    [
        ("connections", "Open connections, handshakes included", stats.connections),
        (
            "unvalidated_handshakes",
            "Handshakes with clients whose address is not validated",
            stats.unvalidated_handshakes,
        ),
        ("answers", "Requests that are being answered", stats.answers),
        ("open_files", "Files that are open", stats.open_files),
        ("tasks", "Tasks of the server, those for the metrics included", stats.tasks),
    ]
}

fn counters(stats: &ServerStats) -> [Row; 14] {
    [
        ("connections_admitted", "Connections that were admitted", stats.admitted),
        ("connections_refused", "Connections beyond the limit", stats.refused),
        ("retries", "First packets answered with a Retry", stats.retries),
        ("handshakes_failed", "Handshakes that failed", stats.failed_handshakes),
        ("violations", "Connections closed because of the client", stats.violations),
        (
            "http3_violations",
            "Connections closed because the client broke a rule of HTTP/3",
            stats.http3_violations,
        ),
        ("requests_complete", "Answers acknowledged to their end", stats.complete_requests),
        ("requests_refused", "Requests that got no body", stats.refused_requests),
        ("requests_broken", "Answers that broke off", stats.broken_requests),
        ("body_bytes", "Bytes of bodies written to streams", stats.body_bytes),
        ("packets_sent", "Packets sent on connections that have ended", stats.sent_packets),
        ("packets_lost", "Packets lost on connections that have ended", stats.lost_packets),
        ("udp_sent_bytes", "UDP payload sent on connections that have ended", stats.sent_bytes),
        (
            "udp_received_bytes",
            "UDP payload received on connections that have ended",
            stats.received_bytes,
        ),
    ]
}
