//! The home of a client, and where it finds the members of its cluster.

use clap::Args;
use quorate_node::client::Authenticity;
use quorate_node::client::succession::Following;
use quorate_node::config::{Cluster, Finding, Home, HostPort, Place};

use crate::arguments::HomeArgument;
use crate::failure::{Exit, Failure};

/// The home of a client, and where it finds the members of its cluster.
#[derive(Clone, Debug, Args)]
pub struct ClientHome {
    #[command(flatten)]
    home: HomeArgument,
    /// Where a member answers clients that is not in cluster.toml: it is asked who the members are
    /// by now, if those in cluster.toml may be gone. It is believed only what the members before
    /// have signed. Can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    member_at: Vec<HostPort>,
}

impl ClientHome {
    /// The home.
    pub fn home(&self) -> Home {
        self.home.home()
    }

    /// By what a client knows that an outcome is a replica's.
    pub fn authenticity(&self, cluster: &Cluster) -> Result<Authenticity, Failure> {
        let following = self.following(cluster)?.map(Authenticity::Members);
        Ok(following.unwrap_or_else(|| Authenticity::of(cluster)))
    }

    /// What following the members begins with, if they may change: with those who are members by
    /// now, where addresses were named.
    pub fn following(&self, cluster: &Cluster) -> Result<Option<Following>, Failure> {
        let following = Following::of(cluster);
        if self.member_at.is_empty() {
            return Ok(following);
        }
        let failed = |what: String, remedy: &str| {
            let place = Place::Flag("--member-at".to_owned());
            Failure::new(Exit::Failed, Finding { what, place, remedy: remedy.to_owned() })
        };
        let Some(following) = following else {
            let what = "the members of this cluster are fixed".to_owned();
            return Err(failed(what, "leave --member-at out: cluster.toml names all of them"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| failed(error.to_string(), "see the system's limits"))?;
        let mut chain = following.begin();
        let mut silent = Vec::new();
        for address in &self.member_at {
            if let Err(error) = runtime.block_on(chain.ask_at(address)) {
                silent.push(format!("{address} {error}"));
            }
        }
        if silent.len() == self.member_at.len() {
            let remedy = "name the client address of a member that runs, or of one that left";
            return Err(failed(silent.join("; "), remedy));
        }
        Ok(Some(chain.following()))
    }
}
