//! Timers, and the order in which they fire.

use fullpipe_cc::Instant;

/// A time that does not come, in nanoseconds.
pub(crate) const NEVER: u64 = u64::MAX;

/// Timers by number, each with one deadline. Setting one to a later time costs nothing until the
/// earlier time comes up: most timers of a transport move with every packet and never fire.
///
/// A tree whose nodes have eight places. Those of the leaves are the timers' deadlines; the others
/// have the earliest of the node below them. A new deadline is compared within one cache line a
/// level, and only as far up as it changes something.
#[derive(Debug)]
pub(crate) struct Timers {
    /// Below node `i` are the nodes `8 i + 1` to `8 i + 8`. The leaves of the highest numbers are
    /// left out: they would be of timers that there are not.
    nodes: Vec<Node>,
    /// The number of the first leaf.
    first_leaf: usize,
    /// The earliest deadline of all.
    next: u64,
}

/// Deadlines in nanoseconds, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node([u64; WIDTH]);

const WIDTH: usize = 8;

impl Node {
    const EMPTY: Self = Self([NEVER; WIDTH]);

    #[inline]
    fn earliest(&self) -> u64 {
        let [a, b, c, d, e, f, g, h] = self.0;
        a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
    }
}

impl Timers {
    /// Room for `timers`, and more when they are set.
    pub(crate) fn new(timers: usize) -> Self {
        let (mut inner_nodes, mut width) = (0, 1);
        let leaves = timers.div_ceil(WIDTH).max(1);
        while width < leaves {
            (inner_nodes, width) = (inner_nodes + width, width * WIDTH);
        }
        let nodes = vec![Node::EMPTY; inner_nodes + leaves];
        Self { nodes, first_leaf: inner_nodes, next: NEVER }
    }

    /// Makes room for so many timers at least.
    #[cold]
    fn grow(&mut self, timers: usize) {
        // Twice as many, or each new one would be a copy of all.
        let mut larger = Self::new(timers.max(2 * WIDTH * (self.nodes.len() - self.first_leaf)));
        for (i, leaf) in self.nodes[self.first_leaf..].iter().enumerate() {
            for (j, at) in leaf.0.iter().enumerate().filter(|(_, at)| **at < NEVER) {
                larger.arm(WIDTH * i + j, Instant::from_nanos(*at));
            }
        }
        *self = larger;
    }

    /// The timer fires at `at` nanoseconds, [`NEVER`] for never.
    #[inline]
    pub(crate) fn set(&mut self, timer: usize, at: u64) {
        let (mut node, mut place, mut at) = (self.first_leaf + timer / WIDTH, timer % WIDTH, at);
        if node >= self.nodes.len() {
            self.grow(timer + 1);
            return self.set(timer, at);
        }
        loop {
            let this = &mut self.nodes[node];
            this.0[place] = at;
            at = this.earliest();
            if node == 0 {
                self.next = at;
                return;
            }
            (node, place) = ((node - 1) / WIDTH, (node - 1) % WIDTH);
            if self.nodes[node].0[place] == at {
                return;
            }
        }
    }

    /// The timer fires at `at` or before.
    #[inline]
    pub(crate) fn arm(&mut self, timer: usize, at: Instant) {
        let (mut node, mut place) = (self.first_leaf + timer / WIDTH, timer % WIDTH);
        if node >= self.nodes.len() {
            self.grow(timer + 1);
            return self.arm(timer, at);
        }
        // An earlier time goes up as far as it is the first, and needs no look at the others.
        let at = at.as_nanos();
        while at < self.nodes[node].0[place] {
            self.nodes[node].0[place] = at;
            if node == 0 {
                self.next = self.next.min(at);
                return;
            }
            (node, place) = ((node - 1) / WIDTH, (node - 1) % WIDTH);
        }
    }

    /// The time at which the first timer fires, in nanoseconds; [`NEVER`] if none will.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The timer that fires first, when there is one: of several at one time that of the lowest
    /// number.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        let mut node = 0;
        loop {
            let places = &self.nodes[node].0;
            let place = places.iter().position(|at| *at == self.next).unwrap_or(0);
            if node >= self.first_leaf {
                return WIDTH * (node - self.first_leaf) + place;
            }
            node = WIDTH * node + 1 + place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_fires_at_its_earliest_deadline_and_once() {
        let at = Instant::from_nanos;
        let mut t = Timers::new(1);
        t.arm(0, at(10));
        t.arm(1, at(7));
        t.arm(0, at(5));
        t.arm(0, at(20)); // later than what is armed: nothing to do yet
        let mut fire = || {
            let fired = (t.next(), t.first());
            t.set(fired.1, NEVER);
            fired
        };
        assert_eq!((fire(), fire()), ((5, 0), (7, 1)));
        assert_eq!(t.next(), NEVER);
    }

    #[test]
    fn they_fire_in_order_and_at_one_time_by_number() {
        let mut t = Timers::new(0);
        for timer in 0..1000usize {
            t.arm(timer, Instant::from_nanos((timer as u64 * 7919) % 101));
        }
        let mut fired = Vec::new();
        while t.next() < NEVER {
            fired.push((t.next(), t.first()));
            t.set(t.first(), NEVER);
        }
        assert!(fired.is_sorted() && fired.len() == 1000);
    }

    /// Beside a list of all deadlines that is searched each time.
    #[test]
    fn they_are_what_a_plain_list_of_deadlines_is() {
        let mut state = 1u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for timers in [1, 7, 8, 9, 64, 65, 600] {
            let (mut tree, mut list) = (Timers::new(draw(timers) as usize), vec![NEVER; 601]);
            for _ in 0..3000 {
                let (timer, at) = (draw(timers) as usize, draw(50));
                match draw(3) {
                    0 => {
                        let at = if at < 10 { NEVER } else { at };
                        tree.set(timer, at);
                        list[timer] = at;
                    }
                    1 => {
                        tree.arm(timer, Instant::from_nanos(at));
                        list[timer] = list[timer].min(at);
                    }
                    _ if tree.next() < NEVER => {
                        list[tree.first()] = NEVER;
                        tree.set(tree.first(), NEVER);
                    }
                    _ => {}
                }
                let first = list.iter().enumerate().min_by_key(|(i, at)| (**at, *i));
                let (timer, at) = first.expect("there are some");
                assert_eq!(tree.next(), *at);
                assert!(*at == NEVER || tree.first() == timer, "{} for {timer}", tree.first());
            }
        }
    }
}
