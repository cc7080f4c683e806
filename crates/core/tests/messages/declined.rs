//! What keeps a replica from voting for a proposal that is well formed and whose signatures hold.

use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::rules::{ALL, Basic, Chained, SECOND_VOTE, TwoChain};
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::protocols::hotstuff::{Message, Settings, Types};
use quorate_core::protocols::protocol::{Ballot, Declined, Event, Input, Output, Protocol};
use quorate_core::{Digest, Height, ReplicaId, View};

use crate::driven::{Replica, block, changed, events, genesis_qc, messages, proposal};
use crate::forge::{genesis, vote};

/// Why it did not vote; `None` if it did. It did one of the two.
fn declined(outputs: &[Output<Types>]) -> Option<Declined> {
    let verdicts: Vec<Option<Declined>> = events(outputs)
        .into_iter()
        .filter_map(|event| match event {
            Event::Voted(ballot) if ballot.phase == 1 => Some(None),
            Event::Declined { reason, .. } => Some(Some(*reason)),
            _ => None,
        })
        .collect();
    assert_eq!(verdicts.len(), 1, "{outputs:?}");
    verdicts[0]
}

fn has_voted(outputs: &[Output<Types>]) -> bool {
    events(outputs).iter().any(|event| matches!(event, Event::Voted(_)))
}

#[test]
fn a_proposal_of_the_current_view_gets_a_vote() {
    for rules in ALL {
        let mut replica = Replica::running(rules);
        let chain = replica.chain(0, 1);
        let first = block(1, &chain[0], genesis_qc());
        assert_eq!(declined(&replica.take(1, proposal(&first))), None);
    }
}

#[test]
fn a_view_that_is_over_or_has_not_begun_gets_no_vote() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(1, 1);
    let ahead = replica.qc(5, 1, Digest([5; 32])).build();
    replica.take(
        1,
        Message::Advance { high_qc: ahead, high_tc: None, decided: None, is_answer: false },
    );
    assert_eq!(replica.driver.status().view, View(6));
    let late = block(2, &chain[1], replica.qc(1, 1, chain[1].id()).build());
    assert_eq!(declined(&replica.take(2, proposal(&late))), Some(Declined::NotCurrent));
}

/// Its votes could help nobody any more; the next phase is voted in.
#[test]
fn a_block_that_is_certified_gets_no_vote_of_that_phase() {
    let mut replica = Replica::running(&Basic);
    let chain = replica.chain(0, 1);
    let first = block(1, &chain[0], genesis_qc());
    let prepared = replica.qc(1, 1, first.id()).build();
    replica.take(1, Message::Certificate(prepared));
    let outputs = replica.take(1, proposal(&first));
    assert_eq!(declined(&outputs), Some(Declined::Certified));
    let pre_commit = Ballot { view: View(1), phase: 2, block: first.id() };
    assert!(events(&outputs).contains(&&Event::Voted(pre_commit)));
}

#[test]
fn nobody_votes_twice_in_a_view_restarts_included() {
    let voted = Ballot { view: View(1), phase: 1, block: Digest([1; 32]) };
    let safety = Safety { voted: Some(voted), ..Safety::new(genesis()) };
    let mut replica = Replica::recovered(Settings::new(&Chained), Some(safety), Vec::new());
    let chain = replica.chain(0, 1);
    let first = block(1, &chain[0], genesis_qc());
    assert_eq!(declined(&replica.take(1, proposal(&first))), Some(Declined::AlreadyVoted));
}

#[test]
fn a_view_that_was_given_up_gets_no_vote() {
    let mut replica = Replica::running(&Chained);
    replica.around.has_pending = true;
    replica.tell(Input::Wake);
    replica.now = replica.driver.deadline().expect("there is work");
    replica.tell(Input::Timeout);
    let chain = replica.chain(0, 1);
    let first = block(1, &chain[0], genesis_qc());
    assert_eq!(declined(&replica.take(1, proposal(&first))), Some(Declined::TimedOut));
    assert_eq!(replica.driver.safety().timed_out, View(1));
}

