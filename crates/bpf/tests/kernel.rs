//! The program in this machine's kernel: it passes the verifier, carries connections over loopback
//! with every byte, and leaves nothing behind. Needs root; without it, and without a kernel that takes
//! such programs, the tests say so and pass.
#![cfg(all(feature = "kernel", target_os = "linux"))]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs};

use fullpipe_bpf::kernel::{self, Error, Loaded, Options};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{getsockopt, setsockopt};

/// One at a time: what is left behind is looked for by its name.
static KERNEL: Mutex<()> = Mutex::new(());

fn options(name: &str) -> Options {
    Options { name: name.to_owned(), ..Options::default() }
}

/// `None`, and a line why, where this machine cannot.
fn load(options: &Options) -> Option<Loaded> {
    match kernel::load(options) {
        Ok(loaded) => Some(loaded),
        Err(
            error @ (Error::NotRoot | Error::NoBtf | Error::NoStructOps | Error::TooOld { .. }),
        ) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("Linux has it")
}

/// The names that TCP has, and the maps of such programs by their number: somebody may have loaded one
/// already, and what others leave may go at any time.
fn in_the_kernel() -> Vec<String> {
    let maps = libbpf_rs::query::MapInfoIter::default();
    let ours = ["flows", "registration", "bbr3_ops"];
    let maps = maps.filter(|map| ours.iter().any(|name| map.name.to_string_lossy() == *name));
    let names = available().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    names.into_iter().chain(maps.map(|map| map.id.to_string())).collect()
}

/// The kernel frees what the last connection used when it gets to it.
fn assert_nothing_is_left(before: &[String]) {
    let end = Instant::now() + Duration::from_secs(20);
    while let Some(left) = in_the_kernel().iter().find(|name| !before.contains(name)) {
        assert!(Instant::now() < end, "{left} is left");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The byte at `at` of connection `seed`.
fn content(seed: usize, at: usize) -> u8 {
    ((at >> 3) * 31 + at * 7 + seed) as u8
}

/// Sends so many bytes over loopback under `name`; calls `at_half` on the way. Every byte is compared.
fn transfer(name: &str, seed: usize, bytes: usize, at_half: impl FnOnce()) {
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
    assert_eq!(receiver.join().expect("it compares"), bytes);
}

#[test]
fn a_connection_carries_every_byte_and_nothing_stays() {
    let _one = KERNEL.lock();
    let before = in_the_kernel();
    let Some(loaded) = load(&options("fullpipe_test1")) else { return };
    assert!(available().contains("fullpipe_test1"));
    let again = kernel::load(&options("fullpipe_test1"));
    assert!(matches!(again, Err(Error::NameTaken(_))), "it is not pinned: {again:?}");
    transfer("fullpipe_test1", 1, 64 << 20, || {});
    drop(loaded);
    assert_nothing_is_left(&before);
}

#[test]
fn unloading_under_a_hundred_connections_loses_no_byte() {
    let _one = KERNEL.lock();
    let before = in_the_kernel();
    let Some(loaded) = load(&options("fullpipe_test2")) else { return };
    let loaded = Mutex::new(Some(loaded));
    let halfway = Barrier::new(100);
    thread::scope(|scope| {
        for seed in 0..100 {
            let (loaded, halfway) = (&loaded, &halfway);
            scope.spawn(move || {
                transfer("fullpipe_test2", seed, 1 << 20, || {
                    if halfway.wait().is_leader() {
                        drop(loaded.lock().expect("nobody panics with it").take());
                        assert!(!available().contains("fullpipe_test2"));
                    }
                    halfway.wait();
                });
            });
        }
    });
    assert_nothing_is_left(&before);
}

/// Runs the checks in a mount namespace of its own, and in what else is asked for: the system's BPF file
/// system and its default stay as they are.
fn apart(namespaces: CloneFlags, checks: impl FnOnce() + Send + 'static) {
    let thread = thread::spawn(move || {
        if unshare(CloneFlags::CLONE_NEWNS | namespaces).is_err() {
            eprintln!("skipped: a mount namespace needs root");
            return;
        }
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
        checks();
    });
    thread.join().expect("the checks hold");
}

/// A file system of this kind over a directory, for this thread's namespace alone.
fn cover(directory: &str, kind: &str) {
    mount(Some(kind), directory, Some(kind), MsFlags::empty(), None::<&str>).expect(kind);
}

fn default() -> String {
    let name = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    name.expect("there is one").trim().to_owned()
}

fn set_default(name: &str) {
    fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name).expect("the kernel has it");
}

#[test]
fn a_default_is_put_back_when_its_owner_ends() {
    let _one = KERNEL.lock();
    apart(CloneFlags::CLONE_NEWNET, || {
        let before = default();
        let options = Options { default: true, ..options("fullpipe_test4") };
        let Some(loaded) = load(&options) else { return };
        assert_eq!(default(), "fullpipe_test4");
        drop(loaded);
        assert_eq!(default(), before);
        let Some(loaded) = load(&options) else { return };
        set_default("reno");
        drop(loaded);
        assert_eq!(default(), "reno", "somebody chose another one meanwhile");
        assert_eq!(kernel::put_back_left_over().expect("root"), None);
    });
}

/// A pin that is removed by hand leaves what a killed process does: a default that is gone.
#[test]
fn a_default_that_nobody_put_back_is_put_back_by_who_comes_next() {
    let _one = KERNEL.lock();
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        set_default("reno");
        let leave = |name: &str| {
            let pinned = Options { default: true, pin: true, ..options(name) };
            drop(load(&pinned)?);
            fs::remove_dir_all("/sys/fs/bpf/fullpipe").expect("root removes it");
            let end = Instant::now() + Duration::from_secs(5);
            while available().contains(name) {
                assert!(Instant::now() < end, "{name} is left");
                thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(default(), name, "the kernel keeps it");
            Some(())
        };
        if leave("fullpipe_test7").is_none() {
            return;
        }
        let back = kernel::put_back_left_over().expect("root").expect("it was left");
        assert_eq!((&*back.gone, &*back.default), ("fullpipe_test7", "reno"));
        assert_eq!(default(), "reno");
        assert_eq!(kernel::put_back_left_over().expect("root"), None);

        // The next one by the same name is no reason to keep the one that is gone.
        leave("fullpipe_test7").expect("as before");
        let same =
            load(&Options { default: true, ..options("fullpipe_test7") }).expect("as before");
        drop(same);
        assert_eq!(default(), "reno");

        // Nobody noted what was before one that was chosen by hand.
        let chosen = load(&options("fullpipe_test8")).expect("as before");
        set_default("fullpipe_test8");
        drop(chosen);
        assert_eq!(default(), "fullpipe_test8");
        drop(load(&Options { default: true, ..options("fullpipe_test9") }).expect("as before"));
        assert!(matches!(&*default(), "cubic" | "reno"), "{}", default());
    });
}

#[test]
fn status_tells_the_model_of_each_connection() {
    let _one = KERNEL.lock();
    let before = in_the_kernel();
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let options = Options { pin: true, ..options("fullpipe_test5") };
        if load(&options).is_none() {
            return;
        }
        let users = || kernel::status().expect("root reads it").expect("it is pinned").connections;
        assert_eq!(users(), []);
        transfer("fullpipe_test5", 5, 64 << 20, || {
            let users = users();
            let [one] = &users[..] else { panic!("one connection, not {users:?}") };
            assert!(one.remote.ip().is_loopback() && one.local_port != 0, "{one:?}");
            assert_ne!(one.state, "unknown", "{one:?}");
            assert!(one.smss >= 536 && one.cwnd >= 4 * one.smss, "{one:?}");
            assert!(one.delivered > 20_000_000 && one.pacing_rate > 1 << 20, "{one:?}");
            assert!(one.max_bw > 1 << 20, "loopback carries more than 1 MB/s: {one:?}");
            let min_rtt = one.min_rtt.expect("it has samples");
            assert!((1_000..20_000_000).contains(&min_rtt), "{one:?}");
        });
        assert_eq!(kernel::unload().expect("it is pinned").name, "fullpipe_test5");
    });
    assert_nothing_is_left(&before);
}

