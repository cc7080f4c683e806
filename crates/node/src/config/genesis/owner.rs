//! The public half of an owner's keys, with the proofs that it holds the secret halves.

use std::path::Path;

use quorate_core::base::crypto::{
    Check, ClientSigner as _, PublicKey, Scheme as _, Share, Signature, Signer, Statement,
};
use quorate_core::base::wire::{Encode as _, put_bytes};
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::committee_keys::{CommitteeKeyError, KeyProblem, MemberKey};
use quorate_crypto::ed25519::{self, Ed25519};
use quorate_crypto::{CommitteeScheme, ConsensusKey, SchemeName, SecretKey};

use super::{Part, Proposal};
use crate::config::cluster::{Member, PROOF_BYTES};
use crate::config::document;
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::load::public_half;
use crate::config::quantity::HostPort;
use crate::config::schema::{Field, Kind, Preset, Schema, Settings, Value};

/// The keys of an owner's file.
static OWNER: Schema = Schema {
    title: "The public half of an owner's keys, for the ceremony of one proposal. Nothing in it is\n\
            secret: hand it to all other owners. Each proof is a signature of the key that it is for,\n\
            under the proposal's digest and all that stands here.",
    tables: &[],
    fields: OWNER_FIELDS,
    list: None,
};

const fn required(key: &'static str, kind: Kind, comment: &'static str) -> Field {
    Field { key, kind, preset: Preset::Required, comment }
}

const fn optional(key: &'static str, kind: Kind, comment: &'static str) -> Field {
    Field { key, kind, preset: Preset::Absent, comment }
}

static OWNER_FIELDS: &[Field] = &[
    required("proposal", Kind::Hex(&[32]), "The digest of the proposal."),
    required("name", Kind::Name, "What others call the owner. Replicas are numbered by names."),
    required("consensus_key", Kind::Hex(&[32, 33, 96]), "What its votes are checked with."),
    optional("proof_of_possession", Kind::Hex(&[PROOF_BYTES]), "With signatures = \"bls12-381\"."),
    required("transport_key", Kind::Hex(&[32]), "What its connections are checked with (Ed25519)."),
    required("peer_address", Kind::Peer, "Where other replicas reach it."),
    required("client_address", Kind::Peer, "Where clients reach it."),
    optional(
        "administrator_key",
        Kind::Hex(&[32]),
        "The key of an administrator (Ed25519), where owners bring them.",
    ),
    required("consensus_proof", Kind::Hex(&[48, 64]), "By the consensus key."),
    required("transport_proof", Kind::Hex(&[64]), "By the transport key."),
    optional("administrator_proof", Kind::Hex(&[64]), "By the administrator's key."),
];

/// The secret keys of an owner.
pub struct Secrets {
    /// For votes.
    pub consensus: ConsensusKey,
    /// For connections.
    pub transport: SecretKey,
    /// For changes of the members, where owners are administrators.
    pub administrator: Option<SecretKey>,
}

/// Where a replica is reached.
#[derive(Clone, Debug)]
pub struct Reached {
    /// By other replicas.
    pub peer: HostPort,
    /// By clients.
    pub client: HostPort,
}

/// What an owner tells the others of itself. Nothing in it is secret.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its replica; the id is 0 until the cluster is sealed.
    pub member: Member,
    /// The key of an administrator, where owners bring them.
    pub administrator: Option<PublicKey>,
    proposal: Digest,
    proofs: Proofs,
    /// What its file says, and where.
    pub(super) settings: Settings,
}

#[derive(Clone, Debug)]
struct Proofs {
    consensus: Signature,
    transport: Signature,
    administrator: Option<Signature>,
}

