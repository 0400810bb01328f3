//! A sender over quiche: the server answers one connection with data without an end, the client
//! reads it.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, Error, RecvInfo};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const PROTOCOL: &[u8] = b"peer";

/// Flow control is not to be what limits the sender.
const WINDOW: u64 = 64 << 20;

/// Sleep when there is nothing to wait for.
const LONGEST: Duration = Duration::from_millis(100);

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["server", address, algorithm, certificate, key] => {
            server(address.parse()?, algorithm, certificate, key)
        }
        ["client", address] => client(address.parse()?),
        _ => Err("write: server ADDRESS ALGORITHM CERTIFICATE KEY, or client ADDRESS".into()),
    }
}

fn config() -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[PROTOCOL])?;
    config.verify_peer(false);
    config.set_max_recv_udp_payload_size(1500);
    config.set_max_send_udp_payload_size(1452);
    config.set_initial_max_data(WINDOW);
    config.set_max_connection_window(WINDOW);
    config.set_max_stream_window(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_streams_bidi(1);
    config.enable_pacing(true);
    Ok(config)
}

fn server(address: SocketAddr, algorithm: &str, certificate: &str, key: &str) -> Result<()> {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(certificate)?;
    config.load_priv_key_from_pem_file(key)?;
    config.set_cc_algorithm_name(algorithm)?;
    let socket = UdpSocket::bind(address)?;
    let mut first = [0; 65536];
    let (length, peer) = socket.recv_from(&mut first)?;
    let id = ConnectionId::from_ref(&[7; quiche::MAX_CONN_ID_LEN]);
    let mut connection = quiche::accept(&id, None, address, peer, &mut config)?;
    let at = RecvInfo { from: peer, to: address };
    connection.recv(&mut first[..length], at)?;
    let data = vec![0; 64 << 10];
    drive(&socket, address, &mut connection, |connection| {
        let readable: Vec<u64> = connection.readable().collect();
        let mut asked = [0; 64];
        for stream in readable {
            while connection.stream_recv(stream, &mut asked).is_ok() {}
        }
        if connection.is_established() {
            // Whether it was asked for or not: the first stream is the client's.
            while matches!(connection.stream_send(0, &data, false), Ok(1..)) {}
        }
        Ok(())
    })
}

fn client(address: SocketAddr) -> Result<()> {
    let mut config = config()?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    let local = socket.local_addr()?;
    let id = ConnectionId::from_ref(&[8; quiche::MAX_CONN_ID_LEN]);
    let mut connection = quiche::connect(Some("localhost"), &id, local, address, &mut config)?;
    let mut has_asked = false;
    let mut data = vec![0; 256 << 10];
    drive(&socket, local, &mut connection, |connection| {
        if connection.is_established() && !has_asked {
            has_asked = connection.stream_send(0, b"?", false).is_ok();
        }
        let readable: Vec<u64> = connection.readable().collect();
        for stream in readable {
            while connection.stream_recv(stream, &mut data).is_ok() {}
        }
        Ok(())
    })
}

/// Moves packets until the connection is closed; `work` reads and writes streams.
fn drive(
    socket: &UdpSocket,
    local: SocketAddr,
    connection: &mut Connection,
    mut work: impl FnMut(&mut Connection) -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; 65536];
    // Packets that pacing holds back, in the order of their times.
    let mut paced: VecDeque<(Instant, SocketAddr, Vec<u8>)> = VecDeque::new();
    while !connection.is_closed() {
        work(connection)?;
        // What waits is not to be more than pacing has asked for.
        while paced.len() < 64 {
            match connection.send(&mut buffer) {
                Ok((length, info)) => paced.push_back((info.at, info.to, buffer[..length].to_vec())),
                Err(Error::Done) => break,
                Err(e) => return Err(e.into()),
            }
        }
        while let Some((at, to, packet)) = paced.front() {
            if *at > Instant::now() {
                break;
            }
            // A connected socket takes no address.
            let sent = match socket.peer_addr() {
                Ok(_) => socket.send(packet),
                Err(_) => socket.send_to(packet, to),
            };
            match sent {
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e.into()),
            }
            paced.pop_front();
        }
        let next = paced.front().map(|(at, ..)| at.saturating_duration_since(Instant::now()));
        let wait = [Some(LONGEST), connection.timeout(), next].into_iter().flatten().min();
        let wait = wait.unwrap_or(LONGEST);
        // A timeout of 0 would be none.
        socket.set_nonblocking(wait < Duration::from_micros(50))?;
        socket.set_read_timeout(Some(wait.max(Duration::from_micros(50))))?;
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                // What is no packet of this connection is left out.
                let _ = connection.recv(&mut buffer[..length], RecvInfo { from, to: local });
                socket.set_nonblocking(true)?;
                while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    let _ = connection.recv(&mut buffer[..length], RecvInfo { from, to: local });
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e.into()),
        }
        if connection.timeout() == Some(Duration::ZERO) {
            connection.on_timeout();
        }
    }
    Err("the connection ended".into())
}
