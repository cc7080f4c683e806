//! Starting replicas from a backup.
//!
//! What a replica signed is in no backup, so none gives it back. A replica of the same chain gets
//! its state, and starts as one that lost its data
//! ([`quorate_core::replica::rejoin`]): it abstains until it may vote. A new cluster gets new keys
//! and a new identity, which covers where its first state comes from
//! ([`Restored`]); so its replicas may vote at once.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::ledger::execution::{Execution, SnapshotHandle};
use quorate_core::ledger::state_machine::{Snapshot as _, StateMachine as _};
use quorate_core::{Digest, Height};
use quorate_journal::OpenError;
use quorate_store::lock::FolderLock;

use super::BackupError;
use super::application::Application;
use super::folder::{Folder, Kind, Part, Tag};
use super::offered::{self, Receiver};
use super::verify::Backup;
use crate::config::{Cluster, Finding, Home, Place, Restored};
use crate::testnet::{self, FromBackup, Options, Testnet, TestnetError};
use crate::written::empty_but_for;

/// What a replica was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// The state of this height of its chain. It has to rejoin.
    State(Height),
    /// The state that its chain begins with.
    First,
}

/// Gives a replica its state back, the newest of the backup up to `height`; or, if its chain was
/// restored from this backup, the state that it begins with. Data that is there is never written
/// over. May be cut short at any moment, and done again.
///
/// # Errors
/// [`BackupError`].
pub fn replica(
    (backup, folder): (&Backup, &Folder),
    cluster: &Cluster,
    (key, data): (&ReplicaKey, &Path),
    height: Option<Height>,
) -> Result<Given, BackupError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(data);
    made.map_err(|error| BackupError::failed(error, data, "see to the folder's permissions"))?;
    let _lock = FolderLock::acquire(data).map_err(|error| BackupError::locked(&error, data))?;
    if cluster.chain_digest() == backup.cluster.chain_digest() {
        return state_of_chain((backup, folder), (key, data), height).map(Given::State);
    }
    match &cluster.restored {
        Some(from) if from.chain_digest == backup.cluster.chain_digest() => {
            let way = backup.way(Some(from.height), folder)?;
            let application = backup.execute(&way, folder)?.into_application();
            let first = First::of(application, cluster, folder)?;
            if first.application != from.root {
                let what = format!(
                    "the state of height {} has root {}, and cluster.toml names {}",
                    from.height, first.application, from.root
                );
                let remedy = "compare the table [restored] with the one of the other replicas";
                return Err(BackupError::refused(what, folder.path(), remedy));
            }
            first.put(cluster, key, data)?;
            Ok(Given::First)
        }
        _ => Err(match backup.check_chain(cluster, folder) {
            Err(error) => error,
            Ok(()) => unreachable!("the chains differ"),
        }),
    }
}

fn state_of_chain(
    (backup, folder): (&Backup, &Folder),
    (key, data): (&ReplicaKey, &Path),
    height: Option<Height>,
) -> Result<Height, BackupError> {
    let refused = |what: &str, remedy: &str| BackupError::refused(what, folder.path(), remedy);
    let fits = |part: &&Part| {
        part.kind == Kind::State && height.is_none_or(|height| part.head.first <= height)
    };
    let Some(part) = backup.parts.iter().rfind(fits) else {
        return Err(refused(
            "it holds blocks, and no state up to that height",
            "start the replica with --rejoin-after-data-loss: it fetches all from the others",
        ));
    };
    let committees = backup.committees()?;
    // All of it is checked before anything is written.
    backup.state(part, &committees)?;
    let stated = backup.stated(part, &committees, |_, _| Ok(()))?;
    let committee = backup.cluster.committee();
    let committee = committee.map_err(|error| refused(&error.to_string(), "correct it"))?;
    let receiver = Receiver { cluster: &backup.cluster, committee, key: key.clone(), data };
    let ends = ends_before(part)?;
    let taken = receiver.take(&ends, Some(&stated.offer), stated.offered.root, &mut |sink| {
        let mut wants_more = true;
        let read = part.items(|tag, item| {
            wants_more = wants_more && (tag != Tag::Chunk || sink(&item));
            Ok(())
        });
        read.map_err(|error| io::Error::other(error.to_string()))
    });
    taken.map_err(|error| not_taken(&error, data))?;
    Ok(part.head.first)
}

