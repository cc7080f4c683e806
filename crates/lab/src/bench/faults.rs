//! What no load alone measures: a cluster without anything to do, and one whose leaders die.

use std::time::{Duration, Instant};

use super::{Bench, BenchError, Row, count_on};
use crate::counting::{Counting, CountingError, Size};
use crate::local::{LocalCluster, LocalError, Usage};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The load while leaders are killed.
const KILL_SIZE: Size = Size { clients: 2, outstanding: 2 };
/// Load between a restart that has caught up and the next kill.
const CALM: Duration = Duration::from_secs(1);

impl Bench {
    /// What replicas take that have nothing to do.
    pub(super) fn idle(&self) -> Result<Row, BenchError> {
        let mut row = Row::new("idle", self.settings(|_| {}));
        row.settings.seconds = self.idle.as_secs_f64();
        self.on_fresh_cluster(&row.settings.clone(), |cluster| {
            std::thread::sleep(Duration::from_secs(1));
            let up: Vec<usize> = cluster.up().collect();
            let ids: Vec<u32> =
                up.into_iter().filter_map(|id| Some(cluster.process(id)?.id())).collect();
            let used = |id: &u32| Usage::of(*id).map(|usage| usage.processor).unwrap_or_default();
            let (began, before) = (Instant::now(), ids.iter().map(used).sum::<Duration>());
            std::thread::sleep(self.idle);
            let spent = ids.iter().map(used).sum::<Duration>().saturating_sub(before);
            let watched = began.elapsed().as_secs_f64();
            row.processor_percent =
                Some(100.0 * spent.as_secs_f64() / watched / ids.len().max(1) as f64);
            Ok(row)
        })
    }

    /// Leaders killed under load, restarted, and killed again; every answer is checked.
    pub(super) fn leader_kills(&self, kills: usize) -> Result<Row, BenchError> {
        let mut row = Row::new("leader-kill", self.settings(|_| {}));
        row.settings.point.clients = KILL_SIZE.clients as u32;
        row.settings.point.outstanding = KILL_SIZE.outstanding as u32;
        self.on_fresh_cluster(&row.settings.clone(), |cluster| {
            let (runtime, counting) = count_on(cluster, KILL_SIZE, PATIENCE)?;
            let began = Instant::now();
            for _ in 0..kills {
                std::thread::sleep(CALM);
                let (recovery, catch_up) = kill_leader(cluster, &counting, &runtime)?;
                row.recoveries_ms.push(ms(recovery));
                row.catch_ups_ms.push(ms(catch_up));
            }
            row.settings.seconds = began.elapsed().as_secs_f64();
            let verdict = runtime.block_on(counting.end(PATIENCE))?;
            if !verdict.is_sound() {
                return Err(BenchError::Wrong(format!("{verdict:?}")));
            }
            Ok(row)
        })
    }
}

/// Kills the leader and restarts it: how long until a command submitted right after the kill was
/// answered, and until the replica had caught up after its restart.
fn kill_leader(
    cluster: &mut LocalCluster,
    counting: &Counting,
    runtime: &tokio::runtime::Runtime,
) -> Result<(Duration, Duration), BenchError> {
    let began = Instant::now();
    let leader = loop {
        if let Some(leader) = cluster.leader() {
            break leader;
        }
        if began.elapsed() > PATIENCE {
            let what = "no leader is known".to_owned();
            return Err(LocalError::Late { what, patience: PATIENCE }.into());
        }
    };
    cluster.kill(leader);
    let probe = {
        let _entered = runtime.enter();
        counting.probe()
    };
    let recovery =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, probe).await }).map_err(
            |_| CountingError::Late { what: "no command after a kill", patience: PATIENCE },
        )??;
    let since = Instant::now();
    cluster.restart(leader)?;
    let height = cluster.height();
    cluster.await_height(leader, height, PATIENCE)?;
    Ok((recovery, since.elapsed()))
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
