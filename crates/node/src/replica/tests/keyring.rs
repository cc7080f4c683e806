//! Keys of replicas that change, and the files that hold them.

use std::path::{Path, PathBuf};

use quorate_core::base::crypto::{Kind, ShareKeys, Signer as _, Statement};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules};
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId, View};
use quorate_crypto::bls::threshold;
use quorate_crypto::{ConsensusKey, SchemeName, key_file};

use crate::config::public_half;
use crate::replica::keyring::{Keyring, ShareError, beside};
use crate::replica::shares::{ShareFiles, ShareKey, wipe_file};

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
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "it may have to come back to the old one");

        // The power fails after so many steps of the erasing.
        if done > 0 {
            std::fs::hard_link(&file, &former).unwrap();
        }
        if done > 1 {
            std::fs::rename(&next, &file).unwrap();
        }
        if done > 2 {
            wipe_file(&former).unwrap();
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

const ME: ReplicaId = ReplicaId(1);

/// The shares of a fresh key, by member.
fn dealt() -> Vec<ConsensusKey> {
    threshold::deal(4, 3).unwrap().shares.into_iter().map(ConsensusKey::dealt).collect()
}

/// Replicas 0 to 3, or others, in an epoch in which they have these shares.
fn committee(epoch: u64, ids: [u16; 4], shares: &[ConsensusKey]) -> Committee {
    let mut members = vec![None; 8];
    for id in ids {
        members[usize::from(id)] = Some(Member::new(ReplicaKey::from([id as u8 + 1; 32])));
    }
    let public = |share: &ConsensusKey| ShareKey::try_from(share.public_key()).unwrap();
    let keys = ids.into_iter().map(ReplicaId).zip(shares.iter().map(public)).collect();
    let opening = Opening { after: Digest([1; 32]), height: Height(0) };
    let governance = Governance::default();
    let own =
        Committee::with_members(opening.after, Epoch(epoch), opening, members, governance).unwrap();
    let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
    own.under(rules).with_shares(ShareKeys::new(3, keys).unwrap()).unwrap()
}

/// A member's consensus key, with its shares of these epochs on disk.
fn member(folder: &Path, shares: &[(u64, &ConsensusKey)]) -> (Keyring, ShareFiles) {
    let file = folder.join("consensus.key");
    let own = key();
    key_file::write_consensus(&file, &own).unwrap();
    let files = ShareFiles::beside(&file);
    shares.iter().for_each(|(epoch, share)| files.keep_share(Epoch(*epoch), share).unwrap());
    (Keyring::new(&file, own), files)
}

fn file_of(files: &ShareFiles, epoch: u64, share: &ConsensusKey) -> PathBuf {
    files.share_file(Epoch(epoch), &share.public_key().try_into().unwrap())
}

/// A vote in an epoch.
fn vote(committee: &Committee) -> Statement {
    let (chain, epoch) = (committee.chain(), committee.epoch());
    Statement::new(&chain, epoch, 0, Kind::Vote, View(1), 0, &Digest([2; 32]))
}

fn signs_with(ring: &Keyring, committee: &Committee, share: &ConsensusKey) -> bool {
    let vote = vote(committee);
    ring.sign(&vote) == share.sign(&vote)
}

/// Its only share of the epoch cannot be read when the epoch begins, and others certify the epoch
/// before it can.
#[test]
fn a_share_that_cannot_be_read_for_a_while_is_not_erased_and_is_used_when_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (dealt(), dealt());
    let (ring, files) = member(folder.path(), &[(0, &first[1]), (1, &second[1])]);
    let (before, now) = (committee(0, [0, 1, 2, 3], &first), committee(1, [0, 1, 2, 3], &second));
    ring.enter_share(&before, ME).unwrap();
    assert!(signs_with(&ring, &before, &first[1]));

    let file = file_of(&files, 1, &second[1]);
    let hidden = folder.path().join("hidden");
    std::fs::rename(&file, &hidden).unwrap();
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let error = ring.enter_share(&now, ME).unwrap_err();
    assert!(matches!(error, ShareError::Unread(_)), "{error}");
    assert!(ring.has_former_shares());
    ring.settle_shares(Epoch(1));
    let tended = ring.tend();
    assert!(matches!(tended.share, Some(Err(ShareError::Unread(_)))) && tended.erased.is_none());
    assert!(file_of(&files, 0, &first[1]).exists(), "it may be wrong about what it has");

    std::fs::rename(&hidden, &file).unwrap();
    let tended = ring.tend();
    assert!(tended.share.unwrap().is_ok() && tended.erased.unwrap().is_ok());
    assert!(signs_with(&ring, &now, &second[1]));
    assert!(!file_of(&files, 0, &first[1]).exists() && file.exists());
    let tended = ring.tend();
    assert!(tended.share.is_none() && tended.erased.is_none(), "there is nothing left to do");
}

