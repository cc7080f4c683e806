//! Linearizable reads that are not ordered: the argument, and what is counted.
//!
//! # The rule
//! A client asks all replicas for the height of the highest block with commands that may be
//! committed, as far as each knows ([`Replica::read_index`]). The *index* is the lowest height that
//! is not below what some q of them say ([`Voters::index`]). Then it asks its questions, *at* that
//! index: a replica answers from its committed state once that has come to the index or beyond. The
//! client believes f + 1 equal answers.
//!
//! # What is read holds every write that was answered before the read began
//! Let a client have been answered for a write in block W, at height h, before the read began.
//! 1. *f + 1 correct replicas know of W*: they say h or more, or refuse. By protocol:
//!    - **HotStuff**: W is committed by q votes of replicas that hold the certificate of W or of a
//!      block above it. These votes are for the last block of the chain that commits W, or second
//!      votes for W, or votes of the last phase of basic HotStuff. f + 1 of the voters are correct.
//!      The certificate is in their safety records before they vote, and a high QC of a later view
//!      is of a block that extends W: W is committed. So the height of their high QC is h or more.
//!    - **PBFT**: whoever first commits W has q COMMITs, f + 1 of them of correct replicas that
//!      prepared W and wrote that down. n - f equal tentative answers say as much. The block stays
//!      in their sets P until a stable checkpoint covers it.
//!      What is in Q alone says nothing: a primary that lies puts it there.
//!    - **Two delays**: F first votes commit W, or q second votes. F - f and q - f are f + 1 or
//!      more. Who cast a second vote had the block's QC. Who cast a first vote says the block's
//!      height while it is in that view, and leaves the view by the QC of W, for no TC is possible
//!      where W was committed (`docs/protocols/two-delay.md`).
//! 2. *Any q replicas include one of these*: n - q = f replicas are left out. So what it says is
//!    among the q heights, and the index is h or more. This holds of every q replicas that answer,
//!    also of the q that say the least. Hence no certificate needs to be shown: a liar that names
//!    too great a height is left out as soon as the others have answered, and one that names too
//!    small a height is one of the f. (PBFT with MACs could not show one.)
//! 3. *A committed state at height h or more holds W*, for there is one committed block at each
//!    height. Whether the block that gave the index its height is committed does not matter: a
//!    block that took its place is at that height as well, or above.
//! 4. *One of f + 1 equal answers is a correct replica's*, from such a state.
//!
//! A later read does not go back: the first one saw the state of some committed block, and 1 to 3
//! hold of the last block with commands in it. Answers need not be of one height to be believed, as
//! they are equal. All questions of one caller are compared as a whole: so they are answered from
//! one state, in their order.
//!
//! Each step needs the replicas to be asked **after the read began**. What a replica said before
//! may leave out a write that was answered in between. So a read joins no round that has begun; it
//! shares the next one with all that came meanwhile ([`reads`](super::reads)).
//!
//! # Who must not count
//! A replica that lost its data may have been one of the f + 1. It says nothing until it knows as
//! much again. In HotStuff that is a certificate of the last view that it abstains from: that view
//! is later than any it voted in, and the certified block extends whatever it helped to commit. In
//! PBFT it is the view in which it speaks again, which begins with such blocks; until it accepted
//! these once, it counts toward f as before.
//!
//! A replica that restarts, or takes over a snapshot, has its record still, and its state is a
//! committed one. If blocks are missing so that it cannot tell heights, it refuses.
//!
//! # Members that change
//! Heights go on from epoch to epoch. A client counts by the committee of one epoch and names that
//! epoch; a replica in another one, or at its end, refuses. Let W be of a later epoch than the
//! client's. The block that sealed the client's epoch is committed, so by 1 and 2 it is at the
//! index or below; a correct replica whose state has come to it refuses to answer. So the client
//! reads nothing, and looks for the members. Let W be of an earlier epoch: whoever is in the
//! client's epoch has executed W.
//!
//! # Why it ends
//! An idle cluster makes no blocks. A certified block without commands above the committed ones may
//! stay as it is for ever, and differ from replica to replica. It changes no state and no client
//! was answered for it, so replicas name blocks *with* commands. (So an application whose state
//! changes by empty blocks is not for these reads.) A certified block with commands keeps leaders
//! proposing until it is committed or another one is at its height. What is left is rare: a height
//! that only one correct replica names, of a block that no quorum has any more. It is left out like
//! a liar's when all others answer. Where f liars are silent besides, the read is not answered in
//! time, and the caller orders it.
//!
//! # Which protocols have it
//! Not Snowman: a block is accepted by samples, each replica by its own, and no fixed q replicas
//! know of it. Not the sequencer, where a replica knows what its leader tells it. They refuse.
//!
//! Source: the read index of Raft (Ongaro, *Consensus: Bridging Theory and Practice*, 2014, section
//! 6.4), with q replicas in place of the leader. A leader, or its lease, would have to be believed.
//! q equal answers to a plain question are not enough either: writes are acknowledged by f + 1
//! replicas, and the other q may all be behind.
//!
//! [`Replica::read_index`]: crate::replica::Replica::read_index

use std::collections::BTreeMap;

use crate::base::membership::{Committee, honest_witness, quorum};
use crate::base::types::{Epoch, Height, ReplicaId};

/// How much each replica counts in a read, and by which epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voters {
    /// The epoch.
    pub epoch: Epoch,
    weights: Vec<usize>,
    quorum: usize,
    witness: usize,
}

impl Voters {
    /// The members of a committee.
    #[must_use]
    pub fn of(committee: &Committee) -> Self {
        let ids = (0..committee.size()).map(|id| ReplicaId(id as u16));
        Self {
            epoch: committee.epoch(),
            weights: ids.map(|id| committee.weight(id)).collect(),
            quorum: committee.quorum(),
            witness: committee.honest_witness(),
        }
    }

    /// So many replicas that weigh the same, in the first epoch.
    #[must_use]
    pub fn equal(replicas: usize) -> Self {
        let (quorum, witness) = (quorum(replicas), honest_witness(replicas));
        Self { epoch: Epoch(0), weights: vec![1; replicas], quorum, witness }
    }

    /// The replicas that count.
    pub(super) fn ids(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let ids = (0..self.weights.len()).map(|id| ReplicaId(id as u16));
        ids.filter(|id| self.weight([*id]) > 0)
    }

    /// How much these count together.
    pub(super) fn weight(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> usize {
        let weight = |id: ReplicaId| self.weights.get(id.index()).copied().unwrap_or(0);
        replicas.into_iter().map(weight).sum()
    }

    /// Whether one of these is correct.
    pub(super) fn has_witness(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> bool {
        self.weight(replicas) >= self.witness
    }

    /// Whether q may still answer if these do not.
    pub(super) fn can_do_without(&self, replicas: impl IntoIterator<Item = ReplicaId>) -> bool {
        self.weight(self.ids()) - self.weight(replicas) >= self.quorum
    }

    /// The lowest height that is not below what some q replicas say; `None` until q have said one.
    #[must_use]
    pub fn index(&self, said: &BTreeMap<ReplicaId, Height>) -> Option<Height> {
        let needed = mutant!("read-index-of-a-witness", self.witness, self.quorum);
        let mut heights: Vec<_> = said.iter().map(|(id, height)| (*height, *id)).collect();
        heights.sort_unstable();
        let mut weight = 0;
        let mut heights = heights.into_iter();
        let reached = heights.find(|(_, id)| {
            weight += self.weight([*id]);
            weight >= needed
        });
        reached.map(|(height, _)| height)
    }
}
