//! What the driver asks of a message before its signatures are worth checking: each reason to
//! refuse one, for each kind.

use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::protocols::hotstuff::block::{Block, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::{TimeOut, Vote};
use quorate_core::protocols::hotstuff::leader::Election;
use quorate_core::protocols::hotstuff::rules::{Basic, Chained, Rules, TwoChain};
use quorate_core::protocols::hotstuff::{Message, Settings};
use quorate_core::protocols::protocol::{Malformed, Protocol};
use quorate_core::{Digest, Epoch, Height, ReplicaId, View};

use crate::cluster::keys::CHAIN;
use crate::driven::{Replica, block, changed, proposal};
use crate::forge::{RawQc, RawTc, Verdict, genesis, vote};

fn unread(reason: Malformed) -> Verdict {
    Verdict::Unread(reason)
}

#[test]
fn a_proposal_comes_from_its_proposer_who_leads_its_view_in_this_epoch() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(2, 1);
    let justify = replica.qc(2, 1, chain[2].id()).build();
    let next = block(3, &chain[2], justify);
    assert_eq!(replica.judge(3, proposal(&next)), Verdict::Good);
    assert_eq!(replica.judge(1, proposal(&next)), unread(Malformed::WrongSender));
    let stolen = changed(&next, |block| block.proposer = ReplicaId(1));
    assert_eq!(replica.judge(1, proposal(&stolen)), unread(Malformed::WrongSender));
    assert_eq!(replica.judge(3, proposal(&stolen)), unread(Malformed::WrongSender));
    let other_epoch = changed(&next, |block| block.epoch = Epoch(1));
    assert_eq!(replica.judge(3, proposal(&other_epoch)), unread(Malformed::WrongEpoch));
}

/// Where leaders are elected from the chain, the proposal's own chain says who leads: known as soon
/// as its parent is.
#[test]
fn who_leads_is_asked_of_the_chain_that_a_proposal_extends() {
    for election in [Election::Carousel, Election::Reputation] {
        let mut replica = Replica::new(Settings { election, ..Settings::new(&Chained) });
        let justify = replica.qc(0, 0, genesis()).build();
        let chain = [Arc::new(Block::genesis(CHAIN, Epoch(0)))];
        let first = block(1, &chain[0], justify);
        // Exactly one of four leads view 1.
        let by = |id: u16| changed(&first, |block| block.proposer = ReplicaId(id));
        let verdicts: Vec<Verdict> =
            (0..4).map(|id| replica.judge(id, proposal(&by(id)))).collect();
        let leads = |verdict: &&Verdict| **verdict == Verdict::Good;
        assert_eq!(verdicts.iter().filter(leads).count(), 1, "{verdicts:?}");
        let refused = |verdict: &&Verdict| **verdict == unread(Malformed::WrongSender);
        assert_eq!(verdicts.iter().filter(refused).count(), 3, "{verdicts:?}");
        // On a parent that is missing anybody may lead, until it is here.
        let missing = by(verdicts.iter().position(|v| *v == Verdict::Good).expect("one") as u16);
        let justify = replica.qc(1, 1, missing.id()).build();
        let orphan =
            |id: u16| changed(&block(2, &missing, justify.clone()), |b| b.proposer = ReplicaId(id));
        assert!((0..4).all(|id| replica.judge(id, proposal(&orphan(id))) == Verdict::Good));
        replica.take(missing.proposer.0, proposal(&missing));
        let leaders =
            (0..4).filter(|id| replica.judge(*id, proposal(&orphan(*id))) == Verdict::Good);
        assert_eq!(leaders.count(), 1);
    }
}

#[test]
fn a_proposal_at_or_below_the_committed_head_is_stale() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(5, 1);
    // QC(b4), in b5, commits b2.
    assert_eq!(replica.driver.status().committed, Height(2));
    let justify = replica.qc(1, 1, chain[1].id()).build();
    let tc = replica.tc(6, &replica.qc(4, 1, chain[4].id())).build();
    let message =
        |block: &SharedBlock| Message::Proposal { block: Arc::clone(block), tc: Some(tc.clone()) };
    let fork = block(7, &chain[1], justify);
    assert_eq!(replica.judge(3, message(&fork)), unread(Malformed::Stale));
    let higher = changed(&fork, |block| block.height = Height(3));
    assert_eq!(replica.judge(3, message(&higher)), Verdict::Good, "the tree will say no");
}

