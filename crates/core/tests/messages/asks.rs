//! What the driver asks for, and the answers: late ones, wrong ones, and none at all.

use quorate_core::Digest;
use quorate_core::base::crypto::{Form, Scheme, Signature};
use quorate_core::protocols::hotstuff::certificate::Vote;
use quorate_core::protocols::hotstuff::rules::{Chained, TwoChain};
use quorate_core::protocols::hotstuff::{Message, Settings, Types};
use quorate_core::protocols::protocol::{Ballot, Event, Input, Output, Protocol};
use quorate_core::{Height, ReplicaId, View};

use crate::cluster::keys::Mock;
use crate::driven::{Replica, block, events, genesis_qc, messages, to_sign};
use crate::forge::{sign, vote};

const BLOCK: Digest = Digest([3; 32]);

/// The only thing that was asked for: its number, and what it is.
fn ask(outputs: &[Output<Types>]) -> (u64, &Output<Types>) {
    let number = |output: &_| match output {
        Output::Verify { ask, .. } | Output::Combine { ask, .. } => Some(*ask),
        _ => None,
    };
    let asks: Vec<_> = outputs.iter().filter_map(|o| Some((number(o)?, o))).collect();
    assert_eq!(asks.len(), 1, "{outputs:?}");
    asks[0]
}

fn verify(outputs: &[Output<Types>]) -> (u64, Vec<bool>) {
    match ask(outputs) {
        (number, Output::Verify { checks, .. }) => (number, Mock.verify(checks)),
        (_, other) => panic!("not to be verified: {other:?}"),
    }
}

fn combine(outputs: &[Output<Types>]) -> (u64, Option<Signature>) {
    match ask(outputs) {
        (number, Output::Combine { form, shares, .. }) => (number, Mock.combine(*form, shares)),
        (_, other) => panic!("not to be joined: {other:?}"),
    }
}

fn certified(outputs: &[Output<Types>]) -> bool {
    events(outputs).iter().any(|event| matches!(event, Event::Certified(_)))
}

/// Replica 0, which collects the votes of view 3 (it leads view 4), has votes of 1, 2 and 3.
fn collector(form: Form, bad: &[u16]) -> (Replica, Vec<Output<Types>>) {
    let time_outs = if form == Form::Threshold { Form::Aggregate } else { form };
    let forms = Settings { vote_form: form, time_out_form: time_outs, ..Settings::new(&Chained) };
    let mut replica = Replica::new(forms);
    let domain = replica.driver.domain().clone();
    let mut last = Vec::new();
    for voter in [1, 2, 3] {
        let good = vote(&domain, voter, 3, 1, BLOCK);
        let forged = Vote { signature: Signature::from([voter as u8; 64]), ..good };
        let vote = if bad.contains(&voter) { forged } else { good };
        last = replica.take(voter, Message::Vote(vote));
    }
    (replica, last)
}

#[test]
fn a_list_is_certified_when_its_votes_were_verified() {
    let (mut replica, outputs) = collector(Form::List, &[]);
    let (ask, verdicts) = verify(&outputs);
    assert!(!certified(&outputs));
    assert!(certified(&replica.tell(Input::Checked { ask, verdicts })));
    assert_eq!(replica.driver.high_qc().view(), View(3));
}

#[test]
fn joined_signatures_are_verified_as_one() {
    for form in [Form::Aggregate, Form::Threshold] {
        let (mut replica, outputs) = collector(form, &[]);
        let (ask, signature) = combine(&outputs);
        let outputs = replica.tell(Input::Combined { ask, signature });
        let (ask, verdicts) = verify(&outputs);
        assert_eq!(verdicts, [true]);
        assert!(!certified(&outputs));
        assert!(certified(&replica.tell(Input::Checked { ask, verdicts })));
        assert_eq!(replica.driver.high_qc().view(), View(3));
    }
}

