//! Tests that the folder that forgets durable operations is left in the same state as the one that
//! records all.

use quorate_store::disk::{CrashDisk, Disk, DiskFile, Fate, Machine, PowerDisk};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Files are created, written, extended, renamed and removed, for `steps` operations or until the
/// disk refuses one. A file is renamed at most once between two syncs of the folder.
fn live(disk: &dyn Disk, seed: u64, steps: usize) -> io::Result<()> {
    let mut random = Random(seed);
    let mut open: BTreeMap<String, Arc<dyn DiskFile>> = BTreeMap::new();
    let mut renamed: Vec<String> = Vec::new();
    for step in 0..steps {
        let names: Vec<String> = open.keys().cloned().collect();
        let name = names.get(random.below(names.len().max(1) as u64) as usize).cloned();
        match (random.below(13), name) {
            (0, _) | (_, None) => {
                let name = format!("file{step}");
                open.insert(name.clone(), disk.create(&name, random.below(3) * 700)?);
            }
            (1, Some(name)) if !renamed.contains(&name) => {
                let to = format!("name{}", random.below(4));
                if open.contains_key(&to) && renamed.contains(&to) {
                    continue;
                }
                disk.rename(&name, &to)?;
                let file = open.remove(&name).unwrap();
                open.insert(to.clone(), file);
                renamed.push(to);
            }
            (2, Some(name)) => {
                disk.remove(&name)?;
                open.remove(&name);
            }
            (3, _) => {
                disk.sync_dir()?;
                renamed.clear();
            }
            (4 | 5, Some(name)) => open[&name].sync_data()?,
            (6, Some(name)) => open[&name].extend(random.below(12_000))?,
            (_, Some(name)) => {
                let (offset, length) = (random.below(9000), random.below(2000));
                let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
                open[&name].write_at(offset, &bytes)?;
            }
        }
    }
    Ok(())
}

fn contents(disk: &PowerDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list().unwrap();
    names.into_iter().map(|name| (name.clone(), disk.content(&name).unwrap())).collect()
}

fn fates(crash: &CrashDisk, cut: usize) -> Vec<Fate> {
    let mut fates = vec![Fate::Kept, Fate::Lost, Fate::ContentLost, Fate::NamesLost];
    let sectors = crash.sectors(cut - 1).unwrap_or(0);
    fates.extend((0..sectors).map(|sectors| Fate::Torn { sectors }));
    fates.extend((0..sectors).map(|sector| Fate::Hole { sector }));
    fates
}

#[test]
fn a_power_failure_leaves_what_the_recording_folder_says() {
    for seed in 0..6 {
        let crash = CrashDisk::new();
        live(&crash, seed, 120).unwrap();
        for cut in 1..=crash.operations() {
            for fate in fates(&crash, cut) {
                let machine = Machine::new();
                let disk = PowerDisk::new(&machine);
                machine.cut_power_in(cut as u64);
                assert!(live(&disk, seed, 120).is_err());
                assert!(machine.is_off());
                assert_eq!(machine.operations(), cut as u64);
                disk.lose(fate);
                machine.power_on();
                let expected = crash.materialise(cut, fate);
                let expected: BTreeMap<_, _> = expected
                    .list()
                    .unwrap()
                    .into_iter()
                    .map(|name| (name.clone(), expected.content(&name).unwrap()))
                    .collect();
                assert_eq!(contents(&disk), expected, "seed {seed}, cut {cut}, {fate:?}");
            }
        }
    }
}

