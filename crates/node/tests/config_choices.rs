//! What people read when choices of a configuration do not go together: the whole text.

use quorate_node::config::{
    AuthenticationName, Cluster, Combination, ConfigError, FlagSetting, Home, LeaderName,
    LivenessName, Overrides, PacemakerName, Place, ProtocolName, SamplingName, SchemeName,
    VoteRoute, combination, load,
};
use quorate_node::testnet::{self, Options, TestnetError};
use tempfile::TempDir;

/// Where no option of another protocol is set.
const CHAINED: Combination = Combination {
    protocol: ProtocolName::HotstuffChained,
    votes: VoteRoute::NextLeader,
    second_vote: false,
    pacemaker: PacemakerName::TimeoutCertificates,
    leader: LeaderName::RoundRobin,
    signatures: SchemeName::Ed25519,
    authentication: AuthenticationName::Signatures,
};

struct World {
    folder: TempDir,
    home: Home,
    cluster: Cluster,
}

/// Four replicas; the home is replica 1's.
fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let chained = Options { combination: CHAINED, ..Options::default() };
    let made = testnet::init(folder.path(), 4, &chained).unwrap();
    World { home: made.replicas[1].clone(), cluster: made.cluster, folder }
}

impl World {
    /// Replaces the one line of the cluster file that begins with the first word of `line`.
    fn set(&self, line: &str) {
        let key = line.split(' ').next().unwrap();
        let (active, comment) = (format!("{key} ="), format!("# {key} ="));
        let mut found = 0;
        self.edit(|old| {
            if old.starts_with(&active) || *old == comment {
                found += 1;
                return line.to_owned();
            }
            old.to_owned()
        });
        assert_eq!(found, 1, "{key}");
    }

    fn edit(&self, mut change: impl FnMut(&str) -> String) {
        let file = self.home.cluster_file();
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<_> = text.lines().map(&mut change).collect();
        std::fs::write(&file, lines.join("\n")).unwrap();
    }

    /// The number of the first line that begins so.
    fn line(&self, beginning: &str) -> usize {
        let text = std::fs::read_to_string(self.home.cluster_file()).unwrap();
        1 + text.lines().position(|line| line.starts_with(beginning)).unwrap()
    }

    fn load(&self, settings: &[(&str, &str)]) -> Result<(), ConfigError> {
        let flag = |(key, value): &(&str, &str)| FlagSetting {
            flag: "--set".into(),
            key: (*key).into(),
            value: (*value).into(),
        };
        let flags = settings.iter().map(flag).collect();
        load(&self.home, &Overrides { flags, environment: Vec::new() }).map(|_| ())
    }

    fn error_with(&self, settings: &[(&str, &str)]) -> String {
        let error = self.load(settings).unwrap_err().to_string();
        error.replace(&self.folder.path().display().to_string(), "NET")
    }

    /// Expects exactly this finding, at the line of the cluster file that begins so.
    fn expect(&self, what: &str, at: &str, remedy: &str) {
        let line = self.line(at);
        let place = format!("NET/replica-1/config/cluster.toml, line {line}");
        let expected = format!("{what}\n  where:  {place}\n  remedy: {remedy}");
        assert_eq!(self.error_with(&[]), expected);
    }
}

/// What `testnet init` says to such options: the finding's text and remedy are those of loading.
fn refused(options: &Options) -> (String, String, Place) {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("net");
    let error = testnet::init(&net, 4, options).unwrap_err();
    let TestnetError::Refused(finding) = error else { panic!("{error}") };
    assert!(!net.exists());
    (finding.what, finding.remedy, finding.place)
}

fn expect_refused(combination: Combination, what: &str, flag: &str, remedy: &str) {
    let options = Options { combination, ..Options::default() };
    let expected = (what.to_owned(), remedy.to_owned(), Place::Flag(flag.to_owned()));
    assert_eq!(refused(&options), expected);
    assert_eq!(combination.refusal(), Some(what));
}

#[test]
fn broadcast_votes_belong_to_the_two_chain() {
    let what = "`votes = \"broadcast\"` is an option of `protocol = \"hotstuff-two-chain\"`: in the \
                others the next leader alone makes certificates";
    let remedy = "set protocol = \"hotstuff-two-chain\", or leave out votes";
    for &protocol in Combination::protocols() {
        let votes = VoteRoute::Broadcast;
        let choice = Combination { protocol, votes, ..CHAINED };
        let world = world();
        world.set(&format!("protocol = \"{protocol}\""));
        world.set("votes = \"broadcast\"");
        if protocol == ProtocolName::HotstuffTwoChain {
            assert_eq!(choice.refusal(), None);
            world.load(&[]).unwrap();
        } else {
            world.expect(what, "votes = ", remedy);
            expect_refused(choice, what, "--votes", remedy);
        }
    }
}

