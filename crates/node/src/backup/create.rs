//! Taking a backup of a cluster that runs.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::client::decided::DecidedBlock;
use quorate_core::ledger::execution::{Restoring, SnapshotError};
use quorate_core::replica::message::MAX_BLOCKS_SENT;
use quorate_core::{Committee, Digest, Height, ReplicaId};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::BackupError;
use super::application::Application;
use super::folder::{Folder, Head, Kind, Tag, now};
use super::offered::{self, Offered};
use super::verify::{self, Backup};
use crate::client::ReplicaAddress;
use crate::client::pull::{Proof, PullError, Puller};
use crate::client::states::SnapshotSource;
use crate::client::succession::{Chain, Following, addresses};
use crate::client::verified::AskError;
use crate::config::Cluster;

/// A file of blocks is ended beyond so many bytes.
const FILE_BYTES: usize = 64 << 20;
/// An answer of fewer bytes of blocks, ...
const LITTLE_BYTES: usize = 256 << 10;
/// ... and fewer blocks, is all that a replica has by now.
const FEW_BLOCKS: usize = MAX_BLOCKS_SENT / 2;
/// So often a state may be replaced by a newer one before it is fetched. Replicas keep what they
/// have begun to send.
const MOST_REPLACED: u32 = 10;
/// How long a replica has to offer its newest state.
const OFFERED_WITHIN: Duration = Duration::from_secs(10);
/// How long the others have once one has offered a state that a quorum stands for.
const OTHERS_WITHIN: Duration = Duration::from_secs(1);
const SEE_TO_REPLICAS: &str = "see that the replicas run, and that cluster.toml is theirs";

/// What a backup added to its folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Created {
    /// The height of the state that was added, if one was.
    pub state: Option<Height>,
    /// How many blocks were added.
    pub blocks: u64,
    /// The highest height that can be restored now.
    pub last: Height,
    /// Bytes that were added.
    pub bytes: u64,
}

/// Whom to ask, and by whom what they say is proven.
struct Source<'a> {
    cluster: &'a Cluster,
    committee: Committee,
    /// How epochs ended up to that of the committee.
    handovers: Vec<Bytes>,
    replicas: Vec<(ReplicaId, ReplicaAddress)>,
}

/// Adds to the backup in a folder, which is made if need be, what `cluster` has decided since. With
/// `full`, a state is added in any case.
///
/// # Errors
/// [`BackupError`]. What was added before stays, and is whole.
pub async fn create(cluster: &Cluster, folder: &Path, full: bool) -> Result<Created, BackupError> {
    offered::check_protocol(cluster).map_err(|error| {
        let remedy = "stop all replicas, and copy their homes";
        BackupError::refused(error, folder, remedy)
    })?;
    let folder = Folder::write(folder)?;
    let (mut end, mut epoch) = (None, None);
    if !folder.parts()?.is_empty() {
        let backup = Backup::read(&folder)?;
        backup.check_chain(cluster, &folder)?;
        end = backup.end();
        epoch = backup.parts.iter().map(|part| part.head.epoch).max();
    }
    let source = Source::of(cluster, &folder).await?;
    let mut created = Created::default();
    // Blocks of an epoch are proven by its committee, and executed on a state of it.
    let is_other_epoch = epoch.unwrap_or(cluster.epoch) != source.committee.epoch();
    let executes = verify::executes(cluster);
    if full || end.is_none() || is_other_epoch || !executes {
        end = source.add_state(&folder, end, &mut created).await?.max(end);
    }
    if is_other_epoch && created.state.is_none() {
        return Err(source.no_state(&folder));
    }
    let added = source.add_blocks(&folder, end, None, &mut created).await;
    match added {
        // Nobody has the blocks any more.
        Err(Pulled::Gone) if created.state.is_none() => {
            let state = source.add_state(&folder, end, &mut created).await?;
            if created.state.is_none() {
                return Err(source.no_state(&folder));
            }
            let added = source.add_blocks(&folder, state.max(end), None, &mut created).await;
            added.map_err(|error| error.into_error(&folder))?;
        }
        added => added.map_err(|error| error.into_error(&folder))?,
    }
    if !executes {
        let states = Backup::read(&folder)?.parts.into_iter().filter(|it| it.kind == Kind::State);
        created.last = states.map(|part| part.head.last).max().unwrap_or_default();
    }
    Ok(created)
}

