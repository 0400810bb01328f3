//! The C of `c/` compiled for this machine, as a shared library that the test makes for itself:
//! nothing else in the workspace needs a C compiler.

use std::ffi::{c_ulong, c_void};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use libloading::Library;

use super::model::VIEW;
use super::twins::Start;

/// `struct packet` of `twin.c`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Packet([u64; 11]);

/// `struct note` of `notes.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Note {
    pub(crate) seq: u32,
    pub(crate) sent_us: u32,
    pub(crate) in_flight: u32,
    pub(crate) lost: u32,
}

/// `struct twin` of `twin.c`.
type State = *mut c_void;

/// The functions of `twin.c`.
struct Functions {
    sent: unsafe extern "C" fn(State, u64, u64, *mut Packet),
    cwnd_limited: unsafe extern "C" fn(State),
    ack: unsafe extern "C" fn(State),
    acked: unsafe extern "C" fn(State, *const Packet, bool),
    lost: unsafe extern "C" fn(State, *const Packet),
    ce: unsafe extern "C" fn(State, u64),
    rtt: unsafe extern "C" fn(State, u64),
    no_rtt: unsafe extern "C" fn(State),
    finish: unsafe extern "C" fn(State, u64),
    app_limited: unsafe extern "C" fn(State),
    rto: unsafe extern "C" fn(State, u64),
    spurious_loss: unsafe extern "C" fn(State),
    discarded: unsafe extern "C" fn(State, *const Packet),
    forget_flight: unsafe extern "C" fn(State),
    smss: unsafe extern "C" fn(State, u64, u64),
    init: unsafe extern "C" fn(State, u64, u64, u64, bool, u64, u64, u32),
    view: unsafe extern "C" fn(*const c_void, *mut u64),
    size: unsafe extern "C" fn() -> c_ulong,
    ack_without_sample: unsafe extern "C" fn(State, u64, u64, u64),
    notes_size: unsafe extern "C" fn() -> c_ulong,
    notes_make: unsafe extern "C" fn(*mut c_void, *const Note, u32, u32),
    notes_find: unsafe extern "C" fn(*mut c_void, u32, u32, bool, *mut Note) -> bool,
    notes_flight: unsafe extern "C" fn(*const Note, u32, u32) -> u32,
}

/// The compiled twin.
#[derive(Clone)]
pub(crate) struct Native {
    functions: Rc<Functions>,
    _library: Rc<Library>,
}

