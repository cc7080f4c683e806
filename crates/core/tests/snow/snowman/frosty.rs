//! Frosty's fallback: an epoch from the complaint to the decision, what must be chosen in it, and
//! what a peer may say of it.

mod votes;

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::base::crypto::Signature;
use quorate_core::base::membership::{faults_of_a_fifth, quorum_of_a_fifth};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::protocols::checkpoint::{Checkpoint, Stable};
use quorate_core::protocols::protocol::{BlockOf, Input, Malformed, Output, Protocol as _};
use quorate_core::protocols::snow::random::Random;
use quorate_core::protocols::snow::snowman::frosty::choice::majority;
use quorate_core::protocols::snow::snowman::frosty::words::{
    Ballot, Certificate, Chain, Complaint, Decided, MAX_CHAIN, Odd, Proposal, REACH, Remembered,
    Report, Signed, SignedReport, Word,
};
use quorate_core::protocols::snow::snowman::words::{Memory, Place};
use quorate_core::protocols::snow::snowman::{Fallback, Message, Types, origin};
use quorate_core::{Digest, Duration, Height, ReplicaId};

use super::{Desk, child, committee, golden};

const ROUND: Duration = Duration::from_millis(500);
const PATIENCE: Fallback = Fallback { undecided: 3, round: ROUND };
/// Of six, one may lie: two complaints begin an epoch, and five votes end it.
const SIX: u8 = 6;

fn signature() -> Signature {
    Signature::from([9; 64])
}

fn signed(signers: impl IntoIterator<Item = u16>) -> Vec<Signed> {
    let one = |id| Signed { signer: ReplicaId(id), signature: signature() };
    signers.into_iter().map(one).collect()
}

fn certificate(epoch: u64, base: Place, signers: impl IntoIterator<Item = u16>) -> Certificate {
    Certificate { complaint: Complaint { epoch, base }, signatures: signed(signers) }
}

fn report(from: u16, (epoch, round): (u64, u32), base: Place, chain: &[Place]) -> SignedReport {
    let chain = chain.iter().map(|place| place.block).collect();
    let report = Report { epoch, round, base, chain };
    SignedReport { from: ReplicaId(from), report, signature: signature() }
}

fn proposal((epoch, round): (u64, u32), base: Place, chain: &[Place], of: &[&[Place]]) -> Proposal {
    let reports = (0..).zip(of).map(|(from, chain)| report(from, (epoch, round), base, chain));
    let place = *chain.last().unwrap_or(&base);
    let chain = chain.iter().map(|place| place.block).collect();
    Proposal { ballot: Ballot { epoch, round, place }, base, chain, reports: reports.collect() }
}

fn vote(round: u32, place: Place) -> Word {
    Word::Vote { ballot: Ballot { epoch: 1, round, place }, signature: signature() }
}

impl Desk {
    fn falling_back(size: u8, memory: Option<Memory>, blocks: Vec<BlockOf<Types>>) -> Self {
        Self::with(size, Some(PATIENCE), memory, blocks)
    }

    /// What replica 0 tells all of epochs, with whatever it wants signed.
    fn words(&mut self) -> Vec<Word> {
        let (mut words, mut open) = (Vec::new(), VecDeque::from(std::mem::take(&mut self.said)));
        while let Some(output) = open.pop_front() {
            match output {
                Output::Sign(statement) => {
                    self.step(Input::Signed { statement, signature: signature() });
                    open.extend(std::mem::take(&mut self.said));
                }
                Output::Broadcast(Message::Frosty(word)) => words.push(*word),
                _ => {}
            }
        }
        words
    }

    fn hear_word(&mut self, from: u16, word: Word) -> Result<Vec<Word>, Malformed> {
        self.hear(from, Message::Frosty(Box::new(word)))?;
        Ok(self.words())
    }

    fn hear_report(&mut self, signed: SignedReport) -> Result<Vec<Word>, Malformed> {
        let Report { epoch, base, .. } = signed.report;
        let certificate = certificate(epoch, base, [1, 2]);
        self.hear_word(signed.from.0, Word::Report { certificate, signed })
    }

