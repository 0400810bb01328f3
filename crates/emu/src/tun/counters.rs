//! What the kernel dropped at a device.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A namespace's table of devices. The file belongs to the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Counters {
    table: File,
    device: &'static str,
}

/// Packets dropped at a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Drops {
    /// Given to the namespace and not taken.
    pub(super) received: u64,
    /// Sent by the namespace and not handed over.
    pub(super) sent: u64,
}

impl Counters {
    /// Of the calling thread's namespace.
    pub(super) fn open(device: &'static str) -> io::Result<Self> {
        Ok(Self { table: File::open("/proc/thread-self/net/dev")?, device })
    }

    /// The counters now; nothing when they cannot be read.
    pub(super) fn read(&self) -> Drops {
        let mut text = [0; 4096];
        let bytes = self.table.read_at(&mut text, 0).unwrap_or(0);
        let text = std::str::from_utf8(&text[..bytes]).unwrap_or_default();
        parse(text, self.device).unwrap_or_default()
    }
}

/// `name: bytes packets errors drop` and four more, first received, then sent.
fn parse(table: &str, device: &str) -> Option<Drops> {
    let mut rows = table.lines().filter_map(|line| line.split_once(':'));
    let (_, row) = rows.find(|(name, _)| name.trim() == device)?;
    let fields: Vec<&str> = row.split_ascii_whitespace().collect();
    Some(Drops { received: fields.get(3)?.parse().ok()?, sent: fields.get(11)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_the_fourth_field_of_each_half() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo\n    \
                     lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                     dev: 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36\n";
        assert_eq!(parse(table, "dev"), Some(Drops { received: 24, sent: 32 }));
        assert_eq!(parse(table, "de"), None);
        assert_eq!(parse("dev: 1 2 3\n", "dev"), None);
    }
}
