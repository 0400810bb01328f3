//! Loading the kernel program, looking at it, and taking it out again.
//!
//! The program is in the kernel as long as somebody holds its link: the process that loaded it, or
//! a pin in the BPF file system. Connections that use it keep it until they close, whoever lets go.

pub mod cgroup;
mod connection;
mod cost;
mod default;
mod doctor;
mod error;
mod inventory;
mod lock;
mod namespaces;
mod pins;
mod report;
mod settings;
mod status;
mod sysctl;
mod usage;
mod variant;

use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use libbpf_rs::{ErrorKind, Iter, Link, MapCore, MapHandle, ObjectBuilder, OpenObject, PrintLevel};

pub use connection::Connection;
pub use cost::{Cost, Counting};
pub use default::{PutBack, put_back_left_over};
pub use doctor::{Finding, Severity, doctor};
pub use error::Error;
pub use inventory::Held;
pub use status::{Program, Status, status};
pub use usage::Usage;
pub use variant::{check, unknown_operations};

use lock::Lock;
use settings::{NAME_SIZE, Settings, field};
use variant::Variant;

/// The objects that `build.rs` made.
static BBR3: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bbr3.bpf.o"));
static BBR3X: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bbr3x.bpf.o"));

/// The name by which TCP knows the program, unless another is chosen.
pub const DEFAULT_NAME: &str = "bbr3";

/// [`DEFAULT_NAME`] of the program with [`Options::amended`].
pub const DEFAULT_NAME_AMENDED: &str = "bbr3x";

/// [`Options::max_connections`] unless something else is chosen: half a gigabyte.
pub const DEFAULT_MAX_CONNECTIONS: u32 = 65_536;

/// A few of the kernel's grace periods, on a busy machine.
const NAME_IS_FREE_WITHIN: Duration = Duration::from_secs(1);

/// Options for loading the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name for `setsockopt(TCP_CONGESTION)`: 1 to 15 letters, digits, `-` or `_`.
    pub name: String,
    /// The program of `bbr3x-linux` instead of that of `bbr3-linux`.
    pub amended: bool,
    /// Make it the default of new connections of this network namespace.
    pub default: bool,
    /// Keep it after this process ends.
    pub pin: bool,
    /// CE marks on the paths of this machine mean a queue of well under a millisecond: respond to
    /// them as Linux's BBRv3 does on routes with ECN_LOW. Without it marks are counted and change
    /// nothing.
    pub low_latency_ecn: bool,
    /// Largest number of connections with state in the kernel at once, of all users and namespaces:
    /// 8 KB each, charged to the memory cgroup of the process that loads the program. Connections
    /// above it go on as Reno.
    pub max_connections: u32,
}

impl Default for Options {
    fn default() -> Self {
        let name = DEFAULT_NAME.to_owned();
        Self {
            name,
            amended: false,
            default: false,
            pin: false,
            low_latency_ecn: false,
            max_connections: DEFAULT_MAX_CONNECTIONS,
        }
    }
}

/// The program in the kernel, held by this process. Dropping it takes it out again, unless it is
/// pinned: then [`unload`] does.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    previous_default: Option<String>,
    is_pinned: bool,
    /// The registration: TCP has the name as long as somebody holds it.
    link: Link,
    /// The iterator over the connections.
    connections: Link,
    /// The program that runs on an ACK.
    on_ack: OwnedFd,
    usage: MapHandle,
}

impl Loaded {
    /// The connections that use it now, of all network namespaces.
    ///
    /// # Errors
    ///
    /// The system refuses an operation.
    pub fn connections(&self) -> Result<Vec<Connection>, Error> {
        let mut records = Vec::new();
        let read = Iter::new(&self.connections).map_err(Error::load)?.read_to_end(&mut records);
        read.map_err(Error::Connections)?;
        Ok(connection::decode(&records))
    }

    /// Numbers of the connections that have its state, and of those that go without.
    ///
    /// # Errors
    ///
    /// The system refuses an operation.
    pub fn usage(&self) -> Result<Usage, Error> {
        Usage::of(&self.usage)
    }