#[test]
fn macs_belong_to_pbft() {
    let what = "`authentication = \"macs\"` and `\"macs-to-clients\"` are options of \
                `protocol = \"pbft\"`: the others put votes into certificates, which have to convince \
                replicas that the votes were not sent to, and a MAC convinces nobody but its receiver";
    let remedy = "set protocol = \"pbft\", or leave out authentication";
    for authentication in [AuthenticationName::Macs, AuthenticationName::MacsToClients] {
        for &protocol in Combination::protocols() {
            let choice = Combination { protocol, authentication, ..CHAINED };
            expect_refused(choice, what, "--authentication", remedy);
        }
        let choice =
            Combination { protocol: ProtocolName::Pbft, authentication, ..Combination::default() };
        assert_ne!(choice.refusal(), Some(what));
    }
    let world = world();
    world.set("authentication = \"macs\"");
    world.expect(what, "authentication = ", remedy);
    world.set("protocol = \"pbft\"");
    world.load(&[]).unwrap();
    world.set("authentication = \"mac\"");
    world.expect(
        "`authentication` is \"mac\"",
        "authentication = ",
        "expected one of \"signatures\", \"macs\", \"macs-to-clients\"",
    );
}

#[test]
fn second_votes_belong_to_the_two_chain() {
    let world = world();
    world.set("second_vote = true");
    let what = "`second_vote = true` is an option of `protocol = \"hotstuff-two-chain\"`: the others \
                have no rule for it";
    let remedy = "set protocol = \"hotstuff-two-chain\" and votes = \"broadcast\", or leave out \
                  second_vote";
    world.expect(what, "second_vote = ", remedy);
    let choice = Combination { second_vote: true, ..CHAINED };
    expect_refused(choice, what, "--second-vote", remedy);
}

#[test]
fn second_votes_need_broadcast_votes() {
    let world = world();
    world.set("protocol = \"hotstuff-two-chain\"");
    world.set("second_vote = true");
    let what = "`second_vote = true` needs `votes = \"broadcast\"`: without it the next leader alone \
                holds the certificate that the second vote is for";
    let remedy = "set votes = \"broadcast\", or leave out second_vote";
    world.expect(what, "second_vote = ", remedy);
    let protocol = ProtocolName::HotstuffTwoChain;
    let choice = Combination { protocol, second_vote: true, ..CHAINED };
    expect_refused(choice, what, "--second-vote", remedy);
    world.set("votes = \"broadcast\"");
    world.load(&[]).unwrap();
}

#[test]
fn leaders_of_signers_need_certificates_that_name_them() {
    let what = "`leader = \"carousel\"` and `\"reputation\"` do not go with \
                `signatures = \"bls12-381-threshold\"`: they elect leaders from the signers of \
                certificates, and threshold certificates name none";
    let remedy = "set leader = \"round-robin\" or \"fixed\", or signatures = \"bls12-381\"";
    for leader in [LeaderName::Carousel, LeaderName::Reputation] {
        let world = world();
        world.set(&format!("leader = \"{leader}\""));
        world.load(&[]).unwrap();
        world.set("signatures = \"bls12-381-threshold\"");
        let line = world.line("leader = ");
        let place = format!("NET/replica-1/config/cluster.toml, line {line}");
        let expected = format!("{what}\n  where:  {place}\n  remedy: {remedy}\n");
        assert!(world.error_with(&[]).contains(&expected));
        let signatures = SchemeName::BlsThreshold;
        let choice = Combination { leader, signatures, ..CHAINED };
        expect_refused(choice, what, "--leader", remedy);
    }
}

#[test]
fn snowman_alone_samples() {
    let world = world();
    world.set("sampling = \"paper\"");
    let (what, remedy) = (
        "`sampling` is set, but `protocol` is \"hotstuff-chained\"",
        "set protocol = \"snowman\", or leave out sampling",
    );
    world.expect(what, "sampling = ", remedy);
    world.set("protocol = \"snowman\"");
    world.load(&[]).unwrap();

    let options =
        Options { combination: CHAINED, sampling: Some(SamplingName::Paper), ..Options::default() };
    let place = Place::Flag("--sampling".to_owned());
    assert_eq!(refused(&options), (what.to_owned(), remedy.to_owned(), place));
}

