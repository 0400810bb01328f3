//! What is due when.

use fullpipe_cc::Instant;

/// A time that does not come, in nanoseconds.
pub(crate) const NEVER: u64 = u64::MAX;

/// Timers by number, each with one deadline. Setting one to a later time costs nothing until the
/// earlier time comes up: most timers of a transport move with every packet and never fire.
///
/// A tournament: each place above two others holds the earlier one's number, so that the first of all
/// stands on top, and a new deadline is compared once a level.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The deadline of each timer in nanoseconds. As many as a power of two.
    deadlines: Vec<u64>,
    /// `winners[1]` is the first of all; those below `winners[i]` are `winners[2 i]` and
    /// `winners[2 i + 1]`, and the lowest have two timers each below.
    winners: Vec<u32>,
}

impl Timers {
    /// Room for `timers`, and more when they are set.
    pub(crate) fn new(timers: usize) -> Self {
        let mut empty = Self { deadlines: Vec::new(), winners: Vec::new() };
        empty.grow(timers);
        empty
    }

    #[cold]
    fn grow(&mut self, timers: usize) {
        let size = timers.next_power_of_two().max(2);
        self.deadlines.resize(size, NEVER);
        self.winners.resize(size, 0);
        for place in (1..size).rev() {
            self.winners[place] = self.winner(place);
        }
    }

    /// The earlier of the two below a place; at the same time, the lower number.
    #[inline]
    fn winner(&self, place: usize) -> u32 {
        let size = self.winners.len();
        let below = 2 * place;
        let (left, right) = if below < size {
            (self.winners[below], self.winners[below + 1])
        } else {
            ((below - size) as u32, (below - size + 1) as u32)
        };
        let is_left = self.deadlines[left as usize] <= self.deadlines[right as usize];
        if is_left { left } else { right }
    }

    #[inline]
    fn set(&mut self, timer: usize, at: u64) {
        self.deadlines[timer] = at;
        let mut place = (timer + self.winners.len()) / 2;
        while place > 0 {
            self.winners[place] = self.winner(place);
            place /= 2;
        }
    }

    /// The timer fires at `at` or before.
    #[inline]
    pub(crate) fn arm(&mut self, timer: usize, at: Instant) {
        if timer >= self.deadlines.len() {
            self.grow(timer + 1);
        }
        if at.as_nanos() < self.deadlines[timer] {
            self.set(timer, at.as_nanos());
        }
    }

    /// When the first timer fires, in nanoseconds; [`NEVER`] when none will.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.deadlines[self.winners[1] as usize]
    }

    /// Takes out the first timer.
    #[inline]
    pub(crate) fn pop(&mut self) -> usize {
        let timer = self.winners[1] as usize;
        self.set(timer, NEVER);
        timer
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
        assert_eq!((t.next(), t.pop()), (5, 0));
        assert_eq!((t.next(), t.pop()), (7, 1));
        assert_eq!(t.next(), NEVER);
    }

    #[test]
    fn they_fire_in_order_and_at_one_time_by_number() {
        let mut t = Timers::new(0);
        for timer in 0..1000usize {
            t.arm(timer, Instant::from_nanos((timer as u64 * 7919) % 101));
        }
        let fired: Vec<(u64, usize)> = (0..1000).map(|_| (t.next(), t.pop())).collect();
        assert!(fired.is_sorted() && fired.len() == 1000 && t.next() == NEVER);
    }
}
