use quorate_core::protocols::hotstuff::Types;
use quorate_core::{Height, ReplicaId};
use quorate_transport::ConnectionId;

use crate::replica::archive::{Archive, Task};

fn pull(connection: u64) -> Task<Types> {
    Task::Pull { connection: ConnectionId(connection), from: Height(0), budget_bytes: u32::MAX }
}

/// Clients that ask without end leave room for the peers, and for what must be written.
#[test]
fn clients_cannot_fill_the_queue() {
    let (archive, queue) = Archive::new();
    for _ in 0..2000 {
        archive.ask(pull(1));
    }
    assert_eq!(queue.try_iter().count(), 1);
    for connection in 2..2000 {
        archive.ask(pull(connection));
    }
    assert_eq!(queue.try_iter().count(), 15);
    for peer in 0..4 {
        for chunk in 0..1000 {
            archive.ask(Task::Chunk { to: ReplicaId(peer), height: Height(1), chunk });
        }
    }
    assert_eq!(queue.try_iter().count(), 4);
}
