//! Distributions of jitter: the shapes that Linux's netem has, and that of a busy Wi-Fi channel.

use fullpipe_units::{Duration, Instant};

use crate::probability::RandomSource;
use crate::schedule::Schedule;
use crate::{Probability, Series};

/// The shape of a jitter's distribution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Distribution {
    /// All values from 0 to the spread are equally likely.
    #[default]
    Uniform,
    /// The spread is the standard deviation. The values end four of them from the mean, as those of
    /// netem's table do, and begin at 0: the mean is 4 spreads and the most 8.
    Normal,
    /// Pareto's with the shape 3, scaled as netem's table: `4/3 * (u^(-1/3) - 1)` spreads for a
    /// uniform `u`, cut at `4 + 2/3`. The mean is 0.634 spreads.
    Pareto,
    /// The access to a busy Wi-Fi channel, as the C4 project's tests model it (picoquic's
    /// `sim_link.c`). A packet waits for a Poisson number of slots of 1 ms, on average one, of which
    /// the last is cut by up to 1 ms. Of the packets a share of (spread - 1 ms) / 84 ms waits for a
    /// Poisson number of collisions of 7.5 ms too, on average twelve. The spread is nearly the
    /// mean: 0.684 ms is the least, but for a spread of 0, which is no delay, and 87 ms the most. It has no
    /// correlation.
    Wifi,
}

/// Delay by chance, which a path's own delay is the least of: 0 and more.
///
/// netem's jitter (tc-netem(8)) lies around its delay instead: its `delay 20ms 2ms distribution
/// normal` is a delay of 12 ms, and a jitter with a spread of 2 ms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JitterConfig {
    /// Scale of the distribution.
    pub spread: Duration,
    /// Its shape.
    pub distribution: Distribution,
    /// Share of the last packet's random number in the next one's, as netem computes it: `(1 - r) *
    /// new + r * last`. The numbers then are correlated by this much, and lie closer together: the
    /// variance of a uniform jitter is `(1 - r) / (1 + r)` of the one without.
    pub correlation: Probability,
}

impl From<Duration> for JitterConfig {
    /// A uniform jitter up to this.
    fn from(spread: Duration) -> Self {
        Self { spread, distribution: Distribution::Uniform, correlation: Probability::ZERO }
    }
}

impl JitterConfig {
    /// The longest delay.
    pub fn most(&self) -> Duration {
        match self.distribution.table() {
            None if self.distribution == Distribution::Wifi => {
                let slots = SLOT.times(SLOTS.len() as u64);
                slots + COLLISION.times(COLLISIONS.len() as u64)
            }
            None => self.spread,
            Some(table) => scaled(self.spread, u64::from(table[CELLS]) << 16),
        }
    }
}

/// Draws one delay after the other.
#[derive(Debug)]
pub(crate) struct Jitter {
    configs: Schedule<JitterConfig>,
    /// The last number, where the next one depends on it.
    last: Option<u64>,
    dice: RandomSource,
}

impl Jitter {
    pub(crate) fn new(config: JitterConfig, dice: RandomSource) -> Self {
        Self::changing(Schedule::new(&[(Duration::ZERO, config)]), dice)
    }

    pub(crate) fn series(series: &Series<JitterConfig>, dice: RandomSource) -> Self {
        Self::changing(Schedule::of(series), dice)
    }

    fn changing(configs: Schedule<JitterConfig>, dice: RandomSource) -> Self {
        Self { configs, last: None, dice }
    }

    /// The delay of a packet that comes `now`.
    pub(crate) fn draw(&mut self, now: Instant) -> Duration {
        let config = self.configs.at(now);
        if config.distribution == Distribution::Wifi {
            return wifi(config.spread, &mut self.dice);
        }
        let number = if config.correlation > Probability::ZERO {
            let last = self.last.unwrap_or_else(|| self.dice.draw());
            let number = config.correlation.between(self.dice.draw(), last);
            self.last = Some(number);
            number
        } else {
            self.dice.draw()
        };
        match config.distribution.table() {
            None => RandomSource::share(number, config.spread),
            Some(table) => scaled(config.spread, quantile(table, number)),
        }
    }
}

/// A slot of a Wi-Fi channel, and the time that a collision costs.
const SLOT: Duration = Duration::from_millis(1);
const COLLISION: Duration = Duration::from_micros(7500);

/// The spread beyond a slot at which each packet would meet collisions.
const EACH_COLLIDES_NS: u64 = 84_000_000;

/// Probabilities of at most 0, 1 and so on, in units of 2^-63, of a Poisson number.
static SLOTS: [u64; 24] = poisson(0.367_879_441_171_442_33, 1.0);
static COLLISIONS: [u64; 64] = poisson(6.144_212_353_328_21e-6, 12.0);

