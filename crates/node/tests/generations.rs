//! Key generations by the words of members, one of whom lies. Its words come over a connection, as
//! those of all others.

#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;

use std::net::TcpListener as Held;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ports::ports;
use quorate_core::base::crypto::{ClientSigner, PublicKey, ShareKeys, Signature, Signer as _};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Generating, OfferedKey, Request, Response, ShareWord};
use quorate_core::ledger::change::{Change, NextShares, Refusal, SignedChange};
use quorate_core::ledger::generation::{Dealer, Generation, Plan};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::bls::threshold;
use quorate_crypto::bls::threshold::generation::DecryptionKey;
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey, key_file};
use quorate_node::client::change::{self, ChangeError};
use quorate_node::client::generation::{self, Begin};
use quorate_node::client::succession::{Chain, Following};
use quorate_node::config::{Combination, LeaderName};
use quorate_node::testnet::{self, Options, Testnet};
use quorate_transport::{
    ClientListener, Counters, Event, Gate, Identity, Limits, Versions, inbound,
};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// The one that lies.
const LIAR: ReplicaId = ReplicaId(2);
const NOISE: [u8; 64] = [7; 64];

/// What the liar says in place of what is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Nothing,
    /// The next generation has this serial.
    Serial(u64),
    /// It is in this epoch.
    Epoch(u64),
    /// A generation is under way in which another one cheated, at a height far ahead.
    Generation,
    /// The proof of its encryption key is none.
    Proof,
    /// Its encryption key is that of another member, with the other's proof.
    ForeignKey,
    /// Its encryption key is that of the generation before, proved anew.
    FormerKey,
    /// It is ready by a signature that is none.
    Ready,
    /// The signature by its share is none.
    Possession,
    /// It came to another key than the others.
    Keys,
}

/// What all members know.
struct Known {
    chain: Digest,
    lie: Lie,
    /// The latest generation, as they see it.
    current: Option<Generation>,
    height: Height,
    own: Vec<SecretKey>,
    /// Of the next epoch.
    shares: Vec<ConsensusKey>,
}

impl Known {
    fn next_serial(&self) -> u64 {
        self.current.as_ref().map_or(1, |it| it.plan().serial + 1)
    }

    fn offer(&self, id: ReplicaId, serial: u64) -> OfferedKey {
        let secret = DecryptionKey::from_seed(&[id.0 as u8 * 10 + serial as u8; 32]);
        let key = self.own[id.index()].public_key();
        let dealer = Dealer { id, key, encryption: secret.public_key().to_bytes() };
        let statement = dealer.possession(&self.chain, Epoch(0), self.next_serial());
        OfferedKey { key: dealer.encryption, proof: secret.prove(&statement.0) }
    }

    fn generating(&self, id: ReplicaId, asked: Option<PublicKey>) -> Generating {
        let serial = self.next_serial();
        let mut told = Generating {
            epoch: Epoch(0),
            height: self.height,
            next_serial: serial,
            current: self.current.clone(),
            encryption: asked.map(|_| self.offer(id, serial)),
            waits_for: Bytes::new(),
        };
        if id != LIAR {
            return told;
        }
        match (self.lie, &mut told.encryption) {
            (Lie::Serial(serial), _) => told.next_serial = serial,
            (Lie::Epoch(epoch), _) => told.epoch = Epoch(epoch),
            (Lie::Generation, _) => {
                let plan = self.plan(9, Digest([9; 32]));
                told.current = Some(generation_of(&plan, &[(0, 1), (1, 1)], &[(1, 0)]));
                (told.next_serial, told.height) = (10, Height(u64::MAX));
            }
            (Lie::Proof, Some(offered)) => offered.proof = NOISE,
            (Lie::ForeignKey, Some(offered)) => *offered = self.offer(ReplicaId(0), serial),
            (Lie::FormerKey, Some(offered)) => *offered = self.offer(id, serial - 1),
            _ => {}
        }
        told
    }

    fn plan(&self, serial: u64, change: Digest) -> Plan {
        let dealer = |id| {
            let encryption = self.offer(id, serial).key;
            Dealer { id, key: self.own[id.index()].public_key(), encryption }
        };
        let dealers = (0..4).map(ReplicaId).map(dealer).collect();
        Plan { ends: Epoch(0), serial, change, open_blocks: 100, dealers }
    }

