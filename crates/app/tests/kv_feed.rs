//! The change feed: the lists say all that blocks change, and the state vouches for them.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use quorate_app::kv::command::encode;
use quorate_app::kv::feed::{Bounds, Change, Feed, Found, Head, Links, NotLinked, Page, changes};
use quorate_app::kv::{Condition, KeyValue, Storage};
use quorate_core::Height;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::ledger::state_machine::StateMachine;
use support::folders::InMemory;
use support::ops::{Op, encode_op, name, op};
use support::{Owned, apply_raw, chunks, encoded};

/// A value, as the lists lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Text(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// A state that is made of lists alone. A change that does not fit what is there is a wrong one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Follower(BTreeMap<Vec<u8>, Value>);

impl Follower {
    fn follow(&mut self, list: Bytes) {
        for change in changes(list) {
            self.take(change.expect("a replica's own list"));
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Set { key, value } => {
                self.0.insert(key.to_vec(), Value::Text(value.to_vec()));
            }
            Change::Appended { key, text } => match self.0.get_mut(&*key) {
                Some(Value::Text(old)) => old.extend_from_slice(&text),
                other => panic!("appended to {other:?}"),
            },
            Change::FieldsSet { key, fields } => {
                let none = || Value::Hash(BTreeMap::new());
                let Value::Hash(hash) = self.0.entry(key.to_vec()).or_insert_with(none) else {
                    panic!("fields of a string")
                };
                hash.extend(fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())));
            }
            Change::Removed { key } => {
                assert!(self.0.remove(&*key).is_some(), "removed, and was not there");
            }
            Change::FieldsRemoved { key, fields } => {
                let Some(Value::Hash(hash)) = self.0.get_mut(&*key) else { panic!("no hash") };
                for field in fields {
                    assert!(hash.remove(&*field).is_some(), "removed, and was not there");
                }
            }
            Change::AllRemoved => self.0.clear(),
        }
    }
}

/// What a store holds under the keys that operations name.
fn held(store: &dyn StateMachine) -> Follower {
    let mut held = BTreeMap::new();
    for key in (0..12).map(name) {
        match ask(store, |out| encode::get(out, &key)) {
            Owned::Bulk(text) => drop(held.insert(key, Value::Text(text))),
            Owned::Nil => {}
            _ => {
                let Owned::Array(flat) = ask(store, |out| encode::h_get_all(out, &key)) else {
                    panic!("neither a string nor a hash")
                };
                let bulk = |reply: &Owned| match reply {
                    Owned::Bulk(bytes) => bytes.clone(),
                    other => panic!("{other:?}"),
                };
                let pairs = flat.as_chunks::<2>().0.iter().map(|[a, b]| (bulk(a), bulk(b)));
                held.insert(key, Value::Hash(pairs.collect()));
            }
        }
    }
    Follower(held)
}

/// Asks without a block.
fn ask(store: &dyn StateMachine, write: impl FnOnce(&mut Vec<u8>)) -> Owned {
    let reply = store.query(&encoded(write));
    support::owned(&quorate_app::kv::Reply::decode(&reply).expect("a reply"))
}

