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
        "the check `round + 1 == round` of Jolteon / DiemBFT v4 left out; same flaw as early Fast-HotStuff",
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
        "HotStuff (Yin et al. 2019), section 5: a commit needs direct parents, without which dummy blocks are skipped",
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
        "HotStuff 2019, section 4.4: why two phases are not enough without more view-change work",
    ),
    of(
        "hotstuff-basic",
        "basic-commit-at-pre-commit",
        "basic: commits on the certificate of pre-commit votes",
        "HotStuff 2019, Algorithm 2 with the commit phase left out",
    ),
    mutant(
        "lock-never-updated",
        "the lock stays at genesis",
        "Twins (Bano et al. 2020), 'forgotten lock' among the bugs injected into DiemBFT",
    ),
    of(
        "hotstuff-chained",
        "lock-rule-inverted",
        "chained: votes where the justify is older than the lock, not newer",
        "the vote rule of HotStuff (Algorithm 4, safeNode) with its comparison inverted; tool evaluations by mutation (e.g. ByzzFuzz 2023)",
    ),
    mutant(
        "vote-ignores-rules",
        "votes whatever the lock or the time-out certificate says",
        "Twins 2020: safety rules switched off",
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
        "DiemBFT v4 `safe_to_extend` left out; Jolteon section 3",
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
        "'All File Systems Are Not Created Equal' class of bugs; Tendermint: privval state saved after signing",
    ),
    mutant(
        "write-error-ignored",
        "an error of the log is passed over",
        "fsyncgate (PostgreSQL 2018); 'Can Applications Recover from fsync Failures?' (2020)",
    ),
    mutant(
        "vote-not-persisted",
        "the safety record is not written with a vote",
        "amnesia: Diem safety rules without persistent storage; Tendermint double signing after a reset",
    ),
    mutant(
        "time-out-not-persisted",
        "the safety record is not written with a time-out",
        "amnesia, for time-outs: reliability.md, threat 1",
    ),
    mutant(
        "safety-not-restored",
        "the safety record is not taken over at a restart",
        "amnesia: an empty sign state after a restart (Tendermint `priv_validator_state.json`)",
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
        "DiemBFT v4: `last_voted_round` not raised by a time-out",
    ),
    mutant(
        "two-votes-in-view",
        "a second vote in one view is cast",
        "Twins 2020: double voting; PaLa / Pili counter-examples",
    ),
    mutant(
        "past-view-voted",
        "votes for proposals of views it has left",
        "HotStuff implementations that check the lock and not the view",
    ),
    mutant(
        "proposer-not-checked",
        "any replica may propose in any view",
        "public HotStuff code bases: the proposer of a block not compared with the elected leader",
    ),
    mutant(
        "leader-from-own-commits",
        "leaders are elected from what this replica happens to have committed",
        "Carousel (Cohen et al. 2022): replicas that commit at different times disagree on the leader",
    ),
    mutant(
        "quorum-2f",
        "a quorum is 2f",
        "off by one: the collector's own vote counted beside 2f others, and not cast",
    ),
    mutant("quorum-f-plus-1", "a quorum is f + 1", "witness threshold taken for quorum threshold"),
    mutant(
        "quorum-2f-plus-1",
        "a quorum is 2f + 1, also where n is not 3f + 1",
        "the papers' 2f + 1 taken literally (public code bases with n = 5, 6)",
    ),
    mutant(
        "duplicate-signers",
        "a signer may be listed twice in a certificate",
        "public BFT libraries: uniqueness of signers checked in debug builds only",
    ),
    mutant(
        "unknown-signers",
        "signers outside the committee count",
        "public BFT libraries: signers counted before the key look-up",
    ),
    mutant(
        "empty-certificate",
        "a certificate without signers is accepted",
        "aggregate signatures: empty bitmap with the point at infinity",
    ),
    mutant(
        "genesis-unchecked",
        "any certificate of view 0 is the genesis certificate",
        "public HotStuff code bases: `if qc.view == 0 { return true }`",
    ),
    mutant(
        "proposal-justify-unchecked",
        "the justify of a proposal is not verified",
        "public HotStuff code bases: justify verified on votes and time-outs, not on proposals",
    ),
    mutant(
        "vote-verdicts-ignored",
        "votes whose signatures fail make certificates",
        "batch verification whose verdict is not looked at",
    ),
    mutant(
        "phase-not-signed",
        "a vote does not sign its phase",
        "replay across phases: reliability.md, threats",
    ),
    mutant(
        "chain-not-signed",
        "signatures are not bound to the chain",
        "replay across chains (EIP-155 and its consensus kin)",
    ),
    mutant(
        "epoch-not-signed",
        "signatures are not bound to the epoch",
        "replay across epochs: reliability.md, threats",
    ),
    mutant(
        "mixed-view-tc",
        "time-outs of this view and of later ones are counted together",
        "public HotStuff code bases: time-outs kept per sender and counted without their view",
    ),
    mutant(
        "tc-high-qc-unchecked",
        "a time-out certificate may carry a lower QC than its signers hold",
        "DiemBFT v4: `high_qc` of a TC not compared with the signed rounds",
    ),
    of(
        "hotstuff-fast",
        "agg-qc-votes-unchecked",
        "the votes of an AggQC's highest QC are not verified",
        "Fast-HotStuff 2020: an AggQC is to be checked with its highest QC",
    ),
    mutant(
        "view-stepping",
        "a certificate of a later view leads into the next view only",
        "LibraBFT early pacemakers: re-entering each view; protocols.md section 2, pitfalls",
    ),
    mutant(
        "time-outs-without-votes",
        "time-outs do not carry the last vote",
        "chained HotStuff with one dead of four never commits (BeeGees 2023; protocols.md section 1)",
    ),
    mutant(
        "time-out-sent-once",
        "a time-out is not sent again",
        "public pacemakers on lossy links: a lost time-out is never repeated",
    ),
    mutant(
        "no-back-off",
        "each view is waited for equally long",
        "'fixed timeouts' of public prototypes: no liveness above an unknown delay",
    ),
    mutant(
        "tc-not-forwarded",
        "who makes or gets a time-out certificate keeps it for itself",
        "DiemBFT: a TC held by one replica; protocols.md section 2, pitfalls",
    ),
    mutant(
        "no-join",
        "f + 1 higher time-outs are not joined",
        "purely local timers stall: DiemBFT v4, Bracha-style time-outs added later",
    ),
    of(
        "hotstuff-2",
        "hotstuff-2-no-wait",
        "HotStuff-2: after a bad view the leader does not wait for the locks of all",
        "HotStuff-2 2023: the wait of Δ left out (Tendermint's hidden lock)",
    ),
    mutant(
        "rejoin-without-abstaining",
        "a replica that lost its data votes at once",
        "amnesia: protocols.md section 10; Paxos Made Live (disk corruption)",
    ),
    mutant(
        "abstention-ignored",
        "abstention holds for votes and not for proposals and time-outs",
        "protocols.md section 10: votes, time-outs and proposals",
    ),
    mutant(
        "rejoin-one-testimony",
        "one testimony is enough to come back",
        "quorum of one at recovery: viewstamped replication's recovery without f + 1",
    ),
    mutant(
        "nonce-not-compared",
        "testimonies of an earlier rejoin count",
        "replayed recovery responses: viewstamped replication revisited, section 4.3",
    ),
    mutant(
        "future-votes-unbounded",
        "votes of any number of future views are kept",
        "memory exhaustion by future views: six independent BFT code bases (reliability.md)",
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
        "block metadata taken from the peer instead of derived",
    ),
    mutant(
        "commit-skips-missing",
        "a block whose parent is missing enters all the same, and its commit leaves the gap",
        "hotstuff frameworks: commit goes on when fetching an ancestor failed",
    ),
    mutant(
        "fetched-block-unchecked",
        "the justify of a fetched block is not verified",
        "poisoned sync: CometBFT block sync advisories",
    ),
    mutant(
        "fetch-one-peer",
        "blocks are asked of the first peer only",
        "sync that never turns to another peer",
    ),
    mutant(
        "snapshot-overtaken",
        "a snapshot that blocks have overtaken is installed all the same",
        "state sync racing block sync",
    ),
    mutant(
        "snapshot-root-unchecked",
        "a snapshot's state is not compared with the certified root",
        "poisoned state sync: CometBFT / Cosmos app hash not verified",
    ),
    mutant(
        "snapshot-offer-unchecked",
        "the certificate of a snapshot's root is not verified",
        "poisoned state sync: trusted height from the peer",
    ),
    mutant(
        "state-root-not-compared",
        "votes whatever state root a block carries",
        "application hash not verified before voting",
    ),
    mutant(
        "sessions-lost-at-restart",
        "the session table starts empty beside a restored state",
        "exactly-once tables kept out of the snapshot (Raft dissertation, section 6.3)",
    ),
    mutant(
        "session-order-not-enforced",
        "a frame executes before those numbered below it",
        "client order not kept across leader changes (Raft / Zab: FIFO client order)",
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
        "PBFT: backups relay requests to the primary; left out, a cluster stalls",
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