/// The votes are looked at one by one; the bad one is dropped, and three are needed.
#[test]
fn a_joined_signature_that_does_not_hold_gives_its_forger_away() {
    let (mut replica, outputs) = collector(Form::Aggregate, &[2]);
    let (ask, signature) = combine(&outputs);
    let outputs = replica.tell(Input::Combined { ask, signature });
    let (ask, verdicts) = verify(&outputs);
    assert_eq!(verdicts, [false]);
    let outputs = replica.tell(Input::Checked { ask, verdicts });
    let (ask, verdicts) = verify(&outputs);
    assert_eq!(verdicts, [true, false, true]);
    let outputs = replica.tell(Input::Checked { ask, verdicts });
    let bad = Event::BadVote { voter: ReplicaId(2), view: View(3) };
    assert_eq!(events(&outputs), [&bad]);
    // Its forger is not listened to in that view any more.
    let again = vote(replica.driver.domain(), 2, 3, 1, BLOCK);
    assert!(replica.take(2, Message::Vote(again)).is_empty());
    assert_eq!(replica.driver.high_qc().view(), View(0));
}

#[test]
fn signatures_that_cannot_be_joined_are_looked_at_one_by_one() {
    let (mut replica, outputs) = collector(Form::Aggregate, &[1, 3]);
    let (ask, _) = combine(&outputs);
    let outputs = replica.tell(Input::Combined { ask, signature: None });
    let (ask, verdicts) = verify(&outputs);
    assert_eq!(verdicts, [false, true, false]);
    let outputs = replica.tell(Input::Checked { ask, verdicts });
    assert_eq!(events(&outputs).len(), 2);
    assert!(!certified(&outputs));
}

/// Verified one by one they need not be verified once more when they are joined.
#[test]
fn good_votes_that_could_not_be_joined_are_joined_again() {
    let (mut replica, outputs) = collector(Form::Aggregate, &[]);
    let (ask, signature) = combine(&outputs);
    let outputs = replica.tell(Input::Combined { ask, signature: None });
    let (ask, verdicts) = verify(&outputs);
    assert_eq!(verdicts, [true; 3]);
    let outputs = replica.tell(Input::Checked { ask, verdicts });
    let (ask, again) = combine(&outputs);
    assert_eq!(again, signature);
    assert!(certified(&replica.tell(Input::Combined { ask, signature })));
    assert_eq!(replica.driver.high_qc().view(), View(3));
}

#[test]
fn an_answer_without_verdicts_certifies_nothing() {
    let (mut replica, outputs) = collector(Form::Aggregate, &[]);
    let (ask, signature) = combine(&outputs);
    let outputs = replica.tell(Input::Combined { ask, signature });
    let (ask, _) = verify(&outputs);
    let outputs = replica.tell(Input::Checked { ask, verdicts: Vec::new() });
    assert!(!certified(&outputs));
    let (ask, verdicts) = verify(&outputs);
    assert_eq!(verdicts.len(), 3, "it asks again");
    let outputs = replica.tell(Input::Checked { ask, verdicts: Vec::new() });
    assert!(!certified(&outputs));
    assert_eq!(replica.driver.high_qc().view(), View(0));
}

#[test]
fn answers_to_nothing_or_to_something_else_are_dropped() {
    let (mut replica, outputs) = collector(Form::List, &[]);
    let (ask, _) = verify(&outputs);
    for other in [ask + 1, u64::MAX] {
        let verdicts = vec![true; 3];
        assert!(replica.tell(Input::Checked { ask: other, verdicts }).is_empty());
        let signature = Some(Signature::NONE);
        assert!(replica.tell(Input::Combined { ask: other, signature }).is_empty());
    }
    let signature = Some(Signature::NONE);
    assert!(replica.tell(Input::Combined { ask, signature }).is_empty());

    let (mut replica, outputs) = collector(Form::Aggregate, &[]);
    let (ask, _) = combine(&outputs);
    assert!(replica.tell(Input::Checked { ask, verdicts: vec![true; 3] }).is_empty());
    assert_eq!(replica.driver.high_qc().view(), View(0));
}