/// A state that a replica has, with the proof of it.
struct Offer {
    offered: Offered,
    /// As it came.
    bytes: Bytes,
    replica: ReplicaId,
    address: ReplicaAddress,
}

/// Why a state was not copied.
enum NotCopied {
    /// The replica has another one by now.
    Replaced(BackupError),
    /// Something else.
    Failed(BackupError),
}

impl NotCopied {
    fn is_replaced(&self) -> bool {
        matches!(self, Self::Replaced(_))
    }
}

impl From<BackupError> for NotCopied {
    fn from(error: BackupError) -> Self {
        Self::Failed(error)
    }
}

/// Why no blocks were added.
enum Pulled {
    /// No replica keeps them.
    Gone,
    /// No replica was of use.
    Nobody(Vec<PullError>),
    /// They cannot be written.
    Folder(BackupError),
}

impl From<BackupError> for Pulled {
    fn from(error: BackupError) -> Self {
        Self::Folder(error)
    }
}

impl Pulled {
    fn into_error(self, folder: &Folder) -> BackupError {
        match self {
            Self::Folder(error) => error,
            Self::Gone => {
                let what = "no replica keeps the blocks above its snapshot";
                BackupError::failed(what, folder.path(), "try again")
            }
            Self::Nobody(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                let what = format!("no replica sends blocks: {}", errors.join("; "));
                // Replicas that share a machine send blocks in what time others leave.
                let remedy = format!("{SEE_TO_REPLICAS}; if their machine is busy, try again");
                BackupError::failed(what, folder.path(), &remedy)
            }
        }
    }
}

impl<'a> Source<'a> {
    async fn of(cluster: &'a Cluster, folder: &Folder) -> Result<Self, BackupError> {
        let failed = |error: &dyn std::fmt::Display| {
            BackupError::failed(error, folder.path(), SEE_TO_REPLICAS)
        };
        let Some(following) = Following::of(cluster) else {
            let committee = cluster.committee().map_err(|error| failed(&error))?;
            let replicas = cluster.members.iter().map(|member| {
                let address = member.client_address.to_string();
                (member.id, ReplicaAddress { address, key: member.transport_key })
            });
            let replicas = replicas.collect();
            return Ok(Self { cluster, committee, handovers: Vec::new(), replicas });
        };
        let mut chain: Chain = following.begin();
        chain.catch_up().await.map_err(|error| failed(&error))?;
        let (committee, handovers) = (chain.committee().clone(), chain.handovers().to_vec());
        let replicas = addresses(&committee);
        Ok(Self { cluster, committee, handovers, replicas })
    }

    fn no_state(&self, folder: &Folder) -> BackupError {
        let what = "no replica has a snapshot that a quorum stands for";
        let remedy = "wait for the next one (`storage.snapshot_every` in node.toml), and try again";
        BackupError::failed(what, folder.path(), remedy)
    }

    /// Adds the newest state that a replica has, unless it is there already, and before it the
    /// blocks below, where the backup and the replicas have them: so no height is missing, and no
    /// file holds blocks both below and above a state. Returns the state's height and block; `None`
    /// if no replica has any.
    async fn add_state(
        &self,
        folder: &Folder,
        mut end: Option<(Height, Digest)>,
        created: &mut Created,
    ) -> Result<Option<(Height, Digest)>, BackupError> {
        let mut replaced = 0;
        loop {
            let offers = self.offers().await;
            match self.add_one_of(offers, folder, &mut end, created).await {
                // Whoever has no state now may have had blocks before.
                Ok(state) => return Ok(state.max(end)),
                Err(NotCopied::Replaced(_)) if replaced < MOST_REPLACED => replaced += 1,
                Err(NotCopied::Replaced(error) | NotCopied::Failed(error)) => return Err(error),
            }
        }
    }

