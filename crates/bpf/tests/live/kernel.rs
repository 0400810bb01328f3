//! The program in this machine's kernel: it passes the verifier, carries connections over loopback
//! with every byte, and leaves nothing behind.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::panic::resume_unwind;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::{ffi::OsString, fs};

use fullpipe_bpf::kernel::{self, Error, Held, Options, Program};
use fullpipe_testkit::until;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{getsockopt, setsockopt};

use crate::own::{InTheKernel, available, load, name_of};

pub(crate) fn options(name: &str) -> Options {
    Options { name: name.to_owned(), ..Options::default() }
}

/// The byte at `at` of connection `seed`.
fn content(seed: usize, at: usize) -> u8 {
    ((at >> 3) * 31 + at * 7 + seed) as u8
}

/// Sends so many bytes over loopback under `name`; calls `at_half` on the way. Every byte is
/// compared.
pub(crate) fn transfer(name: &str, seed: usize, bytes: usize, at_half: impl FnOnce()) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("it has one");
    let receiver = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it connects");
        let (mut buffer, mut at) = (vec![0; 1 << 16], 0);
        loop {
            let n = stream.read(&mut buffer).expect("it goes on");
            if n == 0 {
                return at;
            }
            for byte in &buffer[..n] {
                assert_eq!(*byte, content(seed, at), "byte {at}");
                at += 1;
            }
        }
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    setsockopt(&stream, TcpCongestion, &OsString::from(name)).expect("the name is known");
    let chosen = getsockopt(&stream, TcpCongestion).expect("it has one");
    assert_eq!(chosen.to_string_lossy().trim_end_matches('\0'), name);
    let data: Vec<u8> = (0..bytes).map(|at| content(seed, at)).collect();
    stream.write_all(&data[..bytes / 2]).expect("the first half");
    at_half();
    stream.write_all(&data[bytes / 2..]).expect("the second half");
    drop(stream);
    assert_eq!(receiver.join().unwrap_or_else(|panic| resume_unwind(panic)), bytes);
}

fn a_connection_carries_every_byte_and_nothing_stays() {
    let name = &*name_of("test1");
    let loaded = load(&options(name));
    let own = InTheKernel::of(name);
    assert!(available().contains(name));
    let again = kernel::load(&options(name));
    assert!(matches!(again, Err(Error::NameTaken(_))), "it is not pinned: {again:?}");
    transfer(name, 1, 64 << 20, || {});
    drop(loaded);
    own.is_gone();
}

fn unloading_under_a_hundred_connections_loses_no_byte() {
    let name = &*name_of("test2");
    let loaded = load(&options(name));
    let own = InTheKernel::of(name);
    let loaded = Mutex::new(Some(loaded));
    let halfway = Barrier::new(100);
    thread::scope(|scope| {
        for seed in 0..100 {
            let (loaded, halfway) = (&loaded, &halfway);
            scope.spawn(move || {
                transfer(name, seed, 1 << 20, || {
                    if halfway.wait().is_leader() {
                        drop(loaded.lock().expect("nobody panics with it").take());
                        assert!(!available().contains(name));
                    }
                    halfway.wait();
                });
            });
        }
    });
    own.is_gone();
}

/// The program of this name, if it is in the kernel.
pub(crate) fn program(name: &str) -> Option<Program> {
    let programs = kernel::status().expect("root reads it").programs;
    programs.into_iter().find(|program| program.name == name)
}

pub(crate) fn unload(name: &str) {
    let unloaded = kernel::unload(Some(name)).expect("it is pinned").programs;
    assert_eq!((unloaded.len(), &*unloaded[0].name), (1, name));
}

/// Runs the checks in a mount namespace of its own, and in what else is asked for: the system's BPF
/// file system and its default stay as they are.
pub(crate) fn apart(namespaces: CloneFlags, checks: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS | namespaces).expect("the tests name Need::Root");
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
        checks();
    });
    if let Err(panic) = thread.join() {
        resume_unwind(panic);
    }
}

/// A file system of this kind over a directory, for this thread's namespace alone.
pub(crate) fn cover(directory: &str, kind: &str) {
    mount(Some(kind), directory, Some(kind), MsFlags::empty(), None::<&str>).expect(kind);
}

pub(crate) fn default() -> String {
    let name = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    name.expect("there is one").trim().to_owned()
}

pub(crate) fn set_default(name: &str) {
    fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name).expect("the kernel has it");
}

fn a_default_is_put_back_when_its_owner_ends() {
    apart(CloneFlags::CLONE_NEWNET, || {
        let before = default();
        let name = name_of("test4");
        let options = Options { default: true, ..options(&name) };
        let loaded = load(&options);
        assert_eq!(default(), name);
        drop(loaded);
        assert_eq!(default(), before);
        let loaded = load(&options);
        set_default("reno");
        drop(loaded);
        assert_eq!(default(), "reno", "somebody chose another one meanwhile");
        assert_eq!(kernel::put_back_left_over().expect("root"), None);
    });
}

