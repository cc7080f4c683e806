//! The list of the pictures that are kept, and how each is made.

use std::path::{Path, PathBuf};

use super::scene::Range;
use super::transcript::{Tenths, Transcript, TranscriptError};

/// One picture that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its file, below the manifest's folder.
    pub file: PathBuf,
    /// The transcript, below the folder of transcripts.
    pub script: PathBuf,
    /// What of it is shown.
    pub range: Range,
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// In the order of the file.
    pub pictures: Vec<Picture>,
}

/// A list that cannot be read, or a picture of it that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A line is not `file script [from=ms] [to=ms]`.
    #[error("line {line}: expected `picture.svg script.txt [from=ms] [to=ms]`, not `{text}`")]
    Line {
        /// Counted from 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// The transcript cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The transcript is not one.
    #[error("{}: {source}", path.display())]
    Transcript {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: TranscriptError,
    },
}

impl Manifest {
    /// Reads a list: a picture a line, `#` before a comment.
    ///
    /// # Errors
    /// A line that is not `file script [from=ms] [to=ms]`.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let mut pictures = Vec::new();
        for (index, text) in text.lines().enumerate() {
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let wrong = || ManifestError::Line { line: index + 1, text: text.to_owned() };
            let mut words = text.split_whitespace();
            let (Some(file), Some(script)) = (words.next(), words.next()) else {
                return Err(wrong());
            };
            let mut range = Range::default();
            for word in words {
                let (key, time) = word.split_once('=').ok_or_else(wrong)?;
                let time = Tenths::parse(time).ok_or_else(wrong)?;
                match key {
                    "from" => range.from = Some(time),
                    "to" => range.to = Some(time),
                    _ => return Err(wrong()),
                }
            }
            pictures.push(Picture { file: file.into(), script: script.into(), range });
        }
        Ok(Self { pictures })
    }
}

impl Picture {
    /// Draws it.
    ///
    /// # Errors
    /// The transcript cannot be read.
    pub fn draw(&self, scripts: &Path) -> Result<String, ManifestError> {
        let path = scripts.join(&self.script);
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ManifestError::File { path: path.clone(), source })?;
        let transcript = Transcript::parse(&text)
            .map_err(|source| ManifestError::Transcript { path, source })?;
        Ok(super::draw(&transcript, self.range))
    }
}
