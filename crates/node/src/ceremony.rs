//! What an owner does in a genesis ceremony, on its own machine and in its own home. What the
//! files say, and why they can be believed, is in [`crate::config::genesis`].

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use quorate_core::base::crypto::ClientSigner as _;
use quorate_crypto::{ConsensusKey, SecretKey, key_file};

use crate::config::genesis::{Owner, Proposal, Reached, Secrets, Signatures, differences};
use crate::config::{
    Cluster, ConfigError, Finding, FlagSetting, Home, HostPort, Member, Place, load_cluster_alone,
    node_file_text, public_half,
};

/// Writes a proposal with these values, the defaults of the others, and an identity that no other
/// has. The file must not be there.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong. Nothing was written.
pub fn propose(file: &Path, values: &[FlagSetting]) -> Result<Proposal, ConfigError> {
    let mut genesis = [0; 32];
    getrandom::fill(&mut genesis).map_err(|error| {
        let remedy = "try again when the system has started up".to_owned();
        let what = format!("no randomness for the chain's identity: {error}");
        Finding { what, place: Place::File(file.to_owned()), remedy }
    })?;
    let random = FlagSetting {
        flag: "--set".to_owned(),
        key: "genesis".to_owned(),
        value: quorate_core::Digest(genesis).to_string(),
    };
    // What was named wins.
    let values: Vec<_> = [random].into_iter().chain(values.iter().cloned()).collect();
    let text = Proposal::text(file, &values)?;
    write_new(file, &text)?;
    Proposal::load(file)
}

/// Makes the keys of an owner who joins a proposal, in a home that must not be there, and what it
/// tells the others of itself ([`Home::owner_file`]). The proposal is kept beside it.
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
    if root.symlink_metadata().is_ok() {
        return Err(Finding {
            what: "there is a folder already".to_owned(),
            place: Place::File(root.to_owned()),
            remedy: "name another one: keys are never written over".to_owned(),
        }
        .into());
    }
    let secrets = secrets(&proposal, root)?;
    let owner = Owner::new(&proposal, name, reached, &secrets);
    let folder = home.config_folder();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| failed(&error, &folder))?;
    let consensus = folder.join(CONSENSUS);
    key_file::write_consensus(&consensus, &secrets.consensus)
        .map_err(|error| failed(&error, &consensus))?;
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
    let consensus = ConsensusKey::generate(proposal.scheme());
    let ed25519 = || SecretKey::generate().map_err(|error| failed(&error, root));
    let administers = proposal.is_governed_by_owners();
    Ok(Secrets {
        consensus: consensus.map_err(|error| failed(&error, root))?,
        transport: ed25519()?,
        administrator: if administers { Some(ed25519()?) } else { None },
    })
}

/// Signs a sealed cluster with the keys of `home`, if it is the one that its owner wants: the
/// home's keys and addresses stand in it, and all else is as the proposal said. From then on the
/// home has `cluster.toml`, `node.toml` with `http` for status and metrics, and the signature
/// ([`Home::signature_file`]). Doing it again changes nothing.
///
/// # Errors
/// [`ConfigError`]: what is not as the owner agreed to, field by field.
pub fn sign(file: &Path, home: &Home, http: &HostPort) -> Result<(Cluster, Member), ConfigError> {
    let cluster = load_cluster_alone(file)?.0;
    let proposal = Proposal::load(&home.proposal_file())?;
    let owner = Owner::load(&home.owner_file(), &proposal)?;
    let member = own_member(file, &cluster, &owner)?;
    let consensus = own_key(home, &owner, &cluster)?;
    as_proposed(file, &cluster, &proposal, &owner)?;
    as_signed_before(file, &cluster, home)?;
    let (id, http) = (member.id.0.to_string(), http.to_string());
    let Some(node) = node_file_text(&[("replica", &id), ("listen.http", &http)]) else {
        let remedy = "name a host and a port, such as 127.0.0.1:9000".to_owned();
        let what = format!("status and metrics cannot be at {http}");
        return Err(Finding { what, place: Place::Flag("--http".to_owned()), remedy }.into());
    };
    let (text, signature) = (cluster.to_toml(), Signatures::of(&cluster, member.id, &consensus));
    write_once(&home.signed_file(), &text)?;
    write_once(&home.cluster_file(), &text)?;
    if !home.node_file().exists() {
        write_new(&home.node_file(), &node)?;
    }
    write_once(&home.signature_file(), &signature.to_toml())?;
    Ok((cluster, member))
}

