---- MODULE ExploreTwoChain ----
EXTENDS Explore
Rule == INSTANCE TwoChain
RuleMayVote(head, b, free) == Rule!MayVote(head, b, free)
RuleLockOf(b) == Rule!LockOf(b)
RuleCommitOf(b) == Rule!CommitOf(b)
====