#[test]
fn a_view_is_entered_by_a_certificate_of_the_view_before() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(2, 1);
    let qc = replica.qc(2, 1, chain[2].id());
    let judge = |view: u64, tc: Option<&RawTc>| {
        let block = block(view, &chain[2], qc.build());
        let tc = tc.map(RawTc::build);
        replica.judge((view % 4) as u16, Message::Proposal { block, tc })
    };
    let given_up = replica.tc(6, &qc);
    assert_eq!(judge(7, Some(&given_up)), Verdict::Good);
    // Neither of the view before; of another; and one where none is needed.
    assert_eq!(judge(7, None), unread(Malformed::Contradiction));
    assert_eq!(judge(4, None), unread(Malformed::Contradiction));
    for view in [6, 8, 3] {
        assert_eq!(judge(view, Some(&given_up)), unread(Malformed::Contradiction));
    }
    let needless = replica.tc(2, &replica.qc(1, 1, chain[1].id()));
    assert_eq!(judge(3, Some(&needless)), unread(Malformed::Contradiction));
    // What is wrong with a certificate is wrong with the proposal.
    let two = RawTc { entries: given_up.entries[..2].to_vec(), ..given_up.clone() };
    assert_eq!(judge(7, Some(&two)), unread(Malformed::NoQuorum));
    let mut forged = given_up;
    forged.signatures[0] = Signature::NONE;
    assert_eq!(judge(7, Some(&forged)), Verdict::BadSignature);
}

#[test]
fn the_justify_of_a_proposal_and_of_a_fetched_block_is_checked() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(2, 1);
    let good = replica.qc(2, 1, chain[2].id());
    let two = RawQc::signed(replica.driver.domain(), (2, 1, chain[2].id()), &[0, 1]);
    let judge_both = |qc: &RawQc, verdict: Verdict| {
        let block = block(3, &chain[2], qc.build());
        assert_eq!(replica.judge(3, proposal(&block)), verdict);
        let fetched = replica.driver.claim_block(block).map(|claim| claim.checks().to_vec());
        assert_eq!(Verdict::of(fetched), verdict);
    };
    judge_both(&good, Verdict::Good);
    judge_both(&two, unread(Malformed::NoQuorum));
    judge_both(&RawQc { phase: 2, ..good.clone() }, unread(Malformed::WrongPhase));
    judge_both(&RawQc { block: Digest([9; 32]), ..good.clone() }, Verdict::BadSignature);
    let of_elsewhere = changed(&block(3, &chain[2], good.build()), |b| b.epoch = Epoch(7));
    let claim = replica.driver.claim_block(of_elsewhere);
    assert_eq!(claim.err(), Some(Malformed::WrongEpoch));
}

