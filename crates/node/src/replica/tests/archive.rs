use quorate_core::protocols::hotstuff::Types;
use quorate_core::{Height, ReplicaId};
use quorate_transport::ConnectionId;

use crate::replica::archive::{Archive, Backup, Pull, Task};

fn pull(connection: u64) -> Pull {
    Pull { connection: ConnectionId(connection), from: Height(0), budget_bytes: u32::MAX }
}

fn chunk(peer: u16, chunk: u32) -> Task<Types> {
    Task::Chunk { to: ReplicaId(peer), height: Height(1), chunk }
}

/// Clients that ask without end keep neither each other nor a peer from being served.
#[test]
fn clients_cannot_fill_the_queue() {
    let (archive, queue, pulls) = Archive::new();
    for _ in 0..2000 {
        archive.pull(pull(1));
    }
    assert_eq!(pulls.try_iter().count(), 1);
    for connection in 2..2000 {
        archive.pull(pull(connection));
    }
    assert_eq!(pulls.try_iter().count(), 15);
    for peer in 0..4 {
        for number in 0..1000 {
            archive.ask(chunk(peer, number));
        }
    }
    assert_eq!(queue.try_iter().count(), 4);
    // Questions about snapshots take places of the same few.
    let backup = |connection| {
        Task::Backup(Backup { connection: ConnectionId(connection), id: 0, chunk: None })
    };
    assert!((1..2000).all(|connection| !archive.ask(backup(connection))));
    let (archive, queue, _pulls) = Archive::new();
    let taken = (0..2000).filter(|number| archive.ask(backup(number / 2))).count();
    assert_eq!((taken, queue.try_iter().count()), (16, 16));
    assert!(archive.ask(chunk(0, 0)));
}
