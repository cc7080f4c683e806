//! Tests of links and networks as text: accepted descriptions, and the errors of others.

use std::time::Duration;

use quorate_netem::topology::{Description, MOST_NODES};
use quorate_netem::{Link, Topology, preset, units};

#[test]
fn quantities_are_read_as_people_write_them() {
    assert_eq!(units::duration("200us"), Ok(Duration::from_micros(200)));
    assert_eq!(units::duration("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(units::duration("0"), Ok(Duration::ZERO));
    assert_eq!(units::share("0.1%"), Ok(0.001));
    assert_eq!(units::share("1"), Ok(1.0));
    assert_eq!(units::rate("100Mbit"), Ok(100_000_000));
    assert_eq!(units::bytes("1.5KiB"), Ok(1536));
}

#[test]
fn what_is_not_a_quantity_is_refused_with_an_example() {
    for text in ["", "50", "-5ms", "61s", "nan", "infs", "1e3ms", "5 parsecs"] {
        let error = units::duration(text).expect_err(text).to_string();
        assert!(error.contains("write it like 200us"), "{error}");
    }
    for text in ["101%", "1.01", "-1%", "NaN%", "x"] {
        assert!(units::share(text).is_err(), "{text}");
    }
    for text in ["0kbit", "0.5kbit", "401Gbit", "100", "100mbit", "1MB"] {
        assert!(units::rate(text).is_err(), "{text}");
    }
    for text in ["0B", "5GiB", "5", "5KB"] {
        assert!(units::bytes(text).is_err(), "{text}");
    }
}

#[test]
fn a_link_prints_as_it_is_read() {
    let texts = [
        "",
        "delay=50ms",
        "delay=0.25ms jitter=0.1ms",
        "delay=5ms jitter=1ms distribution=normal loss=0.001 reorder=0.25 duplicate=0.5",
        "bandwidth=64kbit queue=1500B",
        "bandwidth=1.5kbit",
        "delay=100ms bandwidth=1Gbit cut=true",
    ];
    for text in texts {
        assert_eq!(Link::parse(text).expect(text).to_string(), text);
    }
}

#[test]
fn a_wrong_link_is_refused_by_its_key() {
    let wrong = [
        ("latency=5ms", "there is no \"latency\" of a link"),
        ("delay", "delay: \"\" is not a time"),
        ("loss=2", "loss: \"2\" is not a share"),
        ("bandwidth=fast", "bandwidth: \"fast\" is not a rate"),
        ("distribution=pareto", "there is no \"pareto\""),
        ("delay=1ms jitter=2ms", "jitter is more than the delay"),
        ("reorder=1%", "set one"),
        ("cut=maybe", "cut: \"maybe\" is neither true nor false"),
        ("shared=1", "shared: \"1\" is neither true nor false"),
    ];
    for (text, why) in wrong {
        let error = Link::parse(text).expect_err(text).to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_queue_holds_fifty_milliseconds_unless_told() {
    let link = Link::parse("bandwidth=80Mbit").expect("a link");
    assert_eq!(link.queue_limit_bytes(), 500_000);
    let slow = Link::parse("bandwidth=8kbit").expect("a link");
    assert_eq!(slow.queue_limit_bytes(), 30_000);
    let told = Link::parse("bandwidth=80Mbit queue=1500B").expect("a link");
    assert_eq!(told.queue_limit_bytes(), 1500);
}

fn delay_ms(topology: &Topology, from: usize, to: usize) -> f64 {
    topology.link(from, to).expect("a link").delay.as_secs_f64() * 1e3
}

#[test]
fn every_preset_makes_a_network_of_any_size() {
    for (name, _) in preset::ALL {
        for replicas in [1, 4, 32, MOST_NODES - 1] {
            let topology = Description::of_preset(name).topology(replicas).expect(name);
            assert_eq!(topology.size(), replicas + 1);
            for from in 0..topology.size() {
                for to in (0..topology.size()).filter(|to| *to != from) {
                    assert!(delay_ms(&topology, from, to) > 0.0, "{name}: {from} to {to}");
                    assert_eq!(delay_ms(&topology, from, to), delay_ms(&topology, to, from));
                }
            }
        }
    }
}

#[test]
fn presets_have_the_delays_of_their_sources() {
    let wan = Description::of_preset("wan-100ms").topology(4).expect("a network");
    assert_eq!(delay_ms(&wan, 0, 3), 100.0);
    let regions = Description::of_preset("4-regions-us").topology(5).expect("a network");
    // Virginia and California; Iowa and Texas; replicas 0 and 4 are both in Virginia.
    assert_eq!(delay_ms(&regions, 0, 3), 37.0);
    assert_eq!(delay_ms(&regions, 1, 2), 14.5);
    assert_eq!(delay_ms(&regions, 0, 4), 1.0);
    let cities = Description::of_preset("20-cities").topology(20).expect("a network");
    // Johannesburg and Sydney; London and Paris; the clients are in Virginia.
    assert_eq!(delay_ms(&cities, 12, 19), 173.5);
    assert_eq!(delay_ms(&cities, 7, 8), 6.0);
    assert_eq!(delay_ms(&cities, 20, 1), 12.0);
}

fn described(text: &str) -> Result<Topology, String> {
    let description: Description = toml::from_str(text).map_err(|error| error.to_string())?;
    description.topology(4).map_err(|error| error.to_string())
}

#[test]
fn a_description_is_a_preset_or_a_matrix_and_what_differs() {
    let topology = described(
        r#"
        rtt_ms = [[0.5, 20], [30, 1]]
        link = "loss=1%"
        clients = "near"
        [[between]]
        from = "0"
        to = "1"
        link = "bandwidth=10Mbit"
        both = false
        "#,
    )
    .expect("a network");
    let link = |from, to| topology.link(from, to).expect("a link").to_string();
    assert_eq!(link(0, 1), "delay=10ms loss=0.01 bandwidth=10Mbit");
    assert_eq!(link(1, 0), "delay=15ms loss=0.01");
    assert_eq!(link(0, 2), "delay=0.25ms loss=0.01");
    assert_eq!(link(1, 3), "delay=0.5ms loss=0.01");
    assert_eq!(link(4, 0), "loss=0.01");
}

#[test]
fn a_wrong_description_is_refused_by_its_place() {
    let wrong = [
        ("", "neither is given"),
        (
            "preset = 'mars'",
            "there is no preset \"mars\": there are lan, wan-100ms, 4-regions-us, 20-cities",
        ),
        ("preset = 'lan'\nrtt_ms = [[0]]", "leave out one"),
        ("rtt_ms = []", "has no row"),
        ("rtt_ms = [[0, 1]]", "row 0 of rtt_ms has 2 columns and there are 1 rows"),
        ("rtt_ms = [[0, 1], [1]]", "row 1 of rtt_ms has 1 columns and there are 2 rows"),
        ("rtt_ms = [[0, 1], [-1, 0]]", "rtt_ms[1][0] is -1"),
        ("rtt_ms = [[0, nan], [1, 0]]", "rtt_ms[0][1] is NaN"),
        ("rtt_ms = [[0, inf], [1, 0]]", "rtt_ms[0][1] is inf"),
        ("preset = 'lan'\nlink = 'loss=x'", "link: loss: \"x\""),
        ("preset = 'lan'\nclients = 1", "clients: there is no place 1: there are 0 to 0"),
        ("preset = 'lan'\nclients = 'far'", "clients"),
        ("preset = 'lan'\nbandwidth = '1Mbit'", "unknown field `bandwidth`"),
        (
            "preset = 'lan'\n[[between]]\nfrom='0'\nto='7'\nlink='loss=1%'",
            "between[0]: there is no node \"7\": there are 0 to 3",
        ),
        (
            "preset = 'lan'\n[[between]]\nfrom='0'\nto='1'\nlink='los=1%'",
            "between[0]: there is no \"los\"",
        ),
    ];
    for (text, why) in wrong {
        let error = described(text).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn a_network_has_one_to_254_nodes() {
    for replicas in [0, MOST_NODES, 1_000] {
        let error = Topology::uniform(replicas, &Link::default()).expect_err("too many or few");
        assert!(error.to_string().contains("from 1 to 254"), "{error}");
    }
}