/// Compiles C that includes headers of `c/` into a shared library for this machine.
pub(crate) fn compile(directory: &Path, source: &Path, flags: &[&str]) -> PathBuf {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let library = directory.join("library.so");
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-gnu" };
    let triple = format!("{}-{system}", std::env::consts::ARCH);
    let mut build = cc::Build::new();
    build.target(&triple).host(&triple).opt_level(2).cargo_metadata(false);
    let compiler = build.try_get_compiler().expect("a C compiler, which rustc links with");
    let output = compiler
        .to_command()
        .args(["-std=gnu11", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"])
        .args(flags)
        .arg("-I")
        .arg(headers)
        .arg(source)
        .arg("-o")
        .arg(&library)
        .output()
        .expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

impl Native {
    /// Compiles and loads it.
    pub(crate) fn build(directory: &Path) -> Self {
        let twin = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/twin/twin.c");
        Self::load(&compile(directory, &twin, &[]))
    }

    fn load(path: &Path) -> Self {
        // SAFETY: the library was just made of twin.c, which has no constructors.
        let library = unsafe { Library::new(path) }.expect("the compiler said that it made it");
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the types above are those of twin.c, and the library stays loaded as long
                // as they are there.
                *unsafe { library.get($name) }.expect("twin.c defines it")
            };
        }
        let functions = Functions {
            sent: function!("twin_sent"),
            cwnd_limited: function!("twin_cwnd_limited"),
            ack: function!("twin_ack"),
            acked: function!("twin_acked"),
            lost: function!("twin_lost"),
            ce: function!("twin_ce"),
            rtt: function!("twin_rtt"),
            no_rtt: function!("twin_no_rtt"),
            finish: function!("twin_finish"),
            app_limited: function!("twin_app_limited"),
            rto: function!("twin_rto"),
            spurious_loss: function!("twin_spurious_loss"),
            discarded: function!("twin_discarded"),
            forget_flight: function!("twin_forget_flight"),
            smss: function!("twin_smss"),
            init: function!("twin_init"),
            view: function!("twin_view"),
            size: function!("twin_size"),
            ack_without_sample: function!("twin_ack_without_sample"),
            notes_size: function!("notes_size"),
            notes_make: function!("notes_make"),
            notes_find: function!("notes_find"),
            notes_flight: function!("notes_flight"),
        };
        Self { functions: Rc::new(functions), _library: Rc::new(library) }
    }

    /// A flow that starts so, with these amendments of `bbr3x`, a bit each. There may be one at a
    /// time.
    pub(crate) fn flow(&self, start: &Start, amendments: u32) -> Flow {
        // SAFETY: no argument.
        let size = unsafe { (self.functions.size)() } as usize;
        let mut state = vec![0u64; size.div_ceil(8)];
        let address = state.as_mut_ptr().cast();
        // SAFETY: as large as the C compiler says, and aligned to 8 bytes.
        unsafe {
            let Start { seed, ecn, now, .. } = *start;
            let (smss, cwnd) = (start.smss.into(), start.initial_cwnd_in_bytes());
            let most = start.max_pacing_rate.unwrap_or(u64::MAX);
            (self.functions.init)(address, smss, cwnd, seed, ecn, now, most, amendments);
        }
        Flow { native: self.clone(), state }
    }
}

/// The notes of a connection.
pub(crate) struct Notes {
    native: Native,
    state: Vec<u32>,
}

// SAFETY of what follows: the state is as large as notes_size() says and of zeroes, as in a new
// connection; the notes are references.
impl Notes {
    pub(crate) fn new(native: &Native) -> Self {
        let size = unsafe { (native.functions.notes_size)() } as usize;
        Self { native: native.clone(), state: vec![0; size.div_ceil(4)] }
    }

    /// So many packets were sent until now.
    pub(crate) fn make(&mut self, now: &Note, sent: u32, smss: u32) {
        let make = self.native.functions.notes_make;
        unsafe { make(self.state.as_mut_ptr().cast(), now, sent, smss) }
    }

    pub(crate) fn find(&mut self, end_seq: u32, sent_us: u32, is_retrans: bool) -> Option<Note> {
        let mut note = Note::default();
        let state = self.state.as_mut_ptr().cast();
        let find = self.native.functions.notes_find;
        unsafe { find(state, end_seq, sent_us, is_retrans, &mut note) }.then_some(note)
    }

    /// The flight when the packet that ends there left, in packets.
    pub(crate) fn flight(&self, note: &Note, end_seq: u32, smss: u32) -> u32 {
        unsafe { (self.native.functions.notes_flight)(note, end_seq, smss) }
    }
}

/// One flow under the control of the C.
pub(crate) struct Flow {
    native: Native,
    state: Vec<u64>,
}

// SAFETY of all that follows: the state was made by twin_init() and is as large as twin_size()
// says; the packets are references.
impl Flow {
    pub(crate) fn sent(&mut self, now: u64, size: u64) -> Packet {
        let mut packet = Packet::default();
        unsafe { (self.native.functions.sent)(self.address(), now, size, &mut packet) };
        packet
    }

    pub(crate) fn cwnd_limited(&mut self) {
        unsafe { (self.native.functions.cwnd_limited)(self.address()) }
    }

    pub(crate) fn ack(&mut self) {
        unsafe { (self.native.functions.ack)(self.address()) }
    }

    pub(crate) fn acked(&mut self, packet: &Packet, after_loss: bool) {
        unsafe { (self.native.functions.acked)(self.address(), packet, after_loss) }
    }

    pub(crate) fn lost(&mut self, packet: &Packet) {
        unsafe { (self.native.functions.lost)(self.address(), packet) }
    }

    pub(crate) fn ce(&mut self, packets: u64) {
        unsafe { (self.native.functions.ce)(self.address(), packets) }
    }

    pub(crate) fn rtt(&mut self, rtt: u64) {
        unsafe { (self.native.functions.rtt)(self.address(), rtt) }
    }

    pub(crate) fn no_rtt(&mut self) {
        unsafe { (self.native.functions.no_rtt)(self.address()) }
    }

    pub(crate) fn finish(&mut self, now: u64) {
        unsafe { (self.native.functions.finish)(self.address(), now) }
    }

    pub(crate) fn ack_without_sample(&mut self, now: u64, rtt: u64, newly_acked: u64) {
        let ack = self.native.functions.ack_without_sample;
        unsafe { ack(self.address(), now, rtt, newly_acked) }
    }

    pub(crate) fn app_limited(&mut self) {
        unsafe { (self.native.functions.app_limited)(self.address()) }
    }

    pub(crate) fn rto(&mut self, now: u64) {
        unsafe { (self.native.functions.rto)(self.address(), now) }
    }

    pub(crate) fn spurious_loss(&mut self) {
        unsafe { (self.native.functions.spurious_loss)(self.address()) }
    }

    pub(crate) fn discarded(&mut self, packet: &Packet) {
        unsafe { (self.native.functions.discarded)(self.address(), packet) }
    }

    pub(crate) fn forget_flight(&mut self) {
        unsafe { (self.native.functions.forget_flight)(self.address()) }
    }

    pub(crate) fn smss(&mut self, smss: u64, initial_cwnd: u64) {
        unsafe { (self.native.functions.smss)(self.address(), smss, initial_cwnd) }
    }

    pub(crate) fn view(&self) -> [u64; VIEW.len()] {
        let mut view = [0; VIEW.len()];
        unsafe { (self.native.functions.view)(self.state.as_ptr().cast(), view.as_mut_ptr()) };
        view
    }

    fn address(&mut self) -> State {
        self.state.as_mut_ptr().cast()
    }
}
