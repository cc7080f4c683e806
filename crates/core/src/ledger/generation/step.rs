use std::sync::Arc;

use bytes::Bytes;

use super::plan::Plan;
use crate::base::crypto::{COMPLAINT_BYTES, Check, ENCRYPTION_PROOF_BYTES, PublicKey, Signature};
use crate::base::membership::{Committee, MAX_REPLICAS, Rules};
use crate::base::types::{Digest, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes};
use crate::ledger::approvals::{self, Approvals};

/// What the command begins with.
const MAGIC: &[u8] = b"quorate generation 1";
/// Its words, without the number of the encoding.
const WORDS: &[u8] = b"quorate generation ";

/// The longest dealing: of the largest committee, whose quorum commits to as many points of 96
/// bytes, beside a share of 32 bytes for each and three proofs.
pub const MAX_DEALING_BYTES: usize = 256 + MAX_REPLICAS * (96 + 32);

/// A step of a key generation: an ordered command, alone in its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It begins.
    Begin {
        /// What with.
        plan: Plan,
        /// Of each dealer, that it knows the secret half of its encryption key: over
        /// [`Dealer::possession`](super::Dealer::possession).
        proofs: Vec<[u8; ENCRYPTION_PROOF_BYTES]>,
        /// Of administrators, over [`Plan::approval`].
        approvals: Approvals,
    },
    /// A member deals.
    Deal {
        /// What the generation was begun with.
        plan: Plan,
        /// The member.
        dealer: ReplicaId,
        /// Its dealing.
        dealing: Bytes,
        /// Its signature, over [`Plan::dealing`].
        signature: Signature,
    },
    /// A member shows that a dealer cheated.
    Complain {
        /// What the generation was begun with.
        plan: Plan,
        /// The dealer.
        dealer: ReplicaId,
        /// What it dealt.
        dealing: Bytes,
        /// The member whose share does not fit.
        recipient: ReplicaId,
        /// The secret that shows the share, and its proof.
        evidence: [u8; COMPLAINT_BYTES],
    },
}

/// What the state keeps of a dealing.
#[must_use]
pub fn dealing_digest(dealing: &[u8]) -> Digest {
    Digest::of("quorate dealing", dealing)
}

impl Step {
    /// Whether a command is a step, by its first bytes, in an epoch with these rules. Before the
    /// rules that know them, it is a command like any other.
    #[must_use]
    pub fn is_one(command: &[u8], rules: Rules) -> bool {
        rules.core >= Rules::GENERATED_KEYS && command.starts_with(WORDS)
    }

    /// The step as a command.
    #[must_use]
    pub fn to_command(&self) -> Vec<u8> {
        let mut command = MAGIC.to_vec();
        self.encode(&mut command);
        command
    }

