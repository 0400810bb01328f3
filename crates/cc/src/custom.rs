//! Algorithms of other crates, behind the feature `custom`.

use alloc::boxed::Box;
use core::fmt::{self, Debug};
use core::ops::{Deref, DerefMut};

use crate::algo::CongestionControl;
#[cfg(feature = "bbr1")]
use crate::bbr1::Bbr1;
#[cfg(any(
    feature = "bbr3",
    feature = "bbr3x",
    feature = "bbr3-linux",
    feature = "bbr3x-linux",
    feature = "bbr-swift"
))]
use crate::bbr3::{Bbr3, Draft, DraftAmended, DraftSwift, Linux, LinuxAmended};
use crate::config::{Algorithm, Config, CubicRules};
use crate::conn::Conn;
#[cfg(feature = "cubic")]
use crate::cubic::Cubic;
#[cfg(feature = "cubic")]
use crate::cubic_linux::LinuxCubic;
use crate::fixed::Fixed;
#[cfg(feature = "prague")]
use crate::prague::Prague;
#[cfg(feature = "reno")]
use crate::reno::Reno;
use crate::units::Instant;

/// An algorithm of another crate. Make it a `static` and choose it as [`crate::Algorithm::Custom`].
///
/// ```
/// use fullpipe_cc::{
///     Algorithm, Config, CongestionControl, Conn, Controller, CustomAlgorithm, Instant, RateSample,
///     Snapshot, State,
/// };
///
/// /// One packet more in each round trip, and nothing else.
/// #[derive(Clone, Debug)]
/// struct Additive;
///
/// impl CongestionControl for Additive {
///     fn on_ack(&mut self, conn: &mut Conn, rs: &RateSample) {
///         conn.set_cwnd(conn.cwnd() + conn.smss() * rs.newly_acked / conn.cwnd());
///     }
///     fn snapshot(&self, conn: &Conn) -> Snapshot {
///         Snapshot::of(conn, "additive", State::CongestionAvoidance)
///     }
/// }
///
/// static ADDITIVE: CustomAlgorithm =
///     CustomAlgorithm { name: "additive", new: &|_conn, _now, _config| Box::new(Additive) };
///
/// let now = Instant::default();
/// let mut cc = Controller::new(Algorithm::Custom(&ADDITIVE), Config::new(17), now);
/// let packet = cc.on_sent(now, 1200);
/// let mut ack = cc.ack(now + fullpipe_cc::Duration::from_millis(40));
/// ack.acked(&packet);
/// ack.finish();
/// assert_eq!(cc.cwnd(), 12_000 + 120);
/// ```
pub struct CustomAlgorithm {
    /// Its name, which no other algorithm has.
    pub name: &'static str,
    /// Makes one for a flow that starts now, and sets the first control parameters of the
    /// connection.
    pub new: &'static NewControl,
}

/// Function that makes a custom algorithm for a flow.
pub type NewControl = dyn Fn(&mut Conn, Instant, &Config) -> Box<dyn CustomControl> + Send + Sync;

impl Debug for CustomAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomAlgorithm").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for CustomAlgorithm {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for CustomAlgorithm {}

/// Traits that a custom algorithm needs besides [`CongestionControl`]; implemented for every one
/// that can be cloned, printed and sent to another thread.
pub trait CustomControl: CongestionControl + Debug + Send + Sync {
    /// A copy of it.
    fn clone_box(&self) -> Box<dyn CustomControl>;
}

impl<T: CongestionControl + Clone + Debug + Send + Sync + 'static> CustomControl for T {
    fn clone_box(&self) -> Box<dyn CustomControl> {
        Box::new(self.clone())
    }
}

/// One of this crate's algorithms by itself, for a custom one that does most as it does: what it
/// sets in the connection can be changed after each call.
pub fn built_in(
    algorithm: Algorithm,
    conn: &mut Conn,
    now: Instant,
    config: &Config,
) -> Box<dyn CustomControl> {
    match algorithm {
        #[cfg(feature = "bbr3")]
        Algorithm::Bbr3 => Box::new(Bbr3::<Draft>::new(conn, now, config)),
        #[cfg(feature = "bbr3x")]
        Algorithm::Bbr3x => Box::new(Bbr3::<DraftAmended>::new(conn, now, config)),
        #[cfg(feature = "bbr3-linux")]
        Algorithm::Bbr3Linux => Box::new(Bbr3::<Linux>::new(conn, now, config)),
        #[cfg(feature = "bbr3x-linux")]
        Algorithm::Bbr3xLinux => Box::new(Bbr3::<LinuxAmended>::new(conn, now, config)),
        #[cfg(feature = "bbr-swift")]
        Algorithm::BbrSwift => Box::new(Bbr3::<DraftSwift>::new(conn, now, config)),
        #[cfg(feature = "prague")]
        Algorithm::Prague => Box::new(Prague::new(conn, now, config)),
        #[cfg(feature = "bbr1")]
        Algorithm::Bbr1 => Box::new(Bbr1::new(conn, now, config)),
        #[cfg(feature = "cubic")]
        Algorithm::Cubic if config.cubic == CubicRules::Linux => Box::new(LinuxCubic::new(now)),
        #[cfg(feature = "cubic")]
        Algorithm::Cubic => Box::new(Cubic::new(conn)),
        #[cfg(feature = "reno")]
        Algorithm::Reno => Box::new(Reno::new(conn)),
        Algorithm::Fixed(rate) => Box::new(Fixed::new(conn, rate)),
        Algorithm::Custom(custom) => (custom.new)(conn, now, config),
    }
}

/// One at work.
#[derive(Debug)]
pub(crate) struct Custom {
    pub(crate) algorithm: &'static CustomAlgorithm,
    control: Box<dyn CustomControl>,
}

impl Custom {
    pub(crate) fn new(
        algorithm: &'static CustomAlgorithm,
        conn: &mut Conn,
        now: Instant,
        config: &Config,
    ) -> Self {
        Self { algorithm, control: (algorithm.new)(conn, now, config) }
    }
}

impl Clone for Custom {
    fn clone(&self) -> Self {
        // Not the box's own: a box is a type that can be cloned, too.
        Self { algorithm: self.algorithm, control: (*self.control).clone_box() }
    }
}

impl Deref for Custom {
    type Target = dyn CustomControl;
    fn deref(&self) -> &Self::Target {
        &*self.control
    }
}

impl DerefMut for Custom {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.control
    }
}