    fn word(&self, id: ReplicaId, change: Bytes) -> Response {
        let mut change = SignedChange::from_bytes(change).unwrap();
        let lie = if id == LIAR { self.lie } else { Lie::Nothing };
        let is_for_it = |it: &&Generation| it.plan().change == change.change.digest();
        let generation = self.current.as_ref().filter(is_for_it).map(Generation::digest);
        let sign = |change: &SignedChange| match lie {
            Lie::Ready => Signature::from(NOISE),
            _ => self.own[id.index()].sign(&change.readiness(&self.chain)),
        };
        let Some(generation) = generation else {
            return Response::Ready { id: 1, signature: sign(&change) };
        };
        let other = dealt();
        let shares = if lie == Lie::Keys { &other } else { &self.shares };
        let (keys, share) = (keys_of(shares), &shares[id.index()]);
        let possessions = Vec::new();
        change.shares = Some(Box::new(NextShares { generation, keys: keys.clone(), possessions }));
        let possession = match lie {
            Lie::Possession => Signature::from(NOISE),
            _ => share.sign(&change.possession(&self.chain, id).unwrap()),
        };
        let ready = sign(&change);
        Response::ReadyWithShares {
            id: 1,
            word: Box::new(ShareWord { generation, keys, ready, possession }),
        }
    }

    fn answer(&self, id: ReplicaId, request: Request) -> Option<Response> {
        Some(match request {
            Request::Generation { id: of, key } => {
                let generating = Box::new(self.generating(id, key));
                Response::Generation { id: of, generating }
            }
            Request::Ready { change, .. } => self.word(id, change),
            Request::Handovers { id: of, .. } => {
                Response::Handovers { id: of, handovers: Vec::new() }
            }
            // Nothing is ordered.
            _ => return None,
        })
    }
}

fn dealt() -> Vec<ConsensusKey> {
    threshold::deal(4, 3).unwrap().shares.into_iter().map(ConsensusKey::dealt).collect()
}

fn keys_of(shares: &[ConsensusKey]) -> ShareKeys {
    let public = |share: &ConsensusKey| share.public_key().try_into().unwrap();
    let keys = (0..).map(ReplicaId).zip(shares.iter().map(public)).collect();
    ShareKeys::new(3, keys).unwrap()
}

/// A generation that was begun at height 1, in which these dealt, and these are disqualified.
fn generation_of(plan: &Plan, dealt: &[(u16, u8)], disqualified: &[(u16, u16)]) -> Generation {
    let mut bytes = plan.to_bytes();
    Height(1).encode(&mut bytes);
    (dealt.len() as u32).encode(&mut bytes);
    for (dealer, dealing) in dealt {
        ReplicaId(*dealer).encode(&mut bytes);
        Digest([*dealing; 32]).encode(&mut bytes);
    }
    (disqualified.len() as u32).encode(&mut bytes);
    for (dealer, by) in disqualified {
        ReplicaId(*dealer).encode(&mut bytes);
        ReplicaId(*by).encode(&mut bytes);
    }
    Generation::from_bytes(bytes.into()).unwrap()
}

/// Four members that answer clients, and order nothing.
struct Members {
    known: Arc<Mutex<Known>>,
    testnet: Testnet,
    chain: Chain,
    administrator: Arc<SecretKey>,
    _folder: TempDir,
    _ports: Held,
}

