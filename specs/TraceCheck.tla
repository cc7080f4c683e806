----------------------------- MODULE TraceCheck -----------------------------
(* Is each recorded run an execution of the specification? The module TraceData holds the runs, written by               *)
(* `quorate-spec` from the files that docs/model.md describes: Table, of each block its view and its parent (block 0 is  *)
(* Genesis; no block is of two runs), and Traces, of each its name and its steps. A step is a tuple: what, who, and with *)
(* what. All that a step may be is an action of HotStuff; the first that is not is printed, with the reason, and the     *)
(* run goes no further.                                                                                                  *)
EXTENDS HotStuff, Sequences, TLC, TraceData

VARIABLES trace, line, verdict

Root            == 0
TableView(b)    == IF b = 0 THEN 0 ELSE Table[b][1]
TableParent(b)  == IF b = 0 THEN 0 ELSE Table[b][2]

Steps == Traces[trace][2]
Told  == Steps[line]

Found(s) == [voted |-> s[3], gaveUp |-> s[4], high |-> s[5], lock |-> s[6], proposed |-> durable[s[2]].proposed]

Step(s) ==
  CASE s[1] = "start"         -> Restart(s[2], Found(s), s[7], s[8])
    [] s[1] = "propose"       -> IF s[2] \in Faulty THEN Lie(s[3]) ELSE Propose(s[2], s[3])
    [] s[1] = "qc"            -> LearnQc(s[2], s[3])
    [] s[1] = "tc"            -> LearnTc(s[2], s[3], s[4])
    [] s[1] = "lock"          -> LockOn(s[2], s[3])
    [] s[1] = "commit"        -> Commit(s[2], s[3])
    [] s[1] = "install"       -> Install(s[2], s[3])
    [] s[1] = "vote"          -> Vote(s[2], s[3])
    [] s[1] = "time-out"      -> highQc[s[2]] = s[4] /\ TimeOut(s[2], s[3])
    [] s[1] = "sign-vote"     -> SignVote(s[2], s[3])
    [] s[1] = "sign-time-out" -> SignTimeOut(s[2], s[3], s[4])

---------------------------------------------------------------------------
(* Which condition of an action does not hold: for people. The verdict does not rest on it. *)

WhyNotVote(r, b) ==
  CASE b \notin blocks                -> "nobody made that block"
    [] ViewOf(b) <= ViewOf(voted[r])  -> "it has voted in that view, or a later one"
    [] ViewOf(b) <= gaveUp[r]         -> "it has given up that view, or a later one"
    [] ViewOf(b) # ViewAt(r)          -> "it is in another view"
    [] ~Ready(r, b)                   -> "it has not seen, or not locked on, what the block's justify says"
    [] ~Safe(r, b)                    -> "the vote rule forbids it: lock or time-out certificate"
    [] OTHER                          -> "?"

WhyNotStart(r, s) ==
  CASE ViewOf(s.voted) < ViewOf(durable[r].voted) -> "it has forgotten a vote that it signed"
    [] s.gaveUp < durable[r].gaveUp               -> "it has forgotten a time-out that it signed"
    [] ViewOf(s.lock) < ViewOf(durable[r].lock)   -> "its lock is lower than when it last signed"
    [] ViewOf(s.high) < ViewOf(durable[r].high)   -> "its certificate is lower than when it last signed"
    [] ~Remembers(r, s)                           -> "it remembers what was not so"
    [] OTHER                                      -> "what it takes for committed is not"

WhyNotPropose(r, b) ==
  CASE r \in Faulty             -> "its parent is not certified"
    [] b \in blocks             -> "that block exists"
    [] ~OnceAView(r, b)         -> "it has proposed in that view, or a later one"
    [] ViewOf(b) # ViewAt(r)    -> "it is in another view"
    [] ParentOf(b) # highQc[r]  -> "its parent is not of its highest certificate"
    [] OTHER                    -> "it has given up that view"

WhyNotCommit(r, b) ==
  CASE ParentOf(b) # committed[r] -> "its parent is not the last block committed"
    [] OTHER                      -> "no certificate that it has seen commits that block"

Why(s) ==
  CASE s[1] = "start"       -> WhyNotStart(s[2], Found(s))
    [] s[1] = "propose"     -> WhyNotPropose(s[2], s[3])
    [] s[1] = "qc"          -> "no quorum has voted for that block"
    [] s[1] = "tc"          -> "no quorum has given up that view, with no higher certificate than that"
    [] s[1] = "lock"        -> "no certificate that it has seen says so"
    [] s[1] = "commit"      -> WhyNotCommit(s[2], s[3])
    [] s[1] = "install"     -> "no certificate commits that block"
    [] s[1] = "vote"        -> WhyNotVote(s[2], s[3])
    [] s[1] = "time-out"    -> IF highQc[s[2]] # s[4] THEN "its highest certificate is another"
                                                      ELSE "it has left that view"
    [] OTHER                -> "it has not decided to sign that"

---------------------------------------------------------------------------
Begin == Init /\ trace \in 1 .. Len(Traces) /\ line = 1 /\ verdict = "so far"

Allowed  == line <= Len(Steps) /\ Step(Told) /\ line' = line + 1 /\ UNCHANGED <<trace, verdict>>
Refused  == /\ line <= Len(Steps) /\ ~ENABLED Step(Told)
            /\ PrintT(<<"REJECTED", Traces[trace][1], line, Why(Told)>>)
            /\ verdict' = "rejected" /\ UNCHANGED <<vars, trace, line>>
Accepted == /\ line = Len(Steps) + 1
            /\ PrintT(<<"ACCEPTED", Traces[trace][1], Len(Steps), Cardinality(blocks) - 1>>)
            /\ verdict' = "accepted" /\ UNCHANGED <<vars, trace, line>>

(* Looked at when a run has come to its end. *)
AgreedInTheEnd == verdict # "so far" => CommittedAgree

Follow == verdict = "so far" /\ (Allowed \/ Refused \/ Accepted)
=============================================================================
