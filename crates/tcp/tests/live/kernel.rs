//! The driver against the kernel's TCP, in a namespace of the test's own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener as KernelListener, TcpStream as KernelStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Device, TcpListener, TcpStream};
use fullpipe_testkit::{Ended, until};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, sendto, socket};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tun_rs::SyncDevice;

use crate::namespace::{in_namespace, in_namespace_with, kernel, ours, start};

/// A device that loses, doubles, damages and delays packets in both directions, each with this
/// probability.
struct Bad {
    device: SyncDevice,
    probability: f64,
    state: Mutex<(u64, Option<Vec<u8>>)>,
}

impl Bad {
    fn happens(&self) -> bool {
        let mut state = self.state.lock().expect("no panic");
        state.0 = state.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state.0 >> 33) as f64) < self.probability * (1_u64 << 31) as f64
    }
}

impl AsFd for Bad {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Device for Bad {
    fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.device.recv(to)?;
            if self.happens() {
                continue;
            }
            if self.happens() {
                to[count / 2] ^= 4;
            }
            return Ok(count);
        }
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        if self.happens() {
            return Ok(packet.len());
        }
        if self.happens() {
            let mut damaged = packet.to_vec();
            damaged[packet.len() / 2] ^= 4;
            return self.device.send(&damaged);
        }
        if self.happens() {
            // It leaves behind the next one.
            self.state.lock().expect("no panic").1 = Some(packet.to_vec());
            return Ok(packet.len());
        }
        let sent = self.device.send(packet)?;
        if self.happens() {
            let _ = self.device.send(packet);
        }
        if let Some(late) = self.state.lock().expect("no panic").1.take() {
            let _ = self.device.send(&late);
        }
        Ok(sent)
    }
}

fn bad(device: SyncDevice, probability: f64) -> Bad {
    Bad { device, probability, state: Mutex::new((1, None)) }
}

