//! Names that are refused before the kernel is asked.

use fullpipe_bpf::kernel::{self, Error, Options};

#[test]
fn names_that_tcp_does_not_take_are_refused() {
    for name in ["", "sixteen_letters_", "a b", "bbr/3", "a\nb"] {
        let error = kernel::load(&Options { name: name.to_owned(), ..Options::default() })
            .expect_err("no name");
        assert!(matches!(error, Error::BadName(_)), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
