//! The change feed, followed: what committed blocks change, and no replica is believed.
//!
//! # What is believed
//! The [`Watcher`] asks one replica for the names of the lists from a height on, and the cluster
//! for a proof of the feed's head ([`VerifiedReader`]). Names that lead to a proven head are all
//! there are ([`feed`]); each list is held against its name. So a replica that adds, alters or
//! leaves out a change is found out before anything of it is handed out, and another one is asked.
//!
//! A replica can still be silent, or say that nothing has changed. So the watcher waits at another
//! replica when it has heard nothing for some seconds: at one of f + 1 in a row it is told.
//!
//! # What is promised
//! The changes of every block from the first height on, in order, each once. Nothing is promised
//! about how soon. If a watcher is so slow that no replica keeps the lists that it wants, it is
//! told so ([`WatchError::Gone`]): it then reads what it needs, and begins anew from the height
//! that it has read at.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use quorate_app::kv::feed::{
    self, Change, Found, Head, Link, Links, MAX_PAGE_BYTES, NotLinked, Page, Piece,
};
use quorate_core::base::wire::{Decode, DecodeError, Encode as _};
use quorate_core::client::message::{Request, Response};
use quorate_core::{Height, ReplicaId};
use quorate_transport::Connection;

use super::ReplicaAddress;
use super::pull::dial;
use super::succession::Following;
use super::verified::{AskError, DEFAULT_MAX_LAG_BLOCKS, ReadError, VerifiedReader};
use crate::config::Cluster;
use crate::family::Lacking;

/// How long a replica may take to answer: longer than it lets watchers wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Before another replica is asked because one was of no use.
const PAUSE: Duration = Duration::from_millis(50);
/// How often one is asked for the names up to a height that is proven, until it counts as behind.
const TRIES: usize = 20;

/// What a block changed, of what is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its height.
    pub height: Height,
    /// The changes, each with its place among all of the block, from 0.
    pub changes: Vec<(usize, Change)>,
}

/// Why a replica was of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It does not answer as it should.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It does not keep the lists.
    #[error("keeps no changes below height {0}")]
    Gone(Height),
    /// The names that it sent are not proven.
    #[error("is not believed: {0}")]
    NotLinked(#[from] NotLinked),
    /// A list is not the one that was named.
    #[error("is not believed: what it sends is not what the block at height {0} changed")]
    Forged(Height),
    /// It sends less than fits a page.
    #[error(
        "sends less of the changes from height {0} on than it could: it is behind, or plays for time"
    )]
    Part(Height),
    /// It does not know what is proven yet.
    #[error("is behind: it has executed blocks up to height {0}")]
    Behind(Height),
    /// It names changes of blocks that nobody proves.
    #[error("names changes at height {0}, which are not proven")]
    Ahead(Height),
    /// No replica proves the head.
    #[error("the head is not proven: {0}")]
    NoHead(ReadError),
}

/// Why there is nothing. What was handed out before stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// No replica keeps the changes from that height on.
    #[error(
        "the changes from height {from} on are not kept any more: the oldest that can be watched are \
         those at height {oldest}"
    )]
    Gone {
        /// What was wanted.
        from: Height,
        /// What some replica has.
        oldest: Height,
    },
    /// No replica was of use. It may be tried again.
    #[error("no replica shows what has changed{}", list(.0))]
    Unwatched(Vec<(ReplicaId, Trouble)>),
    /// The head is not proven, so that it is not known where to begin. It may be tried again.
    #[error(transparent)]
    NoHead(ReadError),
}

fn list(troubles: &[(ReplicaId, Trouble)]) -> String {
    troubles.iter().map(|(replica, trouble)| format!("; replica {replica} {trouble}")).collect()
}

