//! Congestion control in the senders' kernel: its own algorithms, or ours, loaded for the run.

use std::collections::HashMap;
use std::net::SocketAddr;

use fullpipe_scenario::{Cc, KernelCc};

use crate::backend::RunError;

/// The congestion controls of a run's flows.
pub(super) struct Controls {
    /// Each once.
    all: Vec<(Cc, Control)>,
    /// Of each flow, its place in the list; nothing of one that is not ours.
    places: Vec<Option<usize>>,
}

/// A congestion control that the kernel has as long as this lives.
struct Control {
    name: KernelCc,
    /// Ours: out of the kernel again when this is dropped. Connections keep it until they close.
    #[cfg(feature = "kernel")]
    loaded: Option<fullpipe_bpf::kernel::Loaded>,
}

impl Controls {
    /// Loads what is not in the kernel.
    pub(super) fn of(flows: impl Iterator<Item = Option<Cc>>) -> Result<Self, RunError> {
        let mut all: Vec<(Cc, Control)> = Vec::new();
        let mut places = Vec::new();
        for cc in flows {
            let Some(cc) = cc else {
                places.push(None);
                continue;
            };
            let place = match all.iter().position(|(known, _)| *known == cc) {
                Some(place) => place,
                None => {
                    all.push((cc, Control::of(cc)?));
                    all.len() - 1
                }
            };
            places.push(Some(place));
        }
        Ok(Self { all, places })
    }

    /// By which a flow's socket asks for its own.
    pub(super) fn name(&self, flow: usize) -> Option<KernelCc> {
        self.places[flow].map(|place| self.all[place].1.name)
    }

    /// The place of a flow's control among the controls.
    pub(super) fn place(&self, flow: usize) -> Option<usize> {
        self.places[flow]
    }

    /// The states of connections by their control and their remote end, where they can be told.
    pub(super) fn states(&self) -> HashMap<(usize, SocketAddr), &'static str> {
        let each = self.all.iter().enumerate();
        each.flat_map(|(i, (_, control))| {
            control.states().into_iter().map(move |(remote, state)| ((i, remote), state))
        })
        .collect()
    }
}

/// Checks that one of ours can be loaded here.
#[cfg(feature = "kernel")]
pub(super) fn check(_: Cc) -> Result<(), RunError> {
    Ok(fullpipe_bpf::kernel::check()?)
}

/// This program was built without.
#[cfg(not(feature = "kernel"))]
pub(super) fn check(cc: Cc) -> Result<(), RunError> {
    Err(RunError::BuiltWithoutKernel(cc))
}

#[cfg(feature = "kernel")]
impl Control {
    fn of(cc: Cc) -> Result<Self, RunError> {
        use std::sync::atomic::{AtomicU32, Ordering};

        use fullpipe_bpf::kernel::{Error, Options, load};

        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if let Cc::Kernel(name) = cc {
            return Ok(Self { name, loaded: None });
        }
        // All namespaces share the kernel's names: this one is the run's alone.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 100;
        let amended = matches!(cc.algorithm(), Some(fullpipe_cc::Algorithm::Bbr3xLinux(_)));
        // With the largest id of a process as long as a name may be.
        let flavour = if amended { "bbr3x" } else { "bbr3_" };
        let name = format!("{flavour}{}_{number}", std::process::id());
        let kernel_name = KernelCc::named(&name).ok_or_else(|| Error::BadName(name.clone()))?;
        let loaded = load(&Options { name, amended, ..Options::default() })?;
        Ok(Self { name: kernel_name, loaded: Some(loaded) })
    }

    fn states(&self) -> Vec<(SocketAddr, &'static str)> {
        let connections = self.loaded.as_ref().and_then(|loaded| loaded.connections().ok());
        connections.into_iter().flatten().map(|c| (c.remote, c.state)).collect()
    }
}

#[cfg(not(feature = "kernel"))]
impl Control {
    fn of(cc: Cc) -> Result<Self, RunError> {
        match cc {
            Cc::Kernel(name) => Ok(Self { name }),
            Cc::Program(_) | Cc::Stack(_) | Cc::Foreign => Err(RunError::BuiltWithoutKernel(cc)),
        }
    }

    /// The kernel's own algorithms do not tell theirs.
    fn states(&self) -> Vec<(SocketAddr, &'static str)> {
        Vec::new()
    }
}
