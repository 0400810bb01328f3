//! `fullpipe clean` beside what is somebody else's.

use std::path::Path;

use crate::common::{fullpipe, run};

fn cleaning_goes_on_past_what_is_somebody_elses() {
    // Above the kernel's largest process number, so that no process has it.
    let number = 4_200_000 + std::process::id();
    let place = Path::new("/run/fullpipe");
    std::fs::create_dir_all(place).expect("a directory");
    let (foreign, left) =
        (place.join(format!("{number}-1-0-a")), place.join(format!("{number}-1-0-b")));
    std::fs::create_dir(&foreign).expect("a directory");
    std::fs::write(&left, "").expect("a name");
    let said = run(fullpipe(place, &["clean"]));
    let (is_foreign_there, is_left_there) = (foreign.exists(), left.exists());
    std::fs::remove_dir(&foreign).expect("it is still there");
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    assert!(is_foreign_there && !is_left_there, "{}", String::from_utf8_lossy(&said.stdout));
}

fullpipe_testkit::tests! {
    [Root] cleaning_goes_on_past_what_is_somebody_elses;
}
