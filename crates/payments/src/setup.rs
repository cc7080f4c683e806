//! The homes of a payment network on one machine.
//!
//! ```text
//! FOLDER/node-0/config/{payments.toml, transport.key}   data/
//! FOLDER/node-1/…
//! FOLDER/wallet/config/payments.toml   wallet.key       the genesis belongs to this wallet
//! ```

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_crypto::SecretKey;
use quorate_crypto::key_file::{self, KeyFileError};

use crate::address::Address;
use crate::genesis::Genesis;
use crate::network::{FILE, MAX_NODES, Network, Node};
use crate::transaction::Output;

/// What kind of network to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name.
    pub name: String,
    /// The first of three ports a node; `None`: whichever are free now.
    pub base_port: Option<u16>,
    /// The genesis outputs: whose each is, and how much. Those of nobody belong to the wallet that
    /// is made.
    pub genesis: Vec<(Option<Address>, u64)>,
    /// k, α, β₁, β₂.
    pub parameters: Parameters,
}

/// A network on this machine.
#[derive(Clone, Debug)]
pub struct Made {
    /// What all agree on.
    pub network: Network,
    /// The nodes' homes, by id.
    pub nodes: Vec<PathBuf>,
    /// The home of the wallet that has everything.
    pub wallet: PathBuf,
}

/// Why no network was made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(String),
    /// The system.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was to be made.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
}

/// The parameters for so many nodes: the white paper's, with a smaller sample where there are too
/// few others.
#[must_use]
pub fn parameters_among(nodes: usize) -> Parameters {
    let paper = Parameters::PAPER;
    let others = u32::try_from(nodes.saturating_sub(1)).unwrap_or(u32::MAX);
    let sample = paper.sample.min(others).max(1);
    // α / k stays at 0.8 or above.
    let quorum = (sample * paper.quorum).div_ceil(paper.sample);
    Parameters { sample, quorum, ..paper }
}

/// Where the secret key of a wallet's home is.
#[must_use]
pub fn wallet_key(home: &Path) -> PathBuf {
    home.join("wallet.key")
}

/// Where the network's file of a home is.
#[must_use]
pub fn network_file(home: &Path) -> PathBuf {
    home.join("config").join(FILE)
}

/// Makes the homes of `nodes` nodes and of a wallet in `folder`. Never writes over one.
///
/// # Errors
/// [`SetupError`]
pub fn init(folder: &Path, nodes: usize, options: &Options) -> Result<Made, SetupError> {
    if !(2..=MAX_NODES).contains(&nodes) {
        return Err(SetupError::Refused(format!(
            "a network has 2 to {MAX_NODES} nodes, not {nodes}"
        )));
    }
    let wallet = folder.join("wallet");
    if wallet.exists() || folder.join("node-0").exists() {
        let what =
            format!("there is a network already in {}: name another folder", folder.display());
        return Err(SetupError::Refused(what));
    }
    let random = |error: &dyn std::fmt::Display| SetupError::Refused(error.to_string());
    let new_key = || SecretKey::generate().map_err(|error| random(&error));
    let (owner, mut seed) = (new_key()?, [0; 32]);
    getrandom::fill(&mut seed).map_err(|error| random(&error))?;
    let to = Address::of(&owner.public_key());
    let output = |(owner, amount): &(Option<Address>, u64)| Output {
        to: owner.unwrap_or(to),
        amount: *amount,
    };
    let genesis = Genesis::new(options.genesis.iter().map(output).collect())
        .map_err(|error| SetupError::Refused(error.to_string()))?;
    let keys = (0..nodes).map(|_| new_key()).collect::<Result<Vec<_>, _>>()?;
    let ports = ports(options.base_port, nodes).map_err(io(folder))?;
    let parameters = options.parameters.checked();
    let parameters = parameters.map_err(|error| SetupError::Refused(error.to_string()))?;
    let node = |(key, ports): (&SecretKey, &[u16; 3])| {
        let [peer, client, http] = ports.map(|port| format!("127.0.0.1:{port}"));
        let transport_key = key.public_key();
        Node {
            transport_key,
            peer_address: peer,
            client_address: client,
            http_address: http,
            stake: 1,
        }
    };
    let network = Network {
        name: options.name.clone(),
        seed,
        parameters,
        genesis,
        nodes: keys.iter().zip(&ports).map(node).collect(),
    };
    let text = network.to_toml();
    // First: no node runs without an owner of what there is.
    make_home(&wallet, &text)?;
    key_file::write(&wallet_key(&wallet), &owner)?;
    let mut homes = Vec::with_capacity(nodes);
    for (id, key) in keys.iter().enumerate() {
        let home = folder.join(format!("node-{id}"));
        make_home(&home, &text)?;
        key_file::write(&home.join("config").join("transport.key"), key)?;
        homes.push(home);
    }
    Ok(Made { network, nodes: homes, wallet })
}

/// Makes a home with the network's file, which is there as a whole or not at all.
///
/// # Errors
/// [`SetupError::Io`]
pub fn make_home(home: &Path, network: &str) -> Result<(), SetupError> {
    let file = network_file(home);
    let folder = home.join("config");
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(io(&folder))?;
    if file.exists() {
        return Err(io(&file)(ErrorKind::AlreadyExists.into()));
    }
    let part = file.with_extension("part");
    let written = File::create(&part).and_then(|mut whole| {
        whole.write_all(network.as_bytes())?;
        whole.sync_all()
    });
    written.and_then(|()| std::fs::rename(&part, &file)).map_err(io(&file))
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> SetupError {
    let path = path.to_owned();
    move |source| SetupError::Io { path: path.clone(), source }
}

/// Three ports a node. All are held until the last is known, so that none comes twice.
fn ports(base: Option<u16>, nodes: usize) -> std::io::Result<Vec<[u16; 3]>> {
    if let Some(base) = base {
        let port = |place: usize| {
            let port = usize::from(base) + place;
            u16::try_from(port).map_err(|_| std::io::Error::other("the ports end at 65535"))
        };
        let of = |id: usize| Ok([port(3 * id)?, port(3 * id + 1)?, port(3 * id + 2)?]);
        return (0..nodes).map(of).collect();
    }
    let free = |_| TcpListener::bind(("127.0.0.1", 0));
    let held = (0..3 * nodes).map(free).collect::<std::io::Result<Vec<_>>>()?;
    let ports = held.iter().map(|held| Ok(held.local_addr()?.port()));
    let ports = ports.collect::<std::io::Result<Vec<_>>>()?;
    Ok(ports.as_chunks::<3>().0.to_vec())
}
