//! The consensus keys of a replica, from one epoch to the next.
//!
//! The committee of each epoch names the key that this replica signs with. A change of members may
//! name another one (`quorate member rotate-key`). The secret half of that lies ready beside the
//! key in use, and the replica goes over to it with the epoch, without a restart.
//!
//! | file | what it holds |
//! |---|---|
//! | `consensus.key` | the key in use |
//! | `consensus.key.next` | the next key, before its epoch; made by `quorate member new-key` |
//! | `consensus.key.old` | the former key, while it is being erased |
//! | `consensus.key.public` | the public halves that were in use since the first, one a line |
//!
//! Where members generate threshold keys, each signs votes with a share beside its key; its files
//! are those of [`shares`](super::shares). A share that cannot be read is looked for again and
//! again ([`Keyring::tend`]).
//!
//! # Erasing
//! q keys of a past epoch forge all that follows it, for a client that knows no later epoch
//! ([`succession`](quorate_core::client::succession)). So the former key is overwritten and removed
//! as soon as this replica does not need it any more: when a certificate of the new epoch is
//! durable here. Until then the disk could lose the new epoch, and the replica would have to help
//! the old committee to end its own.
//!
//! Former shares go at the same time, but none while the share that the committee names is not in
//! use: then this replica may be wrong about what it has. A replica that has left holds the proof
//! of it, and will never sign for that committee again, so all its shares go.
//!
//! Whatever instant the power fails at, the key of the epoch that the replica comes back to is in
//! one of the files. A file system that keeps what is overwritten (copies on write, snapshots,
//! backups) keeps the key as well.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use quorate_core::base::crypto::{Signature, Signer, Statement};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::{Committee, Epoch, ReplicaId};
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey};

use super::shares::{ShareFiles, ShareKey, wipe_file};
use crate::config::public_half;

/// What to do about a share that is not in use.
pub(crate) const SHARE_REMEDY: &str = "See to the file beside the consensus key, or put it back: it \
    is looked for each second. If it is lost, have the members generate another key (`quorate member`)";

/// A key, by both halves.
#[derive(Clone)]
struct Pair {
    public: ReplicaKey,
    secret: Arc<ConsensusKey>,
}

impl Pair {
    fn of(secret: ConsensusKey) -> Self {
        Self { public: public_half(&secret), secret: Arc::new(secret) }
    }
}

/// The consensus keys of a replica. It signs with the one in use.
pub struct Keyring {
    file: PathBuf,
    shares: ShareFiles,
    held: RwLock<Held>,
}

struct Held {
    current: Pair,
    /// A former key is on disk still.
    former: bool,
    shares: Shares,
}

/// What it signs with that is joined with others' signatures, where members have a threshold key.
#[derive(Default)]
struct Shares {
    /// The share that the committee names, if it names one.
    named: Option<ShareKey>,
    /// It, once it is read.
    in_use: Option<ConsensusKey>,
    former: Former,
}

/// The secrets of former epochs: shares, and keys of generations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Former {
    /// There are none.
    #[default]
    Gone,
    /// The replica may have to come back to them.
    Kept,
    /// Those of epochs up to this one are to be erased.
    Over(Epoch),
}

/// Why the share that a committee names is not in use.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// There is none.
    #[error("it is not beside the consensus key")]
    Missing,
    /// It may be there.
    #[error("it cannot be read: {0}")]
    Unread(#[from] KeyFileError),
}

/// What [`Keyring::tend`] did.
#[derive(Debug, Default)]
pub struct Tended {
    /// The share that the committee names is in use from now on; or why it is not. `None`: there
    /// was nothing to do.
    pub share: Option<Result<(), ShareError>>,
    /// Secrets of former epochs are erased; or why they are not. `None`: there was nothing to do.
    pub erased: Option<io::Result<()>>,
}

