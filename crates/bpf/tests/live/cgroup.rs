//! Congestion control of cgroups: which connections have it, and what is left of it.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fullpipe_bpf::kernel::cgroup::{self, InUse, MAX_PORTS, Use};
use fullpipe_bpf::kernel::{self, Error};
use fullpipe_testkit::{skip, until};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};
use nix::sched::CloneFlags;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, getsockopt, setsockopt, socket,
};

use crate::kernel::{apart, cover, default, options};
use crate::own::{load, name_of};

/// A cgroup of a test's own, which is removed with this.
pub(crate) struct Cgroup {
    /// The directory of all cgroups.
    root: PathBuf,
    path: PathBuf,
}

impl Cgroup {
    pub(crate) fn make(test: &str) -> Self {
        let mounts = fs::read_to_string("/proc/thread-self/mounts").expect("Linux has it");
        let mut systems = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let Some(system) = systems.find(|words| words[2] == "cgroup2") else {
            skip("no cgroups of version 2 are mounted");
        };
        let root = PathBuf::from(system[1]);
        let path = root.join(format!("fullpipe-{}", name_of(test)));
        if let Err(error) = fs::create_dir(&path) {
            skip(format!("{}: {error}", path.display()));
        }
        Self { root, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// One within it.
    fn inner(&self, name: &str) -> Self {
        let path = self.path.join(name);
        fs::create_dir(&path).expect("there is none yet");
        Self { root: self.root.clone(), path }
    }

    /// The number by which the kernel knows it.
    fn id(&self) -> u64 {
        fs::metadata(&self.path).expect("it is there").ino()
    }

    /// Does something with this process in it.
    fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        let own = fs::read_to_string("/proc/self/cgroup").expect("Linux has it");
        let before = own.lines().find_map(|line| line.strip_prefix("0::/")).expect("one of each");
        let before = self.root.join(before);
        let move_to = |cgroup: &Path| {
            let process = std::process::id().to_string();
            fs::write(cgroup.join("cgroup.procs"), process).expect("root may do it");
        };
        move_to(&self.path);
        let result = work();
        move_to(&before);
        result
    }

    fn is_attached(&self) -> usize {
        let id = self.id();
        let links = LinkInfoIter::default().map(|link| link.info);
        links
            .filter(|info| matches!(info, LinkTypeInfo::Cgroup(own) if own.cgroup_id == id))
            .count()
    }

    /// Makes it use an algorithm from now on.
    fn uses(&self, algorithm: &str, ports: &[u16]) -> InUse {
        let (algorithm, cgroup) = (algorithm.to_owned(), self.path.clone());
        cgroup::begin(&Use { algorithm, cgroup, ports: ports.to_vec() }).expect("it begins")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn algorithm_of(stream: &TcpStream) -> String {
    let name = getsockopt(stream, TcpCongestion).expect("it has one");
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port")
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("it has one").port()
}

/// The algorithms of both ends of a connection: of who connects, and of who is connected to.
fn ends(listener: &TcpListener, sender: impl FnOnce(SocketAddrV4) -> TcpStream) -> [String; 2] {
    let sender = sender(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port_of(listener)));
    let (receiver, _) = listener.accept().expect("it connects");
    [algorithm_of(&sender), algorithm_of(&receiver)]
}

fn plain(address: SocketAddrV4) -> TcpStream {
    TcpStream::connect(address).expect("it listens")
}

/// A sender that chooses before it connects.
fn choosing(algorithm: &str) -> impl Fn(SocketAddrV4) -> TcpStream {
    move |address| {
        let (family, kind) = (AddressFamily::Inet, SockType::Stream);
        let fd: OwnedFd = socket(family, kind, SockFlag::empty(), None).expect("a socket");
        setsockopt(&fd, TcpCongestion, &OsString::from(algorithm)).expect("the kernel has it");
        connect(fd.as_raw_fd(), &SockaddrIn::from(address)).expect("it listens");
        fd.into()
    }
}

/// One of the kernel's own that is not the default.
fn another() -> &'static str {
    if default() == "reno" { "cubic" } else { "reno" }
}

fn connections_of_a_cgroup_have_the_algorithm_until_that_ends() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let (name, default) = (&*name_of("use1"), &*default());
        let loaded = load(&options(name));
        let own = Cgroup::make("use1");
        let (outside, inside) = (listener(), own.enter(listener));
        let within = own.uses(name, &[]);
        assert_eq!(within.cgroup.as_deref(), Some(&*own.path));
        assert_eq!(own.enter(|| ends(&inside, plain)), [name, name]);
        assert_eq!(own.enter(|| ends(&outside, plain)), [name, default]);
        assert_eq!(ends(&inside, plain), [default, name]);
        assert_eq!(ends(&outside, plain), [default, default]);
        // Who chooses knows why.
        let choosing = choosing(another());
        assert_eq!(own.enter(|| ends(&outside, choosing)), [another(), default]);
        let status = kernel::status().expect("root reads it");
        let [found] = &status.uses[..] else { panic!("one, not {:?}", status.uses) };
        assert_eq!((found.given, found.refused, found.is_known), (4, 0, true), "{found:?}");
        let line = format!("{name} for connections of {}: 4 so far", own.path.display());
        assert!(status.to_string().lines().any(|l| l == line), "{line} in {status}");

