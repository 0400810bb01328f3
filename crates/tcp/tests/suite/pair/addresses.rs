//! Addresses as the operating system gives them.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use fullpipe_tcp::{Config, Endpoint, State};

use super::Pair;
use crate::common::MS;

/// RFC 4007 section 6: a link-local address has a scope, which packets do not carry.
#[test]
fn addresses_with_a_scope_connect() {
    let address = |last, port| {
        SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last), port, 5, 2))
    };
    let config = Config::default();
    let mut pair = Pair::new(10, &config);
    for listens_at in ["[::]:80".parse().expect("an address"), address(2, 80)] {
        pair.ends = [Endpoint::new([1; 16], 10), Endpoint::new([2; 16], 10)];
        pair.listener = pair.ends[1].listen(listens_at, 4, &config).expect("nobody listens");
        let handles = pair.connect_from(address(1, 0), address(2, 80), &config);
        let client = pair.connection(0, handles[0]);
        assert_eq!(client.state(), State::Established);
        assert_eq!(client.remote(), address(2, 80), "the scope is the application's");
        assert!(pair.transfer(handles, 10_000, MS.times(10_000)));
        pair.ends[0].release(pair.now, handles[0]);
        pair.ends[1].release(pair.now, handles[1]);
        while pair.ends.iter().any(|end| end.connections() > 0) {
            assert!(pair.step());
        }
    }
}
