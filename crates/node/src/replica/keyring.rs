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
//! are those of [`shares`](super::shares).
//!
//! # Erasing
//! q keys of a past epoch forge all that follows it, for a client that knows no later epoch
//! ([`succession`](quorate_core::client::succession)). So the former key is overwritten and removed
//! as soon as this replica does not need it any more: when a certificate of the new epoch is
//! durable here. Until then the disk could lose the new epoch, and the replica would have to help
//! the old committee to end its own.
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
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey, key_file};

use super::shares::{ShareFiles, ShareKey, wipe_file};
use crate::config::public_half;

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
    /// What it signs with that is joined with others' signatures, where members have a threshold
    /// key.
    share: Option<Share>,
    /// Former shares may be on disk still.
    former_shares: bool,
}

/// A share in use.
struct Share {
    key: ShareKey,
    secret: ConsensusKey,
}

impl Keyring {
    /// The keys beside that of `file`, which holds `key`.
    #[must_use]
    pub fn new(file: &Path, key: ConsensusKey) -> Self {
        let former = beside(file, "old").exists();
        let held = Held { current: Pair::of(key), former, share: None, former_shares: false };
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
    /// names one. Returns whether that is here.
    pub fn enter_share(&self, committee: &Committee, me: ReplicaId) -> bool {
        let named = committee.shares().and_then(|keys| keys.key(me)).copied();
        let share = named.and_then(|key| Some(Share { key, secret: self.shares.share(&key)? }));
        let is_here = share.is_some() || named.is_none();
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.former_shares = held.share.is_some() || share.is_some();
        held.share = share;
        is_here
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

    /// Whether former shares are to be looked for, and erased.
    #[must_use]
    pub fn has_former_shares(&self) -> bool {
        self.read(|held| held.former_shares)
    }

    /// A certificate of `epoch` is durable here: shares and keys of generations before it are
    /// erased. That is tried once, and again after a restart.
    ///
    /// # Errors
    /// The files could not be changed.
    pub fn erase_former_shares(&self, epoch: Epoch) -> io::Result<()> {
        self.held.write().unwrap_or_else(PoisonError::into_inner).former_shares = false;
        let kept = self.read(|held| held.share.as_ref().map(|share| share.key));
        self.shares.wipe_up_to(epoch, kept.as_ref())
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
            writeln!(public, "{}", self.public())?;
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
        self.read(|held| match &held.share {
            Some(share) if statement.is_joined() => share.secret.sign(statement),
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

#[cfg(test)]
mod tests {
    use quorate_crypto::{ConsensusKey, SchemeName, key_file};

    use super::{Keyring, beside, public_half};

    fn key() -> ConsensusKey {
        ConsensusKey::generate(SchemeName::Ed25519).unwrap()
    }

    /// Whatever of the erasing was done before the power failed, the rest is done later, and the
    /// key of the epoch is there at each step.
    #[test]
    fn the_former_key_is_gone_once_a_certificate_is_durable_and_not_before() {
        for done in 0..4 {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("consensus.key");
            let (first, second) = (key(), key());
            let (old, new) = (public_half(&first), public_half(&second));
            let (former, next) = (beside(&file, "old"), beside(&file, "next"));
            key_file::write_consensus(&file, &first).unwrap();
            key_file::write_consensus(&next, &second).unwrap();
            let bytes = std::fs::read(&file).unwrap();

            let ring = Keyring::new(&file, first);
            assert!(!ring.enter(&public_half(&key())), "it took a key that it does not have");
            assert!(!ring.has_former() && ring.public() == old);
            assert!(ring.enter(&new) && ring.public() == new);
            assert_eq!(
                std::fs::read(&file).unwrap(),
                bytes,
                "it may have to come back to the old one"
            );

            // The power fails after so many steps of the erasing.
            if done > 0 {
                std::fs::hard_link(&file, &former).unwrap();
            }
            if done > 1 {
                std::fs::rename(&next, &file).unwrap();
            }
            if done > 2 {
                super::wipe_file(&former).unwrap();
            }
            let held = key_file::read_consensus(&file, SchemeName::Ed25519).unwrap();
            let ring = Keyring::new(&file, held);
            assert!(ring.enter(&new), "after {done} steps its key is not there");
            assert!(ring.has_former());
            ring.erase_former().unwrap();
            assert!(!former.exists() && !next.exists());
            let held = key_file::read_consensus(&file, SchemeName::Ed25519).unwrap();
            assert_eq!(public_half(&held), new);
            assert!(!Keyring::new(&file, held).has_former());
        }
    }

    /// Somebody took the next key for one that is not in use, and removed the file.
    #[test]
    fn nothing_is_erased_while_no_file_holds_the_key_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consensus.key");
        let (first, second) = (key(), key());
        let new = public_half(&second);
        key_file::write_consensus(&file, &first).unwrap();
        key_file::write_consensus(&beside(&file, "next"), &second).unwrap();
        let ring = Keyring::new(&file, first);
        assert!(ring.enter(&new));
        std::fs::remove_file(beside(&file, "next")).unwrap();
        let error = ring.erase_former().unwrap_err().to_string();
        assert!(error.contains("does not hold the key in use"), "{error}");
        assert!(file.exists());
    }
}
