//! Members that change and sign with a threshold key: they generate a fresh one for each epoch, by
//! steps that the ledger orders, and everything is verified by the key of its epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::base::crypto::{
    Check, ClientSigner as _, Form, Kind, PublicKey, Scheme as _, Share, ShareKeys, Signature,
    Signer as _, Statement,
};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules};
use quorate_core::base::types::View;
use quorate_core::ledger::change::{Change, NextShares, SignedChange};
use quorate_core::ledger::frame::Frame;
use quorate_core::ledger::generation::{Dealer, Generations, Plan, Standing, Step};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, Sequence, SessionId};
use quorate_crypto::bls::threshold::{self, generation};
use quorate_crypto::{ConsensusKey, MembersScheme, SecretKey};

const CHAIN: Digest = Digest([7; 32]);
const RULES: Rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };

fn own_key(id: u16) -> SecretKey {
    SecretKey::from_seed(&[id as u8 + 1; 32])
}

/// A member's key for one plan alone.
fn decryption_key(id: u16, epoch: u64, serial: u64) -> generation::DecryptionKey {
    let mut seed = [id as u8 + 1 + 16 * (epoch as u8 + 1); 32];
    seed[0] = serial as u8;
    generation::DecryptionKey::from_seed(&seed)
}

fn administrator() -> SecretKey {
    SecretKey::from_seed(&[200; 32])
}

fn governance() -> Governance {
    Governance { administrators: vec![administrator().public_key()], approvals: 1 }
}

/// Members by id, each with its weight.
fn members(weights: &[(u16, u16)]) -> Vec<Option<Member>> {
    let last = weights.iter().map(|(id, _)| *id).max().unwrap_or_default();
    let mut members = vec![None; usize::from(last) + 1];
    for (id, weight) in weights {
        let key = ReplicaKey::from(own_key(*id).public_key().0);
        members[usize::from(*id)] = Some(Member { weight: *weight, ..Member::new(key) });
    }
    members
}

/// A cluster, as all its members know it, with their shares of the key in use.
struct Cluster {
    scheme: MembersScheme,
    committee: Committee,
    generations: Generations,
    height: Height,
    shares: BTreeMap<ReplicaId, ConsensusKey>,
}

/// What came of a generation: the keys, and each member's share.
struct Generated {
    keys: ShareKeys,
    shares: BTreeMap<ReplicaId, ConsensusKey>,
}

impl Cluster {
    /// Four members that count and two that learn, with a gap among their ids.
    fn new() -> Self {
        let ids = [0, 1, 3, 4].map(ReplicaId);
        let dealt = threshold::deal(4, 3).unwrap();
        let publics = dealt.shares.iter().map(threshold_key);
        let keys = ShareKeys::new(3, ids.into_iter().zip(publics).collect()).unwrap();
        let members = members(&[(0, 1), (1, 1), (3, 1), (4, 1), (5, 0), (6, 0)]);
        let opening = Opening { after: CHAIN, height: Height(0) };
        let first = Committee::with_members(CHAIN, Epoch(0), opening, members, governance());
        let committee = first.unwrap().under(RULES).with_shares(keys).unwrap();
        let shares = dealt.shares.into_iter().map(ConsensusKey::dealt);
        let shares = ids.into_iter().zip(shares).collect();
        let (scheme, generations) = (MembersScheme::default(), Generations::default());
        Self { scheme, committee, generations, height: Height(1), shares }
    }

    fn change(&self, weights: &[(u16, u16)]) -> Change {
        let (ends, governance) = (self.committee.epoch(), governance());
        Change { ends, members: members(weights), governance, rules: RULES }
    }

    fn plan(&self, change: &Change) -> Plan {
        let ends = change.ends;
        let voters = change.members.iter().enumerate();
        let voters = voters.filter(|(_, it)| it.as_ref().is_some_and(|it| !it.is_learner()));
        let dealers = voters.map(|(id, _)| {
            let (id, key) = (ReplicaId(id as u16), own_key(id as u16).public_key());
            let serial = self.generations.next_serial();
            let encryption = decryption_key(id.0, ends.0, serial).public_key().to_bytes();
            Dealer { id, key, encryption }
        });
        let (serial, change) = (self.generations.next_serial(), change.digest());
        Plan { ends, serial, change, open_blocks: 1000, dealers: dealers.collect() }
    }

