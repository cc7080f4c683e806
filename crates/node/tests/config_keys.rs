//! Keys of every scheme: that a testnet's hold, and what people read when one does not.

use std::collections::BTreeSet;

use quorate_crypto::bls::threshold;
use quorate_crypto::{ConsensusKey, key_file};
use quorate_node::config::{
    Choices, Cluster, Home, Loaded, Overrides, SchemeName, load, load_cluster,
};
use quorate_node::testnet::{self, Options, Testnet};
use tempfile::TempDir;

struct World {
    folder: TempDir,
    made: Testnet,
}

/// Replicas whose scheme is this.
fn world(signatures: SchemeName, replicas: usize) -> World {
    let folder = tempfile::tempdir().unwrap();
    let combination = Choices { signatures: Some(signatures), ..Choices::default() }.among(4);
    let options = Options { combination, laboratory: true, ..Options::default() };
    let made = testnet::init(folder.path(), replicas, &options).unwrap();
    World { folder, made }
}

impl World {
    fn home(&self, id: usize) -> &Home {
        &self.made.replicas[id]
    }

    fn loaded(&self, id: usize) -> Loaded {
        load(self.home(id), &Overrides::default()).unwrap()
    }

    /// What a client reads of this cluster, the temporary folder's name taken out.
    fn error(&self, cluster: &Cluster) -> String {
        let file = self.made.client.cluster_file();
        std::fs::write(&file, cluster.to_toml()).unwrap();
        let error = load_cluster(&file).unwrap_err().to_string();
        self.clean(&error)
    }

    fn clean(&self, text: &str) -> String {
        text.replace(&self.folder.path().display().to_string(), "NET")
    }

    /// Expects exactly this finding of this cluster, at the line that holds such a text.
    fn expect(&self, cluster: &Cluster, what: &str, at: &str, remedy: &str) {
        let text = cluster.to_toml();
        let line = 1 + text.lines().position(|line| line.contains(at)).unwrap();
        let place = format!("NET/client/config/cluster.toml, line {line}");
        let expected = format!("{what}\n  where:  {place}\n  remedy: {remedy}");
        assert_eq!(self.error(cluster), expected);
    }
}

fn key(bytes: &[u8]) -> quorate_core::base::membership::ReplicaKey {
    quorate_core::base::membership::ReplicaKey::new(bytes).unwrap()
}

#[test]
fn a_testnet_of_every_scheme_loads_and_opens_its_keys() {
    for signatures in SchemeName::ALL {
        let world = world(signatures, 4);
        let cluster = &world.made.cluster;
        assert_eq!(cluster.signatures, signatures);
        assert_eq!(cluster.group_key.is_some(), signatures == SchemeName::BlsThreshold);
        assert_eq!(cluster.scheme().unwrap().name(), signatures);
        for (id, member) in cluster.members.iter().enumerate() {
            let loaded = world.loaded(id);
            assert_eq!(loaded.cluster, *cluster);
            let keys = loaded.open_keys().unwrap();
            assert_eq!(keys.consensus.scheme(), signatures);
            assert_eq!(keys.consensus.public_key(), member.consensus_key.as_bytes());
            assert_eq!(member.consensus_key.as_bytes().len(), signatures.public_key_bytes());
            assert_eq!(member.proof_of_possession, keys.consensus.proof_of_possession());
            assert_eq!(member.proof_of_possession.is_some(), signatures == SchemeName::Bls);
        }
        let keys = cluster.members.iter().map(|member| &member.consensus_key);
        assert_eq!(keys.collect::<BTreeSet<_>>().len(), 4);
    }
}

