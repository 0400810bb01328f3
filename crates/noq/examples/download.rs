//! A server and a client on noq, on loopback, with one of our algorithms in the server:
//!
//! ```text
//! cargo run --release -p fullpipe-noq --example download -- bbr3 100000000
//! ```

use std::error::Error;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fmt};

use fullpipe_noq::{Algorithm, NoqController, Snapshot, Unsent};
use noq::rustls::RootCertStore;
use noq::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use noq::{ClientConfig, Endpoint, PathId, ServerConfig, TransportConfig, VarInt};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (algorithm, bytes) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error, 2),
    };
    match download(algorithm, bytes).await {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error, 1),
    }
}

fn refuse(error: &dyn fmt::Display, code: u8) -> ExitCode {
    eprintln!("download: {error}");
    ExitCode::from(code)
}

/// The algorithm, and the bytes to download.
fn parse(arguments: &[String]) -> Result<(Algorithm, u64), String> {
    let (algorithm, bytes) = match arguments {
        [] => ("bbr3", "100000000"),
        [algorithm] => (algorithm.as_str(), "100000000"),
        [algorithm, bytes] => (algorithm.as_str(), bytes.as_str()),
        _ => return Err("too many arguments; write: download [ALGORITHM [BYTES]]".to_owned()),
    };
    let algorithm = algorithm.parse::<Algorithm>().map_err(|error| error.to_string())?;
    let bytes = bytes.parse().map_err(|_| format!("{bytes:?} is no number of bytes"))?;
    Ok((algorithm, bytes))
}

struct Done {
    algorithm: Algorithm,
    bytes: u64,
    seconds: f64,
    /// The model of the sender at the end.
    snapshot: Snapshot,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, bytes, seconds, snapshot } = self;
        let goodput = *bytes as f64 * 8e-6 / seconds;
        writeln!(f, "{algorithm}: {bytes} bytes in {seconds:.3} s, {goodput:.1} Mbit/s")?;
        write!(f, "state {:?}, window {} bytes", snapshot.state, snapshot.cwnd)?;
        if let Some(bbr) = snapshot.bbr {
            write!(f, ", bandwidth {:.1} Mbit/s", bbr.max_bw.as_bits_per_sec() as f64 / 1e6)?;
        }
        Ok(())
    }
}

async fn download(algorithm: Algorithm, bytes: u64) -> Result<Done, Failure> {
    let (server, certificate) = server(algorithm)?;
    let address = server.local_addr()?;
    let sending = tokio::spawn(serve(server, bytes));

    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    let connection = client.connect(address, "localhost")?.await?;
    let mut stream = connection.accept_uni().await?;
    let (start, mut received) = (Instant::now(), 0);
    while let Some(chunk) = stream.read_chunk(usize::MAX).await? {
        received += chunk.len() as u64;
    }
    let seconds = start.elapsed().as_secs_f64();
    connection.close(VarInt::from_u32(0), b"done");
    client.wait_idle().await;
    let snapshot = sending.await??;
    Ok(Done { algorithm, bytes: received, seconds, snapshot })
}

/// A server with a certificate of its own. All but one line is as with noq's own algorithms.
fn server(algorithm: Algorithm) -> Result<(Endpoint, CertificateDer<'static>), Failure> {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = own.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(fullpipe_noq::Controllers::new(algorithm)));
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    config.transport_config(Arc::new(transport));
    Ok((Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?, certificate))
}

/// Sends `bytes` to one client; the model when the client has them.
async fn serve(server: Endpoint, bytes: u64) -> Result<Snapshot, Failure> {
    let connection = server.accept().await.ok_or("the endpoint was closed")?.await?;
    let mut stream = connection.open_uni().await?;
    let controller = || {
        let controller = connection.congestion_state(PathId::ZERO).ok_or("the path is closed")?;
        controller.into_any().downcast::<NoqController>().map_err(|_| "another controller")
    };
    let unsent = Unsent::default();
    controller()?.set_unsent(&unsent);
    let writer = unsent.writer();
    let (block, mut left) = (vec![7; 65_536], bytes);
    while left > 0 {
        let part = &block[..block.len().min(usize::try_from(left)?)];
        stream.write_all(part).await?;
        left -= part.len() as u64;
    }
    drop(writer);
    stream.finish()?;
    stream.stopped().await?;
    let snapshot = controller()?.snapshot();
    connection.closed().await;
    Ok(snapshot)
}
