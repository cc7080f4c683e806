//! The keys of `cluster.toml`.

use quorate_core::base::crypto::SHARE_KEY_BYTES;
use quorate_core::base::membership::{Governance, MAX_REPLICAS};
use quorate_core::{ledger::frame, limits};
use quorate_transport::TransportName;

use super::{GROUP_KEY_BYTES, PROOF_BYTES, clients};
use crate::config::choice::{
    Application, AuthenticationName, LeaderName, LivenessName, PacemakerName, ProtocolName,
    SCHEME_NAMES, SamplingName, VoteRoute,
};
use crate::config::schema::{Field, Kind, List, Preset, Schema};

pub(in crate::config) static SCHEMA: Schema = Schema {
    title: "What all replicas of the cluster agreed on: this file must say the same everywhere.\n\
            The digest of everything in it but transport, transport keys and addresses is the\n\
            chain's identity: replicas whose digests differ do not talk to each other.\n\
            `quorate config show` prints the digest.",
    tables: &[
        ("batch", "What a block may hold."),
        ("sessions", "What client sessions may use up. Part of the replicated rules."),
        ("limits", "What is taken from clients and peers."),
        ("governance", "Who may change the members. Without administrators they are fixed."),
        ("clients", "Who may send commands when the chain begins. Without it, anybody may."),
        ("restored", "The state of another chain that this one begins with."),
    ],
    fields: &[
        Field {
            key: "chain",
            kind: Kind::Name,
            preset: Preset::Required,
            comment: "The chain's name.",
        },
        Field {
            key: "genesis",
            kind: Kind::Hex(&[32]),
            preset: Preset::Required,
            comment: "Random at creation: tells this chain from any other of the same name.",
        },
        Field {
            key: "epoch",
            kind: Kind::Integer { min: 0, max: i64::MAX as u64 },
            preset: Preset::Is("0"),
            comment: "The number of the committee below. Every vote is bound to it.",
        },
        Field {
            key: "protocol",
            kind: Kind::Choice(ProtocolName::NAMES),
            preset: Preset::Is("hotstuff-two-chain"),
            comment: "The protocol that orders the blocks. docs/protocols/combinations.md says what goes\n\
                      with what.",
        },
        Field {
            key: "votes",
            kind: Kind::Choice(VoteRoute::NAMES),
            preset: Preset::Inherited(
                "\"broadcast\" with hotstuff-two-chain and at most 50 replicas, else \"next-leader\"",
            ),
            comment: "To whom votes go. \"broadcast\": to all, which saves a message delay and costs n times\n\
                      the messages. An option of hotstuff-two-chain.",
        },
        Field {
            key: "second_vote",
            kind: Kind::Bool,
            preset: Preset::Inherited(
                "true with hotstuff-two-chain and votes = \"broadcast\", else false",
            ),
            comment: "Whether a replica that holds a block's certificate votes for it once more, so that the\n\
                      block commits in its own view. An option of hotstuff-two-chain with broadcast votes.",
        },
        Field {
            key: "pacemaker",
            kind: Kind::Choice(PacemakerName::NAMES),
            preset: Preset::Is("timeout-certificates"),
            comment: "How replicas leave a view whose leader does not lead: by time-outs to all, or by\n\
                      complaints to the next leader.",
        },
        Field {
            key: "leader",
            kind: Kind::Choice(LeaderName::NAMES),
            preset: Preset::Inherited(
                "\"carousel\"; \"round-robin\" with signatures = \"bls12-381-threshold\"",
            ),
            comment: "Who leads a view: each in turn; always the same, without progress after its death;\n\
                      one of those who signed the last committed certificate, without those who failed last;\n\
                      or one drawn by what each did in the committed history.",
        },
        Field {
            key: "fixed_leader",
            kind: Kind::Integer { min: 0, max: MAX_REPLICAS as u64 - 1 },
            preset: Preset::Is("0"),
            comment: "The replica that leads with leader = \"fixed\". Without that it must be left out.",
        },
        Field {
            key: "sampling",
            kind: Kind::Choice(SamplingName::NAMES),
            preset: Preset::Is("later-practice"),
            comment: "How many replicas a poll of Snowman asks, and how many polls decide. \"later-practice\":\n\
                      k = 20, alpha = 15, beta = 20; \"paper\": k = 10, alpha = 8, beta = 150;\n\
                      \"snowflake-plus\": k = 80, alpha = 72, beta = 12. Among no more than k others a poll\n\
                      asks all. With other protocols it must be left out.",
        },
        Field {
            key: "liveness",
            kind: Kind::Choice(LivenessName::NAMES),
            preset: Preset::Is("sampling"),
            comment: "What Snowman does where polls decide nothing for long, as under attack. \"sampling\": it\n\
                      goes on polling. \"frosty\": replicas complain, a quorum decides one block, and polls go\n\
                      on. With other protocols it must be left out.",
        },
        Field {
            key: "signatures",
            kind: Kind::Choice(&SCHEME_NAMES),
            preset: Preset::Is("ed25519"),
            comment: "What votes and time-outs are signed with. \"none\": with nothing; replicas take part\n\
                      only with laboratory.enabled in their node.toml.",
        },
        Field {
            key: "authentication",
            kind: Kind::Choice(AuthenticationName::NAMES),
            preset: Preset::Inherited("\"macs-to-clients\" with pbft, else \"signatures\""),
            comment: "By what it is known who says something. \"signatures\": all that replicas say is signed.\n\
                      \"macs\": replicas believe each other's channels; what clients are told is signed.\n\
                      \"macs-to-clients\": clients believe the channels as well. Requests, checkpoints and\n\
                      view changes are signed with any. The latter two are options of pbft.",
        },
        Field {
            key: "tentative",
            kind: Kind::Bool,
            preset: Preset::Is("false"),
            comment: "Whether replicas execute blocks that are prepared, and answer a message delay earlier. A\n\
                      client takes n - f equal answers of one view, or f + 1 of what is committed. An\n\
                      option of pbft, for applications that can undo a block: kv in memory, and ordering.",
        },
        Field {
            key: "group_key",
            kind: Kind::Hex(&[GROUP_KEY_BYTES]),
            preset: Preset::Absent,
            comment: "The committee's public key, with signatures = \"bls12-381-threshold\" alone. The dealer\n\
                      prints it (`quorate keygen --threshold`).",
        },
        Field {
            key: "transport",
            kind: Kind::Choice(TransportName::NAMES),
            preset: Preset::Is("tcp"),
            comment: "What replicas reach each other by: TLS over TCP; or QUIC or DTLS, at the UDP port of the\n\
                      same number. Clients use TLS over TCP with any.",
        },
        Field {
            key: "application",
            kind: Kind::Choice(Application::NAMES),
            preset: Preset::Is("kv"),
            comment: "What is replicated: a key-value store; nothing but the order of commands; or a service\n\
                      of your own, with its own program, that the table [service] names.",
        },
        Field {
            key: "batch.max_commands",
            kind: Kind::Integer { min: 1, max: 65536 },
            preset: Preset::Is("400"),
            comment: "Most commands in a block. More raises throughput and latency under load.",
        },
        Field {
            key: "batch.max_bytes",
            kind: Kind::Size { min: 1 << 10, max: limits::MAX_BATCH_BYTES as u64 },
            preset: Preset::Is("1MiB"),
            comment: "Most bytes of commands in a block.",
        },
        Field {
            key: "sessions.max_sessions",
            kind: Kind::Integer { min: 1, max: 1 << 20 },
            preset: Preset::Is("1024"),
            comment: "Most sessions that live at a time. Each may cost every replica answer_bytes and\n\
                      window_bytes of memory.",
        },
        Field {
            key: "sessions.min_idle_blocks",
            kind: Kind::Integer { min: 1, max: i64::MAX as u64 },
            preset: Preset::Is("10000"),
            comment: "How many blocks a session must have been idle before another may take its place. A\n\
                      block that turns a newcomer away counts for an eighth of them.",
        },
        Field {
            key: "sessions.answer_commands",
            kind: Kind::Integer { min: frame::MAX_COMMANDS as u64, max: 1 << 24 },
            preset: Preset::Is("16384"),
            comment: "Most commands of one session whose replies are kept for retries.",
        },
        Field {
            key: "sessions.answer_bytes",
            kind: Kind::Size { min: 1 << 10, max: 1 << 30 },
            preset: Preset::Is("1MiB"),
            comment: "Most bytes of replies kept for one session.",
        },
        Field {
            key: "sessions.window_frames",
            kind: Kind::Integer { min: 1, max: 1 << 16 },
            preset: Preset::Is("256"),
            comment: "Most frames of one session that wait for a gap in its numbers to close.",
        },
        Field {
            key: "sessions.window_commands",
            kind: Kind::Integer { min: 1, max: 1 << 32 },
            preset: Preset::Is("65536"),
            comment: "How far ahead of the next number a waiting frame may begin, in commands.",
        },
        Field {
            key: "sessions.window_bytes",
            kind: Kind::Size { min: 1 << 10, max: 1 << 30 },
            preset: Preset::Is("512KiB"),
            comment: "Most bytes of the waiting frames of one session.",
        },
        Field {
            key: "limits.max_frame_commands",
            kind: Kind::Integer { min: 1, max: frame::MAX_COMMANDS as u64 },
            preset: Preset::Is("4096"),
            comment: "Most commands in one request frame. One that is larger than a block fills it alone.",
        },
        Field {
            key: "limits.max_frame_bytes",
            kind: Kind::Size { min: 1 << 10, max: frame::MAX_BODY_BYTES as u64 },
            preset: Preset::Is("4MiB"),
            comment: "Most bytes of commands in one request frame.",
        },
        Field {
            key: "limits.max_snapshot_bytes",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44 },
            preset: Preset::Is("64GiB"),
            comment: "Largest state a replica fetches from others when it is far behind.",
        },
        Field {
            key: "limits.max_state_bytes",
            kind: Kind::Size { min: 1 << 20, max: 1 << 44 },
            preset: Preset::Is("1GiB"),
            comment: "Most that keys and values may take; beyond it, commands that write are refused (OOM). \
                      While a snapshot is written a replica may take twice that in memory.",
        },
        Field {
            key: "governance.administrators",
            kind: Kind::Keys(Governance::MAX_ADMINISTRATORS),
            preset: Preset::Absent,
            comment: "The public keys (Ed25519) of those who may change the members. The transport keys and\n\
                      addresses of the replicas are part of the chain's identity then.",
        },
        Field {
            key: "governance.approvals",
            kind: Kind::Integer { min: 1, max: Governance::MAX_ADMINISTRATORS as u64 },
            preset: Preset::Absent,
            comment: "How many of them must sign a change.",
        },
        Field {
            key: "governance.rules",
            kind: Kind::Rules,
            preset: Preset::Absent,
            comment: "The rules that the first epoch executes by, of the core and of the application; without\n\
                      it \"1.1\". A chain that `quorate restore --new` made goes on by those of the backup.",
        },
        Field {
            key: "clients.admission",
            kind: Kind::Choice(clients::ADMISSIONS),
            preset: Preset::Absent,
            comment: "\"listed\": the keys below may send commands, and nobody else. Administrators change the\n\
                      list while the cluster runs (`quorate client`).",
        },
        Field {
            key: "clients.keys",
            kind: Kind::Keys(clients::MAX_KEYS),
            preset: Preset::Absent,
            comment: "The public keys (Ed25519) of the first clients.",
        },
        Field {
            key: "restored.chain",
            kind: Kind::Name,
            preset: Preset::Absent,
            comment: "With a chain that `quorate restore --new` made: the name of the chain in the backup.",
        },
        Field {
            key: "restored.chain_digest",
            kind: Kind::Hex(&[32]),
            preset: Preset::Absent,
            comment: "The identity of that chain.",
        },
        Field {
            key: "restored.height",
            kind: Kind::Integer { min: 0, max: i64::MAX as u64 },
            preset: Preset::Absent,
            comment: "The height of the restored state in that chain.",
        },
        Field {
            key: "restored.root",
            kind: Kind::Hex(&[32]),
            preset: Preset::Absent,
            comment: "The root of the application in that state. A replica that begins with another one is\n\
                      refused at its start.",
        },
        Field {
            key: "service",
            kind: Kind::Table,
            preset: Preset::Absent,
            comment: "With application = \"service\": its name, and what its program reads here. All replicas\n\
                      agree on it. docs/own-service.md tells more.",
        },
    ],
    list: Some(List {
        name: "replicas",
        comment: "The committee: one table a replica, ids from 0 without gaps.",
        fields: MEMBER_FIELDS,
    }),
};

