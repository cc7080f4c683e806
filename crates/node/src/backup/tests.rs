//! Which files lead to the state of a height, and what comes out of them.

use std::fs;
use std::path::Path;

use quorate_core::{Digest, Epoch, Height};

use super::BackupError;
use super::folder::{Folder, Head, Kind, Tag};
use super::restore::{PART_MARK, begin_part};
use super::verify::{Backup, Verified, executes};
use crate::config::Cluster;
use crate::written::empty_but_for;

fn head(first: u64, last: u64) -> Head {
    Head {
        made_at: 7,
        epoch: Epoch(0),
        first: Height(first),
        last: Height(last),
        parent: Digest([first as u8; 32]),
        block: Digest([last as u8; 32]),
        cluster: "chain".to_owned(),
    }
}

fn add(folder: &Folder, kind: Kind, first: u64, last: u64) {
    folder.begin(kind, &head(first, last)).unwrap().finish().unwrap();
}

/// A backup with a gap between heights 20 and 25, and states at 12 and 25.
fn backup(path: &Path) -> (Folder, Backup) {
    let folder = Folder::write(path).unwrap();
    add(&folder, Kind::Blocks, 26, 30);
    add(&folder, Kind::State, 25, 25);
    add(&folder, Kind::Blocks, 11, 20);
    add(&folder, Kind::State, 12, 12);
    add(&folder, Kind::Blocks, 1, 10);
    let parts = folder.parts().unwrap();
    (folder, Backup { cluster: Cluster::new("chain".to_owned(), [7; 32], Vec::new()), parts })
}

#[test]
fn a_height_is_reached_from_the_newest_state_below_it() {
    let place = tempfile::tempdir().unwrap();
    let (folder, backup) = backup(place.path());
    let way = |to: Option<u64>| {
        let way = backup.way(to.map(Height), &folder).ok()?;
        let blocks: Vec<_> = way.blocks.iter().map(|part| part.head.first.0).collect();
        Some((way.state.map(|part| part.head.first.0), blocks, way.height.0))
    };
    assert_eq!(way(Some(0)), Some((None, vec![], 0)));
    assert_eq!(way(Some(7)), Some((None, vec![1], 7)));
    assert_eq!(way(Some(11)), Some((None, vec![1, 11], 11)));
    assert_eq!(way(Some(12)), Some((Some(12), vec![], 12)));
    assert_eq!(way(Some(20)), Some((Some(12), vec![11], 20)));
    assert_eq!([21, 24, 31].map(|height| way(Some(height))), [None, None, None]);
    assert_eq!(way(Some(25)), Some((Some(25), vec![], 25)));
    assert_eq!(way(None), Some((Some(25), vec![26], 30)));
    assert_eq!(backup.end(), Some((Height(30), Digest([30; 32]))));
}

#[test]
fn heights_that_cannot_be_restored_are_not_named() {
    let place = tempfile::tempdir().unwrap();
    let mut proven = Verified::default();
    backup(place.path()).1.parts.iter().for_each(|part| proven.add(part, true));
    let heights: Vec<_> = proven.heights.iter().map(|(first, last)| (first.0, last.0)).collect();
    assert_eq!(heights, [(0, 20), (25, 30)]);
}

/// Nobody here can execute the blocks of a service.
#[test]
fn of_a_service_the_heights_of_its_states_can_be_restored() {
    let place = tempfile::tempdir().unwrap();
    let (folder, mut backup) = backup(place.path());
    backup.cluster.application = crate::config::Application::Service;
    let mut proven = Verified::default();
    backup.parts.iter().for_each(|part| proven.add(part, executes(&backup.cluster)));
    assert_eq!(proven.heights, [12, 25].map(|height| (Height(height), Height(height))));
    let way = backup.way(None, &folder).ok().unwrap();
    assert_eq!((way.height, way.blocks.len()), (Height(25), 0));
}

#[test]
fn items_are_what_they_were() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::write(place.path()).unwrap();
    // Shorter and longer than the chunks of the file, which they cross.
    let items: Vec<_> = [0, 1, 5, 3 << 20, 0, (1 << 20) - 5, 9]
        .into_iter()
        .zip(
            [Tag::Handover, Tag::Offer, Tag::Chunk, Tag::Block, Tag::Following, Tag::Newest]
                .iter()
                .cycle(),
        )
        .map(|(length, tag)| (*tag, vec![length as u8; length]))
        .collect();
    let mut writer = folder.begin(Kind::State, &head(3, 3)).unwrap();
    items.iter().for_each(|(tag, item)| writer.add(*tag, item).unwrap());
    writer.finish().unwrap();
    let parts = folder.parts().unwrap();
    assert_eq!(parts[0].head, head(3, 3));
    let mut found = Vec::new();
    let read = parts[0].items(|tag, item| {
        found.push((tag, item.to_vec()));
        Ok(())
    });
    read.unwrap();
    assert!(found == items, "{:?}", found.iter().map(|(tag, _)| tag).collect::<Vec<_>>());
}

#[test]
fn one_process_writes_and_readers_need_no_lock() {
    let place = tempfile::tempdir().unwrap();
    let (folder, _) = backup(place.path());
    let second = Folder::write(place.path());
    assert!(matches!(second, Err(BackupError::Refused(_))));
    assert_eq!(Folder::read(place.path()).unwrap().parts().unwrap().len(), 5);
    drop(folder);
    Folder::write(place.path()).unwrap();
}

/// A restore may be killed between any two steps: none of them leaves a folder that the next
/// restore takes for somebody else's.
#[test]
fn what_an_attempt_left_is_known_wherever_it_was_cut_short() {
    let place = tempfile::tempdir().unwrap();
    let (out, part) = (place.path().join("homes"), place.path().join("homes.part"));
    // Killed before the mark was made.
    fs::create_dir(&part).unwrap();
    assert_eq!(begin_part(&out).unwrap(), part);
    // Killed while homes were made, and again while they were removed.
    fs::create_dir_all(part.join("replica-0/config")).unwrap();
    fs::write(part.join("note"), "").unwrap();
    empty_but_for(&part, PART_MARK).unwrap();
    let left: Vec<_> =
        fs::read_dir(&part).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [PART_MARK]);
    fs::create_dir_all(part.join("replica-0/config")).unwrap();
    assert_eq!(begin_part(&out).unwrap(), part);
    assert!(!part.join("replica-0").exists());
    // Somebody else's folder stays as it is.
    fs::remove_file(part.join(PART_MARK)).unwrap();
    fs::write(part.join("note"), "").unwrap();
    assert!(begin_part(&out).is_err() && part.join("note").exists());
}
