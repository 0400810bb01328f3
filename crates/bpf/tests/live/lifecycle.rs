//! Drawn sequences of what people and services do with the programs, beside a model of what is then
//! loaded, noted and the default.
//!
//! `LIFECYCLES=500 cargo test --release -p fullpipe-bpf --features kernel --test live --
//! --include-ignored lifecycle` draws more of them: 12 without the variable.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use fullpipe_bpf::kernel::cgroup::{self, Use};
use fullpipe_bpf::kernel::{self, Error, Held, Loaded, Options, Program, Status};
use fullpipe_testkit::{PATIENCE, until};
use nix::sched::{CloneFlags, setns, unshare};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::cgroup::Cgroup;
use crate::kernel::{apart, cover, default, options, set_default};
use crate::own::{available, load, name_of};

const PROGRAMS: usize = 3;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

#[derive(Clone, Copy, Debug)]
enum Action {
    Load {
        program: usize,
        default: bool,
        pin: bool,
    },
    /// The process that holds it ends.
    End(usize),
    /// Its pin goes without `unload`, as a program does whose holder is killed.
    Lose(usize),
    /// Unloads one, or all.
    Unload(Option<usize>),
    /// Somebody writes the sysctl: one of the programs, or Reno.
    ChooseByHand(Option<usize>),
    /// The same in another network namespace.
    ChooseElsewhere(Option<usize>),
    PutBackLeftOver,
    /// The cgroup uses one of the programs, or Reno.
    Use(Option<usize>),
    UseNoMore,
}

fn action() -> impl Strategy<Value = Action> {
    let program = || 0..PROGRAMS;
    prop_oneof![
        5 => (program(), prop::bool::weighted(0.7), prop::bool::weighted(0.9))
            .prop_map(|(program, default, pin)| Action::Load { program, default, pin }),
        1 => program().prop_map(Action::End),
        2 => program().prop_map(Action::Lose),
        4 => prop::option::weighted(0.9, program()).prop_map(Action::Unload),
        1 => prop::option::of(program()).prop_map(Action::ChooseByHand),
        1 => prop::option::weighted(0.8, program()).prop_map(Action::ChooseElsewhere),
        1 => Just(Action::PutBackLeftOver),
        2 => prop::option::of(program()).prop_map(Action::Use),
        1 => Just(Action::UseNoMore),
    ]
}

/// The last actions of a sequence: nothing is left then, as the model says.
fn to_nothing() -> impl Iterator<Item = Action> {
    let put_away = [
        Action::UseNoMore,
        Action::Unload(None),
        Action::PutBackLeftOver,
        Action::ChooseElsewhere(None),
    ];
    (0..PROGRAMS).map(Action::End).chain(put_away)
}

/// The model: what holds each program, and what is noted. The notes live in a file of their own
/// each; here they are a chain.
#[derive(Clone, Debug, Default)]
struct Model {
    held: BTreeMap<String, Held>,
    /// What was the default before each program, as long as nobody put it back.
    before: BTreeMap<String, String>,
    default: String,
    /// The default of the time at which each program was loaded as one, if no note of it is left.
    at_load: BTreeMap<String, String>,
    /// The default of the other network namespace.
    elsewhere: String,
    uses: Option<String>,
    /// A program that is there all the time, and the default at first. It is none of the kernel's
    /// own, which are what comes back where nothing is noted.
    first: String,
}

impl Model {
    /// Ours are known as long as somebody holds them, and the kernel's own always.
    fn is_known(&self, name: &str) -> bool {
        ["reno", "cubic", &self.first].contains(&name) || self.held.contains_key(name)
    }

    /// The latest default that is known, from this one backwards.
    fn latest(&self, name: &str) -> String {
        let mut name = name;
        while !self.is_known(name) {
            match self.before.get(name) {
                Some(before) => name = before,
                None => break,
            }
        }
        name.to_owned()
    }

