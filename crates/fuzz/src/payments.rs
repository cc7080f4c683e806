//! Transactions, questions and frames of a payment network.

use bytes::Bytes;
use quorate_core::base::wire::{Decode, Encode};
use quorate_payments::Transaction;
use quorate_payments::ask::{Answer, Question, read_frame};
use quorate_payments::node::frames::Frame;

/// What is read is written the same, and nothing that cannot be read panics or takes memory.
pub(crate) fn run(input: &[u8]) {
    let bytes = Bytes::copy_from_slice(input);
    if let Ok(transaction) = Transaction::read(bytes.clone()) {
        assert_eq!(transaction.to_bytes(), input);
        assert!(transaction.inputs().is_sorted());
        assert!(transaction.outputs().iter().all(|output| output.amount > 0));
    }
    same::<Question>(&bytes);
    same::<Answer>(&bytes);
    if let Ok(frame) = Frame::read(bytes) {
        assert_eq!(frame.to_bytes(), input);
    }
}

fn same<T: Decode + Encode>(bytes: &Bytes) {
    if let Ok((number, content)) = read_frame::<T>(bytes.clone()) {
        assert_eq!(quorate_payments::ask::frame(number, &content), *bytes);
    }
}
