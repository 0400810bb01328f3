//! Flows whose data goes up: over the uplink, with their answers over the links. They are rare, so
//! that nothing of them is in the way of the others.

use std::collections::HashMap;

use fullpipe_cc::Instant;
use fullpipe_path::{Ecn, Path};
use fullpipe_traffic::Direction;

use super::events::{find, header};
use super::{CROSS, Sim};
use crate::config::Route;
use crate::packet::{Chunk, Data, Up};

/// Answers to flow `i` have the number `ANSWERS + i` on the links: above all flows and cross
/// traffic.
pub(super) const ANSWERS: u32 = CROSS + (CROSS >> 1);

/// Packets are forgotten when so many came after them: those that a path lost. A path with more
/// packets under way than these loses the oldest of them.
const REMEMBERED: u64 = 1 << 18;

/// Packets under way of flows that go up. The links carry data and the uplink answers, so that the
/// packets of these flows are kept here, and a number stands for each of them on its way.
#[derive(Debug, Default)]
pub(super) struct Upwards {
    answers: HashMap<u64, Up>,
    data: HashMap<u64, Data>,
    sent: u64,
}

impl Sim {
    pub(super) fn all_links(&self) -> Route {
        Route { first: 0, last: self.links.len() - 1 }
    }

    /// Sends from a flow's receiver to its sender.
    pub(super) fn send_back(&mut self, i: u32, wire_bytes: u32, up: Up) {
        let flow = find(&mut self.flows, &mut self.short, i);
        match flow.map(|flow| flow.config.direction) {
            Some(Direction::Up) => self.send_answer(i, wire_bytes, up),
            _ => self.send_up(i, wire_bytes, up),
        }
    }

    /// Sends to the sender of a flow that goes up.
    #[cold]
    pub(super) fn send_answer(&mut self, i: u32, wire_bytes: u32, up: Up) {
        let number = self.upwards.next_number();
        let chunk = Chunk { id: 0, written: Instant::default(), bytes: 0 };
        let data = Data::new(ANSWERS + i, number, self.now, chunk);
        let sent =
            self.links[0].path.send(self.now, header(data.flow, wire_bytes, Ecn::NotEct), data);
        if sent.is_ok() {
            self.upwards.answers.insert(number, up);
        }
        self.refresh(0);
    }

    /// A packet that came out of the last link is no flow's data: cross traffic, or an answer.
    #[cold]
    pub(super) fn on_answer(&mut self, data: &Data) {
        let Some(i) = data.flow.checked_sub(ANSWERS) else { return };
        if let Some(up) = self.upwards.answers.remove(&data.pn) {
            self.on_uplink_passed(i, &up, Ecn::NotEct);
        }
    }

    /// A packet that came out of the uplink is nobody's answer: data of a flow that goes up, or of
    /// a flow that is over.
    #[cold]
    pub(super) fn on_data_up(&mut self, i: u32, up: &Up, ecn: Ecn) {
        let Up::Request(number) = up else { return };
        if i < CROSS {
            return;
        }
        let Some(data) = self.upwards.data.remove(number) else { return };
        self.delivered_packets += 1;
        self.on_data::<true>(&data, ecn);
    }

    /// Sends a packet of data up.
    #[cold]
    pub(super) fn send_data_up(&mut self, wire_bytes: u32, data: Data, ecn: Ecn) {
        self.upwards.send(&mut self.uplink, self.now, wire_bytes, data, ecn);
        self.refresh_uplink();
    }

    /// Sends what may leave up; see [`Sim::pump`].
    #[cold]
    pub(super) fn pump_up(&mut self, i: u32, probe: bool) -> Option<Instant> {
        let now = self.now;
        let flow = find(&mut self.flows, &mut self.short, i)?;
        let (more, ecn) = (flow.header_bytes, flow.ecn);
        let (uplink, upwards) = (&mut self.uplink, &mut self.upwards);
        let deadline = flow.sender.pump(now, probe, |pn, chunk, bytes| {
            let data = Data::new(i, pn, now, chunk);
            upwards.send(uplink, now, bytes + more, data, ecn);
        });
        let deadline = deadline.map(|at| flow.jitter.after(at));
        self.refresh_uplink();
        deadline
    }
}

impl Upwards {
    /// The number of the next packet. Forgets what was lost, now and then.
    fn next_number(&mut self) -> u64 {
        self.sent += 1;
        let newest = self.sent;
        if newest.is_multiple_of(REMEMBERED) {
            self.answers.retain(|number, _| number + REMEMBERED > newest);
            self.data.retain(|number, _| number + REMEMBERED > newest);
        }
        newest
    }

    fn send(
        &mut self,
        uplink: &mut Path<(u32, Up)>,
        now: Instant,
        wire_bytes: u32,
        data: Data,
        ecn: Ecn,
    ) {
        let number = self.next_number();
        let flow = CROSS + data.flow;
        // A dropped packet is the path's business, and the sender's loss detection's.
        if uplink.send(now, header(flow, wire_bytes, ecn), (flow, Up::Request(number))).is_ok() {
            self.data.insert(number, data);
        }
    }
}