        let ended = cgroup::end(&own.path, None).expect("it has one");
        assert_eq!((ended.len(), &*ended[0].algorithm), (1, name));
        assert_eq!(own.enter(|| ends(&inside, plain)), [default, default]);
        assert!(!fs::exists("/sys/fs/bpf/fullpipe-use").expect("bpffs"));
        assert_eq!(own.is_attached(), 0);
        let nothing = cgroup::end(&own.path, None).expect_err("it ended");
        assert!(matches!(nothing, Error::NotInUse(_)), "{nothing}");
        // All that were given it have closed.
        until("all places are free", || loaded.usage().expect("root reads it").connections == 0);
    });
}

fn a_port_at_either_end_is_what_counts() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let (default, another) = (&*default(), another());
        let name = &*name_of("use2");
        let _loaded = load(&options(name));
        let own = Cgroup::make("use2");
        let [one, two, three] = own.enter(|| [listener(), listener(), listener()]);
        own.uses(another, &[port_of(&one), port_of(&two)]);
        for listener in [&one, &two] {
            assert_eq!(own.enter(|| ends(listener, plain)), [another, another]);
        }
        assert_eq!(own.enter(|| ends(&three, plain)), [default, default]);
        // A second one has what the first one leaves.
        own.uses(name, &[]);
        assert_eq!(own.enter(|| ends(&one, plain)), [another, another]);
        assert_eq!(own.enter(|| ends(&three, plain)), [name, name]);
        for ports in [&[port_of(&one)][..], &[]] {
            let (algorithm, cgroup) = ("reno".to_owned(), own.path.clone());
            let refused = cgroup::begin(&Use { algorithm, cgroup, ports: ports.to_vec() });
            let refused = refused.expect_err("the first one has it");
            assert!(matches!(refused, Error::InUse { .. }), "{refused}");
        }
        // Ends one of both.
        assert_eq!(cgroup::end(&own.path, Some(name)).expect("it has it").len(), 1);
        assert_eq!(own.enter(|| ends(&three, plain)), [default, default]);
        assert_eq!(own.enter(|| ends(&one, plain)), [another, another]);
        let undone = kernel::unload(None).expect("one is pinned");
        assert_eq!((undone.uses.len(), undone.programs.len()), (1, 0));
        assert_eq!(own.is_attached(), 0);
    });
}

fn of_nested_cgroups_the_innermost_counts() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let name = &*name_of("use3");
        let _loaded = load(&options(name));
        let outer = Cgroup::make("use3");
        let inner = outer.inner("inner");
        outer.uses("reno", &[]);
        inner.uses(name, &[]);
        let listener = listener();
        assert_eq!(outer.enter(|| ends(&listener, plain))[0], "reno");
        assert_eq!(inner.enter(|| ends(&listener, plain))[0], name);
        cgroup::end(&inner.path, None).expect("it has one");
        assert_eq!(inner.enter(|| ends(&listener, plain))[0], "reno");
        kernel::unload(Some("reno")).expect("it is pinned");
        assert_eq!((outer.is_attached(), inner.is_attached()), (0, 0));
    });
}

