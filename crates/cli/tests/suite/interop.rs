//! Input that `fullpipe interop` refuses.

use crate::common::{fullpipe, names, run};

#[test]
fn what_cannot_be_run_is_refused_in_one_line() {
    let dir = tempfile::tempdir().expect("a directory");
    for (line, words) in [
        ("", "write --peers"),
        ("--peers quick-go", "did you mean quic-go"),
        ("--peers linux", "is no peer with interop cases"),
        ("--peers fullpipe --cases handshak", "did you mean handshake"),
        ("--command fullpipe=x", "is the name of a recipe"),
        ("--command ../x=y", "is no name"),
        ("--command x=", "no command"),
        ("--peers fullpipe --runs 0", "0"),
        ("--peers fullpipe --keep", "--output"),
    ] {
        let given = line.split(' ').filter(|word| !word.is_empty());
        let arguments: Vec<&str> = ["interop", "--json"].into_iter().chain(given).collect();
        let said = run(fullpipe(dir.path(), &arguments));
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert!(said.stderr.contains(words), "{line}: {}", said.stderr);
        assert_eq!(said.stderr.trim().lines().count(), 1, "{line}: {}", said.stderr);
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
}
