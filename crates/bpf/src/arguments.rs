//! The options of loading, as clap takes them from a command line.

/// Options of loading the program.
#[derive(clap::Args, Clone, Debug)]
pub struct Load {
    /// The name by which TCP knows it [default: bbr3, with --amended bbr3x]
    #[arg(long)]
    pub name: Option<String>,
    /// With the amendments of bbr3x
    #[arg(long)]
    pub amended: bool,
    /// Make it the default of new connections; what was the default comes back afterwards
    #[arg(long)]
    pub default: bool,
    /// Respond to CE marks: they mean a queue of well under a millisecond on every path of this
    /// machine
    #[arg(long)]
    pub low_latency_ecn: bool,
    /// Connections that may have its state, 8 KB each; those above it go on as Reno
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
impl Load {
    /// The same for the loader; with `pin` it stays in the kernel after the process.
    pub fn options(&self, pin: bool) -> crate::kernel::Options {
        use crate::kernel::{DEFAULT_NAME, DEFAULT_NAME_AMENDED};

        let name = if self.amended { DEFAULT_NAME_AMENDED } else { DEFAULT_NAME };
        crate::kernel::Options {
            name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            amended: self.amended,
            default: self.default,
            pin,
            low_latency_ecn: self.low_latency_ecn,
            max_connections: self.max_connections,
        }
    }
}
