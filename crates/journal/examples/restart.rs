//! Measures how long a replica takes to restart with a state of a given number of keys, on disk and
//! in memory, and what execution costs.
//!
//! `cargo run --release -p quorate-journal --example restart -- [KEYS] [FOLDER]` puts blocks of
//! 1000 commands through log, session table and application. Each command sets a key of 23 bytes to
//! 128 bytes. Snapshots or checkpoints are written as often as in a replica. Then the data is
//! opened again.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use quorate_app::kv::command::encode;
use quorate_app::kv::disk::{FileFolders, Shelf};
use quorate_app::kv::{Condition, KeyValue};
use quorate_core::base::crypto::{PublicKey, Signature, Statement};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::sessions::Limits;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::protocols::hotstuff::block::{Block, Content, FullBlock};
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc};
use quorate_core::protocols::hotstuff::{self, Types};
use quorate_core::replica::drive::Journal as _;
use quorate_core::replica::{Record, SnapshotMeta};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, Sequence, SessionId, View};
use quorate_journal::{Disks, OpenOptions, Opened, Owner};
use quorate_store::disk::FileDisk;
use quorate_store::lazy_trie;
use quorate_store::wal::{self, Durability};

type Failure = Box<dyn std::error::Error>;

const CHAIN: Digest = Digest([7; 32]);
const COMMANDS: u64 = 1000;
/// A quarter of the log's default window.
const SNAPSHOT_BYTES: u64 = 256 << 20;

fn owner() -> Result<Owner<Types>, Failure> {
    let key = ReplicaKey::new(&[1; 32]).ok_or("no key")?;
    let committee = Committee::new(CHAIN, Epoch(0), vec![key.clone()])?;
    Ok(Owner::new(hotstuff::origin(&Domain::new(committee, 1)), key))
}

fn frame(height: u64) -> SharedFrame {
    let (key, sign) = (PublicKey([1; 32]), |_: &Statement| Signature::from([0; 64]));
    if height == 1 {
        return Arc::new(Frame::open(key, 1, &CHAIN, sign));
    }
    let first = (height - 2) * COMMANDS;
    let commands: Vec<Vec<u8>> = (first..first + COMMANDS)
        .map(|number| {
            let mut command = Vec::new();
            let (key, value) = (format!("user{number:019}"), [number as u8; 128]);
            encode::set(&mut command, key.as_bytes(), &value, Condition::Always, false);
            command
        })
        .collect();
    let commands = commands.iter().map(Vec::as_slice);
    let frame = Frame::build(key, SessionId(1), Sequence(first + 1), commands, &CHAIN, sign);
    Arc::new(frame.unwrap_or_else(|| unreachable!("a thousand commands fit a frame")))
}

struct Site<'a> {
    folder: &'a Path,
    owner: Owner<Types>,
    log: wal::Options,
}

impl Site<'_> {
    fn disks(&self) -> Result<Disks, Failure> {
        let disk = |name: &str| -> Result<Arc<FileDisk>, Failure> {
            let path = self.folder.join(name);
            std::fs::create_dir_all(&path)?;
            Ok(Arc::new(FileDisk::open(&path)?))
        };
        Ok(Disks { log: disk("wal")?, states: disk("snapshots")? })
    }

    fn open<S: StateMachine>(&self, fresh: &dyn Fn() -> S) -> Result<Opened<Types, S>, Failure> {
        let options = OpenOptions {
            log: self.log.clone(),
            durability: Durability::Os,
            rejoin: false,
            sessions: Limits::default(),
        };
        Ok(quorate_journal::open(&self.disks()?, &self.owner, options, fresh)?)
    }

    /// Executes blocks that set `keys` keys. Returns the time, without log and snapshots.
    fn fill<S: StateMachine>(&self, opened: Opened<Types, S>, keys: u64) -> Result<f64, Failure> {
        let Opened { mut journal, states, mut execution, .. } = opened;
        let (mut parent, mut seconds) = (self.owner.genesis().id(), 0.0);
        for height in 1..=1 + keys / COMMANDS {
            let frames = vec![frame(height)];
            let block = Arc::new(Block::new(Content {
                epoch: Epoch(0),
                view: View(height),
                height: Height(height),
                proposer: ReplicaId(0),
                justify: Qc::genesis(parent),
                state_root: execution.state_root(),
                frames: frames.iter().map(|frame| frame.id()).collect(),
            }));
            parent = block.id();
            let full = FullBlock { block: Arc::clone(&block), frames: frames.clone() };
            journal.write(vec![Record::<Types>::Block(full)])?;
            journal.index().committed(std::slice::from_ref(&block));
            let begun = Instant::now();
            execution.execute(Height(height), block.view, parent, &frames)?;
            seconds += begun.elapsed().as_secs_f64();
            let grown = journal.log().end().0 - journal.snapshot_begun_at;
            if grown > SNAPSHOT_BYTES || execution.checkpoint_is_due() {
                journal.snapshot_begun_at = journal.log().end().0;
                let roots = execution.latest_roots(64);
                let committed = Height(height);
                let meta: SnapshotMeta<Types> =
                    SnapshotMeta { block, committed, recent: Vec::new(), roots };
                states.write(&meta, execution.freeze()?)?;
            }
        }
        Ok(seconds)
    }
}

/// Fills the data, opens it again and prints the times. As in a replica, blocks in the log above
/// the state are executed.
fn measure<S: StateMachine>(
    name: &str,
    folder: &Path,
    keys: u64,
    fresh: &dyn Fn() -> Result<Box<dyn Fn() -> S>, Failure>,
) -> Result<(), Failure> {
    let owner = owner()?;
    let log = wal::Options { segment_bytes: 64 << 20, ..wal::Options::new(owner.identity()) };
    let site = Site { folder, owner, log };
    quorate_journal::create(site.disks()?.log, site.log.clone(), &site.owner)?;
    let executing = site.fill(site.open(&*fresh()?)?, keys)?;
    let begun = Instant::now();
    let Opened { mut execution, recovery, .. } = site.open(&*fresh()?)?;
    let opened = begun.elapsed().as_secs_f64();
    let mut again = 0;
    for FullBlock { block, frames } in recovery.ok_or("no recovery")?.blocks {
        if block.height > execution.height() {
            execution.execute(block.height, block.view, block.id(), &frames)?;
            again += 1;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{name}: {keys} keys, {:.2} us a command; back in {seconds:.2} s ({opened:.2} s to open, \
         {again} blocks executed again)",
        executing * 1e6 / keys as f64
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let keys = arguments.next().map_or(Ok(1_000_000), |keys| keys.parse::<u64>())?;
    let folder = arguments.next().unwrap_or_else(|| "target/restart".into());
    for store in ["memory", "disk"] {
        let folder = Path::new(&folder).join(store);
        if folder.exists() {
            return Err(format!("{} is there: remove it", folder.display()).into());
        }
        if store == "memory" {
            measure("in memory", &folder, keys, &|| Ok(Box::new(KeyValue::new)))?;
        } else {
            let path = folder.clone();
            measure("on disk", &folder, keys, &move || {
                let options = lazy_trie::Options::default();
                let shelf = Shelf::open(FileFolders::new(&path.join("state")), options)?;
                Ok(Box::new(move || KeyValue::on_disk(&shelf)))
            })?;
        }
    }
    Ok(())
}
