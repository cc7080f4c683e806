//! Tests of UDP alone.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::super::carrier::Carrier as _;
use super::super::udp::Udp;
use super::*;

/// The first datagram of a dialling side, and the one that follows its token.
async fn first_datagrams(token: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let sink = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = sink.local_addr().unwrap().to_string();
    let limits = Limits { handshake: PATIENCE, ..Limits::peers() };
    let way = Udp::way(&identity(0), &[identity(1).key()]).unwrap();
    let hello = Hello::peer(CHAIN, ReplicaId(0));
    let mut datagrams = [vec![0; 1 << 16], vec![0; 1 << 16]];
    tokio::select! {
        _ = Udp::dial(&way, &address, hello, limits) => panic!("a connection to nobody"),
        () = async {
            let (count, from) = sink.recv_from(&mut datagrams[0]).await.unwrap();
            datagrams[0].truncate(count);
            let answer = [&[2], &datagrams[0][1..9], token].concat();
            sink.send_to(&answer, from).await.unwrap();
            // It may have asked twice.
            while datagrams[1][0] != 3 {
                datagrams[1].resize(1 << 16, 0);
                let count = sink.recv(&mut datagrams[1]).await.unwrap();
                datagrams[1].truncate(count);
            }
        } => {}
    }
    datagrams.into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_made_up_address_takes_no_place() {
    let mut plan = Plan::new(TransportName::Udp, 2);
    (plan.limits.half_open, plan.limits.half_open_per_address) = (1, 1);
    // A forger that gets a place would keep it until it gives way, and that is counted.
    plan.limits.handshake = Duration::from_secs(3600);
    let node = plan.start(1);
    // The forger does not receive the answer, so it invents a token.
    let (ask, open) = first_datagrams(&[7; 16]).await;
    let forger = UdpSocket::bind("127.0.0.1:0").unwrap();
    forger.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = vec![0; 1 << 16];
    for _ in 0..10 {
        forger.send_to(&open, &plan.members[1].address).unwrap();
        forger.send_to(&ask, &plan.members[1].address).unwrap();
        let count = forger.recv(&mut answer).unwrap();
        assert_eq!(answer[0], 2, "a token, and no handshake");
        assert!(count < ask.len(), "{count}");
    }
    let zero = plan.start(0);
    until("connected", || zero.peers.is_connected(ReplicaId(1))).await;
    assert_eq!(value(&node.counters.gave_way), 0);
}

/// The way from replica 0 to replica 1, on which datagrams can be held back and put in.
struct Way {
    /// Where replica 0 sends to.
    front: tokio::net::UdpSocket,
    /// Where replica 1 sees it.
    back: tokio::net::UdpSocket,
    one: SocketAddr,
    zero: Mutex<Option<SocketAddr>>,
    is_cut: AtomicBool,
    /// What comes behind each datagram for replica 0.
    behind: Mutex<Vec<u8>>,
    /// What others than replica 1 sent to where replica 1 sees it.
    others: Mutex<Vec<Vec<u8>>>,
}

impl Way {
    async fn to(one: SocketAddr) -> Arc<Self> {
        let bind = || tokio::net::UdpSocket::bind("127.0.0.1:0");
        let way = Arc::new(Self {
            front: bind().await.unwrap(),
            back: bind().await.unwrap(),
            one,
            zero: Mutex::default(),
            is_cut: AtomicBool::new(false),
            behind: Mutex::default(),
            others: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&way).carry());
        way
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    async fn carry(self: Arc<Self>) {
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                Ok((count, from)) = self.front.recv_from(&mut up) => {
                    *self.zero.lock().unwrap() = Some(from);
                    if !self.is_cut.load(Ordering::Relaxed) {
                        self.back.send_to(&up[..count], self.one).await.unwrap();
                    }
                }
                Ok((count, from)) = self.back.recv_from(&mut down) => {
                    if from != self.one {
                        self.others.lock().unwrap().push(down[..count].to_vec());
                    } else if !self.is_cut.load(Ordering::Relaxed) {
                        self.to_zero(&down[..count]).await;
                        let behind = self.behind.lock().unwrap().clone();
                        self.to_zero(&behind).await;
                    }
                }
            }
        }
    }

    async fn to_zero(&self, datagram: &[u8]) {
        let zero = *self.zero.lock().unwrap();
        if let Some(zero) = zero.filter(|_| !datagram.is_empty()) {
            self.front.send_to(datagram, zero).await.unwrap();
        }
    }
}

/// A record of a session that whoever receives it does not know.
const RECORD: [u8; 100] = [0x2f; 100];

/// What replica 1 says to `socket` when it knows of no session with it.
fn mark_of(socket: &UdpSocket, one: &str) -> Vec<u8> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&RECORD, one).unwrap();
    let mut answer = vec![0; 100];
    let count = socket.recv(&mut answer).unwrap();
    answer.truncate(count);
    answer
}

/// Otherwise anybody could end anybody's connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_had_the_session_can_say_that_it_is_gone() {
    const SILENCE: Duration = Duration::from_millis(1500);
    let mut plan = Plan::new(TransportName::Udp, 2);
    plan.limits.idle = PATIENCE;
    let mut node = plan.start(1);
    let one = plan.members[1].address.clone();
    let way = Way::to(one.parse().unwrap()).await;
    plan.members[1].address = way.front.local_addr().unwrap().to_string();
    let zero = plan.start(0);
    until("connected", || zero.peers.is_connected(ReplicaId(1))).await;

    // To each address another mark is sent, so that of one is of no use against another.
    let strangers = mark_of(&UdpSocket::bind("127.0.0.1:0").unwrap(), &one);
    let other = mark_of(&UdpSocket::bind("127.0.0.1:0").unwrap(), &one);
    assert_eq!((strangers.len(), strangers[0]), (17, 4));
    assert_ne!(strangers, other);
    // What replica 1 would say of this session, had it forgotten it: as another process of it does.
    let again = Plan::new(TransportName::Udp, 2);
    let forgetful = again.start(1);
    way.back.send_to(&RECORD, &again.members[1].address).await.unwrap();
    until("it says its mark", || !way.others.lock().unwrap().is_empty()).await;
    let mark = way.others.lock().unwrap()[0].clone();
    drop(forgetful);

    // Who reads along may know the mark. It counts for nothing while replica 1 is heard.
    way.behind.lock().unwrap().clone_from(&mark);
    for number in 0..50_u8 {
        zero.peers.send(ReplicaId(1), Bytes::copy_from_slice(&[number]));
        assert_eq!(next(&mut node.inbound).await.1, [number].as_slice());
    }
    way.behind.lock().unwrap().clear();
    // Nor does any other word when it is not.
    way.cut(true);
    tokio::time::sleep(SILENCE).await;
    let longer = [&mark[..], &[0]].concat();
    let another = [&[3], &mark[1..]].concat();
    let zeros = [&[4][..], &[0; 16]].concat();
    for word in [&strangers, &other, &longer, &another, &zeros, &mark[..16].to_vec()] {
        way.to_zero(word).await;
    }
    way.cut(false);
    zero.peers.send(ReplicaId(1), Bytes::from_static(b"still here"));
    assert_eq!(next(&mut node.inbound).await.1, "still here");
    assert_eq!((value(&zero.counters.opened), value(&zero.counters.closed)), (1, 0));

    // Who had the session can end it, once it is silent.
    way.cut(true);
    tokio::time::sleep(SILENCE).await;
    let waiting = async {
        while value(&zero.counters.closed) == 0 {
            way.to_zero(&mark).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("it is believed");
    way.cut(false);
    until("connected anew", || value(&zero.counters.opened) == 2).await;
}
