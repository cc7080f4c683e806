//! Tests of `kill -9` on a real process under load: no acknowledged commit is lost.

use crate::random::small_options;
use quorate_store::lazy_trie::{Batch, Durability, Options, Store, WriteOut};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// The folder; set for the process that will be killed.
const FOLDER: &str = "QUORATE_STORE_VICTIM";
/// Kills in this test; `make kill-store` sets more.
const KILLS: &str = "QUORATE_STORE_KILLS";
const ITEMS: u64 = 50;

fn options() -> Options {
    Options {
        durability: Durability::Os,
        write_out: WriteOut::Background,
        checkpoint_bytes: 48 << 10,
        write_buffer_bytes: 256 << 10,
        ..small_options()
    }
}

/// Commits round after round until it is killed; each is acknowledged by a line.
#[test]
fn victim() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (store, _) = Store::open(folder, options()).unwrap();
    let last = store.get(b"round").unwrap();
    let mut round = last.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    loop {
        round += 1;
        let mut batch = Batch::new();
        batch.put(b"round", &round.to_le_bytes()).unwrap();
        for item in 0..round % 7 {
            let name = (round * 31 + item) % ITEMS;
            batch.put(&name.to_le_bytes(), &[round as u8; 200]).unwrap();
            batch.put(&(name + 1000).to_le_bytes(), &round.to_le_bytes()).unwrap();
        }
        store.write(&batch).unwrap();
        println!("\nround {round}");
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let kills = std::env::var(KILLS).ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for kill in 0..kills {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["kill::victim", "--exact", "--nocapture", "--test-threads=1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let mut rounds = 0;
        // The number of rounds decides, not the clock: the process may be slow.
        while rounds < 20 + kill * 17 % 400 {
            let line = lines.next().expect("the victim ended by itself").unwrap();
            if let Some(round) = line.strip_prefix("round ") {
                acknowledged = round.parse::<u64>().unwrap();
                rounds += 1;
            }
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            // A line may have been cut.
            if let Some(Ok(round)) = line.strip_prefix("round ").map(str::parse::<u64>) {
                acknowledged = acknowledged.max(round);
            }
        }
        let (store, _) = Store::open(folder.path(), options()).unwrap();
        let round = store.get(b"round").unwrap().unwrap();
        let round = u64::from_le_bytes(round.try_into().unwrap());
        assert!(
            round >= acknowledged,
            "kill {kill}: round {round}, {acknowledged} was acknowledged"
        );
        for name in 0..ITEMS {
            let pair = (
                store.get(&name.to_le_bytes()).unwrap(),
                store.get(&(name + 1000).to_le_bytes()).unwrap(),
            );
            match pair {
                (None, None) => {}
                (Some(value), Some(of)) => {
                    let of = u64::from_le_bytes(of.try_into().unwrap());
                    assert!(of <= round && value == [of as u8; 200], "kill {kill}: half a batch");
                }
                _ => panic!("kill {kill}: half a batch"),
            }
        }
        assert!(store.check().unwrap().damage.is_empty());
    }
}
