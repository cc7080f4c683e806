//! `quorate protocols`: what there is to choose from, by the constants the code runs by.

use quorate_core::protocols::hotstuff::rules::{self, Rules as _, SECOND_VOTE_DELAYS, TwoChain};
use quorate_core::protocols::{pbft, two_delay};
use quorate_node::config::combination::REFUSED;
use quorate_node::config::{LeaderName, PacemakerName, SchemeName};
use quorate_transport::TransportName;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// What a client adds to the delays at replicas: its request's way there, and the answers' way
/// back.
const CLIENT_DELAYS: u64 = 2;

/// Prints the protocols, and the parts that go with them.
pub fn run(format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => print(&as_table()),
        Format::Json => print_json(&as_json()),
    }
}

fn as_table() -> String {
    let head =
        ["protocol", "phases", "QCs", "delays", "at client", "view change", "needs", "source"];
    let mut rows: Vec<[String; 8]> = Vec::new();
    for rules in rules::ALL {
        let facts = rules.facts();
        let row = |name: String, phases: u8, delays: u64, needs: String| {
            [
                name,
                phases.to_string(),
                facts.certificates.to_string(),
                delays.to_string(),
                (delays + CLIENT_DELAYS).to_string(),
                facts.view_change.to_owned(),
                needs,
                facts.source.to_owned(),
            ]
        };
        let name = facts.name.to_owned();
        rows.push(row(name, facts.phases, facts.message_delays, facts.needs.to_owned()));
        if facts.number == TwoChain.facts().number {
            let needs = "votes = \"broadcast\"".to_owned();
            rows.push(row("  second_vote".to_owned(), 2, SECOND_VOTE_DELAYS, needs));
        }
    }
    rows.push([
        pbft::NAME.to_owned(),
        pbft::PHASES.to_string(),
        "0".to_owned(),
        pbft::MESSAGE_DELAYS.to_string(),
        (pbft::MESSAGE_DELAYS + CLIENT_DELAYS).to_string(),
        pbft::VIEW_CHANGE.to_owned(),
        String::new(),
        pbft::SOURCE.to_owned(),
    ]);
    rows.push([
        two_delay::NAME.to_owned(),
        two_delay::PHASES.to_string(),
        "1".to_owned(),
        two_delay::FAST_DELAYS.to_string(),
        (two_delay::FAST_DELAYS + CLIENT_DELAYS).to_string(),
        two_delay::VIEW_CHANGE.to_owned(),
        "laboratory.enabled; n - 1 votes".to_owned(),
        two_delay::SOURCE.to_owned(),
    ]);
    let mut text = table(head, &rows);
    text.push_str(
        "\nphases: kinds of votes in a view. QCs: certificates until a block is committed.\n\
         delays: one-way message delays from a proposal to its commit at every replica.\n\n",
    );
    for (part, names) in parts() {
        text.push_str(&format!("{part:<12}{}\n", names.join(", ")));
    }
    text.push_str("\nwhat does not go together:\n");
    for rule in &REFUSED {
        text.push_str(&format!("- {}\n", rule.reason));
    }
    text
}

fn parts() -> [(&'static str, Vec<&'static str>); 4] {
    [
        ("pacemaker", PacemakerName::NAMES.to_vec()),
        ("leader", LeaderName::NAMES.to_vec()),
        ("signatures", SchemeName::ALL.iter().map(|scheme| scheme.as_str()).collect()),
        ("transport", TransportName::NAMES.to_vec()),
    ]
}

fn as_json() -> serde_json::Value {
    let mut protocols: Vec<_> = rules::ALL
        .iter()
        .map(|rules| {
            let facts = rules.facts();
            json!({
                "name": facts.name,
                "phases": facts.phases,
                "certificates": facts.certificates,
                "chain_length": facts.chain_length,
                "message_delays": facts.message_delays,
                "client_delays": facts.message_delays + CLIENT_DELAYS,
                "view_change": facts.view_change,
                "needs": facts.needs,
                "source": facts.source,
            })
        })
        .collect();
    protocols.push(json!({
        "name": pbft::NAME,
        "phases": pbft::PHASES,
        "certificates": 0,
        "message_delays": pbft::MESSAGE_DELAYS,
        "client_delays": pbft::MESSAGE_DELAYS + CLIENT_DELAYS,
        "view_change": pbft::VIEW_CHANGE,
        "source": pbft::SOURCE,
    }));
    protocols.push(json!({
        "name": two_delay::NAME,
        "phases": two_delay::PHASES,
        "certificates": 1,
        "message_delays": two_delay::FAST_DELAYS,
        "client_delays": two_delay::FAST_DELAYS + CLIENT_DELAYS,
        "view_change": two_delay::VIEW_CHANGE,
        "needs": "laboratory.enabled; n - 1 votes",
        "source": two_delay::SOURCE,
    }));
    let refused: Vec<_> = REFUSED.iter().map(|rule| rule.reason).collect();
    let mut value = json!({
        "protocols": protocols,
        "second_vote_message_delays": SECOND_VOTE_DELAYS,
        "refused": refused,
    });
    for (part, names) in parts() {
        value[part] = json!(names);
    }
    value
}