/// Follows the changes of the keys with a prefix.
///
/// ```no_run
/// use quorate_core::Height;
/// use quorate_node::client::ReplicaAddress;
/// use quorate_node::client::watch::Watcher;
/// use quorate_node::config::load_cluster;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let (cluster, _) = load_cluster("client/config/cluster.toml".as_ref())?;
/// let replicas = cluster.members.iter().map(|member| ReplicaAddress {
///     address: member.client_address.to_string(),
///     key: member.transport_key,
/// });
/// let mut watcher = Watcher::new(replicas.collect(), &cluster, b"orders/", Some(Height(1)))?;
/// loop {
///     let block = watcher.next().await?;
///     println!("{}: {:?}", block.height, block.changes);
/// }
/// # }
/// ```
pub struct Watcher {
    reader: VerifiedReader,
    prefix: Vec<u8>,
    /// The first height of which nothing is proven; `None`: from the newest proven state on.
    from: Option<Height>,
    /// Lists that are named and proven, and not here yet.
    named: VecDeque<Link>,
    /// As much of the first of them as is here.
    part: Vec<u8>,
    /// What is to be handed out.
    ready: VecDeque<Block>,
    asked: u16,
    connection: Option<Connection>,
    /// Numbers the questions.
    id: u64,
}

impl Watcher {
    /// Watches the keys of `cluster` that begin with `prefix`, from a height on; from now on
    /// without one. `replicas` are in the order of their ids. Connects when it is asked for what is
    /// next.
    ///
    /// # Errors
    /// [`Lacking`] if the cluster's protocol proves nothing.
    pub fn new(
        replicas: Vec<ReplicaAddress>,
        cluster: &Cluster,
        prefix: &[u8],
        from: Option<Height>,
    ) -> Result<Self, Lacking> {
        Ok(Self {
            reader: VerifiedReader::new(replicas, cluster, 0)?,
            prefix: prefix.to_vec(),
            from: from.map(|from| from.max(Height(1))),
            named: VecDeque::new(),
            part: Vec::new(),
            ready: VecDeque::new(),
            asked: 0,
            connection: None,
            id: 0,
        })
    }

    /// The same, where members may change: it begins with those that `following` leads to.
    #[must_use]
    pub fn following(self, cluster: &Cluster, following: &Following) -> Self {
        Self { reader: self.reader.following(cluster, following), ..self }
    }

    /// The same, beginning with this replica.
    #[must_use]
    pub fn beginning_at(self, replica: ReplicaId) -> Self {
        Self { asked: replica.0, ..self }
    }

    /// The next block that changed something of what is watched: as long as it takes. The future
    /// may be dropped; the next call goes on.
    ///
    /// # Errors
    /// [`WatchError`].
    pub async fn next(&mut self) -> Result<Block, WatchError> {
        let from = self.begin().await?;
        let (mut troubles, mut quiet) = (Vec::new(), 0);
        loop {
            if let Some(block) = self.ready.pop_front() {
                return Ok(block);
            }
            let replica = ReplicaId(self.asked);
            match self.go_on(replica).await {
                Ok(true) => {
                    (troubles, quiet) = (Vec::new(), 0);
                    continue;
                }
                // It has waited for something there.
                Ok(false) => quiet += 1,
                Err(trouble) => {
                    troubles.push((replica, trouble));
                    tokio::time::sleep(PAUSE).await;
                }
            }
            self.ask_another();
            if troubles.len() + quiet < self.reader.committee().size() {
                continue;
            }
            if let Some(oldest) = self.gone(&troubles) {
                return Err(WatchError::Gone { from: self.reached().unwrap_or(from), oldest });
            }
            if self.reader.follow().await {
                self.asked = 0;
            } else if quiet == 0 {
                return Err(WatchError::Unwatched(troubles));
            }
            (troubles, quiet) = (Vec::new(), 0);
        }
    }

    /// The first height of which nothing was handed out: where another watcher may go on.
    #[must_use]
    pub fn reached(&self) -> Option<Height> {
        let waiting = self.ready.front().map(|block| block.height);
        waiting.or_else(|| self.named.front().map(|link| link.height)).or(self.from)
    }

    /// Looks where to begin, if that is not said: behind the newest state that is proven.
    ///
    /// # Errors
    /// [`WatchError::NoHead`].
    pub async fn begin(&mut self) -> Result<Height, WatchError> {
        if let Some(from) = self.from {
            return Ok(from);
        }
        let read = self.reader.get(b"", DEFAULT_MAX_LAG_BLOCKS).await;
        let from = read.map_err(WatchError::NoHead)?.verified.height.next();
        self.from = Some(from);
        Ok(from)
    }

