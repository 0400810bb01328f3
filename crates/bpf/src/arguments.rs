//! Arguments and help of the program, once for `fullpipe kernel` and for `fullpipe-bbr3`.

use std::path::PathBuf;

/// Options of loading the program.
#[derive(clap::Args, Clone, Debug)]
pub struct Load {
    /// The algorithms: bbr3, bbr3x, or both [default: bbr3]
    #[arg(value_name = "ALGORITHM", value_parser = ["bbr3", "bbr3x"])]
    pub algorithms: Vec<String>,
    /// The name by which TCP knows it, if there is only one [default: the algorithm's]
    #[arg(long)]
    pub name: Option<String>,
    /// The same as bbr3x for ALGORITHM
    #[arg(long, conflicts_with = "algorithms")]
    pub amended: bool,
    /// Make it the default of new connections; of two algorithms, the first. The default of before
    /// comes back afterwards
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

/// The subcommands that both commands have.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Handle {
    /// Show what is loaded, and the model of every connection that uses it
    Status {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// The numbers of connections, by reason also those that run as Reno, for Prometheus
    Metrics,
    /// Give new connections of a cgroup a congestion control, until `unload`
    ///
    /// Connections that begin in the cgroup, or in one below it, have the algorithm from their
    /// first round trip after the handshake, whoever opened them. A program that chooses for its
    /// socket keeps its choice. Of nested cgroups the innermost counts.
    Use {
        /// The name by which TCP knows it: bbr3, or one of the kernel's own
        #[arg(required_unless_present = "off")]
        algorithm: Option<String>,
        /// Directory of the cgroup (version 2)
        #[arg(long, value_name = "PATH")]
        cgroup: PathBuf,
        /// Only connections that have one of these ports at either end
        #[arg(long = "port", value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
        ports: Vec<u16>,
        /// End it: new connections of the cgroup have the default again
        #[arg(long, conflicts_with = "ports")]
        off: bool,
    },
    /// Take out what is pinned, and undo what cgroups use; connections keep it until they close
    Unload {
        /// The name of one; without it, all
        name: Option<String>,
    },
}

impl Handle {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Metrics => "metrics",
            Self::Use { .. } => "use",
            Self::Unload { .. } => "unload",
        }
    }
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
mod run {
    use super::{Handle, Load};
    use crate::kernel::cgroup::{self, Use};
    use crate::kernel::{self, DEFAULT_NAME, DEFAULT_NAME_AMENDED, Error, Loaded, Options};

    impl Load {
        /// The same for the loader, for each algorithm; with `pin` they stay in the kernel after
        /// the process.
        ///
        /// # Errors
        ///
        /// [`Error::OneName`] for two.
        pub fn options(&self, pin: bool) -> Result<Vec<Options>, Error> {
            let mut algorithms: Vec<&str> = self.algorithms.iter().map(|name| &**name).collect();
            if algorithms.is_empty() {
                algorithms.push(if self.amended { DEFAULT_NAME_AMENDED } else { DEFAULT_NAME });
            }
            algorithms.dedup();
            if algorithms.len() > 1 && self.name.is_some() {
                return Err(Error::OneName);
            }
            let options = algorithms.iter().enumerate().map(|(number, algorithm)| Options {
                name: self.name.clone().unwrap_or_else(|| (*algorithm).to_owned()),
                amended: *algorithm == DEFAULT_NAME_AMENDED,
                default: self.default && number == 0,
                pin,
                low_latency_ecn: self.low_latency_ecn,
                max_connections: self.max_connections,
            });
            Ok(options.collect())
        }
    }

    /// Loads all, or none.
    ///
    /// # Errors
    ///
    /// The [`Error`] of the first that cannot be loaded.
    pub fn load(all: &[Options]) -> Result<Vec<Loaded>, Error> {
        let mut loaded = Vec::new();
        for options in all {
            match kernel::load(options) {
                Ok(one) => loaded.push(one),
                Err(error) => {
                    for earlier in all.iter().take(loaded.len()).filter(|earlier| earlier.pin) {
                        // The error that began this is the one to tell.
                        let _ = kernel::unload(Some(&earlier.name));
                    }
                    return Err(error);
                }
            }
        }
        Ok(loaded)
    }

    impl Handle {
        /// Does it, and returns what is to be said.
        ///
        /// # Errors
        ///
        /// The [`Error`] of what was asked for.
        pub fn run(&self) -> Result<String, Error> {
            Ok(match self {
                Self::Status { json: true } => kernel::status()?.json(),
                Self::Status { json: false } => kernel::status()?.to_string(),
                Self::Metrics => kernel::status()?.metrics(),
                Self::Use { algorithm, cgroup, off: true, .. } => {
                    let ended = cgroup::end(cgroup, algorithm.as_deref())?;
                    ended.iter().map(|ended| format!("no more {ended}\n")).collect()
                }
                Self::Use { algorithm, cgroup, ports, off: false } => {
                    let algorithm = algorithm.clone().unwrap_or_default();
                    let wanted = Use { algorithm, cgroup: cgroup.clone(), ports: ports.clone() };
                    format!("{}\n", cgroup::begin(&wanted)?)
                }
                Self::Unload { name } => kernel::unload(name.as_deref())?.to_string(),
            })
        }
    }

    /// The words after loading.
    pub fn loaded(all: &[Options]) -> String {
        let line = |options: &Options| {
            let default = if options.default { ", and the default of new connections" } else { "" };
            format!("{} is in the kernel{default}\n", options.name)
        };
        all.iter().map(line).collect()
    }

    /// A warning of what the kernel's TCP has that this program does not know.
    pub fn warning() -> Option<String> {
        let unknown = kernel::unknown_operations().unwrap_or_default();
        let text = "this kernel's TCP has operations that are newer";
        (!unknown.is_empty()).then(|| format!("{text}: {}", unknown.join(", ")))
    }
}

#[cfg(all(feature = "kernel", target_os = "linux"))]
pub use run::{load, loaded, warning};
