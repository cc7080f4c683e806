//! How clients' frames reach the replicas that do not have them.

use crate::config::choice::DisseminationName;
use crate::config::schema::{Field, Kind, Preset};

pub(super) const DISSEMINATION: Field = Field {
    key: "dissemination",
    kind: Kind::Choice(DisseminationName::NAMES),
    preset: Preset::Is("direct"),
    comment: "How clients' frames reach the replicas that do not have them. \"direct\": small ones with the\n\
              proposal, others when they are asked for. \"ahead\": a leader proposes what a client sent\n\
              to one replica once a quorum holds it, and sends none of it. That suits large values on\n\
              narrow links. Replicas may differ.",
};
