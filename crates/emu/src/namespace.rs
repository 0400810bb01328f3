//! The two network namespaces of a run, by names that tell whose they are, with what holds in them
//! whatever link is laid between them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::EmuError;
use crate::netlink::Netlink;

/// Directory of the names of all runs' namespaces, which give access to a run from outside:
/// `nsenter --net=/run/fullpipe/NAME ss -ti`. It exists only as long as a name is in it.
pub const DIRECTORY: &str = "/run/fullpipe";

/// The server's address in its namespace: of the block for benchmarks (RFC 2544), which nobody
/// routes.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The client's address in its namespace.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// The most that a socket's buffers grow to in a namespace, in bytes. The kernel's own limit of
/// some MB would bound the window on a long path before congestion control does.
pub const SOCKET_BUFFER_BYTES: u32 = 64 << 20;

/// The variable in the environment of a command that says which process made its namespace.
pub const OWNER_VARIABLE: &str = "FULLPIPE_LINK";

/// The calling thread's own.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

/// Length of the addresses' common prefix, in bits: the two are alone on their link.
pub(crate) const PREFIX_BITS: u8 = 30;

/// The name of the link's device in each namespace.
pub(crate) const DEVICE: &str = "fullpipe";

/// Largest number of attempts to make a name while other runs remove the directory with theirs.
const TRIES: usize = 10;

/// Largest number of looks at the processes of a namespace while they end, and the time between
/// two.
const KILL_TRIES: usize = 100;
const KILL_NAP: Duration = Duration::from_millis(10);

/// A network namespace. It is removed when this is dropped.
#[derive(Debug)]
pub struct Namespace {
    /// Its name, which only root can give it: without one it is there as long as this or a process
    /// inside.
    path: Option<PathBuf>,
    file: File,
}

impl Namespace {
    /// Makes a namespace for `role`.
    pub(crate) fn create(role: &str) -> Result<Self, EmuError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let started = start_time(process).ok_or_else(|| io::Error::from(ErrorKind::Unsupported));
        let started = started.map_err(EmuError::io("read /proc"))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(DIRECTORY).join(format!("{process}-{started}-{number}-{role}"));
        let made = in_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            prepare()?;
            if !geteuid().is_root() {
                return Ok((None, File::open(OWN_NAMESPACE)?));
            }
            Ok((Some(path.clone()), bind_mount(&path)?))
        })?;
        if made.is_err() {
            forget(&path);
        }
        let (path, file) = made.map_err(EmuError::io("make a network namespace"))?;
        Ok(Self { path, file })
    }

    /// Runs `work` on a thread of its own inside the namespace. Sockets and files that it opens
    /// stay the namespace's wherever they are used.
    ///
    /// # Errors
    /// The system does not let a thread enter the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, EmuError> {
        let entered = in_a_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })?;
        entered.map_err(EmuError::io("enter its network namespace"))
    }

    /// Gives it a loopback device, which programs may want for themselves.
    ///
    /// # Errors
    /// The system refuses.
    pub fn enable_loopback(&self) -> Result<(), EmuError> {
        let enabled = self.enter(|| Netlink::open()?.enable_loopback())?;
        enabled.map_err(EmuError::io("set up its namespace"))
    }

    /// Kills every process that runs inside. A process of several threads runs where its first one
    /// does.
    ///
    /// # Errors
    /// Some are still there after a second: whatever kills processes cannot end these.
    pub fn kill_processes(&self) -> Result<usize, EmuError> {
        let killed = self.file.metadata().and_then(|file| kill_inside(Identity::of(&file)));
        killed.map_err(EmuError::io("end what runs in its namespace"))
    }

    /// A way in for threads that stay.
    ///
    /// # Errors
    /// The system has no file for it.
    pub fn entry(&self) -> Result<NamespaceHandle, EmuError> {
        let file = self.file.try_clone().map_err(EmuError::io("hold its network namespace"))?;
        Ok(NamespaceHandle(file))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The file that names it; nothing without root.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// A way into a [`Namespace`].
#[derive(Debug)]
pub struct NamespaceHandle(File);

impl NamespaceHandle {
    /// Moves the calling thread into the namespace for good, with every thread that it starts from
    /// then on.
    ///
    /// # Errors
    /// The system does not let it in.
    pub fn enter(&self) -> Result<(), EmuError> {
        let entered = setns(&self.0, CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
        entered.map_err(EmuError::io("enter its network namespace"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            forget(path);
        }
    }
}

/// Identity of a namespace: the device and the number of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity(u64, u64);

impl Identity {
    fn of(file: &fs::Metadata) -> Self {
        Self(file.dev(), file.ino())
    }

    /// Of the namespace that a file names.
    fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|file| Self::of(&file))
    }
}

/// Runs `work` in a namespace without a name, which is gone with it: what the machine can do is
/// best known by trying. It needs root.
pub(crate) fn try_in_one<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, EmuError> {
    let tried = in_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Ok(work())
    })?;
    tried.map_err(|e| match e.kind() {
        ErrorKind::PermissionDenied => EmuError::NeedsRoot,
        _ => EmuError::io("make a network namespace")(e),
    })
}