    /// Runs on ACKs and their processor time so far, while the kernel was [`Counting`].
    ///
    /// # Errors
    ///
    /// The kernel does not report it.
    pub fn ack_cost(&self) -> Result<Cost, Error> {
        cost::of(self.on_ack.as_fd())
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.is_pinned {
            // There is nobody to tell.
            let _ = default::put_back(&self.name, self.previous_default.take());
        }
    }
}

/// Loads the program and registers it as a congestion control. Before that, puts back a default
/// that a killed process left.
///
/// # Errors
///
/// [`Error`] says in one line what is missing or wrong; nothing stays in the kernel then.
pub fn load(options: &Options) -> Result<Loaded, Error> {
    check_name(&options.name)?;
    if options.max_connections == 0 {
        return Err(Error::BadLimit);
    }
    let variant = variant::checked()?;
    // Pins and defaults are root's, and shared.
    let _lock = (options.pin || options.default).then(Lock::take).transpose()?;
    if sysctl::available()?.contains(&options.name) {
        let is_pinned = pins::is_pinned(&options.name);
        let why = if is_pinned { Error::AlreadyLoaded } else { Error::NameTaken };
        return Err(why(options.name.clone()));
    }
    if options.pin {
        pins::prepare(&options.name)?;
    }
    default::put_back_left_over()?;
    let standing_default = options.default.then(default::standing).transpose()?;
    let settings = Settings::of(options, standing_default.as_deref());
    let open = open(&settings, variant)?;
    let mut object = open.load().map_err(Error::load)?;

    let on_ack =
        object.progs().find(|program| program.name() == variant.on_ack()).ok_or(Error::NoName)?;
    let on_ack = on_ack.as_fd().try_clone_to_owned().map_err(Error::Cost)?;
    let mut operations =
        object.maps_mut().find(|map| map.name() == variant.operations()).ok_or(Error::NoName)?;
    let link = operations.attach_struct_ops().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::NameTaken(options.name.clone()),
        _ => Error::load(error),
    })?;
    let mut loaded = Loaded {
        name: options.name.clone(),
        previous_default: None,
        is_pinned: false,
        link,
        connections: connection::attach(&object)?,
        on_ack,
        usage: usage::of_object(&object)?,
    };
    default::renew(&options.name);
    if let Some(previous) = &standing_default {
        loaded.previous_default = standing_default.clone();
        default::take(&options.name, previous)?;
    }
    if options.pin {
        if let Err(error) = pin(&mut loaded) {
            // Dropping `loaded` puts the default back and takes the program out.
            let _ = pins::remove(&loaded.name);
            return Err(error);
        }
        loaded.is_pinned = true;
    }
    Ok(loaded)
}

/// The object with what was chosen for it, and with the variant for this kernel alone.
fn open(settings: &Settings, variant: Variant) -> Result<OpenObject, Error> {
    be_quiet();
    let mut open = ObjectBuilder::default()
        .name(DEFAULT_NAME)
        .and_then(|builder| builder.open_memory(if settings.amended { BBR3X } else { BBR3 }))
        .map_err(Error::Load)?;
    for other in Variant::ALL.into_iter().filter(|other| *other != variant) {
        let mut map = open.maps_mut().find(|map| map.name() == other.operations());
        map.as_mut().ok_or(Error::NoName)?.set_autocreate(false).map_err(Error::Load)?;
    }
    for other in variant.not_for_it() {
        let mut program = open.progs_mut().find(|program| program.name() == other);
        program.as_mut().ok_or(Error::NoName)?.set_autoload(false);
    }
    let name = field(&settings.name);
    for (name, value) in
        [(variant.operations(), &name[..]), (settings::MAP, &settings.encode()[..])]
    {
        let mut map = open.maps_mut().find(|map| map.name() == name).ok_or(Error::NoName)?;
        let initial = map.initial_value_mut().ok_or(Error::NoName)?;
        initial.get_mut(..value.len()).ok_or(Error::NoName)?.copy_from_slice(value);
    }
    Ok(open)
}

/// The program that was taken out of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unloaded {
    /// Its name.
    pub name: String,
    /// Number of other network namespaces in which it was the default and the previous default was
    /// restored. A namespace inherits the default of the first one when it is made.
    pub put_back: usize,
    /// Number of those in which it stays the default although it is gone, because the system
    /// refused to change that.
    pub kept: usize,
}

