------------------------------ MODULE HotStuff ------------------------------
(* What chained HotStuff (ThreeChain) and the two-chain rule (TwoChain) share: proposals, votes, certificates, locks,   *)
(* time-outs, commits, and what a replica remembers when it is restarted.                                               *)
(*                                                                                                                      *)
(* Messages are not modelled. What was signed is known to whoever happens to hear of it: `votes` and `timeOuts` only    *)
(* grow, and a replica may at any time learn any certificate that they make, or never. That covers loss, delay,         *)
(* repetition and any order.                                                                                            *)
(*                                                                                                                      *)
(* The faulty sign whatever is of use to somebody: a certificate exists as soon as the correct votes and all the faulty *)
(* ones make a quorum. They also propose what they like.                                                                *)
EXTENDS Chains, FiniteSets

CONSTANTS Replicas,          \* all of them
          Faulty,            \* those that lie
          MayVote(_, _, _),  \* the rules: see ThreeChain and TwoChain
          LockOf(_),
          CommitOf(_)

VARIABLES
  blocks,     \* the blocks that were made
  \* Of each correct replica, what it has signed:
  votes,      \* the blocks that it voted for
  timeOuts,   \* <<view given up, view of its highest certificate>>
  \* And what it has:
  known,      \* the blocks whose certificates it has seen
  highQc,     \* the highest of them
  highTc,     \* the highest view of which it has seen a time-out certificate
  lock,       \* the block it is locked on
  voted,      \* the last block it decided to vote for
  gaveUp,     \* the highest view it decided to give up
  proposed,   \* the highest view it proposed in
  committed,  \* the last block it committed
  unsigned,   \* what it decided to sign, each with the record that is written first
  durable     \* the record that was surely written: what it finds at least when it starts again

own  == <<known, highQc, highTc, lock, voted, gaveUp, proposed, committed, unsigned, durable>>
vars == <<blocks, votes, timeOuts, own>>

Correct == Replicas \ Faulty
Quorum  == Cardinality(Replicas) - (Cardinality(Replicas) - 1) \div 3
Max(a, b) == IF a > b THEN a ELSE b

---------------------------------------------------------------------------
(* Certificates *)

Certified(b) ==
  \/ b = Genesis
  \/ /\ b \in blocks
     /\ Cardinality({r \in Correct : b \in votes[r]}) + Cardinality(Faulty) >= Quorum

(* A time-out certificate of `view` can be made of words none of which tells of a certificate above `high`. *)
TcExists(view, high) ==
  LET signers == {r \in Correct : \E t \in timeOuts[r] : t[1] = view /\ t[2] <= high}
  IN Cardinality(signers) + Cardinality(Faulty) >= Quorum

(* Some certificate commits b. *)
Final(b) == \/ b = Genesis
            \/ \E q \in blocks : Certified(q) /\ Extends(CommitOf(q), b)

---------------------------------------------------------------------------
(* What a replica is, by what it has seen *)

Newer(a, b) == IF ViewOf(a) > ViewOf(b) THEN a ELSE b
ViewAt(r) == Max(ViewOf(highQc[r]), highTc[r]) + 1

(* The record that must be on disk before a signature leaves. *)
Record(r) == [voted |-> voted[r], gaveUp |-> gaveUp[r], high |-> highQc[r], lock |-> lock[r],
              proposed |-> proposed[r]]
(* A record once written is not taken back by one that was to be written before it. *)
Later(a, b) == IF /\ ViewOf(a.voted) >= ViewOf(b.voted) /\ a.gaveUp >= b.gaveUp
                  /\ ViewOf(a.high) >= ViewOf(b.high) /\ ViewOf(a.lock) >= ViewOf(b.lock)
               THEN a ELSE b
Blank == [voted |-> Genesis, gaveUp |-> 0, high |-> Genesis, lock |-> Genesis, proposed |-> 0]

Init ==
  /\ blocks = {Genesis}
  /\ votes = [r \in Correct |-> {}]
  /\ timeOuts = [r \in Correct |-> {}]
  /\ known = [r \in Correct |-> {Genesis}]
  /\ highQc = [r \in Correct |-> Genesis]
  /\ highTc = [r \in Correct |-> 0]
  /\ lock = [r \in Correct |-> Genesis]
  /\ voted = [r \in Correct |-> Genesis]
  /\ gaveUp = [r \in Correct |-> 0]
  /\ proposed = [r \in Correct |-> 0]
  /\ committed = [r \in Correct |-> Genesis]
  /\ unsigned = [r \in Correct |-> {}]
  /\ durable = [r \in Correct |-> Blank]

