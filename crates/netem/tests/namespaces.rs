//! Tests of real networks: namespaces, TUN devices, the kernel's TCP and UDP.
//!
//! `needs::networks` decides where they are skipped. No test fails because the machine is slow:
//! delays have lower bounds only.

mod needs;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use quorate_netem::emulator::LinkCounters;
use quorate_netem::measure::{Probe, measure, measure_between};
use quorate_netem::{Link, Naming, NetError, Network, Settings, Topology, control, leftovers};

fn up(replicas: usize, link: &str) -> Network {
    let topology = Topology::uniform(replicas, &Link::parse(link).expect("a link"));
    Network::up(&topology.expect("a topology"), &Settings::default()).expect("a network")
}

fn named(name: &str) -> Result<Network, NetError> {
    let topology = Topology::uniform(2, &Link::default()).expect("a topology");
    Network::up(
        &topology,
        &Settings { naming: Naming::Named(name.to_owned()), ..Settings::default() },
    )
}

/// Two connected UDP sockets, at nodes 0 and 1.
fn pair(network: &Network) -> (UdpSocket, UdpSocket) {
    let nodes = network.namespaces();
    let [a, b] = [0, 1].map(|id| {
        let address = nodes[id].address();
        nodes[id].within(|| UdpSocket::bind((address, 7000))).expect("entered").expect("bound")
    });
    a.connect(b.local_addr().expect("an address")).expect("connected");
    b.connect(a.local_addr().expect("an address")).expect("connected");
    (a, b)
}

/// Sends until one packet arrives. How many were sent.
fn passes(from: &UdpSocket, to: &UdpSocket) -> u64 {
    to.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    for sent in 1..=100 {
        from.send(b"x").expect("sent");
        if to.recv(&mut [0; 8]).is_ok() {
            return sent;
        }
    }
    panic!("nothing of 100 packets arrived");
}

/// What the emulator counts of the link from node 0 to node 1, once `holds`.
fn counted(network: &Network, what: &str, holds: impl Fn(&LinkCounters) -> bool) -> LinkCounters {
    let began = Instant::now();
    loop {
        // Nodes 0, 1 and the clients: from 0 to 1 is the second.
        let link = network.report().expect("a report").links[1];
        if holds(&link) {
            return link;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {link:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_round_trip_takes_both_delays() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "delay=50ms");
    let (a, b) = pair(&network);
    let began = Instant::now();
    a.send(b"ping").expect("sent");
    b.recv(&mut [0; 8]).expect("received");
    assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
    b.send(b"pong").expect("sent");
    a.recv(&mut [0; 8]).expect("received");
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
}

#[test]
fn each_direction_has_a_link_of_its_own() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "");
    network.set("0", "1", "delay=200ms").expect("set");
    let observe = |from, to| {
        let probe = Probe { packets: 50, packets_per_second: 500, ..Probe::default() };
        measure(&network, from, to, &probe).expect("measured")
    };
    let (there, back) = (observe(0, 1), observe(1, 0));
    assert_eq!((there.arrived, back.arrived), (50, 50));
    assert!(there.delay_p1 >= Duration::from_millis(200), "{there:?}");
    let counted = network.report().expect("a report");
    // Nodes 0, 1 and the clients: from 0 to 1 is the second.
    assert_eq!((counted.links[1].sent, counted.links[1].lost), (50, 0));
    assert_eq!(counted.links[3].sent, 50);
}

#[test]
fn total_loss_loses_all() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "loss=100%");
    let probe = Probe { packets: 200, packets_per_second: 2_000, ..Probe::default() };
    let observed = measure(&network, 0, 1, &probe).expect("measured");
    assert_eq!(observed.arrived, 0);
    counted(&network, "all are lost", |link| link.lost == 200);
}

#[test]
fn what_is_lost_is_counted_and_the_rest_arrives() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "loss=20% duplicate=10%");
    let probe = Probe { packets: 2_000, packets_per_second: 4_000, ..Probe::default() };
    let observed = measure(&network, 0, 1, &probe).expect("measured");
    let link = network.report().expect("a report").links[1];
    assert_eq!(observed.sent, link.sent);
    assert_eq!(observed.arrived, link.sent - link.lost);
    assert!((250..550).contains(&link.lost), "{link:?}");
    assert!(link.duplicated > 50, "{link:?}");
}

