//! A store on disk, and ways to spoil it.

use crate::input::Input;
use crate::random::{Model, Random, change, small_options};
use quorate_store::disk::{Disk, MemoryDisk};
use quorate_store::lazy_trie::{Options, Store};
use std::sync::{Arc, OnceLock};

/// A store of some hundred items.
pub struct Grown {
    pub disk: MemoryDisk,
    /// What it held at its last checkpoint, and after each commit since.
    pub models: Vec<Model>,
}

/// The same each time.
pub fn grown() -> &'static Grown {
    static GROWN: OnceLock<Grown> = OnceLock::new();
    GROWN.get_or_init(|| {
        let disk = MemoryDisk::new();
        let mut model = Model::new();
        let mut random = Random(11);
        let (store, _) = Store::open_on(Arc::new(disk.clone()), options()).unwrap();
        for _ in 0..300 {
            change(&store, &mut model, &mut random, 250).unwrap();
        }
        store.checkpoint().unwrap();
        let mut models = vec![model.clone()];
        for _ in 0..20 {
            change(&store, &mut model, &mut random, 250).unwrap();
            models.push(model.clone());
        }
        drop(store);
        Grown { disk, models }
    })
}

/// Without a checkpoint in the last commits.
pub fn options() -> Options {
    Options { checkpoint_bytes: 4 << 20, ..small_options() }
}

/// Changes one byte of one of the files whose names end in one of `ends`. A checksum finds every
/// such change, wherever it is.
pub fn rot(disk: &MemoryDisk, ends: &[&str], input: &mut Input<'_>) {
    let Some((name, mut content)) = pick(disk, ends, input) else { return };
    let at = input.below(content.len() as u64) as usize;
    content[at] ^= input.byte().max(1);
    disk.put(&name, content);
}

/// Spoils files by intent: anything may be anywhere, with checksums that hold where they are easily
/// made.
pub fn be_hostile(disk: &MemoryDisk, ends: &[&str], input: &mut Input<'_>) {
    for _ in 0..1 + input.byte() % 4 {
        let Some((name, mut content)) = pick(disk, ends, input) else { return };
        let at = input.below(content.len() as u64) as usize;
        match input.byte() % 6 {
            0 => content.truncate(at),
            1 => content.resize(content.len() + at.min(70_000), 0),
            2 => {
                let end = content.len().min(at + 512);
                content[at..end].fill(input.byte());
            }
            3 => {
                let from = input.below(content.len() as u64) as usize;
                let length = (content.len() - at.max(from)).min(600);
                content.copy_within(from..from + length, at);
            }
            _ => {
                let length = usize::from(input.byte() % 24).min(content.len() - at);
                let new = input.bytes(length);
                content[at..at + length].copy_from_slice(&new);
            }
        }
        disk.put(&name, content);
    }
}

fn pick(disk: &MemoryDisk, ends: &[&str], input: &mut Input<'_>) -> Option<(String, Vec<u8>)> {
    let names = disk.list().unwrap();
    let names: Vec<_> =
        names.iter().filter(|name| ends.iter().any(|end| name.ends_with(end))).collect();
    let name = *names.get(usize::from(input.byte()) % names.len().max(1))?;
    let content = disk.content(name).unwrap();
    (!content.is_empty()).then(|| (name.clone(), content))
}
