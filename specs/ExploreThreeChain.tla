---- MODULE ExploreThreeChain ----
EXTENDS Explore
Rule == INSTANCE ThreeChain
RuleMayVote(head, b, free) == Rule!MayVote(head, b, free)
RuleLockOf(b) == Rule!LockOf(b)
RuleCommitOf(b) == Rule!CommitOf(b)
====