#[test]
fn a_partition_cuts_and_heals() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "");
    let (a, b) = pair(&network);
    // One that was thought lost may be on its way to the emulator yet.
    let sent = passes(&a, &b);
    counted(&network, "all are read", |link| link.sent == sent);
    network.partition(&[vec![0], vec![1]]).expect("cut");
    for _ in 0..50 {
        a.send(b"x").expect("sent");
    }
    // The emulator has read all fifty when it reports so; none of them is written.
    let after = counted(&network, "all fifty are cut", |link| link.cut >= 50);
    assert_eq!((after.cut, after.sent - sent), (50, 50));
    network.heal().expect("healed");
    passes(&a, &b);
}

#[test]
fn tcp_carries_what_is_sent_over_a_bad_link() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "delay=5ms jitter=2ms loss=2% reorder=5% duplicate=2% bandwidth=50Mbit");
    let (server, client) = (&network.namespaces()[0], &network.namespaces()[1]);
    let listener = server
        .within(|| TcpListener::bind((server.address(), 0)))
        .expect("entered")
        .expect("bound");
    let address = listener.local_addr().expect("an address");
    let sent: Vec<u8> = (0..300_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            let stream = client.within(|| TcpStream::connect(address)).expect("entered");
            stream.expect("connected").write_all(&sent).expect("sent");
        });
        let mut received = Vec::new();
        listener.accept().expect("accepted").0.read_to_end(&mut received).expect("received");
        received
    });
    assert!(received == sent, "{} of {} bytes", received.len(), sent.len());
}

#[test]
fn bandwidth_is_not_exceeded() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "bandwidth=2Mbit");
    let probe = Probe { packets: 1, bulk: Duration::from_secs(2), ..Probe::default() };
    let observed = measure(&network, 0, 1, &probe).expect("measured");
    let bits = observed.bulk_bits.expect("a transfer");
    // Ten times as much: a receiver that is not scheduled for a while then reads everything at
    // once, or nothing in time. Without a limit it is hundreds of Mbit/s. That a limited link
    // carries what is sent, another test shows.
    assert!(bits < 20e6, "{bits}");
}

#[test]
fn processes_run_inside_and_see_their_own_network() {
    if !needs::networks() {
        return;
    }
    let network = up(2, "");
    let mut command = Command::new("ip");
    command.args(["-brief", "addr"]);
    network.replica(1).expect("replica 1").enter(&mut command);
    let said = command.output().expect("ran");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("10.86.0.2/24"), "{said}");
    assert_eq!(said.lines().count(), 2, "lo and the device: {said}");
    assert!(network.replica(2).is_none());
    assert_eq!(network.clients().node(), "clients");
    let outside = Command::new("ip").args(["-brief", "addr"]).output().expect("ran");
    assert!(!String::from_utf8_lossy(&outside.stdout).contains("10.86.0."));
}

#[test]
fn names_are_there_while_it_is_up_and_gone_afterwards() {
    if !needs::networks() {
        return;
    }
    let network = named("names").expect("a network");
    let names = network.names().to_vec();
    assert_eq!(names.len(), 3);
    let place = |name: &String| Path::new(leftovers::NAMES).join(name);
    assert!(names.iter().all(|name| place(name).exists()));
    let said =
        Command::new("ip").args(["netns", "exec", &names[0], "ip", "-brief", "addr"]).output();
    assert!(String::from_utf8_lossy(&said.expect("ran").stdout).contains("10.86.0.1/24"));
    let socket = network.socket().expect("a socket").to_owned();
    let clash = named("names").expect_err("there is one");
    assert!(matches!(clash, NetError::Clash { .. }), "{clash}");
    assert!(names.iter().all(|name| place(name).exists()), "the clash took what was there");
    drop(network);
    assert!(!names.iter().any(|name| place(name).exists()) && !socket.exists());
    named("names").expect("it is free again");
}

#[test]
fn a_running_network_is_changed_by_its_socket() {
    if !needs::networks() {
        return;
    }
    let network = named("told").expect("a network");
    let socket = network.socket().expect("a socket");
    control::ask(socket, "both 0 1 delay=30ms").expect("obeyed");
    control::ask(socket, "partition 0 clients").expect("obeyed");
    let shown = control::ask(socket, "show").expect("shown");
    assert!(
        shown.contains("0 -> 1: delay=30ms\n") && shown.contains("clients -> 0: cut=true"),
        "{shown}"
    );
    let refused = control::ask(socket, "set 0 5 delay=1ms").expect_err("no such node").to_string();
    assert!(refused.contains("there is no node \"5\""), "{refused}");
    let (a, b) = pair(&network);
    let began = Instant::now();
    passes(&a, &b);
    assert!(began.elapsed() >= Duration::from_millis(30));
    let report = control::ask(socket, "report").expect("reported");
    assert!(report.starts_with("{\"links\":["), "{report}");
    assert!(!network.is_told_to_end());
    control::ask(socket, "down").expect("obeyed");
    assert!(network.is_told_to_end());
}