    /// Two rivals on the genesis block; replica 0 prefers the first.
    fn split(size: u8) -> (Self, [BlockOf<Types>; 2], [Place; 3]) {
        let mut desk = Self::falling_back(size, None, Vec::new());
        let blocks = [1, 2].map(|proposer| child(&desk.genesis, proposer));
        for block in &blocks {
            desk.hear(block.proposer.0, Message::Push(Arc::clone(block))).unwrap();
        }
        let places = [&desk.genesis, &blocks[0], &blocks[1]].map(Place::of);
        (desk, blocks, places)
    }

    fn refusal(&self, from: u16, word: Word) -> Option<Malformed> {
        self.replica.claim(ReplicaId(from), Message::Frosty(Box::new(word))).err()
    }

    fn detail(&self, wanted: &str) -> u64 {
        let details = self.replica.status().details;
        details.iter().find(|(name, _)| *name == wanted).expect("a detail").1
    }

    fn kept(&self) -> Arc<Remembered> {
        let memory = self.memory.as_ref().expect("it is written");
        memory.frosty.clone().expect("it has epochs")
    }
}

/// In words: A and B are the rivals, and o is the genesis block.
fn line(word: &Word, [base, one, two]: &[Place; 3]) -> String {
    let name = |block: Digest| match block {
        _ if block == base.block => "o",
        _ if block == one.block => "A",
        _ if block == two.block => "B",
        _ => "?",
    };
    match word {
        Word::Complaint { complaint: Complaint { epoch, base }, .. } => {
            format!("complains of {} for {epoch}", name(base.block))
        }
        Word::Report { certificate, signed } => {
            let Report { epoch, round, base, chain } = &signed.report;
            let chain: Vec<&str> = chain.iter().map(|block| name(*block)).collect();
            let why = certificate.signatures.iter().map(|it| it.signer.0).collect::<Vec<_>>();
            format!(
                "reports {} above {} in {epoch}/{round} by {why:?}",
                chain.concat(),
                name(base.block)
            )
        }
        Word::Proposal(it) => {
            let Ballot { epoch, round, place } = it.ballot;
            format!("proposes {} in {epoch}/{round} by {}", name(place.block), it.reports.len())
        }
        Word::Vote { ballot: Ballot { epoch, round, place }, .. } => {
            format!("votes for {} in {epoch}/{round}", name(place.block))
        }
        Word::Decided(it) => format!("{} decided {}", it.ballot.epoch, name(it.ballot.place.block)),
    }
}

#[test]
fn an_epoch_from_the_complaint_to_the_decision() {
    let (mut desk, [one, _], places) = Desk::split(SIX);
    let [base, first, second] = places;
    let mut transcript = Vec::new();
    let mut note = |words: Vec<Word>| {
        transcript.extend(words.iter().map(|word| line(word, &places)));
    };
    for _ in 0..3 {
        desk.poll(None);
        note(desk.words());
    }
    // One complaint of a peer is enough with the own one.
    let complaint = Complaint { epoch: 1, base };
    note(desk.hear_word(4, Word::Complaint { complaint, signature: signature() }).unwrap());
    assert_eq!((desk.detail("fallback_epoch"), desk.detail("fallback_round")), (1, 1));
    // It polls no more, and answers as before, whatever comes.
    assert_eq!(desk.replica.deadline(), Some(desk.now.after(ROUND)));
    desk.hear(3, Message::Push(child(&one, 3))).unwrap();
    assert_eq!(desk.prefers(), first);
    for (from, chain) in [(1, first), (2, second), (3, second), (4, second)] {
        note(desk.hear_report(report(from, (1, 1), base, &[chain])).unwrap());
    }
    // Three of five stand by B. Replica 1 leads.
    let of: [&[Place]; 5] = [&[first], &[first], &[second], &[second], &[second]];
    let word = Word::Proposal(proposal((1, 1), base, &[second], &of));
    note(desk.hear_word(1, word).unwrap());
    assert_eq!(desk.kept().odd.as_ref().unwrap().vote.as_ref().unwrap().0, 1);
    for from in 1..4 {
        note(desk.hear_word(from, vote(1, second)).unwrap());
        assert_eq!(desk.committed.len(), 0);
    }
    // The same vote again does not count.
    note(desk.hear_word(3, vote(1, second)).unwrap());
    assert_eq!(desk.committed.len(), 0);
    note(desk.hear_word(5, vote(1, second)).unwrap());
    assert_eq!(desk.committed.iter().map(Place::of).collect::<Vec<_>>(), [second]);
    assert_eq!((desk.detail("fallback_epoch"), desk.detail("fallback_round")), (2, 0));
    assert_eq!(
        transcript,
        ["complains of o for 1", "reports A above o in 1/1 by [0, 4]", "votes for B in 1/1",]
    );
    // A straggler of that epoch is told what it decided, and it convinces anybody.
    desk.hear_report(report(4, (1, 2), base, &[first])).unwrap();
    let (mut other, ..) = Desk::split(SIX);
    let decided = desk.kept().decided.clone().expect("a decision");
    assert_eq!(decided.signatures.len(), 5);
    other.hear_word(4, Word::Decided(decided)).unwrap();
    assert_eq!(other.committed.iter().map(Place::of).collect::<Vec<_>>(), [second]);
}

