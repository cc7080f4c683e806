//! `payments.toml`: what all nodes and wallets of a payment network agreed on.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use quorate_core::base::crypto::PublicKey;
use quorate_core::base::wire::{Encode as _, put_bytes};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_core::{Digest, ReplicaId};
use serde::Deserialize;

use crate::address::Address;
use crate::genesis::Genesis;
use crate::transaction::Output;

/// The file, in a home's folder `config`.
pub const FILE: &str = "payments.toml";
/// Most nodes of a network.
pub const MAX_NODES: usize = 1024;
/// Most bytes of the file.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What all agreed on.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name, for people.
    pub name: String,
    /// Tells it from any other of the same name.
    pub seed: [u8; 32],
    /// k, α, β₁ and β₂.
    pub parameters: Parameters,
    /// What there is in the beginning.
    pub genesis: Genesis,
    /// The nodes, by id.
    pub nodes: Vec<Node>,
}

/// A node, as all others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it proves itself with.
    pub transport_key: PublicKey,
    /// Where other nodes reach it.
    pub peer_address: String,
    /// Where wallets reach it.
    pub client_address: String,
    /// Where it tells status and metrics.
    pub http_address: String,
    /// How often it is asked, compared with others.
    pub stake: u64,
}

/// Why the file is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}; {remedy}", file.display())]
pub struct NetworkError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong, and on which line where that is known.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    seed: String,
    k: u32,
    alpha: u32,
    beta1: u32,
    beta2: u32,
    genesis: Vec<FileOutput>,
    nodes: Vec<FileNode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOutput {
    address: String,
    amount: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNode {
    transport_key: String,
    peer_address: String,
    client_address: String,
    http_address: String,
    stake: u64,
}

impl Network {
    /// Reads the network's file.
    ///
    /// # Errors
    /// [`NetworkError`]
    pub fn load(file: &Path) -> Result<Self, NetworkError> {
        let wrong = |what, remedy| NetworkError { file: file.to_owned(), what, remedy };
        let length = std::fs::metadata(file).map(|data| data.len());
        let text = match length {
            Ok(length) if length > MAX_FILE_BYTES => {
                return Err(wrong(format!("{length} bytes are too many"), "name another file"));
            }
            _ => std::fs::read_to_string(file).map_err(|error| {
                wrong(error.to_string(), "name a home that `quorate pay init` made with --home")
            })?,
        };
        Self::parse(&text).map_err(|(what, remedy)| wrong(what, remedy))
    }

    fn parse(text: &str) -> Result<Self, (String, &'static str)> {
        const COPY: &str = "copy the file from another node";
        let file: File =
            toml::from_str(text).map_err(|error| (error.to_string().trim().to_owned(), COPY))?;
        let File { name, seed, k, alpha, beta1, beta2, genesis, nodes } = file;
        let seed =
            hex(&seed).ok_or_else(|| ("`seed` is not 64 hexadecimal digits".into(), COPY))?;
        let parameters = Parameters { sample: k, quorum: alpha, early: beta1, decision: beta2 };
        let parameters = parameters.checked().map_err(|error| (error.to_string(), COPY))?;
        let output = |output: FileOutput| {
            let to: Address = output.address.parse().map_err(|error| {
                (format!("genesis address \"{}\": {error}", output.address), COPY)
            })?;
            Ok(Output { to, amount: output.amount })
        };
        let outputs = genesis.into_iter().map(output).collect::<Result<_, _>>()?;
        let genesis = Genesis::new(outputs).map_err(|error| (error.to_string(), COPY))?;
        if nodes.len() < 2 || nodes.len() > MAX_NODES {
            let what = format!("a network has 2 to {MAX_NODES} nodes, not {}", nodes.len());
            return Err((what, "add nodes to the file of each"));
        }
        let node = |(id, node): (usize, FileNode)| {
            let key = hex(&node.transport_key);
            let key = key.ok_or_else(|| (format!("node {id}: `transport_key` is no key"), COPY))?;
            Ok(Node {
                transport_key: PublicKey(key),
                peer_address: node.peer_address,
                client_address: node.client_address,
                http_address: node.http_address,
                stake: node.stake,
            })
        };
        let nodes: Vec<Node> = nodes.into_iter().enumerate().map(node).collect::<Result<_, _>>()?;
        let mut keys: Vec<_> = nodes.iter().map(|node| node.transport_key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(("two nodes have one `transport_key`".into(), "give each its own"));
        }
        Ok(Self { name, seed, parameters, genesis, nodes })
    }

    /// The network's identity: the digest of what all agreed on but the addresses.
    #[must_use]
    pub fn chain(&self) -> Digest {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, self.name.as_bytes());
        bytes.extend_from_slice(&self.seed);
        let Parameters { sample, quorum, early, decision } = self.parameters;
        [sample, quorum, early, decision].iter().for_each(|number| number.encode(&mut bytes));
        self.genesis.id().encode(&mut bytes);
        for node in &self.nodes {
            node.transport_key.encode(&mut bytes);
            node.stake.encode(&mut bytes);
        }
        Digest::of("quorate payments chain 1", &bytes)
    }

    /// The node with this key.
    #[must_use]
    pub fn node_of(&self, key: &PublicKey) -> Option<ReplicaId> {
        let place = self.nodes.iter().position(|node| node.transport_key == *key)?;
        Some(ReplicaId(place as u16))
    }

    /// The stakes, by id.
    #[must_use]
    pub fn stakes(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.stake).collect()
    }

    /// The text of the file that says this.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let Parameters { sample, quorum, early, decision } = self.parameters;
        let mut text = format!(
            "# What all nodes and wallets of this network agreed on. It must say the same everywhere;\n\
             # addresses alone may differ.\n\
             name = {:?}\n\
             # Random: tells it from any other of the same name.\n\
             seed = \"{}\"\n\n\
             # Sample k units of stake; alpha of them make a poll successful; beta1 successful polls\n\
             # in a row accept what has no conflict, beta2 anything.\n\
             k = {sample}\nalpha = {quorum}\nbeta1 = {early}\nbeta2 = {decision}\n",
            self.name,
            digits(&self.seed),
        );
        // Writing to a string does not fail.
        for (_, output) in self.genesis.outputs() {
            let Output { to, amount } = output;
            let _ = write!(text, "\n[[genesis]]\naddress = \"{to}\"\namount = {amount}\n");
        }
        for node in &self.nodes {
            let _ = write!(
                text,
                "\n[[nodes]]\ntransport_key = \"{}\"\npeer_address = {:?}\nclient_address = {:?}\n\
                 http_address = {:?}\nstake = {}\n",
                digits(&node.transport_key.0),
                node.peer_address,
                node.client_address,
                node.http_address,
                node.stake,
            );
        }
        text
    }
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8);
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<_>>>()?;
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}

