//! The descriptors that this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to what is wanted, as far as the hard one lets it: the usual 1024 are for
/// programs that use `select`. Gives what is allowed then.
pub(crate) fn raise(wanted: u64) -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    if soft >= wanted {
        return soft;
    }
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
    if raised.is_ok() { wanted.min(hard) } else { soft }
}
