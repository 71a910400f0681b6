//! What each file is: `index.json`.

use super::message::{Kind, Message};
use prost::DecodeError;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// All that was recorded at once.
#[derive(Clone, Debug, Deserialize)]
pub struct Golden {
    /// The versions of what has a part in the bytes.
    pub made_by: BTreeMap<String, String>,
    /// The calls, by hop and then as they were made.
    pub calls: Vec<Call>,
    /// Connections of which every byte is kept.
    pub connections: Vec<Connection>,
    #[serde(skip)]
    folder: PathBuf,
}

/// One call of gRPC.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// Who calls whom.
    pub hop: String,
    /// What it is about.
    pub name: String,
    /// `:path`.
    pub method: String,
    /// The headers of the client.
    pub headers: BTreeMap<String, String>,
    /// Those of the answer, which an error has none of.
    pub answer: BTreeMap<String, String>,
    /// What the answer ends with; empty where the caller has ended the call.
    pub trailers: BTreeMap<String, String>,
    /// The messages of the client, and then those of the server.
    pub messages: Vec<Entry>,
}

/// Who has written something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Who calls.
    Client,
    /// Who answers.
    Server,
}

/// One message.
#[derive(Clone, Debug, Deserialize)]
pub struct Entry {
    /// Where its bytes are.
    pub file: PathBuf,
    /// Where the same message is as Go writes it when it has to sort maps.
    pub sorted: PathBuf,
    /// Who has sent it.
    pub by: By,
    /// What it is.
    pub r#type: Kind,
    /// What an event says: its type, and the state of its connection.
    #[serde(default)]
    pub event: String,
}

/// One connection over a unix socket.
#[derive(Clone, Debug, Deserialize)]
pub struct Connection {
    /// Who calls whom.
    pub hop: String,
    /// The first call over it.
    pub name: String,
    /// What the client has written.
    pub client: Side,
    /// What the server has written.
    pub server: Side,
}

/// What one end has written.
#[derive(Clone, Debug, Deserialize)]
pub struct Side {
    /// Where its bytes are.
    pub file: PathBuf,
    writes: String,
}

/// Why recorded bytes cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GoldenError {
    /// A file that is not there.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An index of another form.
    #[error("read the index")]
    Index(#[source] serde_json::Error),
    /// A message that our types do not take.
    #[error("decode {path}")]
    Decode {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: DecodeError,
    },
}

impl Golden {
    /// Reads an index.
    ///
    /// # Errors
    /// See [`GoldenError`].
    pub fn load(folder: &Path) -> Result<Self, GoldenError> {
        let index = read(&folder.join("index.json"))?;
        let golden: Self = serde_json::from_slice(&index).map_err(GoldenError::Index)?;
        Ok(Self {
            folder: folder.to_path_buf(),
            ..golden
        })
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn bytes(&self, file: &Path) -> Result<Vec<u8>, GoldenError> {
        read(&self.folder.join(file))
    }

    /// A message.
    ///
    /// # Errors
    /// See [`GoldenError`].
    pub fn message(&self, entry: &Entry) -> Result<Message, GoldenError> {
        let bytes = self.bytes(&entry.file)?;
        Message::decode(entry.r#type, &bytes).map_err(|source| GoldenError::Decode {
            path: entry.file.clone(),
            source,
        })
    }
}

impl Side {
    /// The writes to the socket: how many bytes each had, and how many descriptors.
    pub fn writes(&self) -> impl Iterator<Item = (usize, usize)> {
        self.writes.split_whitespace().map(|write| {
            let bytes = write.trim_end_matches('+');
            // One that is no number would not add up to the bytes that there are.
            (bytes.parse().unwrap_or(0), write.len() - bytes.len())
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, GoldenError> {
    fs::read(path).map_err(|source| GoldenError::Read {
        path: path.to_path_buf(),
        source,
    })
}
