//! What is done on one host, step by step. Each step looks first whether it is done, so that all of
//! them can be run again.

use quorate_core::ReplicaId;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::ReplicaKey;
use quorate_node::config::{Cluster, Member};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::Trouble;
use super::connection::Connection;
use super::inventory::{Host, Inventory, host_port};

/// What runs a replica and starts it again.
const SUPERVISE: &str = include_str!("supervise.sh");

/// Says whether the replica's supervisor runs: `systemd`, `process`, or nothing.
pub(super) const RUNS: &str = "\
runs() {
  if [ -e replica/unit ]; then
    if systemctl --quiet is-active \"$(cat replica/unit)\"; then echo systemd; fi
  elif [ -e replica/supervisor.pid ]; then
    pid=$(cat replica/supervisor.pid)
    if [ -n \"$pid\" ] && tr '\\0' ' ' < \"/proc/$pid/cmdline\" 2>/dev/null | grep -q bin/supervise
    then echo process; fi
  fi
}
";

/// The program, and its digest.
#[derive(Clone)]
pub struct Program {
    /// Its bytes.
    pub bytes: std::sync::Arc<Vec<u8>>,
    digest: String,
}

impl Program {
    /// A program of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        let digest = digest(&bytes);
        Self { bytes: std::sync::Arc::new(bytes), digest }
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A shell script that writes its input to `path`. If the connection is lost, the input ends early:
/// then the file stays as it is.
fn put_script(path: &str, bytes: &[u8]) -> String {
    format!(
        "umask 077; mkdir -p \"$(dirname {path})\"; trap 'rm -f {path}.part' EXIT\n\
         cat > {path}.part\n\
         if [ \"$(sha256sum < {path}.part | cut -d' ' -f1)\" != {} ]\n\
         then echo 'it did not arrive whole' >&2; exit 1; fi\n\
         if ! cmp -s {path}.part {path}; then\n\
         sync {path}.part; mv -f {path}.part {path}; echo new; fi",
        digest(bytes)
    )
}

/// The public halves of a replica's keys.
#[derive(Clone, Debug)]
pub struct PublicKeys {
    consensus: ReplicaKey,
    proof: Option<Vec<u8>>,
    transport: [u8; 32],
}

impl Connection {
    /// Puts the program there. Says whether it was not there yet.
    pub(super) async fn install(&self, program: &Program) -> Result<bool, Trouble> {
        self.make_folder().await?;
        let what = "copying the program";
        let there = self.run(what, "sha256sum bin/quorate 2>/dev/null | cut -d' ' -f1").await?;
        if there.trim() == program.digest {
            return Ok(false);
        }
        // Parts are of those that were killed: nobody else is at work there.
        let script = format!(
            "rm -f bin/quorate.part*; part=bin/quorate.part; trap 'rm -f $part' EXIT\n\
             digest() {{ sha256sum \"$1\" 2>/dev/null | cut -d' ' -f1; }}\n\
             if [ \"$(digest bin/quorate)\" = {0} ]; then exit 0; fi\n\
             cat > $part\n\
             if [ \"$(digest $part)\" != {0} ]\n\
             then echo 'it did not arrive whole' >&2; exit 1; fi\n\
             chmod 755 $part; $part version >/dev/null\n\
             mv -f $part bin/quorate; echo new",
            program.digest
        );
        Ok(!self.change(what, &script, &program.bytes).await?.is_empty())
    }

    /// Has the host make its replica's keys, if it has none. The secret halves never leave it.
    pub(super) async fn keys(&self, scheme: &str) -> Result<(PublicKeys, bool), Trouble> {
        let what = "making keys";
        let script = format!(
            "umask 077; mkdir -p replica/config; cd replica/config; new=old\n\
             for key in consensus transport; do\n\
             scheme=ed25519; if [ $key = consensus ]; then scheme={scheme}; fi\n\
             if [ ! -s $key.json ]; then\n\
             if [ -e begun ]; then echo \"$key.json is lost, and the replica has begun\" >&2; exit 1; fi\n\
             rm -f $key.key; new=new\n\
             ../../bin/quorate -o json keygen --signatures $scheme $key.key > $key.json.part\n\
             sync $key.json.part; mv $key.json.part $key.json\n\
             fi\n\
             cat $key.json\n\
             done; echo \"\\\"$new\\\"\""
        );
        let said = self.change(what, &script, &[]).await?;
        let values: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(&said).into_iter::<Value>().collect();
        let unfit = || Trouble {
            what: format!("{what}: its program says what this one does not understand"),
            remedy: "use one version of quorate here and there".to_owned(),
        };
        let values = values.map_err(|_| unfit())?;
        let [consensus, transport, new] = values.as_slice() else { return Err(unfit()) };
        let key = |value: &Value, name: &str| value[name].as_str().and_then(unhex);
        let public = key(consensus, "public_key").and_then(|bytes| ReplicaKey::new(&bytes));
        let transport = key(transport, "public_key").and_then(|bytes| bytes.try_into().ok());
        let (Some(public), Some(transport)) = (public, transport) else { return Err(unfit()) };
        let proof = key(consensus, "proof_of_possession");
        Ok((PublicKeys { consensus: public, proof, transport }, new == "new"))
    }