impl Members {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (held, first_port) = ports(3 * 4);
        let (signatures, leader) = (SchemeName::BlsThreshold, LeaderName::RoundRobin);
        let options = Options {
            base_port: Some(first_port),
            administrators: 1,
            combination: Combination { signatures, leader, ..Combination::default() },
            ..Options::default()
        };
        let testnet = testnet::init(folder.path(), 4, &options).unwrap();
        let administrator = Arc::new(key_file::read(&testnet.administrator_keys[0]).unwrap());
        let key = |id: usize, name: &str| {
            key_file::read(&testnet.replicas[id].config_folder().join(name)).unwrap()
        };
        let known = Arc::new(Mutex::new(Known {
            chain: testnet.cluster.chain_digest(),
            lie: Lie::Nothing,
            current: None,
            height: Height(5),
            own: (0..4).map(|id| key(id, "consensus.key")).collect(),
            shares: dealt(),
        }));
        for (id, member) in testnet.cluster.members.iter().enumerate() {
            let socket = TcpListener::bind(member.client_address.to_string()).await.unwrap();
            listen(ReplicaId(id as u16), &key(id, "transport.key"), socket, Arc::clone(&known));
        }
        let chain = Following::of(&testnet.cluster).unwrap().begin();
        Self { known, testnet, chain, administrator, _folder: folder, _ports: held }
    }

    fn committee(&self) -> &Committee {
        self.chain.committee()
    }

    fn with<R>(&self, change: impl FnOnce(&mut Known) -> R) -> R {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lies(&self, lie: Lie) {
        self.with(|known| known.lie = lie);
    }

    /// The members stay, and have a fresh key.
    fn fresh_key(&self) -> Change {
        let committee = self.committee();
        let (governance, rules) = (committee.governance().clone(), committee.rules());
        Change { ends: Epoch(0), members: committee.members().to_vec(), governance, rules }
    }

    fn approved(&self, change: Change) -> SignedChange {
        let (approvals, ready) = (Vec::new(), Vec::new());
        let mut signed = SignedChange { change, approvals, ready, shares: None };
        change::approve(&mut signed, self.committee(), &self.administrator);
        signed
    }

    async fn planned(&self, change: &Change) -> Result<Begin, Vec<(ReplicaId, String)>> {
        let said = generation::told(self.committee(), Some(change)).await;
        generation::plan(change, self.committee(), &said)
    }

    /// All have dealt in a generation for this change.
    fn has_generated(&self, change: &Change) {
        self.with(|known| {
            let plan = known.plan(1, change.digest());
            known.current = Some(generation_of(&plan, &[(0, 1), (1, 1), (2, 1), (3, 1)], &[]));
        });
    }
}

fn listen(me: ReplicaId, key: &SecretKey, socket: TcpListener, known: Arc<Mutex<Known>>) {
    let gate = Gate {
        me,
        chain: known.lock().unwrap().chain,
        identity: Identity::new(key).unwrap(),
        versions: Versions::PROGRAM,
        limits: Limits::clients(),
    };
    let (inbound, mut events) = inbound(1024, 64 << 20);
    let (wake, counters) = (Arc::new(|| {}), Arc::<Counters>::default());
    let listener = ClientListener::start(gate, socket, inbound, wake, counters).unwrap();
    tokio::spawn(async move {
        while let Some((connection, event)) = events.recv().await {
            let Event::Frame(message) = event else { continue };
            let request = Request::from_bytes(message).unwrap();
            let answer = known.lock().unwrap_or_else(PoisonError::into_inner).answer(me, request);
            if let Some(answer) = answer {
                // The client may be gone.
                let _ = listener.send(connection, answer.to_bytes().into());
            }
        }
    });
}

fn names(missing: &[(ReplicaId, String)]) -> Vec<ReplicaId> {
    missing.iter().map(|(id, _)| *id).collect()
}