/// `none` is the probability of 0.
const fn poisson<const N: usize>(none: f64, mean: f64) -> [u64; N] {
    let mut table = [0; N];
    let (mut one, mut sum, mut n) = (none, none, 0);
    while n < N {
        table[n] = (sum * (1_u64 << 63) as f64) as u64;
        n += 1;
        one *= mean / n as f64;
        sum += one;
    }
    table
}

fn wifi(spread: Duration, dice: &mut RandomSource) -> Duration {
    if spread == Duration::ZERO {
        return Duration::ZERO;
    }
    let slots = waits(&SLOTS, SLOT, 1, dice);
    let beyond = (spread - SLOT).as_nanos();
    let collides =
        u128::from(dice.draw()) * u128::from(EACH_COLLIDES_NS) < u128::from(beyond) << 63;
    if collides { slots + waits(&COLLISIONS, COLLISION, 2, dice) } else { slots }
}

/// A random number of these times, of which the last is cut where there are so many.
fn waits(table: &[u64], time: Duration, cut_from: u64, dice: &mut RandomSource) -> Duration {
    let number = dice.draw();
    let number = table.partition_point(|p| *p <= number) as u64;
    let cut =
        if number < cut_from { Duration::ZERO } else { RandomSource::share(dice.draw(), time) };
    time.times(number) - cut
}

/// Spreads in units of 2^-32.
fn scaled(spread: Duration, by: u64) -> Duration {
    let nanos = (u128::from(spread.as_nanos()) * u128::from(by)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Parts of probability between the table's entries, which are on straight lines.
const CELLS: usize = 4096;

/// The quantiles of 0, 1/4096 and so on, in units of 2^-16 spreads.
type Table = [u32; CELLS + 1];

/// The quantile of a number of 63 bits, in units of 2^-32.
fn quantile(table: &Table, number: u64) -> u64 {
    const REST: u32 = 63 - CELLS.ilog2();
    let (cell, rest) = ((number >> REST) as usize, (number & ((1 << REST) - 1)) >> (REST - 16));
    let (low, high) = (u64::from(table[cell]), u64::from(table[cell + 1]));
    (low << 16) + (high - low) * rest
}

impl Distribution {
    fn table(self) -> Option<&'static Table> {
        match self {
            Self::Uniform | Self::Wifi => None,
            Self::Normal => Some(&NORMAL),
            Self::Pareto => Some(&PARETO),
        }
    }
}

/// Made by the compiler, whose floating point is the same on every machine.
static NORMAL: Table = normal();
static PARETO: Table = pareto();

/// netem's tables have 16 bits, of which 2^13 are one spread.
const CUT: f64 = 4.0;

const fn in_units(spreads: f64) -> u32 {
    (spreads * 65_536.0 + 0.5) as u32
}

/// The inverse of the integral of the density, which is summed up in steps from the middle on.
const fn normal() -> Table {
    const STEP: f64 = 1.0 / 2048.0;
    const INVERSE_SQRT_2_PI: f64 = 0.398_942_280_401_432_7;
    // e^(-s^2/2) of so small an s^2/2 is the beginning of its series.
    let a = STEP * STEP / 2.0;
    let first = 1.0 - a + a * a / 2.0 - a * a * a / 6.0;
    let mut table = [0; CELLS + 1];
    let (mut x, mut share) = (0.0, 0.5);
    // The density at x without its constant, and by how much it falls within the next step.
    let (mut density, mut falls) = (1.0, first);
    let mut cell = CELLS / 2;
    while cell <= CELLS {
        let want = cell as f64 / CELLS as f64;
        let mut at = CUT;
        while x < CUT {
            let next = density * falls;
            let grows = INVERSE_SQRT_2_PI * STEP * (density + next) / 2.0;
            if share + grows >= want {
                at = x + STEP * (want - share) / grows;
                break;
            }
            share += grows;
            density = next;
            falls *= first * first;
            x += STEP;
        }
        table[cell] = in_units(CUT + at);
        table[CELLS - cell] = in_units(CUT - at);
        cell += 1;
    }
    table
}

const fn pareto() -> Table {
    let most = CUT + 2.0 / 3.0;
    let mut table = [in_units(most); CELLS + 1];
    let mut cell = 0;
    while cell < CELLS {
        let inverse = CELLS as f64 / (CELLS - cell) as f64;
        // The cube root, by Newton's method.
        let mut root = 1.0 + inverse / 16.0;
        let mut round = 0;
        while round < 40 {
            root = (2.0 * root + inverse / (root * root)) / 3.0;
            round += 1;
        }
        let at = (root - 1.0) * 4.0 / 3.0;
        if at >= most {
            break;
        }
        table[cell] = in_units(at);
        cell += 1;
    }
    table
}