/// A pin that is removed by hand leaves what a killed process does: a default that is gone.
fn a_default_that_nobody_put_back_is_put_back_by_who_comes_next() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        set_default("reno");
        let leave = |name: &str| {
            let pinned = Options { default: true, pin: true, ..options(name) };
            drop(load(&pinned));
            fs::remove_dir_all("/sys/fs/bpf/fullpipe").expect("root removes it");
            until(&format!("{name} is gone"), || !available().contains(name));
            assert_eq!(default(), name, "the kernel keeps it");
        };
        let [left, chosen_by_hand, next] = ["test7", "test8", "test9"].map(name_of);
        leave(&left);
        let back = kernel::put_back_left_over().expect("root").expect("it was left");
        assert_eq!((&*back.gone, &*back.default), (&*left, "reno"));
        assert_eq!(default(), "reno");
        assert_eq!(kernel::put_back_left_over().expect("root"), None);

        // The next one by the same name is no reason to keep the one that is gone.
        leave(&left);
        drop(load(&Options { default: true, ..options(&left) }));
        assert_eq!(default(), "reno");

        // Nobody noted what was before one that was chosen by hand, and nobody puts it back.
        let chosen = load(&Options { pin: true, ..options(&chosen_by_hand) });
        set_default(&chosen_by_hand);
        drop(chosen);
        fs::remove_dir_all("/sys/fs/bpf/fullpipe").expect("root removes it");
        until("it is gone", || !available().contains(&chosen_by_hand));
        assert_eq!(default(), chosen_by_hand);
        drop(load(&Options { default: true, ..options(&next) }));
        assert!(matches!(&*default(), "cubic" | "reno"), "{}", default());
    });
}

fn status_tells_the_model_of_each_connection() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let name = &*name_of("test5");
        let loaded = load(&Options { pin: true, ..options(name) });
        let own = InTheKernel::of(name);
        drop(loaded);
        let users = || program(name).expect("it is pinned").connections;
        assert_eq!(users(), []);
        transfer(name, 5, 64 << 20, || {
            let users = users();
            let [one] = &users[..] else { panic!("one connection, not {users:?}") };
            assert!(
                one.remote.ip().is_loopback()
                    && one.local.ip() == one.remote.ip()
                    && one.local.port() != 0,
                "{one:?}"
            );
            assert_ne!(one.state, "unknown", "{one:?}");
            assert!(one.smss >= 536 && one.cwnd >= 4 * one.smss, "{one:?}");
            assert!(one.delivered > 20_000_000 && one.pacing_rate > 1 << 20, "{one:?}");
            assert!(one.max_bw > 1 << 20, "loopback carries more than 1 MB/s: {one:?}");
            let min_rtt = one.min_rtt.expect("it has samples");
            assert!((1_000..20_000_000).contains(&min_rtt), "{one:?}");
        });
        unload(name);
        own.is_gone();
    });
}

fn a_kernel_that_cannot_is_told_what_it_lacks() {
    apart(CloneFlags::empty(), || {
        cover("/sys/kernel/btf", "tmpfs");
        let says = || kernel::load(&options(&name_of("test6"))).expect_err("no such kernel");
        assert!(matches!(says(), Error::NoBtf), "{}", says());
        fs::write("/sys/kernel/btf/vmlinux", b"types\0of an older kernel\0").expect("a tmpfs");
        assert!(matches!(says(), Error::NoStructOps), "{}", says());
        // It takes struct_ops, but lacks what came later.
        fs::write("/sys/kernel/btf/vmlinux", b"\0bpf_struct_ops_tcp_congestion_ops\0")
            .expect("a tmpfs");
        let said = says().to_string();
        assert!(said.starts_with("this is Linux ") && said.contains("6.4 or later"), "{said}");
        for error in [Error::NoBtf, Error::NoStructOps] {
            let line = error.to_string();
            assert!(line.contains("CONFIG_") && !line.contains('\n'), "{line}");
        }
    });
}

fn a_pinned_default_is_shown_and_unloaded_again() {
    apart(CloneFlags::CLONE_NEWNET, || {
        let name = &*name_of("test3");
        let options = Options { default: true, pin: true, ..options(name) };
        cover("/sys/fs/bpf", "bpf");
        let old_default = default();
        assert!(program(name).is_none());
        assert!(matches!(kernel::unload(None), Err(Error::NotPinned)));
        let loaded = load(&options);
        let own = InTheKernel::of(name);
        drop(loaded);
        assert_eq!(default(), name);
        let status = program(name).expect("it is pinned");
        assert!(status.is_default && status.connections.is_empty());
        assert!(status.is_this_build && status.held == Held::Pinned, "{status:?}");
        assert_eq!(status.previous_default.as_deref(), Some(&*old_default));
        let again = kernel::load(&options);
        assert!(matches!(again, Err(Error::AlreadyLoaded(_))), "{again:?}");
        unload(name);
        assert_eq!(default(), old_default);
        assert!(!fs::exists("/sys/fs/bpf/fullpipe").expect("bpffs"));
        own.is_gone();
    });
}

