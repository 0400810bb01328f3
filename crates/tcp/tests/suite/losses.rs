//! Many losses in one flight.

use fullpipe_cc::{Algorithm, Duration, Instant, Rate};
use fullpipe_path::{ElementConfig, LossConfig, PathConfig, QueueLimit};
use fullpipe_tcp::Config;

use crate::common::{App, MS, Net};

/// The flight in which the first loss is, and thousands of segments of the next one, leave before
/// an ACK tells of it.
const FIRST: u64 = 5500;
const LOST: u64 = 2000;

/// Every second segment of some thousands is lost: those between have a place at the receiver, and
/// nothing is sent again that was not lost.
#[test]
fn every_second_segment_of_a_flight_is_repaired_once() {
    for mtu in [576, 1500] {
        let lost = (0..LOST).map(|i| FIRST + 2 * i).collect();
        let delay = ElementConfig::Delay(MS.times(50));
        // Segments come one by one, so that each has its ACK.
        let (rate, queue) = (Rate::from_bits_per_sec(1_000_000_000), QueueLimit::Packets(100_000));
        let link = ElementConfig::Bottleneck { rate: rate.into(), queue: queue.into() };
        let row = vec![ElementConfig::Loss(LossConfig::Listed(lost)), link, delay.clone()];
        let (there, back) = (PathConfig { row, seed: 1 }, PathConfig { row: vec![delay], seed: 1 });
        let buffer = 16_000 * usize::from(mtu);
        let config = Config {
            algorithm: Algorithm::RENO,
            send_buffer: buffer,
            receive_buffer: buffer,
            mtu,
            ..Config::default()
        };
        let apps = [App::writer(0, buffer as u64), App::default()];
        let mut net = Net::new([there, back], [config; 2], apps);
        let end = Instant::default() + Duration::from_secs(10);
        assert!(net.run_while(end, |net| net.apps[1].read < buffer as u64), "{mtu}");
        let handle = net.apps[0].handle.expect("a connection");
        let info = net.ends[0].connection(handle).expect("open").info();
        println!("{mtu}: {:?}, {} of {} sent again", net.now, info.total_retrans, info.segs_out);
        assert_eq!((info.total_retrans, info.timeouts), (LOST, 0), "{mtu}: {info:?}");
    }
}
