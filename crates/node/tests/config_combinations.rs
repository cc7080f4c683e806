//! `docs/protocols/combinations.md` against the rules: its tables are what the code says. With
//! QUORATE_REGENERATE set, they are written anew instead.

use std::collections::BTreeSet;
use std::path::PathBuf;

use quorate_node::config::combination::{REFUSED, WARNED};
use quorate_node::config::{
    AuthenticationName, Choices, Combination, LeaderName, PacemakerName, ProtocolName, SchemeName,
    VoteRoute,
};

const BEGIN: &str = "<!-- generated from crates/node/src/config/combination.rs -->\n";
const END: &str = "<!-- end of the generated part -->\n";

fn allowed() -> Vec<Combination> {
    Combination::all().filter(|one| one.refusal().is_none()).collect()
}

/// "yes" if all of them work, "no" if none does.
fn verdict(of: impl Iterator<Item = Combination>) -> String {
    let all: Vec<_> = of.collect();
    match all.iter().filter(|one| one.refusal().is_none()).count() {
        0 => "no".to_owned(),
        count if count == all.len() => "yes".to_owned(),
        count => format!("{count} of {}", all.len()),
    }
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "))
}

fn head(cells: &[&str]) -> String {
    row(cells.iter().map(|cell| (*cell).to_owned())) + &row(cells.iter().map(|_| "---".to_owned()))
}

/// Voting, protocol by protocol, whatever the rest.
fn voting() -> String {
    let mut text =
        head(&["protocol", "votes to the next leader", "broadcast", "and a second vote"]);
    for &protocol in Combination::protocols() {
        let with = |votes, second_vote| {
            let one = Combination { protocol, votes, second_vote, ..Combination::default() };
            verdict(std::iter::once(one))
        };
        text += &row([
            format!("`{protocol}`"),
            with(VoteRoute::NextLeader, false),
            with(VoteRoute::Broadcast, false),
            with(VoteRoute::Broadcast, true),
        ]);
    }
    text
}

/// Pacemakers, protocol by protocol, with votes to the next leader.
fn pacemakers() -> String {
    let names: Vec<_> = PacemakerName::ALL.iter().map(|one| format!("`{one}`")).collect();
    let columns: Vec<_> = std::iter::once("protocol").chain(names.iter().map(|n| &**n)).collect();
    let mut text = head(&columns);
    for &protocol in Combination::protocols() {
        let of = |&pacemaker: &PacemakerName| {
            verdict(std::iter::once(
                Choices {
                    protocol: Some(protocol),
                    pacemaker: Some(pacemaker),
                    ..Choices::default()
                }
                .among(4),
            ))
        };
        let cells = PacemakerName::ALL.iter().map(of);
        text += &row(std::iter::once(format!("`{protocol}`")).chain(cells));
    }
    text
}

/// Leaders, scheme by scheme, with every protocol and pacemaker.
fn leaders() -> String {
    let names: Vec<_> = LeaderName::ALL.iter().map(|one| format!("`{one}`")).collect();
    let columns: Vec<_> = std::iter::once("signatures")
        .chain(names.iter().map(|n| &**n))
        .chain(["public key", "comes with"])
        .collect();
    let mut text = head(&columns);
    for signatures in SchemeName::ALL {
        let of = |&leader: &LeaderName| {
            verdict(Combination::all().filter(|one| {
                let usual = one.votes == VoteRoute::NextLeader && !one.second_vote;
                usual && one.leader == leader && one.signatures == signatures
            }))
        };
        let comes_with = match (signatures.needs_possession(), signatures.is_dealt()) {
            (true, _) => "`proof_of_possession`",
            (_, true) => "`group_key`",
            _ if signatures == SchemeName::None => "`laboratory.enabled` in node.toml",
            _ => "",
        };
        let cells = LeaderName::ALL.iter().map(of);
        let cells = std::iter::once(format!("`{signatures}`")).chain(cells);
        let bytes = format!("{} bytes", signatures.public_key_bytes());
        text += &row(cells.chain([bytes, comes_with.to_owned()]));
    }
    text
}