impl Keyring {
    /// The keys beside that of `file`, which holds `key`.
    #[must_use]
    pub fn new(file: &Path, key: ConsensusKey) -> Self {
        let former = beside(file, "old").exists();
        let held = Held { current: Pair::of(key), former, shares: Shares::default() };
        Self { file: file.to_owned(), shares: ShareFiles::beside(file), held: RwLock::new(held) }
    }

    /// The public half of the key in use.
    #[must_use]
    pub fn public(&self) -> ReplicaKey {
        self.read(|held| held.current.public.clone())
    }

    /// The key in use.
    #[must_use]
    pub(super) fn secret(&self) -> Arc<ConsensusKey> {
        self.read(|held| Arc::clone(&held.current.secret))
    }

    /// What signs by this key, if it is the one in use or the next one.
    #[must_use]
    pub fn signer_of(&self, key: &ReplicaKey) -> Option<Arc<dyn Signer>> {
        let current = self.read(|held| held.current.clone());
        let found = if current.public == *key { Some(current) } else { self.next(key) };
        found.map(|pair| pair.secret as Arc<dyn Signer>)
    }

    /// An epoch begins whose committee names this key: it is in use from now on. Returns whether
    /// it is here.
    pub fn enter(&self, key: &ReplicaKey) -> bool {
        if self.public() == *key {
            return true;
        }
        let Some(next) = self.next(key) else { return false };
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        (held.current, held.former) = (next, true);
        true
    }

    /// An epoch of this committee begins: from now on it signs with the share that it names, if it
    /// names one.
    ///
    /// # Errors
    /// [`ShareError`]: it is looked for again ([`Self::tend`]).
    pub fn enter_share(&self, committee: &Committee, me: ReplicaId) -> Result<(), ShareError> {
        let named = committee.shares().and_then(|keys| keys.key(me)).copied();
        let former = match (committee.shares(), committee.contains(me)) {
            (None, _) => Former::Gone,
            (Some(_), true) => Former::Kept,
            (Some(_), false) => Former::Over(committee.epoch()),
        };
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        let in_use = held.shares.in_use.take().filter(|_| held.shares.named == named);
        held.shares = Shares { named, in_use, former };
        drop(held);
        self.take_share().unwrap_or(Ok(()))
    }

    /// Reads the share that the committee names, unless it is in use.
    fn take_share(&self) -> Option<Result<(), ShareError>> {
        let named = self.read(|Held { shares, .. }| match shares.in_use {
            None => shares.named,
            Some(_) => None,
        })?;
        let share = match self.shares.share(&named) {
            Ok(Some(share)) => share,
            Ok(None) => return Some(Err(ShareError::Missing)),
            Err(error) => return Some(Err(error.into())),
        };
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        // An epoch may have begun meanwhile.
        if held.shares.named == Some(named) {
            held.shares.in_use = Some(share);
        }
        Some(Ok(()))
    }

    /// Does what is left to do with files of shares: the share that the committee names is read, if
    /// that was not possible, and secrets of former epochs are erased. It is called again and
    /// again.
    pub fn tend(&self) -> Tended {
        let share = self.take_share();
        let (over, kept, is_in_use) = self.read(|Held { shares, .. }| {
            let is_in_use = shares.named.is_none() || shares.in_use.is_some();
            (shares.former, shares.named, is_in_use)
        });
        let Former::Over(epoch) = over else { return Tended { share, erased: None } };
        if !is_in_use {
            return Tended { share, erased: None };
        }
        let erased = self.shares.wipe_up_to(epoch, kept.as_ref());
        if erased.is_ok() {
            let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
            if held.shares.former == over {
                held.shares.former = Former::Gone;
            }
        }
        Tended { share, erased: Some(erased) }
    }

    /// Whether the committee names a share of this replica that is not in use.
    #[must_use]
    pub fn lacks_share(&self) -> bool {
        self.read(|Held { shares, .. }| shares.named.is_some() && shares.in_use.is_none())
    }

    /// The files of its shares.
    #[must_use]
    pub(crate) fn shares(&self) -> &ShareFiles {
        &self.shares
    }

