//! File descriptors: how many the process may have, and what each part of a replica may take of
//! them.
//!
//! A replica that cannot open the next file of its log, or a snapshot's, must end. So connections
//! never get what these need: the limit is divided before anything is accepted, and each listener
//! keeps to its share. Beyond it connections give way or are refused. Where the system has none
//! left all the same (the limit of the whole machine, say), a [`Door`](quorate_transport::Door)
//! refuses those who wait.

use quorate_transport::{LEAVING, Limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::http;

/// For snapshots, locks, files made in advance, the runtime, standard streams and what is opened by
/// the way.
const OWN: usize = 128;
/// For each replica: its connection, one that takes its place, one that is dialled, the look-up of
/// its name, and a snapshot that it reads.
const OF_REPLICA: usize = 5;
/// Without so many for connections a replica does not start.
const LEAST: usize = 128;
/// For a gateway's runtime, streams, listener, and what is opened by the way.
const OF_GATEWAY: usize = 64;
/// Without so many for Redis clients a gateway does not start.
const LEAST_OF_GATEWAY: usize = 16;

/// What to do about too few.
pub const REMEDY: &str =
    "raise the limit of open files (`ulimit -n 65536`; LimitNOFILE=65536 in a unit of systemd)";

/// The process may open too few files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process may have {limit} files and connections open, and needs {needed}: {why}")]
pub struct TooFew {
    /// How many there may be.
    pub limit: usize,
    /// How many there must be.
    pub needed: usize,
    /// What for, with the keys that change it.
    pub why: String,
}

/// Files that a replica's configuration makes it keep open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Of the log, as `storage.log_window` says.
    pub log: usize,
    /// Of the log at most: from a snapshot to the next but one nothing is let go of.
    pub log_at_most: usize,
    /// Of the state, where it is on disk, as `limits.max_state_bytes` says.
    pub state: usize,
}

impl Files {
    /// Those of a log of `window_bytes` in segments of `segment_bytes`, of which `snapshot_bytes`
    /// at most come between two snapshots.
    #[must_use]
    pub fn of_log(window_bytes: u64, segment_bytes: u64, snapshot_bytes: u64) -> Self {
        // One that is written to, and one of which the window begins in the middle.
        let segments = |bytes: u64| {
            usize::try_from(bytes / segment_bytes.max(1)).unwrap_or(usize::MAX).saturating_add(2)
        };
        let log = segments(window_bytes);
        Self { log, log_at_most: log.max(segments(snapshot_bytes.saturating_mul(2))), state: 0 }
    }
}

/// What connections may use, and the files that are kept for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Of other replicas.
    pub peers: Limits,
    /// Of clients.
    pub clients: Limits,
    /// Files of the log there is room for.
    pub log: usize,
}

/// Raises the process's limit as far as it may, and says how far that is.
#[must_use]
pub fn raise() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        // Where that is refused, what there is must do.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |current| usize::try_from(current).unwrap_or(usize::MAX))
}

/// Divides `limit` descriptors among a replica's files, peers, clients and readers of HTTP.
///
/// # Errors
/// [`TooFew`] if the files that the configuration asks for and a few connections do not find room.
pub fn divide(limit: usize, replicas: usize, files: Files) -> Result<Shares, TooFew> {
    let kept = (OWN + OF_REPLICA * replicas + http::MOST_CONNECTIONS)
        .saturating_add(files.log)
        .saturating_add(files.state);
    let needed = kept.saturating_add(LEAST);
    if limit < needed {
        let (log, state) = (files.log, files.state);
        let why = format!(
            "{log} for the log (`storage.log_window`), {state} for a state on disk \
             (`limits.max_state_bytes`), {} for {replicas} replicas, {} for all else",
            OF_REPLICA * replicas,
            needed - log - state - OF_REPLICA * replicas,
        );
        return Err(TooFew { limit, needed, why });
    }
    // A log that grows beyond its window comes before connections, as far as half of what is left.
    let beyond = files.log_at_most.saturating_sub(files.log).min((limit - needed) / 2);
    let left = limit - kept - beyond;
    let (mut peers, mut clients) = (Limits::peers(), Limits::clients());
    for limits in [&mut peers, &mut clients] {
        limits.half_open = limits.half_open.min(left / 8);
        limits.half_open_per_address = limits.half_open_per_address.min(limits.half_open);
    }
    // Half-open connections of peers have places of two kinds; each listener may have some on their
    // way out.
    let others = 2 * peers.half_open + clients.half_open + 2 * LEAVING;
    clients.connections = clients.connections.min(left.saturating_sub(others));
    Ok(Shares { peers, clients, log: files.log + beyond })
}