/// A digest as people write it, read back.
#[must_use]
pub fn read_digest(text: &str) -> Option<Digest> {
    hex(text).map(Digest)
}

fn digits(bytes: &[u8; 32]) -> String {
    Digest(*bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        let node = |id: u8| Node {
            transport_key: PublicKey([id; 32]),
            peer_address: format!("127.0.0.1:{id}"),
            client_address: "localhost:2".to_owned(),
            http_address: "localhost:3".to_owned(),
            stake: 1,
        };
        let to = Address([7; 32]);
        Network {
            name: "n \"1\"".to_owned(),
            seed: [5; 32],
            parameters: Parameters { sample: 1, quorum: 1, early: 2, decision: 3 },
            genesis: Genesis::new(vec![Output { to, amount: 9 }]).unwrap(),
            nodes: vec![node(1), node(2)],
        }
    }

    #[test]
    fn what_is_written_is_read_and_has_the_same_identity() {
        let read = Network::parse(&network().to_toml()).unwrap();
        assert_eq!(read.to_toml(), network().to_toml());
        assert_eq!(read.chain(), network().chain());
        assert_eq!(read.node_of(&PublicKey([2; 32])), Some(ReplicaId(1)));
    }

    #[test]
    fn a_wrong_file_is_told_what_is_wrong() {
        let text = network().to_toml();
        for (from, to, expected) in [
            ("k = 1", "k = 0", "k is 0"),
            ("beta1", "betal", "betal"),
            ("pay1", "pay1b", "no address has the character 'b'"),
            ("amount = 9", "amount = 0", "genesis output 0 is of nothing"),
            (&*"02".repeat(32), &*"01".repeat(32), "two nodes have one"),
            ("seed = \"", "seed = \"x", "64 hexadecimal digits"),
        ] {
            let (what, _) = Network::parse(&text.replace(from, to)).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
    }
}
