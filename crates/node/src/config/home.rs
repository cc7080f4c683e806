//! Where things lie in a home.

use std::path::{Path, PathBuf};

/// The folder of one replica, or of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The home at `root`. Nothing is read or made.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the configuration and the keys.
    #[must_use]
    pub fn config_folder(&self) -> PathBuf {
        self.root.join("config")
    }

    /// What all replicas agreed on.
    #[must_use]
    pub fn cluster_file(&self) -> PathBuf {
        self.config_folder().join("cluster.toml")
    }

    /// What a replica that was not among the first members is to others.
    #[must_use]
    pub fn member_file(&self) -> PathBuf {
        self.config_folder().join("member.toml")
    }

    /// What a replica is to others once it has its next key, of connections (`"transport"`) or of
    /// votes.
    #[must_use]
    pub fn next_file(&self, which: &str) -> PathBuf {
        let name = if which == "transport" { "next-transport-key.toml" } else { "next-key.toml" };
        self.config_folder().join(name)
    }

    /// The proposal that the owner joined, where owners began the cluster together.
    #[must_use]
    pub fn proposal_file(&self) -> PathBuf {
        self.config_folder().join("genesis-proposal.toml")
    }

    /// What the owner told the others of itself in that ceremony.
    #[must_use]
    pub fn owner_file(&self) -> PathBuf {
        self.config_folder().join("genesis-member.toml")
    }

    /// The key that others encrypted the owner's share to, where the consensus keys are shares of
    /// one.
    #[must_use]
    pub fn encryption_file(&self) -> PathBuf {
        self.config_folder().join("encryption.key")
    }

    /// What the owner dealt to the others.
    #[must_use]
    pub fn dealing_file(&self) -> PathBuf {
        self.config_folder().join("genesis-dealing.toml")
    }

    /// The owner's complaints about what others dealt.
    #[must_use]
    pub fn complaints_file(&self) -> PathBuf {
        self.config_folder().join("genesis-complaints.toml")
    }

    /// The owner's signature under the sealed cluster.
    #[must_use]
    pub fn signature_file(&self) -> PathBuf {
        self.config_folder().join("genesis-signature.toml")
    }

    /// The sealed cluster as the owner signed it.
    #[must_use]
    pub fn signed_file(&self) -> PathBuf {
        Self::signed_in(&self.config_folder())
    }

    pub(super) fn signed_in(folder: &Path) -> PathBuf {
        folder.join("genesis-signed.toml")
    }

    /// The signatures of all owners.
    #[must_use]
    pub fn signatures_file(&self) -> PathBuf {
        Self::signatures_in(&self.config_folder())
    }

    pub(super) fn signatures_in(folder: &Path) -> PathBuf {
        folder.join("genesis-signatures.toml")
    }

    /// The key of an administrator that the owner made in that ceremony.
    #[must_use]
    pub fn administrator_file(&self) -> PathBuf {
        self.config_folder().join("administrator.key")
    }

    /// This file is there while the replica's data folder is made. Until it goes, the replica does
    /// not start, and the next attempt makes the folder anew.
    #[must_use]
    pub fn beginning_file(&self) -> PathBuf {
        self.config_folder().join("beginning")
    }

    /// This process's own configuration.
    #[must_use]
    pub fn node_file(&self) -> PathBuf {
        self.config_folder().join("node.toml")
    }

    /// There once the replica's data folder was made.
    #[must_use]
    pub fn begun_file(&self) -> PathBuf {
        self.config_folder().join("begun")
    }

    /// A path as a configuration file gives it: relative ones start at the home.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }
}
