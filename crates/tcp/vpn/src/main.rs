//! A VPN endpoint without a device, without root and without the kernel's TCP: IP packets come out
//! of a WireGuard tunnel into `fullpipe-tcp`, and go back. README.md beside this file tells how it
//! is used.

mod relay;
mod tunnel;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use boringtun::x25519::{PublicKey, StaticSecret};
use clap::{Parser, Subcommand};
use fullpipe_cc::Algorithm;
use fullpipe_tcp::Config;
use fullpipe_tcp::tokio::{Device, Stack, TcpListener, TcpStream};
use relay::{Reset, relay};
use tokio::net as kernel;
use tun_rs::DeviceBuilder;
use tunnel::Tunnel;

/// Bytes of the largest packet in the tunnel: 1500 less what WireGuard, UDP and IPv6 add.
const MTU: u16 = 1420;
/// The time between two looks at what is due in the tunnel.
const TICK: Duration = Duration::from_millis(250);
const CONNECTIONS: usize = 1024;
const BACKLOG: usize = 64;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A WireGuard endpoint in user space, with TCP by fullpipe-tcp.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a private key in FILE and print its public key
    Key { file: PathBuf },
    /// Be an end of a tunnel with TCP in user space
    User {
        #[command(flatten)]
        tunnel: TunnelArgs,
        /// This end's address in the tunnel
        #[arg(long)]
        address: IpAddr,
        /// The congestion control: bbr3, bbr3x, bbr1, cubic or reno
        #[arg(long, value_name = "ALGORITHM", default_value = "bbr3", value_parser = algorithm)]
        cc: Algorithm,
        /// Pass connections from the tunnel to this PORT on to HOST:PORT outside of it
        #[arg(long, value_name = "PORT=HOST:PORT")]
        serve: Vec<Forward>,
        /// Pass connections to this ADDRESS:PORT outside of the tunnel on to HOST:PORT in it
        #[arg(long, value_name = "ADDRESS:PORT=HOST:PORT")]
        forward: Vec<Forward>,
    },
    /// Be an end of a tunnel behind a TUN device, with the kernel's TCP (root): what
    /// `wg-quick` does where there is WireGuard
    Device {
        #[command(flatten)]
        tunnel: TunnelArgs,
        /// The name of the device
        #[arg(long, default_value = "vpn0")]
        tun: String,
        /// This end's address in the tunnel, with the length of its prefix
        #[arg(long, value_name = "ADDRESS/PREFIX")]
        address: ipnet::IpNet,
    },
}

#[derive(clap::Args)]
struct TunnelArgs {
    /// The file of this end's private key, as of `wg genkey`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The peer's public key
    #[arg(long, value_name = "KEY")]
    peer: String,
    /// The peer's address and UDP port; without it, the peer has to call
    #[arg(long, value_name = "ADDRESS:PORT")]
    endpoint: Option<SocketAddr>,
    /// This end's address and UDP port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:0")]
    listen: SocketAddr,
}

/// A place and another one that it leads to.
#[derive(Clone)]
struct Forward {
    from: String,
    to: String,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('=').ok_or("it is PLACE=HOST:PORT")?;
        Ok(Self { from: from.to_owned(), to: to.to_owned() })
    }
}