    /// The oldest height that a correct replica has at least, if enough say that what is wanted is
    /// gone: one of them is correct, and so is one of those that say this height or an older one.
    fn gone(&self, troubles: &[(ReplicaId, Trouble)]) -> Option<Height> {
        let committee = self.reader.committee();
        oldest(troubles, |who| {
            committee.weight_of(who.iter().copied()) >= committee.honest_witness()
        })
    }

    fn ask_another(&mut self) {
        self.connection = None;
        self.part.clear();
        let size = self.reader.committee().size().max(1);
        self.asked = (usize::from(self.asked + 1) % size) as u16;
    }

    /// Gets further, with the help of this replica; whether it had anything.
    async fn go_on(&mut self, replica: ReplicaId) -> Result<bool, Trouble> {
        match self.named.front().copied() {
            Some(link) => self.fetch(replica, link).await.map(|()| true),
            None => self.name(replica).await,
        }
    }

    /// Has lists named, and makes sure that they are all there are.
    async fn name(&mut self, replica: ReplicaId) -> Result<bool, Trouble> {
        let from = self.from.unwrap_or(Height(1));
        let links = self.links(replica, from, true).await?;
        let Some(first) = links.links.first().map(|link| link.height) else { return Ok(false) };
        if first < from {
            return Err(NotLinked::OutOfPlace(first).into());
        }
        let (height, head) = self.head_from(first).await?;
        let all = self.all_through(replica, links, (from, height));
        let links = tokio::time::timeout(ANSWER_WITHIN, all).await;
        let links = links.unwrap_or(Err(AskError::Silent.into()))?;
        self.named = links.up_to(from, (height, head))?.into();
        self.from = Some(height.next());
        Ok(true)
    }

    /// The head in a state of this height or a later one, proven.
    async fn head_from(&mut self, first: Height) -> Result<(Height, Head), Trouble> {
        for _ in 0..TRIES {
            let read = self.reader.get(b"", DEFAULT_MAX_LAG_BLOCKS).await;
            let verified = read.map_err(Trouble::NoHead)?.verified;
            if verified.height >= first {
                return Ok((verified.height, verified.head));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(Trouble::Ahead(first))
    }

    /// Asks for the names again, until they are of all blocks up to a height.
    async fn all_through(
        &mut self,
        replica: ReplicaId,
        mut links: Links,
        (from, height): (Height, Height),
    ) -> Result<Links, Trouble> {
        for _ in 0..TRIES {
            if links.through >= height {
                return Ok(links);
            }
            tokio::time::sleep(PAUSE / 10).await;
            links = self.links(replica, from, false).await?;
        }
        Err(Trouble::Behind(links.through))
    }

    async fn links(
        &mut self,
        replica: ReplicaId,
        from: Height,
        wait: bool,
    ) -> Result<Links, Trouble> {
        self.id += 1;
        found(self.ask(replica, &Request::Changes { id: self.id, from, wait }).await?)
    }

    /// Fetches lists, the first of which is this one.
    async fn fetch(&mut self, replica: ReplicaId, link: Link) -> Result<(), Trouble> {
        self.id += 1;
        let (from, offset) = (link.height, self.part.len() as u32);
        let budget_bytes = MAX_PAGE_BYTES as u32;
        let request = Request::Lists { id: self.id, from, offset, budget_bytes };
        let page: Page = found(self.ask(replica, &request).await?)?;
        if !page.is_full(self.named.iter(), self.part.len()) {
            // A byte a page would do, and it would be asked for ever.
            return Err(Trouble::Part(from));
        }
        for piece in page.pieces {
            // There may be lists by now that are not named yet.
            let Some(link) = self.named.front().copied() else { break };
            self.take(link, &piece)?;
        }
        Ok(())
    }

    /// Takes a piece of the list that is named so.
    fn take(&mut self, link: Link, piece: &Piece) -> Result<(), Trouble> {
        let forged = Trouble::Forged(link.height);
        let length = self.part.len() + piece.bytes.len();
        if piece.height != link.height || piece.bytes.is_empty() || length > link.bytes as usize {
            return Err(forged);
        }
        self.part.extend_from_slice(&piece.bytes);
        if length < link.bytes as usize {
            return Ok(());
        }
        let list = Bytes::from(std::mem::take(&mut self.part));
        if !link.is_of(&list) {
            return Err(forged);
        }
        // It is what the cluster vouches for, so that it can be read.
        let changes: Result<Vec<Change>, DecodeError> = feed::changes(list).collect();
        let changes = changes.map_err(|_| forged)?.into_iter().enumerate();
        let changes: Vec<_> = changes.filter(|(_, it)| it.is_within(&self.prefix)).collect();
        self.named.pop_front();
        if !changes.is_empty() {
            self.ready.push_back(Block { height: link.height, changes });
        }
        Ok(())
    }

    /// The answer of a replica, over the connection that is kept.
    async fn ask(&mut self, replica: ReplicaId, request: &Request) -> Result<Bytes, AskError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let address = self.reader.address(replica).ok_or(AskError::Silent)?;
                let dialled = dial(replica, address, self.reader.committee().chain()).await;
                dialled.map_err(|error| AskError::Dial(error.to_string()))?
            }
        };
        connection.push(request.to_bytes().into()).map_err(|_| AskError::Closed)?;
        let answered = answer_to(&mut connection, self.id);
        let answer = tokio::time::timeout(ANSWER_WITHIN, answered).await;
        let answer = answer.unwrap_or(Err(AskError::Silent))?;
        self.connection = Some(connection);
        Ok(answer)
    }
}