/// How the epochs before that of a state ended.
fn ends_before(part: &Part) -> Result<Vec<Bytes>, BackupError> {
    let mut ends = Vec::new();
    part.items(|tag, item| {
        // A backup that was made while an epoch ended may tell of that end as well.
        if tag == Tag::Handover && (ends.len() as u64) < part.head.epoch.0 {
            ends.push(item);
        }
        Ok(())
    })?;
    Ok(ends)
}

fn not_taken(error: &OpenError, data: &Path) -> BackupError {
    match error {
        OpenError::NotLost { .. } => BackupError::refused(
            "there is data in it, which may say what this replica signed",
            data,
            "start the replica with what it has; if that is not to be trusted, move it away first",
        ),
        error => BackupError::failed(
            format!("the state was not written: {error}"),
            data,
            "see to the disk (space, permissions), and do it again",
        ),
    }
}

/// The state that a chain begins with.
struct First {
    handle: SnapshotHandle,
    /// The root of the application.
    application: Digest,
}

impl First {
    /// The state of `application` behind the genesis block of `cluster`: without sessions.
    fn of(
        mut application: Application,
        cluster: &Cluster,
        folder: &Folder,
    ) -> Result<Self, BackupError> {
        let root = application.root();
        let odd = |error: &dyn std::fmt::Display| {
            BackupError::refused(error, folder.path(), "correct the cluster's configuration")
        };
        let committee = cluster.committee().map_err(|error| odd(&error))?;
        let genesis = offered::genesis(cluster, &committee);
        let state = Execution::new(application, cluster.sessions, genesis);
        let state = state.map_err(|error| odd(&error))?.governed_by(&committee);
        let state = state.serving(Arc::clone(&cluster.clients));
        Ok(Self { handle: state.snapshot(), application: root })
    }

    /// Writes it into a data folder.
    fn put(&self, cluster: &Cluster, key: &ReplicaKey, data: &Path) -> Result<(), BackupError> {
        let committee = cluster.committee();
        let committee =
            committee.map_err(|error| BackupError::refused(error, data, "correct cluster.toml"))?;
        let receiver = Receiver { cluster, committee, key: key.clone(), data };
        let taken = receiver.take(&[], None, self.handle.root(), &mut |sink| {
            self.handle.chunks(sink);
            Ok(())
        });
        taken.map_err(|error| not_taken(&error, data))
    }
}

/// What a new cluster is to be like.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// How many replicas; `None`: as many as the backed-up chain has.
    pub replicas: Option<usize>,
    /// The height of the state; `None`: the highest there is.
    pub height: Option<Height>,
    /// Name, ports, durability and administrators. What orders and is replicated comes from the
    /// backup.
    pub options: Options,
}

/// Makes the homes of a new cluster in `out`, which must not be there: with new keys, a new
/// identity, and the state of the backup as its first. `out` gets its name when all is durable:
/// what is left of an attempt that was cut short is `out` with the suffix `.part`, which the next
/// one removes.
///
/// # Errors
/// [`BackupError`].
pub fn cluster(
    (backup, folder): (&Backup, &Folder),
    out: &Path,
    new: NewCluster,
) -> Result<Testnet, BackupError> {
    refuse_what_is_there(out)?;
    let NewCluster { replicas, height, options } = new;
    let way = backup.way(height, folder)?;
    let state = backup.execute(&way, folder)?;
    let height = state.height();
    let rules = state.members().rules();
    let is_closed = !state.sessions().clients().is_silent();
    let mut application = state.into_application();
    let old = &backup.cluster;
    let restored = Restored {
        chain: old.chain.clone(),
        chain_digest: old.chain_digest(),
        height,
        root: application.root(),
    };
    let from = FromBackup {
        restored,
        rules,
        batch: old.batch,
        sessions: old.sessions,
        limits: old.limits,
    };
    let options = like(old, options, from);
    let count = replicas.unwrap_or(old.members.len());
    let part = begin_part(out)?;
    let mut made = testnet::init(&part, count, &options).map_err(|error| match error {
        TestnetError::Refused(finding) => BackupError::Refused(finding),
        TestnetError::Failed(finding) => BackupError::Failed(finding),
    })?;
    let first = First::of(application, &made.cluster, folder)?;
    for (home, member) in made.replicas.iter().zip(&made.cluster.members) {
        first.put(&made.cluster, &member.consensus_key, &home.root().join("data"))?;
    }
    if is_closed {
        made.warnings.push(Finding {
            what:
                "the list of clients is not taken over: the new cluster takes commands from anybody"
                    .to_owned(),
            place: Place::File(out.to_owned()),
            remedy: "before it is reached by others, make the list anew (`quorate client`)"
                .to_owned(),
        });
    }
    publish(&part, out).map_err(|error| {
        BackupError::failed(error, out, "see to the disk (space, permissions), and do it again")
    })?;
    Ok(moved(made, &part, out))
}

