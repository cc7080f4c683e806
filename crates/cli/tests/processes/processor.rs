//! How the threads of a replica share the machine's processors.

use std::fs;

use crate::cluster::Cluster;

/// What Linux calls its policies, as `stat` of a thread does (sched(7), proc_pid_stat(5)).
const OTHER: u32 = 0;
const BATCH: u32 = 3;

/// The policies of a process's threads.
fn policies(pid: &str) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let policy = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        // Behind the name, which may hold anything, the policy is field 41 of all and the 39th.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(38)?.parse().ok()
    };
    threads.filter_map(|thread| policy(thread.ok()?)).collect()
}

/// The replicas of a test network share a machine: no thread takes a processor from one at work,
/// unless they are told that it may. Whoever started them under another policy has the last word.
#[test]
fn replicas_that_share_a_machine_wait_for_their_turns() {
    let usual = policies("self")[0];
    let waits = if usual == OTHER { BATCH } else { usual };
    let mut cluster = Cluster::new(&[], &[]);
    cluster.start_replica(0, &[]);
    cluster.start_replica(1, &["--set", "processor.preempts=true"]);
    for (replica, expected) in [(0, waits), (1, usual)] {
        let policies = policies(&cluster.pid(replica).as_raw_nonzero().to_string());
        assert!(policies.len() > 2, "replica {replica}: {policies:?}");
        let all = policies.iter().all(|policy| *policy == expected);
        assert!(all, "replica {replica}: {policies:?}, expected {expected}");
    }
}
