//! The public half of an owner's keys, with the proofs that it holds the secret halves.

use std::path::Path;

use quorate_core::base::crypto::{
    Check, ClientSigner as _, PublicKey, Scheme as _, Share, Signature, Signer, Statement,
};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::{Encode as _, put_bytes};
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::bls::threshold::generation::{
    DecryptionKey, ENCRYPTION_KEY_BYTES, EncryptionKey, PROOF_BYTES,
};
use quorate_crypto::committee_keys::{CommitteeKeyError, KeyProblem, MemberKey};
use quorate_crypto::ed25519::{self, Ed25519};
use quorate_crypto::{CommitteeScheme, ConsensusKey, SchemeName, SecretKey};

use super::{Part, Proposal};
use crate::config::cluster::{self, Member};
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

const CONSENSUS_KEY: &str = "consensus_key";
const CONSENSUS_PROOF: &str = "consensus_proof";
const ENCRYPTION_KEY: &str = "encryption_key";
const ENCRYPTION_PROOF: &str = "encryption_proof";

const fn required(key: &'static str, kind: Kind, comment: &'static str) -> Field {
    Field { key, kind, preset: Preset::Required, comment }
}

const fn optional(key: &'static str, kind: Kind, comment: &'static str) -> Field {
    Field { key, kind, preset: Preset::Absent, comment }
}

static OWNER_FIELDS: &[Field] = &[
    required("proposal", Kind::Hex(&[32]), "The digest of the proposal."),
    required("name", Kind::Name, "What others call the owner. Replicas are numbered by names."),
    optional(
        CONSENSUS_KEY,
        Kind::Hex(&[32, 33, 96]),
        "What its votes are checked with. With signatures = \"bls12-381-threshold\" it comes of the\n\
         dealings of all.",
    ),
    optional(
        "proof_of_possession",
        Kind::Hex(&[cluster::PROOF_BYTES]),
        "With signatures = \"bls12-381\".",
    ),
    optional(
        ENCRYPTION_KEY,
        Kind::Hex(&[ENCRYPTION_KEY_BYTES]),
        "With signatures = \"bls12-381-threshold\": what the others encrypt its shares to (ristretto255).",
    ),
    required("transport_key", Kind::Hex(&[32]), "What its connections are checked with (Ed25519)."),
    required("peer_address", Kind::Peer, "Where other replicas reach it."),
    required("client_address", Kind::Peer, "Where clients reach it."),
    optional(
        "administrator_key",
        Kind::Hex(&[32]),
        "The key of an administrator (Ed25519), where owners bring them.",
    ),
    optional(CONSENSUS_PROOF, Kind::Hex(&[48, 64]), "By the consensus key."),
    optional(ENCRYPTION_PROOF, Kind::Hex(&[64]), "By the encryption key."),
    required("transport_proof", Kind::Hex(&[64]), "By the transport key."),
    optional("administrator_proof", Kind::Hex(&[64]), "By the administrator's key."),
];

/// The secret keys of an owner.
pub struct Secrets {
    /// For votes.
    pub consensus: Own,
    /// For connections.
    pub transport: SecretKey,
    /// For changes of the members, where owners are administrators.
    pub administrator: Option<SecretKey>,
}

/// The secret half of what stands for an owner in the committee.
pub enum Own {
    /// Its consensus key.
    Consensus(ConsensusKey),
    /// The key that others encrypt its share to, where the consensus keys are shares of one.
    Decryption(DecryptionKey),
}

impl Own {
    fn public_half(&self) -> ReplicaKey {
        match self {
            Self::Consensus(key) => public_half(key),
            Self::Decryption(key) => key.public_key().to_bytes().into(),
        }
    }

