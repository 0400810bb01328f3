//! A sender over s2n-quic: the server answers each stream with data without an end, or with a file,
//! and the client reads it. THREADS is the number of threads that the runtime has.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Flow control is not to be what limits the sender.
const WINDOW: u64 = 64 << 20;

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
        ["server", address, algorithm, certificate, key] => {
            server(address.parse()?, algorithm, (Path::new(certificate), Path::new(key)), None).await
        }
        ["server", address, algorithm, certificate, key, file] => {
            let file = Some(Arc::new(File::open(file)?));
            server(address.parse()?, algorithm, (Path::new(certificate), Path::new(key)), file).await
        }
        ["client", address, certificate] => {
            client(address.parse()?, Path::new(certificate), u64::MAX).await
        }
        ["client", address, certificate, bytes] => {
            client(address.parse()?, Path::new(certificate), bytes.parse()?).await
        }
        _ => Err("write: server ADDRESS ALGORITHM CERTIFICATE KEY [FILE], or client ADDRESS CERTIFICATE [BYTES]".into()),
    }
}

fn limits() -> Result<Limits> {
    Ok(Limits::new()
        .with_data_window(WINDOW)?
        .with_bidirectional_local_data_window(WINDOW)?
        .with_bidirectional_remote_data_window(WINDOW)?
        .with_max_send_buffer_size(4 << 20)?)
}

async fn server(
    address: SocketAddr,
    algorithm: &str,
    pair: (&Path, &Path),
    file: Option<Arc<File>>,
) -> Result<()> {
    let builder = Server::builder()
        .with_tls(pair)?
        .with_io(address)?
        .with_limits(limits()?)?;
    let mut server = match algorithm {
        "cubic" => builder.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => builder.with_congestion_controller(Bbr::default())?.start()?,
        other => return Err(format!("no algorithm {other}").into()),
    };
    while let Some(mut connection) = server.accept().await {
        let file = file.clone();
        tokio::spawn(async move {
            let data = Bytes::from(vec![0; BLOCK]);
            while let Ok(Some(mut stream)) = connection.accept_bidirectional_stream().await {
                match &file {
                    Some(file) => send_file(&mut stream, file).await?,
                    None => while stream.send(data.clone()).await.is_ok() {},
                }
            }
            Result::Ok(())
        });
    }
    Ok(())
}

/// Reads without a thread of its own: the file is in memory.
async fn send_file(stream: &mut s2n_quic::stream::BidirectionalStream, file: &File) -> Result<()> {
    let mut at = 0;
    loop {
        let mut data = vec![0; BLOCK];
        let read = file.read_at(&mut data, at)?;
        if read == 0 {
            break;
        }
        data.truncate(read);
        stream.send(data.into()).await?;
        at += read as u64;
    }
    // Until the client has all of it.
    Ok(stream.close().await?)
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
    while got < bytes {
        let mut chunks = [const { Bytes::new() }; CHUNKS];
        let (count, is_open) = stream.receive_vectored(&mut chunks).await?;
        got += chunks[..count].iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        if !is_open {
            break;
        }
    }
    Ok(())
}
