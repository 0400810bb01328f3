//! A sender over quinn: the server answers each stream with data without an end, the client reads
//! it.

use std::net::SocketAddr;
use std::sync::Arc;

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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server", address, algorithm] => server(address.parse()?, algorithm).await,
        ["client", address] => client(address.parse()?, u64::MAX).await,
        ["client", address, bytes] => client(address.parse()?, bytes.parse()?).await,
        _ => Err("write: server ADDRESS ALGORITHM, or client ADDRESS [BYTES]".into()),
    }
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.receive_window(VarInt::from_u32(WINDOW));
    transport.send_window(u64::from(WINDOW));
    transport
}

async fn server(address: SocketAddr, algorithm: &str) -> Result<()> {
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
        tokio::spawn(async move {
            let (mut stream, _) = incoming.await?.accept_bi().await?;
            let data = vec![0; 64 << 10];
            loop {
                stream.write_all(&data).await?;
            }
            #[allow(unreachable_code)]
            Result::Ok(())
        });
    }
    Ok(())
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
    let mut data = vec![0; 256 << 10];
    let mut got = 0;
    while got < bytes
        && let Some(more) = receive.read(&mut data).await?
    {
        got += more as u64;
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