#[test]
fn a_kernel_that_cannot_is_told_what_it_lacks() {
    apart(CloneFlags::empty(), || {
        cover("/sys/kernel/btf", "tmpfs");
        let says = || kernel::load(&options("fullpipe_test6")).expect_err("no such kernel");
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

#[test]
fn a_pinned_default_is_shown_and_unloaded_again() {
    let _one = KERNEL.lock();
    let before = in_the_kernel();
    apart(CloneFlags::CLONE_NEWNET, || {
        let options = Options { default: true, pin: true, ..options("fullpipe_test3") };
        cover("/sys/fs/bpf", "bpf");
        let old_default = default();
        assert!(kernel::status().expect("root reads it").is_none());
        assert!(matches!(kernel::unload(), Err(Error::NotPinned)));
        let Some(loaded) = load(&options) else { return };
        drop(loaded);
        assert_eq!(default(), "fullpipe_test3");
        let status = kernel::status().expect("root reads it").expect("it is pinned");
        assert!(status.is_default && status.connections.is_empty());
        assert_eq!(status.previous_default.as_deref(), Some(&*old_default));
        assert!(kernel::load(&Options { name: "other".to_owned(), ..options.clone() }).is_err());
        let again = kernel::load(&options);
        assert!(matches!(again, Err(Error::AlreadyLoaded(_))), "{again:?}");
        assert_eq!(kernel::unload().expect("it is pinned").name, "fullpipe_test3");
        assert_eq!(default(), old_default);
        assert!(!fs::exists("/sys/fs/bpf/fullpipe").expect("bpffs"));
    });
    assert_nothing_is_left(&before);
}

#[test]
fn of_two_loaders_at_once_one_wins_and_stays() {
    let _one = KERNEL.lock();
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        set_default("reno");
        for round in 0..8 {
            let both = Barrier::new(2);
            let load = |number: u8| {
                let name = format!("fullpipe_two{number}");
                both.wait();
                kernel::load(&Options { default: true, pin: true, ..options(&name) })
            };
            let results = thread::scope(|scope| {
                let threads = [0, 1].map(|number| scope.spawn(move || load(number)));
                threads.map(|thread| thread.join().expect("it does not panic"))
            });
            if let [Err(Error::NotRoot | Error::NoBtf | Error::NoStructOps), _] = &results {
                return eprintln!("skipped: this machine cannot load it");
            }
            let winners: Vec<usize> = (0..2).filter(|&i| results[i].is_ok()).collect();
            assert_eq!(winners.len(), 1, "round {round}: {results:?}");
            let name = format!("fullpipe_two{}", winners[0]);
            let status = kernel::status().expect("root reads it").expect("it is pinned");
            assert_eq!((&status.name, status.is_default), (&name, true), "round {round}");
            assert!(available().contains(&name), "round {round}: {}", available());
            drop(results);
            assert_eq!(kernel::unload().expect("it is pinned").name, name);
            assert_eq!(default(), "reno", "round {round}");
        }
    });
}

/// Pins without the registration itself.
#[test]
fn what_a_killed_loader_pinned_is_in_nobodys_way() {
    let _one = KERNEL.lock();
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        let pinned = Options { pin: true, ..options("fullpipe_test10") };
        let Some(loaded) = load(&pinned) else { return };
        drop(loaded);
        fs::remove_file("/sys/fs/bpf/fullpipe/link").expect("root removes it");
        let end = Instant::now() + Duration::from_secs(5);
        while available().contains("fullpipe_test10") {
            assert!(Instant::now() < end, "it is left");
            thread::sleep(Duration::from_millis(10));
        }
        assert!(kernel::status().expect("root reads it").is_none(), "nothing is loaded");
        drop(load(&pinned).expect("as before"));
        assert_eq!(kernel::unload().expect("it is pinned").name, "fullpipe_test10");
    });
}

/// A namespace that is made while the program is the default of the system's first one inherits it.
#[test]
fn unloading_puts_the_default_back_in_every_namespace() {
    let _one = KERNEL.lock();
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        set_default("reno");
        let Some(loaded) =
            load(&Options { default: true, pin: true, ..options("fullpipe_test11") })
        else {
            return;
        };
        drop(loaded);
        let (ready, asked) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("root");
                set_default("fullpipe_test11");
                ready.wait();
                asked.wait();
                default()
            });
            ready.wait();
            let unloaded = kernel::unload().expect("it is pinned");
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

#[test]
fn a_lacking_capability_is_named() {
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let _one = KERNEL.lock();
    if load(&options("fullpipe_test12")).is_none() {
        return;
    }
    let load_with = |kept: &'static [u32]| {
        let load = || {
            keep_capabilities(kept);
            kernel::load(&options("fullpipe_test12")).map(drop)
        };
        thread::spawn(load).join().expect("it does not panic")
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

#[test]
fn names_that_tcp_does_not_take_are_refused() {
    for name in ["", "sixteen_letters_", "a b", "bbr/3", "a\nb"] {
        let error = kernel::load(&options(name)).expect_err("no name");
        assert!(matches!(error, Error::BadName(_)), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
