//! The genesis ceremony: owners who do not trust each other begin a cluster together. Each makes
//! its keys on its own machine, and no secret leaves it.
//!
//! | step | who | makes | rests on |
//! |---|---|---|---|
//! | propose | one owner | a [`Proposal`]: the owners, `cluster.toml` without replicas | nothing |
//! | join | each owner | an [`Owner`]: the public half of its keys, and where it is reached | the proposal's digest |
//! | deal | each owner, where consensus keys are shares of one | a dealing ([`KeyGeneration`]) | every file of step 2 |
//! | check | the same | complaints about shares that do not fit, if any | every dealing |
//! | seal | each owner | `cluster.toml` ([`seal`]), the same bytes at all | every file so far |
//! | sign | each owner | a signature ([`Signatures`]) under the genesis digest | what it sealed itself |
//!
//! # What an owner knows at the end
//! * **Everybody's part is as it said.** Before it signs, it seals the files that it has itself,
//!   with the proposal that it joined. Nobody is in it whom the proposal does not name, and its own
//!   keys are. It signs that under the digest that it says it compared.
//! * **Everybody holds the keys it names.** Each key of an owner signs the proposal's digest and
//!   all that the owner says of itself. So nobody can put another's key into its own file (a *rogue
//!   key*; Ristenpart, Yilek: "The Power of Proofs-of-Possession", Eurocrypt 2007, section 3), and
//!   a file of one ceremony is of no use in another. BLS keys have their own proof of possession as
//!   well, which replicas check at each start.
//! * **Nobody knows a threshold key as a whole.** It is a sum of what all dealt
//!   ([`quorate_crypto::bls::threshold::generation`]). A dealer that was shown to have cheated is
//!   not in the sum. At the end each owner signs with its share, so all owners have one that works.
//! * **All signed the same.** A signature covers the [`Cluster::genesis_digest`]: every setting,
//!   key and address. Who is missing has not signed this cluster.
//!
//! That the names are those of the right people is not proven by any key. Owners compare the
//! genesis digest over a channel by which they know each other.
//!
//! # After the ceremony
//! The owner's home keeps what it signed ([`Home::signed_file`]). A `cluster.toml` beside it that
//! says something else is refused wherever it is loaded, with the fields that differ; and so is one
//! without [`Home::signatures_file`], or with one in which somebody is missing.

mod dealings;
mod difference;
mod owner;
mod proposal;
mod sealing;
mod signatures;

use std::path::Path;

use quorate_core::Digest;
use quorate_core::base::wire::{Encode as _, put_bytes};

use super::cluster::Cluster;
use super::finding::{Finding, Place};
use super::home::Home;
use super::load::{self, ReadCluster};

pub use dealings::KeyGeneration;
pub use difference::{Difference, differences};
pub use owner::{Own, Owner, Reached, Secrets};
pub use proposal::{LEAST_OWNERS, Proposal};
pub use sealing::{Files, begin, generate, seal};
pub use signatures::Signatures;

/// The parts of a ceremony that a key signs in.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Part {
    /// What an owner says of itself, by its consensus key.
    Consensus = 0,
    /// The same, by its transport key.
    Transport = 1,
    /// The same, by its administrator's key.
    Administrator = 2,
    /// The sealed cluster, by a replica's consensus key.
    Sealed = 3,
    /// What an owner deals to the others, by its transport key.
    Dealing = 4,
}

impl Cluster {
    /// The digest of all that owners agree on as they begin a cluster: the chain's identity, and
    /// what may change without making another chain (transports, transport keys, addresses, names).
    #[must_use]
    pub fn genesis_digest(&self) -> Digest {
        let mut bytes = self.chain_digest().0.to_vec();
        put_bytes(&mut bytes, self.transport.name().as_bytes());
        bytes.push(self.tentative.into());
        for member in &self.members {
            member.contact().encode(&mut bytes);
            put_bytes(&mut bytes, member.name.as_deref().unwrap_or_default().as_bytes());
        }
        Digest::of("quorate genesis 1", &bytes)
    }
}

/// Checks a `cluster.toml` against what lies beside it: what this owner signed, and the signatures
/// of all. A home whose owner signed needs both, any other one neither.
pub(super) fn check_beside(file: &Path, read: &ReadCluster, findings: &mut Vec<Finding>) {
    let Some(folder) = file.parent() else { return };
    let found = findings.len();
    let signed = Home::signed_in(folder);
    if signed.exists()
        && let Some(agreed) = load::read_alone(&signed, findings, &mut Vec::new())
    {
        let remedy = format!(
            "put {} in its place; or, if all owners agreed on the change, move that file and {} away",
            signed.display(),
            Home::signatures_in(folder).display()
        );
        let differences = differences(&agreed.cluster, &read.cluster);
        let finding = |difference: &Difference| {
            let place = read.place_of(&difference.key, file);
            Finding::new(format!("{difference} in what this owner signed"), place, remedy.clone())
        };
        findings.extend(differences.iter().map(finding));
    }
    let signatures = Home::signatures_in(folder);
    if findings.len() > found || !(signed.exists() || signatures.exists()) {
        return;
    }
    let read_in = match signatures.exists() {
        true => Signatures::read(&signatures, &read.cluster, findings),
        false => Some(Signatures::none(&read.cluster)),
    };
    let missing = read_in.map_or_else(Vec::new, |all| all.missing(&read.cluster));
    if let [first, ..] = &missing[..] {
        findings.push(Finding::new(
            format!("{} owners have not signed this cluster, {first} among them", missing.len()),
            Place::File(signatures),
            "gather the signatures of all (`quorate genesis verify --out`)",
        ));
    }
}
