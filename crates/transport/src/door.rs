//! Listening where the process may have no descriptor left.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

/// Connections that one failure of [`Door::accept`] refuses at most.
const REFUSED_TOGETHER: usize = 64;

/// A listener that refuses those who wait when no descriptor is left, instead of leaving them to
/// wait.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    /// Given up for a moment, so that those who wait can be accepted and let go.
    spare: Mutex<Option<File>>,
}

impl Door {
    /// Guards `listener`.
    #[must_use]
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, spare: Mutex::new(spare()) }
    }

    /// The next connection. Dropping the future loses none.
    ///
    /// # Errors
    /// What the system says. If it has no descriptor left, those who waited have been refused. The
    /// caller should pause before it tries again.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let accepted = self.listener.accept().await;
        let errno = accepted.as_ref().err().and_then(Errno::from_io_error);
        if matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
            self.refuse_those_who_wait().await;
        }
        accepted
    }

    async fn refuse_those_who_wait(&self) {
        poll_fn(|cx| {
            let mut held = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            drop(held.take());
            for _ in 0..REFUSED_TOGETHER {
                // Accepted and dropped at once. Somebody else may have taken the spare: then the
                // next time.
                let Poll::Ready(Ok(_)) = self.listener.poll_accept(cx) else { break };
            }
            *held = spare();
            Poll::Ready(())
        })
        .await;
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}
