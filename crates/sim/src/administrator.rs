//! The administrator of a governed cluster, who has its members changed.

use bytes::Bytes;
use quorate_core::base::crypto::{COMPLAINT_BYTES, ClientSigner as _, Signer as _};
use quorate_core::base::membership::{Member, Rules};
use quorate_core::ledger::change::{Change, NextShares, SignedChange};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::generation::{Dealer, Plan, Step};
use quorate_core::ledger::outcome::Outcome;
use quorate_core::ledger::sessions::Standing;
use quorate_core::{Committee, Epoch, ReplicaId, Sequence, SessionId};

use crate::cluster::{Cluster, Core};
use crate::family::Family;
use crate::keys::{self, CHAIN, Key};
use crate::rng::Rng;

/// How long members may take to get sessions, in microseconds of the simulation.
const OPENS_WITHIN: u64 = 20_000_000;

/// An administrator on its way through epochs.
#[derive(Debug)]
pub struct Administrator {
    key: Key,
    session: SessionId,
    /// [`Config::second_keys_from`](crate::Config).
    second_keys_from: Option<u64>,
    /// Those that changes leave as they are.
    rules: Rules,
    /// The number of its next frame.
    pub next: Sequence,
}

impl Administrator {
    /// One with a session in the cluster; `None` if it gets none within so many microseconds.
    pub fn of<F: Family>(cluster: &mut Cluster<F>, micros: u64) -> Option<Self> {
        let key = keys::administrator();
        let open = Frame::open(key.public_key(), 1, &CHAIN, |statement| key.sign(statement));
        submit(cluster, &open.clone().into());
        let session = |cluster: &Cluster<F>| {
            cluster.correct().find_map(|core| match core.execution().standing(&open) {
                Standing::Settled(Outcome::Opened { session, .. }) => Some(session),
                _ => None,
            })
        };
        cluster.run_until(micros, |cluster| session(cluster).is_some());
        let second_keys_from = cluster.config.second_keys_from;
        let (session, rules) = (session(cluster)?, cluster.config.committee().rules());
        Some(Self { key, session, second_keys_from, rules, next: Sequence(1) })
    }

    /// The change to members of these weights, by their ids (`None`: no member), signed by the
    /// administrator and by those next members that say they are ready.
    #[must_use]
    pub fn change(
        &self,
        ends: Epoch,
        weights: &[Option<u16>],
        ready: impl Fn(usize) -> bool,
    ) -> SignedChange {
        self.change_under(self.rules, ends, weights, ready)
    }

    /// The same to an epoch that executes by these rules.
    #[must_use]
    pub fn change_under(
        &self,
        rules: Rules,
        ends: Epoch,
        weights: &[Option<u16>],
        ready: impl Fn(usize) -> bool,
    ) -> SignedChange {
        let key = |id| Key::of_replica_in(id, ends.plus(1), self.second_keys_from);
        let members: Vec<Option<Member>> = (0..weights.len())
            .map(|id| weights[id].map(|weight| keys::member_with(&key(id), weight)))
            .collect();
        let change = Change { ends, members, governance: keys::governance(), rules };
        let approvals = vec![(self.key.public_key(), self.key.sign(&change.approval(&CHAIN)))];
        // Who gets another key gives its word as well, though it learns.
        let rotates = self.second_keys_from == Some(ends.plus(1).0);
        let is_asked = |weight: u16| weight > 0 || rotates;
        let asked = (0..weights.len()).filter(|id| weights[*id].is_some_and(is_asked));
        let ready = asked
            .filter(|id| ready(*id))
            .map(|id| {
                let signature = key(id).sign(&change.readiness(&CHAIN));
                (ReplicaId(id as u16), signature)
            })
            .collect();
        SignedChange { change, approvals, ready, shares: None }
    }

    /// Wants a change executed: its frame reaches every replica that runs.
    ///
    /// # Panics
    /// If the change fits no frame.
    pub fn submit<F: Family>(
        &mut self,
        cluster: &mut Cluster<F>,
        change: &SignedChange,
    ) -> SharedFrame {
        self.submit_command(cluster, &change.to_command())
    }

    fn submit_command<F: Family>(
        &mut self,
        cluster: &mut Cluster<F>,
        command: &[u8],
    ) -> SharedFrame {
        let number = self.next;
        self.next = self.next.next();
        submit_by(cluster, self.key, (self.session, number), command)
    }