/// The kernel lets go of a cgroup that is removed, and of a program that is taken out.
fn a_cgroup_or_an_algorithm_that_is_gone_is_in_nobodys_way() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let (name, default) = (&*name_of("use4"), &*default());
        let loaded = load(&options(name));
        let own = Cgroup::make("use4");
        own.uses(name, &[]);
        let removed = own.inner("removed");
        removed.uses(another(), &[]);
        drop(removed);
        let uses = || kernel::status().expect("root reads it").uses;
        // The kernel lets go when it gets to it.
        until("one is gone", || uses().iter().filter(|found| found.is_gone()).count() == 1);
        drop(loaded);
        until("TCP has lost it", || uses().iter().any(|found| !found.is_known));
        assert_eq!(own.enter(|| ends(&listener(), plain)), [default, default]);
        let found = uses().into_iter().find(|found| !found.is_gone()).expect("it is pinned");
        // Both ends are in it.
        assert_eq!((found.given, found.refused, found.is_known), (0, 2, false), "{found:?}");
        // What it names comes back.
        let _loaded = load(&options(name));
        assert_eq!(own.enter(|| ends(&listener(), plain))[0], name);
        // The next one removes what is left of the one that is gone.
        let next = own.inner("next");
        next.uses(another(), &[]);
        assert!(uses().iter().all(|found| !found.is_gone()), "{:?}", uses());
        assert_eq!(kernel::unload(None).expect("both are pinned").uses.len(), 2);
    });
}

fn what_cannot_be_used_is_told_in_one_line() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let own = Cgroup::make("use5");
        let wanted = |algorithm: &str, cgroup: &Path, ports: usize| Use {
            algorithm: algorithm.to_owned(),
            cgroup: cgroup.to_owned(),
            ports: (1..=ports as u16).collect(),
        };
        for (wanted, says) in [
            (wanted("reno", Path::new("/proc/self"), 0), "/proc/self is no directory of a cgroup"),
            (wanted("reno", &own.path.join("none"), 0), "is no directory of a cgroup"),
            (wanted("nobody", &own.path, 0), "no congestion control nobody; it has "),
            (wanted("a b", &own.path, 0), "`a b` is no name"),
            (wanted("reno", &own.path, MAX_PORTS + 1), "--port takes 1 to 16 ports"),
        ] {
            let error = cgroup::begin(&wanted).expect_err(says);
            assert!(error.is_bad_input(), "{error}");
            let line = error.to_string();
            assert!(line.contains(says) && !line.contains('\n'), "{line}");
        }
        assert!(!fs::exists("/sys/fs/bpf/fullpipe-use").expect("bpffs"));
        assert_eq!(own.is_attached(), 0);
    });
}

/// A command that is killed has either pinned what it attached, or the kernel has detached it.
#[cfg(feature = "loader")]
fn a_killed_use_leaves_nothing_that_status_does_not_show() {
    use std::process::{Command, Stdio};

    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let own = Cgroup::make("use6");
        let mut pinned = 0;
        for round in 0..10 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fullpipe-bbr3"));
            command.args(["use", "reno", "--cgroup"]).arg(&own.path).stdout(Stdio::null());
            let mut child = command.spawn().expect("it starts");
            // Sleeps: until the kill, at another moment each time.
            std::thread::sleep(std::time::Duration::from_millis(4 * round));
            let _ = child.kill();
            child.wait().expect("it ends");
            let uses = kernel::status().expect("root reads it").uses.len();
            until("the kernel has detached what is not pinned", || own.is_attached() == uses);
            pinned += uses;
            assert_eq!(cgroup::end(&own.path, None).is_ok(), uses == 1);
        }
        println!("{pinned} of 10 were done before the kill");
        assert_eq!(own.is_attached(), 0);
    });
}

#[cfg(not(feature = "loader"))]
fn a_killed_use_leaves_nothing_that_status_does_not_show() {
    skip("without the feature `loader` there is no command to kill");
}

fullpipe_testkit::tests! {
    long [Root, Kernel] connections_of_a_cgroup_have_the_algorithm_until_that_ends,
        a_port_at_either_end_is_what_counts, of_nested_cgroups_the_innermost_counts,
        a_cgroup_or_an_algorithm_that_is_gone_is_in_nobodys_way,
        what_cannot_be_used_is_told_in_one_line,
        a_killed_use_leaves_nothing_that_status_does_not_show;
}