impl Owner {
    /// What the owner `name` of these keys tells of itself.
    #[must_use]
    pub fn new(proposal: &Proposal, name: &str, reached: Reached, secrets: &Secrets) -> Self {
        let administrator = secrets.administrator.as_ref();
        let member = Member {
            id: ReplicaId(0),
            consensus_key: public_half(&secrets.consensus),
            proof_of_possession: secrets.consensus.proof_of_possession(),
            transport_key: secrets.transport.public_key(),
            peer_address: reached.peer,
            client_address: reached.client,
            name: Some(name.to_owned()),
        };
        let key = administrator.map(SecretKey::public_key);
        let says = says(&member, key.as_ref());
        let statement = |part: Part| Statement::genesis(&proposal.digest(), part as u8, &says);
        let proofs = Proofs {
            consensus: secrets.consensus.sign(&statement(Part::Consensus)),
            transport: secrets.transport.sign(&statement(Part::Transport)),
            administrator: administrator.map(|key| key.sign(&statement(Part::Administrator))),
        };
        let (proposal, settings) = (proposal.digest(), Settings::default());
        Self { member, administrator: key, proposal, proofs, settings }
    }

    /// What others call the owner.
    #[must_use]
    pub fn name(&self) -> &str {
        self.member.name.as_deref().unwrap_or_default()
    }

    /// Reads an owner's file, which must be of this proposal, and checks its proofs.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong.
    pub fn load(file: &Path, proposal: &Proposal) -> Result<Self, ConfigError> {
        let mut findings = Vec::new();
        let read = Self::read(file, proposal, &mut findings);
        ConfigError::unless_clean(read, findings)
    }

    pub(super) fn read(
        file: &Path,
        proposal: &Proposal,
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let before = findings.len();
        let settings = document::read(file, &OWNER, findings)?.settings;
        let place = Place::File(file.to_owned());
        document::report_missing(&settings, OWNER.fields, "", &place, findings);
        if findings.len() > before {
            return None;
        }
        let owner = Self::from_settings(settings)?;
        owner.check(&place, proposal, findings);
        Some(owner)
    }

    fn from_settings(settings: Settings) -> Option<Self> {
        let signature = |key: &str| Signature::new(&settings.hex(key)?);
        // The id comes with the order of all.
        let mut of_member = settings.clone();
        of_member.set("id", Value::Integer(0), Place::Default);
        Some(Self {
            member: Member::from_settings(&of_member)?,
            administrator: settings.bytes("administrator_key").map(PublicKey),
            proposal: Digest(settings.bytes("proposal")?),
            proofs: Proofs {
                consensus: signature("consensus_proof")?,
                transport: signature("transport_proof")?,
                administrator: signature("administrator_proof"),
            },
            settings,
        })
    }

