//! Programs of other people's on a path: in a namespace of their own behind a TUN link, or over UDP
//! through a relay.
//!
//! The path model sees every packet, and nothing of the program: all figures are the wire's.

#[cfg(target_os = "linux")]
mod competing_flow;
pub mod judge;
mod location;
mod options;
mod packet_log;
mod page;
mod path;
mod result;
mod run;
mod sampler;
mod server;

#[cfg(target_os = "linux")]
pub use competing_flow::CompetingFlow;
pub use fullpipe_emu::{Rebinding, Rebound};
pub use location::{Link, ProgramPlace, check, check_inside};
pub use options::PathOptions;
pub use packet_log::{Fate, MOST_PACKETS, WirePacket, WireRecord};
pub use page::{drawing, page, write_series_csv};
pub use path::ProgramPath;
pub use result::{Ended, PcapResult, ProgramResult, RelayResult, ServerResult, WayResult, table};
pub use run::{Beside, CompetingDirection, ProgramRequest, run, settle, surround};
pub use sampler::{ProgramSample, Watch};
pub use server::listening;

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
