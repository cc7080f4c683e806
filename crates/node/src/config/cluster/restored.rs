//! The state of another chain that a chain begins with.

use quorate_core::base::wire::{Encode, put_bytes};
use quorate_core::{Digest, Height};

use crate::config::finding::{Finding, Place};
use crate::config::schema::{Settings, Value};

const KEYS: [&str; 4] =
    ["restored.chain", "restored.chain_digest", "restored.height", "restored.root"];

/// Where the first state of a chain comes from. It is part of the chain's identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The name of the other chain.
    pub chain: String,
    /// Its identity.
    pub chain_digest: Digest,
    /// The height of the state there.
    pub height: Height,
    /// The root of the application in that state.
    pub root: Digest,
}

impl Restored {
    /// What a file says of it, which [`check`] finds to be all or nothing.
    pub(super) fn of(settings: &Settings) -> Option<Self> {
        Some(Self {
            chain: settings.text("restored.chain")?,
            chain_digest: Digest(settings.bytes("restored.chain_digest")?),
            height: Height(settings.integer("restored.height")?),
            root: Digest(settings.bytes("restored.root")?),
        })
    }

    pub(super) fn set(&self, settings: &mut Settings) {
        let [chain, chain_digest, height, root] = KEYS;
        for (key, value) in [
            (chain, Value::Text(self.chain.clone())),
            (chain_digest, Value::Hex(self.chain_digest.0.to_vec())),
            (height, Value::Integer(self.height.0)),
            (root, Value::Hex(self.root.0.to_vec())),
        ] {
            settings.set(key, value, Place::Default);
        }
    }
}

impl Encode for Restored {
    fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, b"restored");
        put_bytes(out, self.chain.as_bytes());
        self.chain_digest.encode(out);
        self.height.encode(out);
        self.root.encode(out);
    }
}

/// The keys come together, or not at all.
pub(super) fn check(settings: &Settings, findings: &mut Vec<Finding>) {
    let there: Vec<_> = KEYS.iter().filter(|key| settings.mentions(key)).collect();
    let missing = KEYS.iter().find(|key| !settings.mentions(key));
    if let (Some(first), Some(missing)) = (there.first(), missing) {
        findings.push(Finding::new(
            format!("`{missing}` is missing: a chain that begins with a restored state names it"),
            settings.source(first),
            "copy the table [restored] from the cluster.toml that `quorate restore` wrote",
        ));
    }
}