---------------------------------------------------------------------------
(* Blocks *)

(* A faulty replica makes a block: on any certificate, in any later view, as many as it likes. *)
Lie(b) ==
  /\ b \notin blocks
  /\ Certified(ParentOf(b)) /\ ViewOf(b) > ViewOf(ParentOf(b))
  /\ blocks' = blocks \cup {b}
  /\ UNCHANGED <<votes, timeOuts, own>>

(* A correct one: once a view, in its own view, upon its highest certificate. Who leads is not modelled. *)
OnceAView(r, b) == ViewOf(b) > proposed[r]
Propose(r, b) ==
  /\ b \notin blocks
  /\ ViewOf(b) = ViewAt(r)
  /\ OnceAView(r, b)
  /\ ViewOf(b) > gaveUp[r]
  /\ ParentOf(b) = highQc[r]
  /\ blocks' = blocks \cup {b}
  /\ proposed' = [proposed EXCEPT ![r] = ViewOf(b)]
  /\ UNCHANGED <<votes, timeOuts, known, highQc, highTc, lock, voted, gaveUp, committed, unsigned, durable>>

---------------------------------------------------------------------------
(* What a replica learns *)

LearnQc(r, b) ==
  /\ Certified(b)
  /\ known' = [known EXCEPT ![r] = @ \cup {b}]
  /\ highQc' = [highQc EXCEPT ![r] = Newer(b, @)]
  /\ UNCHANGED <<blocks, votes, timeOuts, highTc, lock, voted, gaveUp, proposed, committed, unsigned, durable>>

LearnTc(r, view, high) ==
  /\ TcExists(view, high)
  /\ view >= highTc[r]
  /\ highTc' = [highTc EXCEPT ![r] = view]
  /\ UNCHANGED <<blocks, votes, timeOuts, known, highQc, lock, voted, gaveUp, proposed, committed, unsigned, durable>>

(* Not always at once: the rule looks at the certified block, which may have to be fetched. *)
LockOn(r, b) ==
  /\ \E q \in known[r] : LockOf(q) = b
  /\ ViewOf(b) > ViewOf(lock[r])
  /\ lock' = [lock EXCEPT ![r] = b]
  /\ UNCHANGED <<blocks, votes, timeOuts, known, highQc, highTc, voted, gaveUp, proposed, committed, unsigned, durable>>

(* One block after the other, each with its certificate's chain. *)
Commit(r, b) ==
  /\ b # Genesis /\ ParentOf(b) = committed[r]
  /\ \E q \in known[r] : Extends(CommitOf(q), b)
  /\ committed' = [committed EXCEPT ![r] = b]
  /\ UNCHANGED <<blocks, votes, timeOuts, known, highQc, highTc, lock, voted, gaveUp, proposed, unsigned, durable>>

(* The state after a block that others have committed is taken over. *)
Install(r, b) ==
  /\ ViewOf(b) > ViewOf(committed[r])
  /\ Final(b)
  /\ committed' = [committed EXCEPT ![r] = b]
  /\ UNCHANGED <<blocks, votes, timeOuts, known, highQc, highTc, lock, voted, gaveUp, proposed, unsigned, durable>>

---------------------------------------------------------------------------
(* What a replica decides, and what it signs then. Between the two it writes its record. *)

(* All that its justify says must have been done before a block is voted for: known, and locked. *)
Ready(r, b) == ParentOf(b) \in known[r] /\ ViewOf(LockOf(ParentOf(b))) <= ViewOf(lock[r])
Safe(r, b)  == MayVote(lock[r], b, TcExists(ViewOf(b) - 1, ViewOf(ParentOf(b))))

Vote(r, b) ==
  /\ b \in blocks
  /\ ViewOf(b) = ViewAt(r)
  /\ ViewOf(b) > ViewOf(voted[r])
  /\ ViewOf(b) > gaveUp[r]
  /\ Ready(r, b)
  /\ Safe(r, b)
  /\ voted' = [voted EXCEPT ![r] = b]
  /\ unsigned' = [unsigned EXCEPT ![r] =
       @ \cup {[kind |-> "vote", block |-> b, view |-> ViewOf(b), first |-> [Record(r) EXCEPT !.voted = b]]}]
  /\ UNCHANGED <<blocks, votes, timeOuts, known, highQc, highTc, lock, gaveUp, proposed, committed, durable>>

