use std::time::Duration;

use super::{LATE_STEPS, destination, late_share};

fn packet(version: u8, address: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0; 28];
    packet[0] = version << 4 | 5;
    packet[16..20].copy_from_slice(&address);
    packet
}

#[test]
fn a_packet_goes_to_the_node_whose_address_it_bears() {
    assert_eq!(destination(&packet(4, [10, 86, 0, 1])), Some(0));
    assert_eq!(destination(&packet(4, [10, 86, 0, 254])), Some(253));
}

#[test]
fn what_is_for_nobody_goes_nowhere() {
    assert_eq!(destination(&packet(4, [10, 86, 0, 0])), None);
    assert_eq!(destination(&packet(4, [10, 86, 1, 1])), None);
    assert_eq!(destination(&packet(4, [224, 0, 0, 22])), None);
    assert_eq!(destination(&packet(6, [10, 86, 0, 1])), None);
}

#[test]
fn what_is_too_short_goes_nowhere() {
    let whole = packet(4, [10, 86, 0, 1]);
    for length in 0..20 {
        assert_eq!(destination(&whole[..length]), None, "{length}");
    }
}

#[test]
fn lateness_is_that_of_the_asked_share() {
    let mut late = vec![0; LATE_STEPS + 1];
    assert_eq!(late_share(&late, 0.5), Duration::ZERO);
    late[0] = 98;
    late[9] = 2;
    assert_eq!(late_share(&late, 0.5), Duration::from_micros(2));
    assert_eq!(late_share(&late, 0.99), Duration::from_micros(20));
}
