//! An endpoint behind smoltcp's interface on a TAP device, against the kernel.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use fullpipe_cc::{Duration, Instant};
use fullpipe_tcp::interface::Host;
use fullpipe_tcp::{Config, Endpoint, Error};
use fullpipe_testkit::{PATIENCE, in_namespace};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, TxToken};
use smoltcp::time;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::common;
use crate::ethernet::{PREFIX_BITS, Received, address, interface};

/// A TAP device, as smoltcp wants it.
struct Tap(SyncDevice);

struct Out<'a>(&'a SyncDevice);

impl Device for Tap {
    type RxToken<'a> = Received;
    type TxToken<'a> = Out<'a>;

    fn receive(&mut self, _: time::Instant) -> Option<(Received, Out<'_>)> {
        let mut frame = vec![0; 1514];
        let count = self.0.recv(&mut frame).ok()?;
        frame.truncate(count);
        Some((Received(frame), Out(&self.0)))
    }

    fn transmit(&mut self, _: time::Instant) -> Option<Out<'_>> {
        Some(Out(&self.0))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        // What the device does not take is lost, as on any network.
        let _ = self.0.send(&frame);
        result
    }
}

/// The kernel echoes what the host sends.
fn echo(v6: bool, device: SyncDevice) {
    const BYTES: usize = 5_000_000;
    let remote = SocketAddr::new(address(v6, 1), 80);
    let listener = TcpListener::bind(remote).expect("the kernel has the address");
    let kernel = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("it goes on");
        stream.write_all(&all).expect("it goes on");
    });
    let mut tap = Tap(device);
    let mut host = Host::new(Endpoint::new([7; 16], 4), interface(2, &mut tap), &tap);
    let begun = std::time::Instant::now();
    let now = || Instant::default() + Duration::from(begun.elapsed());
    let local = SocketAddr::new(address(v6, 2), 0);
    let config = Config::default();
    let handle = host.endpoint().connect(now(), local, remote, &config).expect("a connection");
    let data: Vec<u8> = (0..BYTES).map(|i| common::byte(0, i as u64)).collect();
    let (mut sent, mut got, mut chunk) = (0, Vec::<u8>::new(), vec![0; 65_536]);
    while got.len() < BYTES {
        assert!(begun.elapsed() < PATIENCE, "{sent} sent, {} got", got.len());
        host.poll(now(), &mut tap);
        while sent < BYTES {
            match host.endpoint().write(now(), handle, &data[sent..]) {
                Ok(count) => sent += count,
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if sent == BYTES {
            host.endpoint().close(now(), handle);
        }
        loop {
            match host.endpoint().read(handle, &mut chunk) {
                Ok(0) | Err(Error::WouldBlock) => break,
                Ok(count) => got.extend(&chunk[..count]),
                Err(error) => panic!("{error}"),
            }
        }
        host.poll(now(), &mut tap);
        let wait = host.poll_at(now()).map_or(10, |at| at.since(now()).as_nanos() / 1_000_000);
        let mut ready = [PollFd::new(tap.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(wait.min(10) as i32).expect("a time");
        poll(&mut ready, timeout).expect("it can be waited for");
    }
    assert!(got == data, "the kernel's answer is another one");
    if let Err(panic) = kernel.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs the echo in a namespace of its own.
fn is_a_neighbour(v6: bool) {
    in_namespace(move || {
        let device = DeviceBuilder::new().name("tap0").layer(Layer::L2).build_sync();
        let device = device.expect("the test names Need::Tun");
        device.set_nonblocking(true).expect("a setting");
        let own = format!("{}/{}", address(v6, 1), PREFIX_BITS[usize::from(v6)]);
        let mut add = vec!["addr", "add", own.as_str(), "dev", "tap0"];
        if v6 {
            // Without a search for others that have the address.
            add.push("nodad");
        }
        let added = Command::new("ip").args(add).status().expect("the test names Need::Ip");
        assert!(added.success(), "{own}");
        echo(v6, device);
    });
}

fn the_kernel_is_a_neighbour() {
    is_a_neighbour(false);
}

fn the_kernel_is_a_neighbour_over_ipv6() {
    is_a_neighbour(true);
}

fullpipe_testkit::tests! {
    long [Root, Tun, Ip] the_kernel_is_a_neighbour;
    long [Root, Tun, Ip, Ipv6] the_kernel_is_a_neighbour_over_ipv6;
}
