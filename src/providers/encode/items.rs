//! A list that is written item by item.

use serde_json::{Map, Value};

use crate::error::Result;

use super::super::json::write;

/// Items that are written, with commas between them.
pub(in crate::providers) struct Items<'a> {
    out: &'a mut Vec<u8>,
    pub(in crate::providers) is_empty: bool,
}

impl<'a> Items<'a> {
    pub(in crate::providers) fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            is_empty: true,
        }
    }

    pub(in crate::providers) fn item(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        write(self.out)
    }

    pub(in crate::providers) fn object(&mut self, fields: &Map<String, Value>) -> Result<()> {
        self.item(|out| write(out, fields))
    }
}
