//! A host, reached by `ssh`, and what is run on it: scripts for a POSIX shell, in its folder.

use std::error::Error as _;
use std::time::Duration;

use openssh::{KnownHosts, Session, SessionBuilder, Stdio};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::Trouble;
use super::inventory::{Host, Ssh};

/// What a connection that says nothing for so long is: lost.
const ALIVE: Duration = Duration::from_secs(5);
/// So much of what a script complains of is told.
const MOST_COMPLAINT: usize = 600;
/// This file marks a folder as ours. A script that changes anything there holds its lock.
pub const MARK: &str = ".quorate-deploy";

/// Takes the lock of the host's folder. It is let go when the script ends, however it ends: a
/// script that was cut off leaves none. What the script starts and does not wait for must close the
/// lock's descriptor (`9>&-`).
const LOCK: &str = "\
if ! command -v flock >/dev/null; then echo 'flock is missing: install util-linux' >&2; exit 1; fi
exec 9>>.quorate-deploy
if ! flock -w 60 9; then echo 'another quorate deploy is at work there' >&2; exit 1; fi
";

/// A host that is reached.
#[derive(Debug)]
pub struct Connection {
    session: Session,
    folder: String,
}

impl Connection {
    /// Reaches a host.
    ///
    /// # Errors
    /// What `ssh` says, with a remedy.
    pub async fn open(host: &Host, ssh: &Ssh) -> Result<Self, Trouble> {
        let mut builder = SessionBuilder::default();
        builder.known_hosts_check(KnownHosts::Strict);
        builder.connect_timeout(ssh.connect_timeout).server_alive_interval(ALIVE);
        if let Some(config) = &ssh.config {
            builder.config_file(config);
        }
        let session = builder.connect(&host.ssh).await.map_err(|error| refused(host, &error))?;
        Ok(Self { session, folder: host.folder.clone() })
    }

    /// Runs a script in the host's folder, which must be there. Returns what it printed.
    ///
    /// # Errors
    /// What it complained of, as the trouble with `what`.
    pub async fn run(&self, what: &str, script: &str) -> Result<String, Trouble> {
        self.run_with(what, script, &[]).await
    }

    /// The same, with `input` for the script to read.
    ///
    /// # Errors
    /// The same.
    pub async fn run_with(
        &self,
        what: &str,
        script: &str,
        input: &[u8],
    ) -> Result<String, Trouble> {
        let output = self.output(what, script, input).await?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// The same, for a script that changes anything there: no other one does meanwhile. So several
    /// operators may bring up one cluster at the same time, and a script whose operator was cut off
    /// ends before the next one begins.
    ///
    /// # Errors
    /// The same.
    pub async fn change(&self, what: &str, script: &str, input: &[u8]) -> Result<String, Trouble> {
        self.run_with(what, &format!("{LOCK}{script}"), input).await
    }

    /// The same; what it printed may be anything.
    ///
    /// # Errors
    /// The same.
    pub async fn output(&self, what: &str, script: &str, input: &[u8]) -> Result<Vec<u8>, Trouble> {
        let script = format!("set -eu\ncd '{}'\n{script}", self.folder);
        self.execute(what, &script, input).await
    }

    /// Makes the host's folder, if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or is somebody else's.
    pub async fn make_folder(&self) -> Result<(), Trouble> {
        let folder = &self.folder;
        let script = format!(
            "set -eu\n\
             if [ -d '{folder}' ] && [ ! -e '{folder}/{MARK}' ] && [ -n \"$(ls -A '{folder}')\" ]\n\
             then echo '{folder} is there already, and not of quorate deploy' >&2; exit 1; fi\n\
             umask 077; mkdir -p '{folder}'; : >> '{folder}/{MARK}'; mkdir -p '{folder}/bin'"
        );
        self.execute("making its folder", &script, &[]).await.map(drop)
    }

    /// Whether the host's folder is there.
    ///
    /// # Errors
    /// The host does not answer.
    pub async fn has_folder(&self) -> Result<bool, Trouble> {
        let script = format!("if [ -e '{}/{MARK}' ]; then echo yes; fi", self.folder);
        let said = self.execute("looking for its folder", &script, &[]).await?;
        Ok(!said.is_empty())
    }

    /// Runs a script in the host's folder that prints a line and then waits for one. `answer` makes
    /// that line, once the first one is there; `None` ends the script. It must end when what it
    /// reads does: so it does not outlive the connection.
    ///
    /// # Errors
    /// What it complained of; or no line came within `patience`; or there was no answer.
    pub async fn converse(
        &self,
        what: &str,
        script: &str,
        patience: Duration,
        answer: impl AsyncFnOnce() -> Option<String>,
    ) -> Result<(), Trouble> {
        let lost = |error: openssh::Error| lost(what, &error);
        let broken = |how: &str| Trouble {
            what: format!("{what}: {how}"),
            remedy: "see what the others say, and run the same again".to_owned(),
        };
        let script = format!("set -eu\ncd '{}'\n{script}", self.folder);
        let mut child = self.shell(&script).spawn().await.map_err(lost)?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin().take(), child.stdout().take()) else {
            return Err(broken("it cannot be talked to"));
        };
        let mut lines = BufReader::new(stdout).lines();
        let mut failed = None;
        match tokio::time::timeout(patience, lines.next_line()).await {
            // It says why itself.
            Ok(Ok(None) | Err(_)) => {}
            Err(_) => failed = Some(broken(&format!("it is not ready after {patience:?}"))),
            Ok(Ok(Some(_))) => match answer().await {
                Some(line) => {
                    // If it has ended, it says why itself.
                    let _ = stdin.write_all(line.as_bytes()).await;
                    let _ = stdin.flush().await;
                    let rest =
                        async { while lines.next_line().await.is_ok_and(|it| it.is_some()) {} };
                    rest.await;
                }
                None => failed = Some(broken("another host was not ready")),
            },
        }
        drop(stdin);
        let output = child.wait_with_output().await.map_err(lost)?;
        match failed {
            Some(trouble) => Err(trouble),
            None => self.settled(what, output).map(drop),
        }
    }