/// Where the chain elects, a proposal whose parent is missing could be anybody's. When the parent
/// comes it is known whose it was to be.
#[test]
fn a_proposal_of_another_than_the_leader_gets_no_vote_when_that_is_known() {
    for (proposer, reason) in [(1, Some(Declined::NotLeader)), (2, None)] {
        let settings = Settings { election: Election::Carousel, ..Settings::new(&Chained) };
        let mut replica = Replica::new(settings);
        let chain = replica.chain(0, 1);
        let first = block(1, &chain[0], genesis_qc());
        let justify = replica.qc(1, 1, first.id()).build();
        let second = changed(&block(2, &first, justify), |block| {
            block.proposer = ReplicaId(proposer);
        });
        let outputs = replica.take(proposer, proposal(&second));
        assert!(!has_voted(&outputs), "its parent is missing");
        let outputs = replica.take(1, proposal(&first));
        let of_second = |event: &&&Event| {
            matches!(event, Event::Declined { view: View(2), .. })
                || matches!(event, Event::Voted(ballot) if ballot.view == View(2))
        };
        let verdict: Vec<_> = events(&outputs).into_iter().filter(|e| of_second(&e)).collect();
        match reason {
            Some(reason) => {
                assert_eq!(verdict, [&Event::Declined { view: View(2), reason }]);
            }
            None => assert!(matches!(verdict[..], [Event::Voted(_)]), "{outputs:?}"),
        }
    }
}

/// Replicas give up view 8 and know QC(b6), and yet the leader of view 9 extends b2. Every variant
/// refuses that, by its lock or by the time-out certificate; a block on b6 is voted for.
#[test]
fn a_proposal_against_the_lock_or_the_time_out_certificate_gets_no_vote() {
    for rules in ALL {
        let verdict_on = |parent: usize| {
            let mut replica = Replica::running(rules);
            let chain = replica.chain_with_gaps(6);
            let highest = replica.qc(6, 1, chain[3].id());
            // In the basic variant it is the certificate of pre-commit votes that locks.
            let pre_commit = replica.qc(6, 2, chain[3].id()).build();
            if rules.facts().phases > 1 {
                replica.take(2, Message::Certificate(pre_commit));
            }
            let tc = Some(replica.tc(8, &highest).build());
            let parent = &chain[parent];
            let justify = replica.qc(parent.view.0, 1, parent.id()).build();
            let next = block(9, parent, justify);
            declined(&replica.take(1, Message::Proposal { block: next, tc }))
        };
        let name = rules.facts().name;
        assert_eq!(verdict_on(3), None, "{name}");
        assert_eq!(verdict_on(1), Some(Declined::Unsafe), "{name}");
    }
}

/// The state is compared as soon as it was computed here.
#[test]
fn a_proposal_with_another_state_root_gets_no_vote() {
    for (root, reason) in [(Digest::default(), None), (Digest([1; 32]), Some(Declined::StateRoot))]
    {
        let mut replica = Replica::running(&Chained);
        let chain = replica.chain(0, 1);
        replica.around.root = None;
        let first = block(1, &chain[0], genesis_qc());
        let outputs = replica.take(1, proposal(&first));
        assert!(!has_voted(&outputs), "nothing was executed yet");
        assert!(!has_voted(&replica.tell(Input::Wake)));
        replica.around.root = Some(root);
        let outputs = replica.tell(Input::Wake);
        assert_eq!(declined(&outputs), reason);
        let told: Vec<_> = events(&outputs)
            .into_iter()
            .filter_map(|event| match event {
                Event::RootDiffers { height, ours, theirs, .. } => Some((*height, *ours, *theirs)),
                _ => None,
            })
            .collect();
        let expected = reason.map(|_| (Height(0), root, first.state_root));
        assert_eq!(told, Vec::from_iter(expected), "with the height and both roots");
        // It does not wait for more.
        assert!(!has_voted(&replica.tell(Input::Wake)));
    }
}

