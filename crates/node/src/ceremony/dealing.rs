//! How an owner generates a threshold key with the others: it deals, checks what others dealt to
//! it, and takes its share.
//!
//! Each step is a function of the owner's keys and of files. So a step that was interrupted is done
//! again, and writes the same bytes.

use std::path::{Path, PathBuf};

use quorate_core::base::crypto::ClientSigner as _;
use quorate_crypto::bls::threshold::generation::{DecryptionKey, ShareError};
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName};

use super::{CONSENSUS, TRANSPORT, misplaced, unread};
use crate::config::genesis::{Files, KeyGeneration, Owner, Proposal, begin, generate};
use crate::config::{ConfigError, Finding, Home, Place};
use crate::written::{failed, remove, replace, write_once};

/// What an owner found in the dealings of all.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What all dealt, and who was shown to have cheated.
    pub generation: KeyGeneration,
    /// The others whose share for this owner does not fit. The complaints are in
    /// [`Home::complaints_file`].
    pub complained_of: Vec<String>,
}

/// Deals to all owners, of these files. The dealing is in [`Home::dealing_file`]. Doing it again
/// changes nothing.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong.
pub fn deal(members: &[PathBuf], home: &Home) -> Result<KeyGeneration, ConfigError> {
    let (proposal, owner) = own(home)?;
    let generation = begin(&proposal, &Files { members, ..Files::default() })?;
    let place = own_place(&generation, home, &owner)?;
    let key = decryption_key(home)?;
    let transport = home.config_folder().join(TRANSPORT);
    let signer = key_file::read(&transport).map_err(|error| unread(&error, &transport))?;
    if signer.public_key() != owner.member.transport_key {
        return Err(misplaced("transport", &transport).into());
    }
    // The round has this place.
    let dealing = generation.generation().round().deal(place, key.seed()).unwrap_or_default();
    let text = generation.dealing_text(owner.name(), &dealing, &signer);
    write_once(&home.dealing_file(), &text)?;
    Ok(generation)
}

/// Checks what all dealt to the owner of this home. Its complaints take the place of those of an
/// earlier check: they follow from the files and bind nobody. Without any, there is no such file.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong with a file. If the complaints cannot be written,
/// it names the dealers first.
pub fn check(files: &Files<'_>, home: &Home) -> Result<Checked, ConfigError> {
    let (proposal, owner) = own(home)?;
    let generation = generate(&proposal, files)?;
    let place = own_place(&generation, home, &owner)?;
    let key = decryption_key(home)?;
    let complaints = generation.generation().complaints(place, &key);
    let complaints = complaints.map_err(|error| refused(&error, &generation, home))?;
    let known = generation.generation().disqualified();
    let unknown = complaints.iter().filter(|it| !known.contains_key(&it.dealer));
    let names = generation.names();
    let complained_of: Vec<String> =
        unknown.filter_map(|it| names.get(it.dealer).cloned()).collect();
    let file = home.complaints_file();
    let written = match complaints.is_empty() {
        true => remove(&file),
        false => replace(&file, &generation.complaints_text(owner.name(), &complaints)),
    };
    written.map_err(|failure| not_complained(&complained_of, &file, failure))?;
    Ok(Checked { generation, complained_of })
}

/// Names the dealers, whose complaints were not written.
fn not_complained(dealers: &[String], file: &Path, failure: Finding) -> ConfigError {
    let named = dealers.iter().map(|name| Finding {
        what: format!("what {name} dealt to this owner does not fit, and no complaint says so yet"),
        place: Place::File(file.to_owned()),
        remedy: "see to what is wrong with this file, and check again".to_owned(),
    });
    ConfigError { findings: named.chain([failure]).collect() }
}

/// The share of the owner of this home: its consensus key.
pub(super) fn share(
    files: &Files<'_>,
    home: &Home,
    proposal: &Proposal,
    owner: &Owner,
) -> Result<ConsensusKey, ConfigError> {
    let generation = generate(proposal, files)?;
    let place = own_place(&generation, home, owner)?;
    let share = generation.generation().share(place, &decryption_key(home)?);
    let share = share.map_err(|error| refused(&error, &generation, home))?;
    Ok(ConsensusKey::dealt(share))
}

/// Writes the share to the file of the consensus key, which must not hold another one.
pub(super) fn keep(share: &ConsensusKey, home: &Home) -> Result<(), Finding> {
    let file = home.config_folder().join(CONSENSUS);
    match key_file::write_consensus(&file, share) {
        Ok(()) => Ok(()),
        Err(KeyFileError::Exists { .. }) => {
            let kept = key_file::read_consensus(&file, SchemeName::BlsThreshold);
            let kept = kept.map_err(|error| failed(&error, &file))?;
            match kept.public_key() == share.public_key() {
                true => Ok(()),
                false => Err(Finding {
                    what: "the key in it is not the share that the dealings make".to_owned(),
                    place: Place::File(file),
                    remedy: "move it away, and sign again".to_owned(),
                }),
            }
        }
        Err(error) => Err(failed(&error, &file)),
    }
}

fn own(home: &Home) -> Result<(Proposal, Owner), ConfigError> {
    let proposal = Proposal::load(&home.proposal_file())?;
    let owner = Owner::load(&home.owner_file(), &proposal)?;
    Ok((proposal, owner))
}

/// The place of this home's owner, which must be among the owners as it said.
fn own_place(generation: &KeyGeneration, home: &Home, owner: &Owner) -> Result<usize, Finding> {
    let key = decryption_key(home)?.public_key();
    if Some(key) != owner.encryption_key() {
        return Err(misplaced("encryption", &home.encryption_file()));
    }
    let place = generation.place_of(owner.name());
    let is_own = |place: &usize| generation.generation().round().key(*place) == Some(key);
    place.filter(is_own).ok_or_else(|| Finding {
        what: format!("no owner among these files has the encryption key of {}", owner.name()),
        place: Place::File(home.owner_file()),
        remedy: "name the genesis-member.toml of this home among the files".to_owned(),
    })
}

fn decryption_key(home: &Home) -> Result<DecryptionKey, Finding> {
    let file = home.encryption_file();
    key_file::read_decryption(&file).map_err(|error| unread(&error, &file))
}

fn refused(error: &ShareError, generation: &KeyGeneration, home: &Home) -> ConfigError {
    let finding = |what: String, file: &Path, remedy: &str| Finding {
        what,
        place: Place::File(file.to_owned()),
        remedy: remedy.to_owned(),
    };
    match error {
        ShareError::DoesNotFit(dealer) => finding(
            format!(
                "the share that {} dealt to this owner does not fit its commitments",
                generation.names().get(*dealer).map_or("somebody", String::as_str)
            ),
            &home.dealing_file(),
            "run `quorate genesis check`, and hand its genesis-complaints.toml to all other owners; then \
             all seal again, with --complaints",
        ),
        other => finding(
            other.to_string(),
            &home.encryption_file(),
            "put the key back that `quorate genesis join` made",
        ),
    }
    .into()
}
