//! The table on terminals of several widths.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use nix::pty::Winsize;

use crate::common::{Running, fullpipe, run};

const FILE: &str = "name = \"x\"\nduration = \"1s\"\ncc = [\"bbr3\", \"cubic\"]\n\
    path = { rate = [\"10mbit\", \"20mbit\"], rtt = \"40ms\", buffer = [\"1bdp\", \"2bdp\"] }\n";

/// Output of the command on a terminal with so many columns.
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
    // The names are too long for the columns in 80 characters: eight runs have a line each, and one
    // for the name; three are above.
    assert_eq!(piped.lines().count(), 19, "{piped}");
    let wide = on_columns(dir.path(), &args, 100);
    assert_eq!(wide.lines().count(), 11, "{wide}");
    assert!(wide.lines().all(|line| line.chars().count() <= 100), "{wide}");
    let numbers = |text: &str, run: &str| {
        let (_, after) = text.split_once(run).expect(run);
        after.split_whitespace().take(8).map(str::to_owned).collect::<Vec<_>>()
    };
    for run in ["bbr3 rate=10mbit buffer=1bdp", "cubic rate=20mbit buffer=2bdp"] {
        assert!(wide.lines().any(|line| line.starts_with(run) && line.len() > run.len()), "{wide}");
        assert_eq!(numbers(&wide, run), numbers(&piped, run), "{wide}");
    }
    let narrow = on_columns(dir.path(), &args, 50);
    assert!(narrow.lines().all(|line| line.chars().count() <= 50), "{narrow}");
    assert!(narrow.contains("\nnot shown: ") && narrow.ends_with(", retr\n"), "{narrow}");
}