/// Second votes of the others commit a block before this replica has executed its parent.
#[test]
fn a_block_that_is_committed_already_gets_no_vote() {
    let settings =
        Settings { second_vote: true, broadcast_votes: true, ..Settings::new(&TwoChain) };
    let mut replica = Replica::new(settings);
    let chain = replica.chain(0, 1);
    replica.around.root = None;
    let first = block(1, &chain[0], genesis_qc());
    replica.take(1, proposal(&first));
    for voter in [1, 2, 3] {
        let domain = replica.driver.domain();
        let second = Message::Vote(vote(domain, voter, 1, SECOND_VOTE, first.id()));
        replica.take(voter, second);
    }
    assert_eq!(replica.driver.tree().root().id(), first.id());
    replica.around.root = Some(Digest::default());
    assert!(!has_voted(&replica.tell(Input::Wake)));
    assert_eq!(replica.driver.safety().voted, None);
}

#[test]
fn a_replica_that_lost_its_data_abstains() {
    let safety = Safety { abstain_until: View(1), ..Safety::new(genesis()) };
    let mut replica = Replica::recovered(Settings::new(&Chained), Some(safety), Vec::new());
    let chain = replica.chain(0, 1);
    let first = block(1, &chain[0], genesis_qc());
    assert_eq!(declined(&replica.take(1, proposal(&first))), Some(Declined::Abstaining));
    let second = block(2, &first, replica.qc(1, 1, first.id()).build());
    assert_eq!(declined(&replica.take(2, proposal(&second))), None);
}

/// Nor in later phases of a view, for a block that q others found safe; nor is a second vote cast.
#[test]
fn a_replica_that_lost_its_data_abstains_in_later_phases_too() {
    let votes_behind = |settings: Settings, abstain_until: u64, tell: fn(Qc) -> Message| {
        let abstain_until = View(abstain_until);
        let safety = Safety { abstain_until, ..Safety::new(genesis()) };
        let phases = settings.rules.facts().phases;
        let mut replica = Replica::recovered(settings, Some(safety), Vec::new());
        let chain = replica.chain(0, 1);
        let first = block(1, &chain[0], genesis_qc());
        replica.take(1, proposal(&first));
        (1..=phases.max(2) - 1)
            .map(|phase| {
                let qc = replica.qc(1, phase, first.id()).build();
                has_voted(&replica.take(1, tell(qc)))
            })
            .collect::<Vec<_>>()
    };
    let basic =
        |abstain_until| votes_behind(Settings::new(&Basic), abstain_until, Message::Certificate);
    assert_eq!((basic(0), basic(1)), (vec![true, true], vec![false, false]));
    let second = |abstain_until| {
        let settings =
            Settings { second_vote: true, broadcast_votes: true, ..Settings::new(&TwoChain) };
        votes_behind(settings, abstain_until, |high_qc| Message::Advance {
            high_qc,
            high_tc: None,
            decided: None,
            is_answer: false,
        })
    };
    assert_eq!((second(0), second(1)), (vec![true], vec![false]));
}

#[test]
fn a_second_proposal_of_a_view_is_noticed_and_gets_no_vote() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(0, 1);
    let first = block(1, &chain[0], genesis_qc());
    assert_eq!(declined(&replica.take(1, proposal(&first))), None);
    let other = changed(&first, |block| block.state_root = Digest([2; 32]));
    let outputs = replica.take(1, proposal(&other));
    let noticed = Event::Equivocation { proposer: ReplicaId(1), view: View(1) };
    assert_eq!(events(&outputs), [&noticed]);
    assert!(messages(&outputs).is_empty());
    assert!(!replica.driver.holds(&other.id()));
}

#[test]
fn asked_again_it_sends_the_vote_that_it_cast() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(0, 1);
    let first = block(1, &chain[0], genesis_qc());
    let statement = replica.driver.domain().vote(View(1), 1, &first.id());
    replica.take(1, proposal(&first));
    let signature = crate::forge::sign(0, &statement);
    let sent = replica.tell(Input::Signed { statement, signature });
    let again = replica.take(1, proposal(&first));
    assert_eq!(messages(&sent), messages(&again));
    assert!(matches!(messages(&again)[..], [Message::Vote(vote)] if vote.block == first.id()));
    assert!(!has_voted(&again), "nothing new is signed");
}
