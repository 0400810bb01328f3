//! Removal of what killed runs left on this machine.

/// Result of a cleaning, one line for each item.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Items that were removed or put back.
    pub done: Vec<String>,
    /// Items that are left, each with the reason.
    pub left: Vec<String>,
}

/// Removes what killed runs left on this machine, and puts back the default of TCP's that they
/// changed. What cannot be removed keeps nothing else from it.
pub fn clean() -> Cleaned {
    #[allow(unused_mut, reason = "nothing is left by what does not run here")]
    let mut cleaned = Cleaned::default();
    #[cfg(all(feature = "kernel", target_os = "linux"))]
    match fullpipe_bpf::kernel::put_back_left_over() {
        Ok(None) => {}
        Ok(Some(back)) => cleaned.done.push(format!(
            "put back {} as the default of new connections: {} is gone",
            back.default, back.gone
        )),
        Err(error) => cleaned.left.push(error.to_string()),
    }
    #[cfg(target_os = "linux")]
    match fullpipe_emu::namespace::clean() {
        Ok(namespaces) => {
            let removed = namespaces.removed.iter().map(|name| format!("removed namespace {name}"));
            cleaned.done.extend(removed);
            if namespaces.killed > 0 {
                let killed = namespaces.killed;
                cleaned.done.push(format!("killed what still ran in them: {killed} processes"));
            }
            let left = namespaces.left.iter().map(|(name, why)| format!("namespace {name}: {why}"));
            cleaned.left.extend(left);
        }
        Err(error) => cleaned.left.push(error.to_string()),
    }
    cleaned
}