    /// Puts a file there, if it is not there as it is to be. Says whether it was not.
    async fn put(&self, what: &str, path: &str, text: &str) -> Result<bool, Trouble> {
        let script = put_script(path, text.as_bytes());
        Ok(!self.change(what, &script, text.as_bytes()).await?.is_empty())
    }

    /// Writes a replica's configuration and begins its data, if need be. Says what was new.
    pub(super) async fn configure(
        &self,
        inventory: &Inventory,
        host: &Host,
        replica: usize,
        cluster: &str,
    ) -> Result<bool, Trouble> {
        let what = "configuring";
        let check = "if [ -e replica/config/begun ] && ! cmp -s - replica/config/cluster.toml\n\
                     then echo 'its replica is of another cluster' >&2; exit 1; fi";
        self.run_with(what, check, cluster.as_bytes()).await?;
        let mut is_new = self.put(what, "replica/config/cluster.toml", cluster).await?;
        let node = inventory.node_text(replica, host).unwrap_or_default();
        is_new |= self.put(what, "replica/config/node.toml", &node).await?;
        let begin = "if [ ! -e replica/config/begun ]; then\n\
                     bin/quorate init --home replica >/dev/null; echo new; fi";
        Ok(!self.change("beginning", begin, &[]).await?.is_empty() || is_new)
    }

    /// Makes the home from which load comes.
    pub(super) async fn configure_client(&self, cluster: &str) -> Result<bool, Trouble> {
        self.put("configuring", "client/config/cluster.toml", cluster).await
    }

    /// Starts the replica under systemd where there is one and the login is root, else as a process
    /// that is started again when it fails. Says whether it did not run.
    pub(super) async fn start(&self, chain: &str, replica: usize) -> Result<bool, Trouble> {
        let unit = format!("quorate-{chain}-{replica}.service");
        let what = "starting";
        self.put(what, "bin/supervise", SUPERVISE).await?;
        self.put(what, "bin/replica.service", UNIT).await?;
        let script = format!(
            "{RUNS}\
             if [ ! -e replica/config/begun ]; then echo 'it has no replica yet: run up' >&2; exit 1; fi\n\
             if [ -n \"$(runs)\" ]; then exit 0; fi\n\
             if [ -d /run/systemd/system ] && [ \"$(id -u)\" = 0 ]; then\n\
             unit=/etc/systemd/system/{unit}\n\
             sed \"s|FOLDER|$PWD|g\" bin/replica.service > $unit.part; mv -f $unit.part $unit\n\
             echo {unit} > replica/unit\n\
             systemctl daemon-reload; systemctl --quiet enable --now {unit}\n\
             else\n\
             rm -f replica/unit replica/supervisor.pid\n\
             setsid sh \"$PWD/bin/supervise\" \"$PWD\" </dev/null >>replica/replica.log 2>&1 9>&- &\n\
             supervisor=$!; tries=0\n\
             while [ \"$(cat replica/supervisor.pid 2>/dev/null)\" != $supervisor ]; do\n\
             tries=$((tries + 1)); if [ $tries -gt 100 ]; then\n\
             kill $supervisor 2>/dev/null || :\n\
             echo 'replica/supervisor.pid cannot be written' >&2; exit 1; fi\n\
             sleep 0.1; done\n\
             fi; echo new"
        );
        let said = self.change(what, &script, &[]).await?;
        Ok(!said.is_empty())
    }

    /// Stops the replica, and waits until it has. Says whether it ran.
    pub(super) async fn stop(&self) -> Result<bool, Trouble> {
        let script = format!(
            "{RUNS}\
             case \"$(runs)\" in\n\
             systemd) systemctl --quiet disable --now \"$(cat replica/unit)\";;\n\
             process) pid=$(cat replica/supervisor.pid); kill -TERM $pid; tries=0\n\
             while [ -n \"$(runs)\" ]; do\n\
             tries=$((tries + 1)); if [ $tries -gt 600 ]; then\n\
             echo \"process $pid does not end\" >&2; exit 1; fi\n\
             sleep 0.1; done;;\n\
             *) exit 0;;\n\
             esac; rm -f replica/supervisor.pid; echo new"
        );
        Ok(!self.change("stopping", &script, &[]).await?.is_empty())
    }

    /// What the replica says of itself; `None` if it does not run.
    pub(super) async fn status(&self) -> Result<Option<Value>, Trouble> {
        let script = format!(
            "{RUNS}\
             if [ -z \"$(runs)\" ]; then exit 0; fi\n\
             bin/quorate -o json status --home replica 2>/dev/null || :"
        );
        let said = self.run("asking", &script).await?;
        let answer: Option<Value> = serde_json::from_str(&said).ok();
        Ok(answer.map(|answer| answer["replicas"][0].clone()))
    }

