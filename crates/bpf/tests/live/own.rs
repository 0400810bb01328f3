//! The objects of a test in the kernel, by names and numbers that are its own: others may load such
//! programs meanwhile.

use std::collections::BTreeSet;
use std::fs;

use fullpipe_bpf::kernel::{self, Error, Loaded, Options};
use fullpipe_testkit::{skip, until};
use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};

/// A name for TCP that no other process uses.
pub(crate) fn name_of(test: &str) -> String {
    let name = format!("{test}_{}", std::process::id());
    // TCP_CA_NAME_MAX, with a zero at the end.
    assert!(name.len() < 16, "{name}");
    name
}

/// Loads the program, where this kernel takes it.
pub(crate) fn load(options: &Options) -> Loaded {
    match kernel::load(options) {
        Ok(loaded) => loaded,
        Err(
            error @ (Error::NotRoot | Error::NoBtf | Error::NoStructOps | Error::TooOld { .. }),
        ) => skip(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

/// The names that TCP has.
pub(crate) fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("Linux has it")
}

/// The numbers that the descriptors of this process have in a line of /proc/self/fdinfo.
pub(crate) fn numbers(line: &str) -> BTreeSet<u32> {
    let files = fs::read_dir("/proc/self/fdinfo").expect("Linux has it").flatten();
    // A descriptor may be closed meanwhile.
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let all: Vec<_> = texts.collect();
    let values = all.iter().flat_map(|text| text.lines()).filter_map(|l| l.strip_prefix(line));
    values.filter_map(|value| value.strip_prefix(':')?.trim().parse().ok()).collect()
}

/// The name, and the maps and programs by their numbers, of the one program that this process has
/// loaded.
pub(crate) struct InTheKernel {
    name: String,
    maps: BTreeSet<u32>,
    programs: BTreeSet<u32>,
}

impl InTheKernel {
    pub(crate) fn of(name: &str) -> Self {
        let (mut maps, programs) = (numbers("map_id"), numbers("prog_id"));
        let query = ProgInfoQueryOptions::default().include_map_ids(true);
        let all = ProgInfoIter::with_query_opts(query);
        let own = all.filter(|program| programs.contains(&program.id));
        maps.extend(own.flat_map(|program| program.map_ids));
        let names: Vec<_> = MapInfoIter::default()
            .filter(|map| maps.contains(&map.id))
            .map(|map| map.name.to_string_lossy().into_owned())
            .collect();
        for map in ["flows", "bbr3_ops"] {
            let is_it = |name: &String| name.starts_with(map);
            assert!(names.iter().any(is_it), "no {map} among {names:?}");
        }
        Self { name: name.to_owned(), maps, programs }
    }

    /// The kernel frees what the last connection used when it gets to it.
    pub(crate) fn is_gone(&self) {
        until(&format!("{} is gone", self.name), || !available().contains(&self.name));
        until("its maps are gone", || {
            !MapInfoIter::default().any(|map| self.maps.contains(&map.id))
        });
        until("its programs are gone", || {
            !ProgInfoIter::default().any(|program| self.programs.contains(&program.id))
        });
    }
}