/// The oldest height of which enough say that it, or an older one, is what they have left.
fn oldest(
    troubles: &[(ReplicaId, Trouble)],
    are_enough: impl Fn(&[ReplicaId]) -> bool,
) -> Option<Height> {
    let mut gone: Vec<(Height, ReplicaId)> = Vec::new();
    gone.extend(troubles.iter().filter_map(|(replica, trouble)| match trouble {
        Trouble::Gone(oldest) => Some((*oldest, *replica)),
        _ => None,
    }));
    gone.sort_unstable();
    let who: Vec<ReplicaId> = gone.iter().map(|(_, replica)| *replica).collect();
    (1..=who.len()).find(|count| are_enough(&who[..*count])).map(|count| gone[count - 1].0)
}

/// What a replica found.
fn found<T: Decode>(answer: Bytes) -> Result<T, Trouble> {
    match Found::from_bytes(answer).map_err(AskError::Garbage)? {
        Found::Here(found) => Ok(found),
        Found::Gone(oldest) => Err(Trouble::Gone(oldest)),
    }
}

/// The answer to the question of this id; anything else is passed over.
async fn answer_to(connection: &mut Connection, id: u64) -> Result<Bytes, AskError> {
    while let Some(message) = poll_fn(|cx| connection.poll_receive(cx)).await {
        match Response::from_bytes(message).map_err(AskError::Garbage)? {
            Response::Changes { id: of, links: answer }
            | Response::Lists { id: of, page: answer }
                if of == id =>
            {
                return Ok(answer);
            }
            Response::Unproven { id: of, reason } if of == id => {
                return Err(AskError::Unproven(reason));
            }
            _ => {}
        }
    }
    Err(AskError::Closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that lies says that anything is there, or nothing.
    #[test]
    fn a_liar_does_not_choose_the_oldest_height() {
        let gone = |id, oldest| (ReplicaId(id), Trouble::Gone(Height(oldest)));
        let of = |troubles: &[_]| oldest(troubles, |who| who.len() >= 2);
        assert_eq!(of(&[gone(0, 1), gone(1, 40), gone(2, 50)]), Some(Height(40)));
        assert_eq!(of(&[gone(0, u64::MAX), gone(1, 40), gone(2, 50)]), Some(Height(50)));
        assert_eq!(of(&[gone(0, 1), (ReplicaId(1), Trouble::Behind(Height(3)))]), None);
    }
}
