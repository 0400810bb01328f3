//! A token bucket that drops.

use fullpipe_cc::{Duration, Rate};
use fullpipe_path::ElementConfig;

use super::fixture::{Corner, GBIT, Lab, MBIT, MS, Outcome, S, Span, US};

/// Links, of whose rate the policer lets a quarter pass. Where that is less than four packets a
/// round trip (64 kbit/s anywhere, 1 Mbit/s and 10 ms), the smallest window sends more than it lets
/// pass: 17 to 46 % are lost, whatever the algorithm believes.
const POLICED: [Corner; 8] = [
    (10 * GBIT, 500 * US),
    (100 * MBIT, 200 * MS),
    (100 * MBIT, S),
    (10 * MBIT, S),
    (GBIT, 20 * MS),
    (100 * MBIT, 40 * MS),
    (10 * MBIT, 100 * MS),
    (4 * MBIT, 30 * MS),
];

/// "Handling Token Bucket Policers".
pub(super) fn token_bucket(lab: &Lab<'_>) -> Outcome {
    let (mut lost, mut got) = (Span::default(), Span::default());
    let corners = lab.corners(&POLICED)?;
    for &corner in &corners {
        let rate = Rate::from_bits_per_sec(corner.0 / 4);
        let bucket_bytes = rate.bytes_in(Duration::from_micros(corner.1)).max(30_000);
        let policer = ElementConfig::Policer { rate, bucket_bytes, initial_bytes: bucket_bytes };
        let mut fixture = lab.bed_with(corner, 2, Some(policer), None)?;
        fixture.reach_probe_bw(2)?;
        if fixture.shows(3, "bw_shortterm") {
            fixture.until(3, "bw_shortterm and inflight_shortterm", 200, |fixture| {
                fixture.bbr().bw_shortterm().is_some()
                    && fixture.bbr().inflight_shortterm().is_some()
            })?;
        }
        let (mut steady, time) =
            (fixture.rtt.times(200).max(Duration::from_secs(1)), fixture.rtt.times(400));
        steady = steady.min(Duration::from_secs(20));
        fixture.pass(steady)?;
        let time = time.max(Duration::from_secs(2)).min(Duration::from_secs(40));
        let (before, received) = (fixture.after, fixture.received());
        fixture.pass(time)?;
        let (dropped, arrived) =
            (fixture.after.lost - before.lost, fixture.after.delivered - before.delivered);
        let loss = 100.0 * dropped as f64 / (dropped + arrived) as f64;
        let share = (fixture.received() - received) as f64 * 1e9
            / time.as_nanos() as f64
            / fixture.carries(rate);
        fixture.check(4, share > 0.7, "more than 70 % of the token rate", share)?;
        // The slowest has a BDP of three packets, and a window of four.
        fixture.check(4, loss < 12.0, "less than 12 % lost", loss)?;
        lost.add(loss);
        got.add(100.0 * share);
    }
    Ok(format!("{got:.0} % of the token rate at {} corners, {lost:.1} % lost", corners.len()))
}