/// A line for the program, after one for what happened in other network namespaces.
impl fmt::Display for Unloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, put_back, kept } = self;
        if *put_back > 0 {
            writeln!(f, "{put_back} other network namespaces have their earlier default again")?;
        }
        if *kept > 0 {
            writeln!(f, "{kept} other network namespaces keep {name} as their default")?;
        }
        writeln!(f, "{name} is out of the kernel")
    }
}

/// All that [`unload`] undid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The cgroups whose connections had it.
    pub uses: Vec<cgroup::InUse>,
    /// The programs.
    pub programs: Vec<Unloaded>,
}

/// A line for each.
impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uses.iter().try_for_each(|ended| writeln!(f, "no more {ended}"))?;
        self.programs.iter().try_for_each(|unloaded| unloaded.fmt(f))
    }
}

/// Takes pinned programs out of the kernel: that of a name, or all. In this network namespace and
/// in all others in which one was the default, the default before it comes back; and no cgroup uses
/// it any more. Without a name, no cgroup uses anything any more, also none of the kernel's own.
/// The default of before comes back too for a program that is kept by nothing else than by being
/// the default: the process that held it was killed.
///
/// # Errors
///
/// [`Error::NotPinned`] when nothing is pinned, [`Error::NotPinnedBy`] when nothing of this name
/// is, and whatever the system refuses.
pub fn unload(name: Option<&str>) -> Result<Undone, Error> {
    let _lock = Lock::take()?;
    let is_meant = |other: &str| name.is_none_or(|name| name == other);
    let uses = cgroup::end_those(|found| is_meant(&found.algorithm))?;
    let mut names = pins::names()?;
    names.retain(|pinned| is_meant(pinned));
    let loaded = status()?.programs;
    let mut programs = Vec::new();
    for kept in loaded.iter().filter(|kept| kept.is_only_a_default() && is_meant(&kept.name)) {
        programs.push(put_back(kept)?);
    }
    if names.is_empty() && uses.is_empty() && programs.is_empty() {
        return Err(name.map_or(Error::NotPinned, |name| Error::NotPinnedBy(name.to_owned())));
    }
    // The newest first: each puts back the default that it found, which may be an older one's.
    let pinned = |program: &&Program| program.held == Held::Pinned && names.contains(&program.name);
    for program in loaded.iter().rev().filter(pinned) {
        programs.push(put_back(program)?);
    }
    for name in names {
        pins::remove(&name).map_err(|source| Error::Pins { source })?;
        wait_until_free(&name);
    }
    Ok(Undone { uses, programs })
}

/// Puts back the default of before a program.
fn put_back(program: &Program) -> Result<Unloaded, Error> {
    let Program { name, previous_default, .. } = program;
    let elsewhere = default::put_back(name, previous_default.clone())?;
    Ok(Unloaded { name: name.clone(), put_back: elsewhere.put_back, kept: elsewhere.kept })
}

/// Waits until TCP does not have a name any more: the kernel takes it away when it gets to it, and
/// who loads another program by this name meanwhile would find it taken. Another holder of the
/// program may keep it for as long as it wants.
fn wait_until_free(name: &str) {
    let end = Instant::now() + NAME_IS_FREE_WITHIN;
    while Instant::now() < end {
        match sysctl::available() {
            Ok(available) if available.iter().any(|available| available == name) => {
                thread::sleep(Duration::from_millis(1));
            }
            _ => return,
        }
    }
}

fn pin(loaded: &mut Loaded) -> Result<(), Error> {
    pins::make(&loaded.name)?;
    loaded.connections.pin(pins::connections(&loaded.name)).map_err(Error::Pin)?;
    loaded.link.pin(pins::link(&loaded.name)).map_err(Error::Pin)
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() >= NAME_SIZE || !name.chars().all(is_plain) {
        return Err(Error::BadName(name.to_owned()));
    }
    Ok(())
}

/// Keeps libbpf from writing to stderr.
fn be_quiet() {
    libbpf_rs::set_print(Some((PrintLevel::Debug, keep_quiet)));
}

/// The errors say what matters; `FULLPIPE_BPF_LOG` shows the verifier's log as well.
fn keep_quiet(level: PrintLevel, text: String) {
    if std::env::var_os("FULLPIPE_BPF_LOG").is_some() {
        eprint!("{level:?}: {text}");
    }
}
