//! TCP of this program's own behind a TUN device, in place of the kernel's.

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use fullpipe_adapter::CongestionControl;
use fullpipe_cc::Algorithm;
use fullpipe_tcp::tokio::Stack;
use ipnet::IpNet;
use tun_rs::DeviceBuilder;

use crate::failure::Failure;

/// The longest name of a device (IFNAMSIZ without its end).
const MOST_OF_A_NAME: usize = 15;

/// A TUN device as an argument names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tun {
    name: String,
    /// The kernel's address on a device that is made; without one it is there already.
    kernel: Option<IpNet>,
}

impl FromStr for Tun {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, kernel) = match text.split_once('=') {
            None => (text, None),
            Some((name, kernel)) => {
                let kernel = kernel.parse().map_err(|_| {
                    format!(
                        "{kernel:?} is no address with its prefix; write it as {name}=10.9.0.1/24"
                    )
                })?;
                (name, Some(kernel))
            }
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=MOST_OF_A_NAME).contains(&name.len()) || !name.chars().all(is_name) {
            return Err(format!(
                "{name:?} is no name of a device; write it as fp0, or fp0=10.9.0.1/24"
            ));
        }
        Ok(Self { name: name.to_owned(), kernel })
    }
}

impl Tun {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens the device and starts TCP behind it, for so many connections; also the bytes of its
    /// largest packet.
    pub(crate) fn start(&self, connections: usize) -> Result<(Stack, u16), Failure> {
        let name = &self.name;
        let is_there = Path::new("/sys/class/net").join(name).exists();
        if self.kernel.is_none() && !is_there {
            return Err(Failure::bad_input(format!(
                "there is no device {name}; --tun {name}=10.9.0.1/24 makes one, on which the kernel has that address"
            )));
        }
        let builder = DeviceBuilder::new().name(name);
        #[cfg(target_os = "linux")]
        let builder = builder.offload(true);
        let builder = match self.kernel.map(|kernel| (kernel.addr(), kernel.prefix_len())) {
            None => builder.inherit_enable_state(),
            Some((IpAddr::V4(address), prefix)) => builder.ipv4(address, prefix, None),
            Some((IpAddr::V6(address), prefix)) => builder.ipv6(address, prefix),
        };
        let cannot =
            |error| Failure::bad_input(format!("cannot use the TUN device {name}: {error}"));
        let device = builder.build_sync().map_err(cannot)?;
        device.set_nonblocking(true).map_err(cannot)?;
        let mtu = device.mtu().map_err(cannot)?;
        Ok((Stack::start(device, connections).map_err(cannot)?, mtu))
    }
}

/// The algorithm of TCP behind a device.
pub(crate) fn algorithm(congestion: CongestionControl) -> Result<Algorithm, Failure> {
    match congestion {
        CongestionControl::Fullpipe(algorithm) => Ok(algorithm),
        other => Err(Failure::bad_input(format!(
            "{other} is noq's, and not there over --tun: bbr3, bbr3x, bbr3-linux, bbr3x-linux, bbr-swift, prague, bbr1, cubic or reno"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_name_and_perhaps_an_address() {
        let made = |name: &str, kernel: Option<&str>| Tun {
            name: name.to_owned(),
            kernel: kernel.map(|kernel| kernel.parse().expect("a network")),
        };
        assert_eq!("fp0".parse(), Ok(made("fp0", None)));
        assert_eq!("fp0=10.9.0.1/24".parse(), Ok(made("fp0", Some("10.9.0.1/24"))));
        assert_eq!("a-b.c=fd00::1/64".parse(), Ok(made("a-b.c", Some("fd00::1/64"))));
        for text in [
            "",
            "=10.9.0.1/24",
            "a/b",
            "a b",
            "sixteen-bytes-it",
            "fp0=",
            "fp0=10.9.0.1",
            "fp0=x/24",
        ] {
            let error = text.parse::<Tun>().expect_err(text);
            assert!(error.contains("=10.9.0.1/24"), "{text}: {error}");
        }
    }
}
