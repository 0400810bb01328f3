//! A network namespace with a TUN device, the kernel's TCP on its one side and a stack on the
//! other.

use std::net::SocketAddr;

use fullpipe_tcp::tokio::{Device, Stack};
use tokio::runtime::Runtime;
use tun_rs::{DeviceBuilder, SyncDevice};

/// The kernel's address on the device, and the stack's behind it.
const KERNEL: [u8; 4] = [198, 18, 7, 1];
const OURS: [u8; 4] = [198, 18, 7, 2];

pub(crate) fn kernel(port: u16) -> SocketAddr {
    SocketAddr::from((KERNEL, port))
}

pub(crate) fn ours(port: u16) -> SocketAddr {
    SocketAddr::from((OURS, port))
}

/// Runs `work` in a namespace of its own, with a device in it. Needs `Root`, `Tun` and `Ip`.
pub(crate) fn in_namespace(work: impl FnOnce(SyncDevice) + Send + 'static) {
    in_namespace_with(false, work);
}

/// The same with a device that cuts and merges segments, or one without that.
pub(crate) fn in_namespace_with(offload: bool, work: impl FnOnce(SyncDevice) + Send + 'static) {
    fullpipe_testkit::in_namespace(move || {
        let device = DeviceBuilder::new()
            .name("user0")
            .offload(offload)
            .ipv4(std::net::Ipv4Addr::from(KERNEL), 24, None)
            .enable(true)
            .build_sync()
            .expect("the test names Need::Tun");
        device.set_nonblocking(true).expect("a setting");
        work(device);
    });
}

/// A stack with a runtime of its own, whose threads need not be in the namespace.
pub(crate) fn start(device: impl Device) -> (Runtime, Stack) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let stack = runtime.block_on(async { Stack::start(device, 2000).expect("a stack") });
    (runtime, stack)
}
