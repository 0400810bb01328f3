//! Algorithms of other crates, behind the feature `custom`.

use alloc::boxed::Box;
use core::fmt::{self, Debug};
use core::ops::{Deref, DerefMut};

use crate::algo::CongestionControl;
use crate::config::Config;
use crate::conn::Conn;
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

/// One at work.
#[derive(Debug)]
pub(crate) struct Custom(Box<dyn CustomControl>);

impl Custom {
    pub(crate) fn new(
        algorithm: &'static CustomAlgorithm,
        conn: &mut Conn,
        now: Instant,
        config: &Config,
    ) -> Self {
        Self((algorithm.new)(conn, now, config))
    }

    pub(crate) fn into_control(self) -> Box<dyn CustomControl> {
        self.0
    }
}

impl Clone for Custom {
    fn clone(&self) -> Self {
        // Not the box's own: a box is a type that can be cloned, too.
        Self((*self.0).clone_box())
    }
}

impl Deref for Custom {
    type Target = dyn CustomControl;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Custom {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}
