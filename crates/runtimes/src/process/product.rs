//! The product of a build tool, on its way to the disk.
//!
//! The tool sends it through a pipe, and the server writes the file. A sandbox never holds a descriptor of a
//! file on the host's disk: with one it can reserve disk space behind the file's end (`fallocate` with
//! `FALLOC_FL_KEEP_SIZE`, `FS_IOC_RESVSP`), which `RLIMIT_FSIZE` does not bound. That a tool does not hand its
//! descriptors to the user code that it starts is no help, since code of the same uid may control the tool.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use flint_model::ByteSize;
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_buf},
    net::unix::pipe,
};

use super::tool::{ToolError, judge};

/// How much is read at a time: the capacity of a pipe.
const PIECE: usize = 64 << 10;

/// A new file that is received from a tool. Dropping it removes the file, unless it was kept.
#[derive(Debug)]
pub(super) struct Product {
    path: PathBuf,
    file: File,
    pipe: BufReader<pipe::Receiver>,
    most: ByteSize,
    kept: bool,
}

impl Product {
    /// Creates the file, for at most `most` bytes that come through the pipe.
    pub(super) fn create(path: &Path, most: ByteSize, pipe: pipe::Receiver) -> io::Result<Self> {
        let file = File::from_std(fs::File::create_new(path)?);
        let pipe = BufReader::with_capacity(PIECE, pipe);
        Ok(Self { path: path.to_owned(), file, pipe, most, kept: false })
    }

    /// Writes what the tool sends to the file until nobody holds the pipe's write end any more; returns the
    /// file's length. It ends only after the tool: whoever calls it bounds its time and ends the tool if it fails.
    pub(super) async fn receive(&mut self) -> Result<u64, ToolError> {
        let (path, most) = (&self.path, self.most);
        let failed = |error: io::Error| not_made(path, &error);
        let mut allowed = (&mut self.pipe).take(most.as_u64());
        // The file is written by threads that may block.
        let length = copy_buf(&mut allowed, &mut self.file).await.map_err(failed)?;
        self.file.flush().await.map_err(failed)?;
        if self.pipe.fill_buf().await.map_err(failed)?.is_empty() {
            Ok(length)
        } else {
            Err(ToolError::TooMuch(most))
        }
    }

    /// Keeps the file if its tool came to a good end, by which so many bytes had been received.
    pub(super) fn settle(mut self, made: Result<u64, ToolError>) -> Result<(), ToolError> {
        let length = made.as_ref().map_or(0, |length| *length);
        judge(made.map(drop), length, self.most)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The error of a product that could not be written.
pub(super) fn not_made(path: &Path, error: &io::Error) -> ToolError {
    ToolError::NotRun(format!("{}: {error}", path.display()))
}
