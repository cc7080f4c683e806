//! Checking a backup without asking anybody.
//!
//! A state is believed by the certificate in its offer, chunk by chunk. Blocks are believed by what
//! proves them ([`pull::verify_of`]), and each file has to continue the one below. Committees of
//! later epochs are believed because the one before each signed it: the handovers are kept beside
//! the state. All rests on the first committee, that is on the `cluster.toml` that the caller
//! compares with the backup's.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::client::decided::DecidedBlock;
use quorate_core::ledger::execution::{Execution, Restoring};
use quorate_core::{Committee, Digest, Epoch, Height};
use quorate_crypto::MembersScheme;

use super::BackupError;
use super::application::Application;
use super::folder::{Folder, Kind, Part, Tag};
use super::offered::{self, Offered};
use crate::client::pull::{self, Proof};
use crate::config::{self, Cluster};
use crate::family;

/// A backup whose files are of one chain.
pub struct Backup {
    /// The chain.
    pub cluster: Cluster,
    /// Its files, by their first heights.
    pub parts: Vec<Part>,
}

/// What a whole backup proves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many states there are.
    pub states: usize,
    /// How many blocks.
    pub blocks: u64,
    /// The heights that can be restored, from each first one to its last, ascending.
    pub heights: Vec<(Height, Height)>,
}

/// What leads to the state of a height: a state below it (`None`: the first of the chain), and
/// files of blocks above that.
pub struct Way<'a> {
    /// The state.
    pub state: Option<&'a Part>,
    /// The blocks.
    pub blocks: Vec<&'a Part>,
    /// The height.
    pub height: Height,
}

/// A state that was checked, before its chunks.
pub(super) struct Stated {
    pub offer: Bytes,
    pub offered: Offered,
}

/// Whether blocks of the cluster can be executed here: those of a service are by its own program.
pub(super) fn executes(cluster: &Cluster) -> bool {
    cluster.application != config::Application::Service
}

impl Verified {
    /// The heights of a further file can be restored; those of blocks only where they can be
    /// executed.
    pub(super) fn add(&mut self, part: &Part, executes: bool) {
        if part.kind == Kind::Blocks && !executes {
            return;
        }
        let from = match part.kind {
            Kind::State => part.head.first,
            Kind::Blocks => Height(part.head.first.0.saturating_sub(1)),
        };
        match self.heights.last_mut() {
            Some((_, last)) if from <= *last => *last = part.head.last.max(*last),
            _ => self.heights.push((from, part.head.last)),
        }
    }
}

impl Backup {
    /// Reads the heads of the files in a folder.
    ///
    /// # Errors
    /// [`BackupError`]: also if there are none.
    pub fn read(folder: &Folder) -> Result<Self, BackupError> {
        let parts = folder.parts()?;
        match folder.cluster(&parts)? {
            Some(cluster) => Ok(Self { cluster, parts }),
            None => {
                let remedy = "name the folder that `quorate backup create` wrote";
                Err(BackupError::refused("there is no backup in it", folder.path(), remedy))
            }
        }
    }

    /// Refuses a backup of another chain than `own`.
    ///
    /// # Errors
    /// [`BackupError::Refused`].
    pub fn check_chain(&self, own: &Cluster, folder: &Folder) -> Result<(), BackupError> {
        let (found, expected) = (self.cluster.chain_digest(), own.chain_digest());
        if found == expected {
            return Ok(());
        }
        let what = format!(
            "the backup is of the chain {} ({found}), not of {} ({expected})",
            self.cluster.chain, own.chain
        );
        Err(BackupError::refused(what, folder.path(), "name the backup, or the home, of the other"))
    }

    /// Where the next backup goes on: above the last block or state.
    #[must_use]
    pub fn end(&self) -> Option<(Height, Digest)> {
        let last = self.parts.iter().max_by_key(|part| part.head.last)?;
        Some((last.head.last, last.head.block))
    }

