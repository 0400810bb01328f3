//! The table on terminals of several widths.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use nix::pty::Winsize;

use crate::common::{Running, fullpipe, run};

const FILE: &str = "name = \"x\"\nduration = \"1s\"\ncc = [\"bbr3\", \"cubic\"]\n\
    path = { rate = [\"10mbit\", \"20mbit\"], rtt = \"40ms\" }\n";

/// What the command prints on a terminal with so many columns.
fn on_columns(dir: &Path, args: &[&str], columns: u16) -> String {
    let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = nix::pty::openpty(Some(&size), None).expect("a terminal");
    let mut command = fullpipe(dir, args);
    command.env("TERM", "xterm").stdout(Stdio::from(terminal.slave)).stderr(Stdio::null());
    let mut running = Running(command.spawn().expect("it starts"));
    // With it goes the last handle on the terminal's other end in this process.
    drop(command);
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    let mut master = std::fs::File::from(terminal.master);
    // Linux ends a terminal whose other end is closed with an error.
    while let Ok(n @ 1..) = master.read(&mut buffer) {
        text.extend_from_slice(&buffer[..n]);
    }
    assert_eq!(running.end().code(), Some(0));
    String::from_utf8(text).expect("text").replace("\r\n", "\n")
}

#[test]
fn a_table_is_as_wide_as_the_terminal_and_a_pipe_has_always_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.toml"), FILE).expect("a file");
    let args = ["run", "x.toml"];
    let piped = String::from_utf8(run(fullpipe(dir.path(), &args)).stdout).expect("text");
    // A name for two runs is too long for the columns of the table in 80 characters.
    assert!(piped.lines().count() > 7 && !piped.contains("not shown"), "{piped}");
    let wide = on_columns(dir.path(), &args, 100);
    assert_eq!(wide.lines().count(), 7, "{wide}");
    for run in ["rate=10mbit bbr3", "rate=20mbit cubic"] {
        let line = wide.lines().find(|line| line.ends_with(run) || line.contains(run));
        assert!(line.is_some_and(|line| line.len() > 70), "{run}: {wide}");
    }
    let narrow = on_columns(dir.path(), &args, 50);
    assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
    assert!(narrow.ends_with("not shown: rtt ms, loss, retr\n"), "{narrow}");
}
