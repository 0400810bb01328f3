//! Timers, and the order in which they fire.

use fullpipe_cc::Instant;

/// A time that does not come, in nanoseconds.
pub const NEVER: u64 = u64::MAX;

/// Timers by number, each with one deadline. Setting one to a later time costs nothing until the
/// earlier time comes up: most timers of a transport move with every packet and never fire.
///
/// A tournament: each place holds the earlier of the two below it, so that the first of all stands
/// on top, and a new deadline is compared once a level.
#[derive(Debug)]
pub struct Timers {
    /// Deadlines in nanoseconds above, the timer's number below: one comparison, and a fixed order
    /// at one time. `places[1]` is the first of all, below `places[i]` are `places[2 i]` and
    /// `places[2 i + 1]`, and the second half are the timers.
    places: Vec<u128>,
}

fn key(timer: usize, at: u64) -> u128 {
    u128::from(at) << 64 | timer as u128
}

impl Timers {
    /// Room for `timers`, and more when they are set.
    pub fn new(timers: usize) -> Self {
        let mut empty = Self { places: Vec::new() };
        empty.grow(timers);
        empty
    }

    #[cold]
    fn grow(&mut self, timers: usize) {
        let (before, size) = (self.places.len() / 2, timers.next_power_of_two().max(2));
        let never = (0..size).map(|timer| key(timer, NEVER));
        let mut places: Vec<u128> = core::iter::repeat_n(0, size).chain(never).collect();
        places[size..size + before].copy_from_slice(&self.places[before..]);
        for place in (1..size).rev() {
            places[place] = places[2 * place].min(places[2 * place + 1]);
        }
        self.places = places;
    }

    /// The timer fires at `at` nanoseconds, [`NEVER`] for never.
    #[inline]
    pub fn set(&mut self, timer: usize, at: u64) {
        let mut place = self.places.len() / 2 + timer;
        self.places[place] = key(timer, at);
        while place > 1 {
            let first = self.places[place].min(self.places[place ^ 1]);
            place /= 2;
            self.places[place] = first;
        }
    }

    /// The timer fires at `at` or before.
    #[inline]
    pub fn arm(&mut self, timer: usize, at: Instant) {
        let size = self.places.len() / 2;
        if timer >= size {
            self.grow(timer + 1);
            return self.arm(timer, at);
        }
        // An earlier time goes up as far as it is the first, and needs no look at the others.
        let (key, mut place) = (key(timer, at.as_nanos()), size + timer);
        while place > 0 && key < self.places[place] {
            self.places[place] = key;
            place /= 2;
        }
    }

    /// The time at which the first timer fires, in nanoseconds; [`NEVER`] if none will.
    #[inline]
    pub fn next(&self) -> u64 {
        (self.places[1] >> 64) as u64
    }

    /// The timer that fires first, when there is one.
    #[inline]
    pub fn first(&self) -> usize {
        self.places[1] as u64 as usize
    }

    /// The timer does not fire.
    #[inline]
    pub fn disarm(&mut self, timer: usize) {
        self.set(timer, NEVER);
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
            t.disarm(fired.1);
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
            t.disarm(t.first());
        }
        assert!(fired.is_sorted() && fired.len() == 1000);
    }
}