    fn shell(&self, script: &str) -> openssh::OwningCommand<&Session> {
        let mut command = self.session.command("sh");
        command.arg("-c").arg(script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn execute(&self, what: &str, script: &str, input: &[u8]) -> Result<Vec<u8>, Trouble> {
        let lost = |error: openssh::Error| lost(what, &error);
        let mut child = self.shell(script).spawn().await.map_err(lost)?;
        let stdin = child.stdin().take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A script that ends early does not read on; it says why itself.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        self.settled(what, output.map_err(lost)?)
    }

    /// What a script printed; or what it complained of, if it failed.
    fn settled(&self, what: &str, output: std::process::Output) -> Result<Vec<u8>, Trouble> {
        if output.status.success() {
            return Ok(output.stdout);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint = complaint.trim();
        let start = complaint.len().saturating_sub(MOST_COMPLAINT);
        let start = (start..=complaint.len()).find(|at| complaint.is_char_boundary(*at));
        let complaint = &complaint[start.unwrap_or(0)..];
        let complaint = match (complaint, output.status.code()) {
            ("", Some(code)) => format!("ended with {code}, without a word"),
            ("", None) => "the connection was lost".to_owned(),
            (said, _) => said.to_owned(),
        };
        let remedy = match complaint.contains("No space left on device") {
            true => format!("make room for {} there, and run the same again", self.folder),
            false => "see to the cause, and run the same again: it goes on there".to_owned(),
        };
        Err(Trouble { what: format!("{what}: {complaint}"), remedy })
    }

    /// Lets go of it.
    pub async fn close(self) {
        // A connection that is lost already cannot be closed, and need not.
        let _ = self.session.close().await;
    }
}

fn lost(what: &str, error: &openssh::Error) -> Trouble {
    Trouble {
        what: format!("{what}: {}", chain(error)),
        remedy: "see to the connection, and run the same again: it goes on there".to_owned(),
    }
}

fn refused(host: &Host, error: &openssh::Error) -> Trouble {
    let what = format!("ssh {}: {}", host.ssh, chain(error));
    let remedy = if what.contains("Permission denied") {
        format!("let it take your key: `ssh {}` must work without a question", host.ssh)
    } else if what.contains("host key") || what.contains("Host key") {
        format!("compare its key and accept it once: ssh {}", host.ssh)
    } else {
        format!("see that it is up and `ssh {}` works, and run the same again", host.ssh)
    };
    Trouble { what, remedy }
}

/// An error and its causes in a line.
fn chain(error: &openssh::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {}", error.to_string().trim()));
        cause = error.source();
    }
    text
}
