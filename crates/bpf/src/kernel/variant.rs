//! The variant of the program that the running kernel takes, by the kernel's own description of its
//! types.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};

use super::Error;

const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// TCP calls cong_control() with the ACK's number and flags since 6.10, before without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// cong_control(sk, ack, flag, rs).
    WithAck,
    /// cong_control(sk, rs).
    WithoutAck,
}

impl Variant {
    pub(super) const ALL: [Self; 2] = [Self::WithAck, Self::WithoutAck];

    /// The name of its program that runs on an ACK, in `c/bbr3.bpf.c`.
    pub(super) fn on_ack(self) -> &'static str {
        match self {
            Self::WithAck => "bbr3_cong_control",
            Self::WithoutAck => "bbr3_cong_control_6_9",
        }
    }

    /// The name of its operations there.
    pub(super) fn operations(self) -> &'static str {
        match self {
            Self::WithAck => "bbr3_ops",
            Self::WithoutAck => "bbr3_ops_6_9",
        }
    }

    /// The one that this kernel takes.
    pub(super) fn of_this_kernel() -> Result<Self, Error> {
        Self::of(&Btf::from_path(TYPES).map_err(Error::Load)?)
    }

    fn of(types: &Btf<'_>) -> Result<Self, Error> {
        let arguments = arguments_of_cong_control(types);
        match arguments {
            Some(4) => Ok(Self::WithAck),
            Some(2) => Ok(Self::WithoutAck),
            _ => Err(Error::OtherSignature { arguments }),
        }
    }
}

fn arguments_of_cong_control(types: &Btf<'_>) -> Option<usize> {
    let operations: Struct<'_> = types.type_by_name("tcp_congestion_ops")?;
    let mut members = operations.iter();
    let member = members.find(|member| member.name == Some(OsStr::new("cong_control")))?;
    let pointer: Ptr<'_> = types.type_by_id(member.ty)?;
    let function = FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.len())
}

/// Whether this kernel takes such a program.
///
/// # Errors
///
/// [`Error::NoBtf`], [`Error::NoStructOps`] or [`Error::TooOld`], by what its type information
/// says.
pub fn check() -> Result<(), Error> {
    let types = fs::read(TYPES).map_err(|_| Error::NoBtf)?;
    // Names end with a zero.
    let has = |name: &str| types.windows(name.len()).any(|window| window == name.as_bytes());
    if !has("bpf_struct_ops_tcp_congestion_ops\0") {
        return Err(Error::NoStructOps);
    }
    // New in 6.4: a link for struct_ops, and loops.
    if ["bpf_struct_ops_link\0", "bpf_iter_num_new\0"].into_iter().all(has) {
        return Ok(());
    }
    let release = fs::read_to_string(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default();
    Err(Error::TooOld { release: release.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// The types that a compiler describes for a kernel whose cong_control() takes these arguments.
    fn of(arguments: &str) -> Option<Result<Variant, Error>> {
        let directory = tempfile::tempdir().expect("a place for it");
        let (source, object) = (directory.path().join("t.c"), directory.path().join("t.o"));
        let text = format!(
            "struct sock; struct rate_sample; struct tcp_congestion_ops {{ int flags; \
             void (*cong_control)({arguments}); }}; struct tcp_congestion_ops operations;"
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
        Some(Variant::of(&types))
    }

    #[test]
    fn the_kernels_types_say_which_variant_it_takes() {
        let before = of("struct sock *, const struct rate_sample *");
        let Some(before) = before else { return };
        assert_eq!(before.expect("as before 6.10"), Variant::WithoutAck);
        let since = of("struct sock *, unsigned, int, const struct rate_sample *").expect("clang");
        assert_eq!(since.expect("as since 6.10"), Variant::WithAck);
        let other = of("struct sock *").expect("clang").expect_err("nobody calls it so");
        assert!(other.to_string().contains("with 1 arguments"), "{other}");
    }
}