    /// Whether a quorum votes for a block with this command: all that it rests on holds.
    fn is_voted_for(&self, command: &[u8]) -> bool {
        let client = administrator();
        let sign = |statement: &Statement| client.sign(statement);
        let (session, first) = (SessionId(1), Sequence(1));
        let commands = std::iter::once(command);
        let frame = Frame::build(client.public_key(), session, first, commands, &CHAIN, sign);
        let frame = Arc::new(frame.expect("it fits"));
        let claim = frame.claim_with_approvals(&CHAIN, self.committee.rules());
        assert!(claim.checks().len() > 1, "it rests on the client's signature alone");
        self.scheme.verify(claim.checks()).iter().all(|holds| *holds)
    }

    /// Orders a step.
    fn order(&mut self, step: &Step) -> Result<u64, String> {
        if !self.is_voted_for(&step.to_command()) {
            return Err("nobody votes for it".to_owned());
        }
        self.height = self.height.next();
        let after = self.generations.after(step, &self.committee, self.height);
        let (after, told) = after.map_err(|refusal| refusal.to_string())?;
        self.generations = after;
        Ok(told)
    }

    fn begin(&mut self, plan: &Plan) {
        let client = administrator();
        let approvals = vec![(client.public_key(), client.sign(&plan.approval(&CHAIN)))];
        let proofs = proofs_of(plan);
        let step = Step::Begin { plan: plan.clone(), proofs, approvals };
        assert_eq!(self.order(&step), Ok(plan.serial));
    }

    /// What a dealer deals; what is for `victims` does not fit.
    fn deal(plan: &Plan, id: ReplicaId, victims: &[usize]) -> Step {
        let at = plan.place(id).unwrap();
        let seed = [id.0 as u8 + 100 + 20 * plan.serial as u8; 32];
        let dealing = round(plan).deal_wrongly(at, &seed, victims).unwrap();
        let signature = own_key(id.0).sign(&plan.dealing(&CHAIN, id, &dealing));
        Step::Deal { plan: plan.clone(), dealer: id, dealing: dealing.into(), signature }
    }

    /// The change with the key that came of a generation, for which all members are ready.
    fn signed(&self, change: Change, generated: &Generated) -> SignedChange {
        let client = administrator();
        let approvals = vec![(client.public_key(), client.sign(&change.approval(&CHAIN)))];
        let generation = self.generations.current().unwrap().digest();
        let (keys, possessions) = (generated.keys.clone(), Vec::new());
        let shares = Some(Box::new(NextShares { generation, keys, possessions }));
        let mut signed = SignedChange { change, approvals, ready: Vec::new(), shares };
        let readiness = signed.readiness(&CHAIN);
        let sign = |(id, share): (&ReplicaId, &ConsensusKey)| {
            let possession = signed.possession(&CHAIN, *id).unwrap();
            ((*id, own_key(id.0).sign(&readiness)), (*id, share.sign(&possession)))
        };
        let (ready, possessions) = generated.shares.iter().map(sign).unzip();
        signed.ready = ready;
        signed.shares.as_mut().unwrap().possessions = possessions;
        signed
    }

    /// Executes a change. Whoever has it executes it alike.
    fn seal(&mut self, signed: &SignedChange) -> Result<(), String> {
        if !self.is_voted_for(&signed.to_command()) {
            return Err("nobody votes for it".to_owned());
        }
        let after = Digest::of("test block", &self.height.0.to_le_bytes());
        let opening = Opening { after, height: self.height.next() };
        let next = signed.judge(&self.committee, opening).map_err(|it| it.to_string())?;
        let shares = signed.shares.as_ref().unwrap();
        let allowed = self.generations.allow(signed, shares, &next, self.height);
        allowed.map_err(|refusal| refusal.to_string())?;
        (self.committee, self.generations) = (next, Generations::default());
        Ok(())
    }

    /// The next epoch: these members generate a key for it, and go over to it.
    fn hand_over(&mut self, weights: &[(u16, u16)]) {
        let change = self.change(weights);
        let plan = self.plan(&change);
        self.begin(&plan);
        let steps: Vec<_> = plan.dealers.iter().map(|it| Self::deal(&plan, it.id, &[])).collect();
        for step in &steps {
            self.order(step).unwrap();
        }
        let generated = self.generated(&plan, &steps);
        let signed = self.signed(change, &generated);
        self.seal(&signed).unwrap();
        self.shares = generated.shares;
    }

