//! Random sequences of events, honest and not.

mod soup;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_a_peer_sends_does_harm(
        input in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        soup::run(&input);
    }
}
