//! A client for programs without an asynchronous runtime.

use std::future::Future;
use std::io;

use bytes::Bytes;
use quorate_core::client::{ClientError, Fatal};
use tokio::runtime::{Builder, Runtime};

use super::{Client, QueryError};

/// A [`Client`] whose calls block. Its session lives on a thread of its own.
#[derive(Debug)]
pub struct BlockingClient {
    client: Client,
    runtime: Runtime,
}

impl BlockingClient {
    /// Waits for `connect`, a call of one of [`Client`]'s constructors.
    ///
    /// # Errors
    /// If no thread can be started, or what the constructor says.
    pub fn connect(connect: impl Future<Output = Result<Client, Fatal>>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let client = runtime.block_on(connect).map_err(io::Error::other)?;
        Ok(Self { client, runtime })
    }

    /// As [`Client::submit`].
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub fn submit(&self, commands: Vec<Bytes>) -> Result<Vec<Bytes>, ClientError> {
        self.runtime.block_on(self.client.submit(commands))
    }

    /// As [`Client::query`].
    ///
    /// # Errors
    /// As [`Client::query`].
    pub fn query(&self, question: Bytes) -> Result<Bytes, QueryError> {
        self.runtime.block_on(self.client.query(question))
    }
}
