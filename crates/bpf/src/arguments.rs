//! The options of loading, as clap takes them from a command line.

/// Options of loading the program.
#[derive(clap::Args, Clone, Debug)]
pub struct Load {
    /// The name by which TCP knows it
    #[arg(long, default_value = "bbr3")]
    pub name: String,
    /// Make it the default of new connections; what was the default comes back afterwards
    #[arg(long)]
    pub default: bool,
    /// Respond to CE marks: they mean a queue of well under a millisecond on every path of this machine
    #[arg(long)]
    pub low_latency_ecn: bool,
    /// Connections that may have its state, 8 KB each; those above it go on as Reno
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    pub max_connections: u32,
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
impl Load {
    /// The same for the loader; with `pin` it stays in the kernel after the process.
    pub fn options(&self, pin: bool) -> crate::kernel::Options {
        crate::kernel::Options {
            name: self.name.clone(),
            default: self.default,
            pin,
            low_latency_ecn: self.low_latency_ecn,
            max_connections: self.max_connections,
        }
    }
}