    /// What signs by this key alone, if it is the one in use or the next one, and as clients sign.
    #[must_use]
    pub(crate) fn own_key(&self, key: &ReplicaKey) -> Option<SecretKey> {
        let current = self.read(|held| held.current.clone());
        let found = if current.public == *key { Some(current) } else { self.next(key) };
        let secret = found?.secret;
        let seed = (secret.scheme() == SchemeName::Ed25519).then(|| secret.to_bytes())?;
        Some(SecretKey::from_seed(&seed))
    }

    /// Whether a former key is to be erased.
    #[must_use]
    pub fn has_former(&self) -> bool {
        self.read(|held| held.former)
    }

    /// Whether secrets of former epochs wait for a certificate of this one.
    #[must_use]
    pub fn has_former_shares(&self) -> bool {
        self.read(|held| held.shares.former == Former::Kept)
    }

    /// A certificate of `epoch` is durable here: shares and keys of generations before it are to be
    /// erased ([`Self::tend`]).
    pub fn settle_shares(&self, epoch: Epoch) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.shares.former == Former::Kept {
            held.shares.former = Former::Over(epoch);
        }
    }

    /// A certificate of the current epoch is durable here: the former key is erased. That is tried
    /// once, and again after a restart.
    ///
    /// # Errors
    /// The files could not be changed.
    pub fn erase_former(&self) -> io::Result<()> {
        self.held.write().unwrap_or_else(PoisonError::into_inner).former = false;
        self.erase()
    }

    fn erase(&self) -> io::Result<()> {
        let (next, old) = (beside(&self.file, "next"), beside(&self.file, "old"));
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let sync = || File::open(folder).and_then(|folder| folder.sync_all());
        // A restart may find the next key in use already: then the rest is left to do.
        if next.exists() && self.next(&self.public()).is_some() {
            let mut public =
                OpenOptions::new().create(true).append(true).open(beside(&self.file, "public"))?;
            // In one call, and behind whatever part of a line a full disk left there.
            public.write_all(format!("\n{}\n", self.public()).as_bytes())?;
            public.sync_all()?;
            if !old.exists() {
                std::fs::hard_link(&self.file, &old)?;
            }
            sync()?;
            std::fs::rename(&next, &self.file)?;
            sync()?;
        }
        let is_kept = key_file::read_consensus(&self.file, self.secret().scheme())
            .is_ok_and(|kept| public_half(&kept) == self.public());
        if !is_kept {
            return Err(io::Error::other(format!(
                "{} does not hold the key in use, and {} is gone",
                self.file.display(),
                next.display()
            )));
        }
        if old.exists() {
            wipe_file(&old)?;
            std::fs::remove_file(&old)?;
            sync()?;
        }
        Ok(())
    }

    /// The public half of the key that lies ready, if one does.
    #[must_use]
    pub(crate) fn next_public(&self) -> Option<ReplicaKey> {
        let scheme = self.read(|held| held.current.secret.scheme());
        let next = key_file::read_consensus(&beside(&self.file, "next"), scheme).ok()?;
        Some(public_half(&next))
    }

    /// The key that lies ready, if it is this one.
    fn next(&self, key: &ReplicaKey) -> Option<Pair> {
        let scheme = self.read(|held| held.current.secret.scheme());
        let next = key_file::read_consensus(&beside(&self.file, "next"), scheme).ok()?;
        Some(Pair::of(next)).filter(|pair| pair.public == *key)
    }

    fn read<R>(&self, of: impl FnOnce(&Held) -> R) -> R {
        of(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Signer for Keyring {
    fn sign(&self, statement: &Statement) -> Signature {
        self.read(|held| match &held.shares.in_use {
            Some(share) if statement.is_joined() => share.sign(statement),
            _ => held.current.secret.sign(statement),
        })
    }
}

/// The file beside a key file that holds another one, or something about it.
#[must_use]
pub fn beside(file: &Path, what: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(what);
    PathBuf::from(name)
}