    /// What each member comes to by what was ordered, with its own keys.
    fn generated(&self, plan: &Plan, steps: &[Step]) -> Generated {
        let mut taken = generation::Generation::new(round(plan));
        for step in steps {
            match step {
                Step::Deal { dealer, dealing, .. } => {
                    assert!(taken.take_dealing(plan.place(*dealer).unwrap(), dealing).unwrap());
                }
                Step::Complain { dealer, recipient, evidence, .. } => {
                    let places = [dealer, recipient].map(|id| plan.place(*id).unwrap());
                    let [dealer, recipient] = places;
                    let complaint =
                        generation::Complaint { dealer, recipient, evidence: *evidence };
                    taken.take_complaint(&complaint).unwrap();
                }
                Step::Begin { .. } => {}
            }
        }
        let outcome = taken.outcome().unwrap();
        let ids = || plan.dealers.iter().map(|dealer| dealer.id);
        let keys = ShareKeys::new(plan.quorum(), ids().zip(outcome.members).collect()).unwrap();
        let share = |(at, id): (usize, ReplicaId)| {
            let share = taken.share(at, &decryption_key(id.0, plan.ends.0, plan.serial)).unwrap();
            (id, ConsensusKey::dealt(share))
        };
        Generated { keys, shares: ids().enumerate().map(share).collect() }
    }

    /// A vote of the current epoch.
    fn vote(&self) -> Statement {
        let block = Digest::of("test block", b"voted for");
        Statement::new(&CHAIN, self.committee.epoch(), 1, Kind::Vote, View(4), 1, &block)
    }

    fn holds(&self, check: Check) -> bool {
        self.scheme.verify(&[self.committee.by_key(check)]) == [true]
    }
}

/// Of all members, that they have the secret halves of their encryption keys.
fn proofs_of(plan: &Plan) -> Vec<[u8; 64]> {
    let prove = |dealer: &Dealer| {
        let context = dealer.possession(&CHAIN, plan.ends, plan.serial);
        decryption_key(dealer.id.0, plan.ends.0, plan.serial).prove(&context.0)
    };
    plan.dealers.iter().map(prove).collect()
}

fn threshold_key(share: &quorate_crypto::bls::SecretKey) -> [u8; 96] {
    share.public_key()
}

fn round(plan: &Plan) -> generation::Round {
    let round = plan.round(&CHAIN);
    generation::Round::new(round.context.0, &round.keys, round.quorum).unwrap()
}

/// The shares of a statement, of these members.
fn signed_by(shares: &BTreeMap<ReplicaId, ConsensusKey>, statement: Statement) -> Vec<Share> {
    let sign = |(id, share): (&ReplicaId, &ConsensusKey)| Share {
        signer: *id,
        statement,
        signature: share.sign(&statement),
    };
    shares.iter().map(sign).collect()
}

