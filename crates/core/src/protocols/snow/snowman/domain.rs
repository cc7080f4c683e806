//! Who takes part, what their signatures are bound to, and how large samples of them are.

use super::tree::Rules;
use super::words::{Content, Types};
use crate::base::crypto::{Check, Kind, Share, Signature, Statement};
use crate::base::membership::{Committee, faults_of_a_fifth};
use crate::base::types::{Digest, Height, ReplicaId, View};
use crate::base::wire::Encode as _;
use crate::protocols::checkpoint::{Checkpoint, Stable};
use crate::protocols::protocol::{BlockOf, Malformed};
use crate::protocols::snow::parameters::Parameters;
use crate::protocols::snow::random::Random;

/// Tells this protocol's signatures from those of others.
const NUMBER: u8 = 24;
const CHECKPOINT: u8 = 3;

/// A committee, and the sample that fits it.
#[derive(Clone, Debug)]
pub struct Domain {
    committee: Committee,
    parameters: Parameters,
}

impl Domain {
    /// Of a committee. Where a sample would be all others or more, everybody is asked, the own
    /// preference counts as an answer, and α is a quorum.
    pub fn new(committee: Committee, wanted: Parameters) -> Self {
        let quorum = committee.quorum();
        Self::asking(committee, wanted, quorum)
    }

    /// The same with a [fallback](super::frosty): α is what its argument asks for, which is a where
    /// everybody is asked, and nine tenths of other samples.
    pub fn falling_back(committee: Committee, wanted: Parameters) -> Self {
        let quorum = committee.quorum_of_a_fifth();
        let asks_all = committee.size() - 1 <= wanted.sample as usize;
        let wanted = if asks_all { wanted } else { wanted.for_fallback() };
        Self::asking(committee, wanted, quorum)
    }

    fn asking(committee: Committee, wanted: Parameters, quorum: usize) -> Self {
        let (others, size) = (committee.size() - 1, committee.size() as u32);
        let parameters = match others <= wanted.sample as usize {
            true => Parameters { sample: size, quorum: quorum as u32, ..wanted },
            false => wanted,
        };
        Self { committee, parameters }
    }

    /// Who takes part.
    pub fn committee(&self) -> &Committee {
        &self.committee
    }

    /// k, α and β.
    pub fn parameters(&self) -> Parameters {
        self.parameters
    }

    /// Whether each poll asks everybody.
    pub fn asks_all(&self) -> bool {
        self.parameters.sample as usize >= self.committee.size()
    }

    /// What a poll takes.
    pub(super) fn rules(&self) -> Rules {
        let witness = self.committee.honest_witness() as u32;
        let liars = faults_of_a_fifth(self.committee.size()) as u32;
        Rules { parameters: self.parameters, asks_all: self.asks_all(), witness, liars }
    }

    /// How many replicas may be benched at once.
    pub fn most_benched(&self) -> usize {
        self.committee.size() * self.parameters.most_benched_permille() as usize / 1000
    }

    /// How many windows a replica waits before it extends a block: its place in an order drawn from
    /// the block, another one for each.
    pub fn turn(&self, parent: &Digest, replica: ReplicaId) -> u32 {
        let mut seed = [0; 8];
        seed.copy_from_slice(&parent.0[..8]);
        let mut random = Random::new(u64::from_le_bytes(seed));
        let mut order: Vec<ReplicaId> = self.committee.replicas().collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        order.iter().position(|other| *other == replica).unwrap_or(0) as u32
    }

    /// What is signed of a checkpoint.
    pub fn checkpoint(&self, checkpoint: &Checkpoint) -> Statement {
        let content = Digest::of("quorate snowman checkpoint", &checkpoint.to_bytes());
        self.statement(Kind::Vote, CHECKPOINT, &content)
    }

    /// What a testimony signs.
    pub fn testimony(&self, content: &Digest) -> Statement {
        self.statement(Kind::Testimony, 0, content)
    }

    pub(super) fn statement(&self, kind: Kind, phase: u8, content: &Digest) -> Statement {
        let (chain, epoch) = (self.committee.chain(), self.committee.epoch());
        Statement::new(&chain, epoch, NUMBER, kind, View(0), phase, content)
    }

    /// What has to hold of a checkpoint that one replica signed.
    pub fn signed(
        &self,
        signer: ReplicaId,
        checkpoint: &Checkpoint,
        signature: Signature,
    ) -> Vec<Check> {
        let statement = self.checkpoint(checkpoint);
        vec![Check::Replica(Share { signer, statement, signature })]
    }

    /// What has to hold of a stable checkpoint.
    pub fn stable(&self, stable: &Stable) -> Result<Vec<Check>, Malformed> {
        let statement = self.checkpoint(&stable.checkpoint);
        stable.checks(&self.committee, self.committee.honest_witness(), statement)
    }

    /// What a block rests on by itself.
    pub fn block(&self, block: &BlockOf<Types>) -> Result<Vec<Check>, Malformed> {
        let Content { epoch, height, proposer, stable, .. } = &***block;
        if *epoch != self.committee.epoch() {
            return Err(Malformed::WrongEpoch);
        }
        if !self.committee.contains(*proposer) {
            return Err(Malformed::UnknownSigner);
        }
        match stable {
            Some(stable) if stable.checkpoint.height >= *height => Err(Malformed::Contradiction),
            _ if *height == Height(0) => Err(Malformed::Contradiction),
            Some(stable) => self.stable(stable),
            None => Ok(Vec::new()),
        }
    }
}
