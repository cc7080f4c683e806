//! A TCP listener that keeps working when the process has no file descriptor left.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

/// The most connections that one failure of [`Door::accept`] refuses.
const REFUSED_TOGETHER: usize = 64;

/// A listener that refuses waiting connections when no descriptor is left, instead of letting them
/// wait.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    /// A spare descriptor. It is closed for a moment, so that waiting connections can be accepted
    /// and closed.
    spare: Mutex<Option<File>>,
}

impl Door {
    /// Wraps `listener`.
    #[must_use]
    pub fn new(listener: TcpListener) -> Self {
        Self { listener, spare: Mutex::new(spare()) }
    }

    /// The next connection. Dropping the future loses none.
    ///
    /// # Errors
    /// The system's error. If no descriptor was left, the waiting connections have been refused.
    /// The caller should pause before it tries again.
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
                // Accepted and closed at once. Another thread may have taken the spare descriptor;
                // then the next call tries again.
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