/// In an odd epoch a stable checkpoint may make a replica accept another chain than it answers
/// with. It says to have accepted no more than both chains have.
#[test]
fn an_answer_claims_no_more_than_was_accepted_of_its_chain() {
    let (mut desk, [_, other], [base, first, second]) = Desk::split(SIX);
    (0..3).for_each(|_| desk.poll(None));
    let complaint = Complaint { epoch: 1, base };
    desk.words();
    desk.hear_word(4, Word::Complaint { complaint, signature: signature() }).unwrap();
    assert_eq!(desk.detail("fallback_epoch"), 1);
    let checkpoint = Checkpoint { height: Height(1), block: other.id(), root: Digest([3; 32]) };
    let signatures = [3, 4].map(|id| (ReplicaId(id), signature())).to_vec();
    desk.hear(4, Message::Stable(Box::new(Stable { checkpoint, signatures }))).unwrap();
    assert_eq!(desk.committed.iter().map(Place::of).collect::<Vec<_>>(), [second]);
    assert_eq!(desk.answered(), (first, base.height));
}

/// The straggler's report is answered with the decision, though not without end.
#[test]
fn whoever_speaks_of_an_epoch_that_is_over_is_told_of_its_decision() {
    let (mut desk, _, [base, first, _]) = Desk::split(SIX);
    let ballot = Ballot { epoch: 1, round: 1, place: first };
    let decided = Decided { ballot, signatures: signed(1..6) };
    desk.hear_word(5, Word::Decided(decided.clone())).unwrap();
    let told = |desk: &mut Desk, word: Word| {
        let claim = desk.replica.claim(ReplicaId(4), Message::Frosty(Box::new(word))).unwrap();
        let verdicts = vec![true; claim.checks().len()];
        let message = claim.settle(&verdicts).unwrap();
        desk.step(Input::Message { from: ReplicaId(4), message });
        desk.said.iter().any(|output| {
            matches!(output, Output::Send { to: ReplicaId(4), message: Message::Frosty(word) }
                if **word == Word::Decided(decided.clone()))
        })
    };
    let late = Word::Report {
        certificate: certificate(1, base, [1, 2]),
        signed: report(4, (1, 1), base, &[first]),
    };
    let complaint = Complaint { epoch: 1, base };
    assert!(told(&mut desk, late.clone()));
    assert!(!told(&mut desk, late.clone()));
    desk.now = desk.now.after(Duration::from_millis(20));
    assert!(told(&mut desk, Word::Complaint { complaint, signature: signature() }));
}

/// The heart of the argument, for the least favourable reports: a − f correct replicas stand by a
/// block, as many of them as may be are missing, and all others stand by one other block.
#[test]
fn what_may_be_final_is_chosen_whatever_reports_are_missing() {
    let (block, other) = (Digest([1; 32]), Digest([2; 32]));
    let base = Place { height: Height(7), block: Digest([7; 32]) };
    for n in 1..=64 {
        let (f, a) = (faults_of_a_fifth(n), quorum_of_a_fifth(n));
        for size in a..=n {
            let stand = a - f - (n - size);
            let reports: Vec<SignedReport> = (0..size)
                .map(|from| {
                    let block = if from < stand { block } else { other };
                    report(from as u16, (1, 1), base, &[Place { height: Height(8), block }])
                })
                .collect();
            assert_eq!(majority(&committee(n as u8), &reports), [block], "{n} {size}");
        }
    }
}

