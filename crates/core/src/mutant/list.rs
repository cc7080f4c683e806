//! The list of mutants.

/// A bug that is known from a paper or from public code.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// What `mutant!` and the table call it.
    pub name: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// The one variant whose rules it is in.
    pub variant: Option<&'static str>,
}

const fn mutant(name: &'static str, what: &'static str, source: &'static str) -> Mutant {
    Mutant { name, what, source, variant: None }
}

const fn of(
    variant: &'static str,
    name: &'static str,
    what: &'static str,
    source: &'static str,
) -> Mutant {
    Mutant { name, what, source, variant: Some(variant) }
}

/// Every mutant, by theme: rules, durability, voting, certificates, pacemaker, rejoining, bounds,
/// catch-up, commands.
pub const ALL: [Mutant; 74] = [
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
        "protocols.md section 1: a commit needs consecutive certified views",
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
        "protocols.md section 1, Cautions; the guard that makes 3-delay commits safe",
    ),
    mutant(
        "vote-before-persist",
        "outputs are released first and the records written after them",
        "amnesia: reliability.md, threat 1: sent before it was durable",
    ),
    mutant(
        "write-error-ignored",
        "an error of the log is passed over",
        "fsyncgate (PostgreSQL 2018); 'Can Applications Recover from fsync Failures?' (2020)",
    ),
    mutant(
        "vote-not-persisted",
        "the safety record is not written with a vote",
        "amnesia: reliability.md, threat 1",
    ),
    mutant(
        "time-out-not-persisted",
        "the safety record is not written with a time-out",
        "amnesia, for time-outs: reliability.md, threat 1",
    ),
    mutant(
        "safety-not-restored",
        "the safety record is not taken over at a restart",
        "amnesia: reliability.md, threats 1 and 2",
    ),
    mutant(
        "proposal-before-persist",
        "proposals always leave early, whether their view was reserved or not",
        "amnesia, for proposals: equivocating leader after a crash",
    ),
    mutant(
        "proposed-view-forgotten",
        "a restarted leader proposes again in its view",
        "amnesia, for proposals",
    ),
    mutant(
        "vote-after-time-out",
        "votes in a view it gave up",
        "protocols.md section 1: after a time-out of a view no vote in it",
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
        "protocols.md section 3: election is a function of the committed prefix",
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
        "protocols.md section 4: the papers' 2f + 1 taken literally",
    ),
    mutant(
        "duplicate-signers",
        "a signer may be listed twice in a certificate",
        "reliability.md, threats: duplicate signers checked only in debug builds",
    ),
    mutant(
        "unknown-signers",
        "signers outside the committee count",
        "class of bug: signers counted before their keys are looked up",
    ),
    mutant(
        "empty-certificate",
        "a certificate without signers is accepted",
        "reliability.md, threats: empty bitmap with the point at infinity",
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
        "replay across phases: reliability.md, threats",
    ),
    mutant(
        "chain-not-signed",
        "signatures are not bound to the chain",
        "reliability.md, threats: replay across chain, epoch, phase",
    ),
    mutant(
        "epoch-not-signed",
        "signatures are not bound to the epoch",
        "replay across epochs: reliability.md, threats",
    ),
    mutant(
        "mixed-view-tc",
        "time-outs of this view and of later ones are counted together",
        "protocols.md section 2, pitfalls: time-outs of mixed views counted together",
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
        "protocols.md section 2, pitfalls: stepping by one view",
    ),
    mutant(
        "time-outs-without-votes",
        "time-outs do not carry the last vote",
        "protocols.md section 1, liveness of the three-chain",
    ),
    mutant(
        "time-out-sent-once",
        "a time-out is not sent again",
        "protocols.md section 2: resend for ever",
    ),
    mutant(
        "no-back-off",
        "each view is waited for equally long",
        "class of bug: fixed time-outs have no liveness above an unknown delay",
    ),
    mutant(
        "tc-not-forwarded",
        "who makes or gets a time-out certificate keeps it for itself",
        "protocols.md section 2, pitfalls: a TC held by one replica",
    ),
    mutant(
        "no-join",
        "f + 1 higher time-outs are not joined",
        "protocols.md section 2, pitfalls: purely local timers",
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
        "amnesia: protocols.md section 10",
    ),
    mutant(
        "abstention-ignored",
        "abstention holds for votes and not for proposals and time-outs",
        "protocols.md section 10: votes, time-outs and proposals",
    ),
    mutant(
        "rejoin-one-testimony",
        "one testimony is enough to come back",
        "protocols.md section 10: waits for q of them",
    ),
    mutant(
        "nonce-not-compared",
        "testimonies of an earlier rejoin count",
        "class of bug: replayed recovery responses",
    ),
    mutant(
        "future-votes-unbounded",
        "votes of any number of future views are kept",
        "memory exhaustion by future views: six independent BFT code bases",
    ),
    mutant(
        "verifications-unbounded",
        "any number of a peer's messages waits for verification",
        "memory exhaustion by unverified messages",
    ),
    mutant(
        "mempool-unbounded",
        "the mempool takes in whatever comes",
        "memory exhaustion by pending commands",
    ),
    mutant(
        "known-unbounded",
        "the cache of verified signatures never forgets",
        "memory exhaustion by caches without eviction",
    ),
    mutant(
        "block-height-unchecked",
        "a block's height and view need not fit its parent's",
        "reliability.md, threats: derive fields, do not copy them",
    ),
    mutant(
        "commit-skips-missing",
        "a block whose parent is missing enters all the same, and its commit leaves the gap",
        "protocols.md section 2, pitfalls: missing ancestors at commit",
    ),
    mutant(
        "fetched-block-unchecked",
        "the justify of a fetched block is not verified",
        "reliability.md, threats: poisoned sync",
    ),
    mutant(
        "fetch-one-peer",
        "blocks are asked of the first peer only",
        "reliability.md, threats: deadline per request, rotate",
    ),
    mutant(
        "snapshot-overtaken",
        "a snapshot that blocks have overtaken is installed all the same",
        "class of bug: state sync racing block sync",
    ),
    mutant(
        "snapshot-root-unchecked",
        "a snapshot's state is not compared with the certified root",
        "reliability.md, threats: corrupt or wrong snapshot",
    ),
    mutant(
        "snapshot-offer-unchecked",
        "the certificate of a snapshot's root is not verified",
        "reliability.md, threats: corrupt or wrong snapshot",
    ),
    mutant(
        "state-root-not-compared",
        "votes whatever state root a block carries",
        "reliability.md, threats: state root agreed on",
    ),
    mutant(
        "sessions-lost-at-restart",
        "the session table starts empty beside a restored state",
        "exactly-once tables kept out of the snapshot (Raft dissertation, section 6.3)",
    ),
    mutant(
        "session-order-not-enforced",
        "a frame executes before those numbered below it",
        "protocols.md section 10: per session execution is contiguous",
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
        "protocols.md section 2: idle and send-to-one",
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
];