    /// Begins a key generation for a change, in which all next members that count deal, each in a
    /// session of its own key. Those of `cheats` deal shares that do not fit, which the first
    /// member shows.
    ///
    /// # Panics
    /// If the members get no sessions.
    pub fn generate<F: Family>(
        &mut self,
        cluster: &mut Cluster<F>,
        change: &Change,
        cheats: &[u16],
    ) {
        let plan = self.plan(change, next_serial(cluster, change.ends));
        let approvals = vec![(self.key.public_key(), self.key.sign(&plan.approval(&CHAIN)))];
        let prove = |dealer: &Dealer| {
            let context = dealer.possession(&CHAIN, plan.ends, plan.serial);
            keys::encryption_proof(&dealer.encryption, &context)
        };
        let proofs = plan.dealers.iter().map(prove).collect();
        let begin = Step::Begin { plan: plan.clone(), proofs, approvals };
        self.submit_command(cluster, &begin.to_command());
        let of = |dealer: &Dealer| {
            let epoch = plan.ends.plus(1);
            Key::of_replica_in(dealer.id.index(), epoch, self.second_keys_from)
        };
        let keys: Vec<Key> = plan.dealers.iter().map(of).collect();
        // One generation more, one session more.
        let incarnation = plan.ends.0 * 1_000 + plan.serial;
        let sessions = sessions_of(cluster, &keys, incarnation).expect("they get sessions");
        let (round, mut shown) = (plan.round(&CHAIN), Vec::new());
        for (place, dealer) in plan.dealers.iter().enumerate() {
            let (plan, id, fits) = (plan.clone(), dealer.id, !cheats.contains(&dealer.id.0));
            let dealing = Bytes::from(keys::dealing(&round, place, fits));
            if !fits {
                let (plan, dealing) = (plan.clone(), dealing.clone());
                let (recipient, evidence) = (plan.dealers[0].id, [0; COMPLAINT_BYTES]);
                shown.push(Step::Complain { plan, dealer: id, dealing, recipient, evidence });
            }
            let key = keys[place];
            let signature = key.sign(&plan.dealing(&CHAIN, id, &dealing));
            let step = Step::Deal { plan, dealer: id, dealing, signature };
            submit_by(cluster, key, (sessions[place], Sequence(1)), &step.to_command());
        }
        for (number, step) in (2..).map(Sequence).zip(&shown) {
            submit_by(cluster, keys[0], (sessions[0], number), &step.to_command());
        }
    }

    fn plan(&self, change: &Change, serial: u64) -> Plan {
        let members = change.members.iter().enumerate();
        let voters = members
            .filter_map(|(id, it)| Some((id, it.as_ref()?)))
            .filter(|(_, member)| !member.is_learner());
        let dealers = voters.map(|(id, _)| {
            let key = Key::of_replica_in(id, change.ends.plus(1), self.second_keys_from);
            let encryption = keys::encryption_key(id, change.ends, serial);
            Dealer { id: ReplicaId(id as u16), key: key.public_key(), encryption }
        });
        let (ends, digest) = (change.ends, change.digest());
        Plan { ends, serial, change: digest, open_blocks: 10_000, dealers: dealers.collect() }
    }

    /// The change with the key that its members generated, as a replica sees the generation, for
    /// which all of them are ready; `None` before they all have dealt there.
    #[must_use]
    pub fn with_shares<F: Family>(
        &self,
        core: &Core<F>,
        change: SignedChange,
        cheats: usize,
    ) -> Option<SignedChange> {
        let generations = core.execution().members().generations();
        let current = generations.current()?;
        let (all, epoch) = (current.plan().dealers.len(), change.change.ends.plus(1));
        let is_of_change = current.plan().change == change.change.digest();
        let are_few = current.dealt().len() < all || current.disqualified().len() < cheats;
        if !is_of_change || are_few {
            return None;
        }
        let generation = current.digest();
        let keys = keys::shares_of(&change.change.members, epoch, &generation);
        let shares = Some(Box::new(NextShares { generation, keys, possessions: Vec::new() }));
        let mut signed = SignedChange { ready: Vec::new(), shares, ..change };
        let readiness = signed.readiness(&CHAIN);
        for dealer in &current.plan().dealers {
            let own = Key::of_replica_in(dealer.id.index(), epoch, self.second_keys_from);
            signed.ready.push((dealer.id, own.sign(&readiness)));
            let share = Key::of_share(dealer.id.index(), epoch);
            let signature = share.sign(&signed.possession(&CHAIN, dealer.id)?);
            let possessions = signed.shares.as_mut().map(|shares| &mut shares.possessions);
            possessions?.push((dealer.id, signature));
        }
        Some(signed)
    }
}

