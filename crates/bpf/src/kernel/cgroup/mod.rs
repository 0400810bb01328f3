//! A congestion control for the connections of a cgroup: a program of BPF's kind `sock_ops`, which
//! the cgroup and a pin hold.
//!
//! A program in the cgroup that is nearest to a socket runs first, and of several in one cgroup the
//! one that was attached first. A socket that has a choice keeps it, so the first that fits counts.

mod find;
mod settings;

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, ObjectBuilder};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};

use super::lock::Lock;
use super::{Error, be_quiet, check_name, error, inventory, pins, sysctl};
pub(super) use find::mount_point;
use settings::Settings;

/// The object that `build.rs` made.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/use.bpf.o"));

/// Its program.
const PROGRAM: &str = "fullpipe_use";

/// Largest number of ports that one [`Use`] names.
pub const MAX_PORTS: usize = settings::MAX_PORTS;

/// A congestion control for new connections of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The name by which TCP knows it.
    pub algorithm: String,
    /// Directory of the cgroup, of version 2. Its descendants are meant as well.
    pub cgroup: PathBuf,
    /// Connections that have one of these ports at either end; empty for all.
    pub ports: Vec<u16>,
}

/// A [`Use`] that is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The name of the congestion control.
    pub algorithm: String,
    /// Directory of the cgroup; `None` if it was removed, or this process cannot see it.
    pub cgroup: Option<PathBuf>,
    /// [`Use::ports`].
    pub ports: Vec<u16>,
    /// Number of connections that were given it so far.
    pub given: u64,
    /// Number of those that were to have it, and kept what they had: TCP did not know the name
    /// then, or their route is locked to another algorithm.
    pub refused: u64,
    /// True if TCP knows the name now.
    pub is_known: bool,
    /// Number of the cgroup; 0 if it was removed.
    id: u64,
    pin: PathBuf,
}

/// Gives new connections of a cgroup a congestion control, until [`end`] or
/// [`unload`](super::unload). Where the kernel has the algorithm as a module, loads it. The same
/// once more changes nothing.
///
/// # Errors
///
/// [`Error`] says in one line what is missing or wrong; nothing stays in the kernel then.
pub fn begin(wanted: &Use) -> Result<InUse, Error> {
    check_name(&wanted.algorithm)?;
    let mut ports = wanted.ports.clone();
    ports.sort_unstable();
    ports.dedup();
    if ports.len() > MAX_PORTS || ports.first() == Some(&0) {
        return Err(Error::BadPorts);
    }
    let (directory, id) = open(&wanted.cgroup)?;
    let lacking = error::lacking_for_cgroups();
    if !lacking.is_empty() {
        return Err(Error::CgroupRights(lacking.join(", ")));
    }
    know(&wanted.algorithm)?;
    if !pins::has_file_system() {
        return Err(Error::NoBpfFileSystem);
    }
    let _lock = Lock::take()?;
    end_those(InUse::is_gone)?;
    for earlier in list()?.into_iter().filter(|earlier| earlier.id == id) {
        // A service that starts again asks again, and its cgroup is still there if a process is.
        if (&earlier.algorithm, &earlier.ports) == (&wanted.algorithm, &ports) {
            return Ok(earlier);
        }
        if earlier.has_some_of(&ports) {
            return Err(Error::InUse { cgroup: wanted.cgroup.clone(), earlier: earlier.words() });
        }
    }
    let pin = pins::of_use(id, ports.first().copied());
    attach(&directory, &Settings { algorithm: wanted.algorithm.clone(), ports }, &pin)?;
    list()?.into_iter().find(|found| found.pin == pin).ok_or(Error::NoName)
}

/// Ends what [`begin`] began for a cgroup: of one algorithm, or all. Connections keep what they
/// have. What it ended.
///
/// # Errors
///
/// [`Error::NotInUse`] when there is nothing to end, and whatever the system refuses.
pub fn end(cgroup: &Path, algorithm: Option<&str>) -> Result<Vec<InUse>, Error> {
    let (_, id) = open(cgroup)?;
    let _lock = Lock::take()?;
    end_those(InUse::is_gone)?;
    let ended = end_those(|found| {
        found.id == id && algorithm.is_none_or(|algorithm| algorithm == found.algorithm)
    })?;
    if ended.is_empty() {
        return Err(Error::NotInUse(cgroup.to_owned()));
    }
    Ok(ended)
}

/// Ends all that fit. To be called with the lock held.
pub(super) fn end_those(fits: impl Fn(&InUse) -> bool) -> Result<Vec<InUse>, Error> {
    let ended: Vec<InUse> = list()?.into_iter().filter(fits).collect();
    ended.iter().try_for_each(|found| pins::remove_use(&found.pin))?;
    Ok(ended)
}

/// All that are pinned, in the order in which they began.
pub(super) fn list() -> Result<Vec<InUse>, Error> {
    let pins = pins::uses()?;
    if pins.is_empty() {
        return Ok(Vec::new());
    }
    be_quiet();
    let (paths, known) = (find::Paths::default(), sysctl::available()?);
    let mut all: Vec<(u32, InUse)> = Vec::new();
    for pin in pins {
        // It may end meanwhile.
        let Some((program, id, settings, [given, refused])) = look(&pin) else { continue };
        all.push((
            program,
            InUse {
                is_known: known.contains(&settings.algorithm),
                algorithm: settings.algorithm,
                cgroup: paths.of(id),
                ports: settings.ports,
                given,
                refused,
                id,
                pin,
            },
        ));
    }
    all.sort_unstable_by_key(|(program, _)| *program);
    Ok(all.into_iter().map(|(_, found)| found).collect())
}