    /// Somebody comes and finds what killed processes left.
    fn put_back_left_over(&mut self) {
        let default = self.latest(&self.default);
        let before: Vec<(String, String)> = self.before.clone().into_iter().collect();
        for (name, earlier) in before {
            let earlier = self.latest(&earlier);
            if self.is_known(&name) {
                self.before.insert(name, earlier);
            }
        }
        let known = self.held.clone();
        self.before.retain(|name, _| known.contains_key(name));
        if self.elsewhere == self.default {
            self.elsewhere.clone_from(&default);
        }
        self.default = default;
    }

    fn load(&mut self, name: &str, is_default: bool, held: Held, own: &str) {
        self.put_back_left_over();
        let standing = if self.is_known(&self.default) { &*self.default } else { own }.to_owned();
        self.held.insert(name.to_owned(), held);
        self.at_load.remove(name);
        if is_default {
            self.at_load.insert(name.to_owned(), standing.clone());
            self.before.insert(name.to_owned(), standing);
            self.default = name.to_owned();
        }
    }

    /// One goes, and what was before it comes back, also to those that came after it.
    fn take_out(&mut self, name: &str, own: &str) {
        let noted = self.before.get(name).or_else(|| self.at_load.get(name));
        let before = noted.map_or(own.to_owned(), |before| self.latest(before));
        self.before.remove(name);
        self.held.remove(name);
        for later in self.before.values_mut().filter(|later| *later == name) {
            later.clone_from(&before);
        }
        let back = if self.is_known(&before) { before } else { own.to_owned() };
        for default in [&mut self.default, &mut self.elsewhere] {
            if default == name {
                default.clone_from(&back);
            }
        }
    }

    /// The programs of ours that are a default, and that nobody holds.
    fn left_over(&self) -> Vec<String> {
        let defaults = [&self.default, &self.elsewhere].into_iter();
        defaults.filter(|name| !self.is_known(name)).cloned().collect()
    }

    /// The holder that `status` shows.
    fn shown_as(&self, name: &str) -> Option<Held> {
        let is_left = self.left_over().iter().any(|left| left == name);
        self.held.get(name).copied().or(is_left.then_some(Held::ByConnections))
    }

    /// What `unload` finds; false if that is nothing.
    fn unload(&mut self, name: Option<&str>, own: &str) -> bool {
        let is_meant = |other: &str| name.is_none_or(|name| name == other);
        let mut is_anything = self.uses.take_if(|algorithm| is_meant(algorithm)).is_some();
        for left in self.left_over().into_iter().filter(|left| is_meant(left)) {
            self.take_out(&left, own);
            is_anything = true;
        }
        let held = self.held.iter().filter(|(name, held)| **held == Held::Pinned && is_meant(name));
        let names: Vec<String> = held.map(|(name, _)| name.clone()).collect();
        is_anything |= !names.is_empty();
        // In any order: the default that comes back in the end is the same.
        for name in names {
            self.take_out(&name, own);
        }
        is_anything
    }
}

/// The programs and the model, after each action.
struct Run<'a> {
    names: &'a [String],
    /// The kernel's own default.
    own: &'a str,
    cgroup: &'a Path,
    /// The other network namespace.
    elsewhere: &'a File,
    loaded: BTreeMap<usize, Loaded>,
    model: Model,
}

