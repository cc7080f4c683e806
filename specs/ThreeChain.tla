----------------------------- MODULE ThreeChain -----------------------------
(* Chained HotStuff. Yin, Malkhi, Reiter, Golan Gueta, Abraham: "HotStuff: BFT Consensus in the Lens of Blockchain",    *)
(* Algorithms 4 and 5 (event-driven: onReceiveProposal, update); the dissertation's Algorithm 1, with its UPDATE        *)
(* outside the condition of the vote, as docs/protocols/hotstuff-chained.md says.                                       *)
EXTENDS Chains

(* safeNode: the block extends the locked one, or its justify is newer than the lock. A time-out certificate is not     *)
(* looked at: `free` is not used.                                                                                       *)
MayVote(lock, b, free) == \/ Extends(b, lock)
                          \/ ViewOf(ParentOf(b)) > ViewOf(lock)

(* With a certificate for b2, the certificate of its parent b1 is the head of a two-chain: lock on it. *)
LockOf(b2) == ParentOf(b2)

(* ... and b, the parent of b1, is committed if b, b1 and b2 are of consecutive views. *)
CommitOf(b2) == LET b1 == ParentOf(b2) IN
                IF Consecutive(b2) /\ Consecutive(b1) THEN ParentOf(b1) ELSE Genesis
=============================================================================