#[test]
fn pbft_alone_answers_tentatively() {
    let world = world();
    world.set("tentative = true");
    let (what, remedy) = (
        "`tentative` is true, but `protocol` is \"hotstuff-chained\"",
        "set protocol = \"pbft\", or leave out tentative",
    );
    world.expect(what, "tentative = ", remedy);
    world.set("tentative = false");
    world.load(&[]).unwrap();
    world.set("tentative = true");
    world.set("protocol = \"pbft\"");
    world.load(&[]).unwrap();

    let options = Options { combination: CHAINED, tentative: true, ..Options::default() };
    let place = Place::Flag("--tentative".to_owned());
    assert_eq!(refused(&options), (what.to_owned(), remedy.to_owned(), place));
}

#[test]
fn snowman_alone_falls_back_and_by_large_samples_or_all() {
    let world = world();
    world.set("liveness = \"frosty\"");
    let (what, remedy) = (
        "`liveness` is set, but `protocol` is \"hotstuff-chained\"",
        "set protocol = \"snowman\", or leave out liveness",
    );
    world.expect(what, "liveness = ", remedy);
    world.set("protocol = \"snowman\"");
    world.load(&[]).unwrap();

    let liveness = Some(LivenessName::Frosty);
    let place = || Place::Flag("--liveness".to_owned());
    let options = Options { combination: CHAINED, liveness, ..Options::default() };
    assert_eq!(refused(&options), (what.to_owned(), remedy.to_owned(), place()));

    // Twenty others are all. Of more a sample is asked, and then α matters.
    let snowman = Combination { protocol: ProtocolName::Snowman, ..CHAINED };
    let refusal = |sampling, replicas| {
        let named = combination::liveness_refusal(
            snowman.protocol,
            LivenessName::Frosty,
            sampling,
            replicas,
        );
        named.map(|(what, remedy)| format!("{what}; {remedy}"))
    };
    assert_eq!(refusal(SamplingName::LaterPractice, 21), None);
    assert_eq!(
        refusal(SamplingName::LaterPractice, 22).unwrap(),
        "`liveness` is \"frosty\", but with `sampling = \"later-practice\"` polls of 22 replicas \
         succeed with 15 of 20: the fallback counts on nine tenths; \
         set sampling = \"snowflake-plus\", or leave out liveness"
    );
    assert_eq!(refusal(SamplingName::Paper, 11), None);
    assert!(refusal(SamplingName::Paper, 12).is_some());
    assert_eq!(refusal(SamplingName::SnowflakePlus, 256), None);
}

#[test]
fn a_fixed_leader_is_one_of_the_replicas() {
    let world = world();
    world.set("fixed_leader = 0");
    world.expect(
        "`fixed_leader` is set, but `leader` is \"round-robin\"",
        "fixed_leader = ",
        "set leader = \"fixed\", or leave out fixed_leader",
    );
    world.set("leader = \"fixed\"");
    world.load(&[]).unwrap();
    world.set("fixed_leader = 3");
    world.load(&[]).unwrap();
    world.set("fixed_leader = 4");
    let (what, remedy) = (
        "`fixed_leader` is 4, but there are 4 replicas",
        "name one of the replicas; their ids begin at 0",
    );
    world.expect(what, "fixed_leader = ", remedy);

    let leader = LeaderName::Fixed;
    let combination = Combination { leader, ..CHAINED };
    let fixed_leader = Some(quorate_core::ReplicaId(4));
    let options = Options { combination, fixed_leader, ..Options::default() };
    let place = Place::Flag("--fixed-leader".to_owned());
    assert_eq!(refused(&options), (what.to_owned(), remedy.to_owned(), place.clone()));
    let options = Options { combination: CHAINED, ..options };
    assert_eq!(refused(&options).2, place);
}

#[test]
fn a_cluster_without_signatures_is_for_laboratories() {
    let world = world();
    world.set("signatures = \"none\"");
    let what = "`signatures` is \"none\", but `laboratory.enabled` is false in node.toml";
    let remedy =
        "choose a scheme that signs; or, where nothing is at stake, set laboratory.enabled = true";
    world.expect(what, "signatures = ", remedy);
    world.load(&[("laboratory.enabled", "true")]).unwrap();

    let signatures = SchemeName::None;
    let combination = Combination { signatures, ..CHAINED };
    let options = Options { combination, ..Options::default() };
    let (what, remedy, place) = refused(&options);
    assert_eq!(what, "`signatures` is \"none\", and this is not for the laboratory");
    assert_eq!(remedy, "choose a scheme that signs, or add --laboratory where nothing is at stake");
    assert_eq!(place, Place::Flag("--signatures".to_owned()));
}

