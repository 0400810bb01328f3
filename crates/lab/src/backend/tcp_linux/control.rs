//! What the senders' kernel runs: an algorithm that it has, or ours, which is in it for the run.

use std::net::SocketAddr;

use crate::backend::RunError;
#[cfg(not(feature = "kernel"))]
use crate::scenario::ScenarioError;
use crate::scenario::{Cc, KernelCc};

/// A congestion control that the kernel has as long as this lives.
pub(super) struct Control {
    name: KernelCc,
    /// Ours: out of the kernel again when this is dropped. Connections keep it until they close.
    #[cfg(feature = "kernel")]
    loaded: Option<fullpipe_bpf::kernel::Loaded>,
}

/// Whether one of ours can be loaded here.
#[cfg(feature = "kernel")]
pub(super) fn check(_: Cc) -> Result<(), RunError> {
    Ok(fullpipe_bpf::kernel::check()?)
}

/// This program was built without.
#[cfg(not(feature = "kernel"))]
pub(super) fn check(cc: Cc) -> Result<(), RunError> {
    Err(ScenarioError::BuiltWithoutKernel(cc).into())
}

#[cfg(feature = "kernel")]
impl Control {
    pub(super) fn of(cc: Cc) -> Result<Self, RunError> {
        use std::sync::atomic::{AtomicU32, Ordering};

        use fullpipe_bpf::kernel::{Error, Options, load};

        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if let Cc::Kernel(name) = cc {
            return Ok(Self { name, loaded: None });
        }
        // All namespaces share the kernel's names: this one is the run's alone.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed) % 100;
        let name = format!("bbr3_{}_{number}", std::process::id());
        let kernel_name = KernelCc::named(&name).ok_or_else(|| Error::BadName(name.clone()))?;
        let loaded = load(&Options { name, ..Options::default() })?;
        Ok(Self { name: kernel_name, loaded: Some(loaded) })
    }

    /// The state of the connection to `remote`, where it can be told.
    pub(super) fn state_of(&self, remote: SocketAddr) -> Option<&'static str> {
        let connections = self.loaded.as_ref()?.connections().ok()?;
        connections.into_iter().find(|c| c.remote == remote).map(|c| c.state)
    }
}

#[cfg(not(feature = "kernel"))]
impl Control {
    pub(super) fn of(cc: Cc) -> Result<Self, RunError> {
        match cc {
            Cc::Kernel(name) => Ok(Self { name }),
            Cc::Program(_) => Err(ScenarioError::BuiltWithoutKernel(cc).into()),
        }
    }

    /// The kernel's own algorithms do not tell theirs.
    pub(super) fn state_of(&self, _: SocketAddr) -> Option<&'static str> {
        None
    }
}

impl Control {
    /// By which a socket asks for it.
    pub(super) fn name(&self) -> KernelCc {
        self.name
    }
}