    /// How far its clock is ahead of this machine's, in milliseconds, at least and at most.
    pub(super) async fn clock(&self) -> Result<(i64, i64), Trouble> {
        let before = now_ms();
        let said = self.run("reading its clock", "date +%s%3N").await?;
        let after = now_ms();
        let theirs: i64 = said.trim().parse().map_err(|_| Trouble {
            what: format!("reading its clock: `date` says \"{}\"", said.trim()),
            remedy: "install GNU coreutils there".to_owned(),
        })?;
        Ok((theirs - after, theirs - before))
    }

    /// Its logs, configuration without keys, and what its replica says, as a compressed archive.
    pub(super) async fn collect(&self) -> Result<Vec<u8>, Trouble> {
        let script = "\
            scratch=$(mktemp -d); trap 'rm -rf \"$scratch\"' EXIT\n\
            if [ -d replica ]; then\n\
            mkdir \"$scratch/config\"; cp replica/config/*.toml \"$scratch/config\" 2>/dev/null || :\n\
            cp replica/replica.log* \"$scratch\" 2>/dev/null || :\n\
            if [ -e replica/unit ]; then journalctl --no-pager -u \"$(cat replica/unit)\" > \"$scratch/replica.log\" || :; fi\n\
            bin/quorate -o json status --home replica > \"$scratch/status.json\" 2> \"$scratch/status.err\" || :\n\
            fi\n\
            { uname -a; date -u; uptime; df -k .; free -m 2>/dev/null || :; } > \"$scratch/machine.txt\"\n\
            tar -C \"$scratch\" -czf - .";
        self.output("collecting", script, &[]).await
    }

    /// Takes everything away that was put there. Foreign files stay, and are told.
    pub(super) async fn remove(&self) -> Result<bool, Trouble> {
        if !self.has_folder().await? {
            return Ok(false);
        }
        self.stop().await?;
        let script = "\
            if [ -e replica/unit ]; then rm -f \"/etc/systemd/system/$(cat replica/unit)\"; systemctl daemon-reload; fi\n\
            rm -rf bin replica client\n\
            others=$(ls -A | grep -vx .quorate-deploy || :)\n\
            if [ -n \"$others\" ]; then echo \"what is not of quorate deploy stays there:\" $others >&2; exit 1; fi\n\
            rm -f .quorate-deploy; here=$PWD; cd /; rmdir \"$here\"";
        self.change("removing", script, &[]).await?;
        Ok(true)
    }
}

/// The unit of a replica, where systemd runs it.
const UNIT: &str = include_str!("replica.service");

/// The member that a host's replica is.
///
/// # Errors
/// Its address is none.
pub(super) fn member(host: &Host, replica: usize, keys: &PublicKeys) -> Result<Member, String> {
    let proof = keys.proof.as_deref().map(TryInto::try_into).transpose();
    Ok(Member {
        id: ReplicaId(u16::try_from(replica).unwrap_or(u16::MAX)),
        consensus_key: keys.consensus.clone(),
        share_key: None,
        proof_of_possession: proof.map_err(|_| {
            format!("host \"{}\": its proof of possession has no fit length", host.name)
        })?,
        transport_key: PublicKey(keys.transport),
        peer_address: host_port(host, host.peer_port)?,
        client_address: host_port(host, host.client_port)?,
        name: None,
    })
}

/// A new cluster of these members, as the inventory wants it.
///
/// # Errors
/// What does not fit.
pub(super) fn cluster(inventory: &Inventory, members: Vec<Member>) -> Result<Cluster, String> {
    let mut genesis = [0; 32];
    getrandom::fill(&mut genesis).map_err(|error| format!("no randomness: {error}"))?;
    let mut cluster = Cluster::new(inventory.chain.clone(), genesis, members);
    cluster.set_combination(inventory.combination);
    cluster.transport = inventory.transport;
    cluster.application = inventory.application;
    cluster.fixed_leader = inventory.fixed_leader.unwrap_or(cluster.fixed_leader);
    if let Some(commands) = inventory.batch_commands {
        cluster.batch.max_commands = commands;
    }
    cluster.check().map_or(Ok(cluster), |finding| Err(finding.to_string()))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (text.len().is_multiple_of(2)).then(|| (0..text.len()).step_by(2).map(digit).collect())?
}

/// This machine's clock, in milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::put_script;

    /// A connection that is lost ends the input early: a short file takes no other's place.
    #[test]
    fn what_does_not_arrive_whole_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let put = |text: &str, arrives: &str| {
            let script = put_script("config/cluster.toml", text.as_bytes());
            let mut shell = Command::new("sh");
            shell.args(["-euc", &script]).current_dir(folder.path()).stderr(Stdio::null());
            let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            shell.stdin.take().unwrap().write_all(arrives.as_bytes()).unwrap();
            let output = shell.wait_with_output().unwrap();
            (output.status.success(), String::from_utf8(output.stdout).unwrap())
        };
        assert_eq!(put("one", "one"), (true, "new\n".to_owned()));
        assert_eq!(put("one", "one"), (true, String::new()));
        for arrives in ["", "another o"] {
            assert_eq!(put("another one", arrives), (false, String::new()));
        }
        let config = folder.path().join("config");
        assert_eq!(std::fs::read_to_string(config.join("cluster.toml")).unwrap(), "one");
        assert_eq!(std::fs::read_dir(config).unwrap().count(), 1);
    }
}