#[test]
fn a_protocol_that_tolerates_no_fault_is_for_laboratories() {
    let world = world();
    world.set("protocol = \"laboratory-sequencer\"");
    let what =
        "`protocol` is \"laboratory-sequencer\", but `laboratory.enabled` is false in node.toml";
    let remedy = "choose a protocol that tolerates faults; or, where nothing is at stake, set \
                  laboratory.enabled = true";
    world.expect(what, "protocol = ", remedy);
    world.load(&[("laboratory.enabled", "true")]).unwrap();

    let protocol = ProtocolName::LaboratorySequencer;
    let combination = Combination { protocol, ..CHAINED };
    let options = Options { combination, ..Options::default() };
    let (what, _, place) = refused(&options);
    assert_eq!(what, "`protocol` is \"laboratory-sequencer\", and this is not for the laboratory");
    assert_eq!(place, Place::Flag("--protocol".to_owned()));
}

#[test]
fn a_protocol_that_is_an_experiment_is_for_laboratories() {
    let world = world();
    world.set("protocol = \"laboratory-two-delay\"");
    let what =
        "`protocol` is \"laboratory-two-delay\", but `laboratory.enabled` is false in node.toml";
    let remedy = "choose a protocol that is not an experiment; or, where nothing is at stake, set \
                  laboratory.enabled = true";
    world.expect(what, "protocol = ", remedy);
    world.load(&[("laboratory.enabled", "true")]).unwrap();
}

#[test]
fn laboratory_switches_do_nothing_by_accident() {
    let world = world();
    for (key, value, shown, preset) in [
        ("laboratory.filtering", "false", "false", "true"),
        ("laboratory.ancestors", "all", "\"all\"", "none"),
        ("laboratory.certificate_cache", "false", "false", "true"),
        ("laboratory.verify_votes", "one-by-one", "\"one-by-one\"", "at-quorum"),
        ("laboratory.retransmission", "false", "false", "true"),
        ("laboratory.adversary", "slow-leader", "\"slow-leader\"", "none"),
        ("laboratory.newest_version", "4", "4", "0"),
        ("laboratory.newest_rules", "2", "2", "0"),
        ("laboratory.accelerator.sign", "1ms", "\"1ms\"", "0s"),
        ("laboratory.accelerator.verify", "1ms", "\"1ms\"", "0s"),
        ("laboratory.accelerator.latency", "1ms", "\"1ms\"", "0s"),
    ] {
        assert_eq!(
            world.error_with(&[(key, value)]),
            format!(
                "`{key}` is {shown}, but `laboratory.enabled` is false\n  where:  flag --set\n  \
                 remedy: set it to {preset}; or, in an experiment, set laboratory.enabled = true"
            )
        );
        world.load(&[(key, preset)]).unwrap();
        world.load(&[(key, value), ("laboratory.enabled", "true")]).unwrap();
    }
}

#[test]
fn a_switch_is_true_or_false() {
    let world = world();
    world.set("second_vote = \"yes\"");
    world.expect("`second_vote` is \"yes\"", "second_vote = ", "expected true or false");
    world.set("second_vote = 1");
    world.expect("`second_vote` is 1", "second_vote = ", "expected true or false");
    world.set("second_vote = false");
    assert_eq!(
        world.error_with(&[("laboratory.filtering", "no")]),
        "`laboratory.filtering` is \"no\"\n  where:  flag --set\n  remedy: expected true or false"
    );
}

/// A leader of HotStuff-2 that waits longer than its view lasts would never lead after a bad one.
#[test]
fn a_leader_s_wait_fits_into_its_view() {
    let world = world();
    let long = [("view_timeout.delta", "300ms")];
    world.load(&long).unwrap();
    world.set("protocol = \"hotstuff-2\"");
    world.load(&[("view_timeout.delta", "299ms")]).unwrap();
    assert!(world.error_with(&long).starts_with(
        "`view_timeout.delta` is \"300ms\", and `view_timeout.base` is \"300ms\": the view of a \
         leader of hotstuff-2 that waits so long is over before it proposes\n"
    ));
    // The one that somebody set is to blame.
    std::fs::write(world.home.node_file(), "replica = 1\n").unwrap();
    let error = world.error_with(&[("view_timeout.base", "50ms")]);
    let expected =
        "where:  flag --set\n  remedy: make delta less than \"50ms\", or base more than \"50ms\"";
    assert!(error.ends_with(expected), "{error}");
}

