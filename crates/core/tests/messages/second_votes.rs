//! Second votes: words that commit a block where q of them are heard, and bear no signature.

use quorate_core::base::crypto::{Form, Signature};
use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::protocols::hotstuff::rules::{SECOND_VOTE, TwoChain};
use quorate_core::protocols::hotstuff::{Message, Settings, Types};
use quorate_core::protocols::protocol::{Ballot, Decision, Event, Input, Output};
use quorate_core::{Digest, ReplicaId};

use crate::driven::{Replica, block, events, genesis_qc, messages, proposal, to_sign};

fn settings(form: Form) -> Settings {
    let time_out_form = if form == Form::Threshold { Form::Aggregate } else { form };
    let broadcast =
        Settings { broadcast_votes: true, second_vote: true, ..Settings::new(&TwoChain) };
    Settings { vote_form: form, time_out_form, ..broadcast }
}

fn second(voter: u16, block: &SharedBlock) -> Message {
    let ballot = Ballot { view: block.view, phase: SECOND_VOTE, block: block.id() };
    Message::Vote(Vote { ballot, voter: ReplicaId(voter), signature: Signature::NONE })
}

fn committed(outputs: &[Output<Types>]) -> Vec<Digest> {
    let blocks = |output: &Output<Types>| match output {
        Output::Commit(decisions) => {
            decisions.iter().filter_map(Decision::block).map(|block| block.id()).collect()
        }
        _ => Vec::new(),
    };
    outputs.iter().flat_map(blocks).collect()
}

fn asks(outputs: &[Output<Types>]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Verify { .. } | Output::Combine { .. }))
}

/// Under every form of certificates: none is made of them.
#[test]
fn q_of_them_commit_and_nothing_is_verified() {
    for form in [Form::List, Form::Aggregate, Form::Threshold] {
        let mut replica = Replica::new(settings(form));
        let chain = replica.chain(1, 1);
        for voter in [1, 2, 2, 1] {
            let outputs = replica.take(voter, second(voter, &chain[1]));
            assert!(outputs.is_empty(), "two voters, {form:?}: {outputs:?}");
        }
        let outputs = replica.take(3, second(3, &chain[1]));
        assert_eq!(committed(&outputs), [chain[1].id()], "{form:?}");
        assert!(!asks(&outputs), "{form:?}");
    }
}

#[test]
fn a_block_that_comes_behind_them_is_committed_as_it_comes() {
    let mut replica = Replica::new(settings(Form::List));
    let genesis = replica.chain(0, 1).remove(0);
    let first = block(1, &genesis, genesis_qc());
    for voter in [1, 2, 3] {
        assert_eq!(committed(&replica.take(voter, second(voter, &first))), []);
    }
    assert_eq!(committed(&replica.take(1, proposal(&first))), [first.id()]);
}

/// The certificate of b1 comes in b2. A replica says that it has seen it, and its own word is one
/// of q.
#[test]
fn whoever_sees_the_certificate_says_so_and_counts_itself() {
    let mut replica = Replica::new(settings(Form::List));
    let chain = replica.chain(1, 1);
    for voter in [2, 3] {
        assert_eq!(committed(&replica.take(voter, second(voter, &chain[1]))), []);
    }
    let next = block(2, &chain[1], replica.qc(1, 1, chain[1].id()).build());
    let outputs = replica.take(2, proposal(&next));
    assert!(messages(&outputs).contains(&&second(0, &chain[1])), "{outputs:?}");
    assert_eq!(committed(&outputs), [chain[1].id()]);
    // What it signs is its vote for b2.
    let domain = replica.driver.domain();
    assert_eq!(to_sign(&outputs), [domain.vote(next.view, 1, &next.id())]);
}

/// A peer that was away when second votes were cast is told them when its channel opens, so that it
/// commits what the others did, though nothing more is ordered.
#[test]
fn the_last_word_is_said_again_to_a_peer_that_comes() {
    let mut replica = Replica::new(settings(Form::List));
    let chain = replica.chain(1, 1);
    let next = block(2, &chain[1], replica.qc(1, 1, chain[1].id()).build());
    let words = |outputs: &[Output<Types>]| {
        let is_word = |output: &&Output<Types>| {
            matches!(output, Output::Send { to: ReplicaId(2), message }
                if *message == second(0, &next))
        };
        outputs.iter().filter(is_word).count()
    };
    replica.take(2, proposal(&next));
    let open = || Input::Connected(ReplicaId(2));
    assert_eq!(words(&replica.tell(open())), 0, "its certificate was not seen yet");
    let high_qc = replica.qc(2, 1, next.id()).build();
    let seen = Message::Advance { is_answer: false, high_qc, high_tc: None, decided: None };
    replica.take(1, seen);
    assert_eq!(words(&replica.tell(open())), 1);
}

#[test]
fn the_first_word_of_a_view_counts() {
    let mut replica = Replica::new(settings(Form::List));
    let chain = replica.chain(1, 1);
    let other = block(1, &chain[0], genesis_qc());
    let other = crate::driven::changed(&other, |content| content.state_root = Digest([7; 32]));
    replica.take(3, second(3, &other));
    let outputs = replica.take(3, second(3, &chain[1]));
    let double = Event::DoubleVote { voter: ReplicaId(3), view: other.view };
    assert_eq!(events(&outputs), [&double]);
    for voter in [1, 2] {
        assert_eq!(committed(&replica.take(voter, second(voter, &chain[1]))), []);
    }
}

/// Every other view is given up, so that the chain shows no commit at all. Words do not run away
/// from it: the roots of states that leaders have to name would be lost.
#[test]
fn words_commit_so_many_blocks_above_what_the_chain_shows() {
    let mut replica = Replica::new(settings(Form::List));
    let chain = replica.chain_with_gaps(80);
    assert_eq!(chain.len(), 41);
    for block in &chain[1..] {
        for voter in [1, 2, 3] {
            replica.take(voter, second(voter, block));
        }
        let root = replica.driver.tree().root().height;
        assert_eq!(root.0, block.height.0.min(32));
    }
    // Two views in a row, and all of it is committed.
    let last = chain.last().expect("blocks");
    let next = block(81, last, replica.qc(80, 1, last.id()).build());
    replica.take(1, proposal(&next));
    let certified = block(82, &next, replica.qc(81, 1, next.id()).build());
    replica.take(2, proposal(&certified));
    assert_eq!(replica.driver.tree().root().id(), last.id());
}
