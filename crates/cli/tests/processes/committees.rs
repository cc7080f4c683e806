//! Committees with many times more replicas than the machine has cores. `make large` has 64.

use quorate_app::kv::Reply;
use rustix::process::Signal;

use crate::cluster::writers::set;
use crate::cluster::{Cluster, DEADLINE};

const REPLICAS: u16 = 31;
const COMMANDS: i64 = 20;

#[test]
fn a_large_committee_starts_commits_and_stops() {
    let replicas = std::env::var("QUORATE_TEST_REPLICAS")
        .map_or(REPLICAS, |count| count.parse().expect("QUORATE_TEST_REPLICAS is a number"));
    let mut cluster = Cluster::of(replicas, &[], &[]);
    cluster.start_all();
    let client = cluster.client();
    for number in 0..COMMANDS {
        let command = set(&format!("key {number}"), b"value");
        let answer = client.submit(vec![command]);
        let answer =
            cluster.runtime.block_on(async { tokio::time::timeout(DEADLINE, answer).await });
        assert_eq!(answer.expect("it is committed in time").unwrap().len(), 1);
    }
    // Everybody has them all, not only those who answered.
    let all: Vec<usize> = (0..cluster.size()).collect();
    let height = cluster.height(0);
    all.iter().for_each(|replica| cluster.wait_for_height(*replica, height));
    cluster.wait_until_equal(&all);
    let keys = cluster.keys_held(0);
    assert_eq!(Reply::decode(&keys), Ok(Reply::Integer(COMMANDS)));
    for replica in &all {
        cluster.signal(*replica, Signal::TERM);
    }
    for replica in &all {
        assert!(cluster.ended(*replica).success(), "replica {replica} ends in an orderly way");
    }
}