/// Result of [`clean`].
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The names that were removed.
    pub removed: Vec<String>,
    /// Number of processes that still ran in them and were killed.
    pub killed: usize,
    /// The names that could not be removed, each with the error.
    pub left: Vec<(String, EmuError)>,
}

/// Removes the namespaces that killed runs left, and kills what still runs in them. It keeps those
/// of live runs, and directories, which belong to others.
///
/// # Errors
/// The directory cannot be read.
pub fn clean() -> Result<Cleaned, EmuError> {
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => Some(entries),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(EmuError::io("read /run/fullpipe")(e)),
    };
    let mut cleaned = Cleaned::default();
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(EmuError::io("read /run/fullpipe"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory || !is_left_over(&name) {
            continue;
        }
        match Identity::at(&entry.path()).and_then(kill_inside).and_then(|killed| {
            cleaned.killed += killed;
            remove(&entry.path())
        }) {
            Ok(()) => cleaned.removed.push(name),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                cleaned.left.push((name, EmuError::NeedsRoot));
            }
            Err(e) => cleaned.left.push((name, EmuError::io("remove what a killed run left")(e))),
        }
    }
    let _ = fs::remove_dir(DIRECTORY);
    cleaned.removed.sort();
    clean_without_names(&mut cleaned);
    Ok(cleaned)
}

/// Variable that this process sets in the environment of commands, so that [`clean`] knows them by
/// it where the namespace has no name: the value of [`OWNER_VARIABLE`].
///
/// # Errors
/// There is no /proc.
pub fn owner() -> Result<String, EmuError> {
    let process = std::process::id();
    let started = start_time(process).ok_or_else(|| io::Error::from(ErrorKind::Unsupported));
    Ok(format!("{process}-{}", started.map_err(EmuError::io("read /proc"))?))
}

/// Kills what killed runs have left in namespaces without a name: processes that have the mark of a
/// run whose process is gone, and all others in the same namespaces.
fn clean_without_names(cleaned: &mut Cleaned) {
    let hosts = [OWN_NAMESPACE, "/proc/1/ns/net"].map(|path| Identity::at(Path::new(path)).ok());
    let mut left: Vec<Identity> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // Those of others cannot be read, and are not this user's to end.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        let mut variables = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let is_left = variables.any(|variable| {
            let owner = variable.split_once('=').filter(|(name, _)| *name == OWNER_VARIABLE);
            owner.is_some_and(|(_, owner)| is_left_over(owner))
        });
        if let Ok(its) = Identity::at(&entry.path().join("ns/net"))
            && is_left
            && !hosts.contains(&Some(its))
            && !left.contains(&its)
        {
            left.push(its);
        }
    }
    for namespace in left {
        match kill_inside(namespace) {
            Ok(killed) => cleaned.killed += killed,
            Err(e) => {
                let name = "without a name".to_owned();
                cleaned.left.push((name, EmuError::io("end what runs in it")(e)));
            }
        }
    }
}