#[test]
fn a_vote_comes_from_its_voter_in_a_phase_of_the_protocol_and_in_time() {
    for (rules, second_vote, phases) in
        [(&Chained as &'static dyn Rules, false, 1), (&Basic, false, 3), (&TwoChain, true, 2)]
    {
        let settings =
            Settings { second_vote, broadcast_votes: second_vote, ..Settings::new(rules) };
        let mut replica = Replica::new(settings);
        let domain = replica.driver.domain().clone();
        let of = |voter, view, phase| Message::Vote(vote(&domain, voter, view, phase, CHAIN));
        for phase in 1..=phases {
            assert_eq!(replica.judge(1, of(1, 5, phase)), Verdict::Good);
        }
        for phase in [0, phases + 1, 255] {
            assert_eq!(replica.judge(1, of(1, 5, phase)), unread(Malformed::WrongPhase));
        }
        assert_eq!(replica.judge(2, of(1, 5, 1)), unread(Malformed::WrongSender));
        // Before that of the high QC, or for it: it can help nobody.
        replica.chain(4, rules.facts().phases);
        assert_eq!(replica.driver.high_qc().view(), View(3));
        assert_eq!(replica.judge(1, of(1, 3, 1)), unread(Malformed::Stale));
        assert_eq!(replica.judge(1, of(1, 2, rules.facts().phases)), unread(Malformed::Stale));
        assert_eq!(replica.judge(1, of(1, 4, 1)), Verdict::Good);
        if second_vote {
            // A second vote commits: it is stale when that block is committed.
            let committed = replica.driver.tree().root().view.0;
            assert_eq!(replica.judge(1, of(1, committed, 2)), unread(Malformed::Stale));
            assert_eq!(replica.judge(1, of(1, committed + 1, 2)), Verdict::Good);
        }
    }
}

/// Votes are checked q at a time; one by one if that is asked for.
#[test]
fn votes_are_checked_one_by_one_where_that_is_asked_for() {
    let batched = Replica::running(&Chained);
    let settings = Settings { verify_each_vote: true, ..Settings::new(&Chained) };
    let each = Replica::new(settings);
    let good = vote(each.driver.domain(), 1, 5, 1, CHAIN);
    let forged = Vote { signature: Signature::NONE, ..good };
    assert_eq!(each.judge(1, Message::Vote(good)), Verdict::Good);
    assert_eq!(each.judge(1, Message::Vote(forged)), Verdict::BadSignature);
    assert_eq!(batched.judge(1, Message::Vote(forged)), Verdict::Good, "not looked at yet");
    // A stranger that names itself: no check could be made.
    let stranger = Vote { voter: ReplicaId(9), ..good };
    assert_eq!(each.judge(9, Message::Vote(stranger)), unread(Malformed::UnknownSigner));
}

#[test]
fn certificates_are_told_by_leaders_of_views_with_several_phases() {
    let chained = Replica::running(&Chained);
    let qc = chained.qc(5, 1, CHAIN).build();
    assert_eq!(chained.judge(1, Message::Certificate(qc)), unread(Malformed::WrongPhase));

    let mut basic = Replica::running(&Basic);
    let chain = basic.chain(3, 3);
    let judge = |qc: &RawQc| basic.judge(1, Message::Certificate(qc.build()));
    for phase in 1..=3 {
        assert_eq!(judge(&basic.qc(3, phase, chain[3].id())), Verdict::Good);
        assert_eq!(judge(&basic.qc(1, phase, chain[1].id())), unread(Malformed::Stale));
    }
    // The one that brought it here, in b3.
    assert_eq!(judge(&basic.qc(2, 3, chain[2].id())), unread(Malformed::Stale));
    assert_eq!(judge(&RawQc::genesis()), unread(Malformed::Stale));
    assert_eq!(judge(&basic.qc(5, 4, CHAIN)), unread(Malformed::WrongPhase));
    let forged = RawQc { block: CHAIN, ..basic.qc(5, 2, genesis()) };
    assert_eq!(judge(&forged), Verdict::BadSignature);
}

#[test]
fn a_time_out_agrees_with_what_comes_with_it() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(4, 1);
    let domain = replica.driver.domain().clone();
    let high_qc = replica.qc(3, 1, chain[3].id());
    let time_out = replica.time_out(1, 6, &high_qc);
    let tc = replica.tc(5, &high_qc);
    let message = |time_out: TimeOut, qc: &RawQc, tc: Option<&RawTc>, last_vote: Option<Vote>| {
        let (high_qc, high_tc) = (qc.build(), tc.map(RawTc::build));
        let last_vote = last_vote.map(Box::new);
        Message::TimeOut { time_out, high_qc, high_tc, last_vote }
    };
    let judge = |from, message| replica.judge(from, message);
    let voted = |voter, view, phase| Some(vote(&domain, voter, view, phase, chain[4].id()));
    assert_eq!(judge(1, message(time_out, &high_qc, Some(&tc), voted(1, 4, 1))), Verdict::Good);
    assert_eq!(judge(1, message(time_out, &high_qc, None, None)), Verdict::Good);

    assert_eq!(judge(2, message(time_out, &high_qc, None, None)), unread(Malformed::WrongSender));
    let contradictions = [
        // It says another view than its QC has.
        message(time_out, &replica.qc(2, 1, chain[2].id()), None, None),
        // A certificate of a later view than the one given up.
        message(replica.time_out(1, 2, &high_qc), &high_qc, None, None),
        // Another's vote, or one of a later view.
        message(time_out, &high_qc, None, voted(2, 4, 1)),
        message(time_out, &high_qc, None, voted(1, 7, 1)),
        // A TC of a view that the QC ends.
        message(time_out, &high_qc, Some(&replica.tc(3, &RawQc::genesis())), None),
    ];
    for contradiction in contradictions {
        assert_eq!(judge(1, contradiction), unread(Malformed::Contradiction));
    }
    for phase in [0, 2, 255] {
        let message = message(time_out, &high_qc, None, voted(1, 4, phase));
        assert_eq!(judge(1, message), unread(Malformed::WrongPhase));
    }
    let stranger = replica.time_out(9, 6, &high_qc);
    assert_eq!(judge(9, message(stranger, &high_qc, None, None)), unread(Malformed::UnknownSigner));
    let unsigned = TimeOut { signature: Signature::NONE, ..time_out };
    assert_eq!(judge(1, message(unsigned, &high_qc, None, None)), Verdict::BadSignature);
    let of_another_view = TimeOut { view: View(7), ..time_out };
    assert_eq!(judge(1, message(of_another_view, &high_qc, None, None)), Verdict::BadSignature);
    let two = RawQc::signed(&domain, (3, 1, chain[3].id()), &[0, 1]);
    assert_eq!(judge(1, message(time_out, &two, None, None)), unread(Malformed::NoQuorum));
    let two = RawTc { entries: tc.entries[..2].to_vec(), ..tc };
    assert_eq!(
        judge(1, message(time_out, &high_qc, Some(&two), None)),
        unread(Malformed::NoQuorum)
    );
}

/// Each of n time-outs has another TC of the view before, with q signatures. One is enough.
#[test]
fn a_tc_in_a_time_out_is_checked_only_where_it_is_news() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(4, 1);
    let high_qc = replica.qc(3, 1, chain[3].id());
    let forged = RawTc { view: 5, ..replica.tc(6, &high_qc) };
    let message = |replica: &Replica| Message::TimeOut {
        time_out: replica.time_out(1, 6, &high_qc),
        high_qc: high_qc.build(),
        high_tc: Some(forged.build()),
        last_vote: None,
    };
    assert_eq!(replica.judge(1, message(&replica)), Verdict::BadSignature);
    let (high_tc, decided) = (Some(replica.tc(5, &high_qc).build()), None);
    let high_qc = high_qc.build();
    replica.take(2, Message::Advance { high_qc, high_tc, decided, is_answer: false });
    assert_eq!(replica.driver.status().view, View(6));
    assert_eq!(replica.judge(1, message(&replica)), Verdict::Good);
}

