//! Questions that wait, a line for each connection, served by turns of cost.
//!
//! The next question is of the connection that has been served least. So a client that asks much,
//! or asks for much, waits behind itself: others wait for one question of it at most. Where there
//! is no room left, the longest line gives way.

use std::collections::{BTreeMap, VecDeque};

use quorate_transport::ConnectionId;

use super::inbox::Question;

/// Most questions that wait, in all and of one connection, and the bytes of all.
pub const MAX_WAITING: usize = 512;
pub const MAX_WAITING_OF_ONE: usize = 32;
pub const MAX_WAITING_BYTES: usize = 4 << 20;

/// The lines.
#[derive(Debug, Default)]
pub struct Lines {
    lines: BTreeMap<ConnectionId, Line>,
    waiting: usize,
    bytes: usize,
    /// What the connection served last had been served before: whoever comes now begins there.
    floor: u64,
}

#[derive(Debug, Default)]
struct Line {
    questions: VecDeque<Question>,
    /// What its questions have cost so far.
    served: u64,
}

impl Lines {
    /// Puts a question in its line. Gives back the one that there is no room for: this one, or the
    /// last of the longest line.
    pub fn push(&mut self, question: Question) -> Vec<Question> {
        let of = question.connection;
        let floor = self.floor;
        let line = self.lines.entry(of).or_default();
        if line.questions.len() >= MAX_WAITING_OF_ONE || question.bytes.len() > MAX_WAITING_BYTES {
            return vec![question];
        }
        line.served = line.served.max(floor);
        self.waiting += 1;
        self.bytes += question.bytes.len();
        line.questions.push_back(question);
        let mut left_out = Vec::new();
        while self.waiting > MAX_WAITING || self.bytes > MAX_WAITING_BYTES {
            left_out.extend(self.drop_from_longest());
        }
        left_out
    }

    /// By bytes, and of equals by the number of questions.
    fn drop_from_longest(&mut self) -> Option<Question> {
        let size = |line: &Line| {
            let bytes: usize = line.questions.iter().map(|question| question.bytes.len()).sum();
            // What of all room this line takes, in the scarcer of the two.
            let by_bytes = bytes * MAX_WAITING / MAX_WAITING_BYTES;
            (by_bytes.max(line.questions.len()), bytes)
        };
        let longest = self.lines.values_mut().max_by_key(|line| size(line))?;
        let question = longest.questions.pop_back()?;
        self.waiting -= 1;
        self.bytes -= question.bytes.len();
        Some(question)
    }

    /// The next question.
    pub fn pop(&mut self) -> Option<Question> {
        let waiting = self.lines.iter_mut().filter(|(_, line)| !line.questions.is_empty());
        let (_, line) = waiting.min_by_key(|(id, line)| (line.served, **id))?;
        let question = line.questions.pop_front()?;
        self.floor = line.served;
        self.waiting -= 1;
        self.bytes -= question.bytes.len();
        Some(question)
    }

    /// A question of this connection has cost so much.
    pub fn charge(&mut self, connection: ConnectionId, cost: u64) {
        if let Some(line) = self.lines.get_mut(&connection) {
            line.served = line.served.saturating_add(cost);
        }
        if self.waiting == 0 {
            // Nobody waited for anybody: all begin anew.
            self.lines.clear();
            self.floor = 0;
        }
    }

    /// The connection is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        if let Some(line) = self.lines.remove(&connection) {
            self.waiting -= line.questions.len();
            self.bytes -= line.questions.iter().map(|question| question.bytes.len()).sum::<usize>();
        }
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}
