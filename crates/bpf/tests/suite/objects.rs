//! The objects that the build makes of the C sources.

use std::fs;
use std::path::Path;

#[path = "../../build/compile.rs"]
mod compile;

/// The program says which build it is by its content, and no builder wants the paths of its machine
/// in a package.
#[test]
fn an_object_does_not_depend_on_where_it_is_built() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let headers = Path::new(env!("FULLPIPE_BPF_HEADERS"));
    let build_in = |name: &str| {
        let directory = tempfile::Builder::new().prefix(name).tempdir().expect("a directory");
        let own = directory.path().join("libbpf-of-its-own");
        copy(&root.join("c"), &directory.path().join("c"));
        copy(headers, &own);
        compile::OBJECTS.map(|(name, source)| {
            compile::compile(name, source, directory.path(), &own, directory.path())
                .expect("clang built it before");
            fs::read(directory.path().join(format!("{name}.bpf.o"))).expect("it was made")
        })
    };
    let (one, other) = (build_in("one"), build_in("another-place"));
    for ((name, _), (one, other)) in compile::OBJECTS.iter().zip(one.iter().zip(&other)) {
        assert!(one == other, "{name} differs");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it is readable");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("it is copied");
        }
    }
}
