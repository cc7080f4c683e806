//! Files of Twins scenarios: written and read they are the same; spoilt ones are refused with their
//! place, or hold scenarios that can be written and read again.

use quorate_sim::twins::format::{Head, read, write};
use quorate_sim::twins::{Groups, Scenario, Shape, ViewScript};

use crate::allocation;
use crate::input::Input;

fn head(shape: Shape, input: &mut Input<'_>) -> Head {
    let prefix = (input.byte() & 1 == 1).then_some(3);
    Head { shape, partitions: 2, views: 4, prefix, failure: None }
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let Ok(shape) = Shape::new(4 + usize::from(input.byte() % 4), usize::from(input.byte() % 3))
    else {
        return;
    };
    let head = head(shape, &mut input);
    let mut scenarios = Vec::new();
    for _ in 0..1 + input.byte() % 3 {
        let mut views = Vec::new();
        for _ in 0..1 + input.byte() % 4 {
            let leader = input.byte() % shape.replicas() as u8;
            let cut = usize::from(input.byte()) % shape.slots();
            let groups = Groups::new(shape.slots(), |slot| u8::from(slot < cut));
            views.push(ViewScript::steady(leader, groups));
        }
        scenarios.push(Scenario { shape, views });
    }
    let numbered: Vec<_> = scenarios.iter().map(|scenario| (None, scenario.clone())).collect();
    let text = write(&head, &numbered);
    match read(&text) {
        Ok(found) => assert_eq!(found.scenarios, scenarios, "{text}"),
        Err(error) => panic!("{error}\n{text}"),
    }
    let spoilt = spoil(&text, &mut input);
    match allocation::within(256, spoilt.as_bytes(), || read(&spoilt)) {
        Err(error) => assert!(!error.place.is_empty() && !error.remedy.is_empty(), "{error}"),
        Ok(found) => {
            let numbered: Vec<_> =
                found.scenarios.iter().map(|scenario| (None, scenario.clone())).collect();
            let views = found.scenarios.iter().map(|one| one.views.len()).max().unwrap_or(1);
            let head = Head { shape: found.shape, views, ..head };
            let again = read(&write(&head, &numbered)).map(|again| again.scenarios);
            assert_eq!(again, Ok(found.scenarios));
        }
    }
}

fn spoil(text: &str, input: &mut Input<'_>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..input.byte() % 4 {
        let at = input.below(bytes.len().max(1) as u64) as usize;
        match input.byte() % 4 {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, b"[[[[".iter().copied())),
            2 => drop(bytes.splice(at..at, b"99999999999".iter().copied())),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = input.byte();
                }
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
