//! The congestion controls that TCP offers in this network namespace, and its default.

use std::fs;

use super::Error;

const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

fn read(path: &'static str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Sysctl { path, source })
}

pub(super) fn available() -> Result<Vec<String>, Error> {
    Ok(read(AVAILABLE)?.split_whitespace().map(str::to_owned).collect())
}

pub(super) fn default() -> Result<String, Error> {
    Ok(read(DEFAULT)?.trim().to_owned())
}

pub(super) fn set_default(name: &str) -> Result<(), Error> {
    fs::write(DEFAULT, name).map_err(|source| Error::Sysctl { path: DEFAULT, source })
}
