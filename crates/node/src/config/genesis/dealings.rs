//! The files by which owners generate a threshold key together
//! ([`quorate_crypto::bls::threshold::generation`]).
//!
//! A dealing and a list of complaints are bound to the *gathering*: the proposal, and all that
//! every owner says of itself. Each dealing is signed by its dealer's transport key, so nobody
//! deals for another. A complaint proves itself.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quorate_core::Digest;
use quorate_core::base::crypto::{Signature, Signer as _, Statement};
use quorate_core::base::membership::{MAX_REPLICAS, quorum};
use quorate_core::base::wire::put_bytes;
use quorate_crypto::SecretKey;
use quorate_crypto::bls::threshold::generation::{
    COMPLAINT_BYTES, Complaint, Failed, Generation, Outcome, Round, RoundError,
};

use super::owner::{Owner, has_signed};
use super::sealing::Files;
use super::{Part, Proposal};
use crate::config::document;
use crate::config::finding::{Finding, Place};
use crate::config::schema::{Field, Kind, List, Preset, Schema, Settings, Value};

/// More bytes than a dealing of the largest committee has: its encoding is hexadecimal, and a file
/// holds one.
const MOST_DEALING_BYTES: usize = 256 * MAX_REPLICAS;

const fn required(key: &'static str, kind: Kind, comment: &'static str) -> Field {
    Field { key, kind, preset: Preset::Required, comment }
}

const GATHERING: Field = required(
    "gathering",
    Kind::Hex(&[32]),
    "The digest of the proposal and of the files of all owners.",
);

static DEALING: Schema = Schema {
    title: "What an owner deals to all others, so that all generate one key together. Nothing in it\n\
            can be read by others than those it is for: hand it to all other owners.",
    tables: &[],
    fields: &[
        GATHERING,
        required("name", Kind::Name, "The owner who deals."),
        required(
            "dealing",
            Kind::Bytes(MOST_DEALING_BYTES),
            "Commitments to a polynomial, and its encrypted values.",
        ),
        required("transport_proof", Kind::Hex(&[64]), "By the transport key."),
    ],
    list: None,
};

static COMPLAINTS: Schema = Schema {
    title: "An owner's complaints: what others dealt to it and does not fit. Each shows that one value\n\
            to everybody. Hand it to all other owners.",
    tables: &[],
    fields: &[GATHERING, required("name", Kind::Name, "The owner who complains.")],
    list: Some(List {
        name: "complaints",
        comment: "One table a complaint.",
        fields: &[
            required("dealer", Kind::Name, "who dealt"),
            required("dealing", Kind::Hex(&[32]), "the digest of the dealing"),
            required("evidence", Kind::Hex(&[COMPLAINT_BYTES]), "what all can check"),
        ],
    }),
};

/// A complaint proves itself, so anybody may take one out of a file and keep the others.
const REMOVE: &str = "remove this table, keep the other complaints in the file, and tell its owner";

/// The key generation of a ceremony: what owners dealt, and who was shown to have cheated.
#[derive(Clone, Debug)]
pub struct KeyGeneration {
    gathering: Digest,
    /// In the order of their names.
    names: Vec<String>,
    generation: Generation,
    /// What owners signed as their dealings and is none, by place. Its owner is not in the key:
    /// everybody who has the file sees that.
    refused: BTreeMap<usize, Vec<u8>>,
}

impl KeyGeneration {
    /// Of these owners, in the order of their names. Nobody has dealt yet.
    pub(super) fn of(
        proposal: &Proposal,
        owners: &[(&PathBuf, Owner)],
        findings: &mut Vec<Finding>,
    ) -> Option<Self> {
        let mut bytes = proposal.digest().0.to_vec();
        let mut keys = Vec::with_capacity(owners.len());
        for (_, owner) in owners {
            put_bytes(&mut bytes, owner.name().as_bytes());
            put_bytes(&mut bytes, &owner.says().0);
            keys.push(owner.encryption_key()?.to_bytes());
        }
        let gathering = Digest::of("quorate genesis gathering 1", &bytes);
        match Round::new(gathering.0, &keys, quorum(keys.len())) {
            Ok(round) => Some(Self {
                gathering,
                names: owners.iter().map(|(_, owner)| owner.name().to_owned()).collect(),
                generation: Generation::new(round),
                refused: BTreeMap::new(),
            }),
            Err(error) => {
                findings.push(no_round(error, proposal, owners));
                None
            }
        }
    }

