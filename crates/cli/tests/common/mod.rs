//! The command as a process, and what it is tried on.
#![allow(dead_code, unreachable_pub, unused_imports)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub use fullpipe_testkit::{Ended as Said, Running, first_line, in_namespace};
use sha2::{Digest, Sha256};

/// The command with these arguments, in a directory, and nothing from the environment that would
/// change what it does.
pub fn fullpipe(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullpipe"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    for variable in ["RUST_LOG", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env_remove(variable);
    }
    command
}

pub fn run(command: Command) -> Said {
    Said::of(command)
}

/// The same for somebody who is not root, where the test is root. The program must be one that
/// anybody may run, as [`anybodys`] is.
pub fn as_nobody(mut command: Command) -> Command {
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

const NOBODY: u32 = 65_534;

/// A copy of the command in `dir`, where anybody may read and run it.
pub fn anybodys(dir: &Path) -> PathBuf {
    let own = dir.join("fullpipe");
    if !own.exists() {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).expect("a mode");
        std::fs::copy(env!("CARGO_BIN_EXE_fullpipe"), &own).expect("a copy");
    }
    own
}

/// Ends this try of a test if the link of a result says that it was late: its figures prove
/// nothing.
pub fn counts(emulator: &serde_json::Value) {
    if emulator["trusted"] == false {
        fullpipe_testkit::inconclusive(emulator["warning"].as_str().expect("it says why"));
    }
}

/// `fullpipe serve` on a free port.
pub struct Serve {
    pub process: Running,
    pub line: String,
    pub address: SocketAddr,
}

pub fn serve(dir: &Path, args: &[&str]) -> Serve {
    serve_with(dir, args, Stdio::null())
}

/// The same with its log in a file.
pub fn serve_logging(dir: &Path, log: &Path, args: &[&str]) -> Serve {
    serve_with(dir, args, std::fs::File::create(log).expect("a file").into())
}

/// The same with its log there.
pub fn serve_with(dir: &Path, args: &[&str], log: Stdio) -> Serve {
    let mut command = fullpipe(dir, &["serve", ".", "--listen", "127.0.0.1:0"]);
    let child = command.args(args).stdout(Stdio::piped()).stderr(log).spawn();
    let mut process = Running(child.expect("the command starts"));
    let line = first_line(&mut process);
    let address = line.split([' ', ',']).find_map(|word| word.parse().ok());
    Serve { address: address.expect(&line), process, line }
}

impl Serve {
    /// The address of its metrics.
    pub fn metrics(&self) -> SocketAddr {
        let url = self.line.split("metrics on http://").nth(1).expect("it is announced");
        url.split('/').next().expect("an address").parse().expect("an address")
    }

    /// Bytes of the process that are in memory, without those that are of files, as its code is.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id()));
        let status = status.expect("Linux has /proc");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("a size");
        let kilobytes = line.split_whitespace().nth(1).expect("a number");
        kilobytes.parse::<u64>().expect("a number") * 1024
    }

    /// Its open descriptors.
    pub fn descriptors(&self) -> usize {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.process.0.id()));
        all.expect("Linux has /proc").count()
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }
}

/// Processor time of a process so far, to a hundredth of a second (proc_pid_stat(5), utime and
/// stime).
pub fn processor_time(pid: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("Linux has /proc");
    let behind_the_name = text.rsplit(')').next().expect("a name");
    let fields = behind_the_name.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

/// The status line and the body of a GET.
pub fn scrape(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("a listener");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    (head.lines().next().expect("a line").to_owned(), body.to_owned())
}

/// A self-signed certificate for localhost and its key, as files in `dir`.
pub fn certificate(dir: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    (certificate, key)
}

/// Writes `bytes` bytes that repeat nowhere.
pub fn write_file(path: &Path, bytes: usize) {
    let words = (0u32..).flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_le_bytes());
    std::fs::write(path, words.take(bytes).collect::<Vec<u8>>()).expect("a file");
}

pub fn sha256(path: &Path) -> [u8; 32] {
    Sha256::digest(std::fs::read(path).expect("a file")).into()
}

/// The names in a directory, in order.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The packets of a pcapng file: interface, time and IP packet.
pub fn captured(path: &Path) -> Vec<(u32, Duration, Vec<u8>)> {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let mut file = PcapNgReader::new(std::fs::File::open(path).expect("a file")).expect("pcapng");
    let mut packets = Vec::new();
    while let Some(block) = file.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a block") {
            let ip = packet.data.into_owned().split_off(14);
            packets.push((packet.interface_id, packet.timestamp, ip));
        }
    }
    packets
}