/// A second vote makes no certificate, and is no last vote.
#[test]
fn the_last_vote_in_a_time_out_is_no_second_one() {
    let settings =
        Settings { second_vote: true, broadcast_votes: true, ..Settings::new(&TwoChain) };
    let replica = Replica::new(settings);
    let high_qc = RawQc::genesis();
    let message = |phase| Message::TimeOut {
        time_out: replica.time_out(1, 6, &high_qc),
        high_qc: high_qc.build(),
        high_tc: None,
        last_vote: Some(Box::new(vote(replica.driver.domain(), 1, 5, phase, CHAIN))),
    };
    assert_eq!(replica.judge(1, message(1)), Verdict::Good);
    assert_eq!(replica.judge(1, message(2)), unread(Malformed::WrongPhase));
}

#[test]
fn a_new_view_is_not_of_a_view_that_is_over_nor_below_its_qc() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(4, 1);
    assert_eq!(replica.driver.status().view, View(4));
    let qc = replica.qc(3, 1, chain[3].id());
    let judge = |view: u64, qc: &RawQc| {
        replica.judge(1, Message::NewView { view: View(view), high_qc: qc.build() })
    };
    assert_eq!(judge(4, &qc), Verdict::Good);
    assert_eq!(judge(400, &qc), Verdict::Good);
    assert_eq!(judge(3, &RawQc::genesis()), unread(Malformed::Stale));
    assert_eq!(judge(4, &replica.qc(4, 1, CHAIN)), unread(Malformed::Contradiction));
    assert_eq!(judge(4, &replica.qc(5, 1, CHAIN)), unread(Malformed::Contradiction));
    let forged = RawQc { block: CHAIN, ..qc };
    assert_eq!(judge(4, &forged), Verdict::BadSignature);
    assert_eq!(judge(4, &RawQc { phase: 0, ..forged }), unread(Malformed::WrongPhase));
}