/// What others know of a member.
static MEMBER_FIELDS: &[Field] = &[
    Field {
        key: "id",
        kind: Kind::Integer { min: 0, max: MAX_REPLICAS as u64 - 1 },
        preset: Preset::Required,
        comment: "the replica's place in the committee",
    },
    Field {
        key: "consensus_key",
        kind: Kind::Hex(&[32, 33, 96]),
        preset: Preset::Required,
        comment: "the public key its votes are checked with, of the scheme `signatures` names",
    },
    Field {
        key: "share_key",
        kind: Kind::Hex(&[SHARE_KEY_BYTES]),
        preset: Preset::Absent,
        comment: "the public key of its share of the first threshold key, with signatures =\n\
                  \"bls12-381-threshold\" and [governance]; its consensus_key is one of \"ed25519\" then",
    },
    Field {
        key: "proof_of_possession",
        kind: Kind::Hex(&[PROOF_BYTES]),
        preset: Preset::Absent,
        comment: "the proof that it holds the secret half of its consensus key, with signatures =\n\
                  \"bls12-381\" alone",
    },
    Field {
        key: "transport_key",
        kind: Kind::Hex(&[32]),
        preset: Preset::Required,
        comment: "the public key its connections are checked with (Ed25519)",
    },
    Field {
        key: "peer_address",
        kind: Kind::Peer,
        preset: Preset::Required,
        comment: "where other replicas reach it",
    },
    Field {
        key: "client_address",
        kind: Kind::Peer,
        preset: Preset::Required,
        comment: "where clients reach it",
    },
    Field {
        key: "name",
        kind: Kind::Name,
        preset: Preset::Absent,
        comment: "what its owner calls it; no part of the chain's identity",
    },
];

