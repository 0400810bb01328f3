//! The variant of the program that the running kernel takes, by the kernel's own description of its
//! types.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::path::Path;

use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, BtfType, ReferencesType};

use super::Error;

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// A way in which TCP calls its congestion control, by the kernel since which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Since 7.1: cwnd_event_tx_start(sk) says that a flow sends again after it was idle.
    Since7_1,
    /// Since 6.10: cong_control(sk, ack, flag, rs), and the restart is an event of cwnd_event().
    Since6_10,
    /// Since 6.4: cong_control(sk, rs).
    Since6_4,
}

/// Arguments of an operation: `*T` for a pointer to the struct T, `int` for numbers.
type Arguments = &'static [&'static str];

const SOCK: Arguments = &["*sock"];
const EVENT: Arguments = &["*sock", "int"];
const WITH_ACK: Arguments = &["*sock", "int", "int", "*rate_sample"];
const WITHOUT_ACK: Arguments = &["*sock", "*rate_sample"];

/// The operations that the program has in every variant.
const IN_EACH: [(&str, Arguments); 7] = [
    ("init", SOCK),
    ("release", SOCK),
    ("ssthresh", SOCK),
    ("undo_cwnd", SOCK),
    ("set_state", EVENT),
    ("min_tso_segs", SOCK),
    ("sndbuf_expand", SOCK),
];

/// Members of tcp_congestion_ops up to Linux 7.3. One that is not among them may have taken over a
/// part of another one's work, as cwnd_event_tx_start() did.
const KNOWN: [&str; 19] = [
    "name",
    "owner",
    "list",
    "key",
    "flags",
    "init",
    "release",
    "ssthresh",
    "cong_avoid",
    "set_state",
    "cwnd_event",
    "cwnd_event_tx_start",
    "in_ack_event",
    "pkts_acked",
    "min_tso_segs",
    "cong_control",
    "undo_cwnd",
    "sndbuf_expand",
    "get_info",
];

impl Variant {
    pub(super) const ALL: [Self; 3] = [Self::Since7_1, Self::Since6_10, Self::Since6_4];

    /// The name of its program that runs on an ACK, in `c/bbr3.bpf.c`.
    pub(super) fn on_ack(self) -> &'static str {
        match self {
            Self::Since7_1 | Self::Since6_10 => "bbr3_cong_control",
            Self::Since6_4 => "bbr3_cong_control_6_9",
        }
    }

    /// The name of its program that runs on a restart from idle, there.
    fn on_start(self) -> &'static str {
        match self {
            Self::Since7_1 => "bbr3_tx_start",
            Self::Since6_10 | Self::Since6_4 => "bbr3_tx_start_7_0",
        }
    }

    /// The names of the programs that only other variants have.
    pub(super) fn not_for_it(self) -> impl Iterator<Item = &'static str> {
        let own = [self.on_ack(), self.on_start()];
        let all = Self::ALL.into_iter().flat_map(|variant| [variant.on_ack(), variant.on_start()]);
        all.filter(move |name| !own.contains(name))
    }

    /// The name of its operations there.
    pub(super) fn operations(self) -> &'static str {
        match self {
            Self::Since7_1 => "bbr3_ops",
            Self::Since6_10 => "bbr3_ops_7_0",
            Self::Since6_4 => "bbr3_ops_6_9",
        }
    }

    /// The kernels that it is for, if it was never run on one of them.
    pub(super) fn never_run_on(self) -> Option<&'static str> {
        (self == Self::Since6_4).then_some("Linux 6.4 to 6.9")
    }

    /// The one that this kernel takes.
    pub(super) fn of_this_kernel() -> Result<Self, Error> {
        Self::of(&Btf::from_path(TYPES).map_err(Error::Load)?)
    }

    fn of(types: &Btf<'_>) -> Result<Self, Error> {
        if arguments_of(types, "tso_segs").is_some() {
            return Err(Error::PatchedForBbr3);
        }
        for (operation, arguments) in IN_EACH {
            expect(types, operation, &[arguments])?;
        }
        let has_start = arguments_of(types, "cwnd_event_tx_start").is_some();
        match expect(types, "cong_control", &[WITH_ACK, WITHOUT_ACK])? {
            0 if has_start => expect(types, "cwnd_event_tx_start", &[SOCK]).map(|_| Self::Since7_1),
            0 => expect(types, "cwnd_event", &[EVENT]).map(|_| Self::Since6_10),
            // The new operation came after the new arguments.
            _ if has_start => Err(other_signature(types, "cong_control", &[WITH_ACK])),
            _ => expect(types, "cwnd_event", &[EVENT]).map(|_| Self::Since6_4),
        }
    }
}