SignVote(r, b) == \E s \in unsigned[r] :
  /\ s.kind = "vote" /\ s.block = b
  /\ votes' = [votes EXCEPT ![r] = @ \cup {b}]
  /\ durable' = [durable EXCEPT ![r] = Later(s.first, @)]
  /\ unsigned' = [unsigned EXCEPT ![r] = @ \ {s}]
  /\ UNCHANGED <<blocks, timeOuts, known, highQc, highTc, lock, voted, gaveUp, proposed, committed>>

(* It may give up a view that it has not entered: others have. And one again, with a newer certificate. *)
TimeOut(r, view) ==
  /\ view >= ViewAt(r)
  /\ gaveUp' = [gaveUp EXCEPT ![r] = Max(@, view)]
  /\ unsigned' = [unsigned EXCEPT ![r] =
       @ \cup {[kind |-> "time-out", block |-> highQc[r], view |-> view,
                first |-> [Record(r) EXCEPT !.gaveUp = Max(@, view)]]}]
  /\ UNCHANGED <<blocks, votes, timeOuts, known, highQc, highTc, lock, voted, proposed, committed, durable>>

SignTimeOut(r, view, high) == \E s \in unsigned[r] :
  /\ s.kind = "time-out" /\ s.view = view /\ s.block = high
  /\ timeOuts' = [timeOuts EXCEPT ![r] = @ \cup {<<view, ViewOf(high)>>}]
  /\ durable' = [durable EXCEPT ![r] = Later(s.first, @)]
  /\ unsigned' = [unsigned EXCEPT ![r] = @ \ {s}]
  /\ UNCHANGED <<blocks, votes, known, highQc, highTc, lock, voted, gaveUp, proposed, committed>>

---------------------------------------------------------------------------
(* A replica stops and starts again with what its disk holds: not less than what it had written before it last signed,  *)
(* not more than it had. The vote that it finds it may sign (again); anything else that was decided is forgotten.       *)

Between(low, it, high) == low <= it /\ it <= high
Remembers(r, s) ==
  /\ Between(ViewOf(durable[r].voted), ViewOf(s.voted), ViewOf(voted[r]))
  /\ Between(durable[r].gaveUp, s.gaveUp, gaveUp[r])
  /\ s.high \in known[r] /\ ViewOf(durable[r].high) <= ViewOf(s.high)
  /\ Between(ViewOf(durable[r].lock), ViewOf(s.lock), ViewOf(lock[r]))

Restart(r, s, view, head) ==
  /\ Remembers(r, s)
  /\ view <= highTc[r]
  /\ Final(head)
  /\ known' = [known EXCEPT ![r] = {b \in @ : ViewOf(b) <= ViewOf(s.high)}]
  /\ highQc' = [highQc EXCEPT ![r] = s.high]
  /\ highTc' = [highTc EXCEPT ![r] = view]
  /\ lock' = [lock EXCEPT ![r] = s.lock]
  /\ voted' = [voted EXCEPT ![r] = s.voted]
  /\ gaveUp' = [gaveUp EXCEPT ![r] = s.gaveUp]
  /\ proposed' = [proposed EXCEPT ![r] = s.proposed]
  /\ committed' = [committed EXCEPT ![r] = head]
  /\ durable' = [durable EXCEPT ![r] = s]
  /\ unsigned' = [unsigned EXCEPT ![r] = IF s.voted = Genesis THEN {} ELSE
       {[kind |-> "vote", block |-> s.voted, view |-> ViewOf(s.voted), first |-> s]}]
  /\ UNCHANGED <<blocks, votes, timeOuts>>

---------------------------------------------------------------------------
(* What must hold *)

(* Everything that some certificate commits lies on one chain: whether anybody has learnt so or not. *)
Agreement ==
  LET final == {CommitOf(b) : b \in {b \in blocks : Certified(b)}}
  IN \A a, b \in final : Comparable(a, b)

(* What replicas have committed does. *)
CommittedAgree == \A r, s \in Correct : Comparable(committed[r], committed[s])

OneVoteAView == \A r \in Correct : \A a, b \in votes[r] : ViewOf(a) = ViewOf(b) => a = b

(* Each view has one certificate. *)
OneCertificateAView ==
  LET certified == {b \in blocks : Certified(b)}
  IN \A a, b \in certified : ViewOf(a) = ViewOf(b) => a = b

---------------------------------------------------------------------------
(* What is to be reached, or nothing was shown: each is expected to be violated. *)

NoCommit == \A b \in blocks : Certified(b) => CommitOf(b) = Genesis
NoConflict == \A a, b \in blocks : Certified(a) /\ Certified(b) => Comparable(a, b)
NoCommitBesideConflict == NoCommit \/ NoConflict
=============================================================================
