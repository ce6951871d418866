//! stub
use super::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_unit()
    }
}
impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(_: D) -> std::result::Result<Self, D::Error> {
        Ok(Messages::new())
    }
}
