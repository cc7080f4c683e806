//! Every room of fixed size against the largest thing that a configuration can ask for
//! ([`quorate_core::limits`] says how large things become).

use quorate_core::base::membership::{Governance, MAX_REPLICAS, ReplicaKey};
use quorate_core::ledger::frame::{MAX_BODY_BYTES, MAX_COMMANDS, OVERHEAD_BYTES};
use quorate_core::ledger::state_machine::MAX_CHUNK_BYTES;
use quorate_core::limits::{self, MAX_BATCH_BYTES, MAX_PEER_MESSAGE_BYTES};
use quorate_core::protocols::hotstuff;
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::{Committee, Digest, Epoch};
use quorate_journal::{OFFER_LIMIT_BYTES, Owner};
use quorate_store::snapshot::{METADATA_LIMIT_BYTES, MOST_CHUNK_BYTES};
use quorate_transport::Limits;

use super::schema::{Kind, Schema};
use super::{cluster, node};
use crate::launch::INLINE_BYTES;
use crate::replica::data::log_options;

/// The most that each key with a number may say.
fn most(schema: &Schema) -> Vec<(&'static str, u64)> {
    let numbers = schema.fields.iter().filter_map(|field| match field.kind {
        Kind::Integer { max, .. } | Kind::Size { max, .. } => Some((field.key, max)),
        _ => None,
    });
    numbers.collect()
}

fn least(schema: &Schema, key: &str) -> u64 {
    let field = schema.fields.iter().find(|field| field.key == key).expect(key);
    match field.kind {
        Kind::Integer { min, .. } | Kind::Size { min, .. } => min,
        _ => panic!("{key} is no number"),
    }
}

/// A key that is new here, or allows more, may make something outgrow its room: see what it makes
/// larger, put that into `quorate_core::limits`, and then the key here.
#[test]
fn no_key_of_the_cluster_allows_more_than_the_limits_count_on() {
    let fixed = [
        ("epoch", u64::MAX),
        // An id: certificates name it by its place.
        ("fixed_leader", MAX_REPLICAS as u64 - 1),
        // A block has at most `block::MAX_FRAMES` frames, whatever this says.
        ("batch.max_commands", 65_536),
        ("batch.max_bytes", MAX_BATCH_BYTES as u64),
        // Sessions are in the state, which is cut into chunks; `max_snapshot_bytes` bounds it.
        ("sessions.max_sessions", 1 << 20),
        ("sessions.min_idle_blocks", i64::MAX as u64),
        ("sessions.answer_commands", 1 << 24),
        ("sessions.answer_bytes", 1 << 30),
        ("sessions.window_frames", 1 << 16),
        ("sessions.window_commands", 1 << 32),
        ("sessions.window_bytes", 1 << 30),
        ("limits.max_frame_commands", MAX_COMMANDS as u64),
        ("limits.max_frame_bytes", MAX_BODY_BYTES as u64),
        ("limits.max_snapshot_bytes", 1 << 44),
        // The state is cut into chunks as well.
        ("limits.max_state_bytes", 1 << 44),
        // A change carries so many approvals: `message::MAX_CHANGE_BYTES`.
        ("governance.approvals", Governance::MAX_ADMINISTRATORS as u64),
        // Part of the chain's digest, and of nothing else.
        ("restored.height", i64::MAX as u64),
    ];
    for (key, max) in most(&cluster::SCHEMA) {
        let counted_on = fixed.iter().find(|(known, _)| *known == key);
        let (_, counted_on) = counted_on.unwrap_or_else(|| panic!("{key} is not counted on"));
        assert!(max <= *counted_on, "{key}: {max} is more than {counted_on}");
    }
}

/// Replicas of every size, with the longest certificates and the shortest log that is allowed.
#[test]
fn slots_and_segments_of_the_log_take_every_record() {
    let window_bytes = least(&node::SCHEMA, "storage.log_window");
    for replicas in 1..=MAX_REPLICAS {
        let key = |id: usize| ReplicaKey::new(&(id as u16).to_le_bytes()).expect("short");
        let keys = (0..replicas).map(key).collect();
        let committee = Committee::new(Digest::default(), Epoch(0), keys).expect("a committee");
        for domain in [Domain::new(committee.clone(), 1).with_all_qcs(), Domain::new(committee, 1)]
        {
            let safety = limits::safety_bytes(&domain) as u64;
            let owner = Owner::new(hotstuff::origin(&domain), key(0));
            for window_bytes in [0, window_bytes, 1 << 30, 1 << 50] {
                let log = log_options(&owner, window_bytes);
                let record = limits::full_block_bytes(replicas, MAX_BATCH_BYTES) as u64;
                assert!(safety <= log.slot_limit(), "{replicas}: {safety}");
                assert!(record <= log.record_limit(), "{replicas}: {record}");
            }
            // Half of the window is kept when it is cut: a segment at least.
            let segment_bytes = log_options(&owner, window_bytes).segment_bytes;
            assert!(segment_bytes <= window_bytes / 2, "{replicas}: {segment_bytes}");
        }
    }
}

#[test]
fn snapshots_and_offers_have_room_for_the_longest_window_of_the_largest_blocks() {
    let meta = limits::snapshot_meta_bytes(MAX_REPLICAS) as u64;
    assert!(meta <= METADATA_LIMIT_BYTES, "{meta}");
    let offer = Digest::default().0.len() + limits::offer_bytes(MAX_REPLICAS);
    assert!(offer as u64 <= OFFER_LIMIT_BYTES, "{offer}");
    assert!(MAX_CHUNK_BYTES as u64 <= MOST_CHUNK_BYTES);
}

#[test]
fn connections_take_the_longest_messages_and_queues_more_than_one() {
    let peers = Limits::peers();
    assert!(limits::largest_peer_message_bytes(INLINE_BYTES) <= MAX_PEER_MESSAGE_BYTES);
    assert_eq!(peers.frame_bytes, MAX_PEER_MESSAGE_BYTES);
    assert!(peers.queue_bytes >= 2 * peers.frame_bytes);
    let clients = Limits::clients();
    // Kind and flags of a request.
    let request = MAX_BODY_BYTES + OVERHEAD_BYTES + 16;
    assert!(request <= clients.frame_bytes, "{request}");
}
