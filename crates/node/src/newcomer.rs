//! The home of a replica that joins a cluster which exists: keys, configuration, an empty data
//! folder, and what an administrator needs to know of it. And the next key of a replica that is a
//! member.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName, SecretKey};

use crate::begin::begin_in;
use crate::config::{
    Cluster, ConfigError, Finding, Home, HostPort, Loaded, Member, MemberFile, Place,
    node_file_text, public_half,
};
use crate::replica::keyring::beside;
use crate::written::{replace, write_new};

/// Who joins.
#[derive(Clone, Debug)]
pub struct Newcomer {
    /// Its id: one that nobody has.
    pub id: ReplicaId,
    /// Where other replicas will reach it.
    pub peer_address: HostPort,
    /// Where clients will.
    pub client_address: HostPort,
    /// Where it tells status and metrics.
    pub http_address: HostPort,
}

/// Makes the home of a newcomer in a folder that must not be there. Returns what is to be handed to
/// an administrator; it is in the home as well (`config/member.toml`).
///
/// # Errors
/// A [`Finding`], with the place and the remedy. The home may be there in part.
pub fn make(home: &Home, cluster: &Cluster, newcomer: &Newcomer) -> Result<MemberFile, Finding> {
    let root = home.root();
    if root.exists() {
        let what = "there is a folder already".to_owned();
        let remedy = "name another one: keys and data are never written over".to_owned();
        return Err(Finding { what, place: Place::File(root.to_owned()), remedy });
    }
    let scheme = cluster.own_scheme();
    let consensus = ConsensusKey::generate(scheme).map_err(|error| failed(&error, root))?;
    let transport = SecretKey::generate().map_err(|error| failed(&error, root))?;
    let member = Member {
        id: newcomer.id,
        consensus_key: public_half(&consensus),
        share_key: None,
        proof_of_possession: None,
        transport_key: transport.public_key(),
        peer_address: newcomer.peer_address.clone(),
        client_address: newcomer.client_address.clone(),
        name: None,
    };
    let member = MemberFile { chain: cluster.chain_digest(), member };
    let (id, http) = (newcomer.id.0.to_string(), newcomer.http_address.to_string());
    let values = [("replica", id.as_str()), ("listen.http", http.as_str())];
    let Some(node) = node_file_text(&values) else {
        let remedy = "name a host and a port, such as 127.0.0.1:9000".to_owned();
        let what = format!("status and metrics cannot be at {http}");
        return Err(Finding { what, place: Place::Flag("--http".to_owned()), remedy });
    };
    let folder = home.config_folder();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| failed(&error, &folder))?;
    write_new(&home.cluster_file(), &cluster.to_toml())?;
    write_new(&home.node_file(), &node)?;
    let file = folder.join("consensus.key");
    key_file::write_consensus(&file, &consensus).map_err(|error| failed(&error, &file))?;
    let file = folder.join("transport.key");
    key_file::write(&file, &transport).map_err(|error| failed(&error, &file))?;
    let data = root.join("data");
    begin_in(home, &data, cluster, &consensus).map_err(|error| failed(&error, &data))?;
    // Last: whom an administrator adds has its keys and can start.
    write_new(&home.member_file(), &member.to_toml())?;
    Ok(member)
}

/// Which key of a replica is to be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextKey {
    /// The one for votes.
    Consensus,
    /// The one for connections.
    Transport,
}

impl NextKey {
    /// What it is called in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Consensus => "consensus",
            Self::Transport => "transport",
        }
    }
}

/// Makes the next key of a replica, beside the one in use, and what an administrator needs to know
/// of it ([`Home::next_file`]). Returns that, too. The replica goes over to the key with the change
/// that names it.
///
/// # Errors
/// [`ConfigError`], with the place and the remedy: members are fixed, or a next key is there
/// already.
pub fn next_key(loaded: &Loaded, which: NextKey) -> Result<MemberFile, ConfigError> {
    let Loaded { home, cluster, node, member, .. } = loaded;
    if !cluster.is_governed() {
        let what = "the members of this cluster are fixed, and so are their keys".to_owned();
        let remedy = "make a cluster with administrators: `quorate testnet init --administrators`";
        let place = Place::File(home.cluster_file());
        return Err(Finding { what, place, remedy: remedy.to_owned() }.into());
    }
    // Those in use by now: the files may name earlier ones.
    let in_use = loaded.open_keys()?;
    let (scheme, file) = match which {
        NextKey::Consensus => (cluster.own_scheme(), beside(&node.keys.consensus, "next")),
        NextKey::Transport => (SchemeName::Ed25519, beside(&node.keys.transport, "next")),
    };
    let refused = |what: String| {
        let remedy = "if no change has named that key, remove the file. If one has, the replica uses the \
                      key: it takes it over by itself, and the file goes, with the second block of \
                      that epoch. In an idle cluster, send two commands";
        Finding { what, place: Place::File(file.clone()), remedy: remedy.to_owned() }
    };
    let path = home.next_file(which.name());
    let key = ConsensusKey::generate(scheme).map_err(|error| refused(error.to_string()))?;
    let (key, exists) = match key_file::write_consensus(&file, &key) {
        Ok(()) => (key, None),
        // Whoever made that key may have been cut short before it told of it.
        Err(error @ KeyFileError::Exists { .. }) => match key_file::read_consensus(&file, scheme) {
            Ok(there) => (there, Some(error)),
            Err(_) => return Err(refused(error.to_string()).into()),
        },
        Err(error) => return Err(refused(error.to_string()).into()),
    };
    let mut member = Member {
        consensus_key: public_half(&in_use.consensus),
        transport_key: in_use.transport.public_key(),
        ..member.clone()
    };
    match which {
        NextKey::Consensus => member.consensus_key = public_half(&key),
        NextKey::Transport => {
            let seed = key.to_bytes();
            member.transport_key = SecretKey::from_seed(&seed).public_key();
        }
    }
    let next = MemberFile { chain: cluster.chain_digest(), member };
    let text = next.to_toml();
    if let Some(error) = exists
        && std::fs::read(&path).is_ok_and(|told| told == text.as_bytes())
    {
        return Err(refused(error.to_string()).into());
    }
    replace(&path, &text)?;
    Ok(next)
}

fn failed(error: &impl std::fmt::Display, path: &Path) -> Finding {
    Finding {
        what: format!("the home could not be made: {error}"),
        place: Place::File(path.to_owned()),
        remedy: "see to the cause, remove what was made, and try again".to_owned(),
    }
}
