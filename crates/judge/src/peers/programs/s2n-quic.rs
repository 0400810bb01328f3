//! A sender over s2n-quic: the server answers each stream with data without an end, the client
//! reads it.

use std::net::SocketAddr;
use std::path::Path;

use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Flow control is not to be what limits the sender.
const WINDOW: u64 = 64 << 20;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server", address, algorithm, certificate, key] => {
            server(address.parse()?, algorithm, Path::new(certificate), Path::new(key)).await
        }
        ["client", address, certificate] => {
            client(address.parse()?, Path::new(certificate), u64::MAX).await
        }
        ["client", address, certificate, bytes] => {
            client(address.parse()?, Path::new(certificate), bytes.parse()?).await
        }
        _ => Err("write: server ADDRESS ALGORITHM CERTIFICATE KEY, or client ADDRESS CERTIFICATE [BYTES]".into()),
    }
}

fn limits() -> Result<Limits> {
    Ok(Limits::new()
        .with_data_window(WINDOW)?
        .with_bidirectional_local_data_window(WINDOW)?
        .with_bidirectional_remote_data_window(WINDOW)?
        .with_max_send_buffer_size(4 << 20)?)
}

async fn server(address: SocketAddr, algorithm: &str, certificate: &Path, key: &Path) -> Result<()> {
    let builder = Server::builder()
        .with_tls((certificate, key))?
        .with_io(address)?
        .with_limits(limits()?)?;
    let mut server = match algorithm {
        "cubic" => builder.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => builder.with_congestion_controller(Bbr::default())?.start()?,
        other => return Err(format!("no algorithm {other}").into()),
    };
    while let Some(mut connection) = server.accept().await {
        tokio::spawn(async move {
            while let Ok(Some(mut stream)) = connection.accept_bidirectional_stream().await {
                while stream.send(vec![0; 64 << 10].into()).await.is_ok() {}
            }
        });
    }
    Ok(())
}

/// Reads to the end, or until it has so many bytes.
async fn client(address: SocketAddr, certificate: &Path, bytes: u64) -> Result<()> {
    let client = Client::builder()
        .with_tls(certificate)?
        .with_io("0.0.0.0:0")?
        .with_limits(limits()?)?
        .start()?;
    let connect = Connect::new(address).with_server_name("localhost");
    let mut connection = client.connect(connect).await?;
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(vec![0].into()).await?;
    let mut got = 0;
    while got < bytes
        && let Some(more) = stream.receive().await?
    {
        got += more.len() as u64;
    }
    Ok(())
}