/// Round after round, with liars that report what they like, and an adversary that chooses whose
/// reports are in a proposal, who votes, and what is proposed where there is no majority: nothing
/// leads away from a block that a − f correct replicas stood by in the beginning.
#[test]
fn no_round_leads_away_from_what_may_be_final() {
    let [last, upper, other, rest] = [1, 2, 3, 4].map(|byte| Digest([byte; 32]));
    let base = Place { height: Height(7), block: Digest([7; 32]) };
    let mut random = Random::new(5);
    for case in 0..4_000_usize {
        let n = 1 + case % 26;
        let (f, a) = (faults_of_a_fifth(n), quorum_of_a_fifth(n));
        let against = |random: &mut Random| match random.below(3) {
            0 => vec![other],
            1 => vec![other, rest],
            _ => vec![rest],
        };
        // The first f lie; a − f of the correct ones stand by the block, or one above it.
        let mut stands: Vec<Vec<Digest>> = (0..n)
            .map(|id| match (id < f, id < a, random.below(2)) {
                (false, true, 0) => vec![last],
                (false, true, _) => vec![last, upper],
                _ => against(&mut random),
            })
            .collect();
        for round in 1..8 {
            // As many as may be are missing, and of those that stand by it.
            let missing = random.below((n - a) as u64 + 1) as usize;
            let from = f + random.below((a - f) as u64 + 1) as usize;
            let is_missing = |id: &usize| (from..from + missing).contains(id);
            let mut reports = Vec::new();
            for id in (0..n).filter(|id| !is_missing(id)) {
                let chain = if id < f { against(&mut random) } else { stands[id].clone() };
                let report = Report { epoch: 1, round, base, chain };
                let (from, signature) = (ReplicaId(id as u16), signature());
                reports.push(SignedReport { from, report, signature });
            }
            let most = majority(&committee(n as u8), &reports);
            let proposed = if most.is_empty() { vec![other] } else { most };
            assert_eq!(proposed.first(), Some(&last), "case {case}, round {round} of {n}");
            for stand in &mut stands[f..] {
                if random.below(2) == 0 && !stand.starts_with(&proposed) {
                    stand.clone_from(&proposed);
                }
            }
        }
    }
}

/// The leader of a round proposes what most stand by, even if it prefers another block; and the
/// whole chain of it.
#[test]
fn a_leader_proposes_the_chain_that_most_stand_by() {
    for (third, expected) in [(true, "proposes B in 1/4 by 3"), (false, "proposes A in 1/4 by 3")] {
        // Of four nobody may lie: one complaint begins an epoch, and three votes end it.
        let (mut desk, _, places) = Desk::split(4);
        let [base, first, second] = places;
        let mine = if third { second } else { first };
        let mut said = Vec::new();
        for (from, chain) in [(1, vec![second]), (2, vec![mine])] {
            said.extend(desk.hear_report(report(from, (1, 4), base, &chain)).unwrap());
        }
        let said: Vec<String> = said.iter().map(|word| line(word, &places)).collect();
        let vote = expected.replace("proposes", "votes for").replace(" by 3", "");
        assert_eq!(said[0], "reports A above o in 1/1 by [1, 2]");
        assert!(said.contains(&expected.to_owned()) && said.contains(&vote), "{said:?}");
    }
}

/// Where no block has most reports, and the leader's own block is unknown to others: any one block
/// on the base will do.
#[test]
fn without_a_majority_a_leader_proposes_a_block_that_it_has() {
    let (mut desk, _, places) = Desk::split(4);
    let [base, _, second] = places;
    let far = Place { height: Height(1), block: Digest([0; 32]) };
    let mut said = desk.hear_report(report(1, (1, 4), base, &[far])).unwrap();
    said.extend(desk.hear_report(report(2, (1, 4), base, &[second])).unwrap());
    let said: Vec<String> = said.iter().map(|word| line(word, &places)).collect();
    let is_one = |name| said.contains(&format!("proposes {name} in 1/4 by 3"));
    assert!(is_one("A") || is_one("B"), "{said:?}");
}

