//! Capabilities of the machine that a test may need, each found out by trying it.

use std::env;
use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::thread;

use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{AccessFlags, access};

/// The user who has no rights.
const NOBODY: u32 = 65_534;

/// A capability of the machine. [`Need::probe`] tries it; no test reads another program's error
/// text for that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// The right to make network namespaces.
    Root,
    /// A user namespace with a network namespace in it, without root.
    UserNamespaces,
    /// A TUN device: `/dev/net/tun` opens.
    Tun,
    /// A user namespace with a TUN device in it for somebody who is not root, whoever runs the
    /// test.
    UnprivilegedTun,
    /// Congestion control by BPF: root, and a kernel with type information.
    Kernel,
    /// IPv6 on loopback.
    Ipv6,
    /// A second address of 127.0.0.0/8.
    SecondLoopback,
    /// `ip`, of iproute2.
    Ip,
    /// `iperf3`.
    Iperf3,
    /// `curl`.
    Curl,
    /// `nginx`.
    Nginx,
    /// `python3`.
    Python3,
    /// aioquic: the Python of `FULLPIPE_PYTHON`, which `./test.sh` sets, imports it.
    Aioquic,
    /// Chromium, under one of its names.
    Chromium,
    /// `strace`, and the right to trace.
    Strace,
    /// `bash`, with `/dev/tcp`.
    Bash,
    /// `zsh`.
    Zsh,
    /// `fish`.
    Fish,
    /// `man`, which formats manual pages.
    Man,
    /// `tcpdump`.
    Tcpdump,
    /// A C compiler, `cc`.
    Cc,
    /// `pkg-config`.
    PkgConfig,
    /// A capability that no machine has, for the tests of the harness.
    Nowhere,
}

impl Need {
    /// Each of them.
    pub const ALL: [Self; 23] = [
        Self::Root,
        Self::UserNamespaces,
        Self::Tun,
        Self::UnprivilegedTun,
        Self::Kernel,
        Self::Ipv6,
        Self::SecondLoopback,
        Self::Ip,
        Self::Iperf3,
        Self::Curl,
        Self::Nginx,
        Self::Python3,
        Self::Aioquic,
        Self::Chromium,
        Self::Strace,
        Self::Bash,
        Self::Zsh,
        Self::Fish,
        Self::Man,
        Self::Tcpdump,
        Self::Cc,
        Self::PkgConfig,
        Self::Nowhere,
    ];

    /// Its name in `FULLPIPE_REQUIRE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::UserNamespaces => "user-namespaces",
            Self::Tun => "tun",
            Self::UnprivilegedTun => "unprivileged-tun",
            Self::Kernel => "kernel",
            Self::Ipv6 => "ipv6",
            Self::SecondLoopback => "second-loopback",
            Self::Ip => "ip",
            Self::Iperf3 => "iperf3",
            Self::Curl => "curl",
            Self::Nginx => "nginx",
            Self::Python3 => "python3",
            Self::Aioquic => "aioquic",
            Self::Chromium => "chromium",
            Self::Strace => "strace",
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
            Self::Man => "man",
            Self::Tcpdump => "tcpdump",
            Self::Cc => "cc",
            Self::PkgConfig => "pkg-config",
            Self::Nowhere => "nowhere",
        }
    }

    /// Tries it.
    ///
    /// # Errors
    /// The missing capability, in a few words.
    pub fn probe(self) -> Result<(), String> {
        match self {
            Self::Root => root(),
            Self::UserNamespaces => user_namespaces(),
            Self::Tun => tun(),
            Self::UnprivilegedTun => unprivileged_tun(),
            Self::Kernel => kernel(),
            Self::Ipv6 => bind("[::1]:0", "no IPv6 on loopback"),
            Self::SecondLoopback => bind("127.0.0.2:0", "no address 127.0.0.2"),
            Self::Aioquic => aioquic(),
            Self::Chromium => ["chromium", "chromium-browser", "google-chrome", "chrome"]
                .iter()
                .any(|name| program(name).is_some())
                .then_some(())
                .ok_or_else(|| "no chromium".to_owned()),
            Self::Strace => strace(),
            Self::Nowhere => Err("nothing of this kind anywhere".to_owned()),
            _ => program(self.name()).map(|_| ()).ok_or_else(|| format!("no {}", self.name())),
        }
    }

    /// True if `FULLPIPE_REQUIRE` names it: its absence is then a failure. What the policy of a
    /// machine refuses even to root is not required, since no installation brings it.
    pub(crate) fn is_required(self) -> bool {
        required().contains(&self) && !(self == Self::Kernel && refuses_bpf())
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Need {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|need| need.name() == name).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|need| need.name()).collect();
            format!(
                "FULLPIPE_REQUIRE: there is no capability '{name}'; write some of {}",
                all.join(",")
            )
        })
    }
}

