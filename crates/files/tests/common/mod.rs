//! A server and a client in this process, on loopback.
#![allow(dead_code, unreachable_pub)]

use std::net::SocketAddr;
use std::path::Path;
use std::task::Poll;

use fullpipe_files::{
    Client, ClientError, ClientOptions, Content, Server, ServerOptions, ServerTls, Verify,
};
use sha2::{Digest, Sha256};

pub fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Polls what shall go on beside the test once, so that it has begun, and lets it go on.
pub async fn begun(work: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
    let mut work = Box::pin(work);
    let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    assert!(first.is_pending(), "it is over already");
    tokio::spawn(work)
}

/// A server for these names, and what a client needs to believe it.
pub fn start(content: Content, options: ServerOptions) -> (Server, Verify) {
    let tls = ServerTls::self_signed(&["localhost", "127.0.0.1", "::1"]).expect("a certificate");
    let verify = Verify::Certificates(tls.certificates().to_vec());
    let server = Server::bind(loopback(), &tls, content, options).expect("a server");
    (server, verify)
}

pub async fn start_and_connect(content: Content) -> (Server, Client) {
    let (server, verify) = start(content, ServerOptions::default());
    let client =
        Client::connect(server.local_addr(), "localhost", &verify, ClientOptions::default())
            .await
            .expect("a connection");
    (server, client)
}

/// The whole answer.
pub async fn fetch(client: &Client, path: &str) -> Result<Vec<u8>, ClientError> {
    let mut response = client.get(path).await?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        assert!(!chunk.is_empty(), "an empty chunk is no chunk");
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

pub fn sha256(data: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(data).into()
}

/// Writes `bytes` bytes that repeat nowhere within 4 GB.
pub fn write_file(path: &Path, bytes: usize) -> Vec<u8> {
    let words = (0u32..).flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_le_bytes());
    let data: Vec<u8> = words.take(bytes).collect();
    std::fs::write(path, &data).expect("a file");
    data
}

/// A variable-length integer of four bytes (RFC 9000 section 16).
pub fn length(bytes: usize) -> [u8; 4] {
    (bytes as u32 | 0x8000_0000).to_be_bytes()
}

pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind][..], &length(payload.len()), payload].concat()
}

/// A HEADERS frame of literal fields (RFC 9204 section 4.5.6).
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // The length has three bits, or these and a byte.
        match (name.len() as u8).checked_sub(7) {
            None => section.push(0x20 | name.len() as u8),
            Some(more) => section.extend_from_slice(&[0x27, more]),
        }
        section.extend_from_slice(name.as_bytes());
        section.push(value.len() as u8);
        section.extend_from_slice(value.as_bytes());
    }
    frame(1, &section)
}
