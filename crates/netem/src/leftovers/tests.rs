use super::{is_name, namespace_name, parse, parse_socket};

#[test]
fn names_say_whose_they_are() {
    let name = namespace_name(123, "wan", "clients");
    assert_eq!(name, "quorate-123-wan-clients");
    assert_eq!(parse(&name), Some((123, "wan", "clients")));
}

#[test]
fn names_of_others_are_left_alone() {
    for name in [
        "",
        "quorate-",
        "quorate-x-wan-0",
        "quorate-1-wan",
        "quorate-1--0",
        "other-1-wan-0",
        "quorate-1-WAN-0",
    ] {
        assert_eq!(parse(name), None, "{name}");
    }
    for name in ["1.sock", "x-wan.sock", "1-wan", "1-.sock", "1-a/b.sock"] {
        assert_eq!(parse_socket(name), None, "{name}");
    }
    assert_eq!(parse_socket("7-wan.sock"), Some((7, "wan")));
}

#[test]
fn a_name_cannot_lead_elsewhere() {
    assert!(is_name("wan1"));
    for name in ["", "a/b", "..", "a-b", "A", "a b", "aaaaaaaaaaaaaaaaa"] {
        assert!(!is_name(name), "{name}");
    }
}