#[test]
fn an_advance_has_a_tc_only_of_a_view_that_its_qc_does_not_end() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(4, 1);
    let qc = replica.qc(3, 1, chain[3].id());
    let judge = |qc: &RawQc, tc: Option<&RawTc>, decided: Option<&RawQc>| {
        let (high_tc, decided) = (tc.map(RawTc::build), decided.map(RawQc::build));
        replica
            .judge(1, Message::Advance { high_qc: qc.build(), high_tc, decided, is_answer: false })
    };
    assert_eq!(judge(&qc, None, None), Verdict::Good);
    assert_eq!(judge(&qc, Some(&replica.tc(4, &qc)), None), Verdict::Good);
    for view in [1, 2, 3] {
        let tc = replica.tc(view, &RawQc::genesis());
        assert_eq!(judge(&qc, Some(&tc), None), unread(Malformed::Contradiction));
    }
    let forged = RawQc { block: CHAIN, ..qc.clone() };
    assert_eq!(judge(&forged, None, None), Verdict::BadSignature);
    // Without second votes nothing is decided by them.
    for phase in [0, 1, 2] {
        let decided = replica.qc(3, phase, chain[3].id());
        assert_eq!(judge(&qc, None, Some(&decided)), unread(Malformed::WrongPhase));
    }
    assert_eq!(judge(&qc, None, Some(&RawQc::genesis())), unread(Malformed::WrongPhase));
}

/// Second votes commit their block where they are heard. Nobody shows them, and nothing is built
/// upon them.
#[test]
fn there_are_no_certificates_of_second_votes() {
    let settings =
        Settings { second_vote: true, broadcast_votes: true, ..Settings::new(&TwoChain) };
    let mut replica = Replica::new(settings);
    let chain = replica.chain(3, 1);
    let qc = replica.qc(3, 1, chain[3].id());
    let second = replica.qc(3, 2, chain[3].id());
    let advance = |qc: &RawQc, tc: Option<&RawTc>, decided: Option<&RawQc>| {
        let (high_tc, decided) = (tc.map(RawTc::build), decided.map(RawQc::build));
        replica
            .judge(1, Message::Advance { high_qc: qc.build(), high_tc, decided, is_answer: false })
    };
    let wrong = unread(Malformed::WrongPhase);
    for decided in [&second, &qc, &RawQc::genesis()] {
        assert_eq!(advance(&qc, None, Some(decided)), wrong);
    }
    assert_eq!(advance(&second, None, None), wrong);
    assert_eq!(advance(&qc, Some(&replica.tc(7, &second)), None), wrong);
    let on_it = block(4, &chain[3], second.build());
    assert_eq!(replica.judge(0, proposal(&on_it)), wrong);
    assert_eq!(replica.driver.claim_block(on_it).err(), Some(Malformed::WrongPhase));
    let time_out = Message::TimeOut {
        time_out: replica.time_out(1, 6, &second),
        high_qc: second.build(),
        high_tc: None,
        last_vote: None,
    };
    assert_eq!(replica.judge(1, time_out), wrong);
    let new_view = Message::NewView { view: View(9), high_qc: second.build() };
    assert_eq!(replica.judge(1, new_view), wrong);
}
