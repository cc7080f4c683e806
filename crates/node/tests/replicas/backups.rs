//! Backups while replicas take snapshots.

use std::path::Path;
use std::sync::atomic::AtomicUsize;

use quorate_core::replica::message::Offer;
use quorate_node::backup::BackupError;
use quorate_node::backup::create::{Created, create};
use quorate_transport::{ClientListener, Event, Gate};

use super::*;

/// What a replica says of a snapshot.
struct Said {
    height: Height,
    offer: Bytes,
    chunks: Vec<Bytes>,
}

async fn ask((send, receive): &mut (SendHalf, ReceiveHalf), request: Request) -> Response {
    send.try_send(request.to_bytes().into()).unwrap();
    let answer = tokio::time::timeout(DEADLINE, receive.receive()).await;
    Response::from_bytes(answer.expect("an answer in time").unwrap()).unwrap()
}

impl Said {
    /// Of the first snapshot above a height, once there is one.
    async fn above(height: Height, replicas: &Replicas, client: &Client) -> Self {
        let chain = replicas.cluster().chain_digest();
        let mut replica = replicas.dial(chain).await.unwrap();
        loop {
            commit(client, 1).await;
            let answer = ask(&mut replica, Request::Offer { id: 1 }).await;
            let Response::Offer { id: 1, offer } = answer else { panic!("{answer:?}") };
            let Ok(known) = Offer::<Types>::from_bytes(offer.clone()) else { continue };
            let (below, height) = (height, known.block.height());
            if height <= below {
                continue;
            }
            let mut chunks = Vec::new();
            loop {
                let chunk = chunks.len() as u32;
                match ask(&mut replica, Request::Chunk { id: 2, height, chunk }).await {
                    Response::Chunk { id: 2, last, bytes } => {
                        chunks.push(bytes);
                        if last {
                            return Self { height, offer, chunks };
                        }
                    }
                    Response::Unproven { id: 2, .. } => {}
                    // It was replaced.
                    Response::Offer { id: 2, .. } => break,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Takes a backup of replicas that have `earlier` until somebody asks for a chunk of it, and then
/// `later`. `gives`: they send chunks of that. Returns how often they were asked for offers, too.
async fn backup(
    testnet: &Testnet,
    [earlier, later]: [Arc<Said>; 2],
    gives: bool,
    folder: &Path,
) -> (Result<Created, BackupError>, usize) {
    let mut cluster = testnet.cluster.clone();
    let offers = Arc::new(AtomicUsize::new(0));
    for (id, home) in testnet.replicas.iter().enumerate() {
        let keys = load(home, &Overrides::default()).unwrap().open_keys().unwrap();
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        cluster.members[id].client_address = address.parse().unwrap();
        let gate = Gate {
            me: ReplicaId(id as u16),
            chain: cluster.chain_digest(),
            identity: Identity::new(&keys.transport).unwrap(),
            versions: Versions::PROGRAM,
            limits: Limits::clients(),
        };
        let (sender, mut events) = inbound(64, 1 << 20);
        let listener =
            ClientListener::start(gate, socket, sender, Arc::new(|| {}), Arc::default()).unwrap();
        let (earlier, later, asked) = (earlier.clone(), later.clone(), offers.clone());
        tokio::spawn(async move {
            let mut is_replaced = false;
            while let Some((connection, event)) = events.recv().await {
                let Event::Frame(bytes) = event else { continue };
                let response = match Request::from_bytes(bytes).unwrap() {
                    Request::Offer { id } => {
                        asked.fetch_add(1, Ordering::Relaxed);
                        let said = if is_replaced { &later } else { &earlier };
                        Response::Offer { id, offer: said.offer.clone() }
                    }
                    Request::Chunk { id, height, chunk } if gives && height == later.height => {
                        let (chunk, count) = (chunk as usize, later.chunks.len());
                        let (last, bytes) = (chunk + 1 == count, later.chunks[chunk].clone());
                        Response::Chunk { id, last, bytes }
                    }
                    Request::Chunk { id, .. } => {
                        is_replaced = true;
                        Response::Offer { id, offer: later.offer.clone() }
                    }
                    Request::Pull { from, .. } => Response::Blocks { from, blocks: Vec::new() },
                    Request::Newest { id } => {
                        Response::Unproven { id, reason: Unproven::Unavailable }
                    }
                    other => panic!("{other:?}"),
                };
                // The client may be gone.
                let _ = listener.send(connection, response.to_bytes().into());
            }
        });
    }
    let made = tokio::time::timeout(DEADLINE, create(&cluster, folder, false)).await;
    (made.expect("it comes to an end"), offers.load(Ordering::Relaxed))
}

/// The newer snapshot is fetched in its place. If that goes on for ever, the backup fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_may_be_replaced_while_it_is_fetched() {
    let often = FlagSetting {
        flag: "--set".to_owned(),
        key: "storage.snapshot_every".to_owned(),
        value: "5".to_owned(),
    };
    let replicas = start_with(4, Overrides { flags: vec![often], ..Overrides::default() }).await;
    let client = replicas.client().await;
    let earlier = Arc::new(Said::above(Height(0), &replicas, &client).await);
    let later = Arc::new(Said::above(earlier.height, &replicas, &client).await);

    // Nobody began to fetch this one.
    let mut replica = replicas.dial(replicas.cluster().chain_digest()).await.unwrap();
    let gone = Request::Chunk { id: 3, height: Height(1), chunk: 0 };
    let answer = ask(&mut replica, gone).await;
    assert!(matches!(&answer, Response::Offer { id: 3, offer } if !offer.is_empty()), "{answer:?}");

    let place = tempfile::tempdir().unwrap();
    let said = [Arc::clone(&earlier), Arc::clone(&later)];
    let (made, asked) = backup(&replicas.testnet, said, true, &place.path().join("given")).await;
    assert_eq!(made.unwrap().state, Some(later.height));
    assert_eq!(asked, 8, "each was asked for what it has by now");

    let never = [Arc::clone(&earlier), later];
    let (made, asked) = backup(&replicas.testnet, never, false, &place.path().join("never")).await;
    let error = made.unwrap_err().to_string();
    assert!(error.contains("was not sent: has another snapshot by now"), "{error}");
    assert!((8..100).contains(&asked), "{asked}");
}
