//! The users in force, and what was refused lately.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use super::{Acl, AclError};

/// Most bytes of a file.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// How many refusals are kept.
const KEPT: usize = 128;

/// Why a file is not taken; the users in force stay.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It says something wrong.
    #[error("{file}, {source}")]
    Content {
        /// Which.
        file: PathBuf,
        /// Where and what.
        source: AclError,
    },
}

/// Something refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The user's name; of one that has not said it, nothing.
    pub user: String,
    /// `auth`, `command` or `key`.
    pub reason: &'static str,
    /// The command.
    pub command: String,
    /// Where it came from.
    pub address: std::net::SocketAddr,
    /// When.
    pub at: Instant,
}

/// The users in force. Connections look at [`Gate::generation`] before each command.
#[derive(Debug, Default)]
pub struct Gate {
    file: Option<PathBuf>,
    current: RwLock<Arc<Acl>>,
    generation: AtomicU64,
    refusals: Mutex<VecDeque<Refusal>>,
    refused: AtomicU64,
}

impl Gate {
    /// With the users of a file.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn of_file(file: &Path) -> Result<Self, LoadError> {
        let acl = read(file)?;
        Ok(Self {
            file: Some(file.to_owned()),
            current: RwLock::new(Arc::new(acl)),
            ..Self::default()
        })
    }

    /// With these users.
    #[must_use]
    pub fn of(acl: Acl) -> Self {
        Self { current: RwLock::new(Arc::new(acl)), ..Self::default() }
    }

    /// The users in force.
    #[must_use]
    pub fn acl(&self) -> Arc<Acl> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether anybody has to say a password.
    #[must_use]
    pub fn has_passwords(&self) -> bool {
        self.acl().has_passwords()
    }

    /// How often users were replaced.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether there is a file to read again.
    #[must_use]
    pub const fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads the file again; nothing is done without one. A file that is not good changes nothing.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn reload(&self) -> Result<(), LoadError> {
        let Some(file) = &self.file else { return Ok(()) };
        let acl = Arc::new(read(file)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = acl;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Notes a refusal. The log gets a line for the first, and each that doubles their number.
    pub fn note(&self, refusal: Refusal) {
        let before = self.refused.fetch_add(1, Ordering::Relaxed);
        if (before + 1).is_power_of_two() {
            tracing::warn!(
                user = refusal.user, command = refusal.command, address = %refusal.address,
                so_far = before + 1,
                "refused for want of rights ({}); ACL LOG has the last {KEPT}",
                refusal.reason
            );
        }
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.truncate(KEPT - 1);
        refusals.push_front(refusal);
    }

    /// The last refusals, newest first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Refusal> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.iter().cloned().collect()
    }

    /// Forgets them.
    pub fn forget_refusals(&self) {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn read(file: &Path) -> Result<Acl, LoadError> {
    let io = |source| LoadError::Io { file: file.to_owned(), source };
    let bytes = std::fs::metadata(file).map_err(io)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(io(std::io::Error::other("larger than 4 MiB")));
    }
    let text = std::fs::read_to_string(file).map_err(io)?;
    Acl::parse(&text).map_err(|source| LoadError::Content { file: file.to_owned(), source })
}
