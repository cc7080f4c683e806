//! What clients are told of key generations, and what strangers may ask for.

use std::path::Path;
use std::sync::Arc;

use quorate_app::ordering::Ordering;
use quorate_core::base::crypto::{ClientSigner as _, PublicKey, ShareKeys};
use quorate_core::base::membership::{Governance, Member, Opening, ReplicaKey, Rules};
use quorate_core::client::message::{Generating, Response};
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::generation::Dealer;
use quorate_core::ledger::sessions::Limits;
use quorate_core::{Committee, Digest, Epoch, Height, ReplicaId};
use quorate_crypto::bls::threshold;
use quorate_crypto::bls::threshold::generation::EncryptionKey;
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey, key_file};

use crate::replica::generating::Board;
use crate::replica::keyring::{Keyring, beside};

const ME: ReplicaId = ReplicaId(1);
const CHAIN: Digest = Digest([1; 32]);

fn key(number: u8) -> SecretKey {
    SecretKey::from_seed(&[number; 32])
}

fn consensus_key(number: u8) -> ConsensusKey {
    ConsensusKey::from_bytes(SchemeName::Ed25519, &[number; 32]).unwrap()
}

fn committee() -> Committee {
    let member = |id| Some(Member::new(ReplicaKey::from(key(id).public_key().0)));
    let governance = Governance { administrators: vec![key(100).public_key()], approvals: 1 };
    let opening = Opening { after: CHAIN, height: Height(0) };
    let members = (0..4).map(member).collect();
    let own = Committee::with_members(CHAIN, Epoch(0), opening, members, governance).unwrap();
    let dealt = threshold::deal(4, 3).unwrap();
    let keys = dealt.shares.iter().map(|share| share.public_key());
    let keys = (0..4).map(ReplicaId).zip(keys).collect();
    let rules = Rules { core: Rules::GENERATED_KEYS, application: 1 };
    own.under(rules).with_shares(ShareKeys::new(3, keys).unwrap()).unwrap()
}

/// A member whose own key has this number.
fn board(folder: &Path, number: u8) -> Board {
    let ring = Keyring::new(&folder.join("consensus.key"), consensus_key(number));
    let board = Board::new(ME, Arc::new(ring));
    let state = Execution::new(Ordering::default(), Limits::default(), CHAIN).unwrap();
    board.note(&state.governed_by(&committee()), &[]);
    board
}

fn told(board: &Board, own: Option<PublicKey>) -> Generating {
    match board.answer(7, own) {
        Response::Generation { id: 7, generating } => *generating,
        other => panic!("{other:?}"),
    }
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Nobody need be known to ask: no file is written, and nothing is proved, for the sake of a key
/// that is not this member's.
#[test]
fn a_key_is_made_and_proved_for_own_keys_alone() {
    let folder = tempfile::tempdir().unwrap();
    let board = board(folder.path(), 1);
    for own in [None, Some(key(9).public_key())] {
        let told = told(&board, own);
        assert_eq!((told.next_serial, told.encryption), (1, None));
        assert!(files(folder.path()).is_empty(), "a stranger has a file written");
    }
    let why = told(&board, Some(key(9).public_key())).waits_for;
    assert!(String::from_utf8_lossy(&why).contains("another key"), "{why:?}");
    let own = key(1).public_key();
    let offered = told(&board, Some(own)).encryption.unwrap();
    assert_eq!(files(folder.path()), ["consensus.key.generation.0.1"], "it is on disk before");
    let dealer = Dealer { id: ME, key: own, encryption: offered.key };
    let statement = dealer.possession(&CHAIN, Epoch(0), 1);
    let read = EncryptionKey::read(&offered.key).unwrap();
    assert!(read.has_proved(&statement.0, &offered.proof));
    assert_eq!(
        told(&board, Some(own)).encryption,
        Some(offered),
        "asked again, it offers the same"
    );
}

/// A member is to have another key by the change.
#[test]
fn the_key_that_lies_ready_is_an_own_one() {
    let folder = tempfile::tempdir().unwrap();
    let next = beside(&folder.path().join("consensus.key"), "next");
    key_file::write_consensus(&next, &consensus_key(42)).unwrap();
    let board = board(folder.path(), 1);
    let [own, next] = [1, 42].map(|number| told(&board, Some(key(number).public_key())));
    let (own, next) = (own.encryption.unwrap(), next.encryption.unwrap());
    assert_eq!(own.key, next.key, "one key serves the generation");
    assert_ne!(own.proof, next.proof, "each own key has its proof");
}
