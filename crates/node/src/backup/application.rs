//! The application of a backed-up state.

use bytes::Bytes;
use quorate_app::kv::KeyValue;
use quorate_app::ordering::Ordering;
use quorate_core::Digest;
use quorate_core::ledger::state_machine::{
    Decided, Replies, RestoreError, Restorer, Snapshot, StateMachine,
};

use crate::config::{self, Cluster};

/// The application of any cluster.
pub enum Application {
    /// The key-value store, in memory.
    KeyValue(Box<KeyValue>),
    /// Pure ordering.
    Ordering(Box<Ordering>),
    /// A service, whose program is not at hand.
    Service(Carried),
}

impl Application {
    /// That of `cluster`, in its first state.
    pub fn first(cluster: &Cluster) -> Self {
        match cluster.application {
            config::Application::Kv => {
                let limit_bytes = cluster.limits.max_state_bytes;
                Self::KeyValue(Box::new(KeyValue::new().limited_to(limit_bytes)))
            }
            config::Application::Ordering => Self::Ordering(Box::default()),
            config::Application::Service => Self::Service(Carried::default()),
        }
    }

    fn inner(&self) -> &dyn StateMachine {
        match self {
            Self::KeyValue(application) => application.as_ref(),
            Self::Ordering(application) => application.as_ref(),
            Self::Service(carried) => carried,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn StateMachine {
        match self {
            Self::KeyValue(application) => application.as_mut(),
            Self::Ordering(application) => application.as_mut(),
            Self::Service(carried) => carried,
        }
    }
}

impl StateMachine for Application {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        self.inner_mut().apply(block, replies);
    }

    fn newest_rules(&self) -> u16 {
        self.inner().newest_rules()
    }

    fn query(&self, question: &[u8]) -> Bytes {
        self.inner().query(question)
    }

    fn root(&mut self) -> Digest {
        self.inner_mut().root()
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.inner().snapshot()
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.inner_mut().restore(chunks)
    }

    fn restorer(&mut self) -> Option<&mut dyn Restorer> {
        self.inner_mut().restorer()
    }
}

/// The chunks of a service's state. Only the service can tell whether they have the root that is
/// said of them: a replica of it does, when it takes them over. It executes nothing.
#[derive(Clone, Default)]
pub struct Carried {
    root: Digest,
    chunks: Vec<Bytes>,
}

impl StateMachine for Carried {
    /// Nobody has it apply a block: there would be too few replies.
    fn apply(&mut self, _: &Decided<'_>, _: &mut Replies) {}

    /// It executes by none.
    fn newest_rules(&self) -> u16 {
        u16::MAX
    }

    fn query(&self, _: &[u8]) -> Bytes {
        Bytes::new()
    }

    fn root(&mut self) -> Digest {
        self.root
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(self.clone())
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.chunks.extend(chunks);
        Ok(())
    }

    fn restorer(&mut self) -> Option<&mut dyn Restorer> {
        Some(self)
    }
}

impl Restorer for Carried {
    fn begin(&mut self, root: Option<Digest>) -> Result<(), RestoreError> {
        (self.root, self.chunks) = (root.unwrap_or_default(), Vec::new());
        Ok(())
    }

    fn take(&mut self, chunk: Bytes) -> Result<(), RestoreError> {
        self.chunks.push(chunk);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        Ok(())
    }
}

impl Snapshot for Carried {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let _ = self.chunks.iter().all(|chunk| sink(chunk));
    }
}