impl Run<'_> {
    fn name_or_reno(&self, program: Option<usize>) -> String {
        program.map_or("reno".to_owned(), |program| self.names[program].clone())
    }

    fn act(&mut self, action: Action) -> Result<(), TestCaseError> {
        match action {
            Action::Load { program, default, pin } => self.load(program, default, pin)?,
            Action::End(program) => {
                let is_held = self.model.held.get(&self.names[program]) == Some(&Held::ByProcess);
                if self.loaded.remove(&program).is_some() && is_held {
                    self.model.take_out(&self.names[program], self.own);
                }
            }
            Action::Lose(program) => self.lose(program),
            Action::Unload(program) => {
                let name = program.map(|program| &*self.names[program]);
                let undone = kernel::unload(name);
                let is_anything = self.model.unload(name, self.own);
                prop_assert_eq!(undone.is_ok(), is_anything, "{:?}", undone);
                if let Err(error) = undone {
                    let is_right = matches!(error, Error::NotPinned | Error::NotPinnedBy(_));
                    prop_assert!(is_right, "{}", error);
                }
            }
            Action::ChooseByHand(program) => {
                let name = self.name_or_reno(program);
                if self.model.is_known(&name) {
                    set_default(&name);
                    self.model.default = name;
                }
            }
            Action::ChooseElsewhere(program) => {
                let name = self.name_or_reno(program);
                if self.model.is_known(&name) {
                    inside(self.elsewhere, || set_default(&name));
                    self.model.elsewhere = name;
                }
            }
            Action::PutBackLeftOver => {
                kernel::put_back_left_over().expect("root");
                self.model.put_back_left_over();
            }
            Action::Use(program) => {
                let name = self.name_or_reno(program);
                let cgroup = self.cgroup.to_owned();
                let begun = cgroup::begin(&Use { algorithm: name.clone(), cgroup, ports: vec![] });
                if self.model.is_known(&name)
                    && self.model.uses.as_ref().is_none_or(|uses| *uses == name)
                {
                    begun.expect("it is free, or the same");
                    self.model.uses = Some(name);
                } else {
                    let error = begun.expect_err("it cannot be");
                    let is_right = matches!(error, Error::InUse { .. } | Error::NoAlgorithm { .. });
                    prop_assert!(is_right, "{}", error);
                }
            }
            Action::UseNoMore => {
                let ended = cgroup::end(self.cgroup, None);
                prop_assert_eq!(ended.is_ok(), self.model.uses.take().is_some(), "{:?}", ended);
            }
        }
        self.compare()
    }

    fn load(&mut self, program: usize, default: bool, pin: bool) -> Result<(), TestCaseError> {
        let name = &self.names[program];
        if self.model.held.contains_key(name) {
            let again = kernel::load(&Options { default, pin, ..options(name) });
            let is_right = matches!(again, Err(Error::AlreadyLoaded(_) | Error::NameTaken(_)));
            prop_assert!(is_right, "{:?}", again);
            return Ok(());
        }
        let loaded = load(&Options { default, pin, ..options(name) });
        let held = if pin { Held::Pinned } else { Held::ByProcess };
        self.model.load(name, default, held, self.own);
        if !pin {
            self.loaded.insert(program, loaded);
        }
        Ok(())
    }

    fn lose(&mut self, program: usize) {
        let name = &self.names[program];
        if self.model.held.get(name) != Some(&Held::Pinned) {
            return;
        }
        let pins = Path::new("/sys/fs/bpf/fullpipe").join(name);
        fs::remove_dir_all(pins).expect("root removes it");
        until(&format!("{name} is gone"), || !is_available(name));
        self.model.held.remove(name);
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let model = &self.model;
        prop_assert_eq!(&default(), &model.default, "the default; {:?}", model);
        let elsewhere = inside(self.elsewhere, default);
        prop_assert_eq!(&elsewhere, &model.elsewhere, "elsewhere; {:?}", model);
        for name in self.names {
            let is_held = model.held.contains_key(name);
            prop_assert_eq!(is_available(name), is_held, "{}; {:?}", name, model);
        }
        // The kernel frees one that nothing needs when it gets to it.
        let expected: Vec<_> = self.names.iter().map(|name| model.shown_as(name)).collect();
        let begun = Instant::now();
        let status = loop {
            let status = kernel::status().expect("root reads it");
            let held = |name| program(&status, name).map(|program| program.held);
            let shown: Vec<_> = self.names.iter().map(|name| held(name)).collect();
            if shown == expected {
                break status;
            }
            // A panic would leave the programs to the next sequence.
            let waits = begun.elapsed() < PATIENCE;
            prop_assert!(waits, "{:?} in place of {:?}; {:?}", shown, expected, model);
            // Sleeps: until the kernel, which reports no event for it, has freed them.
            sleep(Duration::from_millis(5));
        };
        for program in self.names.iter().filter_map(|name| program(&status, name)) {
            prop_assert_eq!(program.is_default, model.default == program.name, "{:?}", model);
            let elsewhere = usize::from(model.elsewhere == program.name);
            prop_assert_eq!(program.default_elsewhere, elsewhere, "{:?}", model);
        }
        let mut uses =
            status.uses.iter().filter(|used| used.cgroup.as_deref() == Some(self.cgroup));
        prop_assert_eq!(uses.next().map(|used| &used.algorithm), model.uses.as_ref());
        prop_assert_eq!(uses.count(), 0);
        Ok(())
    }
}

