//! The bank's client: `teller CLUSTER_TOML COMMAND...` submits a command and prints its reply;
//! `teller CLUSTER_TOML ask QUESTION...` asks without ordering the question.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use quorate_service::Bytes;
use quorate_service::client::connect;

/// How long the cluster may take.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((file, words)) = arguments.split_first().filter(|(_, words)| !words.is_empty()) else {
        eprintln!("usage: teller CLUSTER_TOML [ask] COMMAND...");
        return ExitCode::from(2);
    };
    match run(Path::new(file), words) {
        Ok(reply) => {
            println!("{reply}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(file: &Path, words: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reply = runtime.block_on(async {
        let work = async {
            let client = connect(file, Some(PATIENCE)).await?;
            if let Some(("ask", question)) = words.split_first().map(|(w, rest)| (w.as_str(), rest))
            {
                return Ok(client.query(Bytes::from(question.join(" "))).await?);
            }
            let replies = client.submit(vec![Bytes::from(words.join(" "))]).await?;
            replies.into_iter().next().ok_or_else(|| "no reply".into())
        };
        let late = "the cluster does not answer: see that a quorum of its replicas runs";
        tokio::time::timeout(PATIENCE, work)
            .await
            .unwrap_or_else(|_| Err::<Bytes, Box<dyn std::error::Error>>(late.into()))
    })?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}