/// The keys of `member.toml`, which a newcomer hands to an administrator.
pub(in crate::config) static MEMBER_SCHEMA: Schema = Schema {
    title: "What others need to know of a replica that is to become a member. Nothing in it is secret:\n\
            hand it to an administrator, who adds it with `quorate member add`.",
    tables: &[],
    fields: &[
        Field {
            key: "chain_digest",
            kind: Kind::Hex(&[32]),
            preset: Preset::Required,
            comment: "The chain that it is for.",
        },
        Field {
            key: "id",
            kind: Kind::Integer { min: 0, max: MAX_REPLICAS as u64 - 1 },
            preset: Preset::Required,
            comment: "Its id in the committee: one that nobody has.",
        },
        Field {
            key: "consensus_key",
            kind: Kind::Hex(&[32]),
            preset: Preset::Required,
            comment: "The public key its votes are checked with.",
        },
        Field {
            key: "transport_key",
            kind: Kind::Hex(&[32]),
            preset: Preset::Required,
            comment: "The public key its connections are checked with.",
        },
        Field {
            key: "peer_address",
            kind: Kind::Peer,
            preset: Preset::Required,
            comment: "Where other replicas reach it.",
        },
        Field {
            key: "client_address",
            kind: Kind::Peer,
            preset: Preset::Required,
            comment: "Where clients reach it.",
        },
    ],
    list: None,
};
