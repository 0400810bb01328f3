//! A sender over quinn: the server answers each stream with data without an end, or with a file,
//! and the client reads it. THREADS is the number of threads that the runtime has.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PROTOCOL: &[u8] = b"peer";

/// Flow control is not to be what limits the sender.
const WINDOW: u32 = 64 << 20;

/// Bytes of one write, and of one read from the file.
const BLOCK: usize = 64 << 10;

/// Chunks that one look at the stream takes.
const CHUNKS: usize = 64;

fn main() -> Result<()> {
    let threads: usize = std::env::var("THREADS").map_or(Ok(1), |threads| threads.parse())?;
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build()?.block_on(run())
}

async fn run() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server", address, algorithm] => server(address.parse()?, algorithm, None).await,
        ["server", address, algorithm, file] => {
            server(address.parse()?, algorithm, Some(Arc::new(File::open(file)?))).await
        }
        ["client", address] => client(address.parse()?, u64::MAX).await,
        ["client", address, bytes] => client(address.parse()?, bytes.parse()?).await,
        _ => Err("write: server ADDRESS ALGORITHM [FILE], or client ADDRESS [BYTES]".into()),
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.send_window(u64::from(WINDOW));
    transport
}

async fn server(address: SocketAddr, algorithm: &str, file: Option<Arc<File>>) -> Result<()> {
    let own = rcgen::generate_simple_self_signed(vec!["peer".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let mut crypto = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.into()], key.into())?;
    crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
    let controller: Arc<dyn ControllerFactory + Send + Sync> = match algorithm {
        "cubic" => Arc::new(CubicConfig::default()),
        "reno" => Arc::new(NewRenoConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        other => return Err(format!("no algorithm {other}").into()),
    };
    let mut transport = transport();
    transport.congestion_controller_factory(controller);
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::server(config, address)?;
    while let Some(incoming) = endpoint.accept().await {
        let file = file.clone();
        tokio::spawn(async move {
            let connection = incoming.await?;
            let (mut stream, _) = connection.accept_bi().await?;
            match file {
                Some(file) => send_file(&mut stream, &file).await?,
                None => {
                    let data = Bytes::from(vec![0; BLOCK]);
                    loop {
                        stream.write_chunk(data.clone()).await?;
                    }
                }
            }
            stream.finish()?;
            // Until the client has all of it.
            stream.stopped().await?;
            Result::Ok(())
        });
    }
    Ok(())
}

/// Reads without a thread of its own: the file is in memory.
async fn send_file(stream: &mut quinn::SendStream, file: &File) -> Result<()> {
    let mut at = 0;
    loop {
        let mut data = vec![0; BLOCK];
        let read = file.read_at(&mut data, at)?;
        if read == 0 {
            return Ok(());
        }
        data.truncate(read);
        stream.write_chunk(data.into()).await?;
        at += read as u64;
    }
}

/// Reads to the end, or until it has so many bytes.
async fn client(address: SocketAddr, bytes: u64) -> Result<()> {
    let mut crypto = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    crypto.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport()));
    let endpoint = Endpoint::client(([0, 0, 0, 0], 0).into())?;
    let connection = endpoint.connect_with(config, address, "peer")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(b"?").await?;
    let mut got = 0;
    while got < bytes {
        let mut chunks = [const { Bytes::new() }; CHUNKS];
        let Some(count) = receive.read_chunks(&mut chunks).await? else { break };
        got += chunks[..count].iter().map(|chunk| chunk.len() as u64).sum::<u64>();
    }
    Ok(())
}

/// Takes any certificate: both ends are on one machine.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
