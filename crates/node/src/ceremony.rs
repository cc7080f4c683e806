//! What an owner does in a genesis ceremony, on its own machine and in its own home. What the
//! files say, and why they can be believed, is in [`crate::config::genesis`].

mod dealing;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use quorate_core::Digest;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_crypto::bls::threshold::generation::DecryptionKey;
use quorate_crypto::{ConsensusKey, SecretKey, key_file};

use crate::config::genesis::{
    Files, Own, Owner, Proposal, Reached, Secrets, Signatures, differences, seal,
};
use crate::config::{
    Cluster, ConfigError, Finding, FlagSetting, Home, HostPort, Member, Place, load_cluster_alone,
    node_file_text, public_half,
};

use crate::written::{failed, write_new, write_once};

pub use dealing::{Checked, check, deal};

/// Writes a proposal to these owners with these values, the defaults of the others, and an identity
/// that no other has. The file must not be there.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong. Nothing was written.
pub fn propose(
    file: &Path,
    owners: &[String],
    values: &[FlagSetting],
) -> Result<Proposal, ConfigError> {
    let mut genesis = [0; 32];
    getrandom::fill(&mut genesis).map_err(|error| {
        let remedy = "try again when the system has started up".to_owned();
        let what = format!("no randomness for the chain's identity: {error}");
        Finding { what, place: Place::File(file.to_owned()), remedy }
    })?;
    let random = FlagSetting {
        flag: "--set".to_owned(),
        key: "genesis".to_owned(),
        value: Digest(genesis).to_string(),
    };
    // What was named wins.
    let values: Vec<_> = [random].into_iter().chain(values.iter().cloned()).collect();
    let text = Proposal::text(file, owners, &values)?;
    write_new(file, &text)?;
    Proposal::load(file)
}

/// Makes the keys of an owner who joins a proposal, and what it tells the others of itself
/// ([`Home::owner_file`]). The home must be empty, or not there. The proposal is kept beside it.
///
/// # Errors
/// [`ConfigError`]. The home may be there in part.
pub fn join(
    proposal: &Path,
    home: &Home,
    name: &str,
    reached: Reached,
) -> Result<Owner, ConfigError> {
    let file = proposal;
    let proposal = Proposal::load(file)?;
    // It was no longer than a configuration file may be.
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error, file))?;
    let root = home.root();
    let is_empty = std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
    if root.symlink_metadata().is_ok() && !is_empty {
        return Err(Finding {
            what: "there is something already".to_owned(),
            place: Place::File(root.to_owned()),
            remedy:
                "name another folder: keys are never written over. To join again, with another \
                     address or under another proposal, make a new home, and hand its \
                     genesis-member.toml to all others in place of the former one"
                    .to_owned(),
        }
        .into());
    }
    if !proposal.owners().contains(name) {
        let names: Vec<_> = proposal.owners().iter().map(String::as_str).collect();
        return Err(Finding {
            what: format!("{name} is none of the owners that the proposal names"),
            place: Place::File(file.to_owned()),
            remedy: format!("join as one of them: {}", names.join(", ")),
        }
        .into());
    }
    let secrets = secrets(&proposal, root)?;
    let owner = Owner::new(&proposal, name, reached, &secrets);
    let folder = home.config_folder();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| failed(&error, &folder))?;
    let (file, written) = match &secrets.consensus {
        Own::Consensus(key) => {
            let file = folder.join(CONSENSUS);
            (file.clone(), key_file::write_consensus(&file, key))
        }
        Own::Decryption(key) => {
            let file = home.encryption_file();
            (file.clone(), key_file::write_decryption(&file, key))
        }
    };
    written.map_err(|error| failed(&error, &file))?;
    let mut keys = vec![(folder.join(TRANSPORT), &secrets.transport)];
    keys.extend(secrets.administrator.as_ref().map(|key| (home.administrator_file(), key)));
    for (file, key) in keys {
        key_file::write(&file, key).map_err(|error| failed(&error, &file))?;
    }
    write_new(&home.proposal_file(), &text)?;
    write_new(&home.owner_file(), &owner.to_toml())?;
    // What others will be handed must be readable, and of this very proposal.
    let kept = Proposal::load(&home.proposal_file())?;
    Owner::load(&home.owner_file(), &kept)
}

