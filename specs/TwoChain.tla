------------------------------ MODULE TwoChain ------------------------------
(* Two-chain HotStuff with time-out certificates. Gelashvili, Kokoris-Kogias, Sonnino, Spiegelman, Xiang: "Jolteon and  *)
(* Ditto", section 3; the Diem Team: "DiemBFT v4", safe_to_vote and commit.                                             *)
EXTENDS Chains

(* The block follows right upon its justify; or upon a time-out certificate of the view before, in whose signers'       *)
(* words no certificate is higher than its justify: `free` says that there is such a one. The lock is not looked at:    *)
(* what it protects is in what the signers told.                                                                        *)
MayVote(lock, b, free) == Consecutive(b) \/ free

(* The highest certificate is the lock. *)
LockOf(p) == p

(* With a certificate for p, its parent is committed if the two are of consecutive views. *)
CommitOf(p) == IF Consecutive(p) THEN ParentOf(p) ELSE Genesis
=============================================================================