/// A restart and a later epoch forget neither what was voted for nor what was answered.
#[test]
fn votes_outlive_restarts_and_epochs() {
    let (mut desk, blocks, places) = Desk::split(SIX);
    let [base, first, second] = places;
    desk.hear_report(report(1, (1, 1), base, &[second])).unwrap();
    assert_eq!(desk.detail("fallback_epoch"), 1);
    let of: [&[Place]; 5] = [&[first], &[second], &[second], &[second], &[first]];
    desk.hear_word(1, Word::Proposal(proposal((1, 1), base, &[second], &of))).unwrap();
    let memory = desk.memory.clone().unwrap();
    let mut again = Desk::falling_back(SIX, Some(memory), blocks.to_vec());
    let said: Vec<String> = again.words().iter().map(|word| line(word, &places)).collect();
    assert_eq!(said, ["reports B above o in 1/2 by [1, 2]"], "a round of its own, with the vote");
    assert_eq!(again.prefers(), first, "answers are those of the report that it entered with");
    // It may be the decision: a replica that hears of a later epoch first stands by it.
    let said = again.hear_report(report(3, (3, 1), base, &[first])).unwrap();
    let said: Vec<String> = said.iter().map(|word| line(word, &places)).collect();
    assert_eq!(said, ["reports B above o in 3/1 by [1, 2]"]);
    assert_eq!(again.prefers(), second);
}

/// Rounds end, each later; and f + 1 in a later round take a replica along.
#[test]
fn rounds_take_twice_as_long_each_and_a_replica_follows_two_others() {
    let (mut desk, _, [base, first, _]) = Desk::split(SIX);
    desk.hear_report(report(1, (1, 1), base, &[first])).unwrap();
    for round in 1..=9 {
        assert_eq!(desk.detail("fallback_round"), round);
        let ends = desk.replica.deadline().expect("a round ends");
        assert_eq!(ends.since(desk.now), ROUND * (1 << (round - 1).min(6)), "{round}");
        for from in 1..5 {
            desk.hear_report(report(from, (1, round as u32), base, &[first])).unwrap();
        }
        desk.now = ends;
        desk.step(Input::Timeout);
        desk.words();
    }
    // Alone in its round it waits, and says its report again.
    for waits in 10..12 {
        desk.now = desk.replica.deadline().expect("a round ends");
        desk.step(Input::Timeout);
        assert!(matches!(desk.words()[..], [Word::Report { .. }]), "{waits}");
        assert_eq!(desk.detail("fallback_round"), 10);
    }
    desk.hear_report(report(1, (1, 40), base, &[first])).unwrap();
    assert_eq!(desk.detail("fallback_round"), 10, "one may lie");
    desk.hear_report(report(2, (1, 20), base, &[first])).unwrap();
    assert_eq!(desk.detail("fallback_round"), 20);
}

/// A liar complains of whatever it likes: it has one place, and begins nothing.
#[test]
fn one_liar_begins_no_epoch() {
    let (mut desk, _, [base, ..]) = Desk::split(SIX);
    for epoch in (1..400).step_by(2) {
        let complaint = Complaint { epoch, base };
        desk.hear_word(5, Word::Complaint { complaint, signature: signature() }).unwrap();
    }
    assert_eq!(desk.detail("fallback_epoch"), 0);
    // Two that complain of different blocks, or for different epochs, neither.
    let elsewhere = Place { height: Height(0), block: Digest([3; 32]) };
    for complaint in [Complaint { epoch: 399, base: elsewhere }, Complaint { epoch: 1, base }] {
        desk.hear_word(4, Word::Complaint { complaint, signature: signature() }).unwrap();
        assert_eq!(desk.detail("fallback_epoch"), 0);
    }
}

