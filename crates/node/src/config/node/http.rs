//! The table `http`: who may read over HTTP.

use std::path::PathBuf;

use super::Node;
use crate::config::finding::Finding;
use crate::config::home::Home;
use crate::config::schema::{Field, Kind, Preset, Settings};

/// Who may read over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http {
    /// The certificate and its chain, PEM; none: answers are not encrypted.
    pub certificate: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
    /// The file with the token that readers show; none: nobody is asked who they are.
    pub token: Option<PathBuf>,
    /// Whether `/metrics` is read without the token.
    pub open_metrics: bool,
    /// Whether everybody who reaches the port may read.
    pub unprotected: bool,
}

pub(super) const CERTIFICATE: Field = Field {
    key: "http.certificate",
    kind: Kind::Path,
    preset: Preset::Absent,
    comment: "Answer HTTP over TLS with this certificate and its chain (PEM). Read again after\n\
              SIGHUP, as are key and token.",
};

pub(super) const KEY: Field = Field {
    key: "http.key",
    kind: Kind::Path,
    preset: Preset::Absent,
    comment: "The key of that certificate (PEM).",
};

pub(super) const TOKEN: Field = Field {
    key: "http.token",
    kind: Kind::Path,
    preset: Preset::Absent,
    comment: "Let those read who show the token in this file (mode 600, 16 characters at least), as\n\
              Authorization: Bearer TOKEN. /livez is open to all.",
};

pub(super) const OPEN_METRICS: Field = Field {
    key: "http.open_metrics",
    kind: Kind::Bool,
    preset: Preset::Is("false"),
    comment: "Answer /metrics without the token.",
};

pub(super) const UNPROTECTED: Field = Field {
    key: "http.unprotected",
    kind: Kind::Bool,
    preset: Preset::Is("false"),
    comment: "Listen beyond loopback without TLS and without a token: all who reach the port\n\
              read what the replica says, and what changes in a key-value store.",
};

impl Http {
    /// What settings without a gap say.
    pub(super) fn from_settings(settings: &Settings, home: &Home) -> Option<Self> {
        let path = |key| Some(home.resolve(&settings.path(key)?));
        Some(Self {
            certificate: path("http.certificate"),
            key: path("http.key"),
            token: path("http.token"),
            open_metrics: settings.bool("http.open_metrics")?,
            unprotected: settings.bool("http.unprotected")?,
        })
    }
}

/// A port that others reach is protected, or said not to be.
pub(super) fn check(
    node: &Node,
    settings: &Settings,
    findings: &mut Vec<Finding>,
    warnings: &mut Vec<Finding>,
) {
    let Http { certificate, key, token, .. } = &node.http;
    let (one, other) = (("http.certificate", certificate), ("http.key", key));
    for ((set, file), (missing, its)) in [(one, other), (other, one)] {
        if file.is_some() && its.is_none() {
            findings.push(Finding::new(
                format!("`{set}` is set, and `{missing}` is not"),
                settings.source(set),
                format!("set `{missing}` as well, or leave both out"),
            ));
        }
    }
    let address = &node.listen.http;
    if address.is_loopback() {
        return;
    }
    let (has_tls, has_token) = (certificate.is_some(), token.is_some());
    let (what, remedy) = match (has_tls, has_token) {
        (true, true) => return,
        (true, false) => ("nobody is asked who they are", "set http.token"),
        (false, true) => (
            "the token is not encrypted on its way",
            "set http.certificate and http.key, or see that nobody listens on the way",
        ),
        (false, false) => (
            "everybody may read status and metrics, and watch what changes",
            "use 127.0.0.1, set http.certificate, http.key and http.token, or say so: \
             http.unprotected = true",
        ),
    };
    let what = format!("`listen.http` is \"{address}\": {what}");
    let finding = Finding::new(what, settings.source("listen.http"), remedy);
    match has_tls || has_token || node.http.unprotected {
        true => warnings.push(finding),
        false => findings.push(finding),
    }
}
