//! Processes that end with the one that started them.
//!
//! The parent holds the other end of the child's standard input and never writes: when the parent
//! ends, however it does, the system closes it. Works for a parent killed with SIGKILL, and needs
//! no signal that could hit a process that came to have the same number.

use std::io::Read as _;
use std::time::Duration;

use clap::Args;
use tokio::sync::oneshot;

/// How long a process has to stop in good order once its parent is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether to end with the parent.
#[derive(Clone, Copy, Debug, Args)]
pub struct ParentArgument {
    /// Stop when standard input ends, as it does when the process at its other end is gone.
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

impl ParentArgument {
    /// Watches from now on. What is returned completes when the parent is gone, and never if
    /// there is none to watch. A process that is still there a while later ends at once.
    pub fn watch(self) -> Gone {
        let (sender, receiver) = oneshot::channel();
        let mut gone = Gone { _never: None, receiver };
        if !self.exit_with_parent {
            gone._never = Some(sender);
            return gone;
        }
        let watching = std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
            let mut ignored = [0; 64];
            loop {
                match std::io::stdin().read(&mut ignored) {
                    Ok(count) if count > 0 => {}
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
            // Whoever waited for it may have ended already.
            let _ = sender.send(());
            std::thread::sleep(PATIENCE);
            std::process::exit(1);
        });
        if watching.is_err() {
            // Unwatched it might outlive its parent; the sender went with the closure, which
            // reads as a parent that is gone.
            return gone;
        }
        gone
    }
}

/// Completes when the parent is gone.
pub struct Gone {
    _never: Option<oneshot::Sender<()>>,
    receiver: oneshot::Receiver<()>,
}

impl Gone {
    /// Waits for it; may be called again after it was broken off.
    pub async fn wait(&mut self) {
        if self._never.is_some() || self.receiver.is_terminated() {
            return std::future::pending().await;
        }
        let _ = (&mut self.receiver).await;
    }
}