/// The replica of this owner in the cluster, which must be what the owner said.
fn own_member(file: &Path, cluster: &Cluster, owner: &Owner) -> Result<Member, ConfigError> {
    let place = || Place::File(file.to_owned());
    let said = &owner.member;
    let found = cluster.members.iter().find(|member| member.consensus_key == said.consensus_key);
    let Some(member) = found else {
        return Err(Finding {
            what: format!("no replica in it has the consensus key of {}", owner.name()),
            place: place(),
            remedy: "seal it with the genesis-member.toml of this home".to_owned(),
        }
        .into());
    };
    let mut as_said = cluster.clone();
    as_said.members[member.id.index()] = Member { id: member.id, ..said.clone() };
    let finding = |what: String| Finding {
        what,
        place: place(),
        remedy: "do not sign it: whoever sealed it changed what this owner said; seal it anew"
            .into(),
    };
    let differences = differences(&as_said, cluster);
    let findings: Vec<_> = differences
        .iter()
        .map(|difference| finding(format!("{difference} in what this owner said of itself")))
        .collect();
    if findings.is_empty() { Ok(member.clone()) } else { Err(ConfigError { findings }) }
}

/// The consensus key of this home. Its keys must be those that the owner told others of.
fn own_key(home: &Home, owner: &Owner, cluster: &Cluster) -> Result<ConsensusKey, ConfigError> {
    let (consensus, transport) =
        (home.config_folder().join(CONSENSUS), home.config_folder().join(TRANSPORT));
    let unread = |error: key_file::KeyFileError, file: &Path| Finding {
        what: error.to_string(),
        place: Place::File(file.to_owned()),
        remedy: "put the key back that `quorate genesis join` made".to_owned(),
    };
    let key = key_file::read_consensus(&consensus, cluster.signatures);
    let key = key.map_err(|error| unread(error, &consensus))?;
    let shown = key_file::read(&transport).map_err(|error| unread(error, &transport))?;
    let other = |role: &str, file: &Path| Finding {
        what: format!("the key in it is not the {role} key that this owner told the others"),
        place: Place::File(file.to_owned()),
        remedy: "put the key back that `quorate genesis join` made".to_owned(),
    };
    if public_half(&key) != owner.member.consensus_key {
        return Err(other("consensus", &consensus).into());
    }
    if shown.public_key() != owner.member.transport_key {
        return Err(other("transport", &transport).into());
    }
    Ok(key)
}

/// What is not of the owners is as they proposed it.
fn as_proposed(
    file: &Path,
    cluster: &Cluster,
    proposal: &Proposal,
    owner: &Owner,
) -> Result<(), ConfigError> {
    let refused = |what: String| Finding {
        what,
        place: Place::File(file.to_owned()),
        remedy: "do not sign it: seal it anew from the proposal that all joined".to_owned(),
    };
    let Some(proposed) = proposal.with_members_of(cluster) else {
        return Err(refused("the proposal makes no cluster of its replicas".to_owned()).into());
    };
    let differences = differences(&proposed, cluster);
    let mut findings: Vec<_> = differences
        .iter()
        .map(|difference| refused(format!("{difference} in the proposal")))
        .collect();
    let administrators = &cluster.governance.administrators;
    if let Some(key) = &owner.administrator
        && (!administrators.contains(key) || administrators.len() != cluster.members.len())
    {
        let what = "`governance.administrators` are not those that the owners brought";
        findings.push(refused(what.to_owned()));
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
    let findings: Vec<_> = differences
        .iter()
        .map(|difference| Finding {
            what: format!("{difference} in what this owner signed before"),
            place: Place::File(file.to_owned()),
            remedy: format!(
                "if all owners agreed on the change, and no replica has begun: remove {}, \
                 cluster.toml and genesis-signature.toml beside it, and sign again",
                signed.display()
            ),
        })
        .collect();
    if findings.is_empty() { Ok(()) } else { Err(ConfigError { findings }) }
}

/// Writes a file that is not there, or says this already.
pub fn write_once(path: &Path, text: &str) -> Result<(), Finding> {
    if std::fs::read(path).is_ok_and(|found| found == text.as_bytes()) {
        return Ok(());
    }
    write_new(path, text)
}

fn write_new(path: &Path, text: &str) -> Result<(), Finding> {
    let written = std::fs::File::create_new(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Finding {
            what: "there is another file of this name already".to_owned(),
            place: Place::File(path.to_owned()),
            remedy: "name another one, or move this one away: it is never written over".to_owned(),
        },
        _ => failed(&error, path),
    })
}

fn failed(error: &impl std::fmt::Display, path: &Path) -> Finding {
    Finding {
        what: format!("it could not be written: {error}"),
        place: Place::File(path.to_owned()),
        remedy: "see to the cause, remove what was made, and try again".to_owned(),
    }
}
