//! What a client may touch whose grant has prefixes.
#![allow(missing_docs)]

mod support;

use bytes::Bytes;
use quorate_app::kv::command::encode;
use quorate_app::kv::{Condition, ErrorKind, KeyValue, Reply, Scan};
use quorate_core::base::crypto::PublicKey;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::{Caller, Decided, Replies, StateMachine as _};
use quorate_core::{Height, View};
use support::encoded;

fn grant() -> Grant {
    let prefixes = vec![Bytes::from_static(b"a:"), Bytes::from_static(b"b")];
    Grant { prefixes, ..Grant::default() }
}

/// The replies to commands, each by a client with this grant.
fn replies(store: &mut KeyValue, commands: &[(Vec<u8>, Option<&Grant>)]) -> Replies {
    let texts: Vec<&[u8]> = commands.iter().map(|(command, _)| command.as_slice()).collect();
    let key = PublicKey([1; 32]);
    let callers: Vec<_> =
        commands.iter().map(|(_, grant)| Caller { key: &key, grant: *grant }).collect();
    let mut replies = Replies::default();
    let block =
        Decided { height: Height(2), view: View(2), rules: 1, commands: &texts, callers: &callers };
    store.apply(&block, &mut replies);
    replies
}

fn is_refused(reply: &[u8]) -> bool {
    matches!(Reply::decode(reply), Ok(Reply::Error(ErrorKind::NoPermission, _)))
}

/// Every command about keys, of two keys.
fn about(one: &[u8], two: &[u8]) -> Vec<Vec<u8>> {
    let always = Condition::Always;
    vec![
        encoded(|out| encode::set(out, one, b"1", always, false)),
        encoded(|out| encode::get(out, one)),
        encoded(|out| encode::incr_by(out, one, 5)),
        encoded(|out| encode::append(out, one, b"x")),
        encoded(|out| encode::str_len(out, one)),
        encoded(|out| encode::kind(out, one)),
        encoded(|out| encode::m_set(out, [two, b"2", one, b"3"])),
        encoded(|out| encode::m_get(out, [two, one])),
        encoded(|out| encode::exists(out, [two, one])),
        encoded(|out| encode::get_del(out, one)),
        encoded(|out| encode::h_set(out, one, [&b"f"[..], b"4"])),
        encoded(|out| encode::h_get(out, one, b"f")),
        encoded(|out| encode::h_get_all(out, one)),
        encoded(|out| encode::h_len(out, one)),
        encoded(|out| encode::h_exists(out, one, b"f")),
        encoded(|out| encode::h_m_get(out, one, [&b"f"[..], b"g"])),
        encoded(|out| encode::h_incr_by(out, one, b"f", 1)),
        encoded(|out| encode::h_del(out, one, [&b"f"[..]])),
        encoded(|out| encode::del(out, [two, one])),
    ]
}

#[test]
fn commands_within_the_prefixes_do_what_they_do_for_anybody() {
    let (mut limited, mut free) = (KeyValue::new(), KeyValue::new());
    let grant = grant();
    let mut commands = about(b"a:key", b"better");
    commands.push(Vec::new());
    let with = |grant| commands.iter().map(|command| (command.clone(), grant)).collect::<Vec<_>>();
    let told = replies(&mut limited, &with(Some(&grant)));
    assert_eq!(told.body(), replies(&mut free, &with(None)).body());
    assert!(!told.iter().any(is_refused));
    assert_eq!(limited.root(), free.root());
    // A grant without prefixes covers all keys.
    let everything = Grant::default();
    let all = [(encoded(encode::flush_all), Some(&everything))];
    assert!(!replies(&mut limited, &all).iter().any(is_refused));
}

#[test]
fn what_touches_another_key_or_all_keys_is_refused_and_changes_nothing() {
    let mut store = KeyValue::new();
    let old: [(Vec<u8>, _); 2] = [
        (encoded(|out| encode::m_set(out, [&b"a"[..], b"1", b"a:key", b"1", b"c", b"1"])), None),
        (Vec::new(), None),
    ];
    replies(&mut store, &old);
    let (before, grant) = (store.root(), grant());
    let scan = Scan { cursor: 0, count: 10, kind: None, pattern: Some(b"a:*") };
    let mut commands = about(b"a", b"a:key");
    commands.extend(about(b"", b"a:key"));
    commands.extend([
        encoded(|out| encode::m_get(out, [&b"a:key"[..], b"c"])),
        encoded(|out| encode::del(out, [&b"a:key"[..], b"c"])),
        encoded(encode::db_size),
        encoded(|out| encode::keys(out, b"a:*")),
        encoded(|out| encode::scan(out, &scan)),
        encoded(encode::flush_all),
    ]);
    for command in commands {
        let told = replies(&mut store, &[(command.clone(), Some(&grant))]);
        assert!(told.iter().all(is_refused), "{command:?}");
        assert_eq!(store.root(), before, "{command:?}");
    }
}

/// However many commands a block has, each is judged by what its own sender was granted.
#[test]
fn every_command_is_judged_by_its_own_grant() {
    let mut store = KeyValue::new();
    let grant = grant();
    let set = || encoded(|out| encode::set(out, b"c", b"1", Condition::Always, false));
    let commands: Vec<_> = (0..300).map(|at| (set(), (at % 7 == 3).then_some(&grant))).collect();
    let told = replies(&mut store, &commands);
    for (at, reply) in told.iter().enumerate() {
        assert_eq!(is_refused(reply), at % 7 == 3, "command {at}");
    }
}
