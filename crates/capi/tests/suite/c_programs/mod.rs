//! C programs against the installed library, static and shared: the example, one that replays a
//! trace, and one that is built with the headers of other versions.

mod replay;

use std::fs;

use crate::installed::{Installed, Linkage, run, succeeded};

#[test]
fn the_example_fills_its_link_with_each_library() {
    let installed = Installed::new();
    let mut said = Vec::new();
    for linkage in [Linkage::Static, Linkage::Shared] {
        let program = installed.compile("examples/sender.c", linkage);
        let line = succeeded(run(&program, &["bbr3"], None));
        let rate = line.strip_prefix("bbr3: ").and_then(|line| line.split(' ').next());
        let rate: f64 = rate.expect("a rate").parse().expect("a number");
        assert!((90.0..100.0).contains(&rate), "{line}");
        said.push(line);

        let refused = run(&program, &["bbr9"], None);
        let error = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2));
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(
            error.ends_with(
                "there are bbr3 bbr3x bbr3-linux bbr3x-linux bbr-swift prague bbr1 cubic reno\n"
            ),
            "{error}"
        );
    }
    assert_eq!(said[0], said[1]);
}

#[test]
fn a_trace_gives_the_same_decisions_in_c_and_in_rust() {
    let installed = Installed::new();
    let programs =
        [Linkage::Static, Linkage::Shared].map(|way| installed.compile("tests/replay.c", way));
    for algorithm in fullpipe_cc::Algorithm::NAMES {
        let trace = replay::record(algorithm);
        assert!(trace.events.lines().count() > 5_000, "{algorithm}: a short trace");
        for kind in replay::KINDS {
            assert!(trace.events.contains(kind), "{algorithm}: the trace has no '{kind}'");
        }
        let file = installed.path().join("trace");
        fs::write(&file, &trace.events).expect("a file");
        for program in &programs {
            let said = succeeded(run(program, &[], Some(&file)));
            let lines = said.lines().zip(trace.decisions.lines()).zip(trace.events.lines());
            for (number, ((c, rust), event)) in lines.enumerate() {
                assert_eq!(c, rust, "{algorithm}, line {}: {event}", number + 1);
            }
            assert_eq!(said.len(), trace.decisions.len(), "{algorithm}: a line is missing");
        }
    }
}

/// The header before a struct got its fields from `field` on.
fn older(header: &str, name: &str, field: &str) -> String {
    let (before, rest) = header.split_once(&format!("struct {name} {{\n")).expect("the struct");
    let (fields, after) = rest.split_once("\n};\n").expect("its end");
    let (kept, _) = fields.split_once(&format!(" {field};")).expect("the field");
    let (kept, _) = kept.rsplit_once("\n").expect("its line");
    format!("{before}struct {name} {{\n{kept}\n}};\n{after}")
}

/// The header with another field at the end of a struct.
fn newer(header: &str, name: &str) -> String {
    let (before, rest) = header.split_once(&format!("struct {name} {{\n")).expect("the struct");
    let (fields, after) = rest.split_once("\n};\n").expect("its end");
    format!("{before}struct {name} {{\n{fields}\n    uint64_t more;\n}};\n{after}")
}

#[test]
fn programs_of_older_and_newer_headers_run_with_this_library() {
    let installed = Installed::new();
    let header = installed.path().join("include/fullpipe.h");
    let present = fs::read_to_string(&header).expect("the header");
    let first = older(&present, "fullpipe_config", "swift_base_target");
    let first = older(&first, "fullpipe_info", "max_bw");
    let structs = ["fullpipe_config", "fullpipe_info", "fullpipe_control", "fullpipe_send_advice"];
    let next = structs.iter().fold(present.clone(), |header, name| newer(&header, name));
    let next = next.replace("#define FULLPIPE_H\n", "#define FULLPIPE_H\n#define NEWER\n");
    for linkage in [Linkage::Static, Linkage::Shared] {
        let output = |text: &str| {
            fs::write(&header, text).expect("a header");
            run(&installed.compile("tests/versions.c", linkage), &[], None)
        };
        let said = succeeded(output(&present));
        assert_eq!(said.lines().count(), 2_000);
        assert!(succeeded(output(&first)) == said, "{linkage:?}: an older program does otherwise");
        let newer = output(&next);
        let error = String::from_utf8_lossy(&newer.stderr).into_owned();
        assert!(succeeded(newer) == said, "{linkage:?}: a newer program does otherwise");
        assert_eq!(error, "the program sets a field that this library is too old to know\n");
    }
}