/// The bytes that a transfer carries: no two of its parts are alike.
fn fill(to: &mut [u8], offset: u64) {
    for (i, chunk) in to.chunks_mut(8).enumerate() {
        let word = (offset + 8 * i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ offset;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

type Hash = [u8; 32];

fn write_all(to: &mut impl Write, bytes: u64) -> Hash {
    let (mut hash, mut chunk, mut sent) = (Sha256::new(), vec![0; 65_536], 0);
    while sent < bytes {
        let count = chunk.len().min((bytes - sent) as usize);
        fill(&mut chunk[..count], sent);
        hash.update(&chunk[..count]);
        to.write_all(&chunk[..count]).expect("it goes on");
        sent += count as u64;
    }
    hash.finalize().into()
}

fn read_all(from: &mut impl Read) -> (u64, Hash) {
    let (mut hash, mut chunk, mut got) = (Sha256::new(), vec![0; 65_536], 0);
    loop {
        match from.read(&mut chunk).expect("it goes on") {
            0 => return (got, hash.finalize().into()),
            count => {
                hash.update(&chunk[..count]);
                got += count as u64;
            }
        }
    }
}

async fn send_all(to: &mut TcpStream, bytes: u64) -> Hash {
    let (mut hash, mut chunk, mut sent) = (Sha256::new(), vec![0; 65_536], 0);
    while sent < bytes {
        let count = chunk.len().min((bytes - sent) as usize);
        fill(&mut chunk[..count], sent);
        hash.update(&chunk[..count]);
        to.write_all(&chunk[..count]).await.expect("it goes on");
        sent += count as u64;
    }
    to.shutdown().await.expect("it goes on");
    hash.finalize().into()
}

async fn receive_all(from: &mut TcpStream) -> (u64, Hash) {
    let (mut hash, mut chunk, mut got) = (Sha256::new(), vec![0; 65_536], 0);
    loop {
        match from.read(&mut chunk).await.expect("it goes on") {
            0 => return (got, hash.finalize().into()),
            count => {
                hash.update(&chunk[..count]);
                got += count as u64;
            }
        }
    }
}

/// This end connects to the kernel; so many bytes go each way, one after the other.
fn both_ways(device: impl Device, bytes: u64) {
    let listener = KernelListener::bind(kernel(80)).expect("a listener");
    let (runtime, stack) = start(device);
    let begun = Instant::now();
    let task = runtime.spawn({
        let stack = stack.clone();
        async move {
            let config = Config::default();
            let stream = TcpStream::connect(&stack, ours(0), kernel(80), &config).await;
            let mut stream = stream.expect("a connection");
            let sent = send_all(&mut stream, bytes).await;
            let up = begun.elapsed();
            let got = receive_all(&mut stream).await;
            (sent, got, up, stream.info())
        }
    });
    let (mut peer, from) = listener.accept().expect("a connection");
    assert_eq!(from.ip(), ours(0).ip());
    let up = read_all(&mut peer);
    let down = write_all(&mut peer, bytes);
    drop(peer);
    let (sent, got, time, info) = runtime.block_on(task).expect("no panic");
    assert_eq!((up, got), ((bytes, sent), (bytes, down)));
    assert!(stack.memory() < 40_000_000, "{} bytes", stack.memory());
    let mbit = |time: Duration| bytes as f64 * 8e-6 / time.as_secs_f64();
    println!(
        "{bytes} bytes: up {:.0} Mbit/s, down {:.0} Mbit/s; {info:?}",
        mbit(time),
        mbit(begun.elapsed() - time)
    );
}

fn a_good_device_carries_a_transfer_each_way() {
    in_namespace(|device| both_ways(device, 300_000_000));
}

/// Its packets stand for up to 64 KiB.
fn a_device_with_offloads_carries_a_transfer_each_way() {
    in_namespace_with(true, |device| both_ways(device, 100_000_000));
}

/// One per cent each is lost, damaged, doubled and reordered, in both directions.
fn a_bad_device_carries_it_too() {
    in_namespace(|device| both_ways(bad(device, 0.01), 50_000_000));
}

/// The kernel connects: ten thousand connections in sequence, then five hundred at once.
fn the_kernel_connects() {
    in_namespace(|device| {
        let (runtime, stack) = start(device);
        let listener = runtime
            .block_on(async { TcpListener::bind(&stack, ours(7), 600, &Config::default()) })
            .expect("a listener");
        // An echo.
        runtime.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut chunk = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
                        stream.write_all(&chunk[..count]).await.expect("it goes on");
                    }
                    stream.shutdown().await
                });
            }
        });
        let echo = |i: u32| {
            let mut stream = KernelStream::connect(ours(7)).expect("a connection");
            stream.write_all(&i.to_be_bytes()).expect("it goes on");
            stream.shutdown(std::net::Shutdown::Write).expect("it goes on");
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("it goes on");
            assert_eq!(got, i.to_be_bytes());
        };
        (0..10_000).for_each(echo);
        let mut streams: Vec<KernelStream> =
            (0..500).map(|_| KernelStream::connect(ours(7)).expect("a connection")).collect();
        for (i, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&[i as u8; 1000]).expect("it goes on");
        }
        for (i, stream) in streams.iter_mut().enumerate() {
            let mut got = [0; 1000];
            stream.read_exact(&mut got).expect("it goes on");
            assert!(got.iter().all(|&b| b == i as u8));
        }
        drop(streams);
        // The kernel closed first and is in TIME-WAIT.
        until("this end keeps nothing", || stack.connections() == 0);
    });
}

/// Peers that ask and never read hold a send buffer each, and others are served.
fn a_peer_that_never_reads() {
    in_namespace(|device| {
        let (runtime, stack) = start(device);
        let config = Config { send_buffer: 100_000, ..Config::default() };
        let listener = runtime
            .block_on(async { TcpListener::bind(&stack, ours(7), 64, &config) })
            .expect("a listener");
        let mut page = Vec::new();
        let hash = write_all(&mut page, 20_000_000);
        let page = Arc::new(page);
        runtime.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let page = Arc::clone(&page);
                tokio::spawn(async move {
                    // Those who never read reset it in the end.
                    stream.write_all(&page).await?;
                    stream.shutdown().await
                });
            }
        });
        let idle: Vec<KernelStream> =
            (0..20).map(|_| KernelStream::connect(ours(7)).expect("a connection")).collect();
        let mut stream = KernelStream::connect(ours(7)).expect("a connection");
        assert_eq!(read_all(&mut stream), (20_000_000, hash));
        assert!(stack.memory() < 21 * 400_000, "{} bytes", stack.memory());
        drop(idle);
    });
}

/// A port that nobody listens at is refused, in both directions.
fn nobody_listens() {
    in_namespace(|device| {
        let (runtime, stack) = start(device);
        let refused = io::ErrorKind::ConnectionRefused;
        assert_eq!(KernelStream::connect(ours(9)).expect_err("nobody").kind(), refused);
        let config = Config::default();
        let connect = TcpStream::connect(&stack, ours(0), kernel(9), &config);
        assert_eq!(runtime.block_on(connect).expect_err("nobody").kind(), refused);
    });
}

