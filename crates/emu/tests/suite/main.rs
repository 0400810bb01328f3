//! Tests that need no clock, no port and no rights: configurations that are refused before anything
//! is opened.

use fullpipe_cc::Rate;
#[cfg(target_os = "linux")]
use fullpipe_emu::netem::{NetemConfig, NetemLink};
use fullpipe_emu::{EmuError, Emulator, EmulatorConfig, Link, PathConfig, QueueLimit};
use fullpipe_emu::{Rebinding, Rebound};
#[cfg(target_os = "linux")]
use fullpipe_path::Probability;

#[test]
fn a_link_that_makes_no_sense_is_refused_in_a_clear_line() {
    let good = EmulatorConfig::new("127.0.0.1:9".parse().expect("an address"));
    let line = |config| Emulator::start(config).expect_err("nonsense").to_string();
    let small = PathConfig::from(Link {
        rate: Some(Rate::from_bits_per_sec(1_000_000)),
        queue: QueueLimit::Bytes(10),
        ..Link::default()
    });
    assert_eq!(
        line(EmulatorConfig { downlink: small.clone(), ..good.clone() }),
        "downlink: a queue of 10 bytes is below one packet: give at least 1500 bytes"
    );
    assert!(line(EmulatorConfig { uplink: small, ..good }).starts_with("uplink: "));
    let far = EmulatorConfig::new("192.0.2.1:443".parse().expect("an address"));
    let error = Emulator::start(far).expect_err("another machine");
    assert!(matches!(error, EmuError::NotLoopback(_)));
    assert_eq!(
        error.to_string(),
        "192.0.2.1:443 is not on this machine: the link carries packets to a loopback address only"
    );
}

#[test]
fn a_client_cannot_get_another_address_towards_a_target_elsewhere() {
    let elsewhere = "192.0.2.1:443".parse().expect("an address");
    let listen = Some("0.0.0.0:0".parse().expect("an address"));
    let at = fullpipe_cc::Duration::from_millis(1);
    let rebind = vec![Rebinding { at, what: Rebound::Address }];
    let config = EmulatorConfig { rebind, listen, ..EmulatorConfig::new(elsewhere) };
    assert!(matches!(Emulator::start(config), Err(EmuError::OneAddress(_))));
}

#[cfg(target_os = "linux")]
#[test]
fn a_netem_that_makes_no_sense_is_refused() {
    let half = fullpipe_cc::Duration::from_millis(10);
    let good = NetemConfig {
        rate: Rate::from_bits_per_sec(50_000_000),
        queue: QueueLimit::Bytes(60_000),
        loss: Probability::ZERO,
        downlink_delay: half,
        uplink_delay: half,
        seed: 1,
    };
    for (config, why) in [
        (NetemConfig { rate: Rate::ZERO, ..good }, "a rate of 0"),
        (NetemConfig { queue: QueueLimit::Bytes(1499), ..good }, "1499 bytes"),
        (NetemConfig { queue: QueueLimit::Packets(0), ..good }, "0 packets"),
    ] {
        let error = NetemLink::start(&config).expect_err(why);
        assert!(matches!(error, EmuError::Path { .. }), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}
