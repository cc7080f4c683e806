------------------------------ MODULE Explore -------------------------------
(* The specification explored within a bound: every execution of so many views, in three ways.                          *)
EXTENDS HotStuff, TLC

CONSTANTS Payloads,   \* a liar makes so many different blocks upon one certificate in one view
          MaxView

VARIABLES view,       \* view by view only: the view that is gone through,
          waiting     \* and who is still to act in it

all == <<vars, view, waiting>>

(* A block is its view, its payload, and its parent. *)
First          == <<0, 0>>
BlockView(b)   == b[1]
BlockParent(b) == IF b = First THEN b ELSE b[3]

CertifiedBlocks == {b \in blocks : Certified(b)}

Start == Init /\ view = 1 /\ waiting = Correct

---------------------------------------------------------------------------
(* 1. Freely: the actions as they are, in any order, restarts included. What correct leaders propose the liar may       *)
(* propose as well.                                                                                                     *)

Found(r) == durable[r]

Acts(r) ==
  \/ \E b \in blocks \ known[r] : LearnQc(r, b)
  \/ \E v \in highTc[r] + 1 .. MaxView : LearnTc(r, v, MaxView)
  \/ \E q \in known[r] : LockOn(r, LockOf(q))
  \/ \E b \in blocks : Vote(r, b) \/ SignVote(r, b) \/ Commit(r, b)
  \/ ViewAt(r) <= MaxView /\ ViewAt(r) > gaveUp[r] /\ TimeOut(r, ViewAt(r))
  \/ \E s \in unsigned[r] : SignTimeOut(r, s.view, s.block)
  \/ Restart(r, Found(r), 0, Genesis)

Lies == \E v \in 1 .. MaxView, p \in Payloads, parent \in CertifiedBlocks :
          ViewOf(parent) < v /\ Lie(<<v, p, parent>>)

Freely == (Lies \/ \E r \in Correct : Acts(r)) /\ UNCHANGED <<view, waiting>>

---------------------------------------------------------------------------
(* 2. View by view, each replica in turn: it learns some certificate, votes or does not, signs, gives the view up.      *)
(* Nobody in view v has seen a certificate of v or above, so that what happens in v rests on lower views, and every     *)
(* execution can be put in this order. (docs/model.md.) Only the newest certificate is kept in `known`, and only the    *)
(* time-outs of two views: no action asks for more.                                                                     *)

Learns(r, newest, head) ==
  /\ known' = [known EXCEPT ![r] = {newest}]
  /\ highQc' = [highQc EXCEPT ![r] = newest]
  /\ lock' = [lock EXCEPT ![r] = head]

GivesUp(r, high) ==
  timeOuts' = [timeOuts EXCEPT ![r] = {t \in @ : t[1] >= view - 1} \cup {<<view, ViewOf(high)>>}]

Votes(r, b, head) ==
  /\ MayVote(head, b, TcExists(view - 1, ViewOf(ParentOf(b))))
  /\ blocks' = blocks \cup {b}
  /\ votes' = [votes EXCEPT ![r] = @ \cup {b}]

Turn(r) ==
  \E newest \in {b \in CertifiedBlocks : ViewOf(highQc[r]) <= ViewOf(b) /\ ViewOf(b) < view} :
    LET head == Newer(lock[r], LockOf(newest)) IN
    \/ /\ Learns(r, newest, head)
       /\ GivesUp(r, newest)
       /\ UNCHANGED <<blocks, votes>>
    \/ \E p \in Payloads, parent \in {b \in CertifiedBlocks : ViewOf(b) <= ViewOf(newest)} :
         LET locked == Newer(head, LockOf(parent)) IN
         /\ Votes(r, <<view, p, parent>>, locked)
         /\ Learns(r, newest, locked)
         /\ GivesUp(r, newest)

Advances(left) == IF left # {} THEN view' = view /\ waiting' = left
                  ELSE view' = view + 1 /\ waiting' = Correct

(* What decides how it goes on: old blocks count if they are certified, whoever voted for them. *)
Outlook == <<CertifiedBlocks, [r \in Correct |-> {b \in votes[r] : ViewOf(b) = view}],
             [r \in Correct |-> {t \in timeOuts[r] : t[1] >= view - 1}], highQc, lock, view, waiting>>

Unmoved == UNCHANGED <<highTc, voted, gaveUp, proposed, committed, unsigned, durable>>

ByView == \E r \in waiting : view <= MaxView /\ Turn(r) /\ Advances(waiting \ {r}) /\ Unmoved

---------------------------------------------------------------------------
(* 3. Sparingly: at most one block a view gets votes, of just enough correct replicas, and only voters learn, no more   *)
(* than the block itself shows. Who knows less may do more. Deeper, for less.                                           *)

Needed == Quorum - Cardinality(Faulty)

SparingVotes(b, voters) ==
  LET head(r) == Newer(lock[r], LockOf(ParentOf(b))) IN
  /\ \A r \in voters : MayVote(head(r), b, TcExists(view - 1, ViewOf(ParentOf(b))))
  /\ blocks' = blocks \cup {b}
  /\ votes' = [r \in Correct |-> IF r \in voters THEN votes[r] \cup {b} ELSE votes[r]]
  /\ lock' = [r \in Correct |-> IF r \in voters THEN head(r) ELSE lock[r]]
  /\ known' = [r \in Correct |-> IF r \in voters THEN {ParentOf(b)} ELSE known[r]]
  /\ highQc' = [r \in Correct |-> IF r \in voters THEN Newer(ParentOf(b), highQc[r]) ELSE highQc[r]]

Sparingly ==
  /\ view <= MaxView
  /\ \/ UNCHANGED <<blocks, votes, lock, known, highQc>>
     \/ \E parent \in CertifiedBlocks, voters \in {s \in SUBSET Correct : Cardinality(s) = Needed} :
          SparingVotes(<<view, 1, parent>>, voters)
  /\ timeOuts' = [r \in Correct |-> {<<view, ViewOf(highQc'[r])>>}]
  /\ view' = view + 1
  /\ UNCHANGED waiting
  /\ Unmoved

---------------------------------------------------------------------------
(* Correct replicas are alike. *)
Symmetry == Permutations(Correct)

(* Bugs, each in place of one definition: what is left must break. *)
AnyVote(head, b, free) == TRUE
NoLock(q) == Genesis
SkippingThree(b2) == ParentOf(ParentOf(b2))
EarlyThree(b2) == IF Consecutive(b2) THEN ParentOf(b2) ELSE Genesis
SkippingTwo(p) == ParentOf(p)
EarlyTwo(p) == p
SmallQuorum == 2 * ((Cardinality(Replicas) - 1) \div 3)
FoundNothing(r) == Blank
RemembersAnything(r, s) == TRUE
=============================================================================