fn of_two_loaders_at_once_one_wins_and_stays() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        set_default("reno");
        let name = name_of("two");
        // Whether this kernel takes it at all.
        drop(load(&options(&name)));
        for round in 0..8 {
            let both = Barrier::new(2);
            let load = || {
                both.wait();
                kernel::load(&Options { default: true, pin: true, ..options(&name) })
            };
            let results = thread::scope(|scope| {
                let threads = [scope.spawn(load), scope.spawn(load)];
                threads.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            });
            assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1, "{round}: {results:?}");
            let status = program(&name).expect("it is pinned");
            assert!(status.is_default, "round {round}");
            assert!(available().contains(&name), "round {round}: {}", available());
            drop(results);
            unload(&name);
            assert_eq!(default(), "reno", "round {round}");
        }
    });
}

/// Pins without the registration itself.
fn what_a_killed_loader_pinned_is_in_nobodys_way() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        let name = &*name_of("test10");
        let pinned = Options { pin: true, ..options(name) };
        drop(load(&pinned));
        fs::remove_file(format!("/sys/fs/bpf/fullpipe/{name}/link")).expect("root removes it");
        until("it is gone", || !available().contains(name));
        assert!(program(name).is_none(), "nothing is loaded");
        drop(load(&pinned));
        unload(name);
    });
}

/// A namespace that is made while the program is the default of the system's first one inherits it.
fn unloading_puts_the_default_back_in_every_namespace() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        set_default("reno");
        let name = &*name_of("test11");
        drop(load(&Options { default: true, pin: true, ..options(name) }));
        let (ready, asked) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("root");
                set_default(name);
                ready.wait();
                asked.wait();
                default()
            });
            ready.wait();
            let [unloaded] = &kernel::unload(None).expect("it is pinned").programs[..] else {
                panic!("one")
            };
            asked.wait();
            assert_eq!(other.join().expect("it has one"), "reno");
            assert_eq!((unloaded.put_back, unloaded.kept), (1, 0));
        });
        assert_eq!(default(), "reno");
    });
}

/// Takes capabilities away from the calling thread: all but these, by their numbers in
/// linux/capability.h.
fn keep_capabilities(kept: &[u32]) {
    #[repr(C)]
    struct Header(u32, i32);
    const VERSION_3: u32 = 0x2008_0522;
    let mut sets = [[0u32; 3]; 2];
    for capability in kept {
        // Effective and permitted, in halves of 32 bits.
        sets[*capability as usize / 32][..2]
            .iter_mut()
            .for_each(|set| *set |= 1 << (capability % 32));
    }
    // SAFETY: capset() reads a header and two structs of three words.
    let done = unsafe { libc::syscall(libc::SYS_capset, &Header(VERSION_3, 0), sets.as_ptr()) };
    assert_eq!(done, 0, "a process may give up what it has");
}

fn a_lacking_capability_is_named() {
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let name = name_of("test12");
    drop(load(&options(&name)));
    let load_with = |kept: &'static [u32]| {
        let load = || {
            keep_capabilities(kept);
            kernel::load(&options(&name)).map(drop)
        };
        thread::scope(|scope| scope.spawn(load).join()).unwrap_or_else(|panic| resume_unwind(panic))
    };
    load_with(&[PERFMON, BPF]).expect("these are what is needed");
    for (kept, lacking) in [(&[BPF], "CAP_PERFMON"), (&[PERFMON], "CAP_BPF")] {
        let said = load_with(kept).expect_err(lacking).to_string();
        assert!(said.ends_with(&format!("lacks {lacking}")), "without {lacking}: {said}");
    }
    let said = load_with(&[]).expect_err("without all").to_string();
    for part in ["root", "CAP_BPF", "CAP_PERFMON"] {
        assert!(said.contains(part), "{said}");
    }
}

fullpipe_testkit::tests! {
    long [Root, Kernel] a_connection_carries_every_byte_and_nothing_stays,
        unloading_under_a_hundred_connections_loses_no_byte,
        a_default_is_put_back_when_its_owner_ends,
        a_default_that_nobody_put_back_is_put_back_by_who_comes_next,
        a_kernel_that_cannot_is_told_what_it_lacks, a_pinned_default_is_shown_and_unloaded_again,
        of_two_loaders_at_once_one_wins_and_stays,
        what_a_killed_loader_pinned_is_in_nobodys_way,
        unloading_puts_the_default_back_in_every_namespace, a_lacking_capability_is_named;
    long timed [Root, Kernel] status_tells_the_model_of_each_connection;
}
