/// f = ⌊(n − 1) / 3⌋: how many of n may lie.
#[must_use]
pub const fn faults(n: usize) -> usize {
    n.saturating_sub(1) / 3
}

/// q = n − f: any two quorums share a correct replica, and the correct ones alone make one.
#[must_use]
pub const fn quorum(n: usize) -> usize {
    n - faults(n)
}

/// f + 1: at least one of these is correct.
#[must_use]
pub const fn honest_witness(n: usize) -> usize {
    faults(n) + 1
}

/// ⌊(n − 1) / 5⌋: how many of n may lie under Frosty, which wants fewer than a fifth (arXiv
/// 2404.14250, abstract).
#[must_use]
pub const fn faults_of_a_fifth(n: usize) -> usize {
    n.saturating_sub(1) / 5
}

/// a: the least number with 3a > 2 (n + f), where f = ⌊(n − 1) / 5⌋. Where a − f correct replicas
/// of n stand by a block, every set of a or more replicas has more of them than of all others:
/// 2a − n − f against n + f − a. It is n − f for n = 5f + 1, never more, and never less than
/// [q](quorum): two sets of a share a correct replica, and the correct ones alone are a.
#[must_use]
pub const fn quorum_of_a_fifth(n: usize) -> usize {
    2 * (n + faults_of_a_fifth(n)) / 3 + 1
}

/// f + 1 with f = ⌊(n − 1) / 5⌋: at least one of these is correct.
#[must_use]
pub const fn witness_of_a_fifth(n: usize) -> usize {
    faults_of_a_fifth(n) + 1
}

/// n − 1: a block of the protocol of two delays that has so many first votes is committed. n where
/// nobody may lie.
#[must_use]
pub const fn fast_quorum(n: usize) -> usize {
    if faults(n) == 0 { n } else { n - 1 }
}

/// n − F + f + 1, with the [fast quorum](fast_quorum) F: a block against which so many replicas
/// cast their first votes has no fast quorum. Outside it are n − F replicas, and f in it may have
/// said two things.
#[must_use]
pub const fn against_fast(n: usize) -> usize {
    n - fast_quorum(n) + faults(n) + 1
}

/// The same among replicas that are not the leader, where the leader is known to lie: it is one of
/// the f.
#[must_use]
pub const fn against_fast_beside_liar(n: usize) -> usize {
    against_fast(n).saturating_sub(1)
}
