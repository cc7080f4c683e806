//! The secret files of a member that generates threshold keys with the others.
//!
//! They lie beside its consensus key, each for its owner alone (mode 0600):
//!
//! | file | what it holds |
//! |---|---|
//! | `consensus.key.share.EPOCH.NAME` | its share of a key that was generated for this epoch |
//! | `consensus.key.generation.EPOCH.SERIAL` | what shares are encrypted to in one key generation, and what its dealing is made of |
//!
//! The name of a share is the beginning of its public key: a generation may come to other keys
//! after a complaint, and each has a file of its own. So no file is ever written over, and the
//! share that a committee names is found by its public key, at whatever instant the power failed.
//!
//! # When a file is made
//! The key of a generation is made when an administrator asks for its public half, for the next
//! serial of the epoch; it is on disk before the answer leaves. So one key serves one generation.
//! A share is on disk before the replica signs anything that says it has one.
//!
//! # When a file goes
//! Files are overwritten, and then removed. The key of a generation goes when a later generation
//! has begun, or with the former shares: when a certificate of the new epoch is durable here.
//! Whoever took it later could decrypt what was dealt to this member, which is in the log for ever.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use quorate_core::Epoch;
use quorate_core::base::crypto::{ENCRYPTION_KEY_BYTES, SHARE_KEY_BYTES};
use quorate_crypto::bls::threshold::generation::DecryptionKey;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName};

use super::keyring::beside;

/// The public half of a share.
pub type ShareKey = [u8; SHARE_KEY_BYTES];

/// Bytes of the public key that name a share's file.
const NAMING_BYTES: usize = 8;

/// The files beside a consensus key.
#[derive(Clone, Debug)]
pub struct ShareFiles {
    consensus: PathBuf,
}

/// Which generation of which epoch a key is for.
type Place = (u64, u64);

impl ShareFiles {
    /// Those beside this file.
    #[must_use]
    pub fn beside(consensus: &Path) -> Self {
        Self { consensus: consensus.to_owned() }
    }

    /// Where the share of an epoch with this public key lies.
    #[must_use]
    pub fn share_file(&self, epoch: Epoch, key: &ShareKey) -> PathBuf {
        let name: String = key[..NAMING_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
        beside(&self.consensus, &format!("share.{epoch}.{name}"))
    }

    fn generation_file(&self, epoch: Epoch, serial: u64) -> PathBuf {
        beside(&self.consensus, &format!("generation.{epoch}.{serial}"))
    }

    /// Has a share for `epoch` on disk. Doing it again changes nothing.
    ///
    /// # Errors
    /// The file could not be written, or one of that name holds something else.
    pub fn keep_share(&self, epoch: Epoch, share: &ConsensusKey) -> Result<(), KeyFileError> {
        let Ok(key) = share.public_key().try_into() else { return Ok(()) };
        let file = self.share_file(epoch, &key);
        match key_file::write_consensus(&file, share) {
            Err(KeyFileError::Exists { path }) if has_key(&file, &key) => {
                // It may have been linked, and its folder not synced.
                self.sync().map_err(|source| KeyFileError::Io { path, source })
            }
            written => written,
        }
    }

    /// The share with this public key, if it is here.
    #[must_use]
    pub fn share(&self, key: &ShareKey) -> Option<ConsensusKey> {
        let named = self.named("share.").into_iter().map(|(file, _)| file);
        named.filter_map(|file| read_share(&file)).find(|share| share.public_key() == key[..])
    }

    /// Whether there is a share of any epoch.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.named("share.").iter().any(|(file, _)| read_share(file).is_some())
    }

    /// The key of a generation, which is made if it is not there.
    ///
    /// # Errors
    /// The file could not be read or written, or there is no randomness.
    pub fn offered(&self, epoch: Epoch, serial: u64) -> Result<DecryptionKey, String> {
        let file = self.generation_file(epoch, serial);
        if file.exists() {
            let key = key_file::read_decryption(&file).map_err(|error| error.to_string())?;
            self.sync().map_err(|error| error.to_string())?;
            return Ok(key);
        }
        let key = DecryptionKey::generate().map_err(|error| error.to_string())?;
        key_file::write_decryption(&file, &key).map_err(|error| error.to_string())?;
        Ok(key)
    }

    /// The key of a generation with this public half, if it is here.
    #[must_use]
    pub fn decryption(
        &self,
        epoch: Epoch,
        serial: u64,
        public: &[u8; ENCRYPTION_KEY_BYTES],
    ) -> Option<DecryptionKey> {
        let key = key_file::read_decryption(&self.generation_file(epoch, serial)).ok()?;
        (key.public_key().to_bytes() == *public).then_some(key)
    }

    /// A generation has begun: the keys of earlier ones go.
    ///
    /// # Errors
    /// A file could not be changed.
    pub fn wipe_generations_before(&self, epoch: Epoch, serial: u64) -> io::Result<()> {
        self.wipe(|kind, place| kind == "generation." && place < (epoch.0, serial), None)
    }

    /// A certificate of `epoch` is durable here. Shares of epochs up to it go, but for the one that
    /// signs now (`kept`). So do the keys of earlier generations.
    ///
    /// # Errors
    /// A file could not be changed.
    pub fn wipe_up_to(&self, epoch: Epoch, kept: Option<&ShareKey>) -> io::Result<()> {
        let is_over = |kind: &str, (of, _): Place| match kind {
            "generation." => of < epoch.0,
            _ => of <= epoch.0,
        };
        self.wipe(is_over, kept)
    }

