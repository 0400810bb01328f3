//! Programs of other people's on a path: in a namespace of their own behind a TUN link, or over UDP
//! through a relay.
//!
//! The path model sees every packet, and nothing of the program: all figures are the wire's.

pub mod judge;
mod options;
mod page;
mod path;
mod place;
mod record;
mod result;
#[cfg(target_os = "linux")]
mod rival;
mod run;
mod server;
mod watch;

pub use fullpipe_emu::{Rebinding, Rebound};
pub use options::PathOptions;
pub use page::{drawing, page};
pub use path::ProgramPath;
pub use place::{Link, ProgramPlace, check, check_inside};
pub use record::{Fate, MOST_PACKETS, WirePacket, WireRecord};
pub use result::{Ended, PcapResult, ProgramResult, RelayResult, ServerResult, WayResult, table};
#[cfg(target_os = "linux")]
pub use rival::Rival;
pub use run::{Beside, ProgramRequest, RivalWay, run, settle, surround};
pub use server::listening;
pub use watch::{ProgramSample, Watch};

/// The variable of the command's environment that has the address behind the path: of this machine,
/// inside another link of the outermost machine, or of the relay.
pub const HOST_VARIABLE: &str = "FULLPIPE_HOST";

/// Placeholder for that address in the command's arguments.
pub const HOST_PLACE: &str = "{host}";

/// The variable that has the IPv6 address, if the path is between namespaces.
pub const HOST6_VARIABLE: &str = "FULLPIPE_HOST6";

/// Placeholder for the IPv6 address in the command's arguments.
pub const HOST6_PLACE: &str = "{host6}";

/// Placeholder for a port in the command's arguments and in the server's command line: the relay's,
/// or [`SERVER_PORT`] with a server of the run's own.
pub const PORT_PLACE: &str = "{port}";

/// The port of a server that a run starts. Nobody else has one there: a server has a namespace of
/// its own.
pub const SERVER_PORT: u16 = 5201;
