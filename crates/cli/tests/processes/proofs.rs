//! `quorate get --verified`: what one replica says is believed for its proof, and a liar is not.

use std::collections::BTreeSet;
use std::process::Output;

use bytes::Bytes;
use quorate_app::kv::command::encode;
use quorate_app::kv::proof::{Refusal, Shown};
use quorate_app::kv::{Condition, Reply};
use quorate_core::ReplicaId;
use quorate_core::client::proven::NotProven;
use quorate_node::client::Client;
use quorate_node::client::verified::{AskError, ReadError, VerifiedReader};
use serde_json::Value;

use crate::cluster::writers::{Shape, Writers};
use crate::cluster::{Cluster, quorate, wait_until};

const ALL: [usize; 4] = [0, 1, 2, 3];
const DISK: [&str; 2] = ["--set", "storage.state=disk"];
const LIAR: usize = 1;
const LIES: [&str; 2] = ["--adversary", "lying-replies"];
/// A state is shown by a block a few heights above it.
const LAG: u64 = 16;

fn command(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut command = Vec::new();
    write(&mut command);
    command.into()
}

fn set(key: &str, value: &str) -> Bytes {
    command(|out| encode::set(out, key.as_bytes(), value.as_bytes(), Condition::Always, false))
}

/// Orders commands, and waits for their answers.
fn order(cluster: &Cluster, client: &Client, commands: Vec<Bytes>) {
    let replies = cluster.runtime.block_on(client.submit(commands)).unwrap();
    for reply in replies {
        assert!(!matches!(Reply::decode(&reply), Ok(Reply::Error(..)) | Err(_)), "{reply:?}");
    }
}

fn reader(cluster: &Cluster) -> VerifiedReader {
    VerifiedReader::new(cluster.client_config().replicas, &cluster.agreed, 0).unwrap()
}