    /// The step that a command is.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn of_command(command: &[u8]) -> Result<Self, DecodeError> {
        let encoded = command.strip_prefix(MAGIC).ok_or(DecodeError::Invalid {
            field: "format tag: this program reads steps of format 1",
        })?;
        Self::from_bytes(Bytes::copy_from_slice(encoded))
    }

    /// What the generation was begun with.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        match self {
            Self::Begin { plan, .. } | Self::Deal { plan, .. } | Self::Complain { plan, .. } => {
                plan
            }
        }
    }

    /// Whether it rests on signatures of administrators of the current epoch alone, each once, or
    /// on none of administrators. If not, no signature is worth verifying.
    #[must_use]
    pub fn is_of_administrators(&self, current: &Committee) -> bool {
        match self {
            Self::Begin { approvals, .. } => approvals::are_of_administrators(approvals, current),
            Self::Deal { .. } | Self::Complain { .. } => true,
        }
    }

    /// Whether it may come in a frame that this key signed. A beginning may come in anybody's:
    /// administrators signed it. A dealing and a complaint come in a frame of the member whose
    /// step it is.
    #[must_use]
    pub fn may_be_sent_by(&self, key: &PublicKey) -> bool {
        let Some(member) = self.member() else { return true };
        let plan = self.plan();
        plan.place(member).is_some_and(|at| plan.dealers[at].key == *key)
    }

    /// The member whose step it is; `None` of a beginning.
    #[must_use]
    pub fn member(&self) -> Option<ReplicaId> {
        match self {
            Self::Begin { .. } => None,
            Self::Deal { dealer, .. } => Some(*dealer),
            Self::Complain { recipient, .. } => Some(*recipient),
        }
    }

    /// Whether no correct member of this epoch passes it on: it is to begin a generation that its
    /// epoch could not begin, or one of a later epoch. It costs no cryptography to see that.
    #[must_use]
    pub fn is_malformed(&self, current: &Committee) -> bool {
        let plan = self.plan();
        if plan.ends != current.epoch() {
            // One that came too late may still be in an honest mempool.
            return plan.ends > current.epoch();
        }
        let is_member = |id: ReplicaId| current.member(id).is_some();
        matches!(self, Self::Begin { .. })
            && !(self.is_of_administrators(current)
                && plan.dealers.iter().all(|dealer| is_member(dealer.id)))
    }

    /// How many of its [checks](Self::checks), the first ones, are signatures of whoever stands for
    /// it: its administrators, or its dealer.
    #[must_use]
    pub fn signatures(&self) -> usize {
        match self {
            Self::Begin { approvals, .. } => approvals.len(),
            Self::Deal { .. } => 1,
            Self::Complain { .. } => 0,
        }
    }

    /// What has to hold: signatures first, which cost the least.
    #[must_use]
    pub fn checks(&self, chain: &Digest) -> Vec<Check> {
        let round = || Arc::new(self.plan().round(chain));
        match self {
            Self::Begin { plan, proofs, approvals } => {
                let mut checks = approvals::checks(approvals, plan.approval(chain));
                let proofs = planted!("encryption-keys-unproved", &[][..], &proofs[..]);
                checks.extend(plan.dealers.iter().zip(proofs).map(|(dealer, proof)| {
                    let context = dealer.possession(chain, plan.ends, plan.serial);
                    Check::EncryptionKey { context, key: dealer.encryption, proof: *proof }
                }));
                checks
            }
            Self::Deal { plan, dealer, dealing, signature } => {
                // One without a place was refused as it was read.
                let Some(at) = plan.place(*dealer) else { return Vec::new() };
                let statement = plan.dealing(chain, *dealer, dealing);
                let (key, signature) = (plan.dealers[at].key, *signature);
                let signed = Check::Client { key, statement, signature };
                vec![
                    signed,
                    Check::Dealing { round: round(), dealer: at, dealing: dealing.clone() },
                ]
            }
            Self::Complain { plan, dealer, dealing, recipient, evidence } => {
                let places = plan.place(*dealer).zip(plan.place(*recipient));
                let Some((dealer, recipient)) = places else { return Vec::new() };
                let (dealing, evidence) = (dealing.clone(), *evidence);
                vec![Check::Complaint { round: round(), dealer, dealing, recipient, evidence }]
            }
        }
    }
}

/// The plan ‖ 1 for a beginning, a proof of 64 bytes for each dealer and the approvals; 2 for a
/// dealing, its dealer u16, the dealing and the signature; 3 for a complaint, the dealer u16, the
/// dealing, the recipient u16 and the evidence.
impl Encode for Step {
    fn encode(&self, out: &mut Vec<u8>) {
        self.plan().encode(out);
        match self {
            Self::Begin { proofs, approvals, .. } => {
                out.push(1);
                proofs.iter().for_each(|proof| out.extend_from_slice(proof));
                approvals::encode(approvals, out);
            }
            Self::Deal { dealer, dealing, signature, .. } => {
                out.push(2);
                dealer.encode(out);
                put_bytes(out, dealing);
                signature.encode(out);
            }
            Self::Complain { dealer, dealing, recipient, evidence, .. } => {
                out.push(3);
                dealer.encode(out);
                put_bytes(out, dealing);
                recipient.encode(out);
                out.extend_from_slice(evidence);
            }
        }
    }
}

impl Decode for Step {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let plan = Plan::decode(reader)?;
        let of_plan = |id: ReplicaId| match plan.place(id) {
            Some(_) => Ok(id),
            None => Err(DecodeError::Invalid { field: "dealer: not one of the plan" }),
        };
        match reader.u8()? {
            1 => {
                let proofs = plan.dealers.iter().map(|_| reader.array());
                let proofs = proofs.collect::<Result<_, DecodeError>>()?;
                Ok(Self::Begin { proofs, approvals: approvals::decode(reader)?, plan })
            }
            2 => {
                let dealer = of_plan(ReplicaId::decode(reader)?)?;
                let dealing = reader.byte_string("a dealing", MAX_DEALING_BYTES)?;
                Ok(Self::Deal { dealer, dealing, signature: Signature::decode(reader)?, plan })
            }
            3 => {
                let dealer = of_plan(ReplicaId::decode(reader)?)?;
                let dealing = reader.byte_string("a dealing", MAX_DEALING_BYTES)?;
                let recipient = of_plan(ReplicaId::decode(reader)?)?;
                Ok(Self::Complain { dealer, dealing, recipient, evidence: reader.array()?, plan })
            }
            _ => Err(DecodeError::Invalid { field: "step of a key generation" }),
        }
    }
}