/// Whatever it says of the serial and of its key, it is named, and no correct member is. A change
/// that it has no part in goes on without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_liar_is_named_and_stops_no_generation_that_it_has_no_part_in() {
    let members = Members::start().await;
    let all = members.fresh_key();
    members.with(|known| {
        let plan = known.plan(1, Digest([3; 32]));
        known.current = Some(generation_of(&plan, &[], &[]));
    });
    let begin = members.planned(&all).await.unwrap();
    assert_eq!((begin.plan.serial, begin.plan.dealers.len()), (2, 4));
    let mut without = all.clone();
    without.members[LIAR.index()].as_mut().unwrap().weight = 0;
    let lies = [
        Lie::Serial(u64::MAX),
        Lie::Serial(1),
        Lie::Epoch(7),
        Lie::Generation,
        Lie::Proof,
        Lie::ForeignKey,
        Lie::FormerKey,
    ];
    for lie in lies {
        members.lies(lie);
        let missing = members.planned(&all).await.unwrap_err();
        assert_eq!(names(&missing), [LIAR], "{lie:?}: {missing:?}");
        let begin = members.planned(&without).await.unwrap();
        assert_eq!((begin.plan.serial, begin.plan.dealers.len()), (2, 3), "{lie:?}");
        assert!(generation::unproved(&begin, members.committee()).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_shown_as_disqualified_by_the_word_of_one() {
    let members = Members::start().await;
    members.lies(Lie::Generation);
    let said = generation::told(members.committee(), None).await;
    let told = generation::witnessed(members.committee(), &said).unwrap();
    assert_eq!((told.height, told.next_serial, told.current), (Height(5), 1, None));
    let plan = members.with(|known| {
        let plan = known.plan(1, Digest([3; 32]));
        known.current = Some(generation_of(&plan, &[(3, 1)], &[(3, 1)]));
        plan
    });
    let said = generation::told(members.committee(), None).await;
    let told = generation::witnessed(members.committee(), &said).unwrap();
    let current = told.current.unwrap();
    assert_eq!((current.plan(), told.height), (&plan, Height(5)));
    let disqualified: Vec<_> = current.disqualified().iter().collect();
    assert_eq!(disqualified, [(&ReplicaId(3), &ReplicaId(1))]);
}

/// A change with one word that does not hold would be refused as a whole, as a fault of the
/// administrator that sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_word_that_does_not_hold_is_left_out_and_its_member_is_named() {
    let members = Members::start().await;
    let committee = members.committee().clone();
    let mut change = members.approved(members.fresh_key());
    members.has_generated(&change.change);
    assert_eq!(change::gather(&mut change, &committee).await, []);
    change.judge(&committee, committee.opening()).unwrap();
    for lie in [Lie::Ready, Lie::Possession, Lie::Keys] {
        members.lies(lie);
        let missing = change::gather(&mut change, &committee).await;
        assert_eq!(names(&missing), [LIAR], "{lie:?}: {missing:?}");
        let words: Vec<_> = change.ready.iter().map(|(id, _)| id.0).collect();
        assert_eq!(words, [0, 1, 3], "{lie:?}");
        let refusal = change.judge(&committee, committee.opening()).unwrap_err();
        assert!(matches!(refusal, Refusal::NotReady { .. } | Refusal::NotPossessed { .. }));
    }
    // A change that needs no key is made without the liar.
    let mut change = members.fresh_key();
    let mut learner = change.members[0].clone().unwrap();
    (learner.weight, learner.key) = (0, ReplicaKey::from([9; 32]));
    change.members.push(Some(learner));
    let mut change = members.approved(change);
    members.lies(Lie::Ready);
    assert_eq!(names(&change::gather(&mut change, &committee).await), [LIAR]);
    change.judge(&committee, committee.opening()).unwrap();
}

/// Replicas order neither the beginning nor the change, and do not say why. What the members say of
/// the generation does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_second_or_too_late_hears_why() {
    let mut members = Members::start().await;
    let cluster = members.testnet.cluster.clone();
    let change = members.fresh_key();
    let mut begin = members.planned(&change).await.unwrap();
    generation::approve(&mut begin, members.committee(), &members.administrator);
    let client = || -> Arc<dyn ClientSigner> { Arc::clone(&members.administrator) as _ };
    // Another administrator began one for another change.
    members.with(|known| {
        known.current = Some(generation_of(&known.plan(1, Digest([3; 32])), &[], &[]));
    });
    let begins = generation::begin(&begin, &cluster, &members.chain, client());
    let begins = tokio::time::timeout(Duration::from_secs(30), begins).await.expect("in time");
    let error = begins.unwrap_err().to_string();
    assert!(error.contains("serial 1, and the next one is 2: begin it anew"), "{error}");
    // This one was begun, and the reply was lost.
    members.with(|known| known.current = Some(generation_of(&begin.plan, &[], &[])));
    generation::begin(&begin, &cluster, &members.chain, client()).await.unwrap();

    // The blocks of a generation end while its change is submitted.
    let committee = members.committee().clone();
    let mut change = members.approved(change);
    members.has_generated(&change.change);
    assert_eq!(change::gather(&mut change, &committee).await, []);
    members.with(|known| known.height = Height(101));
    let client = client();
    let submits = change::submit(&change, &cluster, &mut members.chain, client);
    let submits = tokio::time::timeout(Duration::from_secs(30), submits).await.expect("in time");
    let error = submits.unwrap_err();
    assert!(matches!(error, ChangeError::RefusedThere(_)), "{error}");
    assert!(error.to_string().contains("was open up to height 101"), "{error}");
}
