//! Tests that need no clock, no port and no rights.

#[cfg(target_os = "linux")]
mod hooks;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod names;
#[cfg(all(feature = "kernel", target_os = "linux"))]
mod objects;
#[cfg(all(feature = "loader", target_os = "linux"))]
mod package;
mod twin;
