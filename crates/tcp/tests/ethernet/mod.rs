//! Hosts on an Ethernet: their addresses, and smoltcp's interfaces with them.

use std::net::IpAddr;

use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{Device, RxToken};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};

pub(crate) const PREFIX_BITS: [u8; 2] = [24, 64];

/// The addresses of both ends, of IPv4 or of IPv6.
pub(crate) fn address(v6: bool, end: u16) -> IpAddr {
    match v6 {
        false => IpAddr::from([10, 9, 0, end as u8]),
        true => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, end]),
    }
}

pub(crate) fn hardware(end: u16) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, end as u8])
}

/// A frame that came.
pub(crate) struct Received(pub(crate) Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(crate) fn interface(end: u16, device: &mut impl Device) -> Interface {
    let config = Config::new(hardware(end).into());
    let mut interface = Interface::new(config, device, Instant::ZERO);
    interface.update_ip_addrs(|all| {
        for v6 in [false, true] {
            let bits = PREFIX_BITS[usize::from(v6)];
            all.push(IpCidr::new(address(v6, end).into(), bits)).expect("room");
        }
    });
    interface
}