fn execute(store: &mut dyn StateMachine, height: u64, ops: &[Op]) {
    let commands: Vec<_> = ops.iter().map(encode_op).collect();
    apply_raw(store, height, &commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
    if let Some(keeper) = store.keeper() {
        keeper.check().expect("the disk is in memory");
    }
    store.root();
}

/// A store, the feed that it tells, and the head after each block.
struct Told<M> {
    store: KeyValue<M>,
    feed: Arc<Feed>,
    heads: Vec<Head>,
}

impl<M: Storage> Told<M> {
    fn new(store: KeyValue<M>, bounds: Bounds) -> Self {
        let feed = Arc::new(Feed::new(bounds));
        Self { store: store.telling(&feed), feed, heads: vec![Head::default()] }
    }

    fn block(&mut self, ops: &[Op]) {
        execute(&mut self.store, self.heads.len() as u64, ops);
        self.heads.push(head_of(&self.store));
    }

    /// What vouches for a height.
    fn proven(&self, height: usize) -> (Height, Head) {
        (Height(height as u64), self.heads[height])
    }

    fn links(&self, from: u64) -> Links {
        match self.feed.links(Height(from)) {
            Found::Here(links) => links,
            Found::Gone(oldest) => panic!("gone: from {oldest:?}"),
        }
    }
}

/// The head, as a proof shows it: behind the root of the map.
fn head_of(store: &dyn StateMachine) -> Head {
    let content = store.prover().expect("it proves").prove(b"").expect("a proof");
    Head::from_bytes(content.slice(32..32 + Head::BYTES)).expect("a head")
}

/// The whole list of a link, gathered from pages of so many bytes.
fn gathered(feed: &Feed, from: Height, bytes: u32, budget: u32) -> Bytes {
    let mut list = Vec::new();
    while list.len() < bytes as usize {
        let Found::Here(page) = feed.page(from, list.len() as u32, budget) else { panic!("gone") };
        let page = Page::from_bytes(page.to_bytes().into()).expect("what was encoded");
        let piece = page.pieces.first().expect("there is more");
        assert_eq!(piece.height, from);
        assert!(piece.bytes.len() <= budget as usize);
        list.extend_from_slice(&piece.bytes);
    }
    list.into()
}

fn bounds() -> Bounds {
    Bounds::default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// From nothing, the lists lead to what the store holds after each block; both storages have
    /// the same ones, and the proven head vouches for them from every height on.
    #[test]
    fn the_lists_lead_to_the_state(blocks in vec(vec(op(), 0..12), 1..8), budget in 1u32..40) {
        let mut memory = Told::new(KeyValue::new(), bounds());
        let shelf = InMemory::default().shelf();
        let mut disk = Told::new(KeyValue::on_disk(&shelf), bounds());
        let mut follower = Follower::default();
        for (at, ops) in blocks.iter().enumerate() {
            memory.block(ops);
            disk.block(ops);
            let height = at as u64 + 1;
            prop_assert_eq!(memory.store.root(), disk.store.root());
            if let Found::Here((_, Some((of, list)))) = memory.feed.next(Height(height)) {
                prop_assert_eq!(of, Height(height));
                follower.follow(list);
            }
            prop_assert_eq!(&follower, &held(&memory.store));
        }
        prop_assert_eq!(memory.links(1), disk.links(1));
        for from in 1..=blocks.len() {
            let links = memory.links(from as u64);
            let again = Found::from_bytes(Found::Here(links.clone()).to_bytes().into());
            prop_assert_eq!(again, Ok(Found::Here(links.clone())));
            for height in from..=blocks.len() {
                let proven = links.up_to(Height(from as u64), memory.proven(height));
                let proven = proven.expect("a correct replica's");
                prop_assert_eq!(proven.len(), links.links.iter().filter(|link| link.height.0 <= height as u64).count());
            }
            for link in &links.links {
                let list = gathered(&disk.feed, link.height, link.bytes, budget);
                prop_assert!(link.is_of(&list));
            }
        }
    }

    /// A replica that leaves out, adds, alters or exchanges lists is found out, whatever it says is
    /// before them.
    #[test]
    fn a_liar_is_found_out(
        sizes in vec(any::<bool>(), 3..10), from in any::<Index>(), which in any::<Index>(), how in 0u8..7,
    ) {
        let mut told = Told::new(KeyValue::new(), bounds());
        for (at, changes) in sizes.iter().enumerate() {
            let op = Op::Set(at as u8, b"value".to_vec(), 0, false);
            told.block(if *changes { std::slice::from_ref(&op) } else { &[] });
        }
        let from = from.index(sizes.len()) as u64 + 1;
        let last = sizes.len();
        let mut links = told.links(from);
        prop_assert!(links.up_to(Height(from), told.proven(last)).is_ok());
        prop_assume!(!links.links.is_empty());
        let at = which.index(links.links.len());
        match how {
            // Left out, from the front with the true head behind what was left out.
            0 => {
                let gone: Vec<_> = links.links.drain(..=at).collect();
                links.before = told.heads[gone.last().expect("one at least").height.0 as usize];
            }
            1 => drop(links.links.remove(at)),
            2 => links.links[at].digest.0[7] ^= 1,
            3 => links.links[at].height.0 += 1,
            4 => {
                let twice = links.links[at];
                links.links.insert(at, twice);
            }
            // The watcher would never hold a true list against it.
            5 => links.links[at].bytes += 1,
            // The head before is said to be of another height.
            _ => links.before.height.0 += 1,
        }
        let found = links.up_to(Height(from), told.proven(last));
        prop_assert!(found.is_err(), "{:?}", found);
    }

    /// Any bytes are refused or read, and nothing panics.
    #[test]
    fn anything_is_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = Found::<Links>::from_bytes(bytes.clone());
        let _ = Found::<Page>::from_bytes(bytes.clone());
        let read = changes(bytes).count();
        prop_assert!(read <= 300);
    }
}

