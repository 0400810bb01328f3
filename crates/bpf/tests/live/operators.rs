//! The program as somebody sees and handles it who runs it on a machine.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Barrier;
use std::thread;

use fullpipe_bpf::kernel::{self, Error, Held, Options};
use fullpipe_testkit::{skip, until};
use nix::sched::{CloneFlags, unshare};

use crate::handshake::run;
use crate::kernel::{apart, cover, default, options, program, set_default, transfer, unload};
use crate::own::{InTheKernel, available, load, name_of};

fn pinned(name: &str) -> Options {
    Options { pin: true, ..options(name) }
}

/// Nobody noted what was before it.
fn a_default_that_was_set_by_hand_does_not_outlive_the_program() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        let (name, held) = (&*name_of("hand"), &*name_of("hand2"));
        let kernels_own = || matches!(&*default(), "cubic" | "reno");
        drop(load(&pinned(name)));
        set_default(name);
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
            let status = program(name).expect("it is pinned");
            assert!(status.is_default && status.default_elsewhere == 1, "{status:?}");
            unload(name);
            asked.wait();
            let other = other.join().expect("it has one");
            assert!(matches!(&*other, "cubic" | "reno"), "{other}");
        });
        assert!(kernels_own(), "{}", default());
        // The same of one that a process holds.
        let loaded = load(&options(held));
        set_default(held);
        drop(loaded);
        assert!(kernels_own(), "{}", default());
    });
}

/// The kernel keeps a program as the default of a namespace, whatever its name is now.
fn a_new_program_takes_the_place_of_an_earlier_default_of_its_name() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        run("ip", &["link", "set", "lo", "up"]);
        let name = &*name_of("renew");
        drop(load(&pinned(name)));
        set_default(name);
        fs::remove_dir_all("/sys/fs/bpf/fullpipe").expect("root removes it");
        until("it is gone", || !available().contains(name));
        assert_eq!(default(), name, "the kernel keeps it");
        let loaded = load(&options(name));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("it has one");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(&[1]).expect("it is sent");
        let both = listener.accept().expect("it connects");
        assert_eq!(loaded.usage().expect("root reads it").connections, 2);
        drop((stream, both));
    });
}

fn two_programs_are_pinned_side_by_side() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        let (one, two) = (&*name_of("side1"), &*name_of("side2"));
        drop(load(&pinned(one)));
        drop(load(&Options { amended: true, ..pinned(two) }));
        for (name, amended) in [(one, false), (two, true)] {
            let status = program(name).expect("it is pinned");
            assert_eq!((status.held, status.amended), (Held::Pinned, amended), "{status:?}");
        }
        let missing = kernel::unload(Some("nobody")).expect_err("there is none");
        assert!(matches!(missing, Error::NotPinnedBy(_)), "{missing}");
        unload(one);
        assert!(!available().contains(one) && available().contains(two), "{}", available());
        drop(load(&pinned(one)));
        let unloaded = kernel::unload(None).expect("both are pinned").programs;
        assert_eq!(unloaded.iter().map(|u| &*u.name).collect::<Vec<_>>(), [one, two]);
        assert!(!fs::exists("/sys/fs/bpf/fullpipe").expect("bpffs"));
    });
}

/// Each was loaded while the one before it was the default.
fn of_two_defaults_either_goes_first_and_the_one_before_both_comes_back() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        let [before, names @ ..] = ["order", "order1", "order2"].map(name_of);
        // None of the kernel's own, which are what comes back where nothing is noted.
        let _before = load(&options(&before));
        for [first, second] in [[0, 1], [1, 0]] {
            set_default(&before);
            for name in &names {
                drop(load(&Options { default: true, ..pinned(name) }));
            }
            unload(&names[first]);
            assert_eq!(default(), names[second]);
            unload(&names[second]);
            assert_eq!(default(), before);
        }
    });
}

/// The commands of the service, with the directory that systemd gives them.
fn a_service_unloads_what_it_loaded_and_not_what_somebody_pinned() {
    let Some(loader) = option_env!("CARGO_BIN_EXE_fullpipe-bbr3") else {
        skip("it was built without the feature `loader`");
    };
    apart(CloneFlags::CLONE_NEWNET, move || {
        cover("/sys/fs/bpf", "bpf");
        let (own, by_hand) = (&*name_of("svc"), &*name_of("hand3"));
        drop(load(&pinned(by_hand)));
        let directory = tempfile::tempdir().expect("a directory");
        let service = |arguments: &[&str]| {
            let mut command = Command::new(loader);
            command.args(arguments).env("RUNTIME_DIRECTORY", directory.path());
            assert!(command.status().expect("it was built").success(), "{arguments:?}");
        };
        service(&["load", "bbr3", "--name", own]);
        assert!(available().contains(own) && available().contains(by_hand), "{}", available());
        service(&["unload"]);
        assert!(!available().contains(own) && available().contains(by_hand), "{}", available());
        service(&["unload"]);
        unload(by_hand);
    });
}

fn a_program_that_only_connections_hold_is_listed_until_they_close() {
    apart(CloneFlags::empty(), || {
        cover("/sys/fs/bpf", "bpf");
        let name = &*name_of("kept");
        let loaded = load(&options(name));
        let own = InTheKernel::of(name);
        let held = || program(name).map(|program| (program.held, program.usage.connections));
        assert_eq!(held(), Some((Held::ByProcess, 0)));
        let mut loaded = Some(loaded);
        transfer(name, 7, 1 << 20, || {
            assert_eq!(held(), Some((Held::ByProcess, 1)));
            drop(loaded.take());
            assert_eq!(held(), Some((Held::ByConnections, 1)));
            let text = kernel::status().expect("root reads it").to_string();
            assert!(text.contains(&format!("{name}: 1 connection")), "{text}");
        });
        until("it is in no list", || held().is_none());
        own.is_gone();
    });
}

fn a_limit_of_none_is_refused() {
    let none = Options { max_connections: 0, ..options(&name_of("none")) };
    let error = kernel::load(&none).expect_err("nobody would have it");
    assert!(matches!(error, Error::BadLimit), "{error}");
}

fullpipe_testkit::tests! {
    long [Root, Kernel] a_default_that_was_set_by_hand_does_not_outlive_the_program,
        two_programs_are_pinned_side_by_side,
        a_program_that_only_connections_hold_is_listed_until_they_close, a_limit_of_none_is_refused,
        of_two_defaults_either_goes_first_and_the_one_before_both_comes_back,
        a_service_unloads_what_it_loaded_and_not_what_somebody_pinned;
    long [Root, Kernel, Ip] a_new_program_takes_the_place_of_an_earlier_default_of_its_name;
}