/// Before the answer came another replica's certificate did.
#[test]
fn a_certificate_that_came_meanwhile_makes_the_answer_late() {
    let (mut replica, outputs) = collector(Form::List, &[]);
    let (ask, verdicts) = verify(&outputs);
    let high_qc = replica.qc(3, 1, BLOCK).build();
    replica.take(2, Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false });
    let outputs = replica.tell(Input::Checked { ask, verdicts });
    assert!(!certified(&outputs), "{outputs:?}");
}

/// The signature of an earlier time-out comes after a later one was asked for.
#[test]
fn the_signature_of_a_time_out_that_is_no_longer_wanted_is_dropped() {
    let mut replica = Replica::running(&TwoChain);
    replica.around.has_pending = true;
    replica.tell(Input::Wake);
    replica.now = replica.driver.deadline().expect("there is work");
    let first = to_sign(&replica.tell(Input::Timeout));
    let high_qc = replica.qc(5, 1, BLOCK).build();
    replica.take(2, Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false });
    replica.now = replica.driver.deadline().expect("there is work");
    let second = to_sign(&replica.tell(Input::Timeout));
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);

    let signed = |statement| Input::Signed { statement, signature: sign(0, &statement) };
    assert!(messages(&replica.tell(signed(first[0]))).is_empty());
    let outputs = replica.tell(signed(second[0]));
    let said = messages(&outputs);
    assert!(matches!(said[..], [Message::TimeOut { time_out, .. }] if time_out.view == View(6)));
    // Nothing is waited for now.
    assert!(replica.tell(signed(first[0])).is_empty());
}

/// Blocks came faster than a snapshot of an earlier state.
#[test]
fn a_snapshot_at_or_below_the_committed_head_changes_nothing() {
    let mut replica = Replica::running(&Chained);
    let chain = replica.chain(5, 1);
    assert_eq!(replica.driver.status().committed, Height(2));
    let before = replica.driver.status();
    for height in [1, 2] {
        let root = chain[height].clone();
        let certificate = replica.qc(4, 1, chain[4].id()).build();
        let outputs =
            replica.tell(Input::Installed { root, recent: Vec::new(), evidence: certificate });
        assert!(outputs.is_empty(), "{outputs:?}");
    }
    assert_eq!(replica.driver.status(), before);
}

#[test]
fn votes_that_agree_on_nothing_ask_for_nothing() {
    let mut replica = Replica::running(&Chained);
    let domain = replica.driver.domain().clone();
    let first = block(1, &replica.chain(0, 1)[0], genesis_qc());
    for (voter, block) in [(1, BLOCK), (2, first.id()), (3, Digest([4; 32]))] {
        let vote = vote(&domain, voter, 3, 1, block);
        assert!(replica.take(voter, Message::Vote(vote)).is_empty());
        let ballot = Ballot { view: View(3), phase: 1, block };
        assert_eq!(vote.ballot, ballot);
    }
}

/// Where messages take longer than views, an answer is old when it comes. Answers to answers would
/// go on for ever, and with every lost or repeated message there would be more of them.
#[test]
fn what_answers_a_message_is_not_answered_itself() {
    let mut replica = Replica::running(&Chained);
    let high_qc = replica.qc(5, 1, BLOCK).build();
    let news = Message::Advance { high_qc, high_tc: None, decided: None, is_answer: false };
    replica.take(2, news);
    let old = |is_answer| {
        let high_qc = genesis_qc();
        Message::Advance { high_qc, high_tc: None, decided: None, is_answer }
    };
    let outputs = replica.take(1, old(false));
    let said = messages(&outputs);
    assert!(matches!(said[..], [Message::Advance { is_answer: true, .. }]), "{said:?}");
    assert!(messages(&replica.take(1, old(true))).is_empty());
}