/// Of every size, q of the shares belong to the group key.
#[test]
fn shares_are_dealt_for_the_quorum_of_the_committee() {
    for replicas in [1, 2, 3, 4, 5, 6, 7, 10, 22] {
        let secrets = testnet::keys::generate(SchemeName::BlsThreshold, replicas).unwrap();
        assert_eq!(secrets.quorum, quorate_core::base::membership::quorum(replicas));
        assert_eq!(secrets.replicas.len(), replicas);
        let keys: Vec<_> = secrets.replicas.iter().map(ConsensusKey::public_key).collect();
        let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
        let key = &secrets.group_key.unwrap();
        let group = quorate_crypto::committee_keys::GroupKey { key, quorum: secrets.quorum };
        assert!(threshold::Committee::read(&keys, group).is_ok(), "{replicas}");
    }
    for replicas in [0, 257, usize::MAX] {
        for scheme in [SchemeName::BlsThreshold, SchemeName::Ed25519] {
            let error = testnet::keys::generate(scheme, replicas).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("a committee has 1 to 256 replicas, not {replicas}")
            );
        }
    }
}

#[test]
fn a_key_of_another_replica_is_refused_whatever_the_scheme() {
    for signatures in SchemeName::ALL {
        let world = world(signatures, 4);
        let loaded = world.loaded(1);
        std::fs::copy(
            world.home(3).config_folder().join("consensus.key"),
            &loaded.node.keys.consensus,
        )
        .unwrap();
        let members = &world.made.cluster.members;
        let error = world.clean(&loaded.open_keys().unwrap_err().to_string());
        let expected = format!(
            "the key in NET/replica-1/config/consensus.key is {}, but `consensus_key` of replica 1 \
             is {}\n",
            members[3].consensus_key, members[1].consensus_key
        );
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_key_file_of_another_scheme_is_refused_and_both_are_named() {
    let world = world(SchemeName::Bls, 4);
    let loaded = world.loaded(0);
    let file = &loaded.node.keys.consensus;
    std::fs::remove_file(file).unwrap();
    key_file::write_consensus(file, &ConsensusKey::generate(SchemeName::EcdsaP256).unwrap())
        .unwrap();
    std::fs::remove_file(&loaded.node.keys.transport).unwrap();
    std::fs::copy(file, &loaded.node.keys.transport).unwrap();
    let text = std::fs::read_to_string(world.home(0).node_file()).unwrap();
    let line = |key: &str| 1 + text.lines().position(|line| line.starts_with(key)).unwrap();
    let (consensus, transport) = (line("consensus = "), line("transport = "));
    let expected = format!(
        "key file NET/replica-0/config/consensus.key holds a key of \"ecdsa-p256\", where one of \
         \"bls12-381\" is expected\n  \
         where:  NET/replica-0/config/node.toml, line {consensus}\n  \
         remedy: restore it, or correct `keys.consensus`, or `signatures` in cluster.toml\n\
         key file NET/replica-0/config/transport.key holds a key of \"ecdsa-p256\", where one of \
         \"ed25519\" is expected\n  \
         where:  NET/replica-0/config/node.toml, line {transport}\n  \
         remedy: restore it, or correct `keys.transport`"
    );
    assert_eq!(world.clean(&loaded.open_keys().unwrap_err().to_string()), expected);
}

/// Bytes of the right length that are no point of the curve.
#[test]
fn a_key_that_is_none_is_refused() {
    for (signatures, none) in [
        // y = 2, and coordinates that are no number below the field's modulus.
        (SchemeName::Ed25519, [vec![2], vec![0; 31]].concat()),
        (SchemeName::EcdsaSecp256k1, [vec![2], vec![255; 32]].concat()),
        (SchemeName::EcdsaP256, [vec![3], vec![255; 32]].concat()),
        (SchemeName::Bls, [vec![0x9f], vec![255; 95]].concat()),
    ] {
        let world = world(signatures, 4);
        let mut cluster = world.made.cluster.clone();
        cluster.members[2].consensus_key = key(&none);
        world.expect(
            &cluster,
            "`consensus_key` of replica 2 is no point of the scheme's curve",
            &cluster.members[2].consensus_key.to_string(),
            &format!(
                "copy it again from what `quorate keygen --signatures {signatures}` printed, or \
                 make another"
            ),
        );
    }
}

/// The point at infinity: whoever has this key can be signed for by all.
#[test]
fn a_key_for_which_anybody_signs_is_refused() {
    let world = world(SchemeName::BlsThreshold, 4);
    let infinity = [vec![0xc0], vec![0; 95]].concat();
    let mut cluster = world.made.cluster.clone();
    cluster.members[0].consensus_key = key(&infinity);
    let remedy = "copy it again from what the dealer printed (`quorate keygen --threshold`)";
    world.expect(
        &cluster,
        "`consensus_key` of replica 0 is the point at infinity, for which anybody can sign",
        "consensus_key = \"c000",
        remedy,
    );
    let mut cluster = world.made.cluster.clone();
    cluster.group_key = Some(infinity.try_into().unwrap());
    world.expect(
        &cluster,
        "`group_key` is the point at infinity, for which anybody can sign",
        "group_key = \"c000",
        remedy,
    );
}

/// A proof holds for one key alone: else a key made up of the others' would pass.
#[test]
fn a_proof_of_another_key_is_refused() {
    let world = world(SchemeName::Bls, 4);
    let mut cluster = world.made.cluster.clone();
    cluster.members[3].proof_of_possession = cluster.members[1].proof_of_possession;
    let proof = cluster.members[3].proof_of_possession.unwrap();
    let proof: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = cluster.to_toml();
    let at = text.lines().enumerate().filter(|(_, line)| line.contains(&proof));
    let line = 1 + at.last().unwrap().0;
    assert_eq!(
        world.error(&cluster),
        format!(
            "`proof_of_possession` of replica 3 does not hold for its `consensus_key`\n  \
             where:  NET/client/config/cluster.toml, line {line}\n  \
             remedy: copy both again from what `quorate keygen --signatures bls12-381` printed"
        )
    );
}

#[test]
fn a_share_of_another_deal_is_named() {
    let world = world(SchemeName::BlsThreshold, 7);
    let other = testnet::keys::generate(SchemeName::BlsThreshold, 7).unwrap();
    let mut cluster = world.made.cluster.clone();
    cluster.members[5].consensus_key = key(&other.replicas[5].public_key());
    world.expect(
        &cluster,
        "`consensus_key` of replica 5 was not dealt together with the others",
        &cluster.members[5].consensus_key.to_string(),
        "copy it again from what the dealer printed (`quorate keygen --threshold`), and see that the \
         replicas are in its order",
    );
    let mut cluster = world.made.cluster.clone();
    cluster.group_key = other.group_key;
    world.expect(
        &cluster,
        "`group_key` was not dealt together with the replicas' keys",
        "group_key = \"",
        "copy it again from what the dealer printed (`quorate keygen --threshold`)",
    );
}

#[test]
fn shares_out_of_order_or_for_another_size_are_refused() {
    let world = world(SchemeName::BlsThreshold, 4);
    let whole = |cluster: &Cluster, what: &str, remedy: &str| {
        let place = "NET/client/config/cluster.toml";
        let expected = format!("{what}\n  where:  {place}\n  remedy: {remedy}");
        assert_eq!(world.error(cluster), expected);
    };
    let mixed = "the keys of the replicas were not dealt together, or not for so many replicas";
    let again = "copy all of them again from one run of the dealer, in its order, or deal again";
    let mut swapped = world.made.cluster.clone();
    let first = swapped.members[0].consensus_key.clone();
    swapped.members[0].consensus_key = swapped.members[3].consensus_key.clone();
    swapped.members[3].consensus_key = first;
    whole(&swapped, mixed, again);

    let deal_for = |quorum: usize| {
        let deal = threshold::deal(4, quorum).unwrap();
        let mut cluster = world.made.cluster.clone();
        cluster.group_key = Some(deal.group);
        for (member, share) in cluster.members.iter_mut().zip(deal.shares) {
            member.consensus_key = key(&ConsensusKey::dealt(share).public_key());
        }
        cluster
    };
    whole(&deal_for(4), mixed, again);
    whole(
        &deal_for(2),
        "the keys were dealt so that fewer than a quorum sign for all",
        "deal again for this number of replicas: `quorate keygen --threshold`",
    );
    let cluster = deal_for(3);
    std::fs::write(world.made.client.cluster_file(), cluster.to_toml()).unwrap();
    assert_eq!(load_cluster(&world.made.client.cluster_file()).unwrap().0, cluster);
}
