//! What a picture shows: the instants of a range of time, what happened at each, and the messages
//! between them, in bundles that get one label each.

use std::collections::{BTreeMap, BTreeSet};

use super::transcript::{Instant, Record, Tenths, Transcript, What};
use super::words::{self, Kind, Line};

/// The range of time that is shown: an arrow that begins before it or ends after it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first instant; the start if absent.
    pub from: Option<Tenths>,
    /// The last instant; the end if absent.
    pub to: Option<Tenths>,
}

impl Range {
    fn holds(&self, at: Tenths) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at <= to)
    }
}

/// All that happened at one time.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When.
    pub at: Instant,
    /// What each participant did.
    pub lines: Vec<Vec<Line>>,
    /// What the script did.
    pub notes: Vec<String>,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// Who sent it.
    pub from: usize,
    /// Who got it.
    pub to: usize,
    /// Whether it arrived where nobody was to read it.
    pub lost: bool,
}

/// Messages with the same words under way at the same time.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The [`Moment`] in which they were sent.
    pub sent: usize,
    /// The [`Moment`] in which they arrived.
    pub arrived: usize,
    /// How they are drawn.
    pub kind: Kind,
    /// What they say.
    pub label: String,
    /// Each of them.
    pub arrows: Vec<Arrow>,
}

/// When a participant was not there: the moments in which it went and came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Who.
    pub who: usize,
    /// The moment it went; it was away from the first if absent.
    pub since: Option<usize>,
    /// The moment it came back; it is away to the last if absent.
    pub until: Option<usize>,
}

/// What a picture shows.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Who takes part.
    pub participants: Vec<String>,
    /// The instants shown, in order.
    pub moments: Vec<Moment>,
    /// The messages, in the order of the transcript.
    pub bundles: Vec<Bundle>,
    /// Who was away, and when.
    pub absences: Vec<Absence>,
}

impl Scene {
    /// Cuts a range out of a transcript.
    pub fn of(transcript: &Transcript, range: Range) -> Self {
        let moments = moments(transcript, range);
        let places = moments.iter().enumerate().map(|(index, moment)| (moment.at, index)).collect();
        let participants = transcript.participants.clone();
        let scene = Self { participants, moments, ..Self::default() };
        let mut cut = Cut { scene, places, bundles: BTreeMap::new(), away: BTreeSet::new() };
        for record in &transcript.records {
            if range.to.is_none_or(|to| record.at.time <= to) {
                cut.add(record);
            }
        }
        cut.scene
    }

    /// How long nothing shown happens after a moment, if that is longer than a message takes.
    pub fn pause_below(&self, moment: usize) -> Option<Tenths> {
        let (before, after) = (self.moments.get(moment)?, self.moments.get(moment + 1)?);
        let passed = Tenths(after.at.time.0.saturating_sub(before.at.time.0));
        (passed > Tenths::LINK).then_some(passed)
    }
}

/// The instants in range in which something shown happens.
fn moments(transcript: &Transcript, range: Range) -> Vec<Moment> {
    let (mut seen, mut begun) = (BTreeSet::new(), BTreeSet::new());
    for record in &transcript.records {
        let begins = match record.what {
            What::Delivery { sent, .. } => sent.time,
            What::Unseen { .. } => continue,
            _ => record.at.time,
        };
        if range.holds(record.at.time) && range.holds(begins) {
            seen.insert(record.at);
            begun.insert(begins);
        }
    }
    let known: BTreeSet<Tenths> = seen.iter().map(|at| at.time).collect();
    seen.extend(begun.difference(&known).map(|time| Instant { time: *time, round: 0 }));
    let lines = vec![Vec::new(); transcript.participants.len()];
    seen.into_iter().map(|at| Moment { at, lines: lines.clone(), notes: Vec::new() }).collect()
}

/// A scene in the making.
struct Cut {
    scene: Scene,
    places: BTreeMap<Instant, usize>,
    /// The bundle of messages that were sent and arrived in these moments and say that.
    bundles: BTreeMap<(usize, usize, String), usize>,
    away: BTreeSet<usize>,
}

impl Cut {
    fn add(&mut self, record: &Record) {
        let place = self.places.get(&record.at).copied();
        match &record.what {
            What::Event { who, words } | What::Unseen { who, words } => {
                self.presence(*who, words, place);
            }
            _ => {}
        }
        let Some(moment) = place.and_then(|place| self.scene.moments.get_mut(place)) else {
            return;
        };
        match &record.what {
            What::Event { who, words } => {
                let lines = moment.lines.get_mut(*who);
                lines.into_iter().for_each(|lines| words::add(lines, words));
            }
            What::Note(words) => moment.notes.push(words.clone()),
            What::Delivery { from, to, sent, words } => {
                let arrow = Arrow { from: *from, to: *to, lost: self.away.contains(to) };
                let places = (self.place_of(*sent), place);
                if let (Some(sent), Some(arrived)) = places {
                    self.bundle(sent, arrived, words, arrow);
                }
            }
            What::Unseen { .. } => {}
        }
    }

    /// The moment of an instant, or the last of its time.
    fn place_of(&self, at: Instant) -> Option<usize> {
        let (found, place) = self.places.range(..=at).next_back()?;
        (found.time == at.time).then_some(*place)
    }

    fn bundle(&mut self, sent: usize, arrived: usize, words: &str, arrow: Arrow) {
        let (kind, label) = words::message(words);
        let next = self.scene.bundles.len();
        let place = *self.bundles.entry((sent, arrived, label.clone())).or_insert(next);
        match self.scene.bundles.get_mut(place) {
            Some(bundle) if bundle.arrows.contains(&arrow) => {}
            Some(bundle) => bundle.arrows.push(arrow),
            None => {
                let arrows = vec![arrow];
                self.scene.bundles.push(Bundle { sent, arrived, kind, label, arrows });
            }
        }
    }

    /// Follows who goes and comes back, also before the range.
    fn presence(&mut self, who: usize, words: &str, moment: Option<usize>) {
        let absences = &mut self.scene.absences;
        let down = words == "crashes" || words.starts_with("halts");
        if down && self.away.insert(who) {
            absences.push(Absence { who, since: moment, until: None });
        } else if words.starts_with("starts") && self.away.remove(&who) {
            let last = absences.iter().rposition(|absence| absence.who == who);
            match (last, moment) {
                (Some(last), None) => drop(absences.remove(last)),
                (Some(last), _) => {
                    absences.get_mut(last).into_iter().for_each(|last| last.until = moment);
                }
                (None, _) => {}
            }
        }
    }
}
