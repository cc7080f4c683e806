//! What a replica says of its own accord when it starts again.

use quorate_core::View;
use quorate_core::protocols::hotstuff::Settings;
use quorate_core::protocols::hotstuff::rules::ALL;
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::protocol::Ballot;

use crate::driven::{Replica, block, genesis_qc, to_sign};
use crate::forge::genesis;

/// The last vote may not have left before the power failed: it is signed again, unless its block
/// was lost with it (a certificate would be for a block that nobody has), or the view was given up
/// since.
#[test]
fn its_last_vote_is_sent_again_with_its_block_at_hand_and_its_view_not_given_up() {
    for rules in ALL {
        let first = block(1, &Replica::running(rules).chain(0, 1)[0], genesis_qc());
        let voted = Some(Ballot { view: View(1), phase: 1, block: first.id() });
        for (is_here, timed_out, votes) in
            [(true, 0, true), (false, 0, false), (true, 1, false), (false, 1, false)]
        {
            let timed_out = View(timed_out);
            let safety = Safety { voted, timed_out, ..Safety::new(genesis()) };
            let blocks = if is_here { vec![first.clone()] } else { Vec::new() };
            let (replica, outputs) = Replica::restarted(Settings::new(rules), Some(safety), blocks);
            let vote = replica.driver.domain().vote(View(1), 1, &first.id());
            assert_eq!(
                to_sign(&outputs).contains(&vote),
                votes,
                "{rules:?} {is_here} {timed_out:?}"
            );
        }
    }
}