/// It is erased by name: that file cannot be read when former shares go.
#[test]
fn the_share_in_use_stays_though_its_file_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (dealt(), dealt());
    let (ring, files) = member(folder.path(), &[(0, &first[1]), (1, &second[1])]);
    let now = committee(1, [0, 1, 2, 3], &second);
    ring.enter_share(&now, ME).unwrap();
    let file = file_of(&files, 1, &second[1]);
    let hidden = folder.path().join("hidden");
    std::fs::hard_link(&file, &hidden).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("hidden", &file).unwrap();
    std::fs::set_permissions(&hidden, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    ring.settle_shares(Epoch(1));
    assert!(ring.tend().erased.unwrap().is_ok());
    assert!(!file_of(&files, 0, &first[1]).exists() && file.exists());
    std::fs::set_permissions(&hidden, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let key = second[1].public_key().try_into().unwrap();
    assert!(files.share(&key).unwrap().is_some(), "the one file of it was overwritten");
}

/// A power failure between two epochs: what it may have to come back to stays.
#[test]
fn former_shares_wait_for_a_certificate_of_the_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (dealt(), dealt());
    let (ring, files) = member(folder.path(), &[(0, &first[1]), (1, &second[1])]);
    ring.enter_share(&committee(0, [0, 1, 2, 3], &first), ME).unwrap();
    ring.enter_share(&committee(1, [0, 1, 2, 3], &second), ME).unwrap();
    assert!(ring.tend().erased.is_none());
    assert!(file_of(&files, 0, &first[1]).exists());
    // Another epoch of the same members: the share is not read again.
    std::fs::rename(file_of(&files, 1, &second[1]), folder.path().join("away")).unwrap();
    ring.enter_share(&committee(2, [0, 1, 2, 3], &second), ME).unwrap();
    ring.settle_shares(Epoch(2));
    assert!(ring.tend().erased.unwrap().is_ok());
    assert!(!file_of(&files, 0, &first[1]).exists());
}

/// q that left would forge the epochs that they were in, with what is on their disks.
#[test]
fn a_member_that_leaves_keeps_no_share_and_no_key_of_a_generation() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (dealt(), dealt());
    let (ring, files) = member(folder.path(), &[(0, &first[1])]);
    ring.enter_share(&committee(0, [0, 1, 2, 3], &first), ME).unwrap();
    files.offered(Epoch(0), 1).unwrap();
    ring.enter_share(&committee(1, [0, 2, 3, 4], &second), ME).unwrap();
    assert!(ring.tend().erased.unwrap().is_ok());
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["consensus.key"]);
    // It restarts.
    let key = key_file::read_consensus(&folder.path().join("consensus.key"), SchemeName::Ed25519);
    let ring = Keyring::new(&folder.path().join("consensus.key"), key.unwrap());
    files.keep_share(Epoch(0), &first[1]).unwrap();
    ring.enter_share(&committee(1, [0, 2, 3, 4], &second), ME).unwrap();
    assert!(ring.tend().erased.unwrap().is_ok());
    assert!(!file_of(&files, 0, &first[1]).exists());
}