#[test]
fn what_does_not_hold_is_refused_by_name() {
    let (desk, _, [base, first, _]) = Desk::split(SIX);
    let complaint =
        |epoch| Word::Complaint { complaint: Complaint { epoch, base }, signature: signature() };
    let reported = |certificate, signed| Word::Report { certificate, signed };
    let of_one = report(1, (1, 1), base, &[first]);
    let by = |signers: &[u16]| certificate(1, base, signers.iter().copied());
    let decided = |epoch, signers: &[u16]| {
        let ballot = Ballot { epoch, round: 1, place: first };
        Word::Decided(Decided { ballot, signatures: signed(signers.iter().copied()) })
    };
    let far = Place { height: Height(129), block: Digest([4; 32]) };
    for (from, word, reason) in [
        (1, complaint(2), Malformed::WrongPhase),
        (2, reported(by(&[1, 2]), of_one.clone()), Malformed::WrongSender),
        (1, reported(by(&[1]), of_one.clone()), Malformed::NoQuorum),
        (1, reported(by(&[1, 1]), of_one.clone()), Malformed::UnorderedSigners),
        (1, reported(by(&[1, 6]), of_one.clone()), Malformed::UnknownSigner),
        (1, reported(certificate(3, base, [1, 2]), of_one.clone()), Malformed::Contradiction),
        (1, reported(by(&[1, 2]), report(1, (1, 0), base, &[])), Malformed::Contradiction),
        (1, reported(certificate(1, far, [1, 2]), report(1, (1, 1), far, &[])), Malformed::Stale),
        (1, vote(1, first), Malformed::WrongEpoch),
        (1, decided(2, &[0, 1, 2, 3, 4]), Malformed::WrongPhase),
        (1, decided(1, &[0, 1, 2, 3]), Malformed::NoQuorum),
    ] {
        assert_eq!(desk.refusal(from, word.clone()), Some(reason), "{word:?}");
    }
    // Without the fallback anything is.
    assert_eq!(Desk::new(SIX).refusal(1, complaint(1)), Some(Malformed::WrongPhase));
}

#[test]
fn a_proposal_that_its_reports_do_not_allow_is_refused() {
    let (mut desk, _, [base, first, second]) = Desk::split(SIX);
    let mine: &[Place] = &[first];
    let theirs: &[Place] = &[second];
    let good = proposal((1, 1), base, theirs, &[mine, theirs, theirs, theirs, mine]);
    assert_eq!(desk.refusal(1, Word::Proposal(good.clone())), Some(Malformed::WrongEpoch));
    desk.hear_report(report(1, (1, 1), base, mine)).unwrap();
    let third = Place { height: Height(1), block: Digest([5; 32]) };
    let upper = Place { height: Height(2), block: Digest([6; 32]) };
    let nothing: &[Place] = &[];
    let even = [mine, mine, theirs, theirs, nothing];
    for (from, proposal, reason) in [
        (2, good.clone(), Some(Malformed::WrongSender)),
        (1, good.clone(), None),
        // What most stand by is left out, or goes on.
        (
            1,
            proposal((1, 1), base, mine, &[mine, theirs, theirs, theirs, mine]),
            Some(Malformed::Contradiction),
        ),
        (
            1,
            proposal((1, 1), base, &[], &[mine, theirs, theirs, theirs, mine]),
            Some(Malformed::Contradiction),
        ),
        (
            1,
            proposal((1, 1), base, &[second, upper], &[mine, theirs, theirs, theirs, mine]),
            Some(Malformed::Contradiction),
        ),
        // Nothing has most: one block.
        (1, proposal((1, 1), base, mine, &even), None),
        (1, proposal((1, 1), base, &[third], &even), None),
        (1, proposal((1, 1), base, &[third, upper], &even), Some(Malformed::Contradiction)),
        (1, proposal((1, 1), base, &[], &even), Some(Malformed::Contradiction)),
        (1, proposal((1, 1), base, &[], &[nothing; 5]), None),
        (1, proposal((1, 1), base, theirs, &[theirs; 4]), Some(Malformed::NoQuorum)),
        (1, Proposal { base: first, ..good.clone() }, Some(Malformed::Contradiction)),
        (
            1,
            Proposal { ballot: Ballot { place: first, ..good.ballot }, ..good.clone() },
            Some(Malformed::Contradiction),
        ),
    ] {
        assert_eq!(desk.refusal(from, Word::Proposal(proposal.clone())), reason, "{proposal:?}");
    }
    // A round that is over.
    for from in 2..6 {
        desk.hear_report(report(from, (1, 1), base, &[])).unwrap();
    }
    desk.now = desk.replica.deadline().unwrap();
    desk.step(Input::Timeout);
    assert_eq!(desk.refusal(1, Word::Proposal(good)), Some(Malformed::Stale));
}