/// The place in `known` of the arguments that an operation has.
fn expect(types: &Btf<'_>, operation: &'static str, known: &[Arguments]) -> Result<usize, Error> {
    let found = arguments_of(types, operation);
    known
        .iter()
        .position(|known| found.as_ref().is_some_and(|found| found == known))
        .ok_or_else(|| other_signature(types, operation, known))
}

fn other_signature(types: &Btf<'_>, operation: &'static str, known: &[Arguments]) -> Error {
    let text = |arguments: &[String]| format!("({})", arguments.join(", "));
    let known: Vec<String> = known.iter().map(|known| format!("({})", known.join(", "))).collect();
    Error::OtherSignature {
        operation,
        found: arguments_of(types, operation)
            .map_or("(no such operation)".to_owned(), |a| text(&a)),
        known: known.join(" or "),
    }
}

fn operations<'btf>(types: &'btf Btf<'btf>) -> Option<Struct<'btf>> {
    types.type_by_name("tcp_congestion_ops")
}

/// The arguments of an operation; `None` if this kernel's TCP has no such operation.
fn arguments_of(types: &Btf<'_>, operation: &str) -> Option<Vec<String>> {
    let operations = operations(types)?;
    let mut members = operations.iter();
    let member = members.find(|member| member.name == Some(OsStr::new(operation)))?;
    let pointer: Ptr<'_> = types.type_by_id(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type().skip_mods_and_typedefs()).ok()?;
    let arguments = function.iter().map(|argument| {
        let ty: BtfType<'_> = types.type_by_id(argument.ty)?;
        Some(word_for(ty.skip_mods_and_typedefs()))
    });
    arguments.collect()
}

fn word_for(ty: BtfType<'_>) -> String {
    let Ok(pointer) = Ptr::try_from(ty) else { return "int".to_owned() };
    let to = pointer.referenced_type().skip_mods_and_typedefs();
    format!("*{}", to.name().unwrap_or_default().to_string_lossy())
}

/// Operations of this kernel's TCP that are newer than this program, by their names: one of them
/// may have taken over what the program listens to elsewhere.
///
/// # Errors
///
/// The kernel does not describe its types.
pub fn unknown_operations() -> Result<Vec<String>, Error> {
    Ok(unknown(&Btf::from_path(TYPES).map_err(|_| Error::NoBtf)?))
}

fn unknown(types: &Btf<'_>) -> Vec<String> {
    let operations = operations(types);
    let members = operations.iter().flat_map(|operations| operations.iter());
    let names = members.filter_map(|member| Some(member.name?.to_string_lossy().into_owned()));
    names.filter(|name| !KNOWN.contains(&&**name)).collect()
}

/// True if this kernel takes such a program.
///
/// # Errors
///
/// [`Error::NoBtf`], [`Error::NoStructOps`], [`Error::TooOld`], [`Error::PatchedForBbr3`] or
/// [`Error::OtherSignature`], by what its type information says.
pub fn check() -> Result<(), Error> {
    checked().map(drop)
}