fn get(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = quorate();
    command.args(["get", "--verified", "--home"]).arg(cluster.folder().join("client"));
    command.args(arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_replica_proves_the_last_write_of_an_idle_cluster_in_memory_and_on_disk() {
    for protocol in ["hotstuff-chained", "hotstuff-basic", "hotstuff-two-chain"] {
        let settings = ["view_timeout.base=300ms"];
        let mut cluster = Cluster::new(&["--protocol", protocol], &settings);
        for replica in ALL {
            cluster.start_replica(replica, if replica < 2 { &[] } else { &DISK });
        }
        // Before anything was ordered.
        let mut reader = reader(&cluster);
        for replica in ALL.map(|replica| ReplicaId(replica as u16)) {
            let read = reader.get_from(replica, b"key", LAG);
            let reading = cluster.runtime.block_on(read).unwrap();
            assert_eq!(reading.verified.value, None, "{reading:?}");
        }
        let client = cluster.client();
        for round in 0..3 {
            let value = format!("value {round}");
            let fields = [&b"field"[..], value.as_bytes()];
            let hash = command(|out| encode::h_set(out, b"hash", fields));
            order(&cluster, &client, vec![set("key", &value), hash]);
            for replica in ALL.map(|replica| ReplicaId(replica as u16)) {
                let mut read = |key: &[u8]| {
                    let reading = cluster.runtime.block_on(reader.get_from(replica, key, LAG));
                    reading.map(|reading| reading.verified.value)
                };
                // Two replicas gave the client its answer; another may come to the write later.
                let written = Ok(Some(Shown::Text(value.clone().into())));
                wait_until("it proves the last write", || read(b"key") == written);
                let fields = vec![(b"field".to_vec(), value.clone().into())];
                assert_eq!(read(b"hash"), Ok(Some(Shown::Hash(fields))));
                assert_eq!(read(b"no key"), Ok(None));
            }
        }
        let found = json(&get(&cluster, &["-o", "json", "--replica", "3", "key"]));
        assert_eq!((&found["found"], &found["value"]), (&true.into(), &"value 2".into()));
        assert_eq!((&found["kind"], &found["replica"]), (&"string".into(), &3.into()));
        assert!(found["lag_blocks"].as_u64().unwrap() <= LAG, "{found}");
        let found = json(&get(&cluster, &["-o", "json", "hash"]));
        assert_eq!(found["fields"][0]["value_hex"], "76616c75652032", "{found}");
        assert_eq!(json(&get(&cluster, &["-o", "json", "no key"]))["found"], false);
        let text = get(&cluster, &["key"]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.starts_with("value 2\nverified: replica "), "{text}");
    }
}

#[test]
fn reads_go_on_beside_writes_and_a_dead_replica() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    order(&cluster, &cluster.client(), vec![set("key", "value")]);
    let writers = Writers::start(&cluster, 4, Shape { frame: 20, value_bytes: 100, keys: 500 });
    writers.wait_for(200);
    let mut reader = reader(&cluster);
    for dies in [false, true] {
        if dies {
            cluster.kill(3);
        }
        // Fifty reads, and as many more as it takes to see some states.
        let (mut reads, mut heights) = (0, BTreeSet::new());
        wait_until("reads see the states go on", || {
            // How many blocks come while a replica waits for the processor is the machine's affair.
            let reading = cluster.runtime.block_on(reader.get(b"key", u64::MAX)).unwrap();
            assert_eq!(reading.verified.value, Some(Shown::Text(b"value".to_vec())));
            heights.insert(reading.verified.height);
            reads += 1;
            reads >= 50 && heights.len() > 5
        });
    }
    writers.finish(&cluster);

    // With two gone nobody can tell what is newest.
    cluster.kill(2);
    let refused = refusal(&get(&cluster, &["key"]));
    assert!(refused.contains("only 2 of the 3 replicas"), "{refused}");
    assert!(refused.contains("see that the replicas run"), "{refused}");
}

#[test]
fn a_liar_is_refused_whatever_it_lies_about() {
    let mut cluster = Cluster::new(&["--laboratory"], &["view_timeout.base=300ms"]);
    for replica in ALL {
        cluster.start_replica(replica, if replica == LIAR { &LIES } else { &[] });
    }
    let client = cluster.client();
    let mut reader = reader(&cluster);
    let liar = ReplicaId(LIAR as u16);
    let mut names = BTreeSet::new();
    for round in 0..12 {
        // Enough blocks for what the liar said first to be too old by then.
        let value = format!("value {round}");
        for _ in 0..LAG {
            order(&cluster, &client, vec![set("key", &value)]);
        }
        let read = reader.get_from(liar, b"key", LAG);
        let Err(ReadError::NotBelieved(why)) = cluster.runtime.block_on(read) else {
            panic!("the liar is believed in round {round}");
        };
        let [(who, AskError::Refused(refusal))] = &why[..] else { panic!("{why:?}") };
        assert_eq!(*who, liar);
        names.insert(match refusal {
            Refusal::ForgedValue(_) => "forged value",
            Refusal::ForgedAbsence(_) => "forged absence",
            Refusal::State(NotProven::OtherBlock) => "another block's certificate",
            Refusal::State(NotProven::Root(_)) => "another state",
            Refusal::State(NotProven::Stale { .. }) => "stale",
            other => panic!("{other}"),
        });
    }
    assert_eq!(names.len(), 5, "{names:?}");
    // Somebody else is believed instead.
    for _ in ALL {
        let reading = cluster.runtime.block_on(reader.get(b"key", LAG)).unwrap();
        assert_eq!(reading.verified.value, Some(Shown::Text(b"value 11".to_vec())));
        assert!(reading.replica != liar, "{reading:?}");
    }

    let refused = refusal(&get(&cluster, &["--replica", "1", "--max-lag", "16", "key"]));
    assert!(refused.contains("replica 1 is not believed: "), "{refused}");
    assert!(refused.contains("whose proof does not hold is faulty"), "{refused}");
    let found = json(&get(&cluster, &["-o", "json", "key"]));
    assert_eq!(found["value"], "value 11");
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_remedy() {
    let cluster = Cluster::new(&["--application", "ordering"], &[]);
    for (arguments, words) in [
        (&["key"][..], "the application `ordering` holds no keys"),
        (&["--replica", "4", "key"], "there is no replica 4: the cluster has 4, from 0"),
    ] {
        let output = get(&cluster, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{said}");
    }
}
