//! Every scheme: checks of a batch hold exactly if each does alone, whatever was done to them.

use std::sync::{Arc, OnceLock};

use quorate_core::base::crypto::{
    Check, ClientSigner as _, Form, Scheme as _, Share, Signature, Signer as _, Statement,
};
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::bls::threshold;
use quorate_crypto::committee_keys::{GroupKey, MemberKey};
use quorate_crypto::{CommitteeScheme, ConsensusKey, SchemeName, SecretKey};

use crate::input::Input;

const MEMBERS: usize = 4;
const QUORUM: usize = 3;

struct Committee {
    name: SchemeName,
    keys: Vec<ConsensusKey>,
    scheme: CommitteeScheme,
}

impl Committee {
    fn new(name: SchemeName) -> Option<Self> {
        let mut group = None;
        let keys: Vec<ConsensusKey> = if name.is_dealt() {
            let deal = threshold::deal(MEMBERS, QUORUM).ok()?;
            group = Some(deal.group);
            deal.shares.into_iter().map(ConsensusKey::dealt).collect()
        } else {
            let seeds = (1..=MEMBERS as u8).map(|seed| [seed; 32]);
            seeds.map(|seed| ConsensusKey::from_bytes(name, &seed)).collect::<Option<_>>()?
        };
        let parts: Vec<_> =
            keys.iter().map(|key| (key.public_key(), key.proof_of_possession())).collect();
        let members: Vec<_> = parts
            .iter()
            .map(|(key, proof)| MemberKey {
                key,
                possession: proof.as_ref().map(|proof| &proof[..]),
            })
            .collect();
        let group = group.as_ref().map(|key| GroupKey { key, quorum: QUORUM });
        let scheme = CommitteeScheme::new(name, &members, group).ok()?;
        Some(Self { name, keys, scheme })
    }

    fn share(&self, at: usize, statement: Statement) -> Share {
        let signature = self.keys[at].sign(&statement);
        Share { signer: ReplicaId(at as u16), statement, signature }
    }
}

fn committees() -> &'static [Committee] {
    static COMMITTEES: OnceLock<Vec<Committee>> = OnceLock::new();
    COMMITTEES.get_or_init(|| SchemeName::ALL.into_iter().filter_map(Committee::new).collect())
}

fn statement(number: u8) -> Statement {
    Statement::frame(&Digest([1; 32]), &Digest::of("fuzz", &[number]))
}

/// Draws checks, some spoilt, and holds the verdicts on all together against those on each alone. A
/// check that nothing was done to holds.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let all = committees();
    assert_eq!(all.len(), SchemeName::ALL.len());
    let committee = &all[usize::from(input.byte()) % all.len()];
    let client = SecretKey::from_seed(&[9; 32]);
    let (mut checks, mut sound) = (Vec::new(), Vec::new());
    for _ in 0..1 + input.byte() % 40 {
        let (kind, number) = (input.byte(), input.byte() % 3);
        let statement = statement(number);
        let at = usize::from(kind >> 4) % MEMBERS;
        let mut check = match kind % 3 {
            0 => Check::Replica(committee.share(at, statement)),
            1 => Check::Client {
                key: client.public_key(),
                statement,
                signature: client.sign(&statement),
            },
            _ => match joined(committee, statement) {
                Some(check) => check,
                None => continue,
            },
        };
        let spoilt = kind & 8 == 8 && spoil(&mut check, &mut input);
        checks.push(check);
        sound.push(!spoilt);
    }
    let together = committee.scheme.verify(&checks);
    assert_eq!(together.len(), checks.len());
    for ((check, verdict), sound) in checks.iter().zip(&together).zip(sound) {
        let alone = committee.scheme.verify(std::slice::from_ref(check));
        assert_eq!(alone, [*verdict], "{}: {check:?}", committee.name);
        assert!(*verdict || !sound, "{}: refused: {check:?}", committee.name);
    }
}

/// The joint signature of a quorum, in the scheme's form.
fn joined(committee: &Committee, statement: Statement) -> Option<Check> {
    let shares: Vec<Share> = (0..QUORUM).map(|at| committee.share(at, statement)).collect();
    let signers = shares.iter().map(|share| share.signer).collect();
    match committee.name {
        SchemeName::Bls => committee.scheme.combine(Form::Aggregate, &shares).map(|signature| {
            Check::Aggregate { parts: Arc::new([(statement, signers)]), signature }
        }),
        SchemeName::BlsThreshold => committee
            .scheme
            .combine(Form::Threshold, &shares)
            .map(|signature| Check::Threshold { statement, signature }),
        _ => None,
    }
}

/// Changes the signature, unless what is drawn changes nothing.
fn spoil(check: &mut Check, input: &mut Input<'_>) -> bool {
    let (Check::Client { signature, .. }
    | Check::Replica(Share { signature, .. })
    | Check::Aggregate { signature, .. }
    | Check::Threshold { signature, .. }) = check
    else {
        return false;
    };
    let before = *signature;
    let mut bytes = signature.as_bytes().to_vec();
    for _ in 0..1 + input.byte() % 2 {
        let at = usize::from(input.byte()) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= input.byte();
        }
    }
    if let Some(changed) = Signature::new(&bytes) {
        *signature = changed;
    }
    *signature != before
}
