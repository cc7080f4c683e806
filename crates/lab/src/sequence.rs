//! Pictures of transcripts: who sent what to whom, and what it led to.
//!
//! A transcript of `tests/scripts` goes in, an SVG that needs nothing else comes out: a lifeline
//! for each replica, time downwards, an arrow for each message. [`Transcript::parse`] reads the
//! text, [`Scene::of`] cuts a range of time out of it and bundles what belongs together, the
//! drawing lays it out so that no two labels overlap. All of it is pure: the same text gives the
//! same bytes.
//!
//! A message's arrow begins when it was sent: the link's delay earlier, which is 1 ms unless the
//! script slowed the link down (`slow r1 r2 to=20`).
//!
//! What is left out: the refusal of a vote that comes after its certificate (`Malformed(Stale)`),
//! which every view has; the number of frames in a proposal; a message that is repeated at the same
//! instant.

mod layout;
mod manifest;
mod place;
mod scene;
mod svg;
#[cfg(test)]
mod tests;
mod transcript;
mod words;

pub use manifest::{Manifest, ManifestError, Picture};
pub use scene::{Range, Scene};
pub use transcript::{Instant, Tenths, Transcript, TranscriptError};

/// The picture of what a transcript says of a range of time.
pub fn draw(transcript: &Transcript, range: Range) -> String {
    let scene = Scene::of(transcript, range);
    svg::write(&transcript.title, &layout::Layout::of(&scene))
}