/// The number of the program behind a pin, that of its cgroup, its settings and its counters.
fn look(pin: &Path) -> Option<(u32, u64, Settings, [u64; 2])> {
    let link = Link::open(pin).ok()?.info().ok()?;
    let LinkTypeInfo::Cgroup(cgroup) = link.info else { return None };
    let maps = inventory::map_ids(link.prog_id)?;
    let value = |name: &str, size: usize| {
        let map = inventory::open_map(&maps, name, size)?;
        map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()?
    };
    let settings = Settings::decode(&value(settings::MAP, settings::SIZE)?)?;
    let given = settings::decode_given(&value(settings::GIVEN, settings::GIVEN_SIZE)?)?;
    Some((link.prog_id, cgroup.cgroup_id, settings, given))
}

/// Opens a cgroup's directory; its inode's number is the cgroup's own.
fn open(path: &Path) -> Result<(File, u64), Error> {
    let no_cgroup = || Error::NoCgroup { path: path.to_owned(), mounted: find::mount_point() };
    let wrong = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => Error::NotRoot,
        _ => no_cgroup(),
    };
    let directory = File::open(path).map_err(wrong)?;
    if !find::is_cgroup(&directory) {
        return Err(no_cgroup());
    }
    let id = directory.metadata().map_err(wrong)?.ino();
    Ok((directory, id))
}

/// Sees to it that TCP knows the algorithm. A program of BPF's cannot load a module, but
/// setsockopt() can.
fn know(algorithm: &str) -> Result<(), Error> {
    if sysctl::available()?.iter().any(|known| known == algorithm) {
        return Ok(());
    }
    let try_it = || {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
        setsockopt(&socket, TcpCongestion, &algorithm.into())
    };
    let known = sysctl::available()?.join(", ");
    try_it().map_err(|_| Error::NoAlgorithm { name: algorithm.to_owned(), known })
}

fn attach(cgroup: &File, settings: &Settings, pin: &Path) -> Result<(), Error> {
    be_quiet();
    let mut open = ObjectBuilder::default()
        .name(PROGRAM)
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(Error::Load)?;
    let mut map = open.maps_mut().find(|map| map.name() == settings::MAP).ok_or(Error::NoName)?;
    let initial = map.initial_value_mut().ok_or(Error::NoName)?;
    let value = settings.encode();
    initial.get_mut(..value.len()).ok_or(Error::NoName)?.copy_from_slice(&value);
    let object = open.load().map_err(Error::load)?;
    let program = object.progs_mut().find(|program| program.name() == PROGRAM);
    let program = program.ok_or(Error::NoName)?;
    let mut link = program.attach_cgroup(cgroup.as_raw_fd()).map_err(Error::load)?;
    pins::make_uses()?;
    link.pin(pin).map_err(Error::Pin)
}

impl InUse {
    /// True if the cgroup was removed.
    pub fn is_gone(&self) -> bool {
        self.id == 0
    }

    /// True if it has connections of these ports, or of all.
    fn has_some_of(&self, ports: &[u16]) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|port| ports.contains(port))
    }

    /// The algorithm, with its ports.
    fn words(&self) -> String {
        match &self.ports[..] {
            [] => self.algorithm.clone(),
            [one] => format!("{} on port {one}", self.algorithm),
            ports => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                format!("{} on ports {}", self.algorithm, ports.join(","))
            }
        }
    }
}

/// Like `bbr3 on port 443 for connections of /sys/fs/cgroup/web`.
impl fmt::Display for InUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for connections of ", self.words())?;
        match &self.cgroup {
            Some(path) => write!(f, "{}", path.display()),
            None if self.is_gone() => f.write_str("a cgroup that was removed"),
            None => write!(f, "cgroup {}, which is not seen from here", self.id),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn in_use() -> InUse {
        InUse {
            algorithm: "bbr3".to_owned(),
            cgroup: Some("/sys/fs/cgroup/web\\x2dserver".into()),
            ports: vec![80, 443],
            given: 12,
            refused: 0,
            is_known: true,
            id: 77,
            pin: "/nowhere".into(),
        }
    }

    #[test]
    fn of_two_on_one_cgroup_the_earlier_has_its_ports() {
        let some = in_use();
        assert!(some.has_some_of(&[443, 8443]) && !some.has_some_of(&[8443]));
        assert!(!some.has_some_of(&[]), "one for all ports takes what the earlier one leaves");
        let all = InUse { ports: Vec::new(), ..in_use() };
        assert!(all.has_some_of(&[1]) && all.has_some_of(&[]));
    }

    #[test]
    fn it_is_told_in_words() {
        let one = InUse { ports: vec![443], cgroup: None, id: 0, ..in_use() };
        assert_eq!(
            one.to_string(),
            "bbr3 on port 443 for connections of a cgroup that was removed"
        );
        assert_eq!(
            in_use().to_string(),
            "bbr3 on ports 80,443 for connections of /sys/fs/cgroup/web\\x2dserver"
        );
    }
}