#[test]
fn each_epoch_signs_with_a_key_of_its_own_and_no_share_of_another_counts() {
    let mut cluster = Cluster::new();
    let changes: [&[(u16, u16)]; 3] = [
        // One that learnt counts, and another two leave.
        &[(0, 1), (1, 1), (3, 1), (4, 1), (5, 1), (6, 0)],
        &[(1, 1), (4, 1), (5, 1), (6, 1)],
        // The same members, with a fresh key.
        &[(1, 1), (4, 1), (5, 1), (6, 1)],
    ];
    for weights in changes {
        let (before, former) = (cluster.committee.clone(), std::mem::take(&mut cluster.shares));
        cluster.hand_over(weights);
        let keys = Arc::clone(cluster.committee.shares().unwrap());
        assert_ne!(Some(&keys), before.shares());
        let statement = cluster.vote();
        // Votes, a certificate of them, and a sum of time-outs, all by the shares of the epoch.
        let votes = signed_by(&cluster.shares, statement);
        assert!(votes.iter().all(|vote| cluster.holds(Check::Replica(*vote))));
        let quorum = &votes[..keys.quorum()];
        let signature = cluster.scheme.combine_by(&keys, Form::Threshold, quorum).unwrap();
        let certificate = Check::Threshold { statement, signature };
        assert!(cluster.holds(certificate.clone()));
        let fewer = cluster.scheme.combine_by(&keys, Form::Threshold, &quorum[1..]);
        assert_eq!(fewer, None);
        let signers = quorum.iter().map(|vote| vote.signer).collect();
        let signature = cluster.scheme.combine_by(&keys, Form::Aggregate, quorum).unwrap();
        let parts = Arc::new([(statement, signers)]);
        assert!(cluster.holds(Check::Aggregate { parts, signature }));
        // Whoever knows the epoch before alone cannot check them.
        assert_eq!(before.by_key(certificate.clone()), certificate);
        assert_eq!(cluster.scheme.verify(&[certificate]), [false]);
        // A quorum of the members before, with their former shares, signs nothing of this epoch.
        let stolen = signed_by(&former, statement);
        assert!(!stolen.iter().any(|vote| cluster.holds(Check::Replica(*vote))));
        let old = before.shares().unwrap();
        let forged = cluster.scheme.combine_by(old, Form::Threshold, &stolen).unwrap();
        assert!(!cluster.holds(Check::Threshold { statement, signature: forged }));
    }
    assert_eq!(cluster.committee.epoch(), Epoch(3));
}

#[test]
fn a_dealer_of_a_share_that_does_not_fit_is_shown_to_all_and_the_others_make_the_key() {
    let mut cluster = Cluster::new();
    let change = cluster.change(&[(0, 1), (1, 1), (3, 1), (4, 1), (5, 1), (6, 0)]);
    let plan = cluster.plan(&change);
    cluster.begin(&plan);
    let (liar, victim) = (ReplicaId(3), ReplicaId(5));
    let at = |id| plan.place(id).unwrap();
    let mut steps = Vec::new();
    for dealer in &plan.dealers {
        let victims = [at(victim)];
        let victims = if dealer.id == liar { &victims[..] } else { &[] };
        steps.push(Cluster::deal(&plan, dealer.id, victims));
        cluster.order(steps.last().unwrap()).unwrap();
    }
    // The victim alone sees it, and shows it.
    let mut taken = generation::Generation::new(round(&plan));
    let mut dealings = BTreeMap::new();
    for step in &steps {
        let Step::Deal { dealer, dealing, .. } = step else { continue };
        taken.take_dealing(at(*dealer), dealing).unwrap();
        dealings.insert(*dealer, dealing.clone());
    }
    let complaints = taken.complaints(at(victim), &decryption_key(victim.0, 0, 1)).unwrap();
    assert_eq!(complaints.len(), 1);
    let complain = |dealer: ReplicaId, recipient: ReplicaId, evidence| {
        let (plan, dealing) = (plan.clone(), dealings[&dealer].clone());
        Step::Complain { plan, dealer, dealing, recipient, evidence }
    };
    let evidence = complaints[0].evidence;
    // A false one is voted for by nobody: not of another dealer, nor of another member.
    for (dealer, recipient) in [(ReplicaId(0), victim), (liar, ReplicaId(1))] {
        let step = complain(dealer, recipient, evidence);
        assert_eq!(cluster.order(&step), Err("nobody votes for it".to_owned()));
    }
    let step = complain(liar, victim, evidence);
    assert_eq!(cluster.order(&step), Ok(1));
    steps.push(step);
    let standing = cluster.generations.current().unwrap();
    assert_eq!(standing.disqualified().get(&liar), Some(&victim));
    assert_eq!(standing.standing(cluster.height), Standing::Enough);
    // The liar's share counts all the same: it is a member, and the key is not of its making.
    let generated = cluster.generated(&plan, &steps);
    let again = cluster.generated(&plan, &steps);
    assert!(
        generated
            .shares
            .iter()
            .all(|(id, share)| { share.to_bytes() == again.shares[id].to_bytes() })
    );
    let signed = cluster.signed(change, &generated);
    cluster.seal(&signed).unwrap();
}