/// Backups of PBFT would give up a correct primary that lets frames wait until a quorum holds them.
#[test]
fn frames_do_not_travel_ahead_with_pbft() {
    let world = world();
    let ahead = [("dissemination", "ahead")];
    world.load(&ahead).unwrap();
    world.set("protocol = \"pbft\"");
    world.load(&[]).unwrap();
    let error = world.error_with(&ahead);
    assert!(
        error.starts_with("`dissemination` is \"ahead\", and the protocol is \"pbft\""),
        "{error}"
    );
    assert!(error.ends_with("where:  flag --set\n  remedy: set it to \"direct\""), "{error}");
    world.set("protocol = \"hotstuff-chained\"");
    let error = world.error_with(&[ahead[0], ("view_timeout.kind", "adaptive")]);
    assert!(error.contains("views would be given up while their leaders wait"), "{error}");
}

#[test]
fn keys_have_the_length_of_their_scheme() {
    for (scheme, bytes) in [
        ("ecdsa-secp256k1", 33),
        ("ecdsa-p256", 33),
        ("bls12-381", 96),
        ("bls12-381-threshold", 96),
    ] {
        let world = world();
        world.set(&format!("signatures = \"{scheme}\""));
        let error = world.error_with(&[]);
        let line =
            world.line(&format!("consensus_key = \"{}", world.cluster.members[2].consensus_key));
        let maker = match scheme {
            "bls12-381-threshold" => "--threshold".to_owned(),
            scheme => format!("--signatures {scheme}"),
        };
        let expected = format!(
            "`consensus_key` of replica 2 has 32 bytes, but keys of \"{scheme}\" have {bytes}\n  \
             where:  NET/replica-1/config/cluster.toml, line {line}\n  \
             remedy: put the public key there that `quorate keygen {maker}` printed, or correct \
             `signatures`\n"
        );
        assert!(error.contains(&expected), "{error}");
    }
    let world = world();
    let key = world.cluster.members[2].consensus_key.to_string();
    world.edit(|line| line.replace(&key, &key[2..]));
    world.expect(
        &format!("`replicas.consensus_key` is \"{}…", &key[2..61]),
        &format!("consensus_key = \"{}", &key[2..]),
        "expected 64, 66 or 192 hexadecimal digits (32, 33 or 96 bytes)",
    );
}

#[test]
fn proofs_of_possession_come_and_go_with_aggregates() {
    let world = world();
    let keys: Vec<_> =
        world.cluster.members.iter().map(|member| member.consensus_key.to_string()).collect();
    world.set("signatures = \"bls12-381\"");
    world.edit(|line| {
        let replica = keys.iter().position(|key| line == format!("consensus_key = \"{key}\""));
        match replica {
            None => line.to_owned(),
            Some(1) => format!("consensus_key = \"{}\"", "61".repeat(96)),
            Some(n) => format!(
                "consensus_key = \"{}\"\nproof_of_possession = \"{}\"",
                format!("6{n}").repeat(96),
                "70".repeat(48)
            ),
        }
    });
    let head = world.line("id = 1") - 1;
    let missing = format!(
        "`proof_of_possession` of replica 1 is missing: `signatures = \"bls12-381\"` needs it\n  \
         where:  NET/replica-1/config/cluster.toml, line {head}\n  \
         remedy: add the one that `quorate keygen --signatures bls12-381` printed beside the public key"
    );
    assert_eq!(world.error_with(&[]), missing);
    world.set("signatures = \"ed25519\"");
    let error = world.error_with(&[]);
    assert!(
        error.contains(
            "`proof_of_possession` of replica 3 is set, but `signatures` is \"ed25519\"\n"
        ),
        "{error}"
    );
    assert!(error.contains("remedy: remove it, or set signatures = \"bls12-381\""), "{error}");
}

#[test]
fn the_group_key_comes_and_goes_with_thresholds() {
    let world = world();
    world.set(&format!("group_key = \"{}\"", "77".repeat(96)));
    world.expect(
        "`group_key` is set, but `signatures` is \"ed25519\"",
        "group_key = ",
        "remove it, or set signatures = \"bls12-381-threshold\"",
    );
    world.set("signatures = \"bls12-381-threshold\"");
    assert!(!world.error_with(&[]).contains("group_key"));
    world.edit(|line| match line.starts_with("group_key = ") {
        true => String::new(),
        false => line.to_owned(),
    });
    let missing = "`group_key` is missing: `signatures = \"bls12-381-threshold\"` needs it\n  \
                   where:  NET/replica-1/config/cluster.toml\n  \
                   remedy: add the one that `quorate keygen --threshold` printed";
    let error = world.error_with(&[]);
    assert!(error.ends_with(missing), "{error}");
}