const CONSENSUS: &str = "consensus.key";
const TRANSPORT: &str = "transport.key";

fn secrets(proposal: &Proposal, root: &Path) -> Result<Secrets, Finding> {
    let consensus = match proposal.scheme() {
        scheme if scheme.is_dealt() => {
            DecryptionKey::generate().map(Own::Decryption).map_err(|error| failed(&error, root))
        }
        scheme => {
            ConsensusKey::generate(scheme).map(Own::Consensus).map_err(|error| failed(&error, root))
        }
    };
    let ed25519 = || SecretKey::generate().map_err(|error| failed(&error, root));
    let administers = proposal.is_governed_by_owners();
    Ok(Secrets {
        consensus: consensus?,
        transport: ed25519()?,
        administrator: if administers { Some(ed25519()?) } else { None },
    })
}

/// What an owner signs.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    /// The sealed `cluster.toml`.
    pub cluster: &'a Path,
    /// The files of all owners, of which it was sealed.
    pub files: Files<'a>,
    /// Its genesis digest, as the owner compared it with the others.
    pub genesis: Digest,
}

/// Signs a sealed cluster with the keys of `home`, if it is what its owner makes itself of the
/// proposal that it joined and of the files of all owners, its own keys stand in it, and it has the
/// digest that the owner compared. From then on the home has `cluster.toml`, `node.toml` with
/// `http` for status and metrics, and the signature ([`Home::signature_file`]). Doing it again
/// changes nothing.
///
/// # Errors
/// [`ConfigError`]: what is not as the owner agreed to, field by field.
pub fn sign(
    of: Sealed<'_>,
    home: &Home,
    http: &HostPort,
) -> Result<(Cluster, Member), ConfigError> {
    let Sealed { cluster: file, files, genesis } = of;
    let cluster = load_cluster_alone(file)?.0;
    let proposal = Proposal::load(&home.proposal_file())?;
    let owner = Owner::load(&home.owner_file(), &proposal)?;
    let sealed = seal(&proposal, &files)?;
    let consensus = match proposal.scheme().is_dealt() {
        true => dealing::share(&files, home, &proposal, &owner)?,
        false => own_key(home, &owner, &cluster)?,
    };
    let member = own_member(file, &sealed, &owner, &consensus)?;
    own_transport(home, &owner)?;
    as_signed_before(file, &cluster, home)?;
    as_sealed(file, &cluster, &sealed, genesis)?;
    let (id, http) = (member.id.0.to_string(), http.to_string());
    let Some(node) = node_file_text(&[("replica", &id), ("listen.http", &http)]) else {
        let remedy = "name a host and a port, such as 127.0.0.1:9000".to_owned();
        let what = format!("status and metrics cannot be at {http}");
        return Err(Finding { what, place: Place::Flag("--http".to_owned()), remedy }.into());
    };
    if proposal.scheme().is_dealt() {
        dealing::keep(&consensus, home)?;
    }
    let (text, signature) = (cluster.to_toml(), Signatures::of(&cluster, member.id, &consensus));
    write_once(&home.signed_file(), &text)?;
    write_once(&home.cluster_file(), &text)?;
    if !home.node_file().exists() {
        write_new(&home.node_file(), &node)?;
    }
    write_once(&home.signature_file(), &signature.to_toml())?;
    Ok((cluster, member))
}

