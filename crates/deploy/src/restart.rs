//! Replicas are restarted one after the other, so that the cluster goes on meanwhile.

use std::time::Duration;

use serde_json::Value;

use super::Trouble;
use super::connection::Connection;
use super::fleet::{Fleet, Outcome};
use super::inventory::Host;

/// How often a replica that was started is asked how it is, and how many times.
const ASKED_EVERY: Duration = Duration::from_millis(250);
const ASKED: u32 = 480;
/// How many times before anything is stopped: one that is busy may not answer at once.
const ASKED_FIRST: u32 = 20;

impl Fleet {
    /// Restarts the replicas one after the other. The next one waits until the one before is ready
    /// and has executed what the others had when it stopped. It ends at the first one that fails:
    /// the others run as before.
    ///
    /// # Errors
    /// A replica was not ready before: without it and the one that is restarted the cluster may
    /// stand still.
    pub async fn restart(&self) -> Result<Vec<Outcome<()>>, Trouble> {
        let opened = self.at(self.inventory.replicas(), |task| async move {
            let connection = task.open().await?;
            let mut status = connection.status().await?;
            for _ in 1..ASKED_FIRST {
                if is_ready(status.as_ref()) {
                    break;
                }
                tokio::time::sleep(ASKED_EVERY).await;
                status = connection.status().await?;
            }
            Ok((connection, status))
        });
        let mut replicas = Vec::new();
        for Outcome { host, result } in opened.await {
            let (connection, status) = result.map_err(|trouble| unready(&host, &trouble.what))?;
            match status {
                Some(status) if status["ready"] == true => replicas.push((host, connection)),
                Some(status) => {
                    let why = status["not_ready"].as_str().unwrap_or("it does not answer");
                    return Err(unready(&host, why));
                }
                None => return Err(unready(&host, "it does not run")),
            }
        }
        let mut outcomes = Vec::new();
        for replica in 0..replicas.len() {
            let result = self.restart_one(&replicas, replica).await;
            let (host, is_over) = (replicas[replica].0.clone(), result.is_err());
            outcomes.push(Outcome { host, result });
            if is_over {
                break;
            }
        }
        for (_, connection) in replicas {
            connection.close().await;
        }
        Ok(outcomes)
    }

    async fn restart_one(
        &self,
        replicas: &[(Host, Connection)],
        replica: usize,
    ) -> Result<(), Trouble> {
        let (host, connection) = &replicas[replica];
        let task = self.task(host);
        task.tell("stopping");
        connection.stop().await?;
        let mut level = 0;
        for (other, (_, connection)) in replicas.iter().enumerate() {
            if other != replica {
                level = level.max(connection.status().await?.as_ref().map_or(0, executed));
            }
        }
        task.tell("starting");
        connection.start(&self.inventory.chain, replica).await?;
        task.tell("catching up");
        let mut last = None;
        for _ in 0..ASKED {
            last = connection.status().await?;
            if last.as_ref().is_some_and(|it| it["ready"] == true && executed(it) >= level) {
                task.tell("done");
                return Ok(());
            }
            tokio::time::sleep(ASKED_EVERY).await;
        }
        let state = match &last {
            Some(status) => match status["not_ready"].as_str() {
                Some(why) => why.to_owned(),
                None => format!("it has executed {} of {level} blocks", executed(status)),
            },
            None => "it ended".to_owned(),
        };
        Err(Trouble {
            what: format!("it is not back after two minutes: {state}"),
            remedy: "read its log (quorate deploy collect); the others were not restarted"
                .to_owned(),
        })
    }
}

fn is_ready(status: Option<&Value>) -> bool {
    status.is_some_and(|it| it["ready"] == true)
}

fn executed(status: &Value) -> u64 {
    status["executed_height"].as_u64().unwrap_or(0)
}

fn unready(host: &Host, why: &str) -> Trouble {
    Trouble {
        what: format!("host \"{}\": {why}", host.name),
        remedy: "mend it first (quorate deploy status): no replica was restarted".to_owned(),
    }
}