    fn sign(&self, statement: &Statement) -> Signature {
        match self {
            Self::Consensus(key) => key.sign(statement),
            Self::Decryption(key) => key.prove(statement.as_bytes()).into(),
        }
    }
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
    /// Its replica; the id is 0 until the cluster is sealed. Where consensus keys are shares of
    /// one, its encryption key stands in the place of the consensus key, until the dealings of all
    /// make it.
    pub member: Member,
    /// The key of an administrator, where owners bring them.
    pub administrator: Option<PublicKey>,
    proposal: Digest,
    proofs: Proofs,
    /// Whether its file has an encryption key, and no consensus key.
    encrypts: bool,
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
            consensus_key: secrets.consensus.public_half(),
            share_key: None,
            proof_of_possession: match &secrets.consensus {
                Own::Consensus(key) => key.proof_of_possession(),
                Own::Decryption(_) => None,
            },
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
        let encrypts = matches!(secrets.consensus, Own::Decryption(_));
        let (proposal, settings) = (proposal.digest(), Settings::default());
        Self { member, administrator: key, proposal, proofs, encrypts, settings }
    }

    /// What others call the owner.
    #[must_use]
    pub fn name(&self) -> &str {
        self.member.name.as_deref().unwrap_or_default()
    }

    /// What others encrypt its shares to, where consensus keys are shares of one.
    #[must_use]
    pub fn encryption_key(&self) -> Option<EncryptionKey> {
        let bytes = self.member.consensus_key.as_bytes().try_into().ok()?;
        if self.encrypts { EncryptionKey::read(bytes) } else { None }
    }

    /// The digest of all that it says of itself.
    pub(super) fn says(&self) -> Digest {
        says(&self.member, self.administrator.as_ref())
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
        check_keys(&settings, proposal, &place, findings);
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
        let encryption = settings.hex(ENCRYPTION_KEY);
        let (encrypts, proof) = match encryption {
            Some(key) => {
                of_member.set(CONSENSUS_KEY, Value::Hex(key), Place::Default);
                (true, ENCRYPTION_PROOF)
            }
            None => (false, CONSENSUS_PROOF),
        };
        Some(Self {
            member: Member::from_settings(&of_member)?,
            administrator: settings.bytes("administrator_key").map(PublicKey),
            proposal: Digest(settings.bytes("proposal")?),
            proofs: Proofs {
                consensus: signature(proof)?,
                transport: signature("transport_proof")?,
                administrator: signature("administrator_proof"),
            },
            encrypts,
            settings,
        })
    }

    /// The text of a file that says this.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut settings = Settings::default();
        let (own_key, own_proof) = match self.encrypts {
            true => (ENCRYPTION_KEY, ENCRYPTION_PROOF),
            false => (CONSENSUS_KEY, CONSENSUS_PROOF),
        };
        for (key, setting) in self.member.settings().iter() {
            let key = if key == CONSENSUS_KEY { own_key } else { key };
            settings.set(key, setting.value.clone(), Place::Default);
        }
        let mut set = |key, bytes: &[u8]| {
            settings.set(key, Value::Hex(bytes.to_vec()), Place::Default);
        };
        set("proposal", &self.proposal.0);
        set(own_proof, self.proofs.consensus.as_bytes());
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
        let own = statement(Part::Consensus);
        if self.encrypts {
            match self.encryption_key() {
                Some(key) if encryption_holds(&key, &own, &self.proofs.consensus) => {}
                Some(_) => wrong(ENCRYPTION_PROOF, false_proof()),
                None => wrong(ENCRYPTION_KEY, "is no point of ristretto255".to_owned()),
            }
        } else {
            match proves(proposal.scheme(), &self.member, own, &self.proofs) {
                Ok(true) => {}
                Ok(false) => wrong(CONSENSUS_PROOF, false_proof()),
                Err(KeyProblem::FalsePossession) => {
                    let what = "does not hold for its `consensus_key`";
                    wrong("proof_of_possession", what.to_owned());
                }
                Err(problem) => wrong(CONSENSUS_KEY, problem.to_string()),
            }
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

/// The file has the key that the proposal's scheme asks of owners, and no other. A file of another
/// proposal is refused for that, so it may have either.
fn check_keys(
    settings: &Settings,
    proposal: &Proposal,
    place: &Place,
    findings: &mut Vec<Finding>,
) {
    let scheme = proposal.scheme();
    let encrypts = match settings.bytes("proposal") == Some(proposal.digest().0) {
        true => scheme.is_dealt(),
        false => settings.mentions(ENCRYPTION_KEY),
    };
    let consensus = [CONSENSUS_KEY, CONSENSUS_PROOF];
    let encryption = [ENCRYPTION_KEY, ENCRYPTION_PROOF];
    let (wanted, others) = match encrypts {
        true => (encryption, [&consensus[..], &["proof_of_possession"]].concat()),
        false => (consensus, encryption.to_vec()),
    };
    for field in OWNER_FIELDS.iter().filter(|field| wanted.contains(&field.key)) {
        if !settings.mentions(field.key) {
            findings.push(Finding::new(
                format!("`{}` is missing", field.key),
                place.clone(),
                format!("add it: expected {}", field.kind),
            ));
        }
    }
    for key in others.into_iter().filter(|key| settings.mentions(key)) {
        findings.push(Finding::new(
            format!("`{key}` is set, and the proposal's `signatures` is \"{scheme}\""),
            settings.source(key),
            "take the file again from the owner, who joins this proposal",
        ));
    }
}

fn encryption_holds(key: &EncryptionKey, statement: &Statement, proof: &Signature) -> bool {
    let proof: Result<&[u8; PROOF_BYTES], _> = proof.as_bytes().try_into();
    proof.is_ok_and(|proof| key.has_proved(statement.as_bytes(), proof))
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
        // A scheme whose keys are dealt: its owners have no consensus key yet to sign with.
        Err(_) => return Ok(false),
    };
    let share = Share { signer: ReplicaId(0), statement, signature: proofs.consensus };
    Ok(alone.verify(&[Check::Replica(share)]) == [true])
}

pub(super) fn has_signed(key: PublicKey, statement: Statement, signature: Signature) -> bool {
    Ed25519::default().verify(&[Check::Client { key, statement, signature }]) == [true]
}