fn generated() -> String {
    let mut text = String::new();
    text += &format!(
        "## Voting\n\n{}\n## View changes\n\n{}\n## Leaders and signatures\n\n{}\n",
        voting(),
        pacemakers(),
        leaders()
    );
    let combinations = allowed();
    let usual = |one: &&Combination| one.votes == VoteRoute::NextLeader && !one.second_vote;
    text += &format!(
        "{} combinations of protocol, pacemaker, leader and signatures are allowed; {} if the options of \
         `hotstuff-two-chain` are\ncounted as well.\n\n## Refused, and why\n\n",
        combinations.iter().filter(usual).count(),
        combinations.len()
    );
    text += &head(&["refused", "instead"]);
    for rule in &REFUSED {
        text += &row([rule.reason.to_owned(), rule.remedy.to_owned()]);
    }
    text += "\n## Allowed, with a warning\n\n";
    text += &head(&["warning", "instead"]);
    for rule in &WARNED {
        text += &row([rule.reason.to_owned(), rule.remedy.to_owned()]);
    }
    text + "\n"
}

#[test]
fn the_documented_tables_are_the_rules() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join("docs/protocols/combinations.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    let expected = format!("\n{}", generated());
    if std::env::var_os("QUORATE_REGENERATE").is_some() {
        return std::fs::write(&file, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    }
    assert_eq!(written, expected, "QUORATE_REGENERATE=1 writes the tables anew");
}

#[test]
fn all_are_all_and_each_once() {
    let all: Vec<_> = Combination::all().collect();
    assert_eq!(all.len(), 6 * 2 * 2 * 2 * 4 * 6);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    assert!(all.contains(&Combination::default()));
}

/// The rules said once more, in other words: one long condition for what works.
#[test]
fn refused_is_exactly_what_cannot_work() {
    for one in Combination::all() {
        let two_chain = one.protocol == ProtocolName::HotstuffTwoChain;
        let voting = match (one.votes, one.second_vote) {
            (VoteRoute::NextLeader, false) => true,
            (VoteRoute::Broadcast, _) => two_chain,
            (VoteRoute::NextLeader, true) => false,
        };
        let signers_known = one.signatures != SchemeName::BlsThreshold;
        let electing = match one.leader {
            LeaderName::RoundRobin | LeaderName::Fixed => true,
            LeaderName::Carousel | LeaderName::Reputation => signers_known,
        };
        assert_eq!(one.refusal().is_none(), voting && electing, "{one:?}");
        assert_eq!(one.needs_laboratory(), one.signatures == SchemeName::None);
    }
}

/// Each rule is needed: without it something that cannot work would pass, or go unwarned.
#[test]
fn every_rule_stands_alone_somewhere() {
    for rule in &REFUSED {
        let authentication = AuthenticationName::Macs;
        let macs = Combination { authentication, ..Combination::default() };
        let alone = Combination::all()
            .chain([macs])
            .any(|one| one.refused().map(|rule| rule.reason).eq(std::iter::once(rule.reason)));
        assert!(alone, "{}", rule.reason);
    }
    let without_parts = |protocol| {
        let signatures = Some(SchemeName::Ed25519);
        Choices { protocol: Some(protocol), signatures, ..Choices::default() }.among(4)
    };
    let others = [
        ProtocolName::Pbft,
        ProtocolName::Snowman,
        ProtocolName::LaboratorySequencer,
        ProtocolName::LaboratoryTwoDelay,
    ];
    let others = others.map(without_parts);
    for rule in &WARNED {
        let alone = Combination::all()
            .chain(others)
            .any(|one| one.warned().map(|rule| rule.reason).eq(std::iter::once(rule.reason)));
        assert!(alone, "{}", rule.reason);
    }
}