fn program<'a>(status: &'a Status, name: &str) -> Option<&'a Program> {
    status.programs.iter().find(|program| program.name == name)
}

fn is_available(name: &str) -> bool {
    available().split_whitespace().any(|available| available == name)
}

/// A network namespace, which a thread keeps until the sender goes.
fn another_namespace() -> (File, Sender<()>) {
    let (ready, namespace) = channel();
    let (keeps, ends) = channel();
    thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("root");
        let file = File::open("/proc/thread-self/ns/net").expect("Linux has it");
        ready.send(file).expect("the test waits for it");
        // Nothing is sent.
        let _ = ends.recv();
    });
    (namespace.recv().expect("it is there"), keeps)
}

/// Does something in a network namespace.
fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> T {
    let enter = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).expect("root");
        work()
    };
    thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn a_drawn_lifecycle_is_as_the_model_says() {
    apart(CloneFlags::CLONE_NEWNET, || {
        cover("/sys/fs/bpf", "bpf");
        let names: Vec<String> = (0..PROGRAMS).map(|n| name_of(&format!("life{n}"))).collect();
        let cgroup = Cgroup::make("life");
        // A network namespace may not choose everything that the first one may.
        let may_choose_cubic = fs::write(DEFAULT, "cubic").is_ok();
        let own = if may_choose_cubic { "cubic" } else { "reno" };
        let first = name_of("life");
        let _first = load(&options(&first));
        let (elsewhere, _keeps) = another_namespace();
        let cases = std::env::var("LIFECYCLES").ok().and_then(|cases| cases.parse().ok());
        let config =
            Config { cases: cases.unwrap_or(12), failure_persistence: None, ..Config::default() };
        let sequences = prop::collection::vec(action(), 4..20);
        let run = TestRunner::new(config).run(&sequences, |actions| {
            set_default(&first);
            inside(&elsewhere, || set_default("reno"));
            let mut run = Run {
                names: &names,
                own,
                cgroup: cgroup.path(),
                elsewhere: &elsewhere,
                loaded: BTreeMap::new(),
                model: Model {
                    default: first.clone(),
                    elsewhere: "reno".to_owned(),
                    first: first.clone(),
                    ..Model::default()
                },
            };
            let mut all = actions.into_iter().chain(to_nothing());
            let act = AssertUnwindSafe(|| all.try_for_each(|action| run.act(action)));
            let done = catch_unwind(act);
            // Where the sequence failed, the next one begins with nothing all the same; what fails
            // here says less than it.
            drop(run);
            let cleaned = catch_unwind(|| {
                let _ = kernel::unload(None);
                let _ = kernel::put_back_left_over();
                set_default(&first);
                inside(&elsewhere, || set_default("reno"));
                until("all are gone", || !names.iter().any(|name| is_available(name)));
            });
            done.unwrap_or_else(|panic| resume_unwind(panic))?;
            cleaned.unwrap_or_else(|panic| resume_unwind(panic));
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

fullpipe_testkit::tests! {
    long [Root, Kernel] a_drawn_lifecycle_is_as_the_model_says;
}