fn main() -> std::process::ExitCode {
    let outcome = match Args::parse().command {
        Command::Key { file } => make_key(&file),
        Command::User { tunnel, address, cc, serve, forward } => {
            user(&tunnel, address, cc, serve, forward)
        }
        Command::Device { tunnel, tun, address } => device(&tunnel, &tun, address),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn algorithm(name: &str) -> Result<Algorithm, String> {
    name.parse().map_err(|error| format!("{error}"))
}

fn make_key(file: &Path) -> Outcome {
    use std::os::unix::fs::OpenOptionsExt;
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    let private = StaticSecret::from(bytes);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(file)?;
    io::Write::write_all(&mut file, BASE64.encode(private.to_bytes()).as_bytes())?;
    println!("{}", BASE64.encode(PublicKey::from(&private).as_bytes()));
    Ok(())
}

fn key(text: &str) -> Outcome<[u8; 32]> {
    let bytes = BASE64.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.ok_or("a key is 32 bytes in base64")?)
}

fn open(args: &TunnelArgs, address: IpAddr) -> Outcome<Tunnel> {
    let private = std::fs::read_to_string(&args.key)
        .map_err(|error| format!("cannot read {}: {error}", args.key.display()))?;
    let keys = (StaticSecret::from(key(&private)?), PublicKey::from(key(&args.peer)?));
    let socket = UdpSocket::bind(args.listen)?;
    eprintln!("tunnel on UDP {}", socket.local_addr()?);
    Ok(Tunnel::new(socket, keys, args.endpoint, address))
}

/// The tunnel as the stack's device. It is shared with whoever looks after its timers.
struct Shared(Arc<Tunnel>);

impl std::os::fd::AsFd for Shared {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Device for Shared {
    fn receive(&self, to: &mut [u8]) -> io::Result<usize> {
        self.0.open(to)
    }

    fn send(&self, packet: &[u8]) -> io::Result<usize> {
        self.0.seal(packet)?;
        Ok(packet.len())
    }
}

#[tokio::main]
async fn user(
    args: &TunnelArgs,
    address: IpAddr,
    cc: Algorithm,
    serve: Vec<Forward>,
    forward: Vec<Forward>,
) -> Outcome {
    let tunnel = Arc::new(open(args, address)?);
    tunnel.set_nonblocking()?;
    let stack = Stack::start(Shared(Arc::clone(&tunnel)), CONNECTIONS)?;
    let config = Config { algorithm: cc, mtu: MTU, nagle: false, ..Config::default() };
    for way in serve {
        let at = SocketAddr::new(address, way.from.parse()?);
        let listener = TcpListener::bind(&stack, at, BACKLOG, &config)?;
        tokio::spawn(out_of_the_tunnel(listener, way.to));
    }
    for way in forward {
        let listener = kernel::TcpListener::bind(&way.from).await?;
        let to = way.to.parse()?;
        tokio::spawn(into_the_tunnel(listener, stack.clone(), address, to, config));
    }
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        tunnel.tick();
    }
}

async fn out_of_the_tunnel(listener: TcpListener, to: String) -> io::Result<()> {
    loop {
        let (inner, _) = listener.accept().await?;
        let to = to.clone();
        tokio::spawn(async move {
            match kernel::TcpStream::connect(&to).await {
                Ok(outer) => relay(inner, outer).await,
                Err(error) => {
                    eprintln!("cannot reach {to}: {error}");
                    inner.reset_on_drop();
                }
            }
        });
    }
}

async fn into_the_tunnel(
    listener: kernel::TcpListener,
    stack: Stack,
    address: IpAddr,
    to: SocketAddr,
    config: Config,
) -> io::Result<()> {
    loop {
        let (outer, _) = listener.accept().await?;
        let stack = stack.clone();
        tokio::spawn(async move {
            let from = SocketAddr::new(address, 0);
            match TcpStream::connect(&stack, from, to, &config).await {
                Ok(inner) => relay(outer, inner).await,
                Err(error) => {
                    eprintln!("cannot reach {to}: {error}");
                    outer.reset_on_drop();
                }
            }
        });
    }
}

fn device(args: &TunnelArgs, name: &str, address: ipnet::IpNet) -> Outcome {
    let builder = DeviceBuilder::new().name(name).mtu(MTU);
    let builder = match address.addr() {
        IpAddr::V4(own) => builder.ipv4(own, address.prefix_len(), None),
        IpAddr::V6(own) => builder.ipv6(own, address.prefix_len()),
    };
    let device = Arc::new(builder.build_sync()?);
    let tunnel = Arc::new(open(args, address.addr())?);
    std::thread::spawn({
        let tunnel = Arc::clone(&tunnel);
        move || loop {
            tunnel.tick();
            std::thread::sleep(TICK);
        }
    });
    std::thread::spawn({
        let (tunnel, device) = (Arc::clone(&tunnel), Arc::clone(&device));
        move || {
            let mut packet = vec![0; usize::from(u16::MAX)];
            while let Ok(count) = device.recv(&mut packet) {
                // What cannot leave is lost, as on any network.
                let _ = tunnel.seal(&packet[..count]);
            }
        }
    });
    let mut packet = vec![0; usize::from(u16::MAX)];
    loop {
        let count = tunnel.open(&mut packet)?;
        let _ = device.send(&packet[..count]);
    }
}
