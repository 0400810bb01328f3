//! Network namespaces without root: inside a user namespace of this process's own
//! (user_namespaces(7)).
//!
//! The process keeps its user, its files and its network. It may from then on make network
//! namespaces, devices and routes in them. What it starts has the same user and no rights beyond.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::EmuError;

/// A thread that was joined may be counted for a moment more, and a process of several threads is
/// refused.
const TRIES: usize = 100;
const NAP: Duration = Duration::from_millis(2);

/// Moves this process, which must have one thread, into a user namespace of its own, for good. Its
/// user and group keep their numbers.
///
/// # Errors
/// The kernel, or a rule of the distribution, does not permit it to this user.
pub fn enter() -> Result<(), EmuError> {
    move_in().map_err(EmuError::NoUserNamespace)?;
    // Some systems permit the namespace and take away the rights in it.
    crate::namespace::try_in_one(|| ()).map_err(|error| match error {
        EmuError::Io { source, .. } => EmuError::NoUserNamespace(source),
        _ => EmuError::NoUserNamespace(io::ErrorKind::PermissionDenied.into()),
    })
}

fn move_in() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    let mut done = unshare(CloneFlags::CLONE_NEWUSER);
    for _ in 0..TRIES {
        if done != Err(Errno::EINVAL) {
            break;
        }
        thread::sleep(NAP);
        done = unshare(CloneFlags::CLONE_NEWUSER);
    }
    done?;
    // The kernel asks for this before it takes a map of groups from somebody who is not root.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}