    /// The text of a file that says this.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut settings = self.member.settings();
        let mut set = |key, bytes: &[u8]| {
            settings.set(key, Value::Hex(bytes.to_vec()), Place::Default);
        };
        set("proposal", &self.proposal.0);
        set("consensus_proof", self.proofs.consensus.as_bytes());
        set("transport_proof", self.proofs.transport.as_bytes());
        if let (Some(key), Some(proof)) = (&self.administrator, &self.proofs.administrator) {
            set("administrator_key", &key.0);
            set("administrator_proof", proof.as_bytes());
        }
        OWNER.render(&settings, &[])
    }

    fn check(&self, place: &Place, proposal: &Proposal, findings: &mut Vec<Finding>) {
        let (name, settings) = (self.name(), &self.settings);
        if self.proposal != proposal.digest() {
            let (theirs, ours) = (self.proposal, proposal.digest());
            return findings.push(Finding::new(
                format!("the file of {name} is for the proposal {theirs}, and this one is {ours}"),
                settings.source("proposal"),
                "compare the two files of the proposal; then have each owner join the same one",
            ));
        }
        if !proposal.owners().contains(name) {
            findings.push(Finding::new(
                format!("{name} is none of the owners that the proposal names"),
                settings.source("name"),
                "have the owner join under the name in `[[owners]]`; or have all join a proposal that \
                 names this one, too",
            ));
        }
        let brings = self.administrator.is_some() && self.proofs.administrator.is_some();
        let mentions = ["administrator_key", "administrator_proof"]
            .into_iter()
            .find(|key| settings.mentions(key));
        match (proposal.is_governed_by_owners(), mentions) {
            (true, _) if !brings => findings.push(Finding::new(
                format!(
                    "{name} brings no administrator's key and proof, and the proposal asks for them"
                ),
                place.clone(),
                "have the owner join this proposal again, in another folder",
            )),
            (false, Some(key)) => findings.push(Finding::new(
                format!("`{key}` of {name} is set, and the proposal asks owners for none"),
                settings.source(key),
                "remove it here and have the owner join again; or leave `administrators` out of \
                 [governance], and have all join that proposal",
            )),
            _ => {}
        }
        self.check_proofs(proposal, findings);
    }

    fn check_proofs(&self, proposal: &Proposal, findings: &mut Vec<Finding>) {
        let says = says(&self.member, self.administrator.as_ref());
        let statement = |part: Part| Statement::genesis(&proposal.digest(), part as u8, &says);
        let again = "the file was changed, or its keys are somebody else's: take it again from the \
                     owner's own machine";
        let mut wrong = |key: &str, what: String| {
            let what = format!("`{key}` of {} {what}", self.name());
            findings.push(Finding::new(what, self.settings.source(key), again));
        };
        let false_proof = || "does not hold for what this file says".to_owned();
        match proves(proposal.scheme(), &self.member, statement(Part::Consensus), &self.proofs) {
            Ok(true) => {}
            Ok(false) => wrong("consensus_proof", false_proof()),
            Err(KeyProblem::FalsePossession) => {
                wrong("proof_of_possession", "does not hold for its `consensus_key`".to_owned());
            }
            Err(problem) => wrong("consensus_key", problem.to_string()),
        }
        let administrator = self.administrator.zip(self.proofs.administrator);
        let ed25519 = [
            (
                "transport",
                Part::Transport,
                Some((self.member.transport_key, self.proofs.transport)),
            ),
            ("administrator", Part::Administrator, administrator),
        ];
        for (role, part, proven) in ed25519 {
            let Some((key, signature)) = proven else { continue };
            if let Err(problem) = ed25519::read_key(&key.0) {
                wrong(&format!("{role}_key"), problem.to_string());
            } else if !has_signed(key, statement(part), signature) {
                wrong(&format!("{role}_proof"), false_proof());
            }
        }
    }
}

/// The digest of all that an owner says of itself.
fn says(member: &Member, administrator: Option<&PublicKey>) -> Digest {
    let mut bytes = Vec::new();
    put_bytes(&mut bytes, member.name.as_deref().unwrap_or_default().as_bytes());
    put_bytes(&mut bytes, member.consensus_key.as_bytes());
    put_bytes(&mut bytes, member.proof_of_possession.as_ref().map_or(&[], |proof| &proof[..]));
    member.contact().encode(&mut bytes);
    put_bytes(&mut bytes, administrator.map_or(&[], |key| &key.0[..]));
    Digest::of("quorate genesis member 1", &bytes)
}

/// Whether the consensus key of a member signed.
fn proves(
    scheme: SchemeName,
    member: &Member,
    statement: Statement,
    proofs: &Proofs,
) -> Result<bool, KeyProblem> {
    let key = MemberKey {
        key: member.consensus_key.as_bytes(),
        possession: member.proof_of_possession.as_ref().map(|proof| &proof[..]),
    };
    let alone = match CommitteeScheme::new(scheme, &[key], None) {
        Ok(alone) => alone,
        Err(CommitteeKeyError::Replica { problem, .. }) => return Err(problem),
        // A scheme whose keys are dealt, which no proposal has.
        Err(_) => return Ok(false),
    };
    let share = Share { signer: ReplicaId(0), statement, signature: proofs.consensus };
    Ok(alone.verify(&[Check::Replica(share)]) == [true])
}

fn has_signed(key: PublicKey, statement: Statement, signature: Signature) -> bool {
    Ed25519::default().verify(&[Check::Client { key, statement, signature }]) == [true]
}