/// The needs that `FULLPIPE_REQUIRE` names, as in `FULLPIPE_REQUIRE=root,tun`. A name that is none
/// ends the process with 2: a typing error would otherwise require nothing.
pub(crate) fn required() -> &'static [Need] {
    static REQUIRED: OnceLock<Vec<Need>> = OnceLock::new();
    REQUIRED.get_or_init(|| {
        let names = env::var("FULLPIPE_REQUIRE").unwrap_or_default();
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::parse).collect::<Result<_, String>>().unwrap_or_else(|error| {
            eprintln!("{error}");
            std::process::exit(2);
        })
    })
}

/// The file of a program that this user may run, from `PATH`. Folders that the user may not read
/// are passed over.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let found = |dir: PathBuf| {
        let file = dir.join(name);
        (file.is_file() && access(&file, AccessFlags::X_OK).is_ok()).then_some(file)
    };
    env::split_paths(&path).find_map(found)
}

fn root() -> Result<(), String> {
    // In a thread of its own, which alone moves into the namespace.
    let tried = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join();
    match tried.expect("no panic") {
        Ok(()) => Ok(()),
        Err(error) => Err(format!("no right to make a network namespace ({})", error.desc())),
    }
}

fn user_namespaces() -> Result<(), String> {
    let made = Command::new("unshare")
        .args(["--map-root-user", "--net", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("no user namespace with a network of its own".to_owned()),
        Err(_) => Err("no unshare (util-linux) to make a user namespace with".to_owned()),
    }
}

fn tun() -> Result<(), String> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    opened.map(|_| ()).map_err(|error| format!("/dev/net/tun does not open ({})", error.kind()))
}

fn unprivileged_tun() -> Result<(), String> {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", ": <> /dev/net/tun"]).current_dir("/");
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let may = succeeds(&mut command);
    may.then_some(()).ok_or_else(|| "no namespace with a TUN device without root".to_owned())
}

fn kernel() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("no root to load a BPF program".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("no type information (BTF) in this kernel".to_owned());
    }
    if refuses_bpf() {
        return Err("no permission for BPF programs, by a policy of this machine".to_owned());
    }
    Ok(())
}

/// True if root may not load a BPF program of the kind that reads the connections. A security
/// module can refuse a kind of program with EPERM, some those alone that a function of the kernel
/// calls. Without such a policy the kernel finds these invalid, since they name no function.
fn refuses_bpf() -> bool {
    const UNSPECIFIED: u32 = 0;
    const BPF_TRACE_FENTRY: u32 = 24;
    [UNSPECIFIED, BPF_TRACE_FENTRY].into_iter().any(refuses_tracing)
}

/// True if the kernel refuses a tracing program of this attach type with EPERM.
fn refuses_tracing(attach_type: u32) -> bool {
    const BPF_PROG_LOAD: libc::c_long = 5;
    const BPF_PROG_TYPE_TRACING: u32 = 26;
    /// The head of `union bpf_attr` for BPF_PROG_LOAD; what is not named is zero.
    #[repr(C)]
    struct Load {
        kind: u32,
        instructions_count: u32,
        instructions: u64,
        license: u64,
        log_to_ifindex: [u32; 11],
        attach_type: u32,
        rest: [u64; 9],
    }
    // `r0 = 0; exit`, of struct bpf_insn in linux/bpf.h.
    let instructions = [0xb7_u64, 0x95];
    let load = Load {
        kind: BPF_PROG_TYPE_TRACING,
        instructions_count: 2,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_to_ifindex: [0; 11],
        attach_type,
        rest: [0; 9],
    };
    // SAFETY: the kernel reads so many bytes, and the two places that they name.
    let loaded =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<Load>()) };
    if loaded >= 0 {
        // SAFETY: a descriptor that nothing else has.
        unsafe { libc::close(loaded as libc::c_int) };
        return false;
    }
    std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

fn bind(address: &str, otherwise: &str) -> Result<(), String> {
    std::net::UdpSocket::bind(address).map(|_| ()).map_err(|_| otherwise.to_owned())
}

fn aioquic() -> Result<(), String> {
    let missing = || "no aioquic (./test.sh installs it where Python can make a venv)".to_owned();
    let python = env::var_os("FULLPIPE_PYTHON").ok_or_else(missing)?;
    succeeds(Command::new(python).args(["-c", "import aioquic"])).then_some(()).ok_or_else(missing)
}

fn strace() -> Result<(), String> {
    program("strace").ok_or("no strace")?;
    let may = succeeds(Command::new("strace").args(["-o", "/dev/null", "true"]));
    may.then_some(()).ok_or_else(|| "strace may not trace here".to_owned())
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_is_found_by_its_name() {
        for need in Need::ALL {
            assert_eq!(need.name().parse(), Ok(need));
        }
        let error = "iperf4".parse::<Need>().expect_err("there is none");
        assert!(error.contains("'iperf4'") && error.contains("iperf3"), "{error}");
    }

    #[test]
    fn a_program_is_a_file_that_may_be_run() {
        assert!(program("sh").is_some());
        assert_eq!(program("no-program-has-this-name"), None);
        assert_eq!(program(""), None);
    }
}
