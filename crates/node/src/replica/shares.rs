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
//! has begun, or with the former shares: when a certificate of the new epoch is durable here, or
//! when the replica has left. Whoever took it later could decrypt what was dealt to this member,
//! which is in the log for ever.
//!
//! The share that the committee names stays, by the name of its file: it may be unreadable for a
//! moment. A file that cannot be read is never taken for one that is not there.

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

/// What names of files of shares have behind that of the consensus key, and those of generations.
const SHARE: &str = "share.";
const GENERATION: &str = "generation.";

/// The files beside a consensus key.
#[derive(Clone, Debug)]
pub struct ShareFiles {
    consensus: PathBuf,
}

/// Which generation of which epoch a key is for.
type Place = (u64, u64);

/// A file, by what its name says.
struct Named {
    file: PathBuf,
    epoch: u64,
    /// The name of a share, or the serial of a generation.
    of: String,
}

impl Named {
    fn place(&self) -> Place {
        (self.epoch, self.of.parse().unwrap_or_default())
    }
}

impl ShareFiles {
    /// Those beside this file.
    #[must_use]
    pub fn beside(consensus: &Path) -> Self {
        Self { consensus: consensus.to_owned() }
    }

    /// Where the share of an epoch with this public key lies.
    #[must_use]
    pub fn share_file(&self, epoch: Epoch, key: &ShareKey) -> PathBuf {
        beside(&self.consensus, &format!("share.{epoch}.{}", name_of(key)))
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
            Err(KeyFileError::Exists { path })
                if read_share(&file).is_ok_and(|kept| kept.public_key() == key[..]) =>
            {
                // It may have been linked, and its folder not synced.
                self.sync().map_err(|source| KeyFileError::Io { path, source })
            }
            written => written,
        }
    }

    /// The share with this public key; `None` if it is not here.
    ///
    /// # Errors
    /// A file that may hold it, or the folder, could not be read: it may be here.
    pub fn share(&self, key: &ShareKey) -> Result<Option<ConsensusKey>, KeyFileError> {
        let folder = |source| KeyFileError::Io { path: self.folder().to_owned(), source };
        let (name, mut unread) = (name_of(key), None);
        for Named { file, of, .. } in self.named(SHARE).map_err(folder)? {
            match read_share(&file) {
                Ok(share) if share.public_key() == key[..] => return Ok(Some(share)),
                Ok(_) => {}
                Err(error) if is_absence(&error) => {}
                Err(error) if of == name || matches!(error, KeyFileError::Io { .. }) => {
                    unread = Some(error);
                }
                // What an interrupted process left.
                Err(_) => {}
            }
        }
        unread.map_or(Ok(None), Err)
    }

    /// Whether there is a share of any epoch.
    #[must_use]
    pub fn has_any(&self) -> bool {
        let has_share = |named: Vec<Named>| named.iter().any(|it| read_share(&it.file).is_ok());
        self.named(SHARE).is_ok_and(has_share)
    }

    /// The key of a generation, which is made if it is not there.
    ///
    /// # Errors
    /// The file could not be read or written, or there is no randomness.
    pub fn offered(&self, epoch: Epoch, serial: u64) -> Result<DecryptionKey, String> {
        let file = self.generation_file(epoch, serial);
        match key_file::read_decryption(&file) {
            Ok(key) => {
                self.sync().map_err(|error| error.to_string())?;
                return Ok(key);
            }
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
        let key = DecryptionKey::generate().map_err(|error| error.to_string())?;
        key_file::write_decryption(&file, &key).map_err(|error| error.to_string())?;
        Ok(key)
    }

    /// The key of a generation with this public half; `None` if it is not here.
    ///
    /// # Errors
    /// Its file could not be read.
    pub fn decryption(
        &self,
        epoch: Epoch,
        serial: u64,
        public: &[u8; ENCRYPTION_KEY_BYTES],
    ) -> Result<Option<DecryptionKey>, KeyFileError> {
        match key_file::read_decryption(&self.generation_file(epoch, serial)) {
            Ok(key) => Ok(Some(key).filter(|key| key.public_key().to_bytes() == *public)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A generation has begun: the keys of earlier ones go.
    ///
    /// # Errors
    /// A file could not be changed.
    pub fn wipe_generations_before(&self, epoch: Epoch, serial: u64) -> io::Result<()> {
        self.wipe(|kind, named| Ok(kind == GENERATION && named.place() < (epoch.0, serial)))
    }

    /// Nothing of the epochs before `epoch` is needed any more. Shares of epochs up to it go, but
    /// for the one that the committee names (`kept`). So do the keys of earlier generations.
    ///
    /// # Errors
    /// A file could not be read or changed. All others are gone.
    pub fn wipe_up_to(&self, epoch: Epoch, kept: Option<&ShareKey>) -> io::Result<()> {
        self.wipe(|kind, named| match (kind, kept) {
            (GENERATION, _) => Ok(named.epoch < epoch.0),
            (_, Some(key)) if named.epoch <= epoch.0 => Ok(!is_of(named, key)?),
            _ => Ok(named.epoch <= epoch.0),
        })
    }

    fn wipe(&self, is_over: impl Fn(&str, &Named) -> io::Result<bool>) -> io::Result<()> {
        let (mut wiped, mut failed) = (false, None);
        for kind in [SHARE, GENERATION] {
            for named in self.named(kind)? {
                let erased = is_over(kind, &named).and_then(|is_over| {
                    if is_over {
                        erase(&named.file)?;
                    }
                    Ok(is_over)
                });
                match erased {
                    Ok(is_over) => wiped |= is_over,
                    Err(error) => failed = Some((named.file, error)),
                }
            }
        }
        if wiped {
            self.sync()?;
        }
        failed.map_or(Ok(()), |(file, error)| {
            Err(io::Error::new(error.kind(), format!("{}: {error}", file.display())))
        })
    }

    /// The files of this kind. What an interrupted process left of one counts.
    fn named(&self, kind: &str) -> io::Result<Vec<Named>> {
        let Some(own) = self.consensus.file_name().and_then(|name| name.to_str()) else {
            return Ok(Vec::new());
        };
        let prefix = format!("{own}.{kind}");
        let mut named = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            let file = entry?.path();
            let name = file.file_name().and_then(|name| name.to_str());
            let mut parts =
                name.and_then(|name| name.strip_prefix(&prefix)).unwrap_or("").split('.');
            let epoch = parts.next().and_then(|epoch| epoch.parse().ok());
            if let (Some(epoch), Some(of)) = (epoch, parts.next()) {
                let of = of.to_owned();
                named.push(Named { file, epoch, of });
            }
        }
        Ok(named)
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

/// What names the file of a share.
fn name_of(key: &ShareKey) -> String {
    key[..NAMING_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_share(file: &Path) -> Result<ConsensusKey, KeyFileError> {
    key_file::read_consensus(file, SchemeName::BlsThreshold)
}

/// Whether a file is that of this share, by its name or else by what it holds. A draft has the
/// name, too, and may be the same file.
fn is_of(named: &Named, key: &ShareKey) -> io::Result<bool> {
    if named.of == name_of(key) {
        return Ok(true);
    }
    match read_share(&named.file) {
        Ok(share) => Ok(share.public_key() == key[..]),
        Err(KeyFileError::Io { source, .. }) if source.kind() != io::ErrorKind::NotFound => {
            Err(source)
        }
        Err(_) => Ok(false),
    }
}

fn is_absence(error: &KeyFileError) -> bool {
    matches!(error, KeyFileError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Overwrites a file, and removes it. It may be gone.
fn erase(file: &Path) -> io::Result<()> {
    match wipe_file(file).and_then(|()| fs::remove_file(file)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
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
            let found = kept.share(&public(share)).unwrap().unwrap();
            assert_eq!(found.to_bytes(), share.to_bytes());
            let file = files(folder.path());
            let mode = |name: &String| {
                fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o7777
            };
            assert!(file.iter().all(|name| mode(name) == 0o600));
        }
        // A restart in the epoch before: what is for the next epoch stays.
        kept.wipe_up_to(Epoch(0), Some(&public(&first))).unwrap();
        let has = |share: &ConsensusKey| kept.share(&public(share)).unwrap().is_some();
        assert!([&first, &failed, &next].into_iter().all(has));
        // What an interrupted process left is wiped as well.
        let left = "consensus.key.share.1.0011223344556677.draft-7";
        fs::write(folder.path().join(left), "secret").unwrap();
        kept.wipe_up_to(Epoch(1), Some(&public(&next))).unwrap();
        assert!(!has(&first) && !has(&failed) && has(&next));
        assert_eq!(files(folder.path()).len(), 1);
        // An epoch whose members go on with the same key.
        kept.wipe_up_to(Epoch(3), Some(&public(&next))).unwrap();
        assert!(has(&next));
    }

    /// A link to itself in the place of a file: it is there, and cannot be read.
    fn hide(file: &Path) -> PathBuf {
        let hidden = file.with_file_name("hidden");
        fs::rename(file, &hidden).unwrap();
        std::os::unix::fs::symlink(file, file).unwrap();
        hidden
    }

    #[test]
    fn a_share_that_cannot_be_read_is_not_taken_for_one_that_is_not_here_and_is_not_erased() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config");
        fs::create_dir(&config).unwrap();
        let kept = ShareFiles::beside(&config.join("consensus.key"));
        let [first, next] = [0; 2].map(|_| shares(1).remove(0));
        kept.keep_share(Epoch(0), &first).unwrap();
        kept.keep_share(Epoch(1), &next).unwrap();
        let (file, key) = (kept.share_file(Epoch(1), &public(&next)), public(&next));
        // What a process leaves that ended as it made the file: the same file by another name.
        let draft = PathBuf::from(format!("{}.draft-7", file.display()));
        fs::hard_link(&file, &draft).unwrap();
        let hidden = hide(&file);
        fs::remove_file(&draft).unwrap();
        assert!(kept.share(&key).is_err());
        fs::hard_link(&hidden, &draft).unwrap();
        kept.wipe_up_to(Epoch(1), Some(&key)).unwrap();
        assert!(!kept.share_file(Epoch(0), &public(&first)).exists());
        fs::rename(&hidden, &file).unwrap();
        kept.wipe_up_to(Epoch(1), Some(&key)).unwrap();
        assert_eq!(kept.share(&key).unwrap().unwrap().to_bytes(), next.to_bytes());
        // The same of the folder.
        fs::rename(&config, folder.path().join("away")).unwrap();
        assert!(kept.share(&key).is_err() && kept.wipe_up_to(Epoch(9), None).is_err());
        fs::rename(folder.path().join("away"), &config).unwrap();
        assert!(kept.share(&key).unwrap().is_some());
        // One of another name is erased only once it is known to be another share.
        let renamed = config.join("consensus.key.share.1.renamed");
        fs::rename(&file, &renamed).unwrap();
        fs::remove_file(&draft).unwrap();
        let hidden = hide(&renamed);
        assert!(kept.share(&key).is_err() && kept.wipe_up_to(Epoch(1), Some(&key)).is_err());
        fs::rename(&hidden, &renamed).unwrap();
        kept.wipe_up_to(Epoch(1), Some(&key)).unwrap();
        assert!(kept.share(&key).unwrap().is_some());
    }

    #[test]
    fn each_generation_has_a_key_of_its_own_which_outlives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let kept = ShareFiles::beside(&folder.path().join("consensus.key"));
        let key = |serial| kept.offered(Epoch(2), serial).unwrap().public_key().to_bytes();
        let (first, second) = (key(1), key(2));
        assert_ne!(first, second);
        assert_eq!(key(1), first, "asked again, it offers the same");
        assert!(kept.decryption(Epoch(2), 1, &first).unwrap().is_some());
        assert!(kept.decryption(Epoch(2), 1, &second).unwrap().is_none());
        let file = kept.generation_file(Epoch(2), 1);
        let hidden = hide(&file);
        assert!(kept.decryption(Epoch(2), 1, &first).is_err());
        assert!(kept.offered(Epoch(2), 1).is_err(), "another key is made in its place");
        fs::rename(hidden, file).unwrap();
        kept.wipe_generations_before(Epoch(2), 2).unwrap();
        assert_eq!(files(folder.path()), ["consensus.key.generation.2.2"]);
        kept.wipe_up_to(Epoch(2), None).unwrap();
        let own = kept.decryption(Epoch(2), 2, &second).unwrap();
        assert!(own.is_some(), "the epoch's own goes on");
        kept.wipe_up_to(Epoch(3), None).unwrap();
        assert!(files(folder.path()).is_empty());
    }
}
