//! Counters of the packets that the kernel dropped at a device.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A namespace's table of devices. The file belongs to the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Counters {
    table: File,
    device: String,
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
    pub(super) fn open(device: &str) -> io::Result<Self> {
        let table = File::open("/proc/thread-self/net/dev")?;
        Ok(Self { table, device: device.to_owned() })
    }

    /// The counters now; nothing when they cannot be read.
    pub(super) fn read(&self) -> Drops {
        let mut table = Vec::new();
        let mut part = [0; 4096];
        // One read gives no more than the kernel's own buffer holds, and a host may have many
        // devices.
        while let Ok(bytes @ 1..) = self.table.read_at(&mut part, table.len() as u64) {
            table.extend_from_slice(&part[..bytes]);
        }
        let table = String::from_utf8_lossy(&table);
        parse(&table, &self.device).unwrap_or_default()
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
