//! Tests of `kill -9` on a real process under load: no acknowledged commit is lost.

use crate::random::small_options;
use quorate_store::lazy_trie::{Batch, Durability, Options, Store, WriteOut};
use std::io::{BufRead, BufReader};
use std::path::Path;
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

/// Runs a victim, and kills it after this many lines that `note` takes for commits.
fn run_and_kill(victim: &str, folder: &Path, commits: u64, mut note: impl FnMut(&str) -> bool) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([victim, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut noted = 0;
    while noted < commits {
        let line = lines.next().expect("the victim ended by itself").unwrap();
        noted += u64::from(note(&line));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    // The last line may have been cut.
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    rest.iter().take(rest.len().saturating_sub(1)).for_each(|line| _ = note(line));
}

fn kills() -> u64 {
    std::env::var(KILLS).ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let kills = kills();
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0u64;
    for kill in 0..kills {
        // The number of rounds decides, not the clock: the process may be slow.
        run_and_kill("kill::victim", folder.path(), 20 + kill * 17 % 400, |line| {
            let round = line.strip_prefix("round ").and_then(|round| round.parse().ok());
            acknowledged = round.map_or(acknowledged, |round: u64| acknowledged.max(round));
            round.is_some()
        });
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

/// The item of a writer for a round.
fn item(writer: u64, round: u64) -> [u8; 8] {
    (1 << 40 | writer << 20 | (round % ITEMS)).to_le_bytes()
}

/// The rounds in the items of a writer.
fn rounds(store: &Store, writer: u64) -> Vec<u64> {
    let round = |number| {
        let value = store.get(&item(writer, number)).unwrap();
        value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
    };
    (0..ITEMS).map(round).collect()
}

/// Two threads that commit items side by side until the process is killed; each commit is
/// acknowledged by a line.
#[test]
fn victims_side_by_side() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (store, _) = Store::open(folder, options()).unwrap();
    // Enough items for the tree to be divided.
    (0..300u64).for_each(|number| store.put(&number.to_le_bytes(), b"").unwrap());
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let store = &store;
            scope.spawn(move || {
                let last = rounds(store, writer).into_iter().max().unwrap();
                for round in last + 1.. {
                    store.put(&item(writer, round), &round.to_le_bytes()).unwrap();
                    println!("\nwriter {writer} {round}");
                }
            });
        }
    });
}

#[test]
fn nothing_acknowledged_side_by_side_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = [0; 2];
    for kill in 0..kills() {
        run_and_kill("kill::victims_side_by_side", folder.path(), 100 + kill * 47 % 900, |line| {
            let of = |writer: usize| {
                line.strip_prefix(&format!("writer {writer} ")).and_then(|round| round.parse().ok())
            };
            let Some((writer, round)) =
                (0..2).find_map(|writer| of(writer).map(|round: u64| (writer, round)))
            else {
                return false;
            };
            acknowledged[writer] = acknowledged[writer].max(round);
            true
        });
        let (store, _) = Store::open(folder.path(), options()).unwrap();
        for (writer, acknowledged) in (0..2).zip(acknowledged) {
            let found = rounds(&store, writer);
            let last = found.iter().copied().max().unwrap();
            assert!(last >= acknowledged, "kill {kill}: round {last} of {acknowledged}");
            // Each item is of the last round that put it.
            let expected = |number| last.saturating_sub((last + ITEMS - number) % ITEMS);
            assert_eq!(found, (0..ITEMS).map(expected).collect::<Vec<_>>(), "kill {kill}");
        }
        assert!(store.check().unwrap().damage.is_empty());
    }
}