    /// What leads to the state of a height; without one, to the highest that can be had.
    ///
    /// # Errors
    /// [`BackupError::Refused`] if nothing does.
    pub fn way(&self, to: Option<Height>, folder: &Folder) -> Result<Way<'_>, BackupError> {
        let below = |height: Height| to.is_none_or(|to| height <= to);
        let fits = |part: &&Part| part.kind == Kind::State && below(part.head.first);
        let state = self.parts.iter().rfind(fits);
        let (mut height, mut blocks) = (state.map_or(Height(0), |part| part.head.last), Vec::new());
        while to.map_or_else(|| executes(&self.cluster), |to| height < to)
            && let Some(part) = self.blocks_above(height)
        {
            height = part.head.last;
            blocks.push(part);
        }
        match to {
            Some(to) if height < to => {
                let what = format!("it does not hold the state of height {to}");
                let remedy = "`quorate backup list` shows the heights that it holds";
                Err(BackupError::refused(what, folder.path(), remedy))
            }
            _ => Ok(Way { state, blocks, height: to.unwrap_or(height) }),
        }
    }

    fn blocks_above(&self, height: Height) -> Option<&Part> {
        let next = height.next();
        let holds = |part: &&Part| part.head.first <= next && next <= part.head.last;
        self.parts.iter().filter(|part| part.kind == Kind::Blocks).find(holds)
    }

    /// The committees that the backup proves, by epoch.
    pub(super) fn committees(&self) -> Result<BTreeMap<Epoch, Committee>, BackupError> {
        let mut follower = family::follower(&self.cluster);
        let mut committees = BTreeMap::new();
        let first = follower.committee().clone();
        committees.insert(first.epoch(), first);
        for part in self.parts.iter().filter(|part| part.kind == Kind::State) {
            part.items(|tag, item| {
                if tag == Tag::Handover {
                    // States of later epochs repeat the first ones, which are passed over.
                    follower.follow(item, &MembersScheme::default()).map_err(|error| {
                        BackupError::damaged(format!("it is not proven: {error}"), &part.path)
                    })?;
                    let next = follower.committee().clone();
                    committees.insert(next.epoch(), next);
                }
                Ok(())
            })?;
        }
        Ok(committees)
    }

    /// Checks everything. `note` is told of each file before it is read.
    ///
    /// # Errors
    /// [`BackupError`], which names the file.
    pub fn verify(&self, note: &mut dyn FnMut(&Part)) -> Result<Verified, BackupError> {
        let committees = self.committees()?;
        let mut proven = Verified::default();
        let mut below: Option<(Height, Digest)> = None;
        for part in &self.parts {
            note(part);
            match part.kind {
                Kind::State => {
                    self.state(part, &committees)?;
                    proven.states += 1;
                }
                Kind::Blocks => {
                    let decided = self.blocks(part, &committees)?;
                    proven.blocks += decided.len() as u64;
                }
            }
            self.check_link(part, below)?;
            proven.add(part, executes(&self.cluster));
            let end = (part.head.last, part.head.block);
            below = Some(below.map_or(end, |below| below.max(end)));
        }
        Ok(proven)
    }

    /// A file of blocks continues what is below it; a state may begin anew.
    fn check_link(&self, part: &Part, below: Option<(Height, Digest)>) -> Result<(), BackupError> {
        let is_first = part.kind == Kind::State || part.head.first == Height(1);
        let expected = below.filter(|(height, _)| height.next() == part.head.first);
        match expected {
            _ if is_first => Ok(()),
            Some((_, block)) if block == part.head.parent => Ok(()),
            Some(_) => {
                Err(BackupError::damaged("its blocks do not follow those below", &part.path))
            }
            None => {
                let what = format!("the blocks below height {} are missing", part.head.first);
                Err(BackupError::damaged(what, &part.path))
            }
        }
    }

    /// The offer of a state, if it is what the head says.
    pub(super) fn stated(
        &self,
        part: &Part,
        committees: &BTreeMap<Epoch, Committee>,
        mut chunk: impl FnMut(&Stated, Bytes) -> Result<(), BackupError>,
    ) -> Result<Stated, BackupError> {
        let mut stated = None;
        part.items(|tag, item| match (tag, &stated) {
            (Tag::Handover, None) => Ok(()),
            (Tag::Offer, None) => {
                let committee = |epoch| committees.get(&epoch).cloned();
                let offered = offered::check(&self.cluster, &committee, &item);
                let offered = offered.map_err(|error| {
                    BackupError::damaged(format!("its certificate: {error}"), &part.path)
                })?;
                let says = (part.head.epoch, part.head.first, part.head.block);
                if (offered.epoch, offered.height, offered.block) != says {
                    let what = "its certificate is of another state than its head says";
                    return Err(BackupError::damaged(what, &part.path));
                }
                stated = Some(Stated { offer: item, offered });
                Ok(())
            }
            (Tag::Chunk, Some(stated)) => chunk(stated, item),
            _ => Err(BackupError::damaged("an item in it is out of place", &part.path)),
        })?;
        stated.ok_or_else(|| BackupError::damaged("it has no certificate", &part.path))
    }

    /// The state of a file. Of a service, whose program is not at hand, all but its own part is
    /// checked.
    pub(super) fn state(
        &self,
        part: &Part,
        committees: &BTreeMap<Epoch, Committee>,
    ) -> Result<Execution<Application>, BackupError> {
        let (cluster, mut restoring) = (&self.cluster, None);
        let wrong = |error: &dyn std::fmt::Display| {
            BackupError::damaged(format!("it is not the certified state: {error}"), &part.path)
        };
        self.stated(part, committees, |Stated { offered, .. }, chunk| {
            let begun = restoring.get_or_insert_with(|| {
                Restoring::new(Application::first(cluster), cluster.sessions, offered.root)
                    .behind((offered.height, offered.block))
            });
            begun.take(chunk).map_err(|error| wrong(&error))
        })?;
        let restoring = restoring.ok_or_else(|| wrong(&"it has no chunk"))?;
        restoring.finish().map_err(|error| wrong(&error))
    }

    /// The blocks of a file, proven to be decided.
    pub(super) fn blocks(
        &self,
        part: &Part,
        committees: &BTreeMap<Epoch, Committee>,
    ) -> Result<Vec<DecidedBlock>, BackupError> {
        let wrong = |what: &dyn std::fmt::Display| {
            BackupError::damaged(format!("it is not proven: {what}"), &part.path)
        };
        let (mut blocks, mut proof) = (Vec::new(), Proof::default());
        part.items(|tag, item| {
            match tag {
                Tag::Block => blocks.push(item),
                Tag::Following => proof.blocks.push(item),
                Tag::Newest => proof.newest = Some(item),
                _ => return Err(BackupError::damaged("an item in it is out of place", &part.path)),
            }
            Ok(())
        })?;
        let head = &part.head;
        let committee = committees.get(&head.epoch);
        let committee = committee.ok_or_else(|| wrong(&"the committee of its epoch is unknown"))?;
        let proven = pull::verify_of(&self.cluster, committee, (head.first, &blocks), &proof);
        let mut proven = proven.map_err(|error| wrong(&error))?;
        if proven.len() < blocks.len() {
            return Err(wrong(&format!("{} blocks of it", blocks.len() - proven.len())));
        }
        proven.truncate(blocks.len());
        let ends = proven.first().zip(proven.last());
        let ends = ends.map(|(first, last)| (first.parent, last.height, last.id));
        if ends != Some((head.parent, head.last, head.block)) {
            return Err(wrong(&"its head says something else"));
        }
        Ok(proven)
    }

    /// The state of a height, checked.
    ///
    /// # Errors
    /// [`BackupError`].
    pub(super) fn execute(
        &self,
        way: &Way<'_>,
        folder: &Folder,
    ) -> Result<Execution<Application>, BackupError> {
        let committees = self.committees()?;
        let mut state = match way.state {
            Some(part) => self.state(part, &committees)?,
            None => self.first_state(folder)?,
        };
        if !way.blocks.is_empty() && !executes(&self.cluster) {
            let what = "blocks are executed by the service's own program, which is not at hand";
            let remedy = "name the height of a state with --height (`quorate backup list`)";
            return Err(BackupError::refused(what, folder.path(), remedy));
        }
        for part in &way.blocks {
            let blocks = self.blocks(part, &committees)?;
            let wanted =
                |block: &&DecidedBlock| block.height > state.height() && block.height <= way.height;
            let wanted: Vec<_> = blocks.iter().filter(wanted).collect();
            for block in wanted {
                if block.parent != state.block_id() {
                    let what = format!("the block at height {} does not follow", block.height);
                    return Err(BackupError::damaged(what, &part.path));
                }
                state
                    .execute(block.height, block.view, block.id, &block.frames)
                    .map_err(|error| BackupError::damaged(error, &part.path))?;
                if state.members().sealed().is_some() && block.height < way.height {
                    let what = format!("the epoch ends at height {}", block.height);
                    let remedy = "name that height with --height, or one of a later state";
                    return Err(BackupError::refused(what, folder.path(), remedy));
                }
            }
        }
        Ok(state)
    }

    /// The state that the chain begins with.
    fn first_state(&self, folder: &Folder) -> Result<Execution<Application>, BackupError> {
        if self.cluster.restored.is_some() {
            let what =
                "the state that this chain begins with is in the backup it was restored from";
            let remedy = "name a height from the first state of this backup on";
            return Err(BackupError::refused(what, folder.path(), remedy));
        }
        let odd = |error: &dyn std::fmt::Display| {
            BackupError::refused(error, folder.path(), "correct the cluster's configuration")
        };
        let committee = self.cluster.committee().map_err(|error| odd(&error))?;
        let genesis = offered::genesis(&self.cluster, &committee);
        let application = Application::first(&self.cluster);
        let first = Execution::new(application, self.cluster.sessions, genesis);
        let first = first.map_err(|error| odd(&error))?.governed_by(&committee);
        Ok(first.serving(Arc::clone(&self.cluster.clients)))
    }
}