fn refuse_what_is_there(out: &Path) -> Result<(), BackupError> {
    if out.join(PART_MARK).exists() {
        // It got its name when all was durable.
        fs::remove_file(out.join(PART_MARK)).map_err(|error| {
            BackupError::failed(error, out, "see to the folder's permissions, and do it again")
        })?;
        let what = "an earlier restore made these homes, and was cut short before it said so";
        let remedy = "they are whole: use them, or name another folder";
        return Err(BackupError::refused(what, out, remedy));
    }
    let is_there = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some());
    if is_there || out.is_file() {
        let remedy = "name another folder: homes are never written over";
        return Err(BackupError::refused("there is something already", out, remedy));
    }
    Ok(())
}

/// A cluster that orders and replicates as another one.
fn like(old: &Cluster, options: Options, from: FromBackup) -> Options {
    let service = testnet::Service { agreed: old.service.clone(), ..options.service };
    Options {
        combination: old.combination(),
        fixed_leader: (old.leader == crate::config::LeaderName::Fixed).then_some(old.fixed_leader),
        tentative: old.tentative,
        transport: old.transport,
        application: old.application,
        service,
        restored: Some(from),
        ..options
    }
}

/// The file that tells the leavings of a restore from anything else of that name.
pub(super) const PART_MARK: &str = "restoring";

/// Makes the folder in which the homes are made, without what an earlier attempt left there: a
/// folder with the mark, or an empty one if it was cut short while it made or removed the mark.
pub(super) fn begin_part(out: &Path) -> Result<PathBuf, BackupError> {
    let mut name = out.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let is_empty = fs::read_dir(&part).is_ok_and(|mut entries| entries.next().is_none());
    if part.exists() && !is_empty && !part.join(PART_MARK).exists() {
        let what = "this folder is in the way, and no restore made it";
        return Err(BackupError::refused(what, &part, "move it away, or name another with --out"));
    }
    // The mark stays: if this is cut short, the next attempt still knows the folder.
    let begun = fs::create_dir_all(&part).and_then(|()| empty_but_for(&part, PART_MARK));
    let begun = begun.and_then(|()| File::create(part.join(PART_MARK)).map(drop));
    begun.map_err(|error| {
        BackupError::failed(error, &part, "see to the disk (space, permissions), and do it again")
    })?;
    Ok(part)
}

/// Makes all durable, and gives it its name.
fn publish(part: &Path, out: &Path) -> io::Result<()> {
    sync(part)?;
    fs::rename(part, out)?;
    // Until then it shows that a restore made the folder.
    fs::remove_file(out.join(PART_MARK))?;
    let above = out.parent().filter(|above| !above.as_os_str().is_empty());
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}

fn sync(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    File::open(folder)?.sync_all()
}

/// The same homes, where they are now.
fn moved(made: Testnet, part: &Path, out: &Path) -> Testnet {
    let path = |path: &Path| out.join(path.strip_prefix(part).unwrap_or(path));
    let home = |home: &Home| Home::new(path(home.root()));
    Testnet {
        replicas: made.replicas.iter().map(home).collect(),
        client: home(&made.client),
        administrator_keys: made.administrator_keys.iter().map(|key| path(key)).collect(),
        ..made
    }
}
