//! The list of mutants.

use super::entry::{EPOCHS, Mutant, mutant, of};
use super::two_delay::TWO_DELAY;

/// Every mutant.
pub const ALL: [Mutant; OTHERS.len() + TWO_DELAY.len()] = {
    let mut all = [OTHERS[0]; OTHERS.len() + TWO_DELAY.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < OTHERS.len() { OTHERS[at] } else { TWO_DELAY[at - OTHERS.len()] };
        at += 1;
    }
    all
};

/// By theme: rules, durability, voting, certificates, pacemaker, rejoining, bounds, catch-up,
/// commands, PBFT, epochs.
const OTHERS: [Mutant; 103] = [
    of(
        "hotstuff-fast",
        "fast-commit-any-views",
        "Fast: a block is committed on its child's certificate, whatever their views",
        "Fast-HotStuff, first version (Jalalzai, Niu, Feng 2020): direct parents without consecutive views",
    ),
    of(
        "hotstuff-two-chain",
        "two-chain-commit-any-views",
        "two-chain: the same",
        "same flaw as early Fast-HotStuff",
    ),
    of(
        "hotstuff-2",
        "hotstuff-2-commit-any-views",
        "HotStuff-2: the same",
        "same flaw as early Fast-HotStuff",
    ),
    of(
        "hotstuff-chained",
        "chained-commit-any-views",
        "chained: three certified blocks in a row commit, whatever their views",
        "the HotStuff paper, Algorithm 3: the three blocks need not be of consecutive views",
    ),
    of(
        "hotstuff-simplified",
        "simplified-commit-any-views",
        "simplified: the grandparent is committed, whatever its view",
        "Jehl 2021: g.view + 2 = p.view left out",
    ),
    of(
        "hotstuff-chained",
        "chained-commit-two-chain",
        "chained: commits on a two-chain, with the lock of a three-chain",
        "class of bug: a two-chain commit without the view change that it needs",
    ),
    of(
        "hotstuff-basic",
        "basic-commit-at-pre-commit",
        "basic: commits on the certificate of pre-commit votes",
        "class of bug: a phase left out",
    ),
    mutant(
        "lock-never-updated",
        "the lock stays at genesis",
        "class of bug: a safety rule without its state",
    ),
    of(
        "hotstuff-chained",
        "lock-rule-inverted",
        "chained: votes where the justify is older than the lock, not newer",
        "class of bug: HotStuff's safeNode with its comparison inverted",
    ),
    mutant(
        "vote-ignores-rules",
        "votes whatever the lock or the time-out certificate says",
        "class of bug: safety rules switched off",
    ),
    of(
        "hotstuff-2",
        "hotstuff-2-lock-ignored",
        "HotStuff-2: votes for a justify below the lock",
        "HotStuff-2 (Malkhi, Nayak 2023), safety rule left out",
    ),
    of(
        "hotstuff-two-chain",
        "two-chain-tc-ignored",
        "two-chain: a time-out certificate lets any justify pass",
        "DiemBFT v4, `safe_to_vote`, second case left out (Jolteon section 3)",
    ),
    of(
        "hotstuff-fast",
        "fast-agg-qc-ignored",
        "Fast: after a bad view the block need not extend the AggQC's highest QC",
        "Fast-HotStuff 2020, Algorithm 2: the check of the AggQC left out",
    ),
    mutant(
        "high-qc-reversed",
        "the high QC is replaced by lower ones, not by higher",
        "dissertation, Algorithm 2: UPDATEQCHIGH's assignment is reversed as printed",
    ),
    mutant(
        "votes-to-current-leader",
        "votes go to the leader of their view, and the next one waits for them",
        "dissertation, chained HotStuff: sent to the current leader, collected by the next",
    ),
    of(
        "hotstuff-two-chain",
        "second-vote-unguarded",
        "two-chain: the second vote is cast after giving up on the view",
        "class of bug: the guard left out that makes a commit in three delays safe",
    ),
    mutant(
        "vote-before-persist",
        "outputs are released first and the records written after them",
        "class of bug: amnesia, as words are sent before they are durable",
    ),
    mutant(
        "write-error-ignored",
        "an error of the log is passed over",
        "fsyncgate (PostgreSQL 2018); 'Can Applications Recover from fsync Failures?' (2020)",
    ),
    mutant(
        "vote-not-persisted",
        "the safety record is not written with a vote",
        "class of bug: amnesia, for votes",
    ),
    mutant(
        "time-out-not-persisted",
        "the safety record is not written with a time-out",
        "class of bug: amnesia, for time-outs",
    ),
    mutant(
        "safety-not-restored",
        "the safety record is not taken over at a restart",
        "class of bug: amnesia after a restart",
    ),
    mutant(
        "proposal-before-persist",
        "proposals always leave early, whether their view was reserved or not",
        "class of bug: amnesia, for proposals: a leader equivocates after a crash",
    ),
    mutant(
        "proposed-view-forgotten",
        "a restarted leader proposes again in its view",
        "class of bug: amnesia, for proposals",
    ),
    mutant(
        "vote-after-time-out",
        "votes in a view it gave up",
        "Jolteon, section 3: after a time-out of a round there is no vote in it",
    ),
    mutant("two-votes-in-view", "a second vote in one view is cast", "class of bug: double voting"),
    mutant(
        "past-view-voted",
        "votes for proposals of views it has left",
        "class of bug: the lock is checked and not the view",
    ),
    mutant(
        "proposer-not-checked",
        "any replica may propose in any view",
        "class of bug: the proposer is not compared with the elected leader",
    ),
    mutant(
        "leader-from-own-commits",
        "leaders are elected from what this replica happens to have committed",
        "class of bug: an election that is no function of the chain it is for",
    ),
    mutant("quorum-2f", "a quorum is 2f", "class of bug: off by one"),
    mutant(
        "quorum-f-plus-1",
        "a quorum is f + 1",
        "class of bug: one threshold taken for the other",
    ),
    mutant(
        "quorum-2f-plus-1",
        "a quorum is 2f + 1, also where n is not 3f + 1",
        "PBFT (Castro, Liskov 1999), section 4: its 2f + 1, which is for n = 3f + 1, taken literally",
    ),
    mutant(
        "duplicate-signers",
        "a signer may be listed twice in a certificate",
        "class of bug: duplicate signers that only debug builds refuse",
    ),
    mutant(
        "unknown-signers",
        "signers outside the committee count",
        "class of bug: signers counted before their keys are looked up",
    ),
    mutant(
        "empty-certificate",
        "a certificate without signers is accepted",
        "class of bug: no signers, with the point at infinity as their signature",
    ),
    mutant(
        "genesis-unchecked",
        "any certificate of view 0 is the genesis certificate",
        "class of bug: an exception for genesis that is too wide",
    ),
    mutant(
        "proposal-justify-unchecked",
        "the justify of a proposal is not verified",
        "class of bug: one path without the check",
    ),
    mutant(
        "vote-verdicts-ignored",
        "votes whose signatures fail make certificates",
        "class of bug: a verdict that nobody looks at",
    ),
    mutant(
        "phase-not-signed",
        "a vote does not sign its phase",
        "class of bug: replay across phases",
    ),
    mutant(
        "chain-not-signed",
        "signatures are not bound to the chain",
        "class of bug: replay across chains",
    ),
    mutant(
        "epoch-not-signed",
        "signatures are not bound to the epoch",
        "class of bug: replay across epochs",
    ),
    mutant(
        "mixed-view-tc",
        "time-outs of this view and of later ones are counted together",
        "class of bug: time-outs of several views counted together",
    ),
    mutant(
        "tc-high-qc-unchecked",
        "a time-out certificate may carry a lower QC than its signers hold",
        "class of bug: fields that do not match what was signed",
    ),
    of(
        "hotstuff-fast",
        "agg-qc-votes-unchecked",
        "the votes of an AggQC's highest QC are not verified",
        "class of bug: half of Fast-HotStuff's check of the AggQC",
    ),
    mutant(
        "view-stepping",
        "a certificate of a later view leads into the next view only",
        "class of bug: a replica that was away enters each view in turn",
    ),
    mutant(
        "time-outs-without-votes",
        "time-outs do not carry the last vote",
        "class of bug: with one of four replicas dead no three views in a row are certified",
    ),
    mutant(
        "time-out-sent-once",
        "a time-out is not sent again",
        "class of bug: what is lost once is lost for good",
    ),
    mutant(
        "no-back-off",
        "each view is waited for equally long",
        "class of bug: fixed time-outs have no liveness above an unknown delay",
    ),
    mutant(
        "tc-not-forwarded",
        "who makes or gets a time-out certificate keeps it for itself",
        "class of bug: a time-out certificate that one replica holds alone",
    ),
    mutant(
        "no-join",
        "f + 1 higher time-outs are not joined",
        "PBFT (Castro, Liskov 1999), section 4.5.2: f + 1 higher view changes are joined",
    ),
    of(
        "hotstuff-2",
        "hotstuff-2-no-wait",
        "HotStuff-2: after a bad view the leader does not wait for the locks of all",
        "HotStuff-2 (Malkhi, Nayak 2023): the wait of Δ left out",
    ),
    mutant(
        "rejoin-without-abstaining",
        "a replica that lost its data votes at once",
        "class of bug: amnesia after a loss of data",
    ),
    mutant(
        "abstention-ignored",
        "abstention holds for votes and not for proposals and time-outs",
        "class of bug: amnesia after a loss of data, in proposals and time-outs",
    ),
    mutant(
        "rejoin-one-testimony",
        "one testimony is enough to come back",
        "Viewstamped Replication Revisited (Liskov, Cowling 2012), section 4.3: recovery waits for f + 1 answers",
    ),
    mutant(
        "nonce-not-compared",
        "testimonies of an earlier rejoin count",
        "Viewstamped Replication Revisited, section 4.3: the nonce left out",
    ),
    mutant(
        "future-votes-unbounded",
        "votes of any number of future views are kept",
        "class of bug: memory exhaustion by messages of future views",
    ),
    mutant(
        "verifications-unbounded",
        "any number of a peer's messages waits for verification",
        "class of bug: memory exhaustion by unverified messages",
    ),
    mutant(
        "mempool-unbounded",
        "the mempool takes in whatever comes",
        "class of bug: memory exhaustion by pending commands",
    ),
    mutant(
        "known-unbounded",
        "the cache of verified signatures never forgets",
        "class of bug: memory exhaustion by caches without eviction",
    ),
    mutant(
        "block-height-unchecked",
        "a block's height and view need not fit its parent's",
        "class of bug: a field that could be derived is believed",
    ),
    mutant(
        "commit-skips-missing",
        "a block whose parent is missing enters all the same, and its commit leaves the gap",
        "class of bug: ancestors that are missing at a commit",
    ),
    mutant(
        "fetched-block-unchecked",
        "the justify of a fetched block is not verified",
        "class of bug: poisoned synchronisation",
    ),
    mutant(
        "fetch-one-peer",
        "blocks are asked of the first peer only",
        "class of bug: a request without a deadline",
    ),
    mutant(
        "snapshot-overtaken",
        "a snapshot that blocks have overtaken is installed all the same",
        "class of bug: state sync racing block sync",
    ),
    mutant(
        "snapshot-root-unchecked",
        "a snapshot's state is not compared with the certified root",
        "class of bug: a corrupt snapshot is believed",
    ),
    mutant(
        "snapshot-offer-unchecked",
        "the certificate of a snapshot's root is not verified",
        "class of bug: a snapshot of another state is believed",
    ),
    mutant(
        "state-root-not-compared",
        "votes whatever state root a block carries",
        "class of bug: states part, and nobody compares them",
    ),
    mutant(
        "sessions-lost-at-restart",
        "the session table starts empty beside a restored state",
        "exactly-once tables kept out of the snapshot (Raft dissertation, section 6.3)",
    ),
    mutant(
        "session-order-not-enforced",
        "a frame executes before those numbered below it",
        "class of bug: a client's commands change places",
    ),
    mutant(
        "retry-executes-again",
        "a retried frame is executed again",
        "at-least-once taken for exactly-once: PBFT's last-reply table left out",
    ),
    mutant(
        "filtering-loses-commands",
        "commands leave the mempool when a proposal holds them",
        "dissertation, Algorithm 3: `cmds` and `seen` lose the commands of abandoned forks",
    ),
    mutant(
        "frames-proposed-twice",
        "proposals do not leave out what ancestors hold",
        "dissertation, section on filtering: without it commands are in many blocks",
    ),
    mutant(
        "relay-never-done",
        "frames sent to one replica are not passed on",
        "PBFT (Castro, Liskov 1999), section 4.1: a replica relays a client's request",
    ),
    mutant(
        "frame-signature-unchecked",
        "frames that replicas pass on are not verified",
        "big-MAC attack (Aardvark 2009); forged client commands",
    ),
    mutant(
        "client-believes-f",
        "a client believes f equal answers",
        "PBFT: f + 1 matching replies",
    ),
    of(
        "pbft",
        "pbft-prepared-dropped",
        "a view begins without the blocks that were prepared before",
        "class of bug: a wrong O set",
    ),
    of(
        "pbft",
        "pbft-tip-by-number",
        "a view begins with the chain of the prepared block of the highest number",
        "class of bug: 'the highest prepared tip', read by number",
    ),
    of(
        "pbft",
        "pbft-tip-by-view",
        "a view begins with the chain of the block prepared in the latest view",
        "class of bug: 'the highest prepared tip', read by view",
    ),
    of(
        "pbft",
        "pbft-conflicts-ignored",
        "a view begins with what was prepared first at a number, not last",
        "PBFT's view change (TOCS 2002, section 4.5.2), condition A1 left out",
    ),
    of(
        "pbft",
        "pbft-vouching-ignored",
        "a view begins with what one replica says it prepared",
        "PBFT's view change (TOCS 2002, section 4.5.2), condition A2 left out",
    ),
    of(
        "pbft",
        "pbft-new-view-unchecked",
        "a new view is not recomputed from its view changes",
        "PBFT (Castro, Liskov 1999), section 4.4: backups verify O",
    ),
    of(
        "pbft",
        "pbft-new-view-of-one",
        "a new view may show fewer than q view changes",
        "found in this code by its adversary",
    ),
    of(
        "pbft",
        "pbft-checkpoint-unproved",
        "nobody looks at the signatures of a stable checkpoint",
        "class of bug: the proof of a checkpoint missing",
    ),
    of(
        "pbft",
        "pbft-view-changes-unsigned",
        "the signatures of view changes are not verified",
        "class of bug: a primary forges what others prepared",
    ),
    of(
        "pbft",
        "pbft-words-unsigned",
        "the signatures of pre-prepares and votes are not verified",
        "class of bug: a check of authentication skipped",
    ),
    of(
        "pbft",
        "pbft-high-water-mark",
        "the high water mark is K too high",
        "class of bug: off by a checkpoint",
    ),
    of(
        "pbft",
        "pbft-low-water-mark",
        "the sets P and Q are forgotten K blocks too early",
        "class of bug: off by a checkpoint",
    ),
    of(
        "pbft",
        "pbft-prepared-across-views",
        "prepares of different views are counted together",
        "class of bug: a phase's messages not bound to their view",
    ),
    of(
        "pbft",
        "pbft-commit-at-q-minus-1",
        "q - 1 commits commit a block",
        "class of bug: off by one",
    ),
    of(
        "pbft",
        "pbft-sets-not-persisted",
        "the sets P and Q are not written down",
        "class of bug: amnesia, for what was prepared",
    ),
    of(
        "pbft",
        "pbft-pre-prepared-forgotten",
        "after a restart another block may be accepted at a number",
        "found in this code by its storms",
    ),
    of(
        "pbft",
        "pbft-votes-after-giving-up",
        "accepts and prepares after giving up on a view, before the next one begins",
        "PBFT (Castro, Liskov 1999), section 4.4: a replica stops accepting",
    ),
    of(
        "pbft",
        "pbft-no-join",
        "f + 1 view changes to later views are not joined",
        "PBFT (Castro, Liskov 1999), section 4.5.2",
    ),
    of(
        "pbft",
        "pbft-no-back-off",
        "waits do not double",
        "PBFT (Castro, Liskov 1999), section 4.4",
    ),
    of(
        "pbft",
        "pbft-checkpoint-said-once",
        "a signed checkpoint is not said again",
        "found in this code by its storms",
    ),
    mutant(
        "read-index-of-a-witness",
        "a read goes by the index that f + 1 replicas say",
        "class of bug: writes are acknowledged by f + 1, and any q must know of them",
    ),
    mutant(
        "reads-do-not-wait",
        "a replica answers a read at an index from whatever state it has",
        "Raft (Ongaro 2014), section 6.4, step 3 left out",
    ),
    of(
        EPOCHS,
        "epoch-before-commit",
        "a change of the members counts as soon as its block is certified",
        "class of bug: a configuration taken from an uncommitted entry, with a rule that needs it committed",
    ),
    of(
        EPOCHS,
        "epoch-before-certificate",
        "the next epoch begins before the old committee has attested the state that names it",
        "Lamport, Malkhi, Zhou 2010, section 2: the next configuration is learnt from what was chosen",
    ),
    of(
        EPOCHS,
        "sealed-epoch-goes-on",
        "what the old committee commits above the sealing block is executed",
        "Lamport, Malkhi, Zhou 2010, section 2: a stopped machine executes no command",
    ),
    of(
        EPOCHS,
        "next-committee-not-asked",
        "a change needs no word of the next members that they are ready",
        "class of bug: the cluster is handed to members that are not there",
    ),
    of(
        EPOCHS,
        "removed-member-counts",
        "members that a change removed count in the next epoch",
        "class of bug: a removed member's key goes on counting",
    ),
    of(
        EPOCHS,
        "weights-ignored",
        "a quorum is counted by heads",
        "class of bug: weights that are agreed on and not counted",
    ),
    of(
        EPOCHS,
        "handover-not-persisted",
        "the end of an epoch is not written down",
        "class of bug: amnesia, for epochs",
    ),
];