    /// The newest states that replicas have, the highest first, and who has each. All are asked at
    /// the same time, and whoever is silent is not waited for once there is one: by the time that
    /// it is given up, the others have newer states, and no more those that they offered.
    async fn offers(&self) -> Vec<Offer> {
        let chain = self.committee.chain();
        let mut asking = JoinSet::new();
        for (replica, address) in self.replicas.iter().cloned() {
            asking.spawn(async move {
                let dialled = SnapshotSource::dial(replica, address.clone(), chain).await;
                let bytes = dialled.ok()?.offer().await.ok()?;
                Some((replica, address, bytes))
            });
        }
        let committee = |epoch| (epoch == self.committee.epoch()).then(|| self.committee.clone());
        let mut offers = Vec::new();
        let mut until = Instant::now() + OFFERED_WITHIN;
        while let Ok(Some(told)) = timeout_at(until, asking.join_next()).await {
            let Ok(Some((replica, address, bytes))) = told else { continue };
            // Whoever offers something else is behind, or lies.
            if let Ok(offered) = offered::check(self.cluster, &committee, &bytes) {
                offers.push(Offer { offered, bytes, replica, address });
                until = until.min(Instant::now() + OTHERS_WITHIN);
            }
        }
        offers.sort_by_key(|offer| (std::cmp::Reverse(offer.offered.height), offer.replica));
        offers
    }

    /// Not before it is asked: a connection that is not used ends after a while.
    async fn dial(
        &self,
        replica: ReplicaId,
        address: &ReplicaAddress,
    ) -> Result<SnapshotSource, AskError> {
        SnapshotSource::dial(replica, address.clone(), self.committee.chain()).await
    }

