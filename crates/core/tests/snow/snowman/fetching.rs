//! What a replica lacks, and who sends it.

use std::sync::Arc;

use quorate_core::protocols::protocol::Input;
use quorate_core::protocols::protocol::{BlockOf, Protocol as _};
use quorate_core::protocols::snow::snowman::words::Place;
use quorate_core::protocols::snow::snowman::{Message, Types};
use quorate_core::{Digest, Duration, Height, ReplicaId};

use super::{BETA, Desk, child};

impl Desk {
    /// In some polls in which all prefer the last of these they are accepted, and nothing else.
    fn comes_to(&mut self, blocks: &[BlockOf<Types>]) {
        let tip = Place::of(blocks.last().unwrap());
        for _ in 0..3 * BETA {
            if self.committed.len() < blocks.len() {
                self.poll(Some(tip));
            }
        }
        let names = |blocks: &[BlockOf<Types>]| blocks.iter().map(|it| it.id()).collect::<Vec<_>>();
        assert_eq!(names(&self.committed), names(blocks));
    }
}

/// A peer named a block that lost, and has forgotten it: it is not asked for without end.
#[test]
fn a_block_that_does_not_come_is_given_up_until_it_is_named_anew() {
    let mut desk = Desk::new(4);
    let tip = Place { height: Height(3), block: Digest([0xee; 32]) };
    let message = Message::Accepted { tip, stable: Height(0) };
    for _ in 0..2 {
        desk.hear(2, message.clone()).unwrap();
        let missing = desk.replica.missing().expect("a block to fetch");
        assert_eq!((missing.block, missing.holders), (tip.block, vec![ReplicaId(2)]));
        desk.now = desk.now.after(Duration::from_secs(59));
        desk.step(Input::Timeout);
        assert!(desk.replica.missing().is_some());
        desk.now = desk.replica.deadline().unwrap();
        desk.step(Input::Timeout);
        assert_eq!((desk.replica.missing(), desk.replica.deadline()), (None, None));
    }
}

/// A replica that is behind has fetched blocks of a chain that lost meanwhile. The chain that won
/// leaves it at one of these: the replica fetches the rest from there.
#[test]
fn a_chain_that_forks_from_fetched_blocks_is_fetched() {
    for shared in 0..3 {
        let mut desk = Desk::new(4);
        let mut blocks = vec![Arc::clone(&desk.genesis)];
        let extend = |blocks: &mut Vec<BlockOf<Types>>, proposer| {
            blocks.push(child(blocks.last().unwrap(), proposer));
        };
        (0..shared).for_each(|_| extend(&mut blocks, 1));
        let (mut lost, mut won) = (blocks.clone(), blocks);
        (0..2).for_each(|_| extend(&mut lost, 2));
        (0..2).for_each(|_| extend(&mut won, 3));
        // The peer that names the first chain has turned before the tip has come.
        let tip = Place { height: Height(9), block: Digest([0xee; 32]) };
        desk.hear(2, Message::Accepted { tip, stable: Height(0) }).unwrap();
        lost.iter().skip(1).for_each(|block| desk.fetch(2, block));
        let tip = Place::of(won.last().unwrap());
        for peer in 1..4 {
            desk.hear(peer, Message::Accepted { tip, stable: Height(0) }).unwrap();
        }
        // For as long as the first chain may grow, nothing takes its place.
        won.iter().skip(1).for_each(|block| desk.fetch(2, block));
        assert_eq!(desk.replica.missing().map(|missing| missing.block), Some(tip.block));
        assert!(desk.replica.holds(&lost.last().unwrap().id()), "{shared}");
        desk.now = desk.now.after(Duration::from_secs(1));
        won.iter().skip(1).for_each(|block| desk.fetch(2, block));
        assert_eq!(desk.replica.missing(), None, "{shared}");
        assert!(!desk.replica.holds(&lost.last().unwrap().id()), "{shared}");
        desk.comes_to(&won[1..]);
    }
}

/// So many blocks on `below`.
fn chain_on(below: &BlockOf<Types>, blocks: usize, proposer: u16) -> Vec<BlockOf<Types>> {
    let next = |block: &BlockOf<Types>| Some(child(block, proposer));
    std::iter::successors(next(below), next).take(blocks).collect()
}

/// A liar sends block after block of a chain that never comes to the tip that it named. Two others,
/// who have what the cluster accepts, are not held up: the first fails halfway.
#[test]
fn a_liar_that_sends_block_after_block_is_in_nobodys_way() {
    let mut desk = Desk::new(4);
    let genesis = Arc::clone(&desk.genesis);
    let never = Place { height: Height(9), block: Digest([0xee; 32]) };
    desk.hear(1, Message::Accepted { tip: never, stable: Height(0) }).unwrap();
    let lies = chain_on(&genesis, 260, 1);
    let mut lies = lies.iter();
    let mut lie = |desk: &mut Desk| {
        desk.now = desk.now.after(Duration::from_millis(900));
        desk.hear(1, Message::Accepted { tip: never, stable: Height(0) }).unwrap();
        desk.fetch(1, lies.next().unwrap());
    };
    (0..200).for_each(|_| lie(&mut desk));
    let won = chain_on(&genesis, 60, 3);
    let tip = Place::of(&won[59]);
    for peer in [2, 3] {
        desk.hear(peer, Message::Accepted { tip, stable: Height(0) }).unwrap();
    }
    for (block, from) in won.iter().zip([2; 30].into_iter().chain([3; 30])) {
        lie(&mut desk);
        desk.fetch(from, block);
        assert!(desk.replica.holds(&block.id()), "{:?} of {from}", block.height());
    }
    assert_eq!(desk.replica.missing().map(|missing| missing.block), Some(never.block));
    desk.comes_to(&won);
}

/// What liars send without end is bounded. Where there is too much, the longest chain is believed
/// as far as it is near, or forgotten: shorter ones are safe.
#[test]
fn what_liars_send_without_end_is_bounded() {
    let mut desk = Desk::new(6);
    let genesis = Arc::clone(&desk.genesis);
    let won = chain_on(&genesis, 60, 3);
    let named = |desk: &mut Desk, peer, tip| {
        desk.hear(peer, Message::Accepted { tip, stable: Height(0) }).unwrap();
    };
    for (liar, byte) in [(1, 0xee), (2, 0xef)] {
        named(&mut desk, liar, Place { height: Height(9), block: Digest([byte; 32]) });
    }
    named(&mut desk, 3, Place::of(&won[59]));
    won[..59].iter().for_each(|block| desk.fetch(3, block));
    let [first, second] = [1, 2].map(|liar| chain_on(&genesis, 900, liar));
    for (first, second) in first.iter().zip(&second) {
        desk.fetch(1, first);
        desk.fetch(2, second);
        assert!(desk.replica.uncommitted() <= 512 + 2 * 128, "{}", desk.replica.uncommitted());
    }
    assert!(won[..59].iter().all(|block| desk.replica.holds(&block.id())));
    desk.fetch(3, &won[59]);
    desk.comes_to(&won);
}