    fn wipe(
        &self,
        is_over: impl Fn(&str, Place) -> bool,
        kept: Option<&ShareKey>,
    ) -> io::Result<()> {
        let mut wiped = false;
        for kind in ["share.", "generation."] {
            for (file, place) in self.named(kind) {
                let is_kept = kept.is_some_and(|key| kind == "share." && has_key(&file, key));
                if is_over(kind, place) && !is_kept {
                    wipe_file(&file)?;
                    fs::remove_file(&file)?;
                    wiped = true;
                }
            }
        }
        if wiped { self.sync() } else { Ok(()) }
    }

    /// The files of this kind, each with its epoch, and its serial if it has one. What an
    /// interrupted process left of one counts.
    fn named(&self, kind: &str) -> Vec<(PathBuf, Place)> {
        let Some(own) = self.consensus.file_name().and_then(|name| name.to_str()) else {
            return Vec::new();
        };
        let prefix = format!("{own}.{kind}");
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let read = |entry: io::Result<fs::DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let mut parts = name.strip_prefix(&prefix)?.split('.');
            let epoch = parts.next()?.parse().ok()?;
            let serial = parts.next().and_then(|serial| serial.parse().ok()).unwrap_or_default();
            Some((self.folder().join(&name), (epoch, serial)))
        };
        entries.filter_map(read).collect()
    }

    fn folder(&self) -> &Path {
        match self.consensus.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    fn sync(&self) -> io::Result<()> {
        File::open(self.folder()).and_then(|folder| folder.sync_all())
    }
}

fn read_share(file: &Path) -> Option<ConsensusKey> {
    key_file::read_consensus(file, SchemeName::BlsThreshold).ok()
}

fn has_key(file: &Path, key: &ShareKey) -> bool {
    read_share(file).is_some_and(|share| share.public_key() == key[..])
}

/// Overwrites a file, and has that on disk.
pub(super) fn wipe_file(file: &Path) -> io::Result<()> {
    let bytes = fs::metadata(file)?.len();
    let mut file = OpenOptions::new().write(true).open(file)?;
    file.write_all(&vec![0; usize::try_from(bytes).unwrap_or_default()])?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use quorate_crypto::bls::threshold;

    use super::*;

    fn shares(count: usize) -> Vec<ConsensusKey> {
        threshold::deal(count, 1).unwrap().shares.into_iter().map(ConsensusKey::dealt).collect()
    }

    fn public(share: &ConsensusKey) -> ShareKey {
        share.public_key().try_into().unwrap()
    }

    fn files(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_share_is_found_by_its_public_key_and_goes_when_its_successor_is_settled() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ShareFiles::beside(&folder.path().join("consensus.key"));
        // Distinct polynomials: of one of degree 0, all shares are equal.
        let [first, failed, next] = [0; 3].map(|_| shares(1).remove(0));
        kept.keep_share(Epoch(0), &first).unwrap();
        kept.keep_share(Epoch(1), &failed).unwrap();
        kept.keep_share(Epoch(1), &next).unwrap();
        kept.keep_share(Epoch(1), &next).unwrap();
        for share in [&first, &failed, &next] {
            let found = kept.share(&public(share)).unwrap();
            assert_eq!(found.to_bytes(), share.to_bytes());
            let file = files(folder.path());
            let mode = |name: &String| {
                fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777
            };
            assert!(file.iter().all(|name| mode(name) == 0o600));
        }
        // A restart in the epoch before: what is for the next epoch stays.
        kept.wipe_up_to(Epoch(0), Some(&public(&first))).unwrap();
        assert!([&first, &failed, &next].iter().all(|it| kept.share(&public(it)).is_some()));
        // What an interrupted process left is wiped as well.
        let left = "consensus.key.share.1.0011223344556677.draft-7";
        fs::write(folder.path().join(left), "secret").unwrap();
        kept.wipe_up_to(Epoch(1), Some(&public(&next))).unwrap();
        assert!(kept.share(&public(&first)).is_none() && kept.share(&public(&failed)).is_none());
        assert!(kept.share(&public(&next)).is_some());
        assert_eq!(files(folder.path()).len(), 1);
        // An epoch whose members go on with the same key.
        kept.wipe_up_to(Epoch(3), Some(&public(&next))).unwrap();
        assert!(kept.share(&public(&next)).is_some());
    }

    #[test]
    fn each_generation_has_a_key_of_its_own_which_outlives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ShareFiles::beside(&folder.path().join("consensus.key"));
        let key = |serial| kept.offered(Epoch(2), serial).unwrap().public_key().to_bytes();
        let (first, second) = (key(1), key(2));
        assert_ne!(first, second);
        assert_eq!(key(1), first, "asked again, it offers the same");
        assert!(kept.decryption(Epoch(2), 1, &first).is_some());
        assert!(kept.decryption(Epoch(2), 1, &second).is_none());
        kept.wipe_generations_before(Epoch(2), 2).unwrap();
        assert_eq!(files(folder.path()), ["consensus.key.generation.2.2"]);
        kept.wipe_up_to(Epoch(2), None).unwrap();
        assert!(kept.decryption(Epoch(2), 2, &second).is_some(), "the epoch's own goes on");
        kept.wipe_up_to(Epoch(3), None).unwrap();
        assert!(files(folder.path()).is_empty());
    }
}