/// How many Redis clients a gateway to `replicas` may have at a time where it may have `limit`
/// descriptors.
///
/// # Errors
/// [`TooFew`] if these are next to none.
pub fn redis_clients(limit: usize, replicas: usize) -> Result<usize, TooFew> {
    let kept = OF_GATEWAY + OF_REPLICA * replicas;
    let needed = kept + LEAST_OF_GATEWAY;
    if limit < needed {
        let why = format!("{} for {replicas} replicas", OF_REPLICA * replicas);
        return Err(TooFew { limit, needed, why });
    }
    Ok(limit - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(shares: &Shares, replicas: usize, files: Files) -> usize {
        let own = OWN + OF_REPLICA * replicas + http::MOST_CONNECTIONS + shares.log + files.state;
        let half_open = 2 * shares.peers.half_open + shares.clients.half_open;
        own + half_open + shares.clients.connections + 2 * LEAVING
    }

    /// All that there may be at once stays within every limit, and no share is empty.
    #[test]
    fn no_share_exceeds_the_limit_and_none_is_empty() {
        let disk = Files { state: 64, ..Files::of_log(1 << 30, 64 << 20, 10_000 << 20) };
        for files in [Files::of_log(64 << 20, 16 << 20, 1 << 20), disk] {
            for replicas in [1, 4, 31, 256] {
                let needed = divide(0, replicas, files).unwrap_err().needed;
                assert_eq!(divide(needed - 1, replicas, files).unwrap_err().limit, needed - 1);
                for limit in (needed..needed + 20_000).step_by(7).chain([usize::MAX]) {
                    let shares = divide(limit, replicas, files).unwrap();
                    let all = taken(&shares, replicas, files);
                    assert!(all <= limit, "{all} of {limit} with {replicas}");
                    assert!(shares.peers.half_open >= 16 && shares.clients.half_open >= 16);
                    assert!(shares.clients.connections >= 16 && shares.log >= files.log);
                }
            }
        }
        let shares = divide(1 << 20, 4, disk).unwrap();
        assert_eq!((shares.peers, shares.clients), (Limits::peers(), Limits::clients()));
        assert_eq!(shares.log, disk.log_at_most);
    }

    #[test]
    fn the_largest_configuration_is_told_apart_from_a_small_one() {
        let huge = Files::of_log(1 << 50, 64 << 20, u64::MAX);
        let refused = divide(20_000, 4, huge).unwrap_err();
        assert!(refused.needed > 1 << 24, "{refused}");
        assert!(refused.to_string().contains("`storage.log_window`"), "{refused}");
        // Whatever snapshots come to, connections keep half of what is left.
        let seldom = Files { log_at_most: usize::MAX, ..Files::of_log(1 << 30, 64 << 20, 0) };
        let shares = divide(20_000, 4, seldom).unwrap();
        assert!(shares.log < 10_000 && shares.clients.connections > 7_000, "{shares:?}");
    }

    #[test]
    fn a_gateway_s_clients_leave_its_replicas_theirs() {
        assert!(redis_clients(64, 4).is_err());
        assert_eq!(redis_clients(1024, 4), Ok(1024 - OF_GATEWAY - 4 * OF_REPLICA));
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_may() {
        let raised = raise();
        let maximum = getrlimit(Resource::Nofile).maximum;
        assert_eq!(raised, maximum.map_or(usize::MAX, |maximum| maximum as usize));
    }
}
