//! How the threads of a replica share the machine's processors.

use std::fs;
use std::path::Path;

use crate::cluster::{Cluster, wait_until};

/// What Linux calls its policies, as `stat` of a thread does (sched(7), proc_pid_stat(5)).
const OTHER: u32 = 0;
const BATCH: u32 = 3;
const IDLE: u32 = 5;

/// Threads that answer what anybody may ask. Where others wait for their turns, these wait for all.
const GIVE_WAY: [&str; 4] = ["queries", "proofs", "pulls", "watchers"];

/// A thread, as the system sees it.
struct Thread {
    name: String,
    policy: u32,
    /// The cores it may run on, ascending.
    cores: Vec<usize>,
}

fn thread(task: &Path) -> Option<Thread> {
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    // Behind the name, which may hold anything, the policy is field 41 of all and the 39th.
    let (_, fields) = stat.rsplit_once(')')?;
    let status = fs::read_to_string(task.join("status")).ok()?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    Some(Thread {
        name: fs::read_to_string(task.join("comm")).ok()?.trim_end().to_owned(),
        policy: fields.split_whitespace().nth(38)?.parse().ok()?,
        cores: list.trim().split(',').filter_map(range).flatten().collect(),
    })
}

/// The threads of a process; of one that has just started, not all.
fn threads(pid: &str) -> Vec<Thread> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.filter_map(|task| thread(&task.ok()?.path())).collect()
}

fn threads_of(cluster: &Cluster, replica: usize) -> Vec<Thread> {
    threads(&cluster.pid(replica).as_raw_nonzero().to_string())
}

/// The replicas of a test network share a machine: no thread takes a processor from one at work,
/// unless they are told that it may. Whoever started them under another policy has the last word.
/// There, threads that answer strangers run when nothing else wants to.
#[test]
fn replicas_that_share_a_machine_wait_for_their_turns() {
    let usual = threads("self")[0].policy;
    let waits = if usual == OTHER { BATCH } else { usual };
    let mut cluster = Cluster::new(&[], &[]);
    cluster.start_replica(0, &[]);
    cluster.start_replica(1, &["--set", "processor.preempts=true"]);
    for (replica, expected) in [(0, waits), (1, usual)] {
        // A thread is there before it has its name and its policy.
        wait_until(&format!("replica {replica}: policy {expected}"), || {
            let threads = threads_of(&cluster, replica);
            let gives_way = |thread: &&Thread| GIVE_WAY.contains(&&*thread.name);
            let policy = |thread: &Thread| match gives_way(&thread) && expected == BATCH {
                true => IDLE,
                false => expected,
            };
            threads.iter().filter(gives_way).count() == GIVE_WAY.len()
                && threads.iter().all(|thread| thread.policy == policy(thread))
        });
    }
}

/// The threads of their connections keep to each replica's share of the cores, unless they are told
/// that they may run on all; the other threads take what is idle.
#[test]
fn replicas_that_share_a_machine_divide_its_cores() {
    let all = threads("self")[0].cores.clone();
    let mut cluster = Cluster::new(&[], &[]);
    cluster.start_replica(0, &[]);
    cluster.start_replica(3, &[]);
    cluster.start_replica(1, &["--set", "processor.network_cores=all"]);
    let quarter = all.len().div_ceil(4);
    let (first, last) = (&all[..quarter], &all[all.len() - quarter..]);
    for (replica, expected) in [(0, first), (3, last), (1, &all[..])] {
        // A thread is there before it has its name and its cores.
        wait_until(
            &format!("replica {replica}: its network on {expected:?}, the rest on all"),
            || {
                let threads = threads_of(&cluster, replica);
                let is_there = |name| threads.iter().any(|thread: &Thread| thread.name == name);
                let fits = |thread: &Thread| {
                    thread.cores == if thread.name == "network" { expected } else { &all[..] }
                };
                is_there("network") && is_there("decide") && threads.iter().all(fits)
            },
        );
    }
}