    /// Adds the first of these states that can be had.
    async fn add_one_of(
        &self,
        offers: Vec<Offer>,
        folder: &Folder,
        end: &mut Option<(Height, Digest)>,
        created: &mut Created,
    ) -> Result<Option<(Height, Digest)>, NotCopied> {
        let mut failed: Option<NotCopied> = None;
        for offer in offers {
            let Offered { height, block, .. } = offer.offered;
            let there = folder.path().join(format!("{:020}.{}", height.0, Kind::State.name()));
            if there.exists() {
                // A higher one that was replaced comes first.
                return failed
                    .filter(NotCopied::is_replaced)
                    .map_or(Ok(Some((height, block))), Err);
            }
            if end.is_some_and(|(end, _)| end < height) {
                match self.add_blocks(folder, *end, Some(height), created).await {
                    Err(Pulled::Folder(error)) => return Err(error.into()),
                    // Heights that nobody has any more are missing.
                    Ok(()) | Err(Pulled::Gone | Pulled::Nobody(_)) => {}
                }
                *end = Backup::read(folder)?.end();
            }
            match self.copy_state(folder, &offer).await {
                Ok(bytes) => {
                    created.state = Some(height);
                    created.bytes += bytes;
                    created.last = created.last.max(height).max(end.unwrap_or_default().0);
                    return Ok(Some((height, block)));
                }
                // One that was replaced may be had the next time, whoever else failed.
                Err(error) => {
                    failed = failed.filter(NotCopied::is_replaced).or(Some(error));
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Copies a state from a replica. Each chunk is checked when it comes.
    async fn copy_state(&self, folder: &Folder, offer: &Offer) -> Result<u64, NotCopied> {
        let Offer { offered, bytes: encoded, replica, address } = offer;
        let failed = |error: &dyn std::fmt::Display| {
            let what = format!("the state at height {} was not sent: {error}", offered.height);
            BackupError::failed(what, folder.path(), SEE_TO_REPLICAS)
        };
        let not_sent = |error: AskError| match error {
            AskError::Replaced => NotCopied::Replaced(failed(&error)),
            error => NotCopied::Failed(failed(&error)),
        };
        let mut source = self.dial(*replica, address).await.map_err(not_sent)?;
        let (height, block) = (offered.height, offered.block);
        let head = self.head((height, height), (Digest::default(), block));
        let mut writer = folder.begin(Kind::State, &head)?;
        for handover in &self.handovers {
            writer.add(Tag::Handover, handover)?;
        }
        writer.add(Tag::Offer, encoded)?;
        let application = Application::first(self.cluster);
        let restoring = Restoring::new(application, self.cluster.sessions, offered.root);
        let mut restoring = restoring.behind((height, block));
        let (mut number, mut last, mut bytes) = (0, false, 0);
        let limit_bytes = self.cluster.limits.max_snapshot_bytes;
        while !last {
            let (chunk, is_last) = source.chunk(height, number).await.map_err(not_sent)?;
            bytes += chunk.len() as u64;
            if bytes > limit_bytes {
                return Err(failed(&SnapshotError::TooLarge { limit_bytes }).into());
            }
            restoring.take(chunk.clone()).map_err(|error| failed(&error))?;
            writer.add(Tag::Chunk, &chunk)?;
            (number, last) = (number + 1, is_last);
        }
        restoring.finish().map_err(|error| failed(&error))?;
        Ok(writer.finish()?)
    }

    fn head(&self, (first, last): (Height, Height), (parent, block): (Digest, Digest)) -> Head {
        let (made_at, epoch) = (now(), self.committee.epoch());
        let cluster = self.cluster.to_toml();
        Head { made_at, epoch, first, last, parent, block, cluster }
    }

    /// Adds the blocks above `end` that replicas have by now, or those up to a height.
    async fn add_blocks(
        &self,
        folder: &Folder,
        end: Option<(Height, Digest)>,
        through: Option<Height>,
        created: &mut Created,
    ) -> Result<(), Pulled> {
        let (height, mut below) = end.unwrap_or((Height(0), self.genesis()));
        created.last = created.last.max(height);
        let puller =
            Puller::of(self.replicas.clone(), self.cluster, self.committee.clone(), height.next());
        let lacking =
            |error| BackupError::refused(error, folder.path(), "stop all replicas, and copy homes");
        let mut puller = puller.map_err(lacking)?;
        let (mut blocks, mut bytes) = (Vec::<DecidedBlock>::new(), 0);
        let (mut without_news, mut complaints) = (0, Vec::new());
        while without_news < self.replicas.len() {
            match puller.pull().await {
                Ok(more) => {
                    let new: usize = more.iter().map(|block| block.encoded.len()).sum();
                    if new < LITTLE_BYTES && more.len() < FEW_BLOCKS {
                        // There may be no end of news: each replica is asked for what it has.
                        without_news += 1;
                        if !more.is_empty() {
                            puller.ask_another();
                        }
                    }
                    if let Some(first) = more.first().filter(|_| blocks.is_empty())
                        && first.parent != below
                    {
                        let what = "the replicas' blocks do not follow those of the backup";
                        let remedy = "see that it is a backup of this cluster";
                        return Err(BackupError::failed(what, folder.path(), remedy).into());
                    }
                    blocks.extend(more);
                    bytes += new;
                    let beyond = |block: &DecidedBlock| through.is_some_and(|it| block.height > it);
                    if let Some(at) = blocks.iter().position(beyond) {
                        let above = blocks.split_off(at).into_iter().map(|block| block.encoded);
                        let mut proof = puller.proof();
                        proof.blocks.splice(..0, above);
                        self.write(folder, &blocks, &proof, created)?;
                        return Ok(());
                    }
                    if bytes >= FILE_BYTES {
                        below = self.write(folder, &blocks, &puller.proof(), created)?;
                        (blocks, bytes) = (Vec::new(), 0);
                    }
                }
                Err(error) => {
                    without_news += 1;
                    complaints.push(error);
                }
            }
        }
        if !blocks.is_empty() {
            self.write(folder, &blocks, &puller.proof(), created)?;
        }
        let gone = complaints.iter().filter_map(|error| match error {
            PullError::Gone { replica, .. } => Some(*replica),
            _ => None,
        });
        // One alone may lie, and there may be no news.
        let gone = self.committee.weight_of(gone) >= self.committee.honest_witness();
        match created.blocks {
            0 if gone => Err(Pulled::Gone),
            0 if complaints.len() >= self.replicas.len() => Err(Pulled::Nobody(complaints)),
            _ => Ok(()),
        }
    }

    fn genesis(&self) -> Digest {
        offered::genesis(self.cluster, &self.committee)
    }

    /// Writes a file of blocks. Returns the last one's id.
    fn write(
        &self,
        folder: &Folder,
        blocks: &[DecidedBlock],
        proof: &Proof,
        created: &mut Created,
    ) -> Result<Digest, BackupError> {
        let Some((first, last)) = blocks.first().zip(blocks.last()) else {
            return Ok(Digest::default());
        };
        let head = self.head((first.height, last.height), (first.parent, last.id));
        let mut writer = folder.begin(Kind::Blocks, &head)?;
        for block in blocks {
            writer.add(Tag::Block, &block.encoded)?;
        }
        for block in &proof.blocks {
            writer.add(Tag::Following, block)?;
        }
        if let Some(newest) = &proof.newest {
            writer.add(Tag::Newest, newest)?;
        }
        created.bytes += writer.finish()?;
        created.blocks += blocks.len() as u64;
        created.last = last.height;
        Ok(last.id)
    }
}
