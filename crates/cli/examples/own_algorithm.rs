//! The command with an algorithm of your own, beside all that it has:
//!
//! ```text
//! cargo run --release --example own_algorithm -- compare --stack sim --cc vegas,cubic
//! ```
//!
//! The algorithm is TCP Vegas (Brakmo and Peterson, 1995) with its slow start left out: it counts
//! how many packets of its window wait in the queue, and keeps that number between two and four.

use std::process::ExitCode;

use fullpipe_cc::{
    Congestion, CongestionControl, Conn, CustomAlgorithm, Gain, RateSample, Snapshot, State,
};

/// Packets in the queue: fewer, and the window grows; more, and it shrinks.
const ALPHA: u64 = 2;
const BETA: u64 = 4;

#[derive(Clone, Debug, Default)]
struct Vegas {
    /// The round ends with the ACK of a packet that was sent when C.delivered was this or more.
    round_end: u64,
}

impl CongestionControl for Vegas {
    fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
        let (Some(rtt), Some(base)) = (rs.rtt(), conn.min_rtt()) else { return };
        if rs.prior_delivered < self.round_end || conn.in_recovery() {
            return; // one decision a round trip
        }
        self.round_end = conn.delivered();
        // Of the window, the part that is there for (rtt - base) of each rtt waits in the queue.
        let waiting = (rtt - base).as_nanos();
        let queued = conn.cwnd() / conn.smss() * waiting / rtt.as_nanos();
        if queued < ALPHA && conn.may_grow(rs) {
            conn.set_cwnd(conn.cwnd() + conn.smss());
        } else if queued > BETA {
            conn.set_cwnd(conn.cwnd() - conn.smss());
        }
        conn.pace_by_window(Gain::percent(125));
    }

    fn on_congestion(&mut self, conn: &mut Conn, congestion: &Congestion<'_>) {
        if congestion.new_episode {
            conn.set_cwnd((conn.cwnd() * 3 / 4).max(conn.min_window()));
        }
    }

    fn on_rto(&mut self, conn: &mut Conn) {
        conn.set_cwnd(conn.timeout_window());
    }

    fn snapshot(&self, conn: &Conn) -> Snapshot {
        Snapshot::of(conn, "vegas", State::CongestionAvoidance)
    }
}

static VEGAS: CustomAlgorithm =
    CustomAlgorithm { name: "vegas", new: &|_conn, _now, _config| Box::new(Vegas::default()) };

fn main() -> ExitCode {
    fullpipe_cli::main_with(&[&VEGAS])
}