/// Kills every process in a namespace; their number.
fn kill_inside(namespace: Identity) -> io::Result<usize> {
    let mut killed = HashSet::new();
    for _ in 0..KILL_TRIES {
        let mut left = 0;
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
            let Some(process) = number.map(Pid::from_raw).filter(|p| *p != Pid::this()) else {
                continue;
            };
            // One that has just ended has no namespace any more.
            if Identity::at(&entry.path().join("ns/net")).is_ok_and(|its| its == namespace) {
                match kill(process, Signal::SIGKILL) {
                    Ok(()) | Err(Errno::ESRCH) => {}
                    Err(e) => return Err(e.into()),
                }
                killed.insert(process);
                left += 1;
            }
        }
        if left == 0 {
            return Ok(killed.len());
        }
        thread::sleep(KILL_NAP);
    }
    Err(io::Error::new(ErrorKind::TimedOut, "processes do not end"))
}

/// True if a name is that of a run whose process is gone. The process's start time tells it from a
/// later one of the same number.
fn is_left_over(name: &str) -> bool {
    let mut parts = name.split('-');
    let mut number = || parts.next().and_then(|n| n.parse::<u64>().ok());
    let (Some(process), Some(started)) = (number(), number()) else { return false };
    u32::try_from(process).is_ok_and(|process| start_time(process) != Some(started))
}

/// Start time of a process, in the kernel's ticks since boot; `None` without such a process.
fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the program's name, which may hold anything, in parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Settings of the calling thread's namespace, which is a new one.
fn prepare() -> io::Result<()> {
    let set = |name: &str, value: &str| {
        fs::write(format!("/proc/sys/net/{name}"), value)
            .map_err(|e| io::Error::new(e.kind(), format!("sysctl net/{name}: {e}")))
    };
    let (start, most) = (131_072, SOCKET_BUFFER_BYTES);
    set("ipv4/tcp_rmem", &format!("4096 {start} {most}"))?;
    set("ipv4/tcp_wmem", &format!("4096 {start} {most}"))?;
    // Nobody else is inside: a server without root may have the port that its protocol names.
    set("ipv4/ip_unprivileged_port_start", "0")?;
    // A flow must not use path metrics that an earlier one has saved.
    set("ipv4/tcp_no_metrics_save", "1")?;
    match set("ipv6/conf/default/disable_ipv6", "1") {
        // A kernel without IPv6 has none to turn off.
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Gives the calling thread's namespace a name.
fn bind_mount(path: &Path) -> io::Result<File> {
    let mut made = Err(io::Error::from(ErrorKind::NotFound));
    for _ in 0..TRIES {
        fs::create_dir_all(DIRECTORY)?;
        made = File::create_new(path);
        if made.as_ref().err().map(io::Error::kind) != Some(ErrorKind::NotFound) {
            break;
        }
    }
    made?;
    let none = None::<&str>;
    mount(Some(OWN_NAMESPACE), path, none, MsFlags::MS_BIND, none)?;
    File::open(path)
}

/// Removes a name as far as that is possible.
fn forget(path: &Path) {
    let _ = remove(path);
    // Fails as long as other runs have names there.
    let _ = fs::remove_dir(DIRECTORY);
}

fn remove(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // A name that never became a namespace's.
        Ok(()) | Err(Errno::EINVAL) => fs::remove_file(path),
        Err(e) => Err(e.into()),
    }
}

/// A namespace is a thread's affair: the caller's own stays as it is.
fn in_a_thread<T: Send>(
    work: impl FnOnce() -> io::Result<T> + Send,
) -> Result<io::Result<T>, EmuError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("fullpipe-netns".to_owned())
            .spawn_scoped(scope, work)
            .map_err(EmuError::io("start a thread"))?;
        thread.join().map_err(|_| EmuError::Panicked)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_left_over_when_its_process_is_gone() {
        let me = std::process::id();
        let started = start_time(me).expect("this process runs");
        assert!(!is_left_over(&format!("{me}-{started}-0-server")));
        assert!(is_left_over(&format!("{me}-{}-0-server", started + 1)));
        // Above the kernel's largest process number.
        assert!(is_left_over("4194305-1-0-client"));
        for other in ["", "server", "12", "12-x-0-server", "99999999999-1-0-a"] {
            assert!(!is_left_over(other), "{other:?} is not ours to remove");
        }
    }
}
