//! ECN bits across a link between real sockets.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use fullpipe_emu::{EmulatorConfig, PathConfig};
use fullpipe_path::{ElementConfig, Probability};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};

use crate::link::{introduce, local, socket, start};

fn ecn_bits_are_kept_and_set() {
    bits_are_kept_and_set("127.0.0.1");
}

fn ecn_bits_are_kept_and_set_over_ipv6() {
    bits_are_kept_and_set("::1");
}

/// In both directions: what an endpoint set arrives, and a mark of the path in its place.
fn bits_are_kept_and_set(ip: &str) {
    let set = |socket: &UdpSocket, bits: u8| {
        if local(socket).is_ipv4() {
            setsockopt(socket, sockopt::Ipv4Tos, &bits.into()).expect("bits");
        } else {
            setsockopt(socket, sockopt::Ipv6TClass, &bits.into()).expect("bits");
        }
    };
    let get = |socket: &UdpSocket| {
        let (mut data, mut control) = ([0; 100], nix::cmsg_space!(i32));
        let mut slices = [std::io::IoSliceMut::new(&mut data)];
        let read = recvmsg::<SockaddrStorage>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            MsgFlags::empty(),
        );
        let read = read.expect("it arrives");
        let bits = read.cmsgs().expect("whole").find_map(|message| match message {
            ControlMessageOwned::Ipv4Tos(bits) => Some(bits),
            ControlMessageOwned::Ipv6TClass(bits) => Some(bits as u8),
            _ => None,
        });
        bits.expect("bits") & 3
    };
    let server = socket(ip);
    let all = Probability::new(1.0).expect("a probability");
    let downlink = PathConfig { row: vec![ElementConfig::Marking(all)], seed: 1 };
    let link = start(EmulatorConfig { downlink, ..EmulatorConfig::new(local(&server)) });
    let (client, peer) = introduce(&link, &server);
    for socket in [&client, &server] {
        let _ = setsockopt(socket, sockopt::IpRecvTos, &true);
        let _ = setsockopt(socket, sockopt::Ipv6RecvTClass, &true);
    }
    for (bits, marked) in [(0, 0), (1, 3), (2, 3), (3, 3)] {
        set(&client, bits);
        client.send_to(b"there", link.addr()).expect("loopback");
        assert_eq!(get(&server), bits, "{ip}");
        set(&server, bits);
        server.send_to(b"back", peer).expect("loopback");
        assert_eq!(get(&client), marked, "{ip} {bits}");
    }
    assert_eq!(link.finish().expect("it ran").downlink.stats.marked.packets, 2);
}

fullpipe_testkit::tests! {
    [] ecn_bits_are_kept_and_set;
    [Ipv6] ecn_bits_are_kept_and_set_over_ipv6;
}