#[test]
fn a_coin_keeps_what_is_durable_and_either_side_of_every_sector() {
    let mut seen = [false; 2];
    for seed in 0..50 {
        let machine = Machine::new();
        let disk = PowerDisk::new(&machine);
        let file = disk.create("file", 0).unwrap();
        file.write_at(0, &[1; 2048]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(512, &[2; 1024]).unwrap();
        drop(file);
        machine.cut_power();
        let lost = disk.lose(Fate::Mixed { seed });
        assert_eq!((lost.sectors_kept + lost.sectors_lost, lost.names_lost), (2, 0));
        let content = disk.content("file").unwrap();
        for (sector, bytes) in content.chunks(512).enumerate() {
            let value = bytes[0];
            assert!(bytes.iter().all(|byte| *byte == value), "a sector is torn");
            assert!(value == 1 || value == 2 && (sector == 1 || sector == 2), "sector {sector}");
            if sector == 1 {
                seen[usize::from(value == 2)] = true;
            }
        }
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn what_is_durable_is_forgotten() {
    let machine = Machine::new();
    let disk = PowerDisk::new(&machine);
    let file = disk.create("file", 1 << 20).unwrap();
    for round in 0..1000u64 {
        file.write_at(round * 100, &[7; 3000]).unwrap();
        file.write_at(0, &[8; 512]).unwrap();
        assert!(disk.unconfirmed_bytes() <= 3512);
        file.sync_data().unwrap();
        assert_eq!(disk.unconfirmed_bytes(), 0);
    }
}

#[test]
fn a_failed_sync_drops_what_it_was_to_confirm() {
    let (mut kept, mut dropped) = (false, false);
    for round in 0..40 {
        let machine = Machine::new();
        let disk = PowerDisk::new(&machine);
        let file = disk.create("file", 512).unwrap();
        disk.sync_dir().unwrap();
        for _ in 0..round {
            file.sync_data().unwrap();
        }
        file.sync_data().unwrap();
        file.write_at(0, &[1; 512]).unwrap();
        machine.fail_sync_in(1);
        assert!(file.sync_data().is_err());
        assert_eq!(machine.fired().syncs_failed, 1);
        // A second sync that succeeds proves nothing.
        file.sync_data().unwrap();
        machine.cut_power();
        disk.lose(Fate::Kept);
        let value = disk.content("file").unwrap()[0];
        kept |= value == 1;
        dropped |= value == 0;
    }
    assert!(kept && dropped);
}

#[test]
fn a_full_disk_takes_nothing_until_there_is_room() {
    let machine = Machine::new();
    let disk = PowerDisk::new(&machine);
    let file = disk.create("file", 512).unwrap();
    machine.fill_in(1);
    file.write_at(0, &[1]).unwrap();
    assert_eq!(file.write_at(0, &[2]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.create("more", 0).err().unwrap().kind(), io::ErrorKind::StorageFull);
    file.sync_data().unwrap();
    assert_eq!(machine.fired().writes_refused, 2);
    machine.free();
    file.write_at(0, &[3]).unwrap();
    assert_eq!(disk.content("file").unwrap()[0], 3);
}

#[test]
fn writes_go_astray_and_damage_stays() {
    let machine = Machine::new();
    let disk = PowerDisk::new(&machine);
    let file = disk.create("file", 2048).unwrap();
    disk.misdirect("file", 2, Some(1024)).unwrap();
    file.write_at(0, &[1; 512]).unwrap();
    file.write_at(0, &[2; 512]).unwrap();
    disk.misdirect("file", 1, None).unwrap();
    file.write_at(512, &[3; 512]).unwrap();
    file.sync_data().unwrap();
    disk.damage("file", 2047, &[9]).unwrap();
    assert!(disk.damage("file", 2047, &[9, 9]).is_err());
    let content = disk.content("file").unwrap();
    assert_eq!([content[0], content[512], content[1024], content[2047]], [1, 0, 2, 9]);
    assert_eq!((machine.fired().writes_lost, machine.fired().writes_misdirected), (1, 1));
}

#[test]
fn folders_of_one_machine_share_its_power_and_copies_do_not() {
    let machine = Machine::new();
    let (one, two) = (PowerDisk::new(&machine), PowerDisk::new(&machine));
    one.create("a", 10).unwrap();
    let copy = one.copy(&Machine::new());
    machine.cut_power_in(1);
    assert!(two.create("b", 10).is_err());
    assert!(one.create("c", 10).is_err());
    let lost = one.lose(Fate::Lost).and(two.lose(Fate::Kept));
    assert_eq!((lost.names_lost, lost.names_kept), (1, 1));
    machine.power_on();
    assert_eq!(one.list().unwrap(), Vec::<String>::new());
    assert_eq!(two.list().unwrap(), ["b"]);
    assert_eq!(copy.list().unwrap(), ["a"]);
}