    /// The names of the owners, in the order of their replicas.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What was dealt.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.generation
    }

    /// The place of an owner among all.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| other == name)
    }

    /// The text of the file of a dealing, signed by the dealer's transport key.
    #[must_use]
    pub fn dealing_text(&self, name: &str, dealing: &[u8], transport: &SecretKey) -> String {
        let proof = transport.sign(&self.statement(name, dealing));
        let mut settings = self.head(name);
        settings.set("dealing", Value::Hex(dealing.to_vec()), Place::Default);
        settings.set("transport_proof", Value::Hex(proof.as_bytes().to_vec()), Place::Default);
        DEALING.render(&settings, &[])
    }

    /// The text of the file of an owner's complaints.
    #[must_use]
    pub fn complaints_text(&self, name: &str, complaints: &[Complaint]) -> String {
        let element = |complaint: &Complaint| {
            let mut element = Settings::default();
            let dealer = self.names.get(complaint.dealer).cloned().unwrap_or_default();
            let digest = self.generation.dealing(complaint.dealer).map(|it| it.digest().to_vec());
            for (key, value) in [
                ("dealer", Value::Text(dealer)),
                ("dealing", Value::Hex(digest.unwrap_or_default())),
                ("evidence", Value::Hex(complaint.evidence.to_vec())),
            ] {
                element.set(key, value, Place::Default);
            }
            element
        };
        COMPLAINTS.render(&self.head(name), &complaints.iter().map(element).collect::<Vec<_>>())
    }

    fn head(&self, name: &str) -> Settings {
        let mut settings = Settings::default();
        settings.set("gathering", Value::Hex(self.gathering.0.to_vec()), Place::Default);
        settings.set("name", Value::Text(name.to_owned()), Place::Default);
        settings
    }

    fn statement(&self, name: &str, dealing: &[u8]) -> Statement {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, name.as_bytes());
        put_bytes(&mut bytes, dealing);
        let content = Digest::of("quorate genesis dealing 1", &bytes);
        Statement::genesis(&self.gathering, Part::Dealing as u8, &content)
    }

    /// Takes the dealings of all owners, and the complaints of some.
    pub(super) fn take(
        &mut self,
        files: &Files<'_>,
        owners: &[(&PathBuf, Owner)],
        findings: &mut Vec<Finding>,
    ) {
        let before = findings.len();
        for file in files.dealings {
            self.take_dealing(file, owners, findings);
        }
        let has_dealt = |place: &usize| {
            self.generation.dealing(*place).is_some() || self.refused.contains_key(place)
        };
        let missing: Vec<_> = (0..self.names.len()).filter(|place| !has_dealt(place)).collect();
        if findings.len() == before
            && let [first, ..] = missing[..]
        {
            findings.push(Finding::new(
                format!(
                    "the dealings of {} owners are missing, that of {} among them",
                    missing.len(),
                    self.names[first]
                ),
                Place::Flag("--dealings".to_owned()),
                "name the genesis-dealing.toml of every owner (`quorate genesis deal` makes it)",
            ));
        }
        if findings.len() == before {
            for file in files.complaints {
                self.take_complaints(file, findings);
            }
        }
    }

    fn take_dealing(
        &mut self,
        file: &Path,
        owners: &[(&PathBuf, Owner)],
        findings: &mut Vec<Finding>,
    ) -> Option<()> {
        let (settings, _) = self.read(file, &DEALING, findings)?;
        let name = settings.text("name")?;
        let from = |key: &str| settings.source(key);
        let again = "take the file again from that owner's own machine (`quorate genesis deal`)";
        let Some(dealer) = self.place_of(&name) else {
            let what = format!("{name} is none of the owners");
            findings.push(Finding::new(what, from("name"), "leave this file out"));
            return None;
        };
        let (bytes, proof) = (settings.hex("dealing")?, settings.hex("transport_proof")?);
        let key = owners.get(dealer)?.1.member.transport_key;
        if !has_signed(key, self.statement(&name, &bytes), Signature::new(&proof)?) {
            let what = format!("`transport_proof` of {name} does not hold for what this file says");
            findings.push(Finding::new(what, from("transport_proof"), again));
            return None;
        }
        if !self.take_signed(dealer, &bytes) {
            findings.push(Finding::new(
                format!("{name} deals twice, and both bear its signature"),
                from("name"),
                "ask that owner which one all others have; if they differ, begin another ceremony \
                 without it",
            ));
        }
        Some(())
    }

    /// Takes what an owner signed as its dealing. If it is none, its owner is disqualified, and
    /// nobody else has to begin again. Returns `false` if the owner signed another one as well:
    /// then the others have to agree which of the two all have.
    fn take_signed(&mut self, dealer: usize, bytes: &[u8]) -> bool {
        if let Some(refused) = self.refused.get(&dealer) {
            return refused == bytes;
        }
        self.generation.take_dealing(dealer, bytes).unwrap_or_else(|_| {
            self.refused.insert(dealer, bytes.to_vec());
            true
        })
    }

    fn take_complaints(&mut self, file: &Path, findings: &mut Vec<Finding>) -> Option<()> {
        let (settings, list) = self.read(file, &COMPLAINTS, findings)?;
        let name = settings.text("name")?;
        let Some(recipient) = self.place_of(&name) else {
            let what = format!("{name} is none of the owners");
            findings.push(Finding::new(what, settings.source("name"), "leave this file out"));
            return None;
        };
        // Somebody can complain of each dealer once.
        if list.len() > self.names.len() {
            let (what, place) =
                ("it has more complaints than there are dealers", Place::File(file.to_owned()));
            findings.push(Finding::new(what, place, "leave this file out"));
            return None;
        }
        let mut dealers = BTreeSet::new();
        for (place, element) in &list {
            let named = element.text("dealer")?;
            let refused = |what: String, key: &str, remedy: &str| {
                let place = if element.mentions(key) { element.source(key) } else { place.clone() };
                Finding::new(what, place, remedy)
            };
            let Some(dealer) = self.place_of(&named) else {
                let what = format!("{named} is none of the owners");
                findings.push(refused(what, "dealer", REMOVE));
                continue;
            };
            if !dealers.insert(dealer) {
                let what = format!("{name} complains of {named} twice");
                findings.push(refused(what, "dealer", REMOVE));
                continue;
            }
            let digest = self.generation.dealing(dealer).map(|dealing| dealing.digest());
            if digest != element.bytes("dealing") {
                findings.push(refused(
                    format!("the complaint of {name} is about another dealing of {named}"),
                    "dealing",
                    "compare the two files of that dealer: if both bear its signature, it cheats; begin \
                     another ceremony without it. If yours is the one that all have, remove this table",
                ));
                continue;
            }
            let evidence = element.bytes("evidence")?;
            let complaint = Complaint { dealer, recipient, evidence };
            if let Err(problem) = self.generation.take_complaint(&complaint) {
                findings.push(refused(
                    format!("the complaint of {name} about {named} {problem}"),
                    "evidence",
                    REMOVE,
                ));
            }
        }
        Some(())
    }

    /// Reads a file of this gathering.
    fn read(
        &self,
        file: &Path,
        schema: &'static Schema,
        findings: &mut Vec<Finding>,
    ) -> Option<(Settings, Vec<(Place, Settings)>)> {
        let before = findings.len();
        let document = document::read(file, schema, findings)?;
        let (place, settings) = (Place::File(file.to_owned()), document.settings);
        document::report_missing(&settings, schema.fields, "", &place, findings);
        if findings.len() > before {
            return None;
        }
        if settings.bytes("gathering") != Some(self.gathering.0) {
            findings.push(Finding::new(
                "it was made with other files of the owners, or for another proposal",
                settings.source("gathering"),
                "compare the owners' files; where one was made anew, all deal again",
            ));
            return None;
        }
        Some((settings, document.list))
    }

    /// The keys of the cluster.
    pub(super) fn outcome(&self, findings: &mut Vec<Finding>) -> Option<Outcome> {
        let outcome = self.generation.outcome();
        let finding = |error: Failed| {
            let place = Place::Flag("--dealings".to_owned());
            let cheats: Vec<_> = self.cheats().collect();
            let remedy = match cheats.is_empty() {
                true => "have all owners join and deal again".to_owned(),
                false => format!("begin another ceremony without {}", cheats.join(", ")),
            };
            Finding::new(format!("no key can be made: {error}"), place, remedy)
        };
        outcome.map_err(|error| findings.push(finding(error))).ok()
    }

    /// The names of the owners that were shown to have cheated.
    pub fn cheats(&self) -> impl Iterator<Item = &str> {
        let disqualified = self.generation.disqualified();
        let has_cheated =
            |place: &usize| disqualified.contains_key(place) || self.refused.contains_key(place);
        let cheats = self.names.iter().enumerate().filter(move |(place, _)| has_cheated(place));
        cheats.map(|(_, name)| name.as_str())
    }
}

/// Why these owners cannot generate a key, with the file of an owner who has to join again.
fn no_round(error: RoundError, proposal: &Proposal, owners: &[(&PathBuf, Owner)]) -> Finding {
    let again = "have the owner join again, in another folder";
    let of =
        |place: usize| owners.get(place).map(|(file, owner)| (Place::File((*file).clone()), owner));
    match error {
        RoundError::Shared(first, second) => {
            if let Some(((_, one), (place, other))) = of(first).zip(of(second)) {
                let (one, other) = (one.name(), other.name());
                let what = format!("no key can be made: {one} and {other} have one encryption key");
                // Each proved that it holds it, so each can read what is dealt to the other.
                let remedy = format!("have {one} and {other} join again, each in another folder");
                return Finding::new(what, place, remedy);
            }
        }
        RoundError::Key(at) => {
            if let Some((place, owner)) = of(at) {
                let what =
                    format!("no key can be made: the encryption key of {} is none", owner.name());
                return Finding::new(what, place, again);
            }
        }
        RoundError::Size { .. } => {}
    }
    let place = Place::File(proposal.file.clone());
    Finding::new(format!("no key can be made: {error}"), place, "change the number of owners")
}