/// The wire format and what is on disk: another value is a new version of the format.
#[test]
fn encodings_are_golden() {
    let place = |height| Place { height: Height(height), block: Digest([height as u8; 32]) };
    let (base, tip) = (place(3), place(5));
    let ballot = Ballot { epoch: 1, round: 2, place: tip };
    let decided = Decided { ballot, signatures: signed([0, 1, 2, 4]) };
    let chain = [place(4), tip];
    let words = [
        Word::Complaint { complaint: Complaint { epoch: 1, base }, signature: signature() },
        Word::Report {
            certificate: certificate(1, base, [0, 3]),
            signed: report(3, (1, 2), base, &chain),
        },
        Word::Proposal(proposal((1, 2), base, &chain, &[&chain, &[], &chain[..1]])),
        vote(2, tip),
        Word::Decided(decided.clone()),
    ];
    let mut found = Vec::new();
    for word in words {
        let message = Message::Frosty(Box::new(word));
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(bytes.clone().into()).unwrap(), message);
        for cut in 0..bytes.len() {
            assert!(Message::from_bytes(bytes[..cut].to_vec().into()).is_err(), "{cut}");
        }
        found.push(golden(&bytes));
    }
    let ids = vec![Digest([8; 32]); 3];
    let odd = Odd {
        certificate: certificate(3, base, [0, 3]),
        round: 4,
        stand: Chain { first: Height(3), ids: ids.clone() },
        vote: Some((3, Chain { first: Height(4), ids })),
    };
    let kept = Remembered { decided: Some(decided), over: 1, odd: Some(odd) };
    let frosty = Some(Arc::new(kept));
    let memory = Memory { accepted: base, preferred: tip.block, stable: None, frosty };
    assert_eq!(Memory::from_bytes(memory.to_bytes().into()).unwrap(), memory);
    found.push(golden(&memory.to_bytes()));
    assert_eq!(found, GOLDEN);
}

const GOLDEN: [&str; 6] = [
    // Complaint
    "ee9f6b93a25a80fc",
    // Report
    "b421c338ae73438f",
    // Proposal
    "251556143e73fae0",
    // Vote
    "1f62baee86e7d62e",
    // Decided
    "c5a638a8276492dc",
    // Memory in an odd epoch
    "1b604bca4d305596",
];

/// What a replica keeps fits the room that its log has for it.
#[test]
fn the_largest_memory_fits_its_room() {
    for n in [1, 4, 81, 255] {
        let committee = committee(n);
        let place = Place { height: Height(9), block: Digest([9; 32]) };
        let ids = vec![Digest([8; 32]); MAX_CHAIN];
        let all = || 0..u16::from(n);
        let odd = Odd {
            certificate: certificate(3, place, all()),
            round: 4,
            stand: Chain { first: Height(3), ids: ids.clone() },
            vote: Some((3, Chain { first: Height(4), ids })),
        };
        let ballot = Ballot { epoch: 1, round: 2, place };
        let decided = Some(Decided { ballot, signatures: signed(all()) });
        let frosty = Some(Arc::new(Remembered { decided, over: 1, odd: Some(odd) }));
        let memory = Memory { accepted: place, preferred: place.block, stable: None, frosty };
        let room = origin(&committee, Some(PATIENCE)).memory_bytes;
        let stable = origin(&committee, None).memory_bytes - (8 + 32 + 32 + 1);
        assert_eq!(memory.to_bytes().len() + stable, room, "{n}");
    }
    const { assert!(REACH < MAX_CHAIN) };
}