#[test]
fn nobody_deals_in_the_name_of_another_or_what_was_dealt_elsewhere() {
    let mut cluster = Cluster::new();
    let change = cluster.change(&[(0, 1), (1, 1), (3, 1), (4, 1), (5, 1), (6, 0)]);
    let plan = cluster.plan(&change);
    cluster.begin(&plan);
    let refused = Err("nobody votes for it".to_owned());
    let good = Cluster::deal(&plan, ReplicaId(1), &[]);
    let Step::Deal { dealing, signature, .. } = &good else { panic!("a dealing") };
    let step = |plan: &Plan, dealer, dealing: &[u8], signature| Step::Deal {
        plan: plan.clone(),
        dealer: ReplicaId(dealer),
        dealing: dealing.to_vec().into(),
        signature,
    };
    let signed = |plan: &Plan, id: u16, dealing: &[u8]| {
        let statement = plan.dealing(&CHAIN, ReplicaId(id), dealing);
        step(plan, id, dealing, own_key(id).sign(&statement))
    };
    // Signed by somebody else, or by nobody.
    assert_eq!(cluster.order(&step(&plan, 0, dealing, *signature)), refused);
    assert_eq!(cluster.order(&step(&plan, 1, dealing, Signature::NONE)), refused);
    // Another's dealing, and one that was changed on the way.
    assert_eq!(cluster.order(&signed(&plan, 0, dealing)), refused);
    let mut changed = dealing.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(cluster.order(&signed(&plan, 1, &changed)), refused);
    // A dealing of the generation before.
    let next = cluster.plan(&change);
    assert_eq!(next.serial, 2);
    cluster.begin(&next);
    assert_eq!(cluster.order(&signed(&next, 1, dealing)), refused);
    assert!(cluster.order(&Cluster::deal(&next, ReplicaId(1), &[])).is_ok());
}

#[test]
fn shares_that_are_not_of_one_key_are_signed_with_in_vain() {
    let mut cluster = Cluster::new();
    let weights = [(0, 1), (1, 1), (3, 1), (4, 1), (5, 0), (6, 0)];
    let change = cluster.change(&weights);
    let plan = cluster.plan(&change);
    cluster.begin(&plan);
    let steps: Vec<_> = plan.dealers.iter().map(|it| Cluster::deal(&plan, it.id, &[])).collect();
    for step in &steps {
        cluster.order(step).unwrap();
    }
    let mut generated = cluster.generated(&plan, &steps);
    // One member puts a share of its own making in the place of the one that it got.
    let own = threshold::deal(4, 3).unwrap().shares.remove(0);
    let (first, last) = (ReplicaId(0), ReplicaId(4));
    let public = threshold_key(&own);
    let replace = |keys: &ShareKeys| {
        let keys = keys.replicas().zip(keys.keys().copied());
        let keys = keys.map(|(id, key)| (id, if id == last { public } else { key }));
        ShareKeys::new(3, keys.collect()).unwrap()
    };
    let honest = generated.keys.clone();
    generated.keys = replace(&honest);
    generated.shares.insert(last, ConsensusKey::dealt(own));
    let signed = cluster.signed(change.clone(), &generated);
    assert_eq!(cluster.seal(&signed), Err("nobody votes for it".to_owned()));
    // With the right ones it is made, but for one whose share another signed for.
    let mut right = cluster.generated(&plan, &steps);
    let good = cluster.signed(change, &right);
    let others = right.shares.remove(&first).unwrap();
    let mut forged = good.clone();
    let second = forged.possession(&CHAIN, ReplicaId(1)).unwrap();
    forged.shares.as_mut().unwrap().possessions[1].1 = others.sign(&second);
    assert_eq!(cluster.seal(&forged), Err("nobody votes for it".to_owned()));
    // What all sign alike proves nothing: from a quorum's signatures anybody computes the others'.
    let mut alike = good.clone();
    let readiness = alike.readiness(&CHAIN);
    let own = right.shares[&ReplicaId(1)].sign(&readiness);
    alike.shares.as_mut().unwrap().possessions[1].1 = own;
    assert_eq!(cluster.seal(&alike), Err("nobody votes for it".to_owned()));
    assert_eq!(cluster.seal(&good), Ok(()));
}