/// The replica of this owner in what it sealed, which must be as it said, with its consensus key.
fn own_member(
    file: &Path,
    sealed: &Cluster,
    owner: &Owner,
    consensus: &ConsensusKey,
) -> Result<Member, Finding> {
    let own = Member { consensus_key: public_half(consensus), ..owner.member.clone() };
    let is_own = |member: &&Member| Member { id: member.id, ..own.clone() } == **member;
    sealed.members.iter().find(is_own).cloned().ok_or_else(|| Finding {
        what: format!("no replica in it has the keys and addresses of {}", owner.name()),
        place: Place::File(file.to_owned()),
        remedy: "seal it with the genesis-member.toml of this home, and sign that".to_owned(),
    })
}

/// The consensus key of this home, which must be the one that the owner told others of.
fn own_key(home: &Home, owner: &Owner, cluster: &Cluster) -> Result<ConsensusKey, ConfigError> {
    let file = home.config_folder().join(CONSENSUS);
    let key = key_file::read_consensus(&file, cluster.signatures);
    let key = key.map_err(|error| unread(&error, &file))?;
    if public_half(&key) != owner.member.consensus_key {
        return Err(misplaced("consensus", &file).into());
    }
    Ok(key)
}

/// The transport key of this home must be the one that the owner told others of.
fn own_transport(home: &Home, owner: &Owner) -> Result<(), ConfigError> {
    let file = home.config_folder().join(TRANSPORT);
    let key = key_file::read(&file).map_err(|error| unread(&error, &file))?;
    if key.public_key() != owner.member.transport_key {
        return Err(misplaced("transport", &file).into());
    }
    Ok(())
}

fn unread(error: &key_file::KeyFileError, file: &Path) -> Finding {
    Finding {
        what: error.to_string(),
        place: Place::File(file.to_owned()),
        remedy: "put the key back that `quorate genesis join` made".to_owned(),
    }
}

fn misplaced(role: &str, file: &Path) -> Finding {
    Finding {
        what: format!("the key in it is not the {role} key that this owner told the others"),
        place: Place::File(file.to_owned()),
        remedy: "put the key back that `quorate genesis join` made".to_owned(),
    }
}

/// The file is what the owners' files and the proposal make, and its digest is `genesis`.
fn as_sealed(
    file: &Path,
    cluster: &Cluster,
    sealed: &Cluster,
    genesis: Digest,
) -> Result<(), ConfigError> {
    let refused = |what: String| Finding {
        what,
        place: Place::File(file.to_owned()),
        remedy:
            "do not sign it: seal it anew from the proposal that all joined, with the file that \
                 each owner handed over itself, and compare the digest again"
                .to_owned(),
    };
    let differences = differences(sealed, cluster);
    let mut findings: Vec<_> = differences
        .iter()
        .map(|difference| refused(format!("{difference} in the proposal and the owners' files")))
        .collect();
    let found = cluster.genesis_digest();
    if findings.is_empty() && found != genesis {
        findings.push(refused(format!("its genesis digest is {found}, and not {genesis}")));
    }
    if findings.is_empty() { Ok(()) } else { Err(ConfigError { findings }) }
}

/// An owner signs one cluster.
fn as_signed_before(file: &Path, cluster: &Cluster, home: &Home) -> Result<(), ConfigError> {
    let signed = home.signed_file();
    if !signed.exists() {
        return Ok(());
    }
    let before = load_cluster_alone(&signed)?.0;
    let differences = differences(&before, cluster);
    // Other dealings or complaints make another share.
    let share = if cluster.signatures.is_dealt() { "consensus.key, " } else { "" };
    let findings: Vec<_> = differences
        .iter()
        .map(|difference| Finding {
            what: format!("{difference} in what this owner signed before"),
            place: Place::File(file.to_owned()),
            remedy: format!(
                "if all owners agreed on the change, and no replica has begun: remove {}, and beside \
                 it {share}cluster.toml, node.toml, genesis-signature.toml and genesis-signatures.toml; then \
                 sign again",
                signed.display()
            ),
        })
        .collect();
    if findings.is_empty() { Ok(()) } else { Err(ConfigError { findings }) }
}