/// The serial of the next key generation in the epoch, as far as some correct replica has seen.
fn next_serial<F: Family>(cluster: &Cluster<F>, epoch: Epoch) -> u64 {
    let serial = |core: &Core<F>| {
        let members = core.execution().members();
        let is_there = members.committee().is_some_and(|it| it.epoch() == epoch);
        is_there.then(|| members.generations().next_serial())
    };
    cluster.correct().filter_map(serial).max().unwrap_or(1)
}

/// Wants a command executed in a session of this key, by its number: its frame reaches every
/// replica that runs.
fn submit_by<F: Family>(
    cluster: &mut Cluster<F>,
    key: Key,
    (session, number): (SessionId, Sequence),
    command: &[u8],
) -> SharedFrame {
    let sign = |statement: &_| key.sign(statement);
    let frame = Frame::build(key.public_key(), session, number, [command], &CHAIN, sign);
    let frame: SharedFrame = frame.expect("a change fits a frame").into();
    submit(cluster, &frame);
    frame
}

/// Opens a session for each of these keys; `None` if some get none within seconds.
fn sessions_of<F: Family>(
    cluster: &mut Cluster<F>,
    keys: &[Key],
    incarnation: u64,
) -> Option<Vec<SessionId>> {
    let open = |key: &Key| {
        Frame::open(key.public_key(), incarnation, &CHAIN, |statement| key.sign(statement))
    };
    let opens: Vec<SharedFrame> = keys.iter().map(|key| open(key).into()).collect();
    opens.iter().for_each(|open| submit(cluster, open));
    let session = |core: &Core<F>, open: &SharedFrame| match core.execution().standing(open) {
        Standing::Settled(Outcome::Opened { session, .. }) => Some(session),
        _ => None,
    };
    let all = |cluster: &Cluster<F>| {
        cluster.correct().find_map(|core| opens.iter().map(|open| session(core, open)).collect())
    };
    cluster.run_until(OPENS_WITHIN, |cluster| {
        let all: Option<Vec<SessionId>> = all(cluster);
        all.is_some()
    });
    all(cluster)
}

/// A frame reaches every replica that runs.
pub fn submit<F: Family>(cluster: &mut Cluster<F>, frame: &SharedFrame) {
    for slot in 0..cluster.slots.len() {
        if cluster.slots[slot].core.is_some() {
            cluster.submit_to(slot, frame.clone());
        }
    }
}

/// The committee of the newest epoch that a correct replica executes in.
///
/// # Panics
/// If the cluster is not governed, or nobody runs.
#[must_use]
pub fn newest<F: Family>(cluster: &Cluster<F>) -> Committee {
    let members = |core: &Core<F>| core.execution().members().committee().cloned();
    cluster.correct().filter_map(members).max_by_key(Committee::epoch).expect("it is governed")
}

/// Whether all correct members of the newest epoch have executed all commands.
#[must_use]
pub fn members_are_level<F: Family>(cluster: &Cluster<F>) -> bool {
    let all = cluster.oracles.commands.len();
    newest(cluster).replicas().all(|id| {
        let slot = &cluster.slots[id.index()];
        let core = slot.core.as_ref();
        slot.faulty
            || core.is_some_and(|core| core.execution().application().committed().len() == all)
    })
}

/// Members by their weights: at least four that count, each a member before; others learn or are
/// none.
#[must_use]
pub fn drawn(rng: &mut Rng, replicas: usize, before: &Committee) -> Vec<Option<u16>> {
    loop {
        let one = |id: usize| {
            let weight = before.member(ReplicaId(id as u16)).map(|member| member.weight);
            match (weight, rng.below(10)) {
                (None, 0..5) | (Some(_), 0) => None,
                (None, _) | (Some(_), 1) => Some(0),
                (Some(_), 2) => Some(2),
                (Some(_), _) => Some(1),
            }
        };
        let weights: Vec<Option<u16>> = (0..replicas).map(one).collect();
        if weights.iter().flatten().filter(|weight| **weight > 0).count() >= 4 {
            return weights;
        }
    }
}
