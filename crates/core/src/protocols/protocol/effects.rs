//! What a step leads to, and that nothing of it leaves before it is durable.

/// The effects of a step: records, and what may only happen once these are durable.
///
/// **Durability is a type**: the outputs can be had in no other way than by
/// [`persist`](Effects::persist)ing the records. What rests on records of *earlier* effects alone
/// may go [before](Effects::take_early), as long as those are durable: merged behind records that
/// are not, it waits with everything else.
#[derive(Clone, Debug)]
#[must_use = "effects do nothing unless they are persisted"]
pub struct Effects<O, R> {
    early: Vec<O>,
    records: Vec<R>,
    outputs: Vec<O>,
}

impl<O, R> Default for Effects<O, R> {
    fn default() -> Self {
        Self { early: Vec::new(), records: Vec::new(), outputs: Vec::new() }
    }
}

impl<O, R> Effects<O, R> {
    pub(crate) fn record(&mut self, record: R) {
        self.records.push(record);
    }

    pub(crate) fn output(&mut self, output: O) {
        self.outputs.push(output);
    }

    /// An output that rests on records of earlier effects alone.
    pub(crate) fn early(&mut self, output: O) {
        if self.records.is_empty() {
            self.early.push(output);
        } else {
            self.outputs.push(output);
        }
    }

    /// The parts, for the replica that carries a protocol's effects into its own: what may go
    /// early, the records, the rest.
    pub(crate) fn into_parts(self) -> (Vec<O>, Vec<R>, Vec<O>) {
        (self.early, self.records, self.outputs)
    }

    /// What need not wait for these records.
    #[must_use]
    pub fn take_early(&mut self) -> Vec<O> {
        std::mem::take(&mut self.early)
    }

    /// Appends what a later step wants.
    pub fn merge(&mut self, later: Self) {
        // The usual case: nothing is to be moved.
        if self.is_empty() {
            *self = later;
            return;
        }
        for output in later.early {
            self.early(output);
        }
        self.records.extend(later.records);
        self.outputs.extend(later.outputs);
    }

    /// Whether there is nothing to write and nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.early.is_empty() && self.records.is_empty() && self.outputs.is_empty()
    }

    /// What is to be written, for those who must look at it before.
    #[must_use]
    pub fn records(&self) -> &[R] {
        &self.records
    }

    /// Whether there is something to write.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Hands the records to `write`, which returns only when they are durable, and then the
    /// outputs to the caller.
    ///
    /// # Errors
    /// What `write` says. The outputs are gone then: a replica that cannot remember must not
    /// speak.
    pub fn persist<E>(self, write: impl FnOnce(Vec<R>) -> Result<(), E>) -> Result<Vec<O>, E> {
        if !self.records.is_empty() {
            mutant!("write-error-ignored", drop(write(self.records)), write(self.records)?);
        }
        if self.early.is_empty() {
            return Ok(self.outputs);
        }
        let mut outputs = self.early;
        outputs.extend(self.outputs);
        Ok(outputs)
    }
}