/// The variant that this kernel takes, if it takes any.
pub(super) fn checked() -> Result<Variant, Error> {
    let types = fs::read(TYPES).map_err(|_| Error::NoBtf)?;
    // New in 6.4: a link for struct_ops, and loops.
    let new = ["bpf_struct_ops_link", "bpf_iter_num_new"];
    let [has_struct_ops, has_link, has_loops] =
        have(&types, ["bpf_struct_ops_tcp_congestion_ops", new[0], new[1]]);
    if !has_struct_ops {
        return Err(Error::NoStructOps);
    }
    if has_link && has_loops {
        return Variant::of_this_kernel();
    }
    let release = fs::read_to_string(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    Err(Error::TooOld { release: release.trim().to_owned() })
}

/// True for each name that is the end of a string there. In one pass: types are megabytes.
fn have<const N: usize>(mut types: &[u8], names: [&str; N]) -> [bool; N] {
    let mut has = [false; N];
    let shortest = names.map(str::len).into_iter().min().unwrap_or(0);
    while let Ok(string) = CStr::from_bytes_until_nul(types) {
        let string = string.to_bytes();
        types = types.get(string.len() + 1..).unwrap_or_default();
        if string.len() >= shortest {
            has.iter_mut().zip(names).for_each(|(h, name)| *h |= string.ends_with(name.as_bytes()));
        }
    }
    has
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// The answer to a question about the types that a compiler describes for a kernel with these
    /// operations beside those that every kernel has.
    fn of<T>(operations: &str, ask: impl Fn(&Btf<'_>) -> T) -> Option<T> {
        let directory = tempfile::tempdir().expect("a place for it");
        let (source, object) = (directory.path().join("t.c"), directory.path().join("t.o"));
        let text = format!(
            "struct sock; struct rate_sample; enum event {{ START }}; struct tcp_congestion_ops {{ \
             int flags; {operations} unsigned (*ssthresh)(struct sock *); \
             unsigned (*undo_cwnd)(struct sock *); void (*set_state)(struct sock *, unsigned char); \
             unsigned (*min_tso_segs)(struct sock *); unsigned (*sndbuf_expand)(struct sock *); \
             void (*init)(struct sock *); void (*release)(struct sock *); \
             }}; struct tcp_congestion_ops operations;"
        );
        fs::write(&source, text).expect("it is written");
        let compiler = std::env::var("CLANG").unwrap_or_else(|_| "clang-19".to_owned());
        let flags = ["-target", "bpf", "-g", "-O2", "-c"];
        let done = Command::new(compiler).args(flags).arg(&source).arg("-o").arg(&object).status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no clang-19; CLANG names another one");
            return None;
        }
        let types = Btf::from_path(&object).expect("the compiler wrote types");
        Some(ask(&types))
    }

    #[test]
    fn a_name_is_the_end_of_a_string_of_the_types() {
        let names = ["bpf_struct_ops_link", "bpf_iter_num_new"];
        for (types, found) in [
            (&b"\0a\0btf_bpf_struct_ops_link\0\0bpf_iter_num_new\0"[..], [true, true]),
            (b"\0bpf_struct_ops_link_info\0bpf_iter_num_new\0", [false, true]),
            // Cut off, and nothing at all.
            (b"\0bpf_struct_ops_link\0bpf_iter_num_new", [true, false]),
            (b"", [false, false]),
        ] {
            assert_eq!(have(types, names), found);
        }
    }

    const BEFORE_6_10: &str = "void (*cong_control)(struct sock *, const struct rate_sample *);";
    const SINCE_6_10: &str =
        "void (*cong_control)(struct sock *, unsigned, int, const struct rate_sample *);";
    const EVENTS: &str = "void (*cwnd_event)(struct sock *, enum event);";
    const START: &str = "void (*cwnd_event_tx_start)(struct sock *);";

    #[test]
    fn the_kernels_types_say_which_variant_it_takes() {
        for (operations, variant) in [
            ([BEFORE_6_10, EVENTS, ""], Variant::Since6_4),
            ([SINCE_6_10, EVENTS, ""], Variant::Since6_10),
            ([SINCE_6_10, EVENTS, START], Variant::Since7_1),
        ] {
            let Some(found) = of(&operations.concat(), Variant::of) else { return };
            assert_eq!(found.expect("a kernel that there is"), variant);
        }
    }

    #[test]
    fn operations_that_are_called_otherwise_are_refused_by_name() {
        for (operations, said) in [
            (["void (*cong_control)(struct sock *);", EVENTS, ""], "cong_control(*sock)"),
            ([SINCE_6_10, "", ""], "cwnd_event(no such operation)"),
            ([BEFORE_6_10, EVENTS, START], "cong_control(*sock, *rate_sample)"),
            (
                [SINCE_6_10, EVENTS, "void (*cwnd_event_tx_start)(struct sock *, int);"],
                "cwnd_event_tx_start(*sock, int)",
            ),
        ] {
            let Some(found) = of(&operations.concat(), Variant::of) else { return };
            let error = found.expect_err(said).to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }

    /// google/bbr's branch v3 has tso_segs() in place of min_tso_segs().
    #[test]
    fn a_kernel_that_is_patched_for_bbr3_is_told_that_it_has_it() {
        let patched = "unsigned (*tso_segs)(struct sock *, unsigned);";
        let Some(found) = of(&[SINCE_6_10, EVENTS, patched].concat(), Variant::of) else { return };
        let error = found.expect_err("it has no place for the program").to_string();
        assert!(error.contains("BBRv3") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn operations_that_are_newer_than_the_program_are_named() {
        let newer = [SINCE_6_10, EVENTS, START, "void (*cwnd_event_sent)(struct sock *);"];
        let Some(unknown) = of(&newer.concat(), unknown) else { return };
        assert_eq!(unknown, ["cwnd_event_sent"]);
    }
}
