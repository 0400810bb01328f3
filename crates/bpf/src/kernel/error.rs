//! Errors, each in one line that says what would be right.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The reason why the program was not loaded, shown or unloaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// TCP takes no such name.
    #[error("`{}` is no name for a congestion control: 1 to 15 letters, digits, - or _", .0.escape_debug())]
    BadName(String),
    /// The name is another's.
    #[error("this kernel has a congestion control {0} already: choose another name with --name")]
    NameTaken(String),
    /// It is pinned by this name.
    #[error(
        "{0} is loaded already: `status` shows it, `unload` makes room for another build of it, --name gives a second one another name"
    )]
    AlreadyLoaded(String),
    /// Nothing by this name to unload.
    #[error("no {0} is pinned: `status` shows what is")]
    NotPinnedBy(String),
    /// Nothing to unload.
    #[error(
        "nothing is pinned: what was loaded without --pin ends with the process that loaded it"
    )]
    NotPinned,
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no type information (/sys/kernel/btf/vmlinux): one with CONFIG_DEBUG_INFO_BTF=y is needed"
    )]
    NoBtf,
    /// The kernel takes no congestion control from BPF.
    #[error(
        "this kernel takes no congestion control from BPF: Linux 6.4 or later with CONFIG_BPF_JIT=y is needed"
    )]
    NoStructOps,
    /// The kernel is older than what the program needs.
    #[error("this is Linux {release}: 6.4 or later is needed to load a congestion control")]
    TooOld {
        /// As uname says it.
        release: String,
    },
    /// The kernel's TCP calls its congestion control in a way that this program does not know.
    #[error("this kernel's TCP calls {operation}{found}; this program knows it as {known}")]
    OtherSignature {
        /// The operation of tcp_congestion_ops.
        operation: &'static str,
        /// Its arguments.
        found: String,
        /// The arguments with which it was written.
        known: String,
    },
    /// The kernel's TCP is that of google/bbr, branch v3.
    #[error(
        "this kernel's TCP is patched for BBRv3 (it calls tso_segs for min_tso_segs): its own congestion control bbr is BBRv3 already"
    )]
    PatchedForBbr3,
    /// Pins need the file system.
    #[error(
        "/sys/fs/bpf is not mounted, which --pin needs: mount -t bpf -o mode=700 bpf /sys/fs/bpf"
    )]
    NoBpfFileSystem,
    /// Not root.
    #[error(
        "loading a congestion control needs root (CAP_BPF and CAP_PERFMON, for --default also CAP_NET_ADMIN)"
    )]
    NotRoot,
    /// Not root, to look.
    #[error("only root (CAP_SYS_ADMIN) sees which programs are in the kernel")]
    NotAdmin,
    /// A limit of none.
    #[error("--max-connections 0 leaves every connection to Reno: 1 or more")]
    BadLimit,
    /// One name for two programs.
    #[error("--name is the name of one: load bbr3 and bbr3x by one command each")]
    OneName,
    /// One of the two capabilities is there.
    #[error("loading a congestion control needs CAP_BPF and CAP_PERFMON; this process lacks {0}")]
    Lacks(&'static str),
    /// The object is not what this program was built with.
    #[error("the embedded program is not as this loader knows it: build fullpipe anew")]
    NoName,
    /// The kernel refused the program.
    #[error("the kernel refused the program: {0:#} (FULLPIPE_BPF_LOG=1 shows its log)")]
    Load(#[source] libbpf_rs::Error),
    /// The program does not tell of its connections.
    #[error("the program's connections cannot be read: {0}")]
    Connections(#[source] io::Error),
    /// The program does not say how many connections it has.
    #[error("the number of the program's connections cannot be read: {0:#}")]
    Usage(#[source] libbpf_rs::Error),
    /// The kernel does not count, or does not tell.
    #[error("the kernel does not tell what the program costs: {0}")]
    Cost(#[source] io::Error),
    /// No cgroup of version 2.
    #[error("{} is no directory of a cgroup of version 2{}", path.display(), where_they_are(mounted.as_deref()))]
    NoCgroup {
        /// As it was given.
        path: PathBuf,
        /// The place of all of them.
        mounted: Option<PathBuf>,
    },
    /// Ports that no connection has, or too many of them.
    #[error("--port takes 1 to {} ports, each from 1 to 65535", super::cgroup::MAX_PORTS)]
    BadPorts,
    /// TCP has no such algorithm.
    #[error("this kernel has no congestion control {name}; it has {known}, and `load` adds bbr3")]
    NoAlgorithm {
        /// As it was given.
        name: String,
        /// The algorithms that it has.
        known: String,
    },
    /// An earlier one would have the connections.
    #[error(
        "{} uses {earlier} already: end that with --off; of several the one for all ports comes last",
        cgroup.display()
    )]
    InUse {
        /// The cgroup.
        cgroup: PathBuf,
        /// The algorithm that it uses.
        earlier: String,
    },
    /// Nothing to end.
    #[error("{} uses nothing that could end: `status` shows what does", .0.display())]
    NotInUse(PathBuf),
    /// Not root, for a cgroup.
    #[error("this needs root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN); this process lacks {0}")]
    CgroupRights(String),
    /// A pin failed.
    #[error("cannot pin the program in /sys/fs/bpf/fullpipe: {0:#}")]
    Pin(#[source] libbpf_rs::Error),
    /// The pins cannot be made or removed.
    #[error("/sys/fs/bpf/fullpipe: {source}")]
    Pins {
        /// The system's error.
        source: io::Error,
    },
    /// The lock cannot be taken.
    #[error("/run/fullpipe-kernel.lock: {source}")]
    Lock {
        /// The system's error.
        source: io::Error,
    },
    /// The note of what the default was cannot be made or read.
    #[error("the note in /run/fullpipe of what the default was: {source}")]
    Note {
        /// The system's error.
        source: io::Error,
    },
    /// The note for the service's stop cannot be made.
    #[error("the note of what the service loaded (RUNTIME_DIRECTORY): {source}")]
    Service {
        /// The system's error.
        source: io::Error,
    },
    /// A sysctl cannot be read or written.
    #[error("{path}: {source}")]
    Sysctl {
        /// Its file.
        path: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Capabilities by their numbers in linux/capability.h. The last one stands for both others as
/// well.
const BPF: u32 = 39;
const PERFMON: u32 = 38;
const SYS_ADMIN: u32 = 21;
const NET_ADMIN: u32 = 12;

fn where_they_are(mounted: Option<&Path>) -> String {
    match mounted {
        Some(path) => format!(": they are in {}", path.display()),
        None => ": none are mounted (mount -t cgroup2 none DIRECTORY)".to_owned(),
    }
}

impl Error {
    /// True if what was asked for cannot be right, whatever the machine can do.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::BadName(_)
                | Self::BadLimit
                | Self::BadPorts
                | Self::OneName
                | Self::NoCgroup { .. }
                | Self::NoAlgorithm { .. }
        )
    }

    /// The reason why the kernel refused to load something. The kernel's error is the same for
    /// missing capabilities and for a program that it does not accept.
    pub(super) fn load(error: libbpf_rs::Error) -> Self {
        if error.kind() != libbpf_rs::ErrorKind::PermissionDenied {
            return Self::Load(error);
        }
        match (has(BPF), has(PERFMON)) {
            (true, true) => Self::Load(error),
            (true, false) => Self::Lacks("CAP_PERFMON"),
            (false, true) => Self::Lacks("CAP_BPF"),
            (false, false) => Self::NotRoot,
        }
    }
}

/// True if this thread may look at all programs of the system.
pub(super) fn is_admin() -> bool {
    has(SYS_ADMIN)
}

/// The capabilities for loading, and for `--default`, that this thread lacks.
pub(super) fn lacking() -> Vec<&'static str> {
    let of_loading = [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON")].into_iter();
    let lacking = of_loading.filter(|(capability, _)| !has(*capability));
    let effective = effective() >> NET_ADMIN & 1 == 1;
    let default = (!effective).then_some("CAP_NET_ADMIN");
    lacking.map(|(_, name)| name).chain(default).collect()
}

/// The capabilities for a cgroup's program that this thread lacks: the same ones, but for one that
/// stands for all.
pub(super) fn lacking_for_cgroups() -> Vec<&'static str> {
    let all = [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON"), (NET_ADMIN, "CAP_NET_ADMIN")];
    all.into_iter().filter(|(capability, _)| !has(*capability)).map(|(_, name)| name).collect()
}

/// True if this thread has a capability, or the one that stands for it.
fn has(capability: u32) -> bool {
    [capability, SYS_ADMIN].iter().any(|capability| effective() >> capability & 1 == 1)
}

/// The number of the first user namespace: PROC_USER_INIT_INO of linux/proc_ns.h. The kernel asks
/// for capabilities there.
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// True in a user namespace of somebody's own, whose root is not the machine's.
pub(super) fn is_in_user_namespace() -> bool {
    fs::metadata("/proc/thread-self/ns/user").is_ok_and(|file| file.ino() != FIRST_USER_NAMESPACE)
}

/// The effective capabilities of this thread, a bit each; none that a user namespace of its own
/// gives it.
fn effective() -> u64 {
    if is_in_user_namespace() {
        return 0;
    }
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}
