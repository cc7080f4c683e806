//! What peers, clients and disks send, read as each type: what is accepted is the one encoding of
//! what it says, and takes memory in proportion.

use bytes::Bytes;
use quorate_app::kv::feed::{Change, Found, Links, Page, changes};
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::client::message::{Request, Response};
use quorate_core::client::proven::{Answer, Newest};
use quorate_core::ledger::change::SignedChange;
use quorate_core::ledger::clients::Clients;
use quorate_core::ledger::directive::SignedDirective;
use quorate_core::ledger::frame::Frame;
use quorate_core::ledger::generation::{Generations, Step};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::{Block, FullBlock};
use quorate_core::protocols::hotstuff::certificate::{Qc, TimeOut, Vote};
use quorate_core::protocols::hotstuff::safety::Safety;
use quorate_core::replica::message::{Offer, PeerMessage};

use crate::allocation;
use crate::input::Input;

fn read<T: Decode + Encode>(bytes: &[u8]) {
    let input = Bytes::copy_from_slice(bytes);
    if let Ok(value) = allocation::within(64, bytes, || T::from_bytes(input)) {
        assert_eq!(value.to_bytes(), bytes, "{} has two encodings", std::any::type_name::<T>());
    }
}

/// What a watcher reads of a list that is none: changes up to where it ends, each in its one
/// encoding.
fn list(bytes: &[u8]) {
    let list = Bytes::copy_from_slice(bytes);
    let read = allocation::within(64, bytes, || changes(list).collect::<Vec<_>>());
    let whole: Vec<u8> = read.iter().flatten().flat_map(Encode::to_bytes).collect();
    assert!(bytes.starts_with(&whole));
    assert_eq!(whole.len() == bytes.len(), read.iter().all(Result::is_ok));
}

/// A directive as a command, of either format.
fn directive(bytes: &[u8]) {
    for words in ["", "quorate directive 1", "quorate directive 2"] {
        let command = [words.as_bytes(), bytes].concat();
        let read = allocation::within(64, &command, || SignedDirective::of_command(&command));
        if let Ok(directive) = read {
            assert_eq!(directive.to_command(), command, "a directive has two encodings");
        }
    }
}

/// A step of a key generation, or a change with the shares of a key, as a command.
fn generated(bytes: &[u8]) {
    let command = [b"quorate generation 1", bytes].concat();
    let read = allocation::within(64, &command, || Step::of_command(&command));
    if let Ok(step) = read {
        assert_eq!(step.to_command(), command, "a step has two encodings");
    }
    let command = [b"quorate change 3", bytes].concat();
    let read = allocation::within(64, &command, || SignedChange::of_command(&command));
    if let Ok(change) = read {
        assert_eq!(change.to_command(), command, "a change has two encodings");
    }
}

const TYPES: &[fn(&[u8])] = &[
    read::<Answer<Types>>,
    read::<Block>,
    read::<Change>,
    read::<Clients>,
    read::<Found<Links>>,
    read::<Found<Page>>,
    read::<Frame>,
    read::<FullBlock>,
    read::<Newest<Types>>,
    read::<Offer<Types>>,
    read::<PeerMessage<Types>>,
    read::<Qc>,
    read::<Request>,
    read::<Response>,
    read::<Safety>,
    read::<SignedDirective>,
    read::<TimeOut>,
    read::<Vote>,
    directive,
    list,
    read::<Generations>,
    generated,
];

/// Reads bytes as every type: any bytes, or a true encoding that is bent.
pub fn run(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if kind & 1 == 1 {
        let mut input = Input::new(rest);
        let all = crate::client::encodings();
        bytes.clone_from(&all[usize::from(kind >> 1) % all.len()]);
        for _ in 0..input.byte() % 4 {
            let at = input.below(bytes.len().max(1) as u64) as usize;
            match input.byte() % 4 {
                0 => bytes.truncate(at),
                1 => bytes.extend(input.bytes(4)),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= input.byte();
                    }
                }
            }
        }
    }
    TYPES.iter().for_each(|read| read(&bytes));
}