#[test]
fn a_running_network_is_found_entered_and_measured_by_its_name() {
    if !needs::networks() {
        return;
    }
    let network = named("found").expect("a network");
    network.set("0", "1", "delay=30ms loss=0.5 reorder=1%").expect("set");
    let mine =
        |found: &leftovers::Found| found.name == "found" && found.owner == std::process::id();
    let found = leftovers::find().into_iter().find(mine).expect("found");
    assert!(found.alive);
    let links = control::links(&found.socket).expect("shown");
    assert_eq!(links, network.links());
    let [source, sink] = [0, 1].map(|node| found.namespace(&links, node).expect("a namespace"));
    assert_eq!((sink.node(), sink.address()), ("1", network.namespaces()[1].address()));
    let asked = links.link(0, 1).expect("a link");
    let probe = Probe { packets: 200, packets_per_second: 2_000, ..Probe::default() };
    let observed = measure_between(&source, &sink, asked, &probe).expect("measured");
    let counted = network.report().expect("a report").links[1];
    assert_eq!((observed.sent, observed.arrived), (200, 200 - counted.lost));

    let inside = |inside: &[u32], id: u32| inside.contains(&id);
    let mut sleeping = Command::new("sleep");
    sleeping.arg("60");
    network.replica(1).expect("replica 1").enter(&mut sleeping);
    let mut child = sleeping.spawn().expect("started");
    assert!(
        inside(&found.processes(), child.id()) && !inside(&found.processes(), std::process::id())
    );
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(!inside(&found.processes(), child.id()));
}

/// Not a test of its own: the owner that the next test kills.
#[test]
fn owner_to_be_killed() {
    if std::env::var_os("QUORATE_NETEM_OWNER").is_none() || !needs::networks() {
        return;
    }
    let _network = named("killed").expect("a network");
    println!("up");
    // Until it is killed, or the process that started it is gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[test]
fn what_a_killed_owner_leaves_is_removed_and_nothing_else() {
    if !needs::networks() {
        return;
    }
    let living = named("living").expect("a network");
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args(["owner_to_be_killed", "--exact", "--nocapture"])
        .env("QUORATE_NETEM_OWNER", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mine = |found: &leftovers::Found| found.owner == owner.id();
    let patience = Instant::now();
    while !leftovers::find().iter().any(|found| mine(found) && found.socket.exists()) {
        assert!(patience.elapsed() < Duration::from_secs(60), "the owner is not up");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(leftovers::find().iter().filter(|found| mine(found)).all(|found| found.alive));
    let id = owner.id();
    owner.kill().expect("killed");
    owner.wait().expect("gone");
    let left = leftovers::find().into_iter().find(|found| found.owner == id).expect("what it left");
    assert_eq!((left.namespaces.len(), left.alive), (3, false), "{left:?}");
    leftovers::remove().expect("removed");
    assert!(!leftovers::find().iter().any(|found| found.owner == id));
    assert!(living.names().iter().all(|name| Path::new(leftovers::NAMES).join(name).exists()));
    assert!(control::ask(living.socket().expect("a socket"), "show").is_ok());
}

#[test]
fn a_name_that_cannot_be_one_is_refused() {
    for name in ["", "a/b", "Net", "seventeen-letters"] {
        let error = named(name).expect_err(name);
        assert_eq!(error.remedy(), "take 1 to 16 of a-z and 0-9", "{error}");
    }
}

#[test]
fn who_may_not_is_told_what_to_do() {
    if !needs::networks() {
        return;
    }
    // Without the capabilities of root, in a thread of its own.
    let error = std::thread::spawn(|| {
        let none = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, none).expect("dropped");
        let topology = Topology::uniform(1, &Link::default()).expect("a topology");
        Network::up(&topology, &Settings::default()).expect_err("not permitted")
    });
    let error = error.join().expect("ended");
    assert_eq!(error.remedy(), "run this with sudo", "{error}");
}
