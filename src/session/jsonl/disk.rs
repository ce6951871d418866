//! The system calls that may fail half-way.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::util::folder::sync_folder;

/// What a store does to a disk. Tests put faults here.
pub(super) trait Disk: Send + Sync + 'static {
    /// Writes some of the bytes at the file's end and says how many.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    /// Waits until the file's content is durable.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Cuts the file.
    fn cut(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Waits until the names in a folder are durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        sync_folder(folder)
    }
}

/// The disk as it is.
#[derive(Debug)]
pub(super) struct System;

impl Disk for System {}