#[test]
fn what_has_no_effect_is_in_no_list() {
    let mut told = Told::new(KeyValue::new(), bounds());
    let commands = [
        encoded(|out| encode::set(out, b"a", b"1", Condition::Present, false)),
        encoded(|out| encode::del(out, [&b"a"[..], b"b"])),
        encoded(|out| encode::h_del(out, b"a", [&b"f"[..]])),
        encoded(|out| encode::get(out, b"a")),
        vec![255],
    ];
    let commands: Vec<&[u8]> = commands.iter().map(Vec::as_slice).collect();
    apply_raw(&mut told.store, 1, &commands);
    assert_eq!(told.feed.next(Height(1)), Found::Here((Height(1), None)));
    assert_eq!(head_of(&told.store), Head::default());
    // An increment of what is no number fails, and leaves its list as it is.
    let set = encoded(|out| encode::set(out, b"a", b"x", Condition::Always, false));
    let incr = encoded(|out| encode::incr_by(out, b"a", 1));
    apply_raw(&mut told.store, 2, &[&set, &incr]);
    let Found::Here((_, Some((_, list)))) = told.feed.next(Height(2)) else { panic!("a list") };
    let set = Change::Set { key: Bytes::from_static(b"a"), value: Bytes::from_static(b"x") };
    assert_eq!(changes(list).collect::<Vec<_>>(), [Ok(set)]);
}

