//! The beginning of a replica: its data folder with the safety record of one that never voted.
//!
//! `start` never makes a safety record: one that is missing later was lost. To begin a second time
//! after such a loss would let the replica vote against what it voted before, so a file beside the
//! keys says that the replica was begun, and a second time is refused. While the data folder is
//! made, that file has another name, under which no replica starts: whoever is killed in between
//! can do it again.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use quorate_core::Committee;
use quorate_core::base::membership::ReplicaKey;
use quorate_crypto::ConsensusKey;

use crate::config::{Cluster, Home, Keys, Loaded, public_half};
use crate::family::{Build, Family, Job};
use crate::replica::data::{self, DataError, Owner};
use crate::written::{replace, sync_folder};

/// Why a replica was not begun. Nothing was written, except with [`BeginError::Io`].
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// It was begun before.
    #[error("{} says that this replica was begun before", .0.display())]
    Begun(PathBuf),
    /// There is data.
    #[error("the data folder {} is not empty", .0.display())]
    Data(PathBuf),
    /// The committee cannot be made.
    #[error("{0}")]
    Committee(String),
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was to be made.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
}

/// Begins the replica of a configuration whose keys have been checked.
///
/// # Errors
/// [`BeginError`].
pub fn begin(loaded: &Loaded, keys: &Keys) -> Result<(), BeginError> {
    begin_in(&loaded.home, &loaded.node.storage.folder, &loaded.cluster, &keys.consensus)
}

/// Begins the replica of `home`, with its data in `folder`.
pub(crate) fn begin_in(
    home: &Home,
    folder: &Path,
    cluster: &Cluster,
    consensus: &ConsensusKey,
) -> Result<(), BeginError> {
    let (mark, beginning) = (home.begun_file(), home.beginning_file());
    if mark.exists() {
        return Err(BeginError::Begun(mark));
    }
    let refused = |source| BeginError::Io { path: folder.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refused)?;
    let data_error = |error| match error {
        DataError::Io { path, source } => BeginError::Io { path, source },
        other => refused(std::io::Error::other(other)),
    };
    // What an attempt left that was cut short has signed nothing.
    if beginning.exists() {
        data::clear(folder).map_err(data_error)?;
    } else if std::fs::read_dir(folder).map_err(refused)?.next().is_some() {
        return Err(BeginError::Data(folder.to_owned()));
    }
    let committee =
        cluster.committee().map_err(|error| BeginError::Committee(error.to_string()))?;
    let key = public_half(consensus);
    let text = format!(
        "# Written when this replica's data folder was made. Keep it beside the keys: while it is\n\
         # here, no second one is made, which could vote against the first.\n\
         chain_digest = \"{}\"\n",
        cluster.chain_digest()
    );
    let unwritten = |source| BeginError::Io { path: mark.clone(), source };
    replace(&beginning, &text).map_err(|finding| unwritten(std::io::Error::other(finding.what)))?;
    Family::agreed(cluster).run(Create { folder, committee, key }).map_err(data_error)?;
    std::fs::rename(&beginning, &mark).and_then(|()| sync_folder(&mark)).map_err(unwritten)
}

/// Whether the making of a replica's data folder came to its end.
///
/// # Errors
/// [`DataError::HalfBegun`]
pub(crate) fn check_whole(home: &Home) -> Result<(), DataError> {
    let beginning = home.beginning_file();
    if beginning.exists() { Err(DataError::HalfBegun(beginning)) } else { Ok(()) }
}

/// Begins a data folder.
struct Create<'a> {
    folder: &'a Path,
    committee: Committee,
    key: ReplicaKey,
}

impl Job for Create<'_> {
    type Output = Result<(), DataError>;

    fn run<B: Build>(self, build: B) -> Self::Output {
        data::create(self.folder, &Owner::new(build.origin(&self.committee), self.key))
    }
}