#[test]
fn what_is_joined_does_not_hold_by_a_members_own_key() {
    let cluster = Cluster::new();
    let statement = cluster.vote();
    let signature = own_key(1).sign(&statement);
    let (signer, key) = (ReplicaId(1), PublicKey(own_key(1).public_key().0));
    assert!(!cluster.holds(Check::Replica(Share { signer, statement, signature })));
    assert_eq!(cluster.scheme.verify(&[Check::Client { key, statement, signature }]), [true]);
    // A check within a check is none.
    let vote = signed_by(&cluster.shares, statement).remove(0);
    let once = cluster.committee.by_key(Check::Replica(vote));
    let keys = Arc::clone(cluster.committee.shares().unwrap());
    let twice = Check::Joined { keys, check: Box::new(once.clone()) };
    assert_eq!(cluster.scheme.verify(&[once, twice]), [true, false]);
}

/// A key that is none would end a generation in which nobody is to blame. One whose owner did not
/// prove it for this plan may be another member's, or a former one that somebody has found.
#[test]
fn a_generation_rests_on_a_proof_of_each_encryption_key() {
    let mut cluster = Cluster::new();
    let change = cluster.change(&[(0, 1), (1, 1), (3, 1), (4, 1), (5, 1), (6, 0)]);
    let plan = cluster.plan(&change);
    let client = administrator();
    let mut begin = |plan: &Plan, proofs: Vec<[u8; 64]>| {
        let approvals = vec![(client.public_key(), client.sign(&plan.approval(&CHAIN)))];
        cluster.order(&Step::Begin { plan: plan.clone(), proofs, approvals })
    };
    let refused = Err("nobody votes for it".to_owned());
    let mut no_key = plan.clone();
    no_key.dealers[2].encryption = [0xFF; 32];
    assert_eq!(begin(&no_key, proofs_of(&plan)), refused);
    let mut unproved = proofs_of(&plan);
    unproved[3] = [0; 64];
    assert_eq!(begin(&plan, unproved), refused);
    let mut swapped = proofs_of(&plan);
    swapped.swap(0, 1);
    assert_eq!(begin(&plan, swapped), refused);
    // A key and its proof of a former plan, which administrators put into a later one.
    let mut again = Plan { serial: 2, ..plan.clone() };
    assert_eq!(begin(&again, proofs_of(&plan)), refused);
    again.serial = 1;
    assert_eq!(begin(&again, proofs_of(&again)), Ok(1));
}

/// What a member signs with its share names the member. From a quorum's signatures anybody computes
/// what the others' shares make of the same statement, and it must serve nobody.
#[test]
fn a_possession_that_was_computed_from_those_of_others_is_refused() {
    let mut cluster = Cluster::new();
    let change = cluster.change(&[(0, 1), (1, 1), (3, 1), (4, 1), (5, 0), (6, 0)]);
    let plan = cluster.plan(&change);
    cluster.begin(&plan);
    let steps: Vec<_> = plan.dealers.iter().map(|it| Cluster::deal(&plan, it.id, &[])).collect();
    steps.iter().for_each(|step| assert!(cluster.order(step).is_ok()));
    let generated = cluster.generated(&plan, &steps);
    let good = cluster.signed(change, &generated);
    // Three of four sign what they sign as members; the fourth one's is made of these.
    let victim = ReplicaId(4);
    let mut forged = good.clone();
    let possessions = &mut forged.shares.as_mut().unwrap().possessions;
    let others: Vec<(ReplicaId, Signature)> =
        possessions.iter().filter(|(id, _)| *id != victim).copied().collect();
    let statement = good.possession(&CHAIN, ReplicaId(0)).unwrap();
    let alike = |(id, _): &(ReplicaId, Signature)| Share {
        signer: *id,
        statement,
        signature: generated.shares[id].sign(&statement),
    };
    let alike: Vec<Share> = others.iter().map(alike).collect();
    let joined = cluster.scheme.combine_by(&generated.keys, Form::Threshold, &alike).unwrap();
    for computed in [joined, alike[0].signature] {
        let mut forged = forged.clone();
        let possessions = &mut forged.shares.as_mut().unwrap().possessions;
        possessions.iter_mut().filter(|(id, _)| *id == victim).for_each(|it| it.1 = computed);
        assert_eq!(cluster.seal(&forged), Err("nobody votes for it".to_owned()));
    }
    assert_eq!(cluster.seal(&good), Ok(()));
}
