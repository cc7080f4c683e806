//! A host, reached by `ssh`, and what is run on it: scripts for a POSIX shell, in its folder.

use std::error::Error as _;

use openssh::{KnownHosts, Session, SessionBuilder, Stdio};
use tokio::io::AsyncWriteExt as _;

use super::Trouble;
use super::inventory::{Host, Ssh};

/// What a connection that says nothing for so long is: lost.
const ALIVE: std::time::Duration = std::time::Duration::from_secs(5);
/// So much of what a script complains of is told.
const MOST_COMPLAINT: usize = 600;
/// The file by which a folder is known to be of ours.
pub const MARK: &str = ".quorate-deploy";

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
             umask 077; mkdir -p '{folder}/bin'; : > '{folder}/{MARK}'"
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

    async fn execute(&self, what: &str, script: &str, input: &[u8]) -> Result<Vec<u8>, Trouble> {
        let lost = |error: openssh::Error| Trouble {
            what: format!("{what}: {}", chain(&error)),
            remedy: "see to the connection, and run the same again: it goes on there".to_owned(),
        };
        let mut command = self.session.command("sh");
        command.arg("-c").arg(script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().await.map_err(lost)?;
        let stdin = child.stdin().take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A script that ends early does not read on; it says why itself.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output.map_err(lost)?;
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