/// curl fetches a page from this end, unchanged.
fn curl_fetches_a_page() {
    in_namespace(|device| {
        let (runtime, stack) = start(device);
        let listener = runtime
            .block_on(async { TcpListener::bind(&stack, ours(80), 8, &Config::default()) })
            .expect("a listener");
        runtime.spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 1000];
            let count = stream.read(&mut request).await.expect("a request");
            assert!(request[..count].starts_with(b"GET /page "));
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5000000\r\n\r\n";
            stream.write_all(head.as_bytes()).await.expect("it goes on");
            send_all(&mut stream, 5_000_000).await;
            // Until the peer has closed, too: what it sends still has a reader.
            while let Ok(1..) = stream.read(&mut request).await {}
        });
        let url = format!("http://{}/page", ours(80));
        let mut curl = Command::new("curl");
        curl.args(["-s", "-S", "--max-time", "60", &url]);
        let ended = Ended::of(curl);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let mut expected = Vec::new();
        let hash = write_all(&mut expected, 5_000_000);
        let got: Hash = Sha256::digest(&ended.stdout).into();
        assert_eq!((ended.stdout.len(), got), (expected.len(), hash));
    });
}

/// MSG_FASTOPEN of Linux's socket.h, which nix does not name.
const MSG_FASTOPEN: i32 = 0x2000_0000;

/// The kernel connects to `to`, and gives its SYN `data` if it has a cookie.
fn open_with(to: SocketAddr, data: &[u8]) -> KernelStream {
    let SocketAddr::V4(to) = to else { panic!("an IPv4 address") };
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let socket = socket.expect("a socket");
    let flags = MsgFlags::from_bits_retain(MSG_FASTOPEN);
    let sent = sendto(socket.as_raw_fd(), data, &SockaddrIn::from(to), flags);
    assert_eq!(sent, Ok(data.len()));
    socket.into()
}

/// TCP Fast Open (RFC 7413) with Linux's at the other end: the first connection brings the cookie,
/// the second one its data with the SYN.
fn fast_open_each_way() {
    in_namespace(|device| {
        // Clients, and servers without a setting of their socket's.
        std::fs::write("/proc/sys/net/ipv4/tcp_fastopen", "1027").expect("the namespace's own");
        let (runtime, stack) = start(device);
        let config = Config { fast_open: true, ..Config::default() };

        let listener = KernelListener::bind(kernel(0)).expect("a port");
        let to = listener.local_addr().expect("its address");
        for is_taken in [false, true] {
            let connect = TcpStream::connect_with(&stack, ours(0), to, &config, b"question");
            let (stream, written) = runtime.block_on(connect).expect("it connects");
            let mut got = [0; 8];
            let (mut peer, _) = listener.accept().expect("a connection");
            peer.read_exact(&mut got).expect("it goes on");
            assert_eq!((written, &got), (8, b"question"));
            assert_eq!(stream.info().expect("it is there").syn_data, is_taken);
        }

        let listener = runtime.block_on(async { TcpListener::bind(&stack, ours(80), 4, &config) });
        let listener = listener.expect("nobody listens");
        for fast_opens in [0, 1] {
            let kernel = std::thread::spawn(|| open_with(ours(80), b"question"));
            let mut got = [0; 8];
            let stream = runtime.block_on(async {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                stream.read_exact(&mut got).await.expect("it goes on");
                stream.write_all(b"answer").await.expect("it goes on");
                stream
            });
            assert_eq!(&got, b"question");
            let mut answer = [0; 6];
            let mut kernel = kernel.join().expect("no panic");
            kernel.read_exact(&mut answer).expect("it goes on");
            assert_eq!(&answer, b"answer");
            assert_eq!(stack.counters().fast_opens, fast_opens);
            drop(stream);
        }
    });
}

fullpipe_testkit::tests! {
    [Root, Tun, Ip] nobody_listens, fast_open_each_way, a_bad_device_carries_it_too,
        a_device_with_offloads_carries_a_transfer_each_way;
    long [Root, Tun, Ip] a_good_device_carries_a_transfer_each_way, the_kernel_connects,
        a_peer_that_never_reads;
    long [Root, Tun, Ip, Curl] curl_fetches_a_page;
}