/// A list of 10^5 keys comes in pages.
#[test]
fn a_large_block_comes_in_pages() {
    let mut told = Told::new(KeyValue::new(), bounds());
    let commands: Vec<_> = (0..100_000)
        .map(|at| {
            let key = format!("key {at:06}");
            encoded(|out| encode::set(out, key.as_bytes(), b"some value", Condition::Always, false))
        })
        .collect();
    apply_raw(&mut told.store, 1, &commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let link = told.links(1).links[0];
    assert!(link.bytes > 2 << 20);
    let mut pages = 0;
    let mut list = Vec::new();
    while list.len() < link.bytes as usize {
        let Found::Here(page) = told.feed.page(Height(1), list.len() as u32, u32::MAX) else {
            panic!("it is there")
        };
        assert!(page.to_bytes().len() <= quorate_core::ledger::message::MAX_CONTENT_BYTES);
        list.extend_from_slice(&page.pieces[0].bytes);
        pages += 1;
    }
    assert!(pages > 2 && link.is_of(&list));
    assert_eq!(changes(list.into()).filter(Result::is_ok).count(), 100_000);
    let Found::Here(end) = told.feed.page(Height(1), link.bytes, 1) else { panic!("it is there") };
    assert!(end.pieces.is_empty());
}

#[test]
fn what_is_not_kept_any_more_is_said_to_be_gone() {
    let mut told = Told::new(KeyValue::new(), Bounds { bytes: 200, lists: 5 });
    let write = |at: u8, bytes: usize| Op::Set(at, vec![b'x'; bytes], 0, false);
    for at in 1..=9 {
        told.block(&[write(at, 1)]);
    }
    assert_eq!(told.feed.links(Height(4)), Found::Gone(Height(5)));
    assert_eq!(told.feed.page(Height(4), 0, 100), Found::Gone(Height(5)));
    let links = told.links(5);
    assert_eq!(links.up_to(Height(5), told.proven(9)).map(|links| links.len()), Ok(5));
    // By bytes.
    told.block(&[write(10, 150)]);
    assert!(told.links(10).up_to(Height(10), told.proven(10)).is_ok());
    assert_eq!(told.feed.oldest(), Height(9));
    // Longer than all that is kept: those who watch begin behind it.
    told.block(&[write(11, 300)]);
    assert_eq!(told.feed.oldest(), Height(12));
    told.block(&[write(3, 1)]);
    assert_eq!(told.links(12).up_to(Height(12), told.proven(12)).map(|links| links.len()), Ok(1));
}

/// A state of before the first height that is wanted vouches for nothing: a watcher that took it
/// would go back, and hand out changes twice.
#[test]
fn a_state_of_before_what_is_wanted_proves_nothing() {
    let mut told = Told::new(KeyValue::new(), bounds());
    for at in 1..=4 {
        told.block(&[Op::Set(at, b"value".to_vec(), 0, false)]);
    }
    let lie = Links { before: told.heads[3], through: Height(u64::MAX), links: Vec::new() };
    assert_eq!(lie.up_to(Height(5), told.proven(3)), Err(NotLinked::Early(Height(3))));
    assert_eq!(told.links(4).up_to(Height(4), told.proven(4)).map(|links| links.len()), Ok(1));
}

/// A page holds what fits: a replica that sends less plays for time.
#[test]
fn a_page_that_holds_less_than_it_could_is_known() {
    let mut told = Told::new(KeyValue::new(), bounds());
    let bytes = quorate_app::kv::feed::MAX_PAGE_BYTES * 2 / 3;
    for at in 1..=3 {
        told.block(&[Op::Set(at, vec![b'x'; bytes], 0, false)]);
    }
    let links = told.links(1).links;
    let page = |from, offset| match told.feed.page(Height(from), offset, u32::MAX) {
        Found::Here(page) => page,
        Found::Gone(oldest) => panic!("gone: from {oldest:?}"),
    };
    let first = page(1, 0);
    assert_eq!(first.pieces.len(), 2);
    assert!(first.is_full(links.iter(), 0));
    // Those of later lists may come on top.
    assert!(first.is_full(links[..1].iter(), 0));
    let known = first.pieces[1].bytes.len();
    let second = page(2, known as u32);
    assert!(second.is_full(links[1..].iter(), known) && !second.is_full(links[1..].iter(), 0));
    let mut less = first.clone();
    less.pieces.pop();
    assert!(!less.is_full(links.iter(), 0));
    let mut less = first;
    less.pieces[1].bytes.truncate(1);
    assert!(!less.is_full(links.iter(), 0));
    assert!(!Page { pieces: Vec::new() }.is_full(links.iter(), 0));
}

/// Names are gathered in parts, which nobody sees.
#[test]
fn many_small_lists_are_named_and_sent() {
    let mut told = Told::new(KeyValue::new(), Bounds { bytes: 1 << 20, lists: 2500 });
    for _ in 1..=3000 {
        told.block(&[Op::Set(1, b"value".to_vec(), 0, false)]);
    }
    assert_eq!(told.feed.links(Height(500)), Found::Gone(Height(501)));
    let links = told.links(501);
    assert_eq!(links.up_to(Height(501), told.proven(3000)).map(|links| links.len()), Ok(2500));
    let Found::Here(page) = told.feed.page(Height(501), 0, u32::MAX) else { panic!("gone") };
    assert!(page.is_full(links.links.iter(), 0));
}

/// Where nothing has changed for long, a replica that starts anew still has all that follows.
#[test]
fn after_a_start_nothing_is_gone_that_comes_after_the_last_change() {
    let mut old = Told::new(KeyValue::new(), bounds());
    for at in 1..=3 {
        old.block(&[Op::Set(at, b"value".to_vec(), 0, false)]);
    }
    (4..=9).for_each(|_| old.block(&[]));
    let feed = Arc::new(Feed::new(bounds()));
    let mut again = KeyValue::new().telling(&feed);
    again.restore(&mut chunks(&*old.store.snapshot()).into_iter()).unwrap();
    assert_eq!(again.root(), old.store.root());
    feed.stands_at(Height(9));
    // Before any block.
    assert_eq!(feed.links(Height(3)), Found::Gone(Height(4)));
    assert!(feed.has(Height(3)) && !feed.has(Height(4)));
    assert_eq!(feed.through(), Height(9));
    let write = [Op::Set(4, b"value".to_vec(), 0, false)];
    execute(&mut again, 10, &write);
    old.block(&write);
    let Found::Here(links) = feed.links(Height(4)) else { panic!("it is there") };
    assert_eq!(links.up_to(Height(4), old.proven(10)).map(|links| links.len()), Ok(1));
}

/// The head is a part of the state: a snapshot has it, and a checkpoint of the disk.
#[test]
fn the_chain_goes_on_behind_snapshots_and_checkpoints() {
    let folders = InMemory::default();
    let mut disk = Told::new(KeyValue::on_disk(&folders.shelf()), bounds());
    let mut memory = Told::new(KeyValue::new(), bounds());
    for at in 1..=3 {
        disk.block(&[Op::Set(at, b"value".to_vec(), 0, false)]);
        memory.block(&[Op::Set(at, b"value".to_vec(), 0, false)]);
    }
    let root = memory.store.root();
    let mut restored = KeyValue::new();
    restored.restore(&mut chunks(&*memory.store.snapshot()).into_iter()).unwrap();
    assert_eq!(restored.root(), root);
    let keeper = disk.store.keeper().unwrap();
    let mut checkpoint = keeper.begin_checkpoint(b"note").unwrap();
    checkpoint.finish().unwrap();
    assert_eq!(chunks(&*checkpoint.snapshot().unwrap()), chunks(&*memory.store.snapshot()));
    drop((checkpoint, disk));
    let mut again = KeyValue::on_disk(&folders.shelf());
    again.keeper().unwrap().turn_back().unwrap().expect("a checkpoint");
    assert_eq!(again.root(), root);
    // Behind it, the feed begins with the next block.
    let feed = Arc::new(Feed::new(bounds()));
    let mut again = again.telling(&feed);
    memory.block(&[Op::Del(vec![1])]);
    execute(&mut again, 4, &[Op::Del(vec![1])]);
    assert_eq!(again.root(), memory.store.root());
    assert_eq!(feed.links(Height(3)), Found::Gone(Height(4)));
    let Found::Here(links) = feed.links(Height(4)) else { panic!("it is there") };
    assert_eq!(links.up_to(Height(4), memory.proven(4)).map(|links| links.len()), Ok(1));
}

/// A chain that goes on from another one's state: heights begin anew.
#[test]
fn a_restored_chain_begins_its_feed_anew() {
    let mut old = Told::new(KeyValue::new(), bounds());
    for at in 1..=9 {
        old.block(&[Op::Set(at, b"value".to_vec(), 0, false)]);
    }
    let mut restored = KeyValue::new();
    restored.restore(&mut chunks(&*old.store.snapshot()).into_iter()).unwrap();
    let mut new = Told::new(restored, bounds());
    new.store.root();
    new.feed.stands_at(Height(0));
    assert_eq!(new.feed.oldest(), Height(1));
    new.block(&[]);
    new.block(&[Op::Del(vec![1])]);
    assert_eq!(new.heads[1].height, Height(0));
    let links = new.links(1);
    assert_eq!(links.up_to(Height(1), new.proven(1)), Ok(Vec::new()));
    assert_eq!(links.up_to(Height(1), new.proven(2)).map(|links| links.len()), Ok(1));
}

/// Watchers hear of committed blocks alone.
#[test]
fn a_block_behind_a_mark_is_told_when_it_is_kept() {
    let mut told = Told::new(KeyValue::new(), bounds());
    let rings = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&rings);
    told.feed.subscribe(move || {
        counts.fetch_add(1, Ordering::Relaxed);
    });
    let write = [encode_op(&Op::Set(1, b"value".to_vec(), 0, false))];
    let write: Vec<&[u8]> = write.iter().map(Vec::as_slice).collect();
    told.block(&[Op::Set(2, b"value".to_vec(), 0, false)]);
    let (root, head) = (told.store.root(), head_of(&told.store));
    assert!(told.store.mark());
    apply_raw(&mut told.store, 2, &write);
    assert_eq!(head_of(&told.store), head, "the state that was marked");
    assert_eq!(told.feed.next(Height(2)), Found::Here((Height(1), None)));
    told.store.undo();
    assert_eq!(told.store.root(), root);
    assert!(told.store.mark());
    apply_raw(&mut told.store, 2, &write);
    assert_eq!(rings.load(Ordering::Relaxed), 1);
    told.store.keep();
    assert_eq!(rings.load(Ordering::Relaxed), 2);
    let head = head_of(&told.store);
    assert_eq!(told.links(1).up_to(Height(1), (Height(2), head)).map(|links| links.len()), Ok(2));
    let missing = told.links(2).up_to(Height(1), (Height(2), head));
    assert_eq!(missing, Err(NotLinked::Missing(Height(1))));
}
