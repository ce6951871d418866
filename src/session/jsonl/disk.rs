//! The system calls of the store, which tests replace to inject faults.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::util::folder::sync_folder;
use crate::util::regular_file::open_regular;

/// The disk operations of a store. Tests put faults here.
pub(super) trait Disk: Send + Sync + 'static {
    /// Opens a regular file, or makes it.
    fn open(&self, options: &OpenOptions, path: &Path) -> io::Result<File> {
        open_regular(options, path)
    }

    /// Reads from the current position to the end of the file.
    fn read(&self, file: &mut File, bytes: &mut Vec<u8>) -> io::Result<usize> {
        file.read_to_end(bytes)
    }

    /// Reads the next bytes of a file, some at least unless it has ended.
    fn read_piece(&self, file: &mut File, piece: &mut [u8]) -> io::Result<usize> {
        loop {
            match file.read(piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    /// Writes some of the bytes at the file's end and returns their number.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Waits until the file's content is durable.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Truncates the file to this length.
    fn truncate(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Waits until the names in a folder are durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        sync_folder(folder)
    }

    /// Writes all of the bytes at the file's end.
    fn write_all(&self, file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(file, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written.min(bytes.len())..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The disk as it is.
#[derive(Debug)]
pub(super) struct System;

impl Disk for System {}
